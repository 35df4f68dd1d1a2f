// It stands alone, since the compiler needs it before anything that may assert.

// @ts-ignore: decorator
@external("wasmeter_v1", "log")
declare function hostLog(level: i32, ptr: usize, len: u32): void;

/** What a failed assertion and an index out of bounds do: they say why, and trap. */
export function abort(message: string | null, file: string | null, at: u32, column: u32): void {
  const error = 3;
  const why = String.UTF8.encode((message ? message : "abort") + " at " + (file ? file : "") + ":" + at.toString());
  hostLog(error, changetype<usize>(why), why.byteLength);
  unreachable();
}
