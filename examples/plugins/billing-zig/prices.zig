const std = @import("std");
const wasmeter = @import("wasmeter");

/// 2,000 dollars: at this price the cost of as many tokens as a request can
/// count fits into 64 bits.
const most_price = 2_000_000_000;

/// Book is micro-dollars for a million tokens. So far below a cent, published
/// prices are whole numbers, and adding them up is exact.
pub const Book = struct {
    input: ?u64 = null,
    output: ?u64 = null,

    /// In micro-dollars, rounded half up.
    pub fn cost(book: *const Book, input_tokens: u32, output_tokens: u32) u64 {
        const million = 1_000_000;
        return (input_tokens * book.input.? + output_tokens * book.output.? + million / 2) / million;
    }

    /// Takes the prices from the plugin's config, {"input": 2500000, "output":
    /// 10000000}, or says what is wrong with it. It wants both and nothing
    /// else: a misspelt price must not be 0.
    pub fn read(book: *Book, config: wasmeter.Members) ?[]const u8 {
        var members = config;
        while (members.next()) |member| {
            const price = if (std.mem.eql(u8, member.key, "input"))
                &book.input
            else if (std.mem.eql(u8, member.key, "output"))
                &book.output
            else
                return fault("{s}: unknown price; use input and output", .{member.key});
            price.* = member.uint(most_price) orelse
                return fault("{s}: {s} is not a whole number of micro-dollars in 0 … 2000000000", .{ member.key, member.value });
        }
        if (book.input == null) return fault("input: " ++ missing, .{});
        if (book.output == null) return fault("output: " ++ missing, .{});
        return null;
    }
};

const missing = "missing; write the micro-dollars for a million tokens";

var line: [512]u8 = undefined;

fn fault(comptime format: []const u8, args: anytype) []const u8 {
    return std.fmt.bufPrint(&line, format, args) catch "the configuration is not a price book";
}
