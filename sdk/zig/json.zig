//! A writer of JSON that cannot write it wrong.

const std = @import("std");
const bytes = @import("bytes.zig");

/// Json writes members of an object, and elements of a list, whose key is
/// ignored. Text is escaped, a byte that is not UTF-8 becomes U+FFFD, what is
/// left open is closed when the hook returns. Keys are not checked for
/// duplicates; the server refuses those.
pub const Json = struct {
    text: bytes.List = .{},
    /// The closing brackets still to come, innermost last.
    open: bytes.List = .{},
    /// The length of what precedes the first member.
    head: usize = 0,

    /// Begins anew behind head, keeping the memory.
    pub fn reset(w: *Json, head: []const u8) void {
        w.text.clear();
        w.open.clear();
        w.text.append(head);
        w.head = head.len;
    }

    /// What was written so far, with its head.
    pub fn written(w: *const Json) []const u8 {
        return w.text.items();
    }

    pub fn empty(w: *const Json) bool {
        return w.text.items().len == w.head;
    }

    /// Opens an object; end closes it.
    pub fn object(w: *Json, name: []const u8) void {
        w.enter(name, '{', '}');
    }

    /// Opens a list; end closes it.
    pub fn list(w: *Json, name: []const u8) void {
        w.enter(name, '[', ']');
    }

    /// Closes the innermost object or list. Without one it does nothing.
    pub fn end(w: *Json) void {
        w.text.appendByte(w.open.pop() orelse return);
    }

    pub fn closeAll(w: *Json) void {
        while (w.open.last() != null) w.end();
    }

    pub fn str(w: *Json, name: []const u8, value: []const u8) void {
        w.key(name);
        w.string(value);
    }

    /// Writes an integer. Money is best written so, in a unit small enough:
    /// micro-dollars, never dollars in a float.
    pub fn int(w: *Json, name: []const u8, value: i64) void {
        w.key(name);
        const to = w.text.room(1 + most_digits);
        to[0] = '-';
        const sign: usize = @intFromBool(value < 0);
        w.text.take(sign + digits(to + sign, @abs(value)));
    }

    pub fn uint(w: *Json, name: []const u8, value: u64) void {
        w.key(name);
        w.text.take(digits(w.text.room(most_digits), value));
    }

    pub fn boolean(w: *Json, name: []const u8, value: bool) void {
        w.raw(name, if (value) "true" else "false");
    }

    pub fn nil(w: *Json, name: []const u8) void {
        w.raw(name, "null");
    }

    /// Writes nanoseconds as milliseconds, exactly: 1500000 is 1.5, 5000000 is
    /// 5.0 and 0 is 0.0.
    pub fn millis(w: *Json, name: []const u8, ns: u64) void {
        w.key(name);
        w.decimal(ns / places, ns % places);
    }

    /// Writes num / den rounded half up to 6 places: 2/3 is 0.666667. It
    /// writes null when den is 0.
    pub fn ratio(w: *Json, name: []const u8, num: u64, den: u64) void {
        if (den == 0) return w.nil(name);
        w.key(name);
        const rest = num % den;
        var micro: u64 = undefined;
        var left: u64 = undefined;
        if (rest <= std.math.maxInt(u64) / places) {
            micro = rest * places / den;
            left = rest * places - micro * den;
        } else {
            const product = @as(u128, rest) * places;
            micro = @intCast(product / den);
            left = @intCast(product % den);
        }
        if (left >= den - left) micro += 1;
        w.decimal(num / den + micro / places, micro % places);
    }

    /// Writes a value that is JSON already, such as Request.specJson. The
    /// server refuses the whole result if it is not.
    pub fn raw(w: *Json, name: []const u8, value: []const u8) void {
        w.key(name);
        w.text.append(value);
    }

    /// Writes the comma that a value needs, and its key if it stands in an
    /// object.
    fn key(w: *Json, name: []const u8) void {
        const to = w.text.room(1 + 1 + name.len + 2); // comma, quotes, colon
        var at: usize = 0;
        if (w.text.last()) |last| {
            to[0] = ',';
            at = @intFromBool(last != '{' and last != '[');
        }
        if (w.open.last() == ']') return w.text.take(at);
        to[at] = '"';
        at += 1;
        const plain = copyPlain(to + at, name);
        at += plain;
        if (plain < name.len) {
            w.text.take(at);
            w.escaped(name[plain..]);
            w.text.append("\":");
            return;
        }
        to[at] = '"';
        to[at + 1] = ':';
        w.text.take(at + 2);
    }

    fn enter(w: *Json, name: []const u8, opening: u8, closing: u8) void {
        w.key(name);
        w.text.appendByte(opening);
        w.open.appendByte(closing);
    }

    const places = 1_000_000;

    /// Writes whole + micro/1e6 with at least one place and no trailing zeros
    /// behind it.
    fn decimal(w: *Json, whole: u64, micro: u64) void {
        const to = w.text.room(most_digits + 1 + 6);
        const point = digits(to, whole);
        to[point] = '.';
        const behind = to + point + 1;
        const six: u32 = @intCast(micro);
        pair(behind, six / 10_000);
        pair(behind + 2, six / 100 % 100);
        pair(behind + 4, six % 100);
        var len: usize = 6;
        while (len > 1 and behind[len - 1] == '0') len -= 1;
        w.text.take(point + 1 + len);
    }

    fn string(w: *Json, value: []const u8) void {
        w.text.appendByte('"');
        const plain = copyPlain(w.text.room(value.len), value);
        w.text.take(plain);
        if (plain < value.len) w.escaped(value[plain..]);
        w.text.appendByte('"');
    }

    /// Writes text in which something has to be escaped.
    fn escaped(w: *Json, value: []const u8) void {
        var copied: usize = 0; // value[0..copied] is written
        var at: usize = 0;
        while (at < value.len) {
            const c = value[at];
            if (isPlain(c)) {
                at += 1;
                continue;
            }
            if (c >= 0x80) {
                const size = sequence(value[at..]);
                if (size > 0) {
                    at += size;
                    continue;
                }
            }
            w.text.append(value[copied..at]);
            w.escape(c);
            at += 1;
            copied = at;
        }
        w.text.append(value[copied..]);
    }

    fn escape(w: *Json, c: u8) void {
        switch (c) {
            '"' => w.text.append("\\\""),
            '\\' => w.text.append("\\\\"),
            '\n' => w.text.append("\\n"),
            '\t' => w.text.append("\\t"),
            '\r' => w.text.append("\\r"),
            else => if (c < ' ') {
                const hex = "0123456789abcdef";
                w.text.append(&.{ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] });
            } else w.text.append("\u{FFFD}"),
        }
    }
};

