use std::ops::BitOr;

/// Facts about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    pub const STREAM: Flags = Flags(1 << 0);
    pub const PARTIAL: Flags = Flags(1 << 1);
    pub const MULTI_CHOICE: Flags = Flags(1 << 2);
    pub const MULTI_PROMPT: Flags = Flags(1 << 3);
    pub const MULTI_TURN: Flags = Flags(1 << 4);
    pub const TIMING_UNKNOWN: Flags = Flags(1 << 5);
    pub const TIMINGS_WANTED: Flags = Flags(1 << 6);
    pub const REPLAY: Flags = Flags(1 << 7);
    pub const SYNTHETIC: Flags = Flags(1 << 8);
    pub const BATCH: Flags = Flags(1 << 9);
    pub const USAGE_CHUNK_WANTED: Flags = Flags(1 << 10);

    /// Whether one of the flags in want is set.
    pub fn any(self, want: Flags) -> bool {
        self.0 & want.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Which API the request came through. A later version may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint(pub u8);

impl Endpoint {
    pub const CHAT: Endpoint = Endpoint(1);
    pub const COMPLETIONS: Endpoint = Endpoint(2);
    pub const RESPONSES: Endpoint = Endpoint(3);
}

/// The hook that a frame was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook(pub u8);

impl Hook {
    pub const REQUEST: Hook = Hook(1);
    pub const SHAPE: Hook = Hook(2);
    pub const CHUNK: Hook = Hook(3);
    pub const FINISH: Hook = Hook(4);
}

/// How a request or a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(pub u32);

impl Outcome {
    pub const RUNNING: Outcome = Outcome(0);
    pub const STOP: Outcome = Outcome(1);
    pub const LENGTH: Outcome = Outcome(2);
    pub const TOOL_CALLS: Outcome = Outcome(3);
    pub const CLIENT_ABORT: Outcome = Outcome(4);
    pub const SERVER_ERROR: Outcome = Outcome(5);
    pub const REJECTED: Outcome = Outcome(6);
    pub const DEADLINE: Outcome = Outcome(7);
    pub const SHUTDOWN: Outcome = Outcome(8);
    pub const SLOW_READER: Outcome = Outcome(9);
    pub const DENIED: Outcome = Outcome(10);
    pub const PLUGIN_ERROR: Outcome = Outcome(11);
    pub const CRASH_RECOVERED: Outcome = Outcome(12);
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind(pub u16);

impl EventKind {
    pub const QUEUED: EventKind = EventKind(1);
    pub const SCHEDULED: EventKind = EventKind(2);
    pub const FIRST_TOKEN: EventKind = EventKind(3);
    /// One engine step; aux is its time in microseconds.
    pub const TOKENS: EventKind = EventKind(4);
    pub const PREEMPTED: EventKind = EventKind(5);
    pub const RESUMED: EventKind = EventKind(6);
    pub const FINISHED: EventKind = EventKind(7);
    pub const ABORTED: EventKind = EventKind(8);
    pub const REJECTED: EventKind = EventKind(9);
    /// n_tokens of aux drafted ones were accepted.
    pub const DRAFT: EventKind = EventKind(10);
}

/// One entry of the request's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since arrival.
    pub t_ns: u64,
    pub kind: EventKind,
    pub flags: u16,
    pub n_tokens: u32,
    /// Tokens computed in the whole step.
    pub batch_tokens: u32,
    pub aux: u32,
}

impl Event {
    const SMALLEST: usize = 24;

    fn read(record: &[u8]) -> Event {
        Event {
            t_ns: u64_at(record, 0),
            kind: EventKind(u16_at(record, 8)),
            flags: u16_at(record, 10),
            n_tokens: u32_at(record, 12),
            batch_tokens: u32_at(record, 16),
            aux: u32_at(record, 20),
        }
    }
}

/// The account of one choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub index: u32,
    pub prompt_index: u32,
    pub finish_reason: Outcome,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    pub completion_tokens: u32,
    pub reasoning_tokens: u32,
    pub delivered_tokens: u32,
    pub queued_ns: u64,
    pub scheduled_ns: u64,
    pub first_token_ns: u64,
    pub last_token_ns: u64,
    pub device_ns: u64,
    pub drafted: u32,
    pub accepted: u32,
    pub spec_steps: u32,
}

impl Choice {
    const SMALLEST: usize = 88;

