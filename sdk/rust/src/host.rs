use crate::Json;
use std::fmt;

/// The functions of the host as the ABI has them. Elsewhere than in a plugin, in
/// a test, they say that the host is unavailable.
pub mod imports {
    #[cfg(target_arch = "wasm32")]
    #[link(wasm_import_module = "wasmeter_v1")]
    extern "C" {
        pub fn log(level: i32, ptr: *const u8, len: u32);
        pub fn emit(kind: i32, ptr: *const u8, len: u32) -> i32;
        pub fn metric_add(metric: u32, series: u32, value: f64) -> i32;
        pub fn metric_observe(metric: u32, series: u32, value: f64) -> i32;
        pub fn kv_get(kptr: *const u8, klen: u32, buf: *mut u8, cap: u32) -> i32;
        pub fn kv_set(kptr: *const u8, klen: u32, vptr: *const u8, vlen: u32, ttl_s: u32) -> i32;
        pub fn kv_add(kptr: *const u8, klen: u32, delta: i64, ttl_s: u32) -> i64;
        pub fn now_unix_ns() -> i64;
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub use self::nowhere::*;

    #[cfg(not(target_arch = "wasm32"))]
    #[allow(clippy::missing_safety_doc, unused_variables)]
    mod nowhere {
        const UNAVAILABLE: i32 = -6;

        pub unsafe fn log(level: i32, ptr: *const u8, len: u32) {
            let text = std::slice::from_raw_parts(ptr, len as usize);
            eprintln!("{}", String::from_utf8_lossy(text));
        }
        pub unsafe fn emit(kind: i32, ptr: *const u8, len: u32) -> i32 {
            UNAVAILABLE
        }
        pub unsafe fn metric_add(metric: u32, series: u32, value: f64) -> i32 {
            UNAVAILABLE
        }
        pub unsafe fn metric_observe(metric: u32, series: u32, value: f64) -> i32 {
            UNAVAILABLE
        }
        pub unsafe fn kv_get(kptr: *const u8, klen: u32, buf: *mut u8, cap: u32) -> i32 {
            UNAVAILABLE
        }
        pub unsafe fn kv_set(k: *const u8, klen: u32, v: *const u8, vlen: u32, ttl_s: u32) -> i32 {
            UNAVAILABLE
        }
        pub unsafe fn kv_add(kptr: *const u8, klen: u32, delta: i64, ttl_s: u32) -> i64 {
            i64::MIN - i64::from(UNAVAILABLE)
        }
        pub unsafe fn now_unix_ns() -> i64 {
            0
        }
    }
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Why the host did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    Absent,
    Denied,
    TooLarge,
    BadPointer,
    Quota,
    Unavailable,
}

impl HostError {
    /// The code of the ABI.
    pub fn code(self) -> i32 {
        -1 - self as i32
    }

    fn of(code: i64) -> HostError {
        match code {
            -1 => HostError::Absent,
            -2 => HostError::Denied,
            -3 => HostError::TooLarge,
            -4 => HostError::BadPointer,
            -5 => HostError::Quota,
            _ => HostError::Unavailable,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            HostError::Absent => "host: absent",
            HostError::Denied => "host: denied",
            HostError::TooLarge => "host: too large",
            HostError::BadPointer => "host: bad pointer",
            HostError::Quota => "host: over its quota",
            HostError::Unavailable => "host: unavailable",
        })
    }
}

impl std::error::Error for HostError {}

fn done(code: i32) -> Result<(), HostError> {
    if code < 0 {
        return Err(HostError::of(code.into()));
    }
    Ok(())
}

/// Writes a line to the server's log, under the plugin's name. The server cuts
/// it at 2 KiB and drops lines when there are too many.
pub fn log(level: Level, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    // SAFETY: the host reads the slice before it returns, here and below.
    unsafe { imports::log(level as i32, text.as_ptr(), text.len() as u32) }
}

/// Writes a line to fd 2, which is the log too, for what is said by the SDK
/// itself: it must not make every plugin import log, which one that reads bodies
/// may not have.
pub(crate) fn say(text: &str) {
    #[cfg(target_arch = "wasm32")]
    {
        #[link(wasm_import_module = "wasi_snapshot_preview1")]
        extern "C" {
            fn fd_write(fd: i32, vectors: *const [u32; 2], count: u32, written: *mut u32) -> i32;
        }
        let vector = |text: &str| [text.as_ptr() as u32, text.len() as u32];
        let vectors = [vector(text), vector("\n")];
        let mut written = 0;
        // SAFETY: the host reads the vectors before it returns. A line that can't
        // be written has no better place to go.
        unsafe { fd_write(2, vectors.as_ptr(), 2, &mut written) };
    }
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("{text}");
}

static mut RECORD: Json = Json::new();

/// Appends the billing or audit record that write writes.
pub fn emit(kind: i32, write: impl FnOnce(&mut Json)) -> Result<(), HostError> {
    // It is taken out of its place, so that an emit within write has another.
    // SAFETY: an instance has one thread.
    let mut record = std::mem::take(unsafe { &mut *std::ptr::addr_of_mut!(RECORD) });
    record.reset(b"{");
    write(&mut record);
    record.close_all();
    record.text.push(b'}');
    let code = unsafe { imports::emit(kind, record.text.as_ptr(), record.text.len() as u32) };
    unsafe { RECORD = record };
    done(code)
}

/// Adds to a counter. metric and series are indexes into what the configuration
/// declares.
pub fn metric_add(metric: u32, series: u32, value: f64) -> Result<(), HostError> {
    done(unsafe { imports::metric_add(metric, series, value) })
}

/// Observes a value in a histogram.
pub fn metric_observe(metric: u32, series: u32, value: f64) -> Result<(), HostError> {
    done(unsafe { imports::metric_observe(metric, series, value) })
}

/// Reads the value of a key into buffer, which grows if it has to.
pub fn kv_get(key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<Option<&[u8]>, HostError> {
    let key = key.as_ref();
    loop {
        let (room, cap) = (buffer.as_mut_ptr(), buffer.len() as u32);
        match unsafe { imports::kv_get(key.as_ptr(), key.len() as u32, room, cap) } {
            -1 => return Ok(None),
            code if code < 0 => return Err(HostError::of(code.into())),
            need if need as usize <= buffer.len() => return Ok(Some(&buffer[..need as usize])),
            need => buffer.resize(need as usize, 0),
        }
    }
}

/// Sets the value of a key for ttl_s seconds.
pub fn kv_set(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl_s: u32) -> Result<(), HostError> {
    let (k, v) = (key.as_ref(), value.as_ref());
    done(unsafe {
        imports::kv_set(
            k.as_ptr(),
            k.len() as u32,
            v.as_ptr(),
            v.len() as u32,
            ttl_s,
        )
    })
}

/// Adds to a key's number, atomically over all instances, and gives the sum.
pub fn kv_add(key: impl AsRef<[u8]>, delta: i64, ttl_s: u32) -> Result<i64, HostError> {
    let key = key.as_ref();
    let sum = unsafe { imports::kv_add(key.as_ptr(), key.len() as u32, delta, ttl_s) };
    // A sum may be negative, so the errors are the lowest numbers there are.
    match sum.wrapping_sub(i64::MIN) {
        code @ 1..=6 => Err(HostError::of(-code)),
        _ => Ok(sum),
    }
}

/// The wall clock in Unix nanoseconds, the same throughout a call.
pub fn now_unix_ns() -> i64 {
    unsafe { imports::now_unix_ns() }
}
