// The guest of the conformance kit; ../../README.md says what it does.

#include "wasmeter.h"

enum doing { NONE, ECHO, NUMBERS, CONFIG, ANSWER, TRAP, LOOP, HOARD, REFUSE, BAD };

static enum doing what_to_do;
static char about_bytes[4096];
static wm_text about;

static enum doing doing_of(wm_text word) {
  static const char *const words[] = {"none", "echo", "numbers", "config", "answer", "trap", "loop", "hoard", "refuse", "bad"};
  for (int i = 0; i < 10; i++) {
    if (wm_is(word, words[i])) return i;
  }
  return NONE;
}

static const char *init(wm_members *config) {
  wm_text why = WM_TEXT(""), word;
  wm_member member;
  while (wm_next(config, &member)) {
    if (wm_is(member.key, "do")) {
      what_to_do = wm_member_str(&member, &word) ? doing_of(word) : NONE;
    } else if (wm_is(member.key, "why")) {
      wm_member_str(&member, &why);
    } else if (wm_is(member.key, "about") && member.value.len <= sizeof about_bytes) {
      // The buffer is the next call's.
      __builtin_memcpy(about_bytes, member.value.ptr, member.value.len);
      about = (wm_text){about_bytes, member.value.len};
    }
  }
  return what_to_do == REFUSE ? wm_join(why) : NULL;
}

static void request(const wm_request *r, wm_answer *out) {
  wm_put(wm_headers(out), "x-tenant", wm_tenant(r));
  wm_carry(out, wm_tenant(r));
  if (wm_prompts(r) == 0) {
    wm_deny(out, wm_http_status(r), "denied", "no prompts", wm_max_tokens(r));
  } else {
    wm_priority(out, wm_request_priority(r));
    wm_deadline_ms(out, wm_request_deadline_ms(r));
  }
}

static void chunk(const wm_request *r, wm_answer *out) { wm_replace(out, wm_document(r)); }

static void header(const wm_request *r, wm_json *w) {
  wm_object(w, "header");
  wm_uint(w, "flags", wm_flags(r));
  wm_uint(w, "endpoint", wm_endpoint(r));
  wm_uint(w, "hook", wm_hook(r));
  wm_uint(w, "outcome", wm_outcome(r));
  wm_uint(w, "n", wm_n(r));
  wm_uint(w, "prompts", wm_prompts(r));
  wm_uint(w, "http_status", wm_http_status(r));
  wm_uint(w, "tool_calls", wm_tool_calls(r));
  wm_uint(w, "arrival_unix_ns", wm_arrival_unix_ns(r));
  wm_uint(w, "prompt_tokens", wm_prompt_tokens(r));
  wm_uint(w, "completion_tokens", wm_completion_tokens(r));
  wm_uint(w, "cached_prompt_tokens", wm_cached_prompt_tokens(r));
  wm_uint(w, "cache_write_tokens", wm_cache_write_tokens(r));
  wm_uint(w, "reasoning_tokens", wm_reasoning_tokens(r));
  wm_uint(w, "image_tokens", wm_image_tokens(r));
  wm_uint(w, "audio_tokens", wm_audio_tokens(r));
  wm_uint(w, "delivered_tokens", wm_delivered_tokens(r));
  wm_uint(w, "recomputed_tokens", wm_recomputed_tokens(r));
  wm_uint(w, "preemptions", wm_preemptions(r));
  wm_uint(w, "drafted_tokens", wm_drafted_tokens(r));
  wm_uint(w, "accepted_tokens", wm_accepted_tokens(r));
  wm_uint(w, "max_tokens", wm_max_tokens(r));
  wm_int(w, "priority", wm_request_priority(r));
  wm_uint(w, "slo_ttft_ms", wm_slo_ttft_ms(r));
  wm_uint(w, "slo_tpot_ms", wm_slo_tpot_ms(r));
  wm_uint(w, "deadline_ms", wm_request_deadline_ms(r));
  wm_uint(w, "queued_ns", wm_queued_ns(r));
  wm_uint(w, "scheduled_ns", wm_scheduled_ns(r));
  wm_uint(w, "first_token_ns", wm_first_token_ns(r));
  wm_uint(w, "last_token_ns", wm_last_token_ns(r));
  wm_uint(w, "finished_ns", wm_finished_ns(r));
  wm_uint(w, "device_ns", wm_device_ns(r));
  wm_uint(w, "record_seq", wm_record_seq(r));
  wm_end(w);
}

