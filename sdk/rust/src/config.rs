use std::borrow::Cow;

/// A member of an object, or an element of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name, empty in a list.
    pub key: Cow<'a, str>,
    /// Its value as it is written.
    pub value: &'a str,
}

impl<'a> Member<'a> {
    /// The value if it is a whole number of at most most.
    pub fn uint(&self, most: u64) -> Option<u64> {
        if !self.value.bytes().all(|c| c.is_ascii_digit()) {
            return None; // parse takes a plus sign, JSON does not
        }
        self.value.parse().ok().filter(|&n| n <= most)
    }

    /// The value if it is a string.
    pub fn str(&self) -> Option<Cow<'a, str>> {
        Some(unescaped(self.value.strip_prefix('"')?.strip_suffix('"')?))
    }

    /// The value's members or elements, none if it is neither object nor list.
    pub fn members(&self) -> Members<'a> {
        Members::of(self.value.as_bytes())
    }
}

/// Walks over a JSON object or list. The server has checked that it is
/// well-formed; over anything else the walk ends somewhere.
#[derive(Clone)]
pub struct Members<'a> {
    rest: &'a str,
    object: bool,
}

const SPACE: &[char] = &[' ', '\t', '\r', '\n'];

impl<'a> Members<'a> {
    /// Walks over json.
    pub fn of(json: &'a [u8]) -> Members<'a> {
        let text = std::str::from_utf8(json)
            .unwrap_or("")
            .trim_start_matches(SPACE);
        let object = text.starts_with('{');
        // The walk is always in front of the bracket or comma before a member.
        Members {
            rest: if object || text.starts_with('[') {
                text
            } else {
                ""
            },
            object,
        }
    }

    /// Takes the value that rest begins with.
    fn value(&mut self) -> &'a str {
        self.rest = self.rest.trim_start_matches(SPACE);
        let text = self.rest;
        let (value, rest) = text.split_at(value_len(text.as_bytes()));
        self.rest = rest.trim_start_matches(SPACE);
        value
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        self.rest = self.rest.strip_prefix(&['{', '[', ','][..])?;
        let mut key = Cow::Borrowed("");
        if self.object {
            key = unescaped(self.value().strip_prefix('"')?.strip_suffix('"')?);
            self.rest = self.rest.strip_prefix(':')?;
        }
        let value = self.value();
        if value.is_empty() {
            return None;
        }
        Some(Member { key, value })
    }
}

/// The length of the value that text begins with.
fn value_len(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += string_len(&text[at..]);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The length of the string that text begins with, quotes included.
fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return at + 1,
            b'\\' if text.get(at + 1).map_or(false, u8::is_ascii) => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// A string's text without its escapes.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        match chars.next() {
            Some('b') => plain.push('\u{8}'),
            Some('f') => plain.push('\u{c}'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            Some('u') => {
                let (c, after) = escaped_char(chars.as_str());
                plain.push(c);
                rest = after;
                continue;
            }
            Some(c) => plain.push(c),
            None => {}
        }
        rest = chars.as_str();
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The character whose hex digits, behind \u, text begins with, and what
/// follows it. Half a surrogate pair is U+FFFD.
fn escaped_char(text: &str) -> (char, &str) {
    let unit = |text: &str| {
        text.get(..4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let first = unit(text).unwrap_or(0xFFFD);
    let after = text.get(4..).unwrap_or("");
    if let (0xD800..=0xDBFF, Some(second)) = (first, after.strip_prefix("\\u")) {
        if let Some(low @ 0xDC00..=0xDFFF) = unit(second) {
            let c = char::from_u32(0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00));
            return (c.unwrap_or('\u{FFFD}'), &second[4..]);
        }
    }
    (char::from_u32(first).unwrap_or('\u{FFFD}'), after)
}
