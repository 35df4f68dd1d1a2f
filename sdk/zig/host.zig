//! What the host does for a plugin. A function is imported only by a plugin
//! that calls it, and each but log needs a grant.

const std = @import("std");
const builtin = @import("builtin");
const bytes = @import("bytes.zig");
const Json = @import("json.zig").Json;

/// The functions as the ABI has them.
pub const imports = struct {
    pub extern "wasmeter_v1" fn log(level: i32, ptr: u32, len: u32) void;
    pub extern "wasmeter_v1" fn emit(kind: i32, ptr: u32, len: u32) i32;
    pub extern "wasmeter_v1" fn metric_add(metric: u32, series: u32, value: f64) i32;
    pub extern "wasmeter_v1" fn metric_observe(metric: u32, series: u32, value: f64) i32;
    pub extern "wasmeter_v1" fn kv_get(kptr: u32, klen: u32, buf: u32, cap: u32) i32;
    pub extern "wasmeter_v1" fn kv_set(kptr: u32, klen: u32, vptr: u32, vlen: u32, ttl_s: u32) i32;
    pub extern "wasmeter_v1" fn kv_add(kptr: u32, klen: u32, delta: i64, ttl_s: u32) i64;
    pub extern "wasmeter_v1" fn now_unix_ns() i64;
};

pub const Level = enum(i32) { debug, info, warn, err };

pub const HostError = error{ Absent, Denied, TooLarge, BadPointer, Quota, Unavailable };

/// The error of a code of the ABI.
fn failure(code: i64) HostError {
    return switch (code) {
        -1 => error.Absent,
        -2 => error.Denied,
        -3 => error.TooLarge,
        -4 => error.BadPointer,
        -5 => error.Quota,
        else => error.Unavailable,
    };
}

/// The code of the ABI for an error.
pub fn errorCode(err: HostError) i32 {
    return switch (err) {
        error.Absent => -1,
        error.Denied => -2,
        error.TooLarge => -3,
        error.BadPointer => -4,
        error.Quota => -5,
        error.Unavailable => -6,
    };
}

fn size(text: []const u8) u32 {
    return @intCast(text.len);
}

/// Writes a line to the server's log, under the plugin's name. The server cuts
/// it at 2 KiB and drops lines when there are too many.
pub fn log(level: Level, text: []const u8) void {
    if (builtin.cpu.arch.isWasm()) {
        imports.log(@intFromEnum(level), bytes.address(text), size(text));
    } else {
        std.debug.print("{s}\n", .{text});
    }
}

// The host's own log, by another way: what every plugin says when it ends must
// not make every plugin import log, which one that reads bodies may not have.
extern "wasi_snapshot_preview1" fn fd_write(fd: i32, vectors: u32, count: u32, written: u32) i32;

/// Writes a line to fd 2, for what is said by the SDK itself.
pub fn say(text: []const u8) void {
    if (builtin.cpu.arch.isWasm()) {
        const vectors = [_]u32{ bytes.address(text), size(text), bytes.address("\n"), 1 };
        var written: u32 = 0;
        // A line that can't be written has no better place to go.
        _ = fd_write(2, @intFromPtr(&vectors), 2, @intFromPtr(&written));
    } else {
        std.debug.print("{s}\n", .{text});
    }
}

var shared_record: Json = .{};

/// An empty record for emit. There is one, used again by the next call.
pub fn record() *Json {
    shared_record.reset("{");
    return &shared_record;
}

/// Appends a billing or audit record, made by record.
pub fn emit(kind: i32, what: *Json) HostError!void {
    what.closeAll();
    what.text.appendByte('}');
    const text = what.written();
    const code = imports.emit(kind, bytes.address(text), size(text));
    if (code < 0) return failure(code);
}

/// Adds to a counter. metric and series are indexes into what the
/// configuration declares.
pub fn metricAdd(metric: u32, series: u32, value: f64) HostError!void {
    const code = imports.metric_add(metric, series, value);
    if (code < 0) return failure(code);
}

/// Observes a value in a histogram.
pub fn metricObserve(metric: u32, series: u32, value: f64) HostError!void {
    const code = imports.metric_observe(metric, series, value);
    if (code < 0) return failure(code);
}

var value_buffer: bytes.Input = .{};

/// Reads the value of a key, null if there is none. It is good until the next
/// kvGet.
pub fn kvGet(key: []const u8) HostError!?[]const u8 {
    var need: u32 = 0;
    while (true) {
        const room = value_buffer.room(need) orelse bytes.outOfMemory();
        const code = imports.kv_get(bytes.address(key), size(key), bytes.address(room), size(room));
        if (code == -1) return null;
        if (code < 0) return failure(code);
        need = @intCast(code);
        if (need <= room.len) return room[0..need];
    }
}

/// Sets the value of a key for ttl_s seconds.
pub fn kvSet(key: []const u8, value: []const u8, ttl_s: u32) HostError!void {
    const code = imports.kv_set(bytes.address(key), size(key), bytes.address(value), size(value), ttl_s);
    if (code < 0) return failure(code);
}

/// Adds to a key's number, atomically over all instances, and gives the sum.
pub fn kvAdd(key: []const u8, delta: i64, ttl_s: u32) HostError!i64 {
    const lowest = std.math.minInt(i64);
    const sum = imports.kv_add(bytes.address(key), size(key), delta, ttl_s);
    // A sum may be negative, so the errors are the lowest numbers there are.
    if (sum > lowest and sum <= lowest + 6) return failure(lowest - sum);
    return sum;
}

/// The wall clock in Unix nanoseconds, the same throughout a call.
pub fn nowUnixNs() i64 {
    return imports.now_unix_ns();
}