static void strings(const wm_request *r, wm_json *w) {
  const wm_text texts[] = {
      wm_request_id(r), wm_attempt_id(r), wm_client_request_id(r), wm_model(r), wm_tenant(r), wm_key_name(r), wm_adapter(r),
      wm_service_tier(r), wm_user_hash(r), wm_idempotency_key(r), wm_metadata(r), wm_chain_id(r), wm_carried(r), wm_spec_json(r),
  };
  wm_list(w, "strings");
  for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) wm_put(w, "", texts[i]);
  wm_end(w);
}

static void row(wm_json *w, const uint64_t *numbers, unsigned n) {
  wm_list(w, "");
  for (unsigned i = 0; i < n; i++) wm_uint(w, "", numbers[i]);
  wm_end(w);
}

static void tables(const wm_request *r, wm_json *w) {
  wm_event e;
  wm_list(w, "events");
  for (uint32_t i = 0; wm_event_at(r, i, &e); i++) {
    row(w, (const uint64_t[]){e.t_ns, e.kind, e.flags, e.n_tokens, e.batch_tokens, e.aux}, 6);
  }
  wm_end(w);
  wm_choice c;
  wm_list(w, "choices");
  for (uint32_t i = 0; wm_choice_at(r, i, &c); i++) {
    row(w, (const uint64_t[]){c.index, c.prompt_index, c.finish_reason, c.prompt_tokens, c.cached_tokens, c.completion_tokens,
        c.reasoning_tokens, c.delivered_tokens, c.queued_ns, c.scheduled_ns, c.first_token_ns, c.last_token_ns, c.device_ns,
        c.drafted, c.accepted, c.spec_steps}, 16);
  }
  wm_end(w);
}

static void echo(const wm_request *r, wm_json *w) {
  wm_object(w, "x_echo");
  header(r, w);
  strings(r, w);
  tables(r, w);
  wm_put(w, "document", wm_document(r));
  wm_end(w);
}

static void numbers(const wm_request *r, wm_json *w) {
  wm_object(w, "x_numbers");
  wm_int(w, "int", (int64_t)wm_device_ns(r));
  wm_uint(w, "uint", wm_record_seq(r));
  wm_millis(w, "millis", wm_queued_ns(r));
  wm_ratio(w, "ratio", wm_queued_ns(r), wm_scheduled_ns(r));
  wm_bool(w, "yes", true);
  wm_bool(w, "no", false);
  wm_null(w, "nothing");
  wm_list(w, "lists");
  wm_list(w, "");
  wm_end(w);
  wm_object(w, "");
  wm_end(w);
  wm_list(w, "");
  wm_int(w, "", -1);
  wm_str(w, "", "a");
  wm_object(w, "");
  wm_null(w, "b"); // four are left open
}

static void config_members(wm_json *w) {
  wm_members list = wm_members_of(about), below;
  wm_member member, inner;
  wm_text text;
  uint64_t number;
  wm_list(w, "x_config");
  while (wm_next(&list, &member)) {
    wm_object(w, "");
    wm_put(w, "key", member.key);
    wm_put(w, "value", member.value);
    if (wm_member_str(&member, &text)) wm_put(w, "str", text);
    else wm_null(w, "str");
    if (wm_member_uint(&member, UINT64_MAX, &number)) wm_uint(w, "uint", number);
    else wm_null(w, "uint");
    uint64_t count = 0;
    for (below = wm_members_of(member.value); wm_next(&below, &inner);) count++;
    wm_uint(w, "members", count);
    wm_end(w);
  }
  wm_end(w);
}

static void hoard(void) {
  const unsigned block = 16; // pages of 64 KiB
  for (;;) {
    size_t page = __builtin_wasm_memory_grow(0, block);
    if (page == (size_t)-1) __builtin_trap();
    *(volatile char *)(page << 16) = 1;
  }
}

