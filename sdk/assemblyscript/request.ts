import { Text } from "./text";

/** Facts about a request. */
export enum Flag {
  Stream = 1 << 0,
  Partial = 1 << 1,
  MultiChoice = 1 << 2,
  MultiPrompt = 1 << 3,
  MultiTurn = 1 << 4,
  TimingUnknown = 1 << 5,
  TimingsWanted = 1 << 6,
  Replay = 1 << 7,
  Synthetic = 1 << 8,
  Batch = 1 << 9,
  UsageChunkWanted = 1 << 10,
}

/** Which API the request came through. A later version may have more. */
export enum Endpoint {
  Chat = 1,
  Completions = 2,
  Responses = 3,
}

/** The hook that a frame was made for. */
export enum Hook {
  Request = 1,
  Shape = 2,
  Chunk = 3,
  Finish = 4,
}

/** How a request or a choice ended. */
export enum Outcome {
  Running = 0,
  Stop = 1,
  Length = 2,
  ToolCalls = 3,
  ClientAbort = 4,
  ServerError = 5,
  Rejected = 6,
  Deadline = 7,
  Shutdown = 8,
  SlowReader = 9,
  Denied = 10,
  PluginError = 11,
  CrashRecovered = 12,
}

/** What an event is about. */
export enum EventKind {
  Queued = 1,
  Scheduled = 2,
  FirstToken = 3,
  /** One engine step; aux is its time in microseconds. */
  Tokens = 4,
  Preempted = 5,
  Resumed = 6,
  Finished = 7,
  Aborted = 8,
  Rejected = 9,
  /** numTokens of aux drafted ones were accepted. */
  Draft = 10,
}

/**
 * Walks over a table: next moves to the first record, then to the one behind it,
 * and tells whether there is one. The stride comes from the frame: a later minor
 * version has longer records.
 */
abstract class Records {
  protected record: usize = 0;
  private left: u32 = 0;
  private stride: u32 = 0;

  constructor(private smallest: u32) {}

  of(table: Text, stride: u32): void {
    this.left = stride < this.smallest ? 0 : table.length / stride;
    this.stride = stride;
    this.record = table.ptr - stride;
  }

  next(): bool {
    if (this.left == 0) return false;
    this.left--;
    this.record += this.stride;
    return true;
  }
}

/** The request's history. */
export class Events extends Records {
  constructor() {
    super(24);
  }

  /** Since arrival. */
  get tNs(): u64 {
    return load<u64>(this.record, 0);
  }

  get kind(): u16 {
    return load<u16>(this.record, 8);
  }

  get flags(): u16 {
    return load<u16>(this.record, 10);
  }

  get numTokens(): u32 {
    return load<u32>(this.record, 12);
  }

  /** Tokens computed in the whole step. */
  get batchTokens(): u32 {
    return load<u32>(this.record, 16);
  }

  get aux(): u32 {
    return load<u32>(this.record, 20);
  }
}

/** The accounts of the request's choices. */
export class Choices extends Records {
  constructor() {
    super(88);
  }

  get index(): u32 {
    return load<u32>(this.record, 0);
  }

  get promptIndex(): u32 {
    return load<u32>(this.record, 4);
  }

  /** A code of Outcome. */
  get finishReason(): u32 {
    return load<u32>(this.record, 8);
  }

  get promptTokens(): u32 {
    return load<u32>(this.record, 12);
  }

  get cachedTokens(): u32 {
    return load<u32>(this.record, 16);
  }

  get completionTokens(): u32 {
    return load<u32>(this.record, 20);
  }

  get reasoningTokens(): u32 {
    return load<u32>(this.record, 24);
  }

  get deliveredTokens(): u32 {
    return load<u32>(this.record, 28);
  }

  get queuedNs(): u64 {
    return load<u64>(this.record, 32);
  }

  get scheduledNs(): u64 {
    return load<u64>(this.record, 40);
  }

  get firstTokenNs(): u64 {
    return load<u64>(this.record, 48);
  }

  get lastTokenNs(): u64 {
    return load<u64>(this.record, 56);
  }

