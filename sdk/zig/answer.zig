//! What a hook answers.

const Json = @import("json.zig").Json;

/// Denial refuses a request, in the hook request.
pub const Denial = struct {
    status: u16 = 429,
    code: []const u8,
    message: []const u8,
    /// Seconds, 0 for none.
    retry_after: u32 = 0,
};

/// Answer is what a hook adds, changes or decides. Writing nothing changes
/// nothing. All but carry needs a grant.
pub const Answer = struct {
    /// Members for the answer's top level.
    fields: Json = .{},
    /// Members for its usage.
    usage: Json = .{},
    /// Response headers, as strings.
    headers: Json = .{},
    rest: Json = .{},

    const head = "{\"fields\":{";

    pub fn reset(a: *Answer) void {
        a.fields.reset(head);
        a.usage.reset("");
        a.headers.reset("");
        a.rest.reset("");
    }

    /// Leaves text, at most 4 KiB, for this plugin's later hooks on the request.
    pub fn carry(a: *Answer, text: []const u8) void {
        a.rest.str("carry", text);
    }

    /// Refuses the request.
    pub fn deny(a: *Answer, denial: Denial) void {
        a.rest.object("deny");
        a.rest.uint("status", denial.status);
        a.rest.str("code", denial.code);
        a.rest.str("message", denial.message);
        if (denial.retry_after > 0) a.rest.uint("retry_after", denial.retry_after);
        a.rest.end();
    }

    /// Sets the request's priority.
    pub fn priority(a: *Answer, value: i32) void {
        a.rest.int("priority", value);
    }

    /// Sets the request's deadline, in milliseconds since its arrival.
    pub fn deadlineMs(a: *Answer, value: u32) void {
        a.rest.uint("deadline_ms", value);
    }

    /// Puts a JSON document in the place of the answer or the chunk.
    pub fn replace(a: *Answer, json: []const u8) void {
        a.rest.raw("document", json);
    }

    /// The result document, null when nothing was written.
    pub fn document(a: *Answer) ?[]const u8 {
        const text = &a.fields.text;
        if (a.fields.empty()) {
            text.clear();
            text.appendByte('{');
        } else {
            a.fields.closeAll();
            text.appendByte('}');
        }
        inline for (.{ .{ &a.usage, "\"usage\":{", "}" }, .{ &a.headers, "\"headers\":{", "}" }, .{ &a.rest, "", "" } }) |part| {
            const members, const before, const after = part;
            if (!members.empty()) {
                members.closeAll();
                if (text.last() != '{') text.appendByte(',');
                text.append(before);
                text.append(members.written());
                text.append(after);
            }
        }
        if (text.items().len == 1) return null;
        text.appendByte('}');
        return text.items();
    }
};
