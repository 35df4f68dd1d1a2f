/* The SDK for plugins in C, which is the one for Zig with this header: a plugin is
   built by the same compiler, zig, with `wasmeter plugin build`. README.md has an
   example; host/plugin/ABI.md says what the fields and the imports are. There is no
   libc: what is declared here, and the compiler's own headers, is all there is. */
#ifndef WASMETER_H
#define WASMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this SDK. */
#define WM_VERSION "0.1.0"

/* Text is bytes that need no zero at their end. What a request gives is a view of the
   call's buffer: a hook that keeps it beyond its return must copy it. */
typedef struct { const char *ptr; size_t len; } wm_text;

/* WM_TEXT is the text of a literal. */
#define WM_TEXT(literal) ((wm_text){"" literal, sizeof(literal) - 1})

/* wm_is tells whether text is a word. */
bool wm_is(wm_text text, const char *word);

typedef struct wm_request wm_request; /* what the server knows of a request */
typedef struct wm_answer wm_answer;   /* what a hook adds or decides */
typedef struct wm_json wm_json;       /* a writer of JSON that can't write it wrong */

/* Members walk over a JSON object or list, by wm_next. */
typedef struct { wm_text text; size_t at; bool object; } wm_members;
typedef struct {
  wm_text key;   /* empty in a list */
  wm_text value; /* as it is written */
} wm_member;

/* A plugin is its hooks: a file says WM_PLUGIN(.shape = shape, .finish = finish); */
typedef struct {
  const char *(*init)(wm_members *config); /* once in each instance; why it is refused, or NULL */
  void (*request)(const wm_request *r, wm_answer *out);
  void (*shape)(const wm_request *r, wm_answer *out);
  void (*chunk)(const wm_request *r, wm_answer *out);
  int32_t (*finish)(const wm_request *r); /* 0 is success */
  /* What the plugin wants to see: wm_event_at, wm_choice_at, wm_document. */
  bool wants_events, wants_choices, wants_request_document, wants_response_document;
} wm_plugin;

#define WM_PLUGIN(...) \
  extern const wm_plugin wm_plugin_of_this_module; \
  const wm_plugin wm_plugin_of_this_module = {__VA_ARGS__}

/* The configuration, in init. wm_next gives the next member, false behind the last;
   what it decodes is kept for ever. The others are false for another type. */
bool wm_next(wm_members *members, wm_member *member);
bool wm_member_uint(const wm_member *member, uint64_t most, uint64_t *value);
bool wm_member_str(const wm_member *member, wm_text *value);
wm_members wm_members_of(wm_text value);

/* wm_join puts texts together, for why a configuration is refused:
   return wm_join(member.key, WM_TEXT(": unknown")); */
#define wm_join(...) \
  wm_join_texts((const wm_text[]){__VA_ARGS__}, sizeof((const wm_text[]){__VA_ARGS__}) / sizeof(wm_text))
const char *wm_join_texts(const wm_text *texts, size_t n);

/* The request. Stamps are nanoseconds since its arrival, 0 for what never happened. */
enum {
  WM_STREAM = 1 << 0, WM_PARTIAL = 1 << 1, WM_MULTI_CHOICE = 1 << 2, WM_MULTI_PROMPT = 1 << 3, WM_MULTI_TURN = 1 << 4,
  WM_TIMING_UNKNOWN = 1 << 5, WM_TIMINGS_WANTED = 1 << 6, WM_REPLAY = 1 << 7, WM_SYNTHETIC = 1 << 8, WM_BATCH = 1 << 9,
  WM_USAGE_CHUNK_WANTED = 1 << 10
};
enum { WM_CHAT = 1, WM_COMPLETIONS, WM_RESPONSES };
enum {
  WM_RUNNING, WM_STOP, WM_LENGTH, WM_TOOL_CALLS, WM_CLIENT_ABORT, WM_SERVER_ERROR, WM_REJECTED, WM_DEADLINE, WM_SHUTDOWN,
  WM_SLOW_READER, WM_DENIED, WM_PLUGIN_ERROR, WM_CRASH_RECOVERED
};
uint32_t wm_flags(const wm_request *r);
uint8_t wm_endpoint(const wm_request *r);
uint8_t wm_hook(const wm_request *r);
uint32_t wm_outcome(const wm_request *r);
uint16_t wm_n(const wm_request *r);
uint16_t wm_prompts(const wm_request *r);
uint16_t wm_http_status(const wm_request *r);
uint16_t wm_tool_calls(const wm_request *r);
uint64_t wm_arrival_unix_ns(const wm_request *r);
uint32_t wm_prompt_tokens(const wm_request *r);
uint32_t wm_completion_tokens(const wm_request *r);
uint32_t wm_cached_prompt_tokens(const wm_request *r);
uint32_t wm_cache_write_tokens(const wm_request *r);
uint32_t wm_reasoning_tokens(const wm_request *r);
uint32_t wm_image_tokens(const wm_request *r);
uint32_t wm_audio_tokens(const wm_request *r);
uint32_t wm_delivered_tokens(const wm_request *r);
uint32_t wm_recomputed_tokens(const wm_request *r);
uint32_t wm_preemptions(const wm_request *r);
uint32_t wm_drafted_tokens(const wm_request *r);
uint32_t wm_accepted_tokens(const wm_request *r);
uint32_t wm_max_tokens(const wm_request *r);
int32_t wm_request_priority(const wm_request *r);
uint32_t wm_slo_ttft_ms(const wm_request *r);
uint32_t wm_slo_tpot_ms(const wm_request *r);
uint32_t wm_request_deadline_ms(const wm_request *r);
uint64_t wm_queued_ns(const wm_request *r);
uint64_t wm_scheduled_ns(const wm_request *r);
uint64_t wm_first_token_ns(const wm_request *r);
uint64_t wm_last_token_ns(const wm_request *r);
uint64_t wm_finished_ns(const wm_request *r);
uint64_t wm_device_ns(const wm_request *r);
uint64_t wm_record_seq(const wm_request *r);

