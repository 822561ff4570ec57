// SPDX-License-Identifier: Apache-2.0
//! Models of the recorder's lock-free structures, for loom, which runs a model in every interleaving, and with every old value that C11 allows a load to
//! find: what a weakly ordered CPU may do and x86-64 does not. Each names the C functions that it follows, statement by statement, with as few threads and entries as
//! the structure needs; plain memory is a `Cell`, whose unordered accesses loom reports. Each is also run with an order weakened, where it must
//! fail: a model that cannot fail shows nothing. docs/internals/memory-order.md has the table of orders.
//!
//! `cargo test --manifest-path tests/models/Cargo.toml`. What loom does not know: a load that finds a later store,
//! and sequentially consistent loads and stores, which it treats as acquire and release; so those of mode.c have no model.
#![cfg(test)]

mod lock;
mod peak;
mod publish;
mod sampled;
mod sequence;
mod start;

pub use loom::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
pub use loom::sync::atomic::{fence, AtomicU32, AtomicUsize};
pub use loom::sync::Arc;
pub use loom::thread;

/// Plain memory.
pub struct Cell(loom::cell::UnsafeCell<u32>);

unsafe impl Sync for Cell {}

impl Cell {
    pub fn new(value: u32) -> Self {
        Cell(loom::cell::UnsafeCell::new(value))
    }
    pub fn get(&self) -> u32 {
        self.0.with(|at| unsafe { *at })
    }
    pub fn set(&self, value: u32) {
        self.0.with_mut(|at| unsafe { *at = value })
    }
}

pub fn word(value: u32) -> AtomicU32 {
    AtomicU32::new(value)
}

/// A fence that a weakened model leaves out.
pub fn fence_if(there: bool, order: Ordering) {
    if there {
        fence(order);
    }
}

/// Runs both at once.
pub fn at_once<T: Send + Sync + 'static>(shared: T, other: fn(&T), this: fn(&T)) -> Arc<T> {
    let shared = Arc::new(shared);
    let theirs = shared.clone();
    let thread = thread::spawn(move || other(&theirs));

    this(&shared);
    thread.join().unwrap();
    shared
}
