// SPDX-License-Identifier: Apache-2.0
//! Allocators of the program's own: arenas, slabs, free lists.

use crate::recorder;
use crate::with_end;

/// An allocator of the program's own, which tells what it gives out; those of one name are shown together, by
/// `heapgauge report --view pools`, `--by pool` and `--pool`. When it is dropped, all of its blocks end.
///
/// Its blocks have a stack, a thread and tags as those of malloc have, and are a layer of their own: they are never added
/// to the memory that they lie in. Addresses are only told apart, never looked at.
///
/// ```
/// struct Arena { room: Vec<u8>, used: usize, pool: heapgauge::Pool }
///
/// impl Arena {
///     fn take(&mut self, bytes: usize) -> *mut u8 {
///         let block = self.room[self.used..self.used + bytes].as_mut_ptr();
///         self.used += bytes;
///         self.pool.alloc(block, bytes);
///         block
///     }
/// }
/// # let mut arena = Arena { room: vec![0; 100], used: 0, pool: heapgauge::Pool::new("arena") };
/// # arena.take(10);
/// ```
#[derive(Debug)]
pub struct Pool(u64);

impl Pool {
    /// A new one. The name is copied: up to its first 0 byte, and at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes.
    pub fn new(name: &str) -> Pool {
        Pool(recorder::get_whole().map_or(0, |recorder| with_end(name, |text| unsafe { (recorder.pool_new)(text) })))
    }

    /// A block was given out: it belongs to this stack, this thread and its scopes.
    #[inline]
    pub fn alloc(&self, address: *const u8, bytes: usize) {
        if let Some(recorder) = self.recorder() {
            unsafe { (recorder.pool_alloc)(self.0, address.cast(), bytes) }
        }
    }

    /// A block that was at `old` is now at `address`, perhaps the same, with that many bytes.
    #[inline]
    pub fn resize(&self, old: *const u8, address: *const u8, bytes: usize) {
        if let Some(recorder) = self.recorder() {
            unsafe { (recorder.pool_resize)(self.0, old.cast(), address.cast(), bytes) }
        }
    }

    /// A block is about to go back: say so before another thread can get it.
    #[inline]
    pub fn free(&self, address: *const u8) {
        if let Some(recorder) = self.recorder() {
            unsafe { (recorder.pool_free)(self.0, address.cast()) }
        }
    }

    /// All blocks end at once, and the pool goes on.
    #[inline]
    pub fn reset(&self) {
        if let Some(recorder) = self.recorder() {
            unsafe { (recorder.pool_clear)(self.0, 0) }
        }
    }

    #[inline]
    fn recorder(&self) -> Option<&'static recorder::Recorder> {
        if self.0 == 0 {
            None
        } else {
            recorder::get()
        }
    }
}

impl Drop for Pool {
    #[inline]
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder() {
            unsafe { (recorder.pool_clear)(self.0, 1) }
        }
    }
}
