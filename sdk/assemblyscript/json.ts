import { Buffer, Text } from "./text";

const QUOTE: u32 = 0x22;
const BACKSLASH: u32 = 0x5c;
const PLACES: u64 = 1000000;

/** A hex digit. */
function hex(n: u32): u32 {
  return n < 10 ? 0x30 + n : 0x57 + n;
}

/**
 * Writes members of a JSON object, and elements of a list, whose key is ignored.
 * It cannot write JSON wrong: text is escaped, a byte that is not UTF-8 becomes
 * U+FFFD, what is left open is closed when the hook returns. Keys are not checked
 * for duplicates; the server refuses those.
 */
export class Json {
  readonly written: Buffer = new Buffer();
  /** The closing brackets still to come, innermost last. */
  private closing: Buffer = new Buffer();
  /** The length of what precedes the first member. */
  private head: u32 = 0;

  /** Begins anew behind head, keeping the memory. */
  reset(head: string): void {
    this.written.clear().add(head);
    this.closing.clear();
    this.head = this.written.length;
  }

  get empty(): bool {
    return this.written.length == this.head;
  }

  /** Opens an object; end closes it. */
  object(key: string): Json {
    return this.enter(key, 0x7b, 0x7d);
  }

  /** Opens a list; end closes it. */
  list(key: string): Json {
    return this.enter(key, 0x5b, 0x5d);
  }

  /** Closes the innermost object or list. Without one it does nothing. */
  end(): Json {
    if (this.closing.length > 0) this.written.addByte(this.closing.pop());
    return this;
  }

  closeAll(): void {
    while (this.closing.length > 0) this.end();
  }

  /** Writes a string. */
  str(key: string, value: string): Json {
    this.key(key);
    this.quote(value);
    return this;
  }

  /** Writes a text, such as one of the request's. */
  text(key: string, value: Text): Json {
    this.key(key);
    this.quoteText(value);
    return this;
  }

  /**
   * Writes an integer. Money is best written so, in a unit small enough:
   * micro-dollars, never dollars in a float.
   */
  int(key: string, value: i64): Json {
    this.key(key);
    if (value < 0) this.written.addByte(0x2d);
    this.digits(value < 0 ? 0 - <u64>value : <u64>value);
    return this;
  }

  /** Writes an integer that is not negative. */
  uint(key: string, value: u64): Json {
    this.key(key);
    this.digits(value);
    return this;
  }

  /** Writes true or false. */
  bool(key: string, value: bool): Json {
    return this.raw(key, value ? "true" : "false");
  }

  /** Writes null. */
  null(key: string): Json {
    return this.raw(key, "null");
  }

  /** Writes nanoseconds as milliseconds, exactly: 1500000 is 1.5, 5000000 is 5.0 and 0 is 0.0. */
  millis(key: string, ns: u64): Json {
    this.key(key);
    this.decimal(ns / PLACES, ns % PLACES);
    return this;
  }

  /** Writes num / den rounded half up to 6 places: 2/3 is 0.666667. It writes null when den is 0. */
  ratio(key: string, num: u64, den: u64): Json {
    if (den == 0) return this.null(key);
    this.key(key);
    const rest = num % den;
    let micro: u64 = 0, left: u64 = 0; // rest * PLACES = micro * den + left
    if (rest <= u64.MAX_VALUE / PLACES) {
      micro = (rest * PLACES) / den;
      left = (rest * PLACES) % den;
    } else {
      // The product has more than 64 bits: take the bits of PLACES from the
      // highest, double and add modulo den, and count the turns.
      for (let bit: i32 = 19; bit >= 0; bit--) {
        micro <<= 1;
        for (let add = left, twice = 0; twice < 2; twice++) {
          if (left >= den - add) {
            left -= den - add;
            micro++;
          } else {
            left += add;
          }
          if (((PLACES >> bit) & 1) == 0) break;
          add = rest;
        }
      }
    }
    if (left >= den - left) micro++;
    this.decimal(num / den + micro / PLACES, micro % PLACES);
    return this;
  }

  /** Writes a value that is JSON already. The server refuses the whole result if it is not. */
  raw(key: string, value: string): Json {
    this.key(key);
    this.written.add(value);
    return this;
  }

  /** Writes a text that is JSON already, such as Request.specJson. */
  rawText(key: string, value: Text): Json {
    this.key(key);
    this.written.addText(value);
    return this;
  }

  /** Writes the comma that a value needs, and its key if it stands in an object. */
  private key(key: string): void {
    const last = this.written.last();
    if (last != 0 && last != 0x7b && last != 0x5b) this.written.addByte(0x2c);
    if (this.closing.last() == 0x5d) return;
    this.quote(key);
    this.written.addByte(0x3a);
  }

