//! Reads the frame of one request.

const std = @import("std");

/// Flags are facts about a request.
pub const Flags = packed struct(u32) {
    stream: bool = false,
    partial: bool = false,
    multi_choice: bool = false,
    multi_prompt: bool = false,
    multi_turn: bool = false,
    timing_unknown: bool = false,
    timings_wanted: bool = false,
    replay: bool = false,
    synthetic: bool = false,
    batch: bool = false,
    usage_chunk_wanted: bool = false,
    later: u21 = 0,
};

/// Endpoint says which API the request came through.
pub const Endpoint = enum(u8) { chat = 1, completions = 2, responses = 3, _ };

/// Outcome says how a request or a choice ended.
pub const Outcome = enum(u32) {
    running,
    stop,
    length,
    tool_calls,
    client_abort,
    server_error,
    rejected,
    deadline,
    shutdown,
    slow_reader,
    denied,
    plugin_error,
    crash_recovered,
    _,
};

pub const EventKind = enum(u16) {
    queued = 1,
    scheduled = 2,
    first_token = 3,
    /// One engine step; aux is its time in microseconds.
    tokens = 4,
    preempted = 5,
    resumed = 6,
    finished = 7,
    aborted = 8,
    rejected = 9,
    /// n_tokens of aux drafted ones were accepted.
    draft = 10,
    _,
};

/// Event is one entry of the request's history.
pub const Event = struct {
    /// Since arrival.
    t_ns: u64,
    kind: EventKind,
    flags: u16,
    n_tokens: u32,
    /// Tokens computed in the whole step.
    batch_tokens: u32,
    aux: u32,

    const stride_at = 168;
    const smallest = 24;

    fn read(record: []const u8) Event {
        return .{
            .t_ns = number(u64, record, 0),
            .kind = @enumFromInt(number(u16, record, 8)),
            .flags = number(u16, record, 10),
            .n_tokens = number(u32, record, 12),
            .batch_tokens = number(u32, record, 16),
            .aux = number(u32, record, 20),
        };
    }
};

/// Choice is the account of one choice.
pub const Choice = struct {
    index: u32,
    prompt_index: u32,
    finish_reason: Outcome,
    prompt_tokens: u32,
    cached_tokens: u32,
    completion_tokens: u32,
    reasoning_tokens: u32,
    delivered_tokens: u32,
    queued_ns: u64,
    scheduled_ns: u64,
    first_token_ns: u64,
    last_token_ns: u64,
    device_ns: u64,
    drafted: u32,
    accepted: u32,
    spec_steps: u32,

    const stride_at = 170;
    const smallest = 88;

    fn read(record: []const u8) Choice {
        return .{
            .index = number(u32, record, 0),
            .prompt_index = number(u32, record, 4),
            .finish_reason = @enumFromInt(number(u32, record, 8)),
            .prompt_tokens = number(u32, record, 12),
            .cached_tokens = number(u32, record, 16),
            .completion_tokens = number(u32, record, 20),
            .reasoning_tokens = number(u32, record, 24),
            .delivered_tokens = number(u32, record, 28),
            .queued_ns = number(u64, record, 32),
            .scheduled_ns = number(u64, record, 40),
            .first_token_ns = number(u64, record, 48),
            .last_token_ns = number(u64, record, 56),
            .device_ns = number(u64, record, 64),
            .drafted = number(u32, record, 72),
            .accepted = number(u32, record, 76),
            .spec_steps = number(u32, record, 80),
        };
    }
};

fn number(comptime T: type, record: []const u8, at: usize) T {
    return std.mem.readInt(T, record[at..][0..@sizeOf(T)], .little);
}

/// Records walks over a table. Its stride comes from the frame: a later minor
/// version has longer records.
pub fn Records(comptime T: type) type {
    return struct {
        table: []const u8,
        stride: u16,

        pub fn next(records: *@This()) ?T {
            if (records.stride < T.smallest or records.table.len < records.stride) return null;
            defer records.table = records.table[records.stride..];
            return T.read(records.table[0..records.stride]);
        }
    };
}