  get deviceNs(): u64 {
    return load<u64>(this.record, 64);
  }

  get drafted(): u32 {
    return load<u32>(this.record, 72);
  }

  get accepted(): u32 {
    return load<u32>(this.record, 76);
  }

  get specSteps(): u32 {
    return load<u32>(this.record, 80);
  }
}

/**
 * Reads the frame of one request. What it is too short for is 0 or empty. Its
 * texts, events and choices are views that the next call uses again.
 *
 * Stamps are nanoseconds since the request arrived, by a clock that never goes
 * back; 0 means that it never happened.
 */
export class Request {
  private frame: Text = new Text();
  private texts: StaticArray<Text> = new StaticArray<Text>(14);
  private table: Text = new Text();
  private eventTable: Events = new Events();
  private choiceTable: Choices = new Choices();
  private body: Text = new Text();

  constructor() {
    for (let i = 0; i < this.texts.length; i++) this.texts[i] = new Text();
  }

  of(ptr: usize, length: u32): Request {
    this.frame.ptr = ptr;
    this.frame.length = length;
    return this;
  }

  /** Facts about the request, bits of Flag. */
  get flags(): u32 {
    return this.header<u32>(8);
  }

  /** The API of the request. */
  get endpoint(): u8 {
    return this.header<u8>(12);
  }

  /** The hook that is called. */
  get hook(): u8 {
    return this.header<u8>(13);
  }

  /** How the request ended. */
  get outcome(): u8 {
    return this.header<u8>(14);
  }

  /** Choices asked for. */
  get n(): u16 {
    return this.header<u16>(16);
  }

  /** Prompts sent. */
  get prompts(): u16 {
    return this.header<u16>(18);
  }

  /** The status of the answer. */
  get httpStatus(): u16 {
    return this.header<u16>(20);
  }

  /** Tool calls that the model made. */
  get toolCalls(): u16 {
    return this.header<u16>(22);
  }

  /** The wall-clock time of arrival. */
  get arrivalUnixNs(): u64 {
    return this.header<u64>(24);
  }

  /** Tokens of the prompt. */
  get promptTokens(): u32 {
    return this.header<u32>(32);
  }

  /** Tokens of the answer, as usage counts them. */
  get completionTokens(): u32 {
    return this.header<u32>(36);
  }

  /** Prompt tokens found in the prefix cache. */
  get cachedPromptTokens(): u32 {
    return this.header<u32>(40);
  }

  /** Prompt tokens written to it. */
  get cacheWriteTokens(): u32 {
    return this.header<u32>(44);
  }

  /** Completion tokens spent on reasoning. */
  get reasoningTokens(): u32 {
    return this.header<u32>(48);
  }

  /** Prompt tokens that stand for images. */
  get imageTokens(): u32 {
    return this.header<u32>(52);
  }

  /** Prompt tokens that stand for audio. */
  get audioTokens(): u32 {
    return this.header<u32>(56);
  }

  /** Completion tokens that reached the client. */
  get deliveredTokens(): u32 {
    return this.header<u32>(60);
  }

  /** Tokens computed again after a preemption. */
  get recomputedTokens(): u32 {
    return this.header<u32>(64);
  }

  /** How often the request lost its place. */
  get preemptions(): u32 {
    return this.header<u32>(68);
  }

  /** Tokens that speculation proposed. */
  get draftedTokens(): u32 {
    return this.header<u32>(72);
  }

  /** Proposed tokens that were kept. */
  get acceptedTokens(): u32 {
    return this.header<u32>(76);
  }

  /** The completion limit that was asked for. */
  get maxTokens(): u32 {
    return this.header<u32>(80);
  }

  /** The request's priority. */
  get priority(): i32 {
    return this.header<i32>(84);
  }

  /** The promised time to the first token, 0 for none. */
  get sloTtftMs(): u32 {
    return this.header<u32>(88);
  }

  /** The promised time for each further token, 0 for none. */
  get sloTpotMs(): u32 {
    return this.header<u32>(92);
  }

  /** The deadline since arrival, 0 for none. */
  get deadlineMs(): u32 {
    return this.header<u32>(96);
  }

