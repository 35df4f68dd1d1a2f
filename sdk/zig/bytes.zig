//! Memory that a plugin keeps: it grows to what the largest call needs, and no
//! later call allocates.

const std = @import("std");
const builtin = @import("builtin");

/// In a plugin it grows the linear memory; elsewhere, in a test, it maps pages.
pub const allocator = if (builtin.cpu.arch.isWasm()) std.heap.wasm_allocator else std.heap.page_allocator;

/// List is what is written piece by piece. Running out of memory is a trap:
/// the host counts it and throws the instance away.
pub const List = struct {
    list: std.ArrayList(u8) = .empty,

    pub fn items(l: *const List) []const u8 {
        return l.list.items;
    }
    pub fn clear(l: *List) void {
        l.list.clearRetainingCapacity();
    }
    pub fn append(l: *List, text: []const u8) void {
        copy(l.room(text.len), text);
        l.take(text.len);
    }
    pub fn appendByte(l: *List, c: u8) void {
        l.room(1)[0] = c;
        l.take(1);
    }
    /// Room for size bytes behind what is written; take says how many were
    /// used. Nothing checks that no more are.
    pub fn room(l: *List, size: usize) [*]u8 {
        l.list.ensureUnusedCapacity(allocator, size) catch outOfMemory();
        return l.list.items.ptr + l.list.items.len;
    }
    pub fn take(l: *List, size: usize) void {
        l.list.items.len += size;
    }
    pub fn last(l: *const List) ?u8 {
        return l.list.getLastOrNull();
    }
    pub fn pop(l: *List) ?u8 {
        return l.list.pop();
    }
};

/// Copies text, which is nearly always short, in whole words; the last one
/// overlaps the one before. The instruction for it costs a call of the host,
/// as much as a hundred bytes do.
fn copy(to: [*]u8, text: []const u8) void {
    if (text.len > 128) return @memcpy(to, text);
    if (text.len < word) {
        if (text.len >= 4) {
            to[0..4].* = text[0..4].*;
            to[text.len - 4 ..][0..4].* = text[text.len - 4 ..][0..4].*;
        } else for (text, 0..) |c, i| {
            to[i] = c;
        }
        return;
    }
    var at: usize = 0;
    while (true) {
        to[at..][0..word].* = text[at..][0..word].*;
        at += word;
        if (at == text.len) return;
        at = @min(at, text.len - word);
    }
}

const word = 8;

/// Input is the buffer that the host writes into, 8-byte aligned.
pub const Input = struct {
    memory: []align(8) u8 = &.{},

    /// Makes room for need bytes, and twice that when it has to grow, so that
    /// slowly growing frames don't make a buffer each. Null is no memory.
    pub fn room(in: *Input, need: u32) ?[]align(8) u8 {
        if (in.memory.len < need or in.memory.len == 0) {
            const size = @max(2 * @as(usize, need), 1024);
            const grown = allocator.alignedAlloc(u8, .@"8", size) catch return null;
            if (in.memory.len > 0) allocator.free(in.memory);
            in.memory = grown;
        }
        return in.memory;
    }
};

pub fn outOfMemory() noreturn {
    @panic("out of memory");
}

/// The address of text as the ABI has it.
pub fn address(text: []const u8) u32 {
    return @truncate(@intFromPtr(text.ptr));
}