/// Request reads a frame. Its strings are views of the call's buffer: a hook
/// that keeps one beyond its return must copy it. What the frame is too short
/// for is 0 or empty.
///
/// Stamps are nanoseconds since the request arrived, by a clock that never goes
/// back; 0 means that it never happened.
pub const Request = struct {
    frame: []const u8,

    pub fn flags(r: Request) Flags {
        return @bitCast(r.header(u32, 8));
    }
    pub fn endpoint(r: Request) Endpoint {
        return @enumFromInt(r.header(u8, 12));
    }
    /// The number of the hook: 1 request, 2 shape, 3 chunk, 4 finish.
    pub fn hook(r: Request) u8 {
        return r.header(u8, 13);
    }
    /// How the request ended.
    pub fn outcome(r: Request) Outcome {
        return @enumFromInt(r.header(u8, 14));
    }
    /// Choices asked for.
    pub fn n(r: Request) u16 {
        return r.header(u16, 16);
    }
    pub fn prompts(r: Request) u16 {
        return r.header(u16, 18);
    }
    pub fn httpStatus(r: Request) u16 {
        return r.header(u16, 20);
    }
    pub fn toolCalls(r: Request) u16 {
        return r.header(u16, 22);
    }
    /// The wall-clock time of arrival.
    pub fn arrivalUnixNs(r: Request) u64 {
        return r.header(u64, 24);
    }
    pub fn promptTokens(r: Request) u32 {
        return r.header(u32, 32);
    }
    /// Tokens of the answer, as usage counts them.
    pub fn completionTokens(r: Request) u32 {
        return r.header(u32, 36);
    }
    /// Prompt tokens found in the prefix cache.
    pub fn cachedPromptTokens(r: Request) u32 {
        return r.header(u32, 40);
    }
    /// Prompt tokens written to it.
    pub fn cacheWriteTokens(r: Request) u32 {
        return r.header(u32, 44);
    }
    pub fn reasoningTokens(r: Request) u32 {
        return r.header(u32, 48);
    }
    pub fn imageTokens(r: Request) u32 {
        return r.header(u32, 52);
    }
    pub fn audioTokens(r: Request) u32 {
        return r.header(u32, 56);
    }
    /// Completion tokens that reached the client.
    pub fn deliveredTokens(r: Request) u32 {
        return r.header(u32, 60);
    }
    /// Tokens computed again after a preemption.
    pub fn recomputedTokens(r: Request) u32 {
        return r.header(u32, 64);
    }
    pub fn preemptions(r: Request) u32 {
        return r.header(u32, 68);
    }
    /// Tokens that speculation proposed.
    pub fn draftedTokens(r: Request) u32 {
        return r.header(u32, 72);
    }
    /// Proposed tokens that were kept.
    pub fn acceptedTokens(r: Request) u32 {
        return r.header(u32, 76);
    }
    /// The completion limit that was asked for.
    pub fn maxTokens(r: Request) u32 {
        return r.header(u32, 80);
    }
    pub fn priority(r: Request) i32 {
        return r.header(i32, 84);
    }
    /// The promised time to the first token, 0 for none.
    pub fn sloTtftMs(r: Request) u32 {
        return r.header(u32, 88);
    }
    /// The promised time for each further token, 0 for none.
    pub fn sloTpotMs(r: Request) u32 {
        return r.header(u32, 92);
    }
    /// The deadline since arrival, 0 for none.
    pub fn deadlineMs(r: Request) u32 {
        return r.header(u32, 96);
    }
    pub fn queuedNs(r: Request) u64 {
        return r.header(u64, 104);
    }
    pub fn scheduledNs(r: Request) u64 {
        return r.header(u64, 112);
    }
    pub fn firstTokenNs(r: Request) u64 {
        return r.header(u64, 120);
    }
    pub fn lastTokenNs(r: Request) u64 {
        return r.header(u64, 128);
    }
    pub fn finishedNs(r: Request) u64 {
        return r.header(u64, 136);
    }
    /// The request's share of the device's time.
    pub fn deviceNs(r: Request) u64 {
        return r.header(u64, 144);
    }
    /// The number of its record in the ledger, 0 without a ledger.
    pub fn recordSeq(r: Request) u64 {
        return r.header(u64, 152);
    }

    pub fn requestId(r: Request) []const u8 {
        return r.string(0);
    }
    /// The server's own id of this attempt.
    pub fn attemptId(r: Request) []const u8 {
        return r.string(1);
    }
    /// The id that the client sent.
    pub fn clientRequestId(r: Request) []const u8 {
        return r.string(2);
    }
    pub fn model(r: Request) []const u8 {
        return r.string(3);
    }
    pub fn tenant(r: Request) []const u8 {
        return r.string(4);
    }
    pub fn keyName(r: Request) []const u8 {
        return r.string(5);
    }
    pub fn adapter(r: Request) []const u8 {
        return r.string(6);
    }
    pub fn serviceTier(r: Request) []const u8 {
        return r.string(7);
    }
    /// Stands for the end user, without telling who it is.
    pub fn userHash(r: Request) []const u8 {
        return r.string(8);
    }
    pub fn idempotencyKey(r: Request) []const u8 {
        return r.string(9);
    }
    /// The request's own, a JSON object.
    pub fn metadata(r: Request) []const u8 {
        return r.string(10);
    }
    pub fn chainId(r: Request) []const u8 {
        return r.string(11);
    }
    /// What an earlier hook of this plugin left for this one.
    pub fn carry(r: Request) []const u8 {
        return r.string(12);
    }
    /// The statistics of speculative decoding, a JSON object, or empty.
    pub fn specJson(r: Request) []const u8 {
        return r.string(13);
    }

    /// The request's history, for a plugin with wants_events.
    pub fn events(r: Request) Records(Event) {
        return r.table(Event, 160, 164);
    }
    /// The request's choices, for a plugin with wants_choices.
    pub fn choices(r: Request) Records(Choice) {
        return r.table(Choice, 172, 176);
    }
    /// The document that the hook is about, for a plugin that wants it.
    pub fn document(r: Request) []const u8 {
        return r.part(r.header(u32, 188), r.header(u32, 192));
    }

    /// A field of the header: a later minor version of the ABI has a longer
    /// one, an earlier one a shorter one.
    fn header(r: Request, comptime T: type, comptime at: usize) T {
        const behind = at + @sizeOf(T);
        if (r.frame.len < 6 or r.frame.len < behind or number(u16, r.frame, 4) < behind) return 0;
        return number(T, r.frame, at);
    }

    fn string(r: Request, i: u32) []const u8 {
        if (i >= r.header(u32, 184)) return "";
        const pair = r.part(@as(u64, r.header(u32, 180)) + 8 * i, 8);
        if (pair.len == 0) return "";
        return r.part(number(u32, pair, 0), number(u32, pair, 4));
    }

    fn table(r: Request, comptime T: type, comptime off_at: usize, comptime count_at: usize) Records(T) {
        const stride = r.header(u16, T.stride_at);
        const size = @as(u64, r.header(u32, count_at)) * stride;
        return .{ .table = r.part(r.header(u32, off_at), size), .stride = stride };
    }

    /// The bytes of the frame from off, none if they are not all there.
    fn part(r: Request, off: u64, size: u64) []const u8 {
        if (off + size > r.frame.len) return "";
        return r.frame[@intCast(off)..][0..@intCast(size)];
    }
};
