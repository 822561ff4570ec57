use std::{collections::BTreeMap, thread};

fn main() {
    let workers: Vec<_> = (0..4).map(|i| thread::spawn(move || (0..2000).map(|j| format!("{i}:{j}")).collect::<Vec<_>>())).collect();
    let mut lengths = BTreeMap::new();
    for text in workers.into_iter().flat_map(|w| w.join().unwrap()) {
        *lengths.entry(text.len()).or_insert(0) += 1;
    }
    println!("{lengths:?}");
}
