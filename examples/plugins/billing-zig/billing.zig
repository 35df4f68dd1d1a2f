//! A plugin that puts a price on each answer and writes a record of it when the
//! request ends.

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
    write(&out.fields, r);
    out.fields.end();
}

/// Is called for each request, also for those that got no answer with a price:
/// a client that left pays for what was made until then.
pub fn finish(r: wasmeter.Request) !void {
    const record = wasmeter.record();
    record.str("tenant", r.tenant());
    record.str("model", r.model());
    write(record, r);
    try wasmeter.emit(charge, record);
}

/// The kind of this plugin's records.
const charge = 1;

/// Says what the request costs.
fn write(w: *wasmeter.Json, r: wasmeter.Request) void {
    w.uint("cost_micro_usd", book.cost(r.promptTokens(), r.completionTokens()));
    w.str("currency", "USD");
}
