// What the host calls. A plugin's file exports all of it again.

import { Answer } from "./answer";
import { Members } from "./config";
import { HostError } from "./host";
import { plugin } from "./plugin";
import { Request } from "./request";
import { say } from "./stderr";
import { Buffer } from "./text";

// Where the host writes, and where the hooks do. One call is made at a time.
const input = new Buffer();
const received = new Request();
const answer = new Answer();

export function wasmeter_abi_v1(): i32 {
  return 0; // the minor version of the ABI that this SDK was written for
}

export function wasmeter_buffer(need: u32): usize {
  input.clear().reserve(max<u32>(need, 8)); // the heap's blocks are 16-aligned
  return input.ptr;
}

export function wasmeter_init(len: u32): i32 {
  const init = plugin.init;
  if (init != null) {
    const why = init(new Members(String.UTF8.decodeUnsafe(input.ptr, len)));
    if (why != null) {
      say(why);
      return -1;
    }
  }
  return plugin.mask();
}

/** Runs a hook and packs the address and the length of its document. */
function call(hook: ((r: Request, out: Answer) => void) | null, len: u32): u64 {
  if (hook == null) return 0;
  answer.reset();
  hook(received.of(input.ptr, len), answer);
  const document = answer.document();
  return document == null ? 0 : (<u64>document.ptr << 32) | document.length;
}

export function wasmeter_request(len: u32): u64 {
  return call(plugin.request, len);
}

export function wasmeter_shape(len: u32): u64 {
  return call(plugin.shape, len);
}

export function wasmeter_chunk(len: u32): u64 {
  return call(plugin.chunk, len);
}

export function wasmeter_finish(len: u32): i32 {
  const finish = plugin.finish;
  if (finish == null) return HostError.Unavailable;
  const code = finish(received.of(input.ptr, len));
  if (code < 0) say("finish: the host answered " + code.toString());
  return min(code, 0);
}
