//! The SDK for plugins in C: what wasmeter.h declares, on top of the SDK for Zig.
//! The functions are hidden, so that the module exports none of them, and those
//! that a plugin does not call are left out of it, with their imports.

const std = @import("std");
const wasmeter = @import("wasmeter");
const Answer = wasmeter.Answer;
const Json = wasmeter.Json;
const Request = wasmeter.Request;

pub const panic = wasmeter.panic;

/// wm_text: bytes that need no zero at their end.
const Text = extern struct {
    ptr: ?[*]const u8 = null,
    len: usize = 0,

    fn of(text: []const u8) Text {
        return .{ .ptr = text.ptr, .len = text.len };
    }
    fn bytes(t: Text) []const u8 {
        return if (t.ptr) |ptr| ptr[0..t.len] else "";
    }
};

const Member = extern struct {
    key: Text,
    value: Text,

    fn zig(m: *const Member) wasmeter.Member {
        return .{ .key = m.key.bytes(), .value = m.value.bytes() };
    }
};

const Members = extern struct {
    text: Text,
    at: usize,
    object: bool,

    fn of(m: wasmeter.Members) Members {
        return .{ .text = .of(m.text), .at = m.at, .object = m.object };
    }
};

/// wm_plugin, the hooks that a plugin has.
const Plugin = extern struct {
    init: ?*const fn (*Members) callconv(.c) ?[*:0]const u8,
    request: ?*const fn (*const Request, *Answer) callconv(.c) void,
    shape: ?*const fn (*const Request, *Answer) callconv(.c) void,
    chunk: ?*const fn (*const Request, *Answer) callconv(.c) void,
    finish: ?*const fn (*const Request) callconv(.c) i32,
    wants_events: bool,
    wants_choices: bool,
    wants_request_document: bool,
    wants_response_document: bool,
};

extern const wm_plugin_of_this_module: Plugin;

comptime {
    wasmeter.plugin(struct {
        const p = &wm_plugin_of_this_module;

        pub fn hooks() wasmeter.Mask {
            return .{
                .shape = p.shape != null,
                .finish = p.finish != null,
                .request = p.request != null,
                .chunk = p.chunk != null,
                .events = p.wants_events,
                .response_document = p.wants_response_document,
                .request_document = p.wants_request_document,
                .choices = p.wants_choices,
            };
        }
        pub fn init(config: wasmeter.Members) ?[]const u8 {
            const read = p.init orelse return null;
            var members: Members = .of(config);
            return std.mem.span(read(&members) orelse return null);
        }
        pub fn request(r: Request, out: *Answer) void {
            if (p.request) |hook| hook(&r, out);
        }
        pub fn shape(r: Request, out: *Answer) void {
            if (p.shape) |hook| hook(&r, out);
        }
        pub fn chunk(r: Request, out: *Answer) void {
            if (p.chunk) |hook| hook(&r, out);
        }
        pub fn finish(r: Request) error{FinishFailed}!void {
            const hook = p.finish orelse return;
            if (hook(&r) != 0) return error.FinishFailed;
        }
    });
}

fn hidden(comptime name: []const u8, comptime function: anytype) void {
    @export(function, .{ .name = "wm_" ++ name, .visibility = .hidden });
}

/// A field of the request that is a number or a code.
fn number(comptime name: []const u8, comptime T: type, comptime method: anytype) void {
    const f = struct {
        fn get(r: *const Request) callconv(.c) T {
            const value = method(r.*);
            return switch (@typeInfo(@TypeOf(value))) {
                .@"enum" => @backingInt(value),
                .@"struct" => @bitCast(value),
                else => value,
            };
        }
    };
    hidden(name, &f.get);
}

fn string(comptime name: []const u8, comptime method: anytype) void {
    const f = struct {
        fn get(r: *const Request) callconv(.c) Text {
            return .of(method(r.*));
        }
    };
    hidden(name, &f.get);
}

