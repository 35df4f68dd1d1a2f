//! The SDK for plugins in Zig: a plugin is a file that declares hooks as
//! public functions and hands itself over with `comptime { wasmeter.plugin(@This()); }`.
//! README.md has an example; host/plugin/ABI.md is what this follows.

const bytes = @import("bytes.zig");
const host = @import("host.zig");

/// The version of this SDK.
pub const version = "0.1.0";
/// The minor version of the ABI that this SDK was written for.
pub const abi_minor = 0;

pub const Request = @import("request.zig").Request;
pub const Flags = @import("request.zig").Flags;
pub const Endpoint = @import("request.zig").Endpoint;
pub const Outcome = @import("request.zig").Outcome;
pub const Event = @import("request.zig").Event;
pub const EventKind = @import("request.zig").EventKind;
pub const Choice = @import("request.zig").Choice;
pub const Json = @import("json.zig").Json;
pub const Answer = @import("answer.zig").Answer;
pub const Denial = @import("answer.zig").Denial;
pub const Members = @import("config.zig").Members;
pub const Member = @import("config.zig").Member;

pub const Level = host.Level;
pub const HostError = host.HostError;
pub const errorCode = host.errorCode;
pub const log = host.log;
pub const record = host.record;
pub const emit = host.emit;
pub const metricAdd = host.metricAdd;
pub const metricObserve = host.metricObserve;
pub const kvGet = host.kvGet;
pub const kvSet = host.kvSet;
pub const kvAdd = host.kvAdd;
pub const nowUnixNs = host.nowUnixNs;
/// The functions of the host as they are imported.
pub const imports = host.imports;

/// A plugin's panic handler: it logs why and traps. Name it in the plugin's
/// file, `pub const panic = wasmeter.panic;`.
pub const panic = @import("panic.zig");

/// Bits of the hook mask.
pub const Mask = packed struct(u32) {
    shape: bool,
    finish: bool,
    request: bool,
    chunk: bool,
    _4: u4 = 0,
    events: bool,
    response_document: bool,
    request_document: bool,
    choices: bool,
    _12: u20 = 0,
};

/// Exports the hooks that P declares:
///
///     pub fn init(config: Members) ?[]const u8      once in each instance; why it is refused
///     pub fn request(r: Request, out: *Answer) void
///     pub fn shape(r: Request, out: *Answer) void
///     pub fn chunk(r: Request, out: *Answer) void
///     pub fn finish(r: Request) !void
///
/// and asks for what P wants with `pub const wants_events = true`,
/// wants_choices, wants_request_document and wants_response_document. A P that
/// declares all hooks and knows only at run time which it has, says so with
/// `pub fn hooks() Mask`.
pub fn plugin(comptime P: type) void {
    const mask: Mask = .{
        .shape = @hasDecl(P, "shape"),
        .finish = @hasDecl(P, "finish"),
        .request = @hasDecl(P, "request"),
        .chunk = @hasDecl(P, "chunk"),
        .events = wants(P, "wants_events"),
        .response_document = wants(P, "wants_response_document"),
        .request_document = wants(P, "wants_request_document"),
        .choices = wants(P, "wants_choices"),
    };
    const exports = struct {
        fn abi() callconv(.c) i32 {
            return abi_minor;
        }
        fn buffer(need: u32) callconv(.c) u32 {
            return bytes.address(input.room(need) orelse return 0);
        }
        fn init(len: u32) callconv(.c) i32 {
            if (@hasDecl(P, "init")) {
                if (P.init(.of(input.memory[0..len]))) |why| {
                    host.say(why);
                    return -1;
                }
            }
            return @bitCast(if (@hasDecl(P, "hooks")) P.hooks() else mask);
        }
        fn request(len: u32) callconv(.c) u64 {
            return call(P.request, len);
        }
        fn shape(len: u32) callconv(.c) u64 {
            return call(P.shape, len);
        }
        fn chunk(len: u32) callconv(.c) u64 {
            return call(P.chunk, len);
        }
        fn finish(len: u32) callconv(.c) i32 {
            return if (succeeded(P.finish(received(len)))) 0 else -1;
        }
    };
    @export(&exports.abi, .{ .name = "wasmeter_abi_v1" });
    @export(&exports.buffer, .{ .name = "wasmeter_buffer" });
    @export(&exports.init, .{ .name = "wasmeter_init" });
    if (mask.request) @export(&exports.request, .{ .name = "wasmeter_request" });
    if (mask.shape) @export(&exports.shape, .{ .name = "wasmeter_shape" });
    if (mask.chunk) @export(&exports.chunk, .{ .name = "wasmeter_chunk" });
    if (mask.finish) @export(&exports.finish, .{ .name = "wasmeter_finish" });
}

fn wants(comptime P: type, comptime name: []const u8) bool {
    return @hasDecl(P, name) and @field(P, name);
}

// Where the host writes, and where the hooks do. One call is made at a time.
var input: bytes.Input = .{};
var output: Answer = .{};

fn received(len: u32) Request {
    return .{ .frame = input.memory[0..len] };
}

/// Runs a hook and packs the address and the length of its document.
fn call(comptime hook: fn (Request, *Answer) void, len: u32) u64 {
    output.reset();
    hook(received(len), &output);
    const document = output.document() orelse return 0;
    return @as(u64, bytes.address(document)) << 32 | document.len;
}

/// Logs the error of a hook that may have one.
fn succeeded(result: anytype) bool {
    if (@typeInfo(@TypeOf(result)) != .error_union) return true;
    if (result) |_| return true else |err| {
        host.say(@errorName(err));
        return false;
    }
}
