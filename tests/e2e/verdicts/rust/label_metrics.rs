// SPDX-License-Identifier: Apache-2.0
// A metrics library in an RPC server: three threads observe latencies in histograms that are found by their labels.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

struct Histogram {
    count: u64,
    buckets: [u64; 64],
}

impl Histogram {
    fn new() -> Self {
        Histogram { count: 0, buckets: [0; 64] }
    }
    fn observe(&mut self, value: u64) {
        self.count += 1;
        self.buckets[(64 - value.leading_zeros()) as usize % 64] += 1;
    }
}

type Registry = Arc<Mutex<BTreeMap<String, Box<Histogram>>>>;

#[inline(never)]
fn observe_latency(registry: &Registry, labels: &str, value: u64) {
    let mut series = registry.lock().unwrap();
    if !series.contains_key(labels) {
        series.insert(labels.to_owned(), Box::new(Histogram::new()));
    }
    series.get_mut(labels).unwrap().observe(value);
}

#[inline(never)]
fn handle_call(registry: &Registry, thread: u32, call: u32) -> usize {
    let method = ["Get", "Put", "List", "Watch"][call as usize % 4];
    let reply = format!("{{\"method\":\"{method}\",\"result\":\"{}\"}}", "x".repeat(200 + call as usize % 100));
    let labels = format!("rpc_latency{{method=\"{method}\",code=\"200\"}}");
    observe_latency(registry, &labels, u64::from(call) * 37);
    if call % 3 == 0 {
        let labels = format!("rpc_latency{{method=\"{method}\",code=\"200\",client=\"{thread}-{call}\"}}");
        observe_latency(registry, &labels, u64::from(call) * 41);
    }
    reply.len()
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(4.0, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let registry = Registry::default();
    let stopping = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let (registry, stopping) = (registry.clone(), stopping.clone());
            thread::spawn(move || {
                let (mut call, mut bytes) = (0, 0);
                while !stopping.load(Ordering::Relaxed) {
                    for _ in 0..15 {
                        bytes += handle_call(&registry, number, call);
                        call += 1;
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                bytes
            })
        })
        .collect();
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    stopping.store(true, Ordering::Relaxed);
    for thread in threads {
        std::hint::black_box(thread.join().unwrap());
    }
    drop(registry);
}