    fn read(record: &[u8]) -> Choice {
        Choice {
            index: u32_at(record, 0),
            prompt_index: u32_at(record, 4),
            finish_reason: Outcome(u32_at(record, 8)),
            prompt_tokens: u32_at(record, 12),
            cached_tokens: u32_at(record, 16),
            completion_tokens: u32_at(record, 20),
            reasoning_tokens: u32_at(record, 24),
            delivered_tokens: u32_at(record, 28),
            queued_ns: u64_at(record, 32),
            scheduled_ns: u64_at(record, 40),
            first_token_ns: u64_at(record, 48),
            last_token_ns: u64_at(record, 56),
            device_ns: u64_at(record, 64),
            drafted: u32_at(record, 72),
            accepted: u32_at(record, 76),
            spec_steps: u32_at(record, 80),
        }
    }
}

fn bytes_at<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(record, at))
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(record, at))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(record, at))
}

/// Cuts records off a table. Their stride comes from the frame: a later minor
/// version has longer ones.
fn cut<'a>(table: &mut &'a [u8], stride: usize, smallest: usize) -> Option<&'a [u8]> {
    if stride < smallest || table.len() < stride {
        return None;
    }
    let (record, rest) = table.split_at(stride);
    *table = rest;
    Some(record)
}

/// Walks over a request's history.
pub struct Events<'a>(&'a [u8], usize);

impl Iterator for Events<'_> {
    type Item = Event;
    fn next(&mut self) -> Option<Event> {
        cut(&mut self.0, self.1, Event::SMALLEST).map(Event::read)
    }
}

/// Walks over a request's choices.
pub struct Choices<'a>(&'a [u8], usize);

impl Iterator for Choices<'_> {
    type Item = Choice;
    fn next(&mut self) -> Option<Choice> {
        cut(&mut self.0, self.1, Choice::SMALLEST).map(Choice::read)
    }
}