  /** When the request entered the waiting queue. */
  get queuedNs(): u64 {
    return this.header<u64>(104);
  }

  /** When its first step began. */
  get scheduledNs(): u64 {
    return this.header<u64>(112);
  }

  /** When its first token was there. */
  get firstTokenNs(): u64 {
    return this.header<u64>(120);
  }

  /** When its last token was there. */
  get lastTokenNs(): u64 {
    return this.header<u64>(128);
  }

  /** When it ended. */
  get finishedNs(): u64 {
    return this.header<u64>(136);
  }

  /** The request's share of the device's time. */
  get deviceNs(): u64 {
    return this.header<u64>(144);
  }

  /** The number of its record in the ledger, 0 without a ledger. */
  get recordSeq(): u64 {
    return this.header<u64>(152);
  }

  /** The id of the answer. */
  get requestId(): Text {
    return this.string(0);
  }

  /** The server's own id of this attempt. */
  get attemptId(): Text {
    return this.string(1);
  }

  /** The id that the client sent. */
  get clientRequestId(): Text {
    return this.string(2);
  }

  /** The model's name as it is served. */
  get model(): Text {
    return this.string(3);
  }

  /** The owner of the key. */
  get tenant(): Text {
    return this.string(4);
  }

  /** The name of the key. */
  get keyName(): Text {
    return this.string(5);
  }

  /** The model's adapter. */
  get adapter(): Text {
    return this.string(6);
  }

  /** The tier that was asked for. */
  get serviceTier(): Text {
    return this.string(7);
  }

  /** Stands for the end user, without telling who it is. */
  get userHash(): Text {
    return this.string(8);
  }

  /** The client's key against double charging. */
  get idempotencyKey(): Text {
    return this.string(9);
  }

  /** The request's own, a JSON object. */
  get metadata(): Text {
    return this.string(10);
  }

  /** The plugin chain that serves the request. */
  get chainId(): Text {
    return this.string(11);
  }

  /** What an earlier hook of this plugin left for this one. */
  get carry(): Text {
    return this.string(12);
  }

  /** The statistics of speculative decoding, a JSON object, or empty. */
  get specJson(): Text {
    return this.string(13);
  }

  /** The request's history, for a plugin that wants events. */
  get events(): Events {
    const stride = this.header<u16>(168);
    this.part(this.table, this.header<u32>(160), <u64>this.header<u32>(164) * stride);
    this.eventTable.of(this.table, stride);
    return this.eventTable;
  }

  /** The request's choices, for a plugin that wants choices. */
  get choices(): Choices {
    const stride = this.header<u16>(170);
    this.part(this.table, this.header<u32>(172), <u64>this.header<u32>(176) * stride);
    this.choiceTable.of(this.table, stride);
    return this.choiceTable;
  }

  /** The document that the hook is about, for a plugin that wants it. */
  get document(): Text {
    return this.part(this.body, this.header<u32>(188), this.header<u32>(192));
  }

  /** A field of the header: a later minor version of the ABI has a longer one, an earlier one a shorter one. */
  private header<T>(at: u32): T {
    const behind = at + <u32>sizeof<T>();
    if (this.frame.length < 6 || this.frame.length < behind || load<u16>(this.frame.ptr, 4) < behind) return <T>0;
    return load<T>(this.frame.ptr + at);
  }

  private string(i: u32): Text {
    const text = this.texts[i];
    const pair = this.part(text, i < this.header<u32>(184) ? <u64>this.header<u32>(180) + 8 * i : u64.MAX_VALUE >> 1, 8);
    if (pair.length == 0) return text;
    return this.part(text, load<u32>(pair.ptr), load<u32>(pair.ptr, 4));
  }

  /** Points text to the bytes of the frame from offset, none if they are not all there. */
  private part(text: Text, offset: u64, size: u64): Text {
    const inside = offset + size <= <u64>this.frame.length;
    text.ptr = inside ? this.frame.ptr + <usize>offset : 0;
    text.length = inside ? <u32>size : 0;
    return text;
  }
}
