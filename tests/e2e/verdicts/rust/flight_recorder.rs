// SPDX-License-Identifier: Apache-2.0
// A tracer that keeps the last 4096 records. Requests and bursts of errors write records of different kinds into the same ring.
use std::time::{Duration, Instant};

enum Record {
    Empty,
    Request { path: String, micros: u64 },
    Failure { message: String, stack: Vec<String> },
}

struct Ring {
    slots: Vec<Record>,
    next: usize,
}

impl Ring {
    fn new(size: usize) -> Self {
        Ring { slots: (0..size).map(|_| Record::Empty).collect(), next: 0 }
    }
    fn push(&mut self, record: Record) {
        let slots = self.slots.len();
        self.slots[self.next] = record;
        self.next = (self.next + 1) % slots;
    }
}

#[inline(never)]
fn record_request(ring: &mut Ring, number: u64) {
    let path = format!("/tenant/{}/objects/{}?detail={}", number % 113, number, "y".repeat(60 + number as usize % 120));
    ring.push(Record::Request { path, micros: number % 977 });
}

#[inline(never)]
fn record_failure(ring: &mut Ring, number: u64) {
    let stack = (0..4).map(|frame| format!("frame {frame} at handler_{}", number % 31)).collect();
    ring.push(Record::Failure { message: format!("request {number} failed: deadline exceeded"), stack });
}

#[inline(never)]
fn record_round(ring: &mut Ring, round: u64, number: &mut u64) {
    for _ in 0..50 {
        *number += 1;
        if round % 60 < 12 {
            record_failure(ring, *number);
        } else {
            record_request(ring, *number);
        }
    }
}

#[inline(never)]
fn summarize(ring: &Ring) -> String {
    let mut lines = Vec::new();
    for record in ring.slots.iter().step_by(64) {
        lines.push(match record {
            Record::Empty => String::from("-"),
            Record::Request { path, micros } => format!("{micros} {path}"),
            Record::Failure { message, stack } => format!("{message} {}", stack.len()),
        });
    }
    lines.join("\n")
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(4.0, |text| text.parse().unwrap());
    let start = Instant::now();
    let mut ring = Ring::new(4096);
    let (mut number, mut length) = (0, 0);
    let mut round = 0u64;
    while round < 240 {
        record_round(&mut ring, round, &mut number);
        round += 1;
    }
    while start.elapsed().as_secs_f64() < seconds {
        record_round(&mut ring, round, &mut number);
        if round % 10 == 0 {
            length += summarize(&ring).len();
        }
        round += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    std::hint::black_box(length);
    std::mem::forget(ring);
}
