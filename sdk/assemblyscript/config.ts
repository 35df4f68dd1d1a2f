/** A member of an object, or an element of a list. */
export class Member {
  constructor(
    /** Its name, empty in a list. */
    readonly key: string,
    /** Its value as it is written. */
    readonly value: string,
  ) {}

  /** Whether the value is a whole number of at most most, which uint gives. */
  isUint(most: u64): bool {
    const n = this.value.length;
    if (n == 0 || n > 20) return false;
    let sum: u64 = 0;
    for (let i = 0; i < n; i++) {
      const digit = <u64>(this.value.charCodeAt(i) - 0x30);
      if (digit > 9 || sum > u64.MAX_VALUE / 10 || sum * 10 > u64.MAX_VALUE - digit) return false;
      sum = sum * 10 + digit;
    }
    return sum <= most;
  }

  /** The value as a whole number. */
  uint(): u64 {
    return U64.parseInt(this.value, 10);
  }

  /** The value if it is a string. */
  str(): string | null {
    return this.value.length >= 2 && this.value.charCodeAt(0) == 0x22 ? unescaped(this.value) : null;
  }

  /** The value's members or elements, none if it is neither object nor list. */
  members(): Members {
    return new Members(this.value);
  }
}

/**
 * Walks over a JSON object or list. The server has checked that it is
 * well-formed; over anything else the walk ends somewhere.
 */
export class Members {
  private at: i32 = 0;
  private object: bool = false;

  constructor(private text: string) {
    this.space();
    this.object = this.peek() == 0x7b;
    if (!this.object && this.peek() != 0x5b) this.at = text.length;
  }

  /** The next one, null behind the last. */
  next(): Member | null {
    const first = this.peek();
    if (first != 0x7b && first != 0x5b && first != 0x2c) return null;
    this.at++; // the opening bracket, or a comma
    let key = "";
    if (this.object) {
      const name = this.value();
      if (name.length < 2 || this.peek() != 0x3a) return null;
      key = unescaped(name);
      this.at++;
    }
    const value = this.value();
    return value.length == 0 ? null : new Member(key, value);
  }

  /** The code unit that comes, 0 at the end. */
  private peek(): i32 {
    return this.at < this.text.length ? this.text.charCodeAt(this.at) : 0;
  }

  private space(): void {
    while (this.peek() == 0x20 || this.peek() == 0x09 || this.peek() == 0x0a || this.peek() == 0x0d) this.at++;
  }

  /** Takes the value that comes. */
  private value(): string {
    this.space();
    const from = this.at;
    let depth = 0;
    for (let done = false; !done && this.at < this.text.length; ) {
      switch (this.peek()) {
        case 0x22:
          this.skipString();
          done = depth == 0;
          break;
        case 0x7b:
        case 0x5b:
          depth++;
          this.at++;
          break;
        case 0x7d:
        case 0x5d:
          if (depth > 0) this.at++;
          done = --depth <= 0;
          break;
        case 0x2c:
        case 0x3a:
        case 0x20:
        case 0x09:
        case 0x0a:
        case 0x0d:
          if (depth > 0) this.at++;
          done = depth == 0;
          break;
        default:
          this.at++;
      }
    }
    const value = this.text.substring(from, this.at);
    this.space();
    return value;
  }

  private skipString(): void {
    for (this.at++; this.at < this.text.length; this.at++) {
      const unit = this.peek();
      if (unit == 0x5c) this.at++;
      else if (unit == 0x22) break;
    }
    this.at = min(this.at + 1, this.text.length);
  }
}

/** The text of a string between its quotes, without its escapes. */
function unescaped(quoted: string): string {
  const text = quoted.substring(1, quoted.length - 1);
  if (!text.includes("\\")) return text;
  let plain = "";
  let from = 0; // text before it is in plain
  for (let i = text.indexOf("\\"); i >= 0 && i + 1 < text.length; i = text.indexOf("\\", from)) {
    plain += text.substring(from, i);
    from = i + 2;
    const unit = text.charCodeAt(i + 1);
    switch (unit) {
      case 0x62: plain += "\b"; break;
      case 0x66: plain += "\f"; break;
      case 0x6e: plain += "\n"; break;
      case 0x72: plain += "\r"; break;
      case 0x74: plain += "\t"; break;
      case 0x75:
        plain += String.fromCharCode(<i32>U32.parseInt(text.substring(from, from + 4), 16));
        from += 4;
        break;
      default: plain += String.fromCharCode(unit);
    }
  }
  return plain + text.substring(from);
}
