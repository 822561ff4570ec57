// SPDX-License-Identifier: Apache-2.0
//! Locks, what is deferred while one is held, and the lock that the loader does not take.
use crate::*;

/// lock_try and lock_release (lock.h).
fn lock(acquire: Ordering, release: Ordering) {
    loom::model(move || {
        let shared = Arc::new((word(0), Cell::new(0)));
        let both: Vec<_> = (0..2)
            .map(|slot| {
                let shared = shared.clone();
                thread::spawn(move || {
                    if shared.0.compare_exchange(0, slot + 1, acquire, Relaxed).is_ok() {
                        shared.1.set(shared.1.get() + 1);
                        shared.0.swap(0, release);
                        return 1;
                    }
                    0
                })
            })
            .collect();
        let taken: u32 = both.into_iter().map(|one| one.join().unwrap()).sum();

        assert_eq!(shared.1.get(), taken);
    });
}

#[test]
fn a_lock_orders_what_it_protects() {
    lock(Acquire, Release);
}
#[test]
#[should_panic]
fn a_lock_needs_acquire() {
    lock(Relaxed, Release);
}
#[test]
#[should_panic]
fn a_lock_needs_release() {
    lock(Acquire, Relaxed);
}

const BEING_WRITTEN: u32 = u32::MAX;

struct Late {
    key: AtomicU32,
    value: Cell,
    count: AtomicU32, // may be below 0 for a moment
}

/// deferred_frees_add (deferred_frees.c): two frees for one place, so that the second uses it again. True: it had room.
fn defer(late: &Late, key: u32, stored: Ordering) -> bool {
    if late.key.compare_exchange(0, BEING_WRITTEN, AcqRel, Relaxed).is_err() {
        return false;
    }
    late.value.set(key * 10);
    late.key.store(key, stored);
    late.count.fetch_add(1, Release);
    true
}

/// deferred_frees_next and deferred_frees_done, by the owner of the lock.
fn deferred(stored: Ordering, done: Ordering) {
    loom::model(move || {
        let late = Arc::new(Late {
            key: word(0),
            value: Cell::new(0),
            count: word(0),
        });
        let theirs = late.clone();
        let adder = thread::spawn(move || defer(&theirs, 1, stored) as u32 + defer(&theirs, 2, stored) as u32);
        let mut found = 0;

        // The count is not 0 by another free.
        for _ in 0..2 {
            let key = late.key.load(Acquire);
            if key != 0 && key != BEING_WRITTEN {
                assert_eq!(late.value.get(), key * 10);
                late.key.store(0, done);
                late.count.fetch_sub(1, Relaxed);
                found += 1;
            }
        }
        let added = adder.join().unwrap();
        assert_eq!(added - found, late.count.load(Relaxed));
    });
}

#[test]
fn a_deferred_free_is_done_once() {
    deferred(Release, Release);
}
#[test]
#[should_panic]
fn a_deferred_free_is_stored_before_its_key() {
    deferred(Relaxed, Release);
}
#[test]
#[should_panic]
fn a_deferred_free_is_read_before_its_place_is_free() {
    deferred(Release, Relaxed);
}

/// modules_loader_frees with is_being_added_to, against enter with ask_after_lock (modules.c): either the thread that unloads an object sees that the
/// lock is held, or the one that holds it sees that the object is gone.
fn loader(fenced: bool) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(0))); // the lock; the object is gone
        let theirs = shared.clone();
        let adder = thread::spawn(move || {
            theirs.0.compare_exchange(0, 1, Acquire, Relaxed).unwrap();
            fence_if(fenced, SeqCst);
            theirs.1.load(Relaxed) != 0
        });

        shared.1.store(1, Relaxed);
        fence(SeqCst);
        let held = shared.0.load(Acquire) != 0;

        assert!(adder.join().unwrap() || held);
    });
}

#[test]
fn an_unloaded_object_is_noticed() {
    loader(true);
}
#[test]
#[should_panic]
fn a_lock_is_not_a_fence() {
    loader(false);
}
