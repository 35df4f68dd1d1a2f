//! The guest of the conformance kit; ../../README.md says what it does.

use std::cell::RefCell;
use wasmeter::{imports, Answer, Denial, HostError, Json, Level, Members, Request};

wasmeter::plugin! {
    init: init, request: request, shape: shape, chunk: chunk, finish: finish;
    wants: events, choices, request_document, response_document
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

#[derive(Default)]
struct State {
    task: String,
    about: String,
    value: Vec<u8>, // of kv_get
}

fn init(config: Members) -> Result<(), String> {
    let (mut state, mut why) = (State::default(), String::new());
    for member in config {
        match &*member.key {
            "do" => state.task = member.str().unwrap_or_default().into_owned(),
            "why" => why = member.str().unwrap_or_default().into_owned(),
            "about" => state.about = member.value.to_owned(),
            _ => {}
        }
    }
    if state.task == "refuse" {
        return Err(why);
    }
    STATE.with(|s| *s.borrow_mut() = state);
    Ok(())
}

fn request(r: Request, out: &mut Answer) {
    out.headers.str("x-tenant", r.tenant());
    out.carry(r.tenant());
    if r.prompts() == 0 {
        out.deny(Denial {
            status: r.http_status(),
            code: "denied",
            message: "no prompts",
            retry_after: r.max_tokens(),
        });
    } else {
        out.priority(r.priority());
        out.deadline_ms(r.deadline_ms());
    }
}

fn chunk(r: Request, out: &mut Answer) {
    out.replace(r.document());
}

fn shape(r: Request, out: &mut Answer) {
    STATE.with(|state| {
        let state = state.borrow();
        match &*state.task {
            "echo" => echo(r, &mut out.fields),
            "numbers" => numbers(r, &mut out.fields),
            "config" => config_members(&state.about, &mut out.fields),
            "answer" => {
                out.fields.uint("x_n", r.n().into()).object("x_open");
                out.usage.str("x_model", r.model());
                out.headers.str("x-tenant", r.tenant());
                out.carry(r.tenant());
            }
            "trap" => panic!("a trap was asked for"),
            "loop" => loop {},
            "hoard" => loop {
                let mut block = Vec::with_capacity(1 << 20);
                block.push(1u8);
                // SAFETY: it is a reference. Volatile, so that the block is made.
                unsafe { std::ptr::read_volatile(&block.leak()[0]) };
            },
            _ => {}
        }
    })
}

fn echo(r: Request, w: &mut Json) {
    w.object("x_echo").object("header");
    w.uint("flags", r.flags().0.into());
    w.uint("endpoint", r.endpoint().0.into());
    w.uint("hook", r.hook().0.into());
    w.uint("outcome", r.outcome().0.into());
    w.uint("n", r.n().into());
    w.uint("prompts", r.prompts().into());
    w.uint("http_status", r.http_status().into());
    w.uint("tool_calls", r.tool_calls().into());
    w.uint("arrival_unix_ns", r.arrival_unix_ns());
    w.uint("prompt_tokens", r.prompt_tokens().into());
    w.uint("completion_tokens", r.completion_tokens().into());
    w.uint("cached_prompt_tokens", r.cached_prompt_tokens().into());
    w.uint("cache_write_tokens", r.cache_write_tokens().into());
    w.uint("reasoning_tokens", r.reasoning_tokens().into());
    w.uint("image_tokens", r.image_tokens().into());
    w.uint("audio_tokens", r.audio_tokens().into());
    w.uint("delivered_tokens", r.delivered_tokens().into());
    w.uint("recomputed_tokens", r.recomputed_tokens().into());
    w.uint("preemptions", r.preemptions().into());
    w.uint("drafted_tokens", r.drafted_tokens().into());
    w.uint("accepted_tokens", r.accepted_tokens().into());
    w.uint("max_tokens", r.max_tokens().into());
    w.int("priority", r.priority().into());
    w.uint("slo_ttft_ms", r.slo_ttft_ms().into());
    w.uint("slo_tpot_ms", r.slo_tpot_ms().into());
    w.uint("deadline_ms", r.deadline_ms().into());
    w.uint("queued_ns", r.queued_ns());
    w.uint("scheduled_ns", r.scheduled_ns());
    w.uint("first_token_ns", r.first_token_ns());
    w.uint("last_token_ns", r.last_token_ns());
    w.uint("finished_ns", r.finished_ns());
    w.uint("device_ns", r.device_ns());
    w.uint("record_seq", r.record_seq());
    w.end().list("strings");
    for text in [
        r.request_id(),
        r.attempt_id(),
        r.client_request_id(),
        r.model(),
        r.tenant(),
        r.key_name(),
        r.adapter(),
        r.service_tier(),
        r.user_hash(),
        r.idempotency_key(),
        r.metadata(),
        r.chain_id(),
        r.carry(),
        r.spec_json(),
    ] {
        w.str("", text);
    }
    w.end().list("events");
    for e in r.events() {
        w.list("")
            .uint("", e.t_ns)
            .uint("", e.kind.0.into())
            .uint("", e.flags.into());
        w.uint("", e.n_tokens.into())
            .uint("", e.batch_tokens.into())
            .uint("", e.aux.into())
            .end();
    }
    w.end().list("choices");
    for c in r.choices() {
        w.list("");
        for n in [
            c.index,
            c.prompt_index,
            c.finish_reason.0,
            c.prompt_tokens,
            c.cached_tokens,
            c.completion_tokens,
            c.reasoning_tokens,
            c.delivered_tokens,
        ] {
            w.uint("", n.into());
        }
        for n in [
            c.queued_ns,
            c.scheduled_ns,
            c.first_token_ns,
            c.last_token_ns,
            c.device_ns,
        ] {
            w.uint("", n);
        }
        for n in [c.drafted, c.accepted, c.spec_steps] {
            w.uint("", n.into());
        }
        w.end();
    }
    w.end().str("document", r.document()).end();
}

fn numbers(r: Request, w: &mut Json) {
    w.object("x_numbers");
    w.int("int", r.device_ns() as i64)
        .uint("uint", r.record_seq());
    w.millis("millis", r.queued_ns())
        .ratio("ratio", r.queued_ns(), r.scheduled_ns());
    w.bool("yes", true).bool("no", false).null("nothing");
    w.list("lists").list("").end().object("").end();
    w.list("").int("", -1).str("", "a").object("").null("b"); // four are left open
}

fn config_members(about: &str, w: &mut Json) {
    w.list("x_config");
    for member in Members::of(about.as_bytes()) {
        w.object("")
            .str("key", &*member.key)
            .str("value", member.value);
        match member.str() {
            Some(text) => w.str("str", &*text),
            None => w.null("str"),
        };
        match member.uint(u64::MAX) {
            Some(n) => w.uint("uint", n),
            None => w.null("uint"),
        };
        w.uint("members", member.members().count() as u64).end();
    }
    w.end();
}

fn finish(r: Request) -> Result<(), HostError> {
    STATE.with(|state| {
        let state = &mut *state.borrow_mut();
        if state.task == "bad" {
            return bad(r);
        }
        good(r, &mut state.value)
    })
}

fn good(r: Request, value: &mut Vec<u8>) -> Result<(), HostError> {
    const LEVELS: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    wasmeter::log(LEVELS[r.outcome().0 as usize % 4], r.tenant());
    let half = f64::from(r.prompt_tokens()) / 2.0;
    let (metric, series) = (r.n().into(), r.prompts().into());
    let emitted = wasmeter::emit(r.priority(), |w| {
        w.str("tenant", r.tenant())
            .uint("tokens", r.completion_tokens().into());
    });
    let added = wasmeter::metric_add(metric, series, half);
    let observed = wasmeter::metric_observe(metric, series, half);
    let set = wasmeter::kv_set(r.tenant(), r.model(), r.max_tokens());
    wasmeter::emit(0, |w| {
        w.int("emit", code(emitted)).int("metric_add", code(added));
        w.int("metric_observe", code(observed))
            .int("kv_set", code(set));
        match wasmeter::kv_get(r.tenant(), value) {
            Ok(Some(text)) => w.str("kv_get", text),
            Ok(None) => w.null("kv_get"),
            Err(error) => w.int("kv_get", error.code().into()),
        };
        let sum = wasmeter::kv_add(r.tenant(), r.device_ns() as i64, r.max_tokens());
        w.int("kv_add", sum.unwrap_or_else(|error| error.code().into()));
        w.int("now_unix_ns", wasmeter::now_unix_ns());
    })
}

fn code(result: Result<(), HostError>) -> i64 {
    result.err().map_or(0, |error| error.code().into())
}

fn bad(r: Request) -> Result<(), HostError> {
    const SIZE: u32 = 64;
    let to = 0xfffffff0usize as *mut u8;
    let (key, len) = (r.tenant().as_ptr() as *mut u8, r.tenant().len() as u32);
    // SAFETY: the host checks every pointer; that is what this is for.
    unsafe {
        imports::log(1, to, SIZE);
        wasmeter::emit(0, |w| {
            w.int("emit", imports::emit(1, to, SIZE).into());
            w.int("kv_get_key", imports::kv_get(to, SIZE, key, len).into());
            w.int("kv_get_buffer", imports::kv_get(key, len, to, SIZE).into());
            w.int("kv_set_key", imports::kv_set(to, SIZE, key, len, 1).into());
            w.int(
                "kv_set_value",
                imports::kv_set(key, len, to, SIZE, 1).into(),
            );
            w.int(
                "kv_add",
                i64::MIN.wrapping_sub(imports::kv_add(to, SIZE, 1, 1)),
            );
        })
    }
}