/// Reads the frame of one request. Its strings are what the client sent, UTF-8
/// that nobody has checked: compare them with `b"text"`, or convert them with
/// `std::str::from_utf8`. What the frame is too short for is 0 or empty.
///
/// Stamps are nanoseconds since the request arrived, by a clock that never goes
/// back; 0 means that it never happened.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    frame: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a frame that was recorded or made by a test.
    pub fn new(frame: &'a [u8]) -> Request<'a> {
        Request { frame }
    }

    /// Facts about the request.
    pub fn flags(self) -> Flags {
        Flags(self.u32(8))
    }

    /// The API of the request.
    pub fn endpoint(self) -> Endpoint {
        Endpoint(self.u8(12))
    }

    /// The hook that is called.
    pub fn hook(self) -> Hook {
        Hook(self.u8(13))
    }

    /// How the request ended.
    pub fn outcome(self) -> Outcome {
        Outcome(self.u8(14).into())
    }

    /// Choices asked for.
    pub fn n(self) -> u16 {
        self.u16(16)
    }

    /// Prompts sent.
    pub fn prompts(self) -> u16 {
        self.u16(18)
    }

    /// The status of the answer.
    pub fn http_status(self) -> u16 {
        self.u16(20)
    }

    /// Tool calls that the model made.
    pub fn tool_calls(self) -> u16 {
        self.u16(22)
    }

    /// The wall-clock time of arrival.
    pub fn arrival_unix_ns(self) -> u64 {
        self.u64(24)
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(self) -> u32 {
        self.u32(32)
    }

    /// Tokens of the answer, as usage counts them.
    pub fn completion_tokens(self) -> u32 {
        self.u32(36)
    }

    /// Prompt tokens found in the prefix cache.
    pub fn cached_prompt_tokens(self) -> u32 {
        self.u32(40)
    }

    /// Prompt tokens written to it.
    pub fn cache_write_tokens(self) -> u32 {
        self.u32(44)
    }

    /// Completion tokens spent on reasoning.
    pub fn reasoning_tokens(self) -> u32 {
        self.u32(48)
    }

    /// Prompt tokens that stand for images.
    pub fn image_tokens(self) -> u32 {
        self.u32(52)
    }

    /// Prompt tokens that stand for audio.
    pub fn audio_tokens(self) -> u32 {
        self.u32(56)
    }

    /// Completion tokens that reached the client.
    pub fn delivered_tokens(self) -> u32 {
        self.u32(60)
    }

    /// Tokens computed again after a preemption.
    pub fn recomputed_tokens(self) -> u32 {
        self.u32(64)
    }

    /// How often the request lost its place.
    pub fn preemptions(self) -> u32 {
        self.u32(68)
    }

    /// Tokens that speculation proposed.
    pub fn drafted_tokens(self) -> u32 {
        self.u32(72)
    }

    /// Proposed tokens that were kept.
    pub fn accepted_tokens(self) -> u32 {
        self.u32(76)
    }

    /// The completion limit that was asked for.
    pub fn max_tokens(self) -> u32 {
        self.u32(80)
    }

    /// The request's priority.
    pub fn priority(self) -> i32 {
        self.u32(84) as i32
    }

    /// The promised time to the first token, 0 for none.
    pub fn slo_ttft_ms(self) -> u32 {
        self.u32(88)
    }

    /// The promised time for each further token, 0 for none.
    pub fn slo_tpot_ms(self) -> u32 {
        self.u32(92)
    }

    /// The deadline since arrival, 0 for none.
    pub fn deadline_ms(self) -> u32 {
        self.u32(96)
    }

    /// When the request entered the waiting queue.
    pub fn queued_ns(self) -> u64 {
        self.u64(104)
    }

    /// When its first step began.
    pub fn scheduled_ns(self) -> u64 {
        self.u64(112)
    }

    /// When its first token was there.
    pub fn first_token_ns(self) -> u64 {
        self.u64(120)
    }

    /// When its last token was there.
    pub fn last_token_ns(self) -> u64 {
        self.u64(128)
    }

    /// When it ended.
    pub fn finished_ns(self) -> u64 {
        self.u64(136)
    }

    /// The request's share of the device's time.
    pub fn device_ns(self) -> u64 {
        self.u64(144)
    }

    /// The number of its record in the ledger, 0 without a ledger.
    pub fn record_seq(self) -> u64 {
        self.u64(152)
    }

    /// The id of the answer.
    pub fn request_id(self) -> &'a [u8] {
        self.string(0)
    }

    /// The server's own id of this attempt.
    pub fn attempt_id(self) -> &'a [u8] {
        self.string(1)
    }

    /// The id that the client sent.
    pub fn client_request_id(self) -> &'a [u8] {
        self.string(2)
    }

    /// The model's name as it is served.
    pub fn model(self) -> &'a [u8] {
        self.string(3)
    }

    /// The owner of the key.
    pub fn tenant(self) -> &'a [u8] {
        self.string(4)
    }

    /// The name of the key.
    pub fn key_name(self) -> &'a [u8] {
        self.string(5)
    }

    /// The model's adapter.
    pub fn adapter(self) -> &'a [u8] {
        self.string(6)
    }

    /// The tier that was asked for.
    pub fn service_tier(self) -> &'a [u8] {
        self.string(7)
    }

    /// Stands for the end user, without telling who it is.
    pub fn user_hash(self) -> &'a [u8] {
        self.string(8)
    }

    /// The client's key against double charging.
    pub fn idempotency_key(self) -> &'a [u8] {
        self.string(9)
    }

    /// The request's own, a JSON object.
    pub fn metadata(self) -> &'a [u8] {
        self.string(10)
    }

    /// The plugin chain that serves the request.
    pub fn chain_id(self) -> &'a [u8] {
        self.string(11)
    }

    /// What an earlier hook of this plugin left for this one.
    pub fn carry(self) -> &'a [u8] {
        self.string(12)
    }

    /// The statistics of speculative decoding, a JSON object, or empty.
    pub fn spec_json(self) -> &'a [u8] {
        self.string(13)
    }

    /// The request's history, for a plugin that wants events.
    pub fn events(self) -> Events<'a> {
        let stride = self.u16(168);
        Events(
            self.table(self.u32(160), self.u32(164), stride),
            stride.into(),
        )
    }

    /// The request's choices, for a plugin that wants choices.
    pub fn choices(self) -> Choices<'a> {
        let stride = self.u16(170);
        Choices(
            self.table(self.u32(172), self.u32(176), stride),
            stride.into(),
        )
    }

    /// The document that the hook is about, for a plugin that wants it.
    pub fn document(self) -> &'a [u8] {
        self.part(self.u32(188).into(), self.u32(192).into())
    }

    /// N bytes of the header: a later minor version of the ABI has a longer one,
    /// an earlier one a shorter one.
    fn header<const N: usize>(self, at: usize) -> [u8; N] {
        let behind = at + N;
        if self.frame.len() < behind.max(6) || usize::from(u16_at(self.frame, 4)) < behind {
            return [0; N];
        }
        bytes_at(self.frame, at)
    }

    fn u8(self, at: usize) -> u8 {
        u8::from_le_bytes(self.header(at))
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.header(at))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.header(at))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.header(at))
    }

    fn string(self, i: u32) -> &'a [u8] {
        if i >= self.u32(184) {
            return b"";
        }
        match self.part(u64::from(self.u32(180)) + 8 * u64::from(i), 8) {
            b"" => b"",
            pair => self.part(u32_at(pair, 0).into(), u32_at(pair, 4).into()),
        }
    }

    fn table(self, offset: u32, count: u32, stride: u16) -> &'a [u8] {
        self.part(offset.into(), u64::from(count) * u64::from(stride))
    }

    /// The bytes of the frame from offset, none if they are not all there.
    fn part(self, offset: u64, size: u64) -> &'a [u8] {
        if offset + size > self.frame.len() as u64 {
            return b"";
        }
        &self.frame[offset as usize..(offset + size) as usize]
    }
}
