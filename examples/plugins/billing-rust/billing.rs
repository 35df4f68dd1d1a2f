//! A plugin that puts a price on each answer and writes a record of it when the
//! request ends.

mod prices;

use prices::Book;
use std::cell::Cell;
use wasmeter::{Answer, HostError, Json, Members, Request};

wasmeter::plugin! { init: init, shape: shape, finish: finish }

thread_local! {
    /// What the configuration says tokens cost.
    static BOOK: Cell<Book> = Cell::default();
}

fn init(config: Members) -> Result<(), String> {
    BOOK.with(|book| Ok(book.set(Book::read(config)?)))
}

fn shape(r: Request, out: &mut Answer) {
    write(out.fields.object("billing"), r).end();
}

/// Is called for each request, also for those that got no answer with a price: a
/// client that left pays for what was made until then.
fn finish(r: Request) -> Result<(), HostError> {
    wasmeter::emit(CHARGE, |record| {
        write(record.str("tenant", r.tenant()).str("model", r.model()), r);
    })
}

/// The kind of this plugin's records.
const CHARGE: i32 = 1;

/// Says what the request costs.
fn write<'a>(w: &'a mut Json, r: Request) -> &'a mut Json {
    let cost = BOOK.with(|book| book.get().cost(r.prompt_tokens(), r.completion_tokens()));
    w.uint("cost_micro_usd", cost).str("currency", "USD")
}
