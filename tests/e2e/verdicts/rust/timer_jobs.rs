// SPDX-License-Identifier: Apache-2.0
// A scheduler: jobs wait for their time in a queue; many are cancelled before.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

struct Job {
    payload: Vec<u8>,
    cancelled: bool,
}

struct Scheduler {
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    jobs: BTreeMap<u64, Job>,
    next_id: u64,
    tick: u64,
    done: u64,
}

impl Scheduler {
    fn new() -> Self {
        Scheduler { queue: BinaryHeap::new(), jobs: BTreeMap::new(), next_id: 1, tick: 0, done: 0 }
    }

    #[inline(never)]
    fn schedule(&mut self, delay: u64, size: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let payload = vec![(id & 0xff) as u8; size];
        self.jobs.insert(id, Job { payload, cancelled: false });
        self.queue.push(Reverse((self.tick + delay, id)));
        id
    }

    #[inline(never)]
    fn cancel(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.cancelled = true;
        }
    }

    #[inline(never)]
    fn run_due(&mut self) {
        self.tick += 1;
        while let Some(&Reverse((due, id))) = self.queue.peek() {
            if due > self.tick {
                break;
            }
            self.queue.pop();
            if self.jobs[&id].cancelled {
                continue;
            }
            if let Some(job) = self.jobs.remove(&id) {
                self.done += job.payload.iter().map(|b| *b as u64).sum::<u64>();
            }
        }
    }
}

fn main() {
    let length = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(4.0);
    let start = Instant::now();
    let mut scheduler = Scheduler::new();
    let mut n: u64 = 0;
    while start.elapsed().as_secs_f64() < length {
        for _ in 0..12 {
            n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let id = scheduler.schedule(1 + (n >> 60), 300 + (n >> 33) as usize % 1400);
            if (n >> 40) % 5 < 2 {
                scheduler.cancel(id);
            }
        }
        scheduler.run_due();
        std::thread::sleep(Duration::from_millis(7));
    }
    if scheduler.done == 1 {
        std::process::exit(1);
    }
}
