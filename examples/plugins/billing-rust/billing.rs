//! A plugin that puts a price on each answer.

mod prices;

use prices::Book;
use std::cell::Cell;
use wasmeter::{Answer, Members, Request};

wasmeter::plugin! { init: init, shape: shape }

thread_local! {
    /// What the configuration says tokens cost.
    static BOOK: Cell<Book> = Cell::default();
}

fn init(config: Members) -> Result<(), String> {
    BOOK.with(|book| Ok(book.set(Book::read(config)?)))
}

fn shape(r: Request, out: &mut Answer) {
    let cost = BOOK.with(|book| book.get().cost(r.prompt_tokens(), r.completion_tokens()));
    out.fields
        .object("billing")
        .uint("cost_micro_usd", cost)
        .str("currency", "USD")
        .end();
}
