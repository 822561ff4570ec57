// SPDX-License-Identifier: Apache-2.0
//! sampled_blocks.c: the free list of entries, and the index that is rebuilt while others search it.
use crate::*;

struct Entries {
    first: AtomicU32, // the id, and in the upper half the number of changes
    next: [AtomicU32; 2],
    owned: [Cell; 2],
}

fn changed(first: u32, id: u32, counts: bool) -> u32 {
    if counts {
        ((first >> 16) + 1) << 16 | id
    } else {
        id
    }
}

/// new_entry, without the region to take more from; 0: none.
fn new_entry(all: &Entries, counts: bool) -> u32 {
    let mut first = all.first.load(Acquire);
    while first & 0xffff != 0 {
        let next = all.next[(first & 0xffff) as usize - 1].load(Relaxed);
        match all
            .first
            .compare_exchange(first, changed(first, next, counts), AcqRel, Acquire)
        {
            Ok(_) => return first & 0xffff,
            Err(now) => first = now,
        }
    }
    0
}

fn release_entry(all: &Entries, id: u32, counts: bool, pushed: Ordering) {
    let mut first = all.first.load(Relaxed);
    loop {
        all.next[id as usize - 1].store(first & 0xffff, Relaxed);
        match all
            .first
            .compare_exchange(first, changed(first, id, counts), pushed, Relaxed)
        {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

fn free_list(counts: bool, pushed: Ordering) {
    loom::model(move || {
        // Entry 1 leads to entry 2.
        let all = Arc::new(Entries {
            first: word(1),
            next: [word(2), word(0)],
            owned: [Cell::new(0), Cell::new(0)],
        });
        let take = move |all: &Entries| {
            let id = new_entry(all, counts);
            if id != 0 {
                all.owned[id as usize - 1].set(id);
            }
            id
        };
        let theirs = all.clone();
        // Takes both, and gives the first back: without a count, a thread that saw it as the first finds it unchanged, but not what follows it.
        let other = thread::spawn(move || {
            let (a, b) = (take(&theirs), take(&theirs));
            if a != 0 {
                release_entry(&theirs, a, counts, pushed);
            }
            b
        });
        let first = take(&all);
        let second = take(&all);
        let kept = other.join().unwrap();

        for (a, b) in [(first, second), (first, kept), (second, kept)] {
            assert!(a == 0 || a != b, "given out twice");
        }
    });
}

#[test]
fn an_entry_has_one_owner() {
    free_list(true, Release);
}
#[test]
#[should_panic(expected = "twice")]
fn the_free_list_counts_its_changes() {
    free_list(false, Release);
}
#[test]
#[should_panic]
fn an_entry_is_given_back_with_release() {
    free_list(true, Relaxed);
}

/// rebuild, twice, and sampled_blocks_take, with a block that is always there: not found only if the index may have been cleared meanwhile. The first
/// rebuild writes to the other table, the second to the one that the search may have begun in. With `strict`, sampled_blocks_may_have.
fn search(writer_fenced: bool, reader_fenced: bool, strict: bool) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(0), word(1))); // version, the current table, the entry of table 0
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            theirs.0.store(1, Release);
            theirs.1.store(1, Release);
            theirs.0.store(2, Release);
            theirs.0.store(3, Release);
            fence_if(writer_fenced, SeqCst);
            theirs.2.store(0, Relaxed); // table_clear
            theirs.2.store(1, Release); // table_put
            theirs.1.store(0, Release);
            theirs.0.store(4, Release);
        });
        let before = shared.0.load(Acquire);
        let current = shared.1.load(Acquire);
        // Relaxed, since the tag beside an id is a plain load that comes after that of the id.
        let found = current == 1 || shared.2.load(Relaxed) != 0;

        fence_if(reader_fenced, Acquire);
        let passed = shared.0.load(Relaxed) - before;
        assert!(found || passed > if strict { 0 } else { 1 });
        writer.join().unwrap();
    });
}

#[test]
fn a_search_finds_what_is_there() {
    search(true, true, false);
}
#[test]
fn a_glance_finds_what_is_there() {
    search(true, true, true);
}
#[test]
#[should_panic]
fn a_rebuild_says_so_before_it_clears() {
    search(false, true, false);
}
#[test]
#[should_panic]
fn a_search_looks_at_the_version_last() {
    search(true, false, false);
}
#[test]
#[should_panic]
fn a_glance_looks_at_the_version_last() {
    search(true, false, true);
}
