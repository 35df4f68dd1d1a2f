/// Writes members of a JSON object, and elements of a list, whose key is
/// ignored. It cannot write JSON wrong: text is escaped, a byte that is not
/// UTF-8 becomes U+FFFD, what is left open is closed when the hook returns.
/// Keys are not checked for duplicates; the server refuses those.
#[derive(Default)]
pub struct Json {
    pub(crate) text: Vec<u8>,
    /// The closing brackets still to come, innermost last.
    open: Vec<u8>,
    /// The length of what precedes the first member.
    head: usize,
}

const PLACES: u64 = 1_000_000;

impl Json {
    /// A writer with nothing written.
    pub const fn new() -> Json {
        Json {
            text: Vec::new(),
            open: Vec::new(),
            head: 0,
        }
    }

    /// Begins anew behind head, keeping the memory.
    pub(crate) fn reset(&mut self, head: &[u8]) {
        self.text.clear();
        self.open.clear();
        self.text.extend_from_slice(head);
        self.head = head.len();
    }

    /// What was written so far.
    pub fn written(&self) -> &[u8] {
        &self.text[self.head..]
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.text.len() == self.head
    }

    /// Opens an object; `end` closes it.
    pub fn object(&mut self, key: impl AsRef<[u8]>) -> &mut Json {
        self.enter(key.as_ref(), b'{', b'}')
    }

    /// Opens a list; `end` closes it.
    pub fn list(&mut self, key: impl AsRef<[u8]>) -> &mut Json {
        self.enter(key.as_ref(), b'[', b']')
    }

    /// Closes the innermost object or list. Without one it does nothing.
    pub fn end(&mut self) -> &mut Json {
        self.text.extend(self.open.pop());
        self
    }

    pub(crate) fn close_all(&mut self) {
        while !self.open.is_empty() {
            self.end();
        }
    }

    /// Writes a string.
    pub fn str(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Json {
        self.key(key.as_ref());
        self.string(value.as_ref());
        self
    }

    /// Writes an integer. Money is best written so, in a unit small enough:
    /// micro-dollars, never dollars in a float.
    pub fn int(&mut self, key: impl AsRef<[u8]>, value: i64) -> &mut Json {
        self.key(key.as_ref());
        if value < 0 {
            self.text.push(b'-');
        }
        self.digits(value.unsigned_abs());
        self
    }

    /// Writes an integer that is not negative.
    pub fn uint(&mut self, key: impl AsRef<[u8]>, value: u64) -> &mut Json {
        self.key(key.as_ref());
        self.digits(value);
        self
    }

    /// Writes true or false.
    pub fn bool(&mut self, key: impl AsRef<[u8]>, value: bool) -> &mut Json {
        self.raw(key, if value { "true" } else { "false" })
    }

    /// Writes null.
    pub fn null(&mut self, key: impl AsRef<[u8]>) -> &mut Json {
        self.raw(key, "null")
    }

    /// Writes nanoseconds as milliseconds, exactly: 1500000 is 1.5, 5000000 is
    /// 5.0 and 0 is 0.0.
    pub fn millis(&mut self, key: impl AsRef<[u8]>, ns: u64) -> &mut Json {
        self.key(key.as_ref());
        self.decimal(ns / PLACES, ns % PLACES);
        self
    }

    /// Writes num / den rounded half up to 6 places: 2/3 is 0.666667. It writes
    /// null when den is 0.
    pub fn ratio(&mut self, key: impl AsRef<[u8]>, num: u64, den: u64) -> &mut Json {
        if den == 0 {
            return self.null(key);
        }
        self.key(key.as_ref());
        let rest = num % den;
        let (mut micro, left) = match rest.checked_mul(PLACES) {
            Some(product) => (product / den, product % den),
            None => {
                let (product, den) = (u128::from(rest) * u128::from(PLACES), u128::from(den));
                ((product / den) as u64, (product % den) as u64)
            }
        };
        if left >= den - left {
            micro += 1;
        }
        self.decimal(num / den + micro / PLACES, micro % PLACES);
        self
    }

    /// Writes a value that is JSON already, such as `Request::spec_json`. The
    /// server refuses the whole result if it is not.
    pub fn raw(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Json {
        self.key(key.as_ref());
        self.text.extend_from_slice(value.as_ref());
        self
    }

    /// Writes the comma that a value needs, and its key if it stands in an
    /// object.
    fn key(&mut self, key: &[u8]) {
        if !matches!(self.text.last(), None | Some(b'{' | b'[')) {
            self.text.push(b',');
        }
        if self.open.last() != Some(&b']') {
            self.string(key);
            self.text.push(b':');
        }
    }

    fn enter(&mut self, key: &[u8], opening: u8, closing: u8) -> &mut Json {
        self.key(key);
        self.text.push(opening);
        self.open.push(closing);
        self
    }

    fn digits(&mut self, mut value: u64) {
        let mut buffer = [0; 20]; // as many as 2^64 has
        let mut at = buffer.len();
        loop {
            at -= 1;
            buffer[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.text.extend_from_slice(&buffer[at..]);
    }

    /// Writes whole + micro/1e6 with at least one place and no trailing zeros
    /// behind it.
    fn decimal(&mut self, whole: u64, mut micro: u64) {
        self.digits(whole);
        let mut buffer = *b".000000";
        for digit in buffer[1..].iter_mut().rev() {
            *digit += (micro % 10) as u8;
            micro /= 10;
        }
        let zeros = buffer[2..]
            .iter()
            .rev()
            .take_while(|&&digit| digit == b'0')
            .count();
        self.text.extend_from_slice(&buffer[..buffer.len() - zeros]);
    }

    fn string(&mut self, value: &[u8]) {
        self.text.push(b'"');
        let mut copied = 0; // value[..copied] is written
        let mut at = 0;
        while at < value.len() {
            let c = value[at];
            let plain = match c {
                b'"' | b'\\' | 0..=0x1F => 0,
                0x20..=0x7F => 1,
                _ => sequence(&value[at..]),
            };
            if plain == 0 {
                self.text.extend_from_slice(&value[copied..at]);
                self.escape(c);
                copied = at + 1;
            }
            at += plain.max(1);
        }
        self.text.extend_from_slice(&value[copied..]);
        self.text.push(b'"');
    }

    fn escape(&mut self, c: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let escaped: &[u8] = match c {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\t' => b"\\t",
            b'\r' => b"\\r",
            0..=0x1F => {
                self.text.extend_from_slice(b"\\u00");
                self.text.push(HEX[usize::from(c >> 4)]);
                self.text.push(HEX[usize::from(c & 15)]);
                return;
            }
            _ => "\u{FFFD}".as_bytes(),
        };
        self.text.extend_from_slice(escaped);
    }
}

/// The length of the UTF-8 sequence of two to four bytes that text begins with,
/// 0 if it is none. Unicode 15, table 3-7.
fn sequence(text: &[u8]) -> usize {
    let continues = |at: usize| matches!(text.get(at), Some(0x80..=0xBF));
    match (text[0], text.get(1)) {
        (0xC2..=0xDF, Some(0x80..=0xBF)) => 2,
        (0xE0, Some(0xA0..=0xBF))
        | (0xE1..=0xEC | 0xEE..=0xEF, Some(0x80..=0xBF))
        | (0xED, Some(0x80..=0x9F))
            if continues(2) =>
        {
            3
        }
        (0xF0, Some(0x90..=0xBF))
        | (0xF1..=0xF3, Some(0x80..=0xBF))
        | (0xF4, Some(0x80..=0x8F))
            if continues(2) && continues(3) =>
        {
            4
        }
        _ => 0,
    }
}
