// SPDX-License-Identifier: Apache-2.0
// A networked game with rollback: the last frames are kept, and two threads compute their checksums.
use std::collections::VecDeque;
use std::sync::mpsc::{sync_channel, Receiver};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const HISTORY: usize = 48;

#[derive(Clone)]
struct Entity {
    position: [f32; 3],
    velocity: [f32; 3],
    inventory: Vec<u16>,
}

#[derive(Clone)]
struct Snapshot {
    frame: u64,
    entities: Vec<Entity>,
}

#[inline(never)]
fn new_match() -> Snapshot {
    let entities = (0..160)
        .map(|i| Entity { position: [i as f32, 0.0, 0.0], velocity: [0.1, 0.2, i as f32 / 100.0], inventory: vec![i as u16; 12 + i % 20] })
        .collect();
    Snapshot { frame: 0, entities }
}

#[inline(never)]
fn advance(snapshot: &Snapshot) -> Snapshot {
    let mut next = snapshot.clone();
    next.frame += 1;
    for (i, entity) in next.entities.iter_mut().enumerate() {
        for k in 0..3 {
            entity.position[k] += entity.velocity[k];
        }
        let slot = (next.frame as usize + i) % entity.inventory.len();
        entity.inventory[slot] = entity.inventory[slot].wrapping_add(1);
    }
    next
}

#[inline(never)]
fn checksums(frames: Receiver<Arc<Snapshot>>) -> u64 {
    let mut sum = 0u64;
    for snapshot in frames {
        for entity in &snapshot.entities {
            sum = sum.wrapping_mul(31).wrapping_add(entity.position[0].to_bits() as u64 + entity.inventory.len() as u64);
        }
    }
    sum
}

fn main() {
    let length: f64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(4.0);
    let start = Instant::now();
    let mut workers = Vec::new();
    let mut inputs = Vec::new();
    for _ in 0..2 {
        let (sender, receiver) = sync_channel(4);
        inputs.push(sender);
        workers.push(thread::spawn(move || checksums(receiver)));
    }
    let mut history: VecDeque<Arc<Snapshot>> = VecDeque::with_capacity(HISTORY + 1);
    history.push_back(Arc::new(new_match()));
    while history.len() < HISTORY {
        let frame = Arc::new(history.back().unwrap().as_ref().clone());
        history.push_back(frame);
    }
    while start.elapsed().as_secs_f64() < length {
        let newest = history.back().unwrap().frame;
        if newest % 20 == 19 {
            // A late input arrived: go back six frames and play them again.
            history.truncate(HISTORY - 6);
            for _ in 0..6 {
                let frame = Arc::new(advance(history.back().unwrap()));
                history.push_back(frame);
            }
        }
        let frame = Arc::new(advance(history.back().unwrap()));
        inputs[(frame.frame % 2) as usize].send(frame.clone()).unwrap();
        history.push_back(frame);
        while history.len() > HISTORY {
            history.pop_front();
        }
        thread::sleep(Duration::from_millis(12));
    }
    drop(inputs);
    for worker in workers {
        worker.join().unwrap();
    }
}
