import { Members } from "wasmeter";

/**
 * 2,000 dollars: at this price the cost of as many tokens as a request can count
 * fits into 64 bits.
 */
const mostPrice: u64 = 2000000000;

const million: u64 = 1000000;

/**
 * Micro-dollars for a million tokens. So far below a cent, published prices are
 * whole numbers, and adding them up is exact.
 */
export class Book {
  private input: u64 = 0;
  private output: u64 = 0;

  /** In micro-dollars, rounded half up. */
  cost(inputTokens: u32, outputTokens: u32): u64 {
    return (inputTokens * this.input + outputTokens * this.output + million / 2) / million;
  }

  /**
   * Takes the prices from the plugin's config, {"input": 2500000, "output":
   * 10000000}, or says what is wrong with it. It wants both and nothing else: a
   * misspelt price must not be 0.
   */
  read(config: Members): string | null {
    let input = false, output = false;
    for (let member = config.next(); member != null; member = config.next()) {
      const key = member.key;
      if (key != "input" && key != "output") return key + ": unknown price; use input and output";
      if (!member.isUint(mostPrice)) {
        return `${key}: ${member.value} is not a whole number of micro-dollars in 0 … ${mostPrice}`;
      }
      if (key == "input") {
        this.input = member.uint();
        input = true;
      } else {
        this.output = member.uint();
        output = true;
      }
    }
    const missing = ": missing; write the micro-dollars for a million tokens";
    if (!input) return "input" + missing;
    if (!output) return "output" + missing;
    return null;
  }
}
