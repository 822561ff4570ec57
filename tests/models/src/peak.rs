// SPDX-License-Identifier: Apache-2.0
//! account.c: what readers and other slots see of counters and of the peak.
use crate::*;

/// account_save with the change after it (account.h, allocation.h), and read_peak (live_read.c). In epoch 2 the counters were at 5.
fn epoch(saved: Ordering, writer_fenced: bool, reader_fenced: bool) {
    loom::model(move || {
        let shared = Arc::new((word(5), word(1), word(0))); // live bytes, epoch, peak_bytes
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            theirs.2.store(5, Relaxed);
            theirs.1.store(2, saved);
            fence_if(writer_fenced, Release);
            theirs.0.store(9, Relaxed);
        });
        let live = shared.0.load(Relaxed);

        fence_if(reader_fenced, Acquire);
        let at_peak = if shared.1.load(Acquire) != 2 {
            live
        } else {
            shared.2.load(Relaxed)
        };
        assert_eq!(at_peak, 5);
        writer.join().unwrap();
    });
}

#[test]
fn the_bytes_at_the_peak_are_found() {
    epoch(Release, true, true);
}
#[test]
#[should_panic]
fn the_bytes_at_the_peak_are_saved_before_their_epoch() {
    epoch(Relaxed, false, true);
}
#[test]
#[should_panic]
fn the_epoch_is_seen_before_the_change() {
    epoch(Release, false, true);
}
#[test]
#[should_panic]
fn the_epoch_is_loaded_after_the_counters() {
    epoch(Release, true, false);
}

/// account_add and then account_remove (free.h), and live_read_rows: frees are loaded first, so that no sum is negative.
fn frees(ordered: bool, fenced: bool) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(0))); // calls, frees
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            theirs.0.store(1, Relaxed);
            fence_if(ordered, Release); // ARCH_ORDER_STORES
            theirs.1.store(1, Relaxed);
        });
        let freed = shared.1.load(Relaxed);

        fence_if(fenced, Acquire);
        assert!(shared.0.load(Relaxed) >= freed);
        writer.join().unwrap();
    });
}

#[test]
fn no_free_without_its_allocation() {
    frees(true, true);
}
#[test]
#[should_panic]
fn a_free_is_stored_after_its_allocation() {
    frees(false, true);
}
#[test]
#[should_panic]
fn frees_are_loaded_first() {
    frees(true, false);
}

/// gather, which starts a rise and then sets the limits, against below_shared, which sets its own and then looks whether there is one: a slot must not keep
/// limits without a floor while the process rises.
fn limits(gatherer_fenced: bool, slot_fenced: bool) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(0))); // state; limits: 1 = of the rise, 2 = without a floor
        let theirs = shared.clone();
        let gatherer = thread::spawn(move || {
            theirs.0.store(1, SeqCst);
            fence_if(gatherer_fenced, SeqCst);
            theirs.1.store(1, Relaxed);
        });

        shared.1.store(2, Relaxed);
        fence_if(slot_fenced, SeqCst);
        let sees = shared.0.load(SeqCst) != 0;

        gatherer.join().unwrap();
        assert!(sees || shared.1.load(Relaxed) == 1);
    });
}

#[test]
fn a_rise_is_seen_or_sets_the_limits() {
    limits(true, true);
}
#[test]
#[should_panic]
fn a_rise_is_stored_before_the_limits() {
    limits(false, true);
}
#[test]
#[should_panic]
fn limits_are_stored_before_the_rise_is_loaded() {
    limits(true, false);
}

/// rise, with raise_peak after the state, against end_rising: a slot that finds the new maximum finds the rise.
fn maximum(stored: Ordering, loaded: Ordering) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(0))); // state, peak_bytes
        let theirs = shared.clone();
        let riser = thread::spawn(move || {
            theirs.0.compare_exchange(0, 1, SeqCst, Relaxed).unwrap();
            theirs.1.compare_exchange(0, 100, stored, Acquire).unwrap();
        });

        if shared.1.load(loaded) == 100 {
            assert_eq!(shared.0.load(Relaxed), 1);
        }
        riser.join().unwrap();
    });
}

#[test]
fn a_maximum_comes_with_its_rise() {
    maximum(Release, Acquire);
}
#[test]
#[should_panic]
fn a_maximum_is_stored_with_release() {
    maximum(Relaxed, Acquire);
}
#[test]
#[should_panic]
fn a_maximum_is_loaded_with_acquire() {
    maximum(Release, Relaxed);
}
