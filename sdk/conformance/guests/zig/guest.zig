//! The guest of the conformance kit; ../../README.md says what it does.

const std = @import("std");
const wasmeter = @import("wasmeter");
const Answer = wasmeter.Answer;
const Json = wasmeter.Json;
const Request = wasmeter.Request;

pub const panic = wasmeter.panic;
comptime {
    wasmeter.plugin(@This());
}

pub const wants_events = true;
pub const wants_choices = true;
pub const wants_request_document = true;
pub const wants_response_document = true;

const Do = enum { none, echo, numbers, config, answer, trap, loop, hoard, refuse, bad };

var do: Do = .none;
var about: wasmeter.Members = .of("");

pub fn init(config: wasmeter.Members) ?[]const u8 {
    var why: []const u8 = "";
    var members = config;
    while (members.next()) |member| {
        if (std.mem.eql(u8, member.key, "do")) {
            do = std.meta.stringToEnum(Do, member.str() orelse "") orelse .none;
        } else if (std.mem.eql(u8, member.key, "why")) {
            why = member.str() orelse "";
        } else if (std.mem.eql(u8, member.key, "about")) {
            // The buffer is the next call's.
            about = .of(std.heap.wasm_allocator.dupe(u8, member.value) catch "");
        }
    }
    return if (do == .refuse) why else null;
}

pub fn request(r: Request, out: *Answer) void {
    out.headers.str("x-tenant", r.tenant());
    out.carry(r.tenant());
    if (r.prompts() == 0) {
        out.deny(.{ .status = r.httpStatus(), .code = "denied", .message = "no prompts", .retry_after = r.maxTokens() });
    } else {
        out.priority(r.priority());
        out.deadlineMs(r.deadlineMs());
    }
}

pub fn chunk(r: Request, out: *Answer) void {
    out.replace(r.document());
}

pub fn shape(r: Request, out: *Answer) void {
    switch (do) {
        .echo => echo(r, &out.fields),
        .numbers => numbers(r, &out.fields),
        .config => configMembers(&out.fields),
        .answer => {
            out.fields.uint("x_n", r.n());
            out.fields.object("x_open");
            out.usage.str("x_model", r.model());
            out.headers.str("x-tenant", r.tenant());
            out.carry(r.tenant());
        },
        .trap => @panic("a trap was asked for"),
        .loop => loop(),
        .hoard => while (true) {
            const block = std.heap.wasm_allocator.alloc(u8, 1 << 20) catch @panic("out of memory");
            block[0] = 1;
        },
        else => {},
    }
}

/// Turns for ever; the volatile read keeps the loop from being left out.
fn loop() void {
    const never: *const volatile u32 = &zero;
    while (never.* == 0) {}
}

var zero: u32 = 0;

fn echo(r: Request, w: *Json) void {
    w.object("x_echo");
    w.object("header");
    w.uint("flags", @as(u32, @bitCast(r.flags())));
    w.uint("endpoint", @backingInt(r.endpoint()));
    w.uint("hook", r.hook());
    w.uint("outcome", @backingInt(r.outcome()));
    w.uint("n", r.n());
    w.uint("prompts", r.prompts());
    w.uint("http_status", r.httpStatus());
    w.uint("tool_calls", r.toolCalls());
    w.uint("arrival_unix_ns", r.arrivalUnixNs());
    w.uint("prompt_tokens", r.promptTokens());
    w.uint("completion_tokens", r.completionTokens());
    w.uint("cached_prompt_tokens", r.cachedPromptTokens());
    w.uint("cache_write_tokens", r.cacheWriteTokens());
    w.uint("reasoning_tokens", r.reasoningTokens());
    w.uint("image_tokens", r.imageTokens());
    w.uint("audio_tokens", r.audioTokens());
    w.uint("delivered_tokens", r.deliveredTokens());
    w.uint("recomputed_tokens", r.recomputedTokens());
    w.uint("preemptions", r.preemptions());
    w.uint("drafted_tokens", r.draftedTokens());
    w.uint("accepted_tokens", r.acceptedTokens());
    w.uint("max_tokens", r.maxTokens());
    w.int("priority", r.priority());
    w.uint("slo_ttft_ms", r.sloTtftMs());
    w.uint("slo_tpot_ms", r.sloTpotMs());
    w.uint("deadline_ms", r.deadlineMs());
    w.uint("queued_ns", r.queuedNs());
    w.uint("scheduled_ns", r.scheduledNs());
    w.uint("first_token_ns", r.firstTokenNs());
    w.uint("last_token_ns", r.lastTokenNs());
    w.uint("finished_ns", r.finishedNs());
    w.uint("device_ns", r.deviceNs());
    w.uint("record_seq", r.recordSeq());
    w.end();
    w.list("strings");
    for ([_][]const u8{
        r.requestId(),   r.attemptId(), r.clientRequestId(), r.model(),    r.tenant(),  r.keyName(), r.adapter(),
        r.serviceTier(), r.userHash(),  r.idempotencyKey(),  r.metadata(), r.chainId(), r.carry(),   r.specJson(),
    }) |text| w.str("", text);
    w.end();
    w.list("events");
    var events = r.events();
    while (events.next()) |e| {
        w.list("");
        for ([_]u64{ e.t_ns, @backingInt(e.kind), e.flags, e.n_tokens, e.batch_tokens, e.aux }) |n| w.uint("", n);
        w.end();
    }
    w.end();
    w.list("choices");
    var choices = r.choices();
    while (choices.next()) |c| {
        w.list("");
        for ([_]u64{
            c.index,            c.prompt_index,     @backingInt(c.finish_reason), c.prompt_tokens, c.cached_tokens,  c.completion_tokens,
            c.reasoning_tokens, c.delivered_tokens, c.queued_ns,                  c.scheduled_ns,  c.first_token_ns, c.last_token_ns,
            c.device_ns,        c.drafted,          c.accepted,                   c.spec_steps,
        }) |n| w.uint("", n);
        w.end();
    }
    w.end();
    w.str("document", r.document());
    w.end();
}