  private enter(key: string, opening: u32, closing: u32): Json {
    this.key(key);
    this.written.addByte(opening);
    this.closing.addByte(closing);
    return this;
  }

  private digits(value: u64): void {
    let count: u32 = 1;
    for (let left = value; left >= 10; left /= 10) count++;
    const out = this.written;
    out.reserve(count);
    let at = out.ptr + out.length + count;
    for (let left = value; count > 0; count--) {
      const rest = left / 10;
      store<u8>(--at, <u8>(0x30 + (left - rest * 10)));
      left = rest;
      out.length++;
    }
  }

  /** Writes whole + micro/1e6 with at least one place and no trailing zeros behind it. */
  private decimal(whole: u64, micro: u64): void {
    this.digits(whole);
    this.written.addByte(0x2e);
    let left = <u32>micro;
    let divisor: u32 = 100000;
    do {
      this.written.addByte(0x30 + left / divisor);
      left %= divisor;
      divisor /= 10;
    } while (left > 0);
  }

  private quote(value: string): void {
    const out = this.written;
    const n = value.length;
    out.reserve(n + 2);
    out.addByte(QUOTE);
    // Nearly every string is plain.
    let to = out.ptr + out.length;
    let i = 0;
    for (; i < n; i++) {
      const unit: u32 = load<u16>(changetype<usize>(value) + (<usize>i << 1));
      if (unit < 0x20 || unit >= 0x80 || unit == QUOTE || unit == BACKSLASH) break;
      store<u8>(to++, <u8>unit);
    }
    out.length += i;
    if (i < n) this.quoteRest(value, i);
    out.addByte(QUOTE);
  }

  /** Writes value from its first code unit that may not be plain. */
  private quoteRest(value: string, i: i32): void {
    const out = this.written;
    for (const n = value.length; i < n; i++) {
      const unit: u32 = value.charCodeAt(i);
      if (unit >= 0x80) {
        // To the end of what is not ASCII, so that surrogates stay together.
        const from = i;
        while (i + 1 < n && value.charCodeAt(i + 1) >= 0x80) i++;
        out.add(value.substring(from, i + 1));
      } else if (unit < 0x20 || unit == QUOTE || unit == BACKSLASH) {
        this.escape(unit);
      } else {
        out.addByte(unit);
      }
    }
  }

  private quoteText(value: Text): void {
    const out = this.written;
    const end = value.ptr + value.length;
    let copied = value.ptr; // what precedes it is written
    let at = copied;
    out.addByte(QUOTE);
    while (at < end) {
      const c: u32 = load<u8>(at);
      let plain: u32 = 0;
      if (c >= 0x80) plain = sequence(at, <u32>(end - at));
      else if (c >= 0x20 && c != QUOTE && c != BACKSLASH) plain = 1;
      if (plain == 0) {
        out.addBytes(copied, <u32>(at - copied));
        this.escape(c);
        copied = at + 1;
      }
      at += max<u32>(plain, 1);
    }
    out.addBytes(copied, <u32>(end - copied));
    out.addByte(QUOTE);
  }

  private escape(c: u32): void {
    const out = this.written;
    if (c >= 0x80) return out.addRune(0xfffd);
    out.addByte(BACKSLASH);
    switch (c) {
      case QUOTE: return out.addByte(QUOTE);
      case BACKSLASH: return out.addByte(BACKSLASH);
      case 0x0a: return out.addByte(0x6e);
      case 0x09: return out.addByte(0x74);
      case 0x0d: return out.addByte(0x72);
    }
    out.addByte(0x75);
    out.addByte(0x30);
    out.addByte(0x30);
    out.addByte(hex(c >> 4));
    out.addByte(hex(c & 15));
  }
}

/**
 * The length of the UTF-8 sequence of two to four bytes at ptr, where length
 * bytes are, 0 if it is none. Unicode 15, table 3-7.
 */
function sequence(ptr: usize, length: u32): u32 {
  const first: u32 = load<u8>(ptr);
  let size: u32 = 0, lowest: u32 = 0x80, highest: u32 = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) size = 2;
  else if (first >= 0xe0 && first <= 0xef) size = 3;
  else if (first >= 0xf0 && first <= 0xf4) size = 4;
  if (size == 0 || length < size) return 0;
  if (first == 0xe0) lowest = 0xa0;
  else if (first == 0xed) highest = 0x9f;
  else if (first == 0xf0) lowest = 0x90;
  else if (first == 0xf4) highest = 0x8f;
  const second: u32 = load<u8>(ptr + 1);
  if (second < lowest || second > highest) return 0;
  for (let i: u32 = 2; i < size; i++) {
    if ((load<u8>(ptr + i) & 0xc0) != 0x80) return 0;
  }
  return size;
}
