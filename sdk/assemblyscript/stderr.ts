// What the SDK itself has to say goes to fd 2, which is the log too: it must not
// make every plugin import log, which one that reads bodies may not have. The
// file stands alone, since the compiler needs it before anything that may assert.

// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "fd_write")
declare function fd_write(fd: i32, vectors: usize, count: u32, written: usize): i32;

// A vector of address and length, and the number of bytes written.
const block = memory.data(12);

/** Writes a line to fd 2. */
export function say(text: string): void {
  const line = String.UTF8.encode(text + "\n");
  store<usize>(block, changetype<usize>(line));
  store<u32>(block, line.byteLength, 4);
  // A line that can't be written has no better place to go.
  fd_write(2, block, 1, block + 8);
}

/** What a failed assertion and an index out of bounds do: they say why, and trap. */
export function abort(message: string | null, file: string | null, at: u32, column: u32): void {
  say((message ? message : "abort") + " at " + (file ? file : "") + ":" + at.toString());
  unreachable();
}
