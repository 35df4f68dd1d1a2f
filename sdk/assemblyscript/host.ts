import { Json } from "./json";
import { Buffer, Text } from "./text";

/** The functions of the host as the ABI has them. One is imported only by a plugin that calls it. */
export namespace imports {
  // @ts-ignore: decorator
  @external("wasmeter_v1", "log")
  export declare function log(level: i32, ptr: usize, len: u32): void;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "emit")
  export declare function emit(kind: i32, ptr: usize, len: u32): i32;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "metric_add")
  export declare function metric_add(metric: u32, series: u32, value: f64): i32;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "metric_observe")
  export declare function metric_observe(metric: u32, series: u32, value: f64): i32;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "kv_get")
  export declare function kv_get(kptr: usize, klen: u32, buf: usize, cap: u32): i32;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "kv_set")
  export declare function kv_set(kptr: usize, klen: u32, vptr: usize, vlen: u32, ttl_s: u32): i32;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "kv_add")
  export declare function kv_add(kptr: usize, klen: u32, delta: i64, ttl_s: u32): i64;
  // @ts-ignore: decorator
  @external("wasmeter_v1", "now_unix_ns")
  export declare function now_unix_ns(): i64;
}

/** Why the host did not do what it was asked: its functions give these. */
export enum HostError {
  Absent = -1,
  Denied = -2,
  TooLarge = -3,
  BadPointer = -4,
  Quota = -5,
  Unavailable = -6,
}

export enum Level {
  Debug = 0,
  Info = 1,
  Warn = 2,
  Error = 3,
}

const line = new Buffer();

/**
 * Writes a line to the server's log, under the plugin's name. The server cuts it
 * at 2 KiB and drops lines when there are too many.
 */
export function log(level: Level, text: string): void {
  logText(level, line.clear().add(text));
}

/** The same for a text. */
export function logText(level: Level, text: Text): void {
  imports.log(level, text.ptr, text.length);
}

const shared = new Json();

/** An empty record for emit. There is one, used again by the next call. */
export function record(): Json {
  shared.reset("{");
  return shared;
}

/** Appends a billing or audit record, made by record. It gives 0, or a HostError. */
export function emit(kind: i32, what: Json): i32 {
  what.closeAll();
  what.written.addByte(0x7d);
  return imports.emit(kind, what.written.ptr, what.written.length);
}

/** Adds to a counter. metric and series are indexes into what the configuration declares. */
export function metricAdd(metric: u32, series: u32, value: f64): i32 {
  return imports.metric_add(metric, series, value);
}

/** Observes a value in a histogram. */
export function metricObserve(metric: u32, series: u32, value: f64): i32 {
  return imports.metric_observe(metric, series, value);
}

/** Reads the value of a key into value, and gives its length, or a HostError. */
export function kvGet(key: Text, value: Buffer): i32 {
  let room: u32 = 256;
  while (true) {
    value.clear().reserve(room);
    const need = imports.kv_get(key.ptr, key.length, value.ptr, room);
    if (need < 0) return need;
    if (<u32>need <= room) {
      value.length = <u32>need;
      return need;
    }
    room = <u32>need;
  }
}

/** Sets the value of a key for ttlS seconds. It gives 0, or a HostError. */
export function kvSet(key: Text, value: Text, ttlS: u32): i32 {
  return imports.kv_set(key.ptr, key.length, value.ptr, value.length, ttlS);
}

/** Adds to a key's number, atomically over all instances, and gives the sum, or what errorOf knows. */
export function kvAdd(key: Text, delta: i64, ttlS: u32): i64 {
  return imports.kv_add(key.ptr, key.length, delta, ttlS);
}

/** The HostError that a result of kvAdd stands for, 0 if it is a sum. */
export function errorOf(sum: i64): i32 {
  // A sum may be negative, so the errors are the lowest numbers there are.
  return sum > i64.MIN_VALUE && sum <= i64.MIN_VALUE + 6 ? <i32>(i64.MIN_VALUE - sum) : 0;
}

/** The wall clock in Unix nanoseconds, the same throughout a call. */
export function nowUnixNs(): i64 {
  return imports.now_unix_ns();
}
