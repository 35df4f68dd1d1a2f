//! The SDK for plugins in Rust. A plugin is a `cdylib` that names its hooks to
//! [`plugin!`]; README.md has an example, and host/plugin/ABI.md is what this
//! follows.
//!
//! Hooks are ordinary functions of a [`Request`] and an [`Answer`], and work on
//! any platform, so a plugin is tested with `cargo test`.

pub mod abi;
mod answer;
mod config;
mod host;
mod json;
mod request;

pub use answer::{Answer, Denial};
pub use config::{Member, Members};
pub use host::{
    emit, imports, kv_add, kv_get, kv_set, log, metric_add, metric_observe, now_unix_ns, HostError,
    Level,
};
pub use json::Json;
pub use request::{
    Choice, Choices, Endpoint, Event, EventKind, Events, Flags, Hook, Outcome, Request,
};

/// The version of this SDK.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes functions the hooks of this module's plugin:
///
/// ```ignore
/// wasmeter::plugin! {
///     init: init,         // fn(Members) -> Result<(), String>, once in each instance
///     request: request,   // fn(Request, &mut Answer)
///     shape: shape,       // fn(Request, &mut Answer)
///     chunk: chunk,       // fn(Request, &mut Answer)
///     finish: finish;     // fn(Request) -> Result<(), HostError>
///     wants: events, choices, request_document, response_document
/// }
/// ```
///
/// A hook that is not named costs nothing, and what is not wanted is not in the
/// frame.
#[macro_export]
macro_rules! plugin {
    ($($hook:ident: $function:path),+ $(,)? $(; wants: $($part:ident),+ $(,)?)?) => {
        #[no_mangle]
        pub extern "C" fn wasmeter_abi_v1() -> i32 {
            $crate::abi::MINOR
        }
        #[no_mangle]
        pub extern "C" fn wasmeter_buffer(need: u32) -> u32 {
            $crate::abi::buffer(need)
        }
        #[no_mangle]
        pub extern "C" fn wasmeter_init(len: u32) -> i32 {
            $crate::abi::say_panics();
            $($crate::start_hook!(len, $hook, $function);)+
            0 $(| $crate::abi::mask::$hook)+ $($(| $crate::abi::mask::$part)+)?
        }
        $($crate::export_hook!($hook, $function);)+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! start_hook {
    ($len:ident, init, $function:path) => {
        if !$crate::abi::init($len, $function) {
            return -1;
        }
    };
    ($len:ident, $hook:ident, $function:path) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_hook {
    (init, $function:path) => {};
    (request, $function:path) => {
        #[no_mangle]
        pub extern "C" fn wasmeter_request(len: u32) -> u64 {
            $crate::abi::call(len, $function)
        }
    };
    (shape, $function:path) => {
        #[no_mangle]
        pub extern "C" fn wasmeter_shape(len: u32) -> u64 {
            $crate::abi::call(len, $function)
        }
    };
    (chunk, $function:path) => {
        #[no_mangle]
        pub extern "C" fn wasmeter_chunk(len: u32) -> u64 {
            $crate::abi::call(len, $function)
        }
    };
    (finish, $function:path) => {
        #[no_mangle]
        pub extern "C" fn wasmeter_finish(len: u32) -> i32 {
            $crate::abi::finish(len, $function)
        }
    };
}
