//! A plugin that puts a price on each answer.

const wasmeter = @import("wasmeter");
const prices = @import("prices.zig");

pub const panic = wasmeter.panic;
comptime {
    wasmeter.plugin(@This());
}

/// What the configuration says tokens cost.
var book: prices.Book = .{};

pub fn init(config: wasmeter.Members) ?[]const u8 {
    return book.read(config);
}

pub fn shape(r: wasmeter.Request, out: *wasmeter.Answer) void {
    out.fields.object("billing");
    out.fields.uint("cost_micro_usd", book.cost(r.promptTokens(), r.completionTokens()));
    out.fields.str("currency", "USD");
    out.fields.end();
}
