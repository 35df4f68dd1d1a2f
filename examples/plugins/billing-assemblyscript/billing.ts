// A plugin that puts a price on each answer and writes a record of it when the
// request ends.

import { Json, Request, emit, plugin, record } from "wasmeter";
import { Book } from "./prices";

export * from "wasmeter/exports";

// What the configuration says tokens cost.
const book = new Book();

// The kind of this plugin's records.
const charge = 1;

plugin.init = (config) => book.read(config);

plugin.shape = (r, out) => {
  write(out.fields.object("billing"), r).end();
};

// It is called for each request, also for those that got no answer with a price:
// a client that left pays for what was made until then.
plugin.finish = (r) => emit(charge, write(record().text("tenant", r.tenant).text("model", r.model), r));

/** Says what the request costs. */
function write(w: Json, r: Request): Json {
  return w.uint("cost_micro_usd", book.cost(r.promptTokens, r.completionTokens)).str("currency", "USD");
}
