//! What [`plugin!`](crate::plugin) makes the exported functions of. No plugin
//! needs it otherwise.

use crate::{host::say, Answer, HostError, Members, Request};
use std::panic;

/// The minor version of the ABI that this SDK was written for.
pub const MINOR: i32 = 0;

/// Bits of the hook mask.
#[allow(non_upper_case_globals)]
pub mod mask {
    pub const init: i32 = 0;
    pub const shape: i32 = 1 << 0;
    pub const finish: i32 = 1 << 1;
    pub const request: i32 = 1 << 2;
    pub const chunk: i32 = 1 << 3;
    pub const events: i32 = 1 << 8;
    pub const response_document: i32 = 1 << 9;
    pub const request_document: i32 = 1 << 10;
    pub const choices: i32 = 1 << 11;
}

/// Where the host writes: words, since the ABI wants it 8-aligned. An instance
/// has one thread, and the host makes one call at a time, so these are touched
/// by one function at a time.
static mut INPUT: Vec<u64> = Vec::new();
static mut OUTPUT: Answer = Answer::new();

/// Gives the address of a buffer of at least `need` bytes.
pub fn buffer(need: u32) -> u32 {
    // SAFETY: see INPUT.
    let input = unsafe { &mut *std::ptr::addr_of_mut!(INPUT) };
    let words = (need as usize + 7) / 8;
    if input.len() < words || input.is_empty() {
        // Twice what is needed, so that slowly growing frames don't make a
        // buffer each. The old one goes first: it need not be copied.
        *input = Vec::new();
        let size = (2 * words).max(128);
        if input.try_reserve_exact(size).is_err() {
            return 0;
        }
        input.resize(size, 0);
    }
    input.as_ptr() as usize as u32
}

fn received(len: u32) -> &'static [u8] {
    // SAFETY: see INPUT. Hooks get the slice with a shorter life than the call.
    unsafe {
        let input = &*std::ptr::addr_of!(INPUT);
        assert!(len as usize <= input.len() * 8);
        std::slice::from_raw_parts(input.as_ptr() as *const u8, len as usize)
    }
}

/// Makes panics say why in the server's log before they trap.
pub fn say_panics() {
    panic::set_hook(Box::new(|info| say(&info.to_string())));
}

/// Runs the hook init and reports whether it took the configuration.
pub fn init(len: u32, hook: impl FnOnce(Members) -> Result<(), String>) -> bool {
    match hook(Members::of(received(len))) {
        Ok(()) => true,
        Err(why) => {
            say(&why);
            false
        }
    }
}

/// Runs a hook and packs the address and the length of its document.
pub fn call(len: u32, hook: impl FnOnce(Request, &mut Answer)) -> u64 {
    // SAFETY: see INPUT.
    let output = unsafe { &mut *std::ptr::addr_of_mut!(OUTPUT) };
    output.reset();
    hook(Request::new(received(len)), output);
    match output.document() {
        Some(text) => (text.as_ptr() as usize as u64) << 32 | text.len() as u64,
        None => 0,
    }
}

/// Runs the hook finish.
pub fn finish(len: u32, hook: impl FnOnce(Request) -> Result<(), HostError>) -> i32 {
    match hook(Request::new(received(len))) {
        Ok(()) => 0,
        Err(error) => {
            say(&error.to_string());
            -1
        }
    }
}
