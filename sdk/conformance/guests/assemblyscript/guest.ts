// The guest of the conformance kit; ../../README.md says what it does.

import {
  Answer, Buffer, HostError, Json, Members, Request, emit, errorOf, imports, kvAdd, kvGet, kvSet, logText, metricAdd,
  metricObserve, nowUnixNs, plugin, record,
} from "wasmeter";

export * from "wasmeter/exports";

plugin.wantsEvents = true;
plugin.wantsChoices = true;
plugin.wantsRequestDocument = true;
plugin.wantsResponseDocument = true;

let task = "";
let about = "";
const value = new Buffer();

plugin.init = (config) => {
  let why: string | null = "";
  for (let member = config.next(); member != null; member = config.next()) {
    if (member.key == "do") {
      const text = member.str();
      task = text ? text : "";
    } else if (member.key == "why") {
      why = member.str();
    } else if (member.key == "about") {
      about = member.value;
    }
  }
  return task == "refuse" ? why : null;
};

plugin.request = (r, out) => {
  out.headers.text("x-tenant", r.tenant);
  out.carryText(r.tenant);
  if (r.prompts == 0) {
    out.deny(r.httpStatus, "denied", "no prompts", r.maxTokens);
  } else {
    out.priority(r.priority);
    out.deadlineMs(r.deadlineMs);
  }
};

plugin.chunk = (r, out) => {
  out.replace(r.document);
};

plugin.shape = (r, out) => {
  if (task == "echo") echo(r, out.fields);
  else if (task == "numbers") numbers(r, out.fields);
  else if (task == "config") configMembers(out.fields);
  else if (task == "answer") answer(r, out);
  else if (task == "trap") throw new Error("a trap was asked for");
  else if (task == "loop") while (value.length == 0) {}
  else if (task == "hoard") while (true) heap.alloc(1 << 20);
};

function answer(r: Request, out: Answer): void {
  out.fields.uint("x_n", r.n).object("x_open");
  out.usage.text("x_model", r.model);
  out.headers.text("x-tenant", r.tenant);
  out.carryText(r.tenant);
}

function echo(r: Request, w: Json): void {
  w.object("x_echo").object("header");
  w.uint("flags", r.flags);
  w.uint("endpoint", r.endpoint);
  w.uint("hook", r.hook);
  w.uint("outcome", r.outcome);
  w.uint("n", r.n);
  w.uint("prompts", r.prompts);
  w.uint("http_status", r.httpStatus);
  w.uint("tool_calls", r.toolCalls);
  w.uint("arrival_unix_ns", r.arrivalUnixNs);
  w.uint("prompt_tokens", r.promptTokens);
  w.uint("completion_tokens", r.completionTokens);
  w.uint("cached_prompt_tokens", r.cachedPromptTokens);
  w.uint("cache_write_tokens", r.cacheWriteTokens);
  w.uint("reasoning_tokens", r.reasoningTokens);
  w.uint("image_tokens", r.imageTokens);
  w.uint("audio_tokens", r.audioTokens);
  w.uint("delivered_tokens", r.deliveredTokens);
  w.uint("recomputed_tokens", r.recomputedTokens);
  w.uint("preemptions", r.preemptions);
  w.uint("drafted_tokens", r.draftedTokens);
  w.uint("accepted_tokens", r.acceptedTokens);
  w.uint("max_tokens", r.maxTokens);
  w.int("priority", r.priority);
  w.uint("slo_ttft_ms", r.sloTtftMs);
  w.uint("slo_tpot_ms", r.sloTpotMs);
  w.uint("deadline_ms", r.deadlineMs);
  w.uint("queued_ns", r.queuedNs);
  w.uint("scheduled_ns", r.scheduledNs);
  w.uint("first_token_ns", r.firstTokenNs);
  w.uint("last_token_ns", r.lastTokenNs);
  w.uint("finished_ns", r.finishedNs);
  w.uint("device_ns", r.deviceNs);
  w.uint("record_seq", r.recordSeq);
  w.end().list("strings");
  w.text("", r.requestId).text("", r.attemptId).text("", r.clientRequestId).text("", r.model).text("", r.tenant);
  w.text("", r.keyName).text("", r.adapter).text("", r.serviceTier).text("", r.userHash).text("", r.idempotencyKey);
  w.text("", r.metadata).text("", r.chainId).text("", r.carry).text("", r.specJson);
  w.end().list("events");
  const events = r.events;
  while (events.next()) {
    w.list("").uint("", events.tNs).uint("", events.kind).uint("", events.flags);
    w.uint("", events.numTokens).uint("", events.batchTokens).uint("", events.aux).end();
  }
  w.end().list("choices");
  const c = r.choices;
  while (c.next()) {
    w.list("").uint("", c.index).uint("", c.promptIndex).uint("", c.finishReason).uint("", c.promptTokens);
    w.uint("", c.cachedTokens).uint("", c.completionTokens).uint("", c.reasoningTokens).uint("", c.deliveredTokens);
    w.uint("", c.queuedNs).uint("", c.scheduledNs).uint("", c.firstTokenNs).uint("", c.lastTokenNs).uint("", c.deviceNs);
    w.uint("", c.drafted).uint("", c.accepted).uint("", c.specSteps).end();
  }
  w.end().text("document", r.document).end();
}

