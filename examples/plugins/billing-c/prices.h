#ifndef PRICES_H
#define PRICES_H

#include "wasmeter.h"

// prices_read takes the prices from the plugin's config, {"input": 2500000,
// "output": 10000000}, or says what is wrong with it. It wants both and nothing
// else: a misspelt price must not be 0.
const char *prices_read(wm_members *config);

// prices_cost is in micro-dollars, rounded half up.
uint64_t prices_cost(uint64_t input_tokens, uint64_t output_tokens);

#endif
