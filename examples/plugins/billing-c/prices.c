#include "prices.h"

// 2,000 dollars: at this price the cost of as many tokens as a request can count
// fits into 64 bits.
static const uint64_t most_price = 2000000000;

// Micro-dollars for a million tokens. So far below a cent, published prices are
// whole numbers, and adding them up is exact.
static struct { uint64_t input, output; } book;

uint64_t prices_cost(uint64_t input_tokens, uint64_t output_tokens) {
  const uint64_t million = 1000000;
  return (input_tokens * book.input + output_tokens * book.output + million / 2) / million;
}

const char *prices_read(wm_members *config) {
  bool input = false, output = false;
  wm_member member;
  while (wm_next(config, &member)) {
    uint64_t *price;
    if (wm_is(member.key, "input")) {
      price = &book.input;
      input = true;
    } else if (wm_is(member.key, "output")) {
      price = &book.output;
      output = true;
    } else {
      return wm_join(member.key, WM_TEXT(": unknown price; use input and output"));
    }
    if (!wm_member_uint(&member, most_price, price)) {
      return wm_join(member.key, WM_TEXT(": "), member.value, WM_TEXT(" is not a whole number of micro-dollars in 0 … 2000000000"));
    }
  }
  if (!input) return "input: missing; write the micro-dollars for a million tokens";
  if (!output) return "output: missing; write the micro-dollars for a million tokens";
  return NULL;
}