function numbers(r: Request, w: Json): void {
  w.object("x_numbers");
  w.int("int", <i64>r.deviceNs).uint("uint", r.recordSeq);
  w.millis("millis", r.queuedNs).ratio("ratio", r.queuedNs, r.scheduledNs);
  w.bool("yes", true).bool("no", false).null("nothing");
  w.list("lists").list("").end().object("").end();
  w.list("").int("", -1).str("", "a").object("").null("b"); // four are left open
}

function configMembers(w: Json): void {
  w.list("x_config");
  const list = new Members(about);
  for (let member = list.next(); member != null; member = list.next()) {
    w.object("").str("key", member.key).str("value", member.value);
    const text = member.str();
    if (text != null) w.str("str", text);
    else w.null("str");
    if (member.isUint(u64.MAX_VALUE)) w.uint("uint", member.uint());
    else w.null("uint");
    let count = 0;
    const below = member.members();
    while (below.next() != null) count++;
    w.uint("members", count).end();
  }
  w.end();
}

plugin.finish = (r) => {
  if (task == "bad") return bad(r);
  logText(r.outcome % 4, r.tenant);
  const half = <f64>r.promptTokens / 2;
  const first = record().text("tenant", r.tenant).uint("tokens", r.completionTokens);
  const emitted = emit(r.priority, first);
  const added = metricAdd(r.n, r.prompts, half);
  const observed = metricObserve(r.n, r.prompts, half);
  const set = kvSet(r.tenant, r.model, r.maxTokens);

  const w = record();
  w.int("emit", emitted).int("metric_add", added).int("metric_observe", observed).int("kv_set", set);
  const got = kvGet(r.tenant, value);
  if (got >= 0) w.text("kv_get", value);
  else if (got == HostError.Absent) w.null("kv_get");
  else w.int("kv_get", got);
  const sum = kvAdd(r.tenant, <i64>r.deviceNs, r.maxTokens);
  const failure = errorOf(sum);
  w.int("kv_add", failure < 0 ? failure : sum);
  w.int("now_unix_ns", nowUnixNs());
  return emit(0, w);
};

function bad(r: Request): i32 {
  const to: usize = 0xfffffff0;
  const size: u32 = 64;
  const key = r.tenant;
  imports.log(1, to, size);
  const w = record();
  w.int("emit", imports.emit(1, to, size));
  w.int("kv_get_key", imports.kv_get(to, size, key.ptr, key.length));
  w.int("kv_get_buffer", imports.kv_get(key.ptr, key.length, to, size));
  w.int("kv_set_key", imports.kv_set(to, size, key.ptr, key.length, 1));
  w.int("kv_set_value", imports.kv_set(key.ptr, key.length, to, size, 1));
  w.int("kv_add", errorOf(imports.kv_add(to, size, 1, 1)));
  return emit(0, w);
}
