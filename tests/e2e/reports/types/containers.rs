// SPDX-License-Identifier: Apache-2.0
//
// One function for each container, as containers.cc.
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

struct Blob {
    a: [u64; 5],
    name: String,
}

fn blob() -> Blob {
    Blob { a: [1; 5], name: String::new() }
}

#[inline(never)]
fn grow_blobs(v: &mut Vec<Blob>) {
    // 4, 8, 16, 32, 64: 5 calls
    for _ in 0..50 {
        v.push(blob());
    }
}

#[inline(never)]
fn with_capacity() -> Vec<u16> {
    let mut v = Vec::with_capacity(999);
    v.push(1);
    v
}

#[inline(never)]
fn collect() -> Vec<u32> {
    (0..300u32).map(|x| x * 2).collect()
}

#[inline(never)]
fn strings() -> String {
    // 11, 22, 44, ... 1408: 8 calls
    let mut s = String::new();
    for _ in 0..100 {
        s.push_str("hello world");
    }
    s
}

#[inline(never)]
fn copied() -> String {
    "a literal".to_string()
}

#[inline(never)]
fn fill_map(m: &mut HashMap<u32, Blob>) {
    for i in 0..100 {
        m.insert(i, blob());
    }
}

#[inline(never)]
fn fill_set(s: &mut HashSet<u64>) {
    for i in 0..100 {
        s.insert(i);
    }
}

#[inline(never)]
fn fill_tree(m: &mut BTreeMap<u32, u16>) {
    for i in 0..100 {
        m.insert(i, 1);
    }
}

#[inline(never)]
fn fill_deque(d: &mut VecDeque<u8>) {
    for _ in 0..100 {
        d.push_back(1);
    }
}

#[inline(never)]
fn boxed() -> Box<Blob> {
    Box::new(blob())
}

#[inline(never)]
fn counted() -> Rc<Blob> {
    Rc::new(blob())
}

#[inline(never)]
fn shared() -> Arc<[u64; 9]> {
    Arc::new([3; 9])
}

fn main() {
    let mut blobs = Vec::new();
    let (mut map, mut set) = (HashMap::new(), HashSet::new());
    let (mut tree, mut deque) = (BTreeMap::new(), VecDeque::new());
    grow_blobs(&mut blobs);
    let (a, b, c, d) = (with_capacity(), collect(), strings(), copied());
    fill_map(&mut map);
    fill_set(&mut set);
    fill_tree(&mut tree);
    fill_deque(&mut deque);
    let (x, y, z) = (boxed(), counted(), shared());
    let sizes = blobs.len() + a.len() + b.len() + c.len() + d.len() + map.len() + set.len() + tree.len() + deque.len();
    let known = x.a[0] + y.a[0] + z[0] + (x.name.len() + y.name.len()) as u64;
    std::process::exit(if sizes == 50 + 1 + 300 + 1100 + 9 + 400 && known == 5 { 0 } else { 1 });
}
