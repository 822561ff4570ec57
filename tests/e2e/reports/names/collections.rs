// SPDX-License-Identifier: Apache-2.0
//
// Allocations through what Rust inlines most: collections, closures, generics, trait objects, threads, panics.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::rc::Rc;

trait Shape {
    fn points(&self) -> Vec<(f64, f64)>;
}

struct Circle(usize);
struct Named<T>(T, String);

impl Shape for Circle {
    fn points(&self) -> Vec<(f64, f64)> {
        (0..self.0).map(|i| (i as f64, (i * i) as f64)).collect()
    }
}

impl<T: Clone> Shape for Named<Vec<T>> {
    fn points(&self) -> Vec<(f64, f64)> {
        let all = self.0.iter().cloned().collect::<Vec<T>>();
        vec![(all.len() as f64, self.1.len() as f64); 3]
    }
}

#[inline(never)]
fn words(text: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_uppercase()).or_insert(0) += 1;
    }
    counts
}

fn text(lines: usize) -> String {
    let mut out = String::new();
    for i in 0..lines {
        writeln!(out, "line {i} of {lines}: {:?}", Some(i)).unwrap();
    }
    out
}

fn main() {
    let text = text(200);
    let counts = words(&text);
    let mut ordered: BTreeMap<_, _> = counts.iter().map(|(k, v)| (*v, k.clone())).collect();
    let shapes: Vec<Box<dyn Shape>> = vec![
        Box::new(Circle(40)),
        Box::new(Named(vec![1u8, 2, 3], "bytes".to_string())),
        Box::new(Named(vec!["a".to_string()], format!("strings {}", ordered.len()))),
    ];
    let points: usize = shapes.iter().map(|s| s.points().len()).sum();
    let mut queue: VecDeque<Rc<String>> = (0..30).map(|i| Rc::new(i.to_string())).collect();
    while let Some(next) = queue.pop_front() {
        if next.len() < 3 {
            queue.push_back(Rc::new(format!("{next}{next}")));
        }
    }
    let joined = std::thread::spawn(move || {
        let mut sorted: Vec<String> = counts.into_keys().collect();
        sorted.sort_by_key(|w| std::cmp::Reverse(w.len()));
        sorted.join(",")
    });
    ordered.insert(0, joined.join().unwrap());
    let caught = std::panic::catch_unwind(|| {
        let held = vec![0u64; 77];
        assert!(held.is_empty(), "unwinds through {} numbers", held.len());
    });
    println!("{} {} {}", points, ordered.len(), caught.is_err());
}
