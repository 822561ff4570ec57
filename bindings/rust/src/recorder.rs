// SPDX-License-Identifier: Apache-2.0
//! How the recorder is found: libc's `confstr` is asked for a name that nobody else knows, and the recorder, if it is
//! there, answers with the address of its table of functions. The layout is that of `struct hg_recorder_` in
//! `<heapgauge/recorder.h>`; a later recorder has more at its end.

use crate::stats::{SiteStats, Stats, TagStats};
use crate::Tag;
use core::ffi::c_void;

/// What `leave` goes back to: `struct hg_scope`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entered {
    before: u32,
    kept: u32,
}

impl Entered {
    pub const NONE: Entered = Entered { before: 0, kept: 0 };
}

#[repr(C)]
pub struct Recorder {
    version: u32,
    bytes: u32,
    pub enter: unsafe extern "C" fn(tag: *const Tag, frame: *const c_void) -> Entered,
    pub enter_name: unsafe extern "C" fn(name: *const u8, frame: *const c_void) -> Entered,
    pub leave: unsafe extern "C" fn(scope: Entered),
    pub mark: unsafe extern "C" fn(kind: i32, name: *const u8),
    pub pool_new: unsafe extern "C" fn(name: *const u8) -> u64,
    pub pool_alloc: unsafe extern "C" fn(pool: u64, address: *const c_void, bytes: usize),
    pub pool_resize: unsafe extern "C" fn(pool: u64, old: *const c_void, address: *const c_void, bytes: usize),
    pub pool_free: unsafe extern "C" fn(pool: u64, address: *const c_void),
    pub pool_clear: unsafe extern "C" fn(pool: u64, end: i32),
    pub context_get: unsafe extern "C" fn() -> u32,
    pub context_set: unsafe extern "C" fn(context: u32),
    pub label: unsafe extern "C" fn(key: *const u8, value: *const u8),
    pub label_enter: unsafe extern "C" fn(key: *const u8, value: *const u8, frame: *const c_void) -> Entered,
    pub turn: unsafe extern "C" fn(mode: i32),
    pub go: unsafe extern "C" fn(on: i32, place: i32),
    pub stacks: unsafe extern "C" fn(least: usize, most: usize),
    pub stats: unsafe extern "C" fn(ret: *mut Stats, bytes: usize) -> i32,
    pub tag_stats: unsafe extern "C" fn(path: *const u8, ret: *mut TagStats) -> i32,
    pub tags: unsafe extern "C" fn(ret: *mut TagStats, count: usize) -> usize,
    pub sites: unsafe extern "C" fn(ret: *mut SiteStats, count: usize, order: i32) -> usize,
}

/// A recorder that has all of these: one that is older than this crate may have the scopes alone.
#[inline]
pub fn get_whole() -> Option<&'static Recorder> {
    get().filter(|recorder| recorder.bytes as usize >= core::mem::size_of::<Recorder>())
}

#[cfg(target_os = "linux")]
mod find {
    use super::Recorder;
    use core::ffi::c_void;
    use core::mem::size_of;
    use core::sync::atomic::{AtomicUsize, Ordering};

    const QUESTION: i32 = 0x4847_4131;
    const NOT_ASKED: usize = 1;

    // Its address; 0 = there is no recorder.
    static FOUND: AtomicUsize = AtomicUsize::new(NOT_ASKED);

    extern "C" {
        fn confstr(name: i32, buffer: *mut c_void, bytes: usize) -> usize;
        fn __errno_location() -> *mut i32;
    }

    #[cold]
    #[inline(never)]
    fn ask() -> usize {
        let mut found: usize = 0;
        // Without the recorder confstr fails and says so in errno, which is the program's.
        unsafe {
            let errno = __errno_location();
            let before = *errno;
            let buffer = (&mut found as *mut usize).cast();
            if confstr(QUESTION, buffer, size_of::<usize>()) != size_of::<usize>() {
                found = 0;
            }
            *errno = before;
        }
        FOUND.store(found, Ordering::Relaxed);
        found
    }

    #[inline]
    pub fn get() -> Option<&'static Recorder> {
        let mut found = FOUND.load(Ordering::Relaxed);
        if found == NOT_ASKED {
            found = ask();
        }
        unsafe { (found as *const Recorder).as_ref() }
    }
}

#[cfg(not(target_os = "linux"))]
mod find {
    pub fn get() -> Option<&'static super::Recorder> {
        None
    }
}

pub use find::get;
