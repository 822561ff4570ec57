// SPDX-License-Identifier: Apache-2.0
// Publish and subscribe inside one process: each subscriber has a channel. Two of them are threads.
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

struct Hub {
    subscribers: Vec<Sender<String>>,
}

impl Hub {
    fn subscribe(&mut self) -> Receiver<String> {
        let (sender, receiver) = channel();
        self.subscribers.push(sender);
        receiver
    }

    #[inline(never)]
    fn publish(&mut self, event: &str) {
        self.subscribers.retain(|s| s.send(event.to_owned()).is_ok());
    }
}

struct Audit {
    enabled: bool,
    events: Receiver<String>,
    seen: usize,
}

impl Audit {
    #[inline(never)]
    fn collect(&mut self) {
        if !self.enabled {
            return;
        }
        while let Ok(event) = self.events.try_recv() {
            self.seen += event.len();
        }
    }
}

#[inline(never)]
fn count_words(events: Receiver<String>) -> usize {
    let mut words = 0;
    for event in events {
        words += event.split(' ').count();
    }
    words
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(4.0, |a| a.parse().unwrap_or(4.0));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut hub = Hub { subscribers: Vec::new() };
    for _ in 0..2 {
        let events = hub.subscribe();
        thread::spawn(move || count_words(events));
    }
    let mut audit = Audit { enabled: false, events: hub.subscribe(), seen: 0 };
    let mut number = 0usize;
    while Instant::now() < end {
        for _ in 0..8 {
            number += 1;
            let mut event = format!("order {} was paid by customer {}", number, number * 7 % 1000);
            event.push_str(&" and shipped".repeat(20 + number % 90));
            hub.publish(&event);
        }
        audit.collect();
        thread::sleep(Duration::from_millis(10));
    }
    std::process::exit(if audit.seen == 1 { 1 } else { 0 });
}
