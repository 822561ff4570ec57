// SPDX-License-Identifier: Apache-2.0
//! Blocks of known sizes in known scopes. With `--cfg tagged`, through heapgauge::Alloc too.
use std::hint::black_box;
use std::panic;
use std::thread;

#[cfg(tagged)]
#[global_allocator]
static ALLOCATOR: heapgauge::Alloc<std::alloc::System> =
    heapgauge::Alloc::new(std::alloc::System, heapgauge::tag!("rust"));

extern "C" {
    fn malloc(bytes: usize) -> *mut u8;
    fn free(block: *mut u8);
}

#[inline(never)]
fn take(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(bytes))
}

#[inline(never)]
fn parser(deep: u32) {
    heapgauge::scope!("parser");
    take(100);
    {
        heapgauge::scope!("lexer");
        heapgauge::scope!("words");
        take(7);
    }
    take(10);
    if deep > 0 {
        parser(deep - 1);
    }
}

fn main() {
    for _ in 0..5 {
        parser(0);
    }
    parser(2);
    // A panic ends its scopes. resume_unwind says nothing and prints nothing.
    let thrown = panic::catch_unwind(|| {
        heapgauge::scope!("thrower");
        take(33);
        panic::resume_unwind(Box::new([0u8; 64]));
    });
    assert!(thrown.is_err());
    // Names that are computed, of many lengths: the last is cut.
    let long = "x".repeat(300);
    for name in ["a", "b", "a", &long] {
        heapgauge::scope!(name);
        take(1000);
    }
    // A block is its allocator's, whoever frees it.
    let kept = {
        heapgauge::scope!("maker");
        take(5000)
    };
    thread::spawn(move || {
        heapgauge::scope!("freer");
        drop(kept);
        // Grown by realloc: 8, 2048, 4096.
        heapgauge::scope!("growing");
        let mut grown: Vec<u64> = Vec::with_capacity(1);
        grown.push(1);
        grown.reserve_exact(255);
        grown.reserve_exact(511);
        black_box(grown);
    })
    .join()
    .unwrap();
    {
        heapgauge::scope!("C");
        unsafe { free(black_box(malloc(77))) };
        let zeros = black_box(vec![0u8; 78]);
        drop(zeros);
    }
    let scope = heapgauge::Scope::enter({
        static TAG: heapgauge::Tag = heapgauge::tag!("value");
        &TAG
    });
    take(11);
    drop(scope);
    println!("{}", heapgauge::is_recorded());
}
