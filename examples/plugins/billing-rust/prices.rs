use wasmeter::Members;

/// 2,000 dollars: at this price the cost of as many tokens as a request can
/// count fits into 64 bits.
const MOST_PRICE: u64 = 2_000_000_000;

/// Micro-dollars for a million tokens. So far below a cent, published prices are
/// whole numbers, and adding them up is exact.
#[derive(Clone, Copy, Default)]
pub struct Book {
    input: u64,
    output: u64,
}

impl Book {
    /// In micro-dollars, rounded half up.
    pub fn cost(&self, input_tokens: u32, output_tokens: u32) -> u64 {
        const MILLION: u64 = 1_000_000;
        let sum = u64::from(input_tokens) * self.input + u64::from(output_tokens) * self.output;
        (sum + MILLION / 2) / MILLION
    }

    /// Takes the prices from the plugin's config, {"input": 2500000, "output":
    /// 10000000}. It wants both and nothing else: a misspelt price must not be 0.
    pub fn read(config: Members) -> Result<Book, String> {
        let (mut input, mut output) = (None, None);
        for member in config {
            let price = match &*member.key {
                "input" => &mut input,
                "output" => &mut output,
                key => return Err(format!("{key}: unknown price; use input and output")),
            };
            *price = member.uint(MOST_PRICE);
            if price.is_none() {
                let (key, value) = (member.key, member.value);
                return Err(format!(
                    "{key}: {value} is not a whole number of micro-dollars in 0 … {MOST_PRICE}"
                ));
            }
        }
        let missing = |key| format!("{key}: missing; write the micro-dollars for a million tokens");
        Ok(Book {
            input: input.ok_or_else(|| missing("input"))?,
            output: output.ok_or_else(|| missing("output"))?,
        })
    }
}