/// As many as 2^64 has.
const most_digits = 20;

/// Writes a number to where there is room for most_digits, and returns how many
/// it took.
fn digits(to: [*]u8, value: u64) usize {
    // Division by a constant is slow in 64 bits.
    const billion = 1_000_000_000;
    if (value < billion) return digits32(to, @intCast(value));
    const written = digits(to, value / billion);
    var left: u32 = @intCast(value % billion);
    var at = written + 9;
    while (at > written + 1) : (left /= 100) {
        at -= 2;
        pair(to + at, left % 100);
    }
    to[written] = '0' + @as(u8, @intCast(left));
    return written + 9;
}

fn digits32(to: [*]u8, value: u32) usize {
    var len: usize = 1;
    var beyond: u64 = 10; // 10^len
    while (value >= beyond) : (len += 1) beyond *= 10;
    var left = value;
    var at = len;
    while (at >= 2) : (left /= 100) {
        at -= 2;
        pair(to + at, left % 100);
    }
    if (at == 1) to[0] = '0' + @as(u8, @intCast(left));
    return len;
}

/// Writes the two digits of a number below 100.
fn pair(to: [*]u8, value: u32) void {
    to[0..2].* = pairs[2 * value ..][0..2].*;
}

const pairs = table: {
    var all: [200]u8 = undefined;
    for (0..100) |i| all[2 * i ..][0..2].* = .{ '0' + i / 10, '0' + i % 10 };
    break :table all;
};

/// Copies the beginning of value that is printable ASCII without quotes and
/// backslashes, in whole words, and returns its length. Keys and values are
/// nearly always plain to their end; the last word overlaps the one before.
fn copyPlain(to: [*]u8, value: []const u8) usize {
    const word = 8;
    var at: usize = 0;
    if (value.len < word) {
        while (at < value.len and isPlain(value[at])) : (at += 1) to[at] = value[at];
        return at;
    }
    while (true) {
        const eight = std.mem.readInt(u64, value[at..][0..word], .little);
        if (!arePlain(eight)) return at;
        std.mem.writeInt(u64, to[at..][0..word], eight, .little);
        at += word;
        if (at == value.len) return at;
        at = @min(at, value.len - word);
    }
}

fn isPlain(c: u8) bool {
    return c >= ' ' and c < 0x80 and c != '"' and c != '\\';
}

/// Whether eight bytes are plain. In each term the top bit of a byte is set if
/// the byte is, in turn, below a space, a quote, a backslash or not ASCII; a
/// borrow from such a byte may set a bit beside it, so the answer is never
/// wrongly true.
fn arePlain(word: u64) bool {
    const ones: u64 = 0x0101010101010101;
    const tops: u64 = 0x8080808080808080;
    const quote = word ^ ones * '"';
    const backslash = word ^ ones * '\\';
    return ((word -% ones * ' ') | (quote -% ones) | (backslash -% ones) | word) & tops == 0;
}

/// The length of the UTF-8 sequence of two to four bytes that text begins
/// with, 0 if it is none. Unicode 15, table 3-7.
fn sequence(text: []const u8) usize {
    const size: usize = switch (text[0]) {
        0xC2...0xDF => 2,
        0xE0...0xEF => 3,
        0xF0...0xF4 => 4,
        else => return 0,
    };
    if (text.len < size) return 0;
    const lowest: u8, const highest: u8 = switch (text[0]) {
        0xE0 => .{ 0xA0, 0xBF },
        0xED => .{ 0x80, 0x9F },
        0xF0 => .{ 0x90, 0xBF },
        0xF4 => .{ 0x80, 0x8F },
        else => .{ 0x80, 0xBF },
    };
    if (text[1] < lowest or text[1] > highest) return 0;
    for (text[2..size]) |c| {
        if (c & 0xC0 != 0x80) return 0;
    }
    return size;
}
