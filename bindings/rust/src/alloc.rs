// SPDX-License-Identifier: Apache-2.0
//! A global allocator that tags what another one hands out.

use crate::{Scope, Tag};
use core::alloc::{GlobalAlloc, Layout};

/// A `#[global_allocator]` around any other: what Rust code allocates belongs to the tag, what C and C++ code of the
/// same program allocates does not.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: heapgauge::Alloc<System> = heapgauge::Alloc::new(System, heapgauge::tag!("rust"));
/// # fn main() { drop(vec![1]); }
/// ```
///
/// It counts nothing itself: what the allocator inside takes from malloc, as `System` does, is recorded there, once. An
/// allocator that does not call malloc is not recorded by this.
pub struct Alloc<A> {
    inner: A,
    tag: Tag,
}

impl<A> Alloc<A> {
    /// What `inner` hands out will belong to the tag, below the scopes that are entered.
    pub const fn new(inner: A, tag: Tag) -> Alloc<A> {
        Alloc { inner, tag }
    }

    #[inline]
    fn scope(&self) -> Scope {
        // A global allocator lives as long as the program, and else the tag is looked at only while it is entered.
        Scope::enter(unsafe { &*(&self.tag as *const Tag) })
    }
}

unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _scope = self.scope();
        self.inner.alloc(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _scope = self.scope();
        self.inner.alloc_zeroed(layout)
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _scope = self.scope();
        self.inner.realloc(block, layout, bytes)
    }

    // Whose block it is was decided when it was allocated.
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.inner.dealloc(block, layout)
    }
}
