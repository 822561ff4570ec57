// SPDX-License-Identifier: Apache-2.0
//! What one thread fills in and others find: entries of regions, tables, leaves of the block map, slots.
use crate::*;

/// memory_append, and slot_counters storing the site last; a reader as load_calls (live_read.c).
fn append(stored: Ordering, loaded: Ordering) {
    loom::model(move || {
        let shared = (AtomicUsize::new(0), [word(0), word(0)], [Cell::new(0), Cell::new(0)]);
        let shared = Arc::new(shared);
        let theirs = shared.clone();
        let add = move |shared: &(AtomicUsize, [AtomicU32; 2], [Cell; 2])| {
            let mut first = shared.0.load(Relaxed);
            while let Err(now) = shared.0.compare_exchange(first, first + 1, AcqRel, Relaxed) {
                first = now;
            }
            shared.2[first].set(7);
            shared.1[first].store(1, stored);
        };
        let other = thread::spawn(move || add(&theirs));

        add(&shared);
        for i in 0..shared.0.load(Acquire) {
            if shared.1[i].load(loaded) != 0 {
                assert_eq!(shared.2[i].get(), 7);
            }
        }
        other.join().unwrap();
        assert_eq!(shared.0.load(Relaxed), 2);
    });
}

#[test]
fn an_entry_is_complete_when_it_is_seen() {
    append(Release, Acquire);
}
#[test]
#[should_panic]
fn an_entry_is_stored_with_release() {
    append(Relaxed, Acquire);
}
#[test]
#[should_panic]
fn an_entry_is_loaded_with_acquire() {
    append(Release, Relaxed);
}

/// table_put and table_next (table.h); also store_rule and rules_get (rules.c), which have the key in place of the id.
fn put(stored: Ordering, loaded: Ordering) {
    loom::model(move || {
        let shared = Arc::new((Cell::new(0), Cell::new(0), word(0))); // a site, its tag, its id
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            theirs.0.set(5);
            theirs.1.set(9);
            theirs.2.store(1, stored);
        });

        if shared.2.load(loaded) != 0 && shared.1.get() == 9 {
            assert_eq!(shared.0.get(), 5);
        }
        writer.join().unwrap();
    });
}

#[test]
fn an_id_leads_to_its_site() {
    put(Release, Acquire);
}
#[test]
#[should_panic]
fn an_id_is_stored_with_release() {
    put(Relaxed, Acquire);
}
#[test]
#[should_panic]
fn an_id_is_loaded_with_acquire() {
    put(Release, Relaxed);
}

/// table_replace and table_view (table.h), from no entries to four, and then eight. Entry 0 of the tables is in use by another tag, so that a search
/// with a mask of 0 would not end.
fn replace(stored: Ordering, loaded: Ordering, checks_mask: bool) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(0))); // the number of entries, or 0; the mask
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            for entries in [4, 8] {
                theirs.0.store(entries, Release);
                theirs.1.store(entries - 1, stored);
            }
        });
        let mask = shared.1.load(loaded);
        let entries = if mask != 0 || !checks_mask {
            shared.0.load(Acquire)
        } else {
            0
        };

        assert!(
            mask < entries || (mask == 0 && entries == 0),
            "reads beyond its entries"
        );
        assert!(mask != 0 || entries == 0, "never ends");
        writer.join().unwrap();
    });
}

#[test]
fn a_view_of_a_table_is_within_its_entries() {
    replace(Release, Acquire, true);
}
#[test]
#[should_panic(expected = "beyond")]
fn a_mask_is_stored_with_release() {
    replace(Relaxed, Acquire, true);
}
#[test]
#[should_panic(expected = "beyond")]
fn a_mask_is_loaded_with_acquire() {
    replace(Release, Relaxed, true);
}
#[test]
#[should_panic(expected = "never ends")]
fn a_view_without_a_mask_has_no_entries() {
    replace(Release, Acquire, false);
}

