// SPDX-License-Identifier: Apache-2.0
//! For programs that say something about their own memory while `heapgauge record` watches.
//!
//! Rust programs are recorded as they are; nothing of this is needed for that. With it, what is allocated belongs to a
//! name of the program's own, beside its stack:
//!
//! ```
//! fn parse(text: &str) -> Vec<&str> {
//!     heapgauge::scope!("parser");
//!     text.split(' ').collect()
//! }
//! # assert_eq!(parse("a b").len(), 2);
//! ```
//!
//! Without the recorder every call is the test of one variable. Nothing has to be linked and nothing is downloaded: libc is
//! asked once a question that only the recorder answers, as `<heapgauge/heapgauge.h>` does. Other systems than Linux
//! compile it to nothing.
//!
//! Calls may be made from any thread at any time. None of them allocates, blocks, changes `errno` or fails.
#![no_std]

mod alloc;
mod control;
mod pool;
mod recorder;
mod stats;

pub use alloc::Alloc;
pub use control::{label, mark, set_mode, set_stacks, snapshot, start, stop, Context, InContext, Label, Mode, Place};
pub use pool::Pool;
pub use stats::{sites, stats, tag_stats, tags, Numbers, Order, SiteStats, Stats, TagStats};

use core::ffi::c_void;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;
use recorder::{Entered, Recorder};

/// Bytes of a name that are kept; the rest is left out.
pub const NAME_BYTES_MAX: usize = 255;

/// A name for a scope, made by [`tag!`] and kept in a `static`.
#[repr(C)]
pub struct Tag {
    name: *const u8, // ends with 0
    id: AtomicU32,   // the recorder's
}

// The name is never written; the id is atomic on both sides.
unsafe impl Sync for Tag {}
unsafe impl Send for Tag {}

impl Tag {
    /// For [`tag!`]: the name with a 0 at its end.
    #[doc(hidden)]
    pub const fn with_end(name: &'static str) -> Tag {
        let bytes = name.as_bytes();
        assert!(bytes[bytes.len() - 1] == 0);
        Tag {
            name: bytes.as_ptr(),
            id: AtomicU32::new(0),
        }
    }
}

/// A [`Tag`] of a literal: `static PARSER: heapgauge::Tag = heapgauge::tag!("parser");`
#[macro_export]
macro_rules! tag {
    ($name:literal) => {
        $crate::Tag::with_end(concat!($name, "\0"))
    };
}

/// What this thread allocates until the end of the block belongs to the name, below the scopes that are entered already.
///
/// Besides literals it takes any expression of type `&str`, which is looked up each time: `scope!(&request.route)`.
#[macro_export]
macro_rules! scope {
    ($name:literal) => {
        let _scope = {
            static TAG: $crate::Tag = $crate::tag!($name);
            $crate::Scope::enter(&TAG)
        };
    };
    ($name:expr) => {
        let _scope = $crate::Scope::named($name);
    };
}

/// An entered scope; it ends when this is dropped, also by a panic. It belongs to its thread. In async code a scope that
/// lives across an `.await` would tag what other tasks do meanwhile; since it cannot be sent, executors with several
/// threads refuse such a task.
#[must_use = "the scope ends when this is dropped"]
pub struct Scope {
    entered: Entered,
    recorder: Option<&'static Recorder>,
    of_this_thread: PhantomData<*const c_void>,
}

impl Scope {
    /// [`scope!`] as a value, for scopes that are no block of the program.
    #[inline]
    pub fn enter(tag: &'static Tag) -> Scope {
        Scope::by(|recorder| unsafe { (recorder.enter)(tag, core::ptr::null()) })
    }

    /// The same with a computed name: up to its first 0 byte, and at most [`NAME_BYTES_MAX`] bytes of it.
    #[inline]
    pub fn named(name: &str) -> Scope {
        Scope::by(|recorder| with_end(name, |text| unsafe { (recorder.enter_name)(text, core::ptr::null()) }))
    }

    #[inline]
    fn by(enter: impl FnOnce(&Recorder) -> Entered) -> Scope {
        let recorder = recorder::get();
        let entered = recorder.map_or(Entered::NONE, enter);
        Scope {
            entered,
            recorder,
            of_this_thread: PhantomData,
        }
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder {
            unsafe { (recorder.leave)(self.entered) }
        }
    }
}

/// Whether the recorder is there.
#[inline]
pub fn is_recorded() -> bool {
    recorder::get().is_some()
}

/// Calls `f` with a copy of the text that ends with a 0; a character is not cut in two.
fn with_end<T>(text: &str, f: impl FnOnce(*const u8) -> T) -> T {
    let mut copy = [0u8; NAME_BYTES_MAX + 1];
    let mut length = text.len().min(NAME_BYTES_MAX);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    copy[..length].copy_from_slice(&text.as_bytes()[..length]);
    f(copy.as_ptr())
}
