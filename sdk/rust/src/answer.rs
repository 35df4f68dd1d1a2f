use crate::Json;

/// Refuses a request, in the hook request.
pub struct Denial<'a> {
    pub status: u16,
    pub code: &'a str,
    pub message: &'a str,
    /// Seconds, 0 for none.
    pub retry_after: u32,
}

/// What a hook adds, changes or decides. Writing nothing changes nothing. All
/// but `carry` needs a grant.
#[derive(Default)]
pub struct Answer {
    /// Members for the answer's top level.
    pub fields: Json,
    /// Members for its usage.
    pub usage: Json,
    /// Response headers, as strings.
    pub headers: Json,
    rest: Json,
}

impl Answer {
    /// An answer that says nothing.
    pub const fn new() -> Answer {
        Answer {
            fields: Json::new(),
            usage: Json::new(),
            headers: Json::new(),
            rest: Json::new(),
        }
    }

    /// Leaves text, at most 4 KiB, for this plugin's later hooks on the request.
    pub fn carry(&mut self, text: impl AsRef<[u8]>) {
        self.rest.str("carry", text);
    }

    /// Refuses the request.
    pub fn deny(&mut self, denial: Denial) {
        let rest = self.rest.object("deny");
        rest.uint("status", denial.status.into());
        rest.str("code", denial.code).str("message", denial.message);
        if denial.retry_after > 0 {
            rest.uint("retry_after", denial.retry_after.into());
        }
        rest.end();
    }

    /// Sets the request's priority.
    pub fn priority(&mut self, value: i32) {
        self.rest.int("priority", value.into());
    }

    /// Sets the request's deadline, in milliseconds since its arrival.
    pub fn deadline_ms(&mut self, value: u32) {
        self.rest.uint("deadline_ms", value.into());
    }

    /// Puts a JSON document in the place of the answer or the chunk.
    pub fn replace(&mut self, json: impl AsRef<[u8]>) {
        self.rest.raw("document", json);
    }

    pub(crate) fn reset(&mut self) {
        self.fields.reset(br#"{"fields":{"#);
        self.usage.reset(b"");
        self.headers.reset(b"");
        self.rest.reset(b"");
    }

    /// The result document, if anything was written.
    pub(crate) fn document(&mut self) -> Option<&[u8]> {
        let Answer {
            fields,
            usage,
            headers,
            rest,
        } = self;
        if fields.is_empty() {
            fields.text.clear();
            fields.text.push(b'{');
        } else {
            fields.close_all();
            fields.text.push(b'}');
        }
        let text = &mut fields.text;
        for (members, before, after) in [
            (usage, r#""usage":{"#, "}"),
            (headers, r#""headers":{"#, "}"),
            (rest, "", ""),
        ] {
            if !members.is_empty() {
                members.close_all();
                if text.last() != Some(&b'{') {
                    text.push(b',');
                }
                text.extend_from_slice(before.as_bytes());
                text.extend_from_slice(&members.text);
                text.extend_from_slice(after.as_bytes());
            }
        }
        if text.len() == 1 {
            return None;
        }
        text.push(b'}');
        Some(text)
    }
}