fn numbers(r: Request, w: *Json) void {
    w.object("x_numbers");
    w.int("int", @bitCast(r.deviceNs()));
    w.uint("uint", r.recordSeq());
    w.millis("millis", r.queuedNs());
    w.ratio("ratio", r.queuedNs(), r.scheduledNs());
    w.boolean("yes", true);
    w.boolean("no", false);
    w.nil("nothing");
    w.list("lists");
    w.list("");
    w.end();
    w.object("");
    w.end();
    w.list("");
    w.int("", -1);
    w.str("", "a");
    w.object("");
    w.nil("b"); // four are left open
}

fn configMembers(w: *Json) void {
    w.list("x_config");
    var list = about;
    while (list.next()) |member| {
        w.object("");
        w.str("key", member.key);
        w.str("value", member.value);
        if (member.str()) |text| w.str("str", text) else w.nil("str");
        if (member.uint(std.math.maxInt(u64))) |n| w.uint("uint", n) else w.nil("uint");
        var count: u64 = 0;
        var below = member.members();
        while (below.next()) |_| count += 1;
        w.uint("members", count);
        w.end();
    }
    w.end();
}

pub fn finish(r: Request) !void {
    if (do == .bad) return bad(r);
    wasmeter.log(@fromBackingInt(@intCast(@backingInt(r.outcome()) % 4)), r.tenant());
    const first = wasmeter.record();
    first.str("tenant", r.tenant());
    first.uint("tokens", r.completionTokens());
    const half = @as(f64, @floatFromInt(r.promptTokens())) / 2;
    const emitted = code(wasmeter.emit(r.priority(), first));
    const added = code(wasmeter.metricAdd(r.n(), r.prompts(), half));
    const observed = code(wasmeter.metricObserve(r.n(), r.prompts(), half));
    const set = code(wasmeter.kvSet(r.tenant(), r.model(), r.maxTokens()));

    const w = wasmeter.record();
    w.int("emit", emitted);
    w.int("metric_add", added);
    w.int("metric_observe", observed);
    w.int("kv_set", set);
    if (wasmeter.kvGet(r.tenant())) |value| {
        if (value) |text| w.str("kv_get", text) else w.nil("kv_get");
    } else |err| w.int("kv_get", wasmeter.errorCode(err));
    if (wasmeter.kvAdd(r.tenant(), @bitCast(r.deviceNs()), r.maxTokens())) |sum| {
        w.int("kv_add", sum);
    } else |err| w.int("kv_add", wasmeter.errorCode(err));
    w.int("now_unix_ns", wasmeter.nowUnixNs());
    try wasmeter.emit(0, w);
}

fn code(result: wasmeter.HostError!void) i32 {
    return if (result) |_| 0 else |err| wasmeter.errorCode(err);
}

fn bad(r: Request) !void {
    const to, const size = .{ 0xfffffff0, 64 };
    const key: u32, const len: u32 = .{ @intCast(@intFromPtr(r.tenant().ptr)), @intCast(r.tenant().len) };
    wasmeter.imports.log(1, to, size);
    const w = wasmeter.record();
    w.int("emit", wasmeter.imports.emit(1, to, size));
    w.int("kv_get_key", wasmeter.imports.kv_get(to, size, key, len));
    w.int("kv_get_buffer", wasmeter.imports.kv_get(key, len, to, size));
    w.int("kv_set_key", wasmeter.imports.kv_set(to, size, key, len, 1));
    w.int("kv_set_value", wasmeter.imports.kv_set(key, len, to, size, 1));
    w.int("kv_add", std.math.minInt(i64) -% wasmeter.imports.kv_add(to, size, 1, 1));
    try wasmeter.emit(0, w);
}