static void shape(const wm_request *r, wm_answer *out) {
  static volatile int never;
  switch (what_to_do) {
  case ECHO: echo(r, wm_fields(out)); break;
  case NUMBERS: numbers(r, wm_fields(out)); break;
  case CONFIG: config_members(wm_fields(out)); break;
  case ANSWER:
    wm_uint(wm_fields(out), "x_n", wm_n(r));
    wm_object(wm_fields(out), "x_open");
    wm_put(wm_usage(out), "x_model", wm_model(r));
    wm_put(wm_headers(out), "x-tenant", wm_tenant(r));
    wm_carry(out, wm_tenant(r));
    break;
  case TRAP: __builtin_trap();
  case LOOP:
    while (never == 0) {}
  case HOARD: hoard();
  default: break;
  }
}

// The imports themselves, for pointers that no SDK passes on.
#define IMPORT(name) __attribute__((import_module("wasmeter_v1"), import_name(name)))
IMPORT("log") void import_log(int32_t level, uint32_t ptr, uint32_t len);
IMPORT("emit") int32_t import_emit(int32_t kind, uint32_t ptr, uint32_t len);
IMPORT("kv_get") int32_t import_kv_get(uint32_t kptr, uint32_t klen, uint32_t buf, uint32_t cap);
IMPORT("kv_set") int32_t import_kv_set(uint32_t kptr, uint32_t klen, uint32_t vptr, uint32_t vlen, uint32_t ttl_s);
IMPORT("kv_add") int64_t import_kv_add(uint32_t kptr, uint32_t klen, int64_t delta, uint32_t ttl_s);

static int32_t bad(const wm_request *r) {
  const uint32_t to = 0xfffffff0, size = 64, key = (uint32_t)wm_tenant(r).ptr, len = wm_tenant(r).len;
  import_log(1, to, size);
  wm_json *w = wm_record();
  wm_int(w, "emit", import_emit(1, to, size));
  wm_int(w, "kv_get_key", import_kv_get(to, size, key, len));
  wm_int(w, "kv_get_buffer", import_kv_get(key, len, to, size));
  wm_int(w, "kv_set_key", import_kv_set(to, size, key, len, 1));
  wm_int(w, "kv_set_value", import_kv_set(key, len, to, size, 1));
  wm_int(w, "kv_add", INT64_MIN - import_kv_add(to, size, 1, 1));
  return wm_emit(0, w);
}

static int32_t finish(const wm_request *r) {
  if (what_to_do == BAD) return bad(r);
  wm_log(wm_outcome(r) % 4, wm_tenant(r));
  wm_json *w = wm_record();
  wm_put(w, "tenant", wm_tenant(r));
  wm_uint(w, "tokens", wm_completion_tokens(r));
  const double half = wm_prompt_tokens(r) / 2.0;
  const int32_t emitted = wm_emit(wm_request_priority(r), w);
  const int32_t added = wm_metric_add(wm_n(r), wm_prompts(r), half);
  const int32_t observed = wm_metric_observe(wm_n(r), wm_prompts(r), half);
  const int32_t set = wm_kv_set(wm_tenant(r), wm_model(r), wm_max_tokens(r));

  w = wm_record();
  wm_int(w, "emit", emitted);
  wm_int(w, "metric_add", added);
  wm_int(w, "metric_observe", observed);
  wm_int(w, "kv_set", set);
  wm_text value;
  const int32_t got = wm_kv_get(wm_tenant(r), &value);
  if (got == 0) wm_put(w, "kv_get", value);
  else if (got == WM_ABSENT) wm_null(w, "kv_get");
  else wm_int(w, "kv_get", got);
  int64_t sum;
  const int32_t summed = wm_kv_add(wm_tenant(r), (int64_t)wm_device_ns(r), wm_max_tokens(r), &sum);
  wm_int(w, "kv_add", summed == 0 ? sum : summed);
  wm_int(w, "now_unix_ns", wm_now_unix_ns());
  return wm_emit(0, w);
}

WM_PLUGIN(.init = init, .request = request, .shape = shape, .chunk = chunk, .finish = finish, .wants_events = true,
          .wants_choices = true, .wants_request_document = true, .wants_response_document = true);
