import { Json } from "./json";
import { Buffer, Text } from "./text";

/** What a hook adds, changes or decides. Writing nothing changes nothing. All but carry needs a grant. */
export class Answer {
  /** Members for the answer's top level. */
  readonly fields: Json = new Json();
  /** Members for its usage. */
  readonly usage: Json = new Json();
  /** Response headers, as strings. */
  readonly headers: Json = new Json();
  private rest: Json = new Json();

  reset(): void {
    this.fields.reset('{"fields":{');
    this.usage.reset("");
    this.headers.reset("");
    this.rest.reset("");
  }

  /** Leaves text, at most 4 KiB, for this plugin's later hooks on the request. */
  carry(text: string): void {
    this.rest.str("carry", text);
  }

  /** The same for a text. */
  carryText(text: Text): void {
    this.rest.text("carry", text);
  }

  /** Refuses the request, in the hook request. retryAfter is in seconds, 0 for none. */
  deny(status: u16, code: string, message: string, retryAfter: u32 = 0): void {
    this.rest.object("deny").uint("status", status).str("code", code).str("message", message);
    if (retryAfter > 0) this.rest.uint("retry_after", retryAfter);
    this.rest.end();
  }

  /** Sets the request's priority. */
  priority(value: i32): void {
    this.rest.int("priority", value);
  }

  /** Sets the request's deadline, in milliseconds since its arrival. */
  deadlineMs(value: u32): void {
    this.rest.uint("deadline_ms", value);
  }

  /** Puts a JSON document in the place of the answer or the chunk. */
  replace(json: Text): void {
    this.rest.rawText("document", json);
  }

  /** The result document, null when nothing was written. */
  document(): Buffer | null {
    const out = this.fields.written;
    if (this.fields.empty) {
      out.clear().add("{");
    } else {
      this.fields.closeAll();
      out.add("}");
    }
    join(out, this.usage, '"usage":{', "}");
    join(out, this.headers, '"headers":{', "}");
    join(out, this.rest, "", "");
    return out.length == 1 ? null : out.add("}");
  }
}

/** Appends members, if there are any, between before and after. */
function join(out: Buffer, members: Json, before: string, after: string): void {
  if (members.empty) return;
  members.closeAll();
  if (out.last() != 0x7b) out.addByte(0x2c);
  out.add(before).addText(members.written).add(after);
}