wm_text wm_request_id(const wm_request *r);
wm_text wm_attempt_id(const wm_request *r);
wm_text wm_client_request_id(const wm_request *r);
wm_text wm_model(const wm_request *r);
wm_text wm_tenant(const wm_request *r);
wm_text wm_key_name(const wm_request *r);
wm_text wm_adapter(const wm_request *r);
wm_text wm_service_tier(const wm_request *r);
wm_text wm_user_hash(const wm_request *r);
wm_text wm_idempotency_key(const wm_request *r);
wm_text wm_metadata(const wm_request *r);
wm_text wm_chain_id(const wm_request *r);
wm_text wm_carried(const wm_request *r); /* what an earlier hook left */
wm_text wm_spec_json(const wm_request *r);
wm_text wm_document(const wm_request *r);

typedef struct {
  uint64_t t_ns;
  uint16_t kind, flags;
  uint32_t n_tokens, batch_tokens, aux;
} wm_event;
typedef struct {
  uint64_t queued_ns, scheduled_ns, first_token_ns, last_token_ns, device_ns;
  uint32_t index, prompt_index, finish_reason, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens,
      delivered_tokens, drafted, accepted, spec_steps;
} wm_choice;

/* Event or choice i, counted from 0; false behind the last. */
bool wm_event_at(const wm_request *r, uint32_t i, wm_event *event);
bool wm_choice_at(const wm_request *r, uint32_t i, wm_choice *choice);

/* What is written is members of an object, or elements of a list, whose key is
   ignored. Text is escaped, and what is left open is closed when the hook returns. */
void wm_object(wm_json *w, const char *key);
void wm_list(wm_json *w, const char *key);
void wm_end(wm_json *w); /* of the innermost object or list */
void wm_str(wm_json *w, const char *key, const char *value);
void wm_put(wm_json *w, const char *key, wm_text value);
void wm_int(wm_json *w, const char *key, int64_t value);
void wm_uint(wm_json *w, const char *key, uint64_t value);
void wm_bool(wm_json *w, const char *key, bool value);
void wm_null(wm_json *w, const char *key);
void wm_millis(wm_json *w, const char *key, uint64_t ns);                 /* exactly: 1500000 is 1.5 */
void wm_ratio(wm_json *w, const char *key, uint64_t num, uint64_t den);   /* rounded half up to 6 places */
void wm_raw(wm_json *w, const char *key, wm_text json);                   /* what is JSON already */

/* The answer. Each but carry needs a grant. */
wm_json *wm_fields(wm_answer *out);
wm_json *wm_usage(wm_answer *out);
wm_json *wm_headers(wm_answer *out);
void wm_carry(wm_answer *out, wm_text text);
void wm_deny(wm_answer *out, uint16_t status, const char *code, const char *message, uint32_t retry_after);
void wm_priority(wm_answer *out, int32_t value);
void wm_deadline_ms(wm_answer *out, uint32_t value);
void wm_replace(wm_answer *out, wm_text json);

/* The host. Each but log needs a grant, and is imported only by a plugin that calls
   it. The results are 0 for success, or below 0. */
enum { WM_DEBUG, WM_INFO, WM_WARN, WM_ERROR };
enum { WM_ABSENT = -1, WM_NOT_ALLOWED = -2, WM_TOO_LARGE = -3, WM_BAD_POINTER = -4, WM_QUOTA = -5, WM_UNAVAILABLE = -6 };
void wm_log(int32_t level, wm_text text);
wm_json *wm_record(void); /* an empty record for wm_emit; there is one */
int32_t wm_emit(int32_t kind, wm_json *record);
int32_t wm_metric_add(uint32_t metric, uint32_t series, double value);
int32_t wm_metric_observe(uint32_t metric, uint32_t series, double value);
int32_t wm_kv_get(wm_text key, wm_text *value); /* good until the next wm_kv_get */
int32_t wm_kv_set(wm_text key, wm_text value, uint32_t ttl_s);
int32_t wm_kv_add(wm_text key, int64_t delta, uint32_t ttl_s, int64_t *sum);
int64_t wm_now_unix_ns(void);

#endif
