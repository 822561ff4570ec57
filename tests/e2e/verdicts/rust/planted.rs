// SPDX-License-Identifier: Apache-2.0
// planted SECONDS CASE: as planted.c, with what Rust programs do.
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[inline(never)]
fn forget_guard() {
    std::mem::forget(std::hint::black_box(vec![1u8; 800]).into_boxed_slice());
}

#[inline(never)]
fn collect_line(lines: &mut Vec<String>, number: usize) {
    lines.push(format!("{number:0>600}"));
}

#[inline(never)]
fn slide_window(window: &mut BTreeMap<usize, Vec<u8>>, number: usize) {
    window.insert(number, vec![0; 1500]);
    if number >= 500 {
        window.remove(&(number - 500));
    }
}

#[inline(never)]
fn send_batch(to: &mpsc::SyncSender<Vec<u64>>, number: usize) {
    to.send(vec![number as u64; 200]).unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let end = Instant::now() + Duration::from_secs_f64(arguments[1].parse().unwrap());
    let (to, from) = mpsc::sync_channel::<Vec<u64>>(300);
    let consumer = thread::spawn(move || {
        let mut last = Vec::new();
        while let Ok(batch) = from.recv() {
            last.push(batch);
            if last.len() > 400 {
                last.drain(..200);
            }
        }
    });
    let (mut lines, mut window, mut number) = (Vec::new(), BTreeMap::new(), 0);
    while Instant::now() < end {
        for _ in 0..20 {
            match arguments[2].as_str() {
                "leak_forget" => forget_guard(),
                "leak_lines" => collect_line(&mut lines, number),
                "bounded_window" => slide_window(&mut window, number),
                "bounded_channel" => send_batch(&to, number),
                _ => std::process::exit(2),
            }
            number += 1;
        }
        thread::sleep(Duration::from_millis(10));
    }
    drop(to);
    consumer.join().unwrap();
}
