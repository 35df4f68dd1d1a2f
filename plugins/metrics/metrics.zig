//! The default plugin: it writes the documented metrics object of each answer.
//! README.md has its rules and how it is built.

const wasmeter = @import("wasmeter");

pub const panic = wasmeter.panic;
comptime {
    wasmeter.plugin(@This());
}

pub fn shape(r: wasmeter.Request, out: *wasmeter.Answer) void {
    const flags = r.flags();
    const speculation = r.specJson();
    const timings = flags.timings_wanted;
    if (!timings and speculation.len == 0) return; // nobody asked
    if (flags.multi_prompt or flags.multi_turn) return; // no single generation to speak of
    if (flags.multi_choice) return out.fields.nil("metrics");

    const w = &out.fields;
    w.object("metrics");
    const t: Timing = if (timings and !flags.timing_unknown) .{
        .queued = r.queuedNs(),
        .scheduled = r.scheduledNs(),
        .first_token = r.firstTokenNs(),
        .last_token = r.lastTokenNs(),
        .tokens = r.completionTokens(),
    } else .{};
    t.write(w);
    if (speculation.len > 0) w.raw("speculative_decoding", speculation);
    w.end();
}

/// What the five fields are made of: stamps in nanoseconds since arrival, 0 for
/// what never happened, and the tokens of the answer.
const Timing = struct {
    queued: u64 = 0,
    scheduled: u64 = 0,
    first_token: u64 = 0,
    last_token: u64 = 0,
    tokens: u64 = 0,

    /// Writes the five fields in their documented order. A field is null when a
    /// stamp that it needs is missing or the interval would be negative.
    fn write(t: Timing, w: *wasmeter.Json) void {
        millis(w, "time_to_first_token_ms", interval(t.scheduled, t.first_token));
        millis(w, "generation_time_ms", interval(t.first_token, t.last_token));
        millis(w, "queue_time_ms", interval(t.queued, t.scheduled));
        const ns_per_ms = 1_000_000;
        const ns_per_s = 1_000_000_000;
        const generation = interval(t.first_token, t.last_token);
        if (generation != null and t.tokens > 1) {
            w.ratio("mean_itl_ms", generation.?, (t.tokens - 1) * ns_per_ms);
        } else w.nil("mean_itl_ms");
        // A ratio with 0 below is null.
        w.ratio("tokens_per_second", t.tokens * ns_per_s, interval(t.scheduled, t.last_token) orelse 0);
    }
};

fn millis(w: *wasmeter.Json, name: []const u8, ns: ?u64) void {
    if (ns) |known| w.millis(name, known) else w.nil(name);
}

/// The time between two stamps, if both happened in that order.
fn interval(from: u64, to: u64) ?u64 {
    return if (from == 0 or to < from) null else to - from;
}
