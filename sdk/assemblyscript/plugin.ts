import { Answer } from "./answer";
import { Members } from "./config";
import { Request } from "./request";

/** The hooks of a plugin, and what it wants to see. */
export class Plugin {
  /** Reads the plugin's config, once in each instance. What it returns is why it refuses it. */
  init: ((config: Members) => string | null) | null = null;
  /** Decides before a request is queued. */
  request: ((r: Request, out: Answer) => void) | null = null;
  /** Adds to a final document or usage chunk. */
  shape: ((r: Request, out: Answer) => void) | null = null;
  /** Sees each chunk of a stream. */
  chunk: ((r: Request, out: Answer) => void) | null = null;
  /** Accounts for a request, whatever its end. It returns 0, or a HostError. */
  finish: ((r: Request) => i32) | null = null;

  /** Asks for Request.events, choices and document. */
  wantsEvents: bool = false;
  wantsChoices: bool = false;
  wantsRequestDocument: bool = false;
  wantsResponseDocument: bool = false;

  /** The bits of the ABI's hook mask. */
  mask(): i32 {
    let mask = 0;
    if (this.shape != null) mask |= 1 << 0;
    if (this.finish != null) mask |= 1 << 1;
    if (this.request != null) mask |= 1 << 2;
    if (this.chunk != null) mask |= 1 << 3;
    if (this.wantsEvents) mask |= 1 << 8;
    if (this.wantsResponseDocument) mask |= 1 << 9;
    if (this.wantsRequestDocument) mask |= 1 << 10;
    if (this.wantsChoices) mask |= 1 << 11;
    return mask;
  }
}

/** This module's plugin. */
export const plugin = new Plugin();
