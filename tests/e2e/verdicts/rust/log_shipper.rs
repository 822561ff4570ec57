// SPDX-License-Identifier: Apache-2.0
// A log shipper: a tailer, two parsers and a sender, joined by bounded channels. The sender keeps the last batches for a retry.
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const KEPT_BATCHES: usize = 60;
const LINES_PER_BATCH: usize = 60;

type Fields = HashMap<String, String>;

#[inline(never)]
fn read_batch(number: usize) -> Vec<String> {
    (0..LINES_PER_BATCH)
        .map(|line| format!("time={} level=info component=worker-{} message=\"finished task {line}\" took={}ms", number * 60, line % 7, line * 3))
        .collect()
}

#[inline(never)]
fn parse_line(line: &str) -> Fields {
    line.split(' ').filter_map(|part| part.split_once('=')).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn tail(lines: SyncSender<Vec<String>>, stopping: &AtomicBool) {
    let mut number = 0;
    while !stopping.load(Ordering::Relaxed) {
        for _ in 0..6 {
            lines.send(read_batch(number)).unwrap();
            number += 1;
        }
        thread::sleep(Duration::from_millis(15));
    }
}

fn parse(lines: &Mutex<Receiver<Vec<String>>>, batches: SyncSender<Vec<Fields>>) {
    loop {
        let received = lines.lock().unwrap().recv();
        match received {
            Ok(batch) => batches.send(batch.iter().map(|line| parse_line(line)).collect()).unwrap(),
            Err(_) => return,
        }
    }
}

fn send(batches: Receiver<Vec<Fields>>) -> usize {
    let mut kept = VecDeque::with_capacity(KEPT_BATCHES);
    let mut bytes = 0;
    for batch in batches {
        let body: String = batch.iter().map(|fields| format!("{:?}\n", fields.get("level"))).collect();
        bytes += body.len();
        if kept.len() == KEPT_BATCHES {
            kept.pop_front();
        }
        kept.push_back(batch);
    }
    bytes
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(4.0, |text| text.parse().unwrap());
    let start = Instant::now();
    let stopping = Arc::new(AtomicBool::new(false));
    let (line_sender, line_receiver) = sync_channel(2);
    let (batch_sender, batch_receiver) = sync_channel(2);
    let line_receiver = Arc::new(Mutex::new(line_receiver));
    let tail_stop = stopping.clone();
    let tailer = thread::spawn(move || tail(line_sender, &tail_stop));
    let parsers: Vec<_> = (0..2)
        .map(|_| {
            let (lines, batches) = (line_receiver.clone(), batch_sender.clone());
            thread::spawn(move || parse(&lines, batches))
        })
        .collect();
    drop(batch_sender);
    let sender = thread::spawn(move || send(batch_receiver));
    while start.elapsed().as_secs_f64() < seconds {
        thread::sleep(Duration::from_millis(20));
    }
    stopping.store(true, Ordering::Relaxed);
    tailer.join().unwrap();
    for parser in parsers {
        parser.join().unwrap();
    }
    std::hint::black_box(sender.join().unwrap());
}
