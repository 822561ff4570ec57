// SPDX-License-Identifier: Apache-2.0
// A packet classifier: a trie of network prefixes is built at start; then packets are looked up and described.
use std::time::{Duration, Instant};

#[derive(Default)]
struct TrieNode {
    branches: [Option<Box<TrieNode>>; 2],
    route: Option<String>,
}

#[inline(never)]
fn insert_prefix(root: &mut TrieNode, address: u32, bits: u32, route: String) {
    let mut node = root;
    for bit in 0..bits {
        let side = (address >> (31 - bit) & 1) as usize;
        node = node.branches[side].get_or_insert_with(Box::default);
    }
    node.route = Some(route);
}

#[inline(never)]
fn find_route(root: &TrieNode, address: u32) -> Option<&str> {
    let (mut node, mut best) = (root, None);
    for bit in 0..32 {
        best = node.route.as_deref().or(best);
        match &node.branches[(address >> (31 - bit) & 1) as usize] {
            Some(next) => node = next,
            None => break,
        }
    }
    best
}

#[inline(never)]
fn build_table() -> Box<TrieNode> {
    let mut root = Box::new(TrieNode::default());
    let mut address = 12345u32;
    for number in 0..12000u32 {
        address = address.wrapping_mul(1664525).wrapping_add(1013904223);
        insert_prefix(&mut root, address, 12 + number % 12, format!("via 10.{}.{}.1 dev eth{}", number / 256 % 256, number % 256, number % 4));
    }
    root
}

#[inline(never)]
fn describe_packets(table: &TrieNode, round: u32) -> Vec<String> {
    (0..200u32)
        .map(|packet| {
            let address = (packet * 7919 + round * 104729).wrapping_mul(2654435761);
            format!("packet {packet} to {address:08x}: {}", find_route(table, address).unwrap_or("unreachable"))
        })
        .collect()
}

fn main() {
    let end = Instant::now() + Duration::from_secs_f64(std::env::args().nth(1).map_or(4.0, |text| text.parse().unwrap()));
    let table = build_table();
    let (mut round, mut length) = (0, 0);
    while Instant::now() < end {
        length += describe_packets(&table, round).iter().map(String::len).sum::<usize>();
        round += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    std::process::exit(i32::from(length == 1));
}
