// A plugin that puts a price on each answer and writes a record of it when the
// request ends.

#include "prices.h"

// The kind of this plugin's records.
enum { CHARGE = 1 };

// write says what the request costs.
static void write(wm_json *w, const wm_request *r) {
  wm_uint(w, "cost_micro_usd", prices_cost(wm_prompt_tokens(r), wm_completion_tokens(r)));
  wm_str(w, "currency", "USD");
}

static void shape(const wm_request *r, wm_answer *out) {
  wm_json *w = wm_fields(out);
  wm_object(w, "billing");
  write(w, r);
  wm_end(w);
}

// finish is called for each request, also for those that got no answer with a
// price: a client that left pays for what was made until then.
static int32_t finish(const wm_request *r) {
  wm_json *record = wm_record();
  wm_put(record, "tenant", wm_tenant(r));
  wm_put(record, "model", wm_model(r));
  write(record, r);
  return wm_emit(CHARGE, record);
}

WM_PLUGIN(.init = prices_read, .shape = shape, .finish = finish);
