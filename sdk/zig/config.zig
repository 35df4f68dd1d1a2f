//! Reads a plugin's configuration.

const std = @import("std");
const bytes = @import("bytes.zig");

/// Member is a member of an object, or an element of a list.
pub const Member = struct {
    /// Its name, empty in a list.
    key: []const u8,
    /// Its value as it is written.
    value: []const u8,

    /// The value if it is a whole number of at most most.
    pub fn uint(m: Member, most: u64) ?u64 {
        if (m.value.len == 0) return null;
        var n: u64 = 0;
        for (m.value) |c| {
            if (c < '0' or c > '9') return null;
            n = std.math.mul(u64, n, 10) catch return null;
            n = std.math.add(u64, n, c - '0') catch return null;
        }
        return if (n <= most) n else null;
    }

    /// The value if it is a string.
    pub fn str(m: Member) ?[]const u8 {
        if (m.value.len < 2 or m.value[0] != '"') return null;
        return unescaped(m.value[1 .. m.value.len - 1]);
    }

    /// The value's members or elements, none if it is neither object nor list.
    pub fn members(m: Member) Members {
        return .of(m.value);
    }
};

/// Members walks over a JSON object or list. The server has checked that it is
/// well-formed; over anything else the walk ends somewhere. Decoded strings
/// are kept for ever, so a walk is for init.
pub const Members = struct {
    text: []const u8,
    at: usize = 0,
    object: bool = false,

    pub fn of(text: []const u8) Members {
        var m: Members = .{ .text = text };
        m.space();
        m.object = m.peek() == '{';
        if (!m.object and m.peek() != '[') m.at = text.len;
        return m;
    }

    pub fn next(m: *Members) ?Member {
        switch (m.peek() orelse return null) {
            '{', '[', ',' => m.at += 1,
            else => return null,
        }
        var key: []const u8 = "";
        if (m.object) {
            const name = m.skip();
            if (name.len < 2 or m.peek() != ':') return null;
            key = unescaped(name[1 .. name.len - 1]);
            m.at += 1;
        }
        const value = m.skip();
        return if (value.len == 0) null else .{ .key = key, .value = value };
    }

    fn peek(m: *const Members) ?u8 {
        return if (m.at < m.text.len) m.text[m.at] else null;
    }

    fn space(m: *Members) void {
        while (m.peek()) |c| {
            if (c != ' ' and c != '\t' and c != '\r' and c != '\n') return;
            m.at += 1;
        }
    }

    /// Moves behind the value that comes, and the space around it, and gives it.
    fn skip(m: *Members) []const u8 {
        m.space();
        const from = m.at;
        var depth: usize = 0;
        while (m.peek()) |c| {
            switch (c) {
                '"' => m.skipString(),
                '{', '[' => {
                    depth += 1;
                    m.at += 1;
                },
                '}', ']' => {
                    if (depth == 0) break;
                    depth -= 1;
                    m.at += 1;
                },
                ',', ':', ' ', '\t', '\r', '\n' => {
                    if (depth == 0) break;
                    m.at += 1;
                },
                else => {
                    m.at += 1;
                    continue;
                },
            }
            if (depth == 0) break;
        }
        const value = m.text[from..m.at];
        m.space();
        return value;
    }

    fn skipString(m: *Members) void {
        m.at += 1;
        while (m.peek()) |c| {
            m.at += if (c == '\\') 2 else 1;
            if (c == '"') break;
        }
        m.at = @min(m.at, m.text.len);
    }
};

/// A string's text without its escapes.
fn unescaped(text: []const u8) []const u8 {
    if (std.mem.indexOfScalar(u8, text, '\\') == null) return text;
    var plain: bytes.List = .{};
    var at: usize = 0;
    while (at < text.len) {
        if (text[at] != '\\') {
            plain.appendByte(text[at]);
            at += 1;
            continue;
        }
        if (at + 1 >= text.len) break;
        const c = text[at + 1];
        at += 2;
        switch (c) {
            'b' => plain.appendByte(8),
            'f' => plain.appendByte(12),
            'n' => plain.appendByte('\n'),
            'r' => plain.appendByte('\r'),
            't' => plain.appendByte('\t'),
            'u' => {
                var rune: u32 = unit(text[at..]) orelse 0xFFFD;
                at += 4;
                if (rune >= 0xD800 and rune < 0xDC00 and at + 6 <= text.len and text[at] == '\\' and text[at + 1] == 'u') {
                    if (unit(text[at + 2 ..])) |low| {
                        if (low >= 0xDC00 and low < 0xE000) {
                            rune = 0x10000 + ((rune - 0xD800) << 10) + (low - 0xDC00);
                            at += 6;
                        }
                    }
                }
                appendRune(&plain, rune);
            },
            else => plain.appendByte(c),
        }
    }
    return plain.items();
}

/// The number that four hex digits are.
fn unit(text: []const u8) ?u32 {
    if (text.len < 4) return null;
    return std.fmt.parseInt(u16, text[0..4], 16) catch null;
}

fn appendRune(list: *bytes.List, rune: u32) void {
    var buffer: [4]u8 = undefined;
    const size = std.unicode.utf8Encode(@intCast(rune), &buffer) catch return list.append("\u{FFFD}");
    list.append(buffer[0..size]);
}
