// A plugin that puts a price on each answer.

import { plugin } from "wasmeter";
import { Book } from "./prices";

export * from "wasmeter/exports";

// What the configuration says tokens cost.
const book = new Book();

plugin.init = (config) => book.read(config);

plugin.shape = (r, out) => {
  const cost = book.cost(r.promptTokens, r.completionTokens);
  out.fields.object("billing").uint("cost_micro_usd", cost).str("currency", "USD").end();
};