comptime {
    number("flags", u32, Request.flags);
    number("endpoint", u8, Request.endpoint);
    number("hook", u8, Request.hook);
    number("outcome", u32, Request.outcome);
    number("n", u16, Request.n);
    number("prompts", u16, Request.prompts);
    number("http_status", u16, Request.httpStatus);
    number("tool_calls", u16, Request.toolCalls);
    number("arrival_unix_ns", u64, Request.arrivalUnixNs);
    number("prompt_tokens", u32, Request.promptTokens);
    number("completion_tokens", u32, Request.completionTokens);
    number("cached_prompt_tokens", u32, Request.cachedPromptTokens);
    number("cache_write_tokens", u32, Request.cacheWriteTokens);
    number("reasoning_tokens", u32, Request.reasoningTokens);
    number("image_tokens", u32, Request.imageTokens);
    number("audio_tokens", u32, Request.audioTokens);
    number("delivered_tokens", u32, Request.deliveredTokens);
    number("recomputed_tokens", u32, Request.recomputedTokens);
    number("preemptions", u32, Request.preemptions);
    number("drafted_tokens", u32, Request.draftedTokens);
    number("accepted_tokens", u32, Request.acceptedTokens);
    number("max_tokens", u32, Request.maxTokens);
    number("request_priority", i32, Request.priority);
    number("slo_ttft_ms", u32, Request.sloTtftMs);
    number("slo_tpot_ms", u32, Request.sloTpotMs);
    number("request_deadline_ms", u32, Request.deadlineMs);
    number("queued_ns", u64, Request.queuedNs);
    number("scheduled_ns", u64, Request.scheduledNs);
    number("first_token_ns", u64, Request.firstTokenNs);
    number("last_token_ns", u64, Request.lastTokenNs);
    number("finished_ns", u64, Request.finishedNs);
    number("device_ns", u64, Request.deviceNs);
    number("record_seq", u64, Request.recordSeq);

    string("request_id", Request.requestId);
    string("attempt_id", Request.attemptId);
    string("client_request_id", Request.clientRequestId);
    string("model", Request.model);
    string("tenant", Request.tenant);
    string("key_name", Request.keyName);
    string("adapter", Request.adapter);
    string("service_tier", Request.serviceTier);
    string("user_hash", Request.userHash);
    string("idempotency_key", Request.idempotencyKey);
    string("metadata", Request.metadata);
    string("chain_id", Request.chainId);
    string("carried", Request.carry);
    string("spec_json", Request.specJson);
    string("document", Request.document);
}

/// The records of a table, as C has them.
fn Mirror(comptime T: type) type {
    return if (T == wasmeter.Event) extern struct {
        t_ns: u64,
        kind: u16,
        flags: u16,
        n_tokens: u32,
        batch_tokens: u32,
        aux: u32,
    } else extern struct {
        queued_ns: u64,
        scheduled_ns: u64,
        first_token_ns: u64,
        last_token_ns: u64,
        device_ns: u64,
        index: u32,
        prompt_index: u32,
        finish_reason: u32,
        prompt_tokens: u32,
        cached_tokens: u32,
        completion_tokens: u32,
        reasoning_tokens: u32,
        delivered_tokens: u32,
        drafted: u32,
        accepted: u32,
        spec_steps: u32,
    };
}

/// Reads record i of a table; false behind the last.
fn table(comptime name: []const u8, comptime T: type, comptime method: anytype) void {
    const f = struct {
        fn at(r: *const Request, i: u32, out: *Mirror(T)) callconv(.c) bool {
            var records = method(r.*);
            const skip = @as(u64, i) * records.stride;
            if (skip > records.table.len) return false;
            records.table = records.table[@intCast(skip)..];
            const record = records.next() orelse return false;
            inline for (@typeInfo(Mirror(T)).@"struct".field_names) |field| {
                const value = @field(record, field);
                @field(out, field) = if (@typeInfo(@TypeOf(value)) == .@"enum") @backingInt(value) else value;
            }
            return true;
        }
    };
    hidden(name, &f.at);
}

