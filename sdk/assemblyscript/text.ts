/**
 * UTF-8 that lies somewhere in memory. A request's texts are views of the
 * call's buffer: a hook that keeps one beyond its return must copy it. They are
 * what the client sent, and nobody checked them.
 */
export class Text {
  constructor(public ptr: usize = 0, public length: u32 = 0) {}

  /** Whether it is this string. */
  equals(text: string): bool {
    let at: u32 = 0;
    for (let i = 0, n = text.length; i < n; i++) {
      const unit = text.charCodeAt(i);
      if (unit >= 0x80) return this.toString() == text;
      if (at >= this.length || load<u8>(this.ptr + at) != unit) return false;
      at++;
    }
    return at == this.length;
  }

  /** The text as a string, which is made in the garbage-collected heap. */
  toString(): string {
    return String.UTF8.decodeUnsafe(this.ptr, this.length);
  }
}

/** Text that grows, and keeps its memory when it is cleared. */
export class Buffer extends Text {
  private capacity: u32 = 0;

  clear(): Buffer {
    this.length = 0;
    return this;
  }

  /** Appends a string. */
  add(text: string): Buffer {
    for (let i = 0, n = text.length; i < n; i++) {
      let rune: u32 = text.charCodeAt(i);
      if (rune >= 0xd800 && rune < 0xe000) {
        const low: u32 = i + 1 < n ? text.charCodeAt(i + 1) : 0;
        if (rune < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
          rune = 0x10000 + ((rune - 0xd800) << 10) + (low - 0xdc00);
          i++;
        } else {
          rune = 0xfffd;
        }
      }
      this.addRune(rune);
    }
    return this;
  }

  /** Appends a text. */
  addText(text: Text): Buffer {
    this.addBytes(text.ptr, text.length);
    return this;
  }

  addBytes(ptr: usize, length: u32): void {
    this.reserve(length);
    memory.copy(this.ptr + this.length, ptr, length);
    this.length += length;
  }

  @inline
  addByte(c: u32): void {
    this.reserve(1);
    store<u8>(this.ptr + this.length++, <u8>c);
  }

  addRune(rune: u32): void {
    if (rune < 0x80) return this.addByte(rune);
    if (rune < 0x800) {
      this.addByte(0xc0 | (rune >> 6));
    } else {
      if (rune < 0x10000) {
        this.addByte(0xe0 | (rune >> 12));
      } else {
        this.addByte(0xf0 | (rune >> 18));
        this.addByte(0x80 | ((rune >> 12) & 0x3f));
      }
      this.addByte(0x80 | ((rune >> 6) & 0x3f));
    }
    this.addByte(0x80 | (rune & 0x3f));
  }

  /** The last byte, 0 if there is none. */
  last(): u32 {
    return this.length == 0 ? 0 : load<u8>(this.ptr + this.length - 1);
  }

  /** Removes the last byte and gives it. */
  pop(): u32 {
    return load<u8>(this.ptr + --this.length);
  }

  /** Makes room for more bytes behind those that there are. */
  reserve(more: u32): void {
    const need = <u64>this.length + more;
    if (need <= this.capacity) return;
    // Twice what is needed, so that growing step by step costs little.
    const capacity = max<u64>(2 * need, 128);
    assert(capacity <= <u64>i32.MAX_VALUE, "out of memory");
    this.ptr = this.ptr == 0 ? heap.alloc(<usize>capacity) : heap.realloc(this.ptr, <usize>capacity);
    this.capacity = <u32>capacity;
  }
}
