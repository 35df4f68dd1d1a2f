// The SDK for plugins in AssemblyScript. A plugin sets its hooks on the object
// plugin and exports what the host calls:
//
//   export * from "wasmeter/exports";
//
// README.md has an example, and host/plugin/ABI.md is what this follows.

/** The version of this SDK. */
export const version = "0.1.0";

export { Answer } from "./answer";
export { Member, Members } from "./config";
export {
  HostError, Level, emit, errorOf, imports, kvAdd, kvGet, kvSet, log, logText, metricAdd, metricObserve, nowUnixNs, record,
} from "./host";
export { Json } from "./json";
export { Plugin, plugin } from "./plugin";
export { Choices, Endpoint, EventKind, Events, Flag, Hook, Outcome, Request } from "./request";
export { Buffer, Text } from "./text";