comptime {
    table("event_at", wasmeter.Event, Request.events);
    table("choice_at", wasmeter.Choice, Request.choices);
}

const json = struct {
    fn object(w: *Json, key: [*:0]const u8) callconv(.c) void {
        w.object(std.mem.span(key));
    }
    fn list(w: *Json, key: [*:0]const u8) callconv(.c) void {
        w.list(std.mem.span(key));
    }
    fn end(w: *Json) callconv(.c) void {
        w.end();
    }
    fn str(w: *Json, key: [*:0]const u8, value: [*:0]const u8) callconv(.c) void {
        w.str(std.mem.span(key), std.mem.span(value));
    }
    fn put(w: *Json, key: [*:0]const u8, value: Text) callconv(.c) void {
        w.str(std.mem.span(key), value.bytes());
    }
    fn int(w: *Json, key: [*:0]const u8, value: i64) callconv(.c) void {
        w.int(std.mem.span(key), value);
    }
    fn uint(w: *Json, key: [*:0]const u8, value: u64) callconv(.c) void {
        w.uint(std.mem.span(key), value);
    }
    fn boolean(w: *Json, key: [*:0]const u8, value: bool) callconv(.c) void {
        w.boolean(std.mem.span(key), value);
    }
    fn nil(w: *Json, key: [*:0]const u8) callconv(.c) void {
        w.nil(std.mem.span(key));
    }
    fn millis(w: *Json, key: [*:0]const u8, ns: u64) callconv(.c) void {
        w.millis(std.mem.span(key), ns);
    }
    fn ratio(w: *Json, key: [*:0]const u8, num: u64, den: u64) callconv(.c) void {
        w.ratio(std.mem.span(key), num, den);
    }
    fn raw(w: *Json, key: [*:0]const u8, value: Text) callconv(.c) void {
        w.raw(std.mem.span(key), value.bytes());
    }
};

const answer = struct {
    fn fields(a: *Answer) callconv(.c) *Json {
        return &a.fields;
    }
    fn usage(a: *Answer) callconv(.c) *Json {
        return &a.usage;
    }
    fn headers(a: *Answer) callconv(.c) *Json {
        return &a.headers;
    }
    fn carry(a: *Answer, text: Text) callconv(.c) void {
        a.carry(text.bytes());
    }
    fn deny(a: *Answer, status: u16, code: [*:0]const u8, message: [*:0]const u8, retry_after: u32) callconv(.c) void {
        a.deny(.{ .status = status, .code = std.mem.span(code), .message = std.mem.span(message), .retry_after = retry_after });
    }
    fn priority(a: *Answer, value: i32) callconv(.c) void {
        a.priority(value);
    }
    fn deadlineMs(a: *Answer, value: u32) callconv(.c) void {
        a.deadlineMs(value);
    }
    fn replace(a: *Answer, document: Text) callconv(.c) void {
        a.replace(document.bytes());
    }
};

const setting = struct {
    fn next(m: *Members, out: *Member) callconv(.c) bool {
        var members: wasmeter.Members = .{ .text = m.text.bytes(), .at = m.at, .object = m.object };
        const member = members.next() orelse return false;
        m.at = members.at;
        out.* = .{ .key = .of(member.key), .value = .of(member.value) };
        return true;
    }
    fn memberUint(m: *const Member, most: u64, out: *u64) callconv(.c) bool {
        out.* = m.zig().uint(most) orelse return false;
        return true;
    }
    fn memberStr(m: *const Member, out: *Text) callconv(.c) bool {
        out.* = .of(m.zig().str() orelse return false);
        return true;
    }
    fn membersOf(text: Text) callconv(.c) Members {
        return .of(.of(text.bytes()));
    }
    fn is(text: Text, word: [*:0]const u8) callconv(.c) bool {
        return std.mem.eql(u8, text.bytes(), std.mem.span(word));
    }
    /// What is joined is kept for ever: it is why a configuration is refused.
    fn join(parts: [*]const Text, n: usize) callconv(.c) [*:0]const u8 {
        var size: usize = 0;
        for (parts[0..n]) |part| size += part.len;
        const joined = std.heap.wasm_allocator.allocSentinel(u8, size, 0) catch @panic("out of memory");
        var at: usize = 0;
        for (parts[0..n]) |part| {
            @memcpy(joined[at..][0..part.len], part.bytes());
            at += part.len;
        }
        return joined;
    }
};

