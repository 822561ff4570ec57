// SPDX-License-Identifier: Apache-2.0
//! What a reader reads twice to know that it has not changed meanwhile: countdowns, the log of started programs, the table of mappings.
use crate::*;

/// countdown_shared (mode.c), and read_passed (live_read.c): allotted - left does not change.
fn countdown(allotted: Ordering, last: Ordering, fenced: bool) {
    loom::model(move || {
        let shared = Arc::new((word(0), word(10), word(5))); // changes, allotted, left
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            theirs.0.store(1, Relaxed);
            theirs.1.store(17, allotted);
            theirs.2.store(12, Release);
            theirs.0.store(2, last);
        });
        let changes = shared.0.load(Acquire);
        let passed = shared.1.load(Relaxed).wrapping_sub(shared.2.load(Relaxed));

        fence_if(fenced, Acquire);
        if changes % 2 == 0 && changes == shared.0.load(Relaxed) {
            assert_eq!(passed, 5);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_countdown_is_read_as_a_whole() {
    countdown(Release, Release, true);
}
#[test]
#[should_panic]
fn a_countdown_says_that_it_changes_first() {
    countdown(Relaxed, Release, true);
}
#[test]
#[should_panic]
fn a_countdown_says_that_it_has_changed_last() {
    countdown(Release, Relaxed, true);
}
#[test]
#[should_panic]
fn a_countdown_is_checked_last() {
    countdown(Release, Release, false);
}

/// process_log_publish (process_log.c) and live_profile_read_start, whose system calls are the fences; begin_change and end_change (maps.c) are the
/// same with an odd number in place of 0. `stored`: an order of the first store, without a fence.
fn entry(stored: Option<Ordering>, last: Ordering) {
    loom::model(move || {
        let shared = Arc::new((word(1), word(11))); // the serial, and what belongs to it
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            theirs.0.store(0, stored.unwrap_or(Relaxed));
            fence_if(stored.is_none(), Release);
            theirs.1.store(22, Relaxed);
            theirs.0.store(2, last);
        });
        let serial = shared.0.load(Acquire);
        let what = shared.1.load(Relaxed);

        fence(Acquire);
        if serial != 0 && serial == shared.0.load(Relaxed) {
            assert_eq!(what, serial * 11);
        }
        writer.join().unwrap();
    });
}

#[test]
fn an_entry_of_the_log_is_read_as_a_whole() {
    entry(None, Release);
}
#[test]
#[should_panic]
fn a_release_does_not_order_what_comes_after_it() {
    entry(Some(Release), Release);
}
#[test]
#[should_panic]
fn an_entry_of_the_log_is_published_with_release() {
    entry(None, Relaxed);
}