/// number_at (blocks.c), and leaf_of with leaf_make (pool_words.c), which writes to what it made: three threads want the same leaf, and the spare one of a
/// thread that lost is given out once.
fn leaf(published: Ordering, spared: Ordering) {
    loom::model(move || {
        struct Leaves {
            made: AtomicU32,
            place: [AtomicU32; 2],
            spare: AtomicU32,
            number: [Cell; 4],
        }
        let shared = Arc::new(Leaves {
            made: word(0),
            place: [word(0), word(0)],
            spare: word(0),
            number: [Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0)],
        });
        let find = move |all: &Leaves, place: usize| {
            let leaf = all.place[place].load(Acquire);
            if leaf != 0 {
                return leaf;
            }
            let mut made = all.spare.swap(0, if spared == Release { AcqRel } else { Relaxed });
            if made == 0 {
                made = all.made.fetch_add(1, Relaxed) + 1;
            }
            all.number[made as usize - 1].set(place as u32 + 1);
            match all.place[place].compare_exchange(0, made, published, Acquire) {
                Ok(_) => made,
                Err(there) => {
                    all.spare.store(made, spared);
                    there
                }
            }
        };
        let theirs = shared.clone();
        let other = thread::spawn(move || {
            for place in [0, 1] {
                let leaf = find(&theirs, place);
                assert_eq!(theirs.number[leaf as usize - 1].get(), place as u32 + 1);
            }
        });

        for place in [0, 1] {
            let leaf = find(&shared, place);
            assert_eq!(shared.number[leaf as usize - 1].get(), place as u32 + 1);
        }
        other.join().unwrap();
    });
}

#[test]
fn a_leaf_is_complete_when_it_is_found() {
    leaf(AcqRel, Release);
}
#[test]
#[should_panic]
fn a_leaf_is_published_with_release() {
    leaf(Relaxed, Release);
}
#[test]
#[should_panic]
fn a_spare_leaf_is_published_with_release() {
    leaf(AcqRel, Relaxed);
}

/// account_join and gather (account.c): a list of slots that only grows; also make (pairs.c) and live_read_pairs.
fn join(pushed: Ordering, loaded: Ordering) {
    loom::model(move || {
        struct Slots {
            first: AtomicU32,
            next: [Cell; 2],
        }
        let shared = Arc::new(Slots {
            first: word(0),
            next: [Cell::new(0), Cell::new(0)],
        });
        let push = move |slots: &Slots, slot: u32| {
            let mut first = slots.first.load(Relaxed);
            loop {
                slots.next[slot as usize - 1].set(first);
                match slots.first.compare_exchange(first, slot, pushed, Relaxed) {
                    Ok(_) => break,
                    Err(now) => first = now,
                }
            }
        };
        let theirs = shared.clone();
        let other = thread::spawn(move || push(&theirs, 2));

        push(&shared, 1);
        let mut at = shared.first.load(loaded);
        let mut seen_own = false;
        while at != 0 {
            seen_own |= at == 1;
            at = shared.next[at as usize - 1].get();
        }
        assert!(seen_own);
        other.join().unwrap();
    });
}

#[test]
fn a_list_of_slots_is_complete() {
    join(Release, Acquire);
}
#[test]
#[should_panic]
fn a_slot_is_pushed_with_release() {
    join(Relaxed, Acquire);
}
#[test]
#[should_panic]
fn a_list_of_slots_is_loaded_with_acquire() {
    join(Release, Relaxed);
}

/// make and inherit (slot.c): two threads find that the thread of a slot has ended, and one of them gets the slot.
fn inherit(stored: Ordering, claimed: Ordering) {
    loom::model(move || {
        let shared = Arc::new((word(0), Cell::new(0))); // live_slot.tid; the slot, used by its owner only
        let take = move |shared: &(AtomicU32, Cell), tid: u32| {
            let there = shared.0.load(Acquire);
            if there == 1 && shared.0.compare_exchange(there, tid, claimed, Relaxed).is_ok() {
                shared.1.set(shared.1.get() + 1);
                return 1;
            }
            0
        };
        let theirs = shared.clone();
        let maker = thread::spawn(move || {
            theirs.1.set(1);
            theirs.0.store(1, stored); // and ends
        });
        let theirs = shared.clone();
        let other = thread::spawn(move || take(&theirs, 2));
        let took = take(&shared, 3) + other.join().unwrap();

        maker.join().unwrap();
        assert!(took <= 1);
        assert_eq!(shared.1.get(), 1 + took);
    });
}

#[test]
fn a_slot_has_one_heir() {
    inherit(Release, AcqRel);
}
#[test]
#[should_panic]
fn a_slot_is_published_with_release() {
    inherit(Relaxed, AcqRel);
}