const host = struct {
    fn code(result: wasmeter.HostError!void) i32 {
        return if (result) |_| 0 else |err| wasmeter.errorCode(err);
    }
    fn log(level: i32, text: Text) callconv(.c) void {
        wasmeter.log(@fromBackingInt(@min(@max(level, 0), 3)), text.bytes());
    }
    fn record() callconv(.c) *Json {
        return wasmeter.record();
    }
    fn emit(kind: i32, what: *Json) callconv(.c) i32 {
        return code(wasmeter.emit(kind, what));
    }
    fn metricAdd(metric: u32, series: u32, value: f64) callconv(.c) i32 {
        return code(wasmeter.metricAdd(metric, series, value));
    }
    fn metricObserve(metric: u32, series: u32, value: f64) callconv(.c) i32 {
        return code(wasmeter.metricObserve(metric, series, value));
    }
    fn kvGet(key: Text, out: *Text) callconv(.c) i32 {
        out.* = .of((wasmeter.kvGet(key.bytes()) catch |err| return wasmeter.errorCode(err)) orelse return -1);
        return 0;
    }
    fn kvSet(key: Text, value: Text, ttl_s: u32) callconv(.c) i32 {
        return code(wasmeter.kvSet(key.bytes(), value.bytes(), ttl_s));
    }
    fn kvAdd(key: Text, delta: i64, ttl_s: u32, sum: *i64) callconv(.c) i32 {
        sum.* = wasmeter.kvAdd(key.bytes(), delta, ttl_s) catch |err| return wasmeter.errorCode(err);
        return 0;
    }
    fn nowUnixNs() callconv(.c) i64 {
        return wasmeter.nowUnixNs();
    }
};

comptime {
    hidden("object", &json.object);
    hidden("list", &json.list);
    hidden("end", &json.end);
    hidden("str", &json.str);
    hidden("put", &json.put);
    hidden("int", &json.int);
    hidden("uint", &json.uint);
    hidden("bool", &json.boolean);
    hidden("null", &json.nil);
    hidden("millis", &json.millis);
    hidden("ratio", &json.ratio);
    hidden("raw", &json.raw);

    hidden("fields", &answer.fields);
    hidden("usage", &answer.usage);
    hidden("headers", &answer.headers);
    hidden("carry", &answer.carry);
    hidden("deny", &answer.deny);
    hidden("priority", &answer.priority);
    hidden("deadline_ms", &answer.deadlineMs);
    hidden("replace", &answer.replace);

    hidden("next", &setting.next);
    hidden("member_uint", &setting.memberUint);
    hidden("member_str", &setting.memberStr);
    hidden("members_of", &setting.membersOf);
    hidden("is", &setting.is);
    hidden("join_texts", &setting.join);

    hidden("log", &host.log);
    hidden("record", &host.record);
    hidden("emit", &host.emit);
    hidden("metric_add", &host.metricAdd);
    hidden("metric_observe", &host.metricObserve);
    hidden("kv_get", &host.kvGet);
    hidden("kv_set", &host.kvSet);
    hidden("kv_add", &host.kvAdd);
    hidden("now_unix_ns", &host.nowUnixNs);
}
