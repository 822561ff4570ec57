// SPDX-License-Identifier: Apache-2.0
//! hook.c: register_thread, bring_up, count_early_call and publish_early_calls, in a forked child whose first calls come from two threads at once.
use crate::*;

const STARTING: u32 = 1;
const RUNNING: u32 = 2;

struct Child {
    state: AtomicU32,
    token: AtomicU32, // 0 in a new child
    early: AtomicU32,
    counted: AtomicU32, // early calls in the profile
    starts: Cell,       // plain: the profile has one owner while it is made
}

#[derive(Clone, Copy)]
struct How {
    checks_again: bool,
    publishes_late: bool,
    added: Ordering,
    published: Ordering,
    running: Ordering,
    token: (Ordering, Ordering),
}

fn publish(child: &Child, how: How) {
    let calls = child.early.swap(0, how.published);
    child.counted.fetch_add(calls, Relaxed);
}

fn bring_up(child: &Child, how: How) {
    let inherited = child.early.load(Relaxed);

    if child
        .state
        .compare_exchange(RUNNING, STARTING, AcqRel, Acquire)
        .is_err()
    {
        return;
    }
    if !how.checks_again || child.token.load(how.token.1) == 0 {
        child.early.fetch_sub(inherited, Relaxed);
        child.starts.set(child.starts.get() + 1);
        child.token.store(1, how.token.0); // make_token
        child.starts.set(child.starts.get() + 1);
    }
    child.state.store(RUNNING, how.running);
    publish(child, how);
}

/// True: the call is recorded; else it must be counted.
fn first_call(child: &Child, how: How) -> bool {
    if child.state.load(Acquire) == RUNNING && child.token.load(how.token.1) == 0 {
        bring_up(child, how);
    }
    if child.state.load(Acquire) == RUNNING {
        assert_eq!(child.starts.get(), 2, "started again, or in part");
        return true;
    }
    child.early.fetch_add(1, how.added);
    if how.publishes_late && child.state.load(Acquire) == RUNNING {
        publish(child, how);
    }
    false
}

fn child(how: How) {
    loom::model(move || {
        let child = Arc::new(Child {
            state: word(RUNNING), // of the parent
            token: word(0),
            early: word(3), // of the parent
            counted: word(0),
            starts: Cell::new(0),
        });
        let theirs = child.clone();
        let other = thread::spawn(move || first_call(&theirs, how) as u32);
        let recorded = first_call(&child, how) as u32 + other.join().unwrap();

        assert_eq!(recorded + child.counted.load(Relaxed), 2, "lost");
    });
}

const RIGHT: How = How {
    checks_again: true,
    publishes_late: true,
    added: AcqRel,
    published: AcqRel,
    running: Release,
    token: (Release, Acquire),
};

#[test]
fn a_child_starts_once_and_loses_no_call() {
    child(RIGHT);
}
#[test]
#[should_panic]
fn a_child_looks_at_the_token_again() {
    child(How {
        checks_again: false,
        ..RIGHT
    });
}
#[test]
#[should_panic(expected = "lost")]
fn an_early_call_may_come_after_the_last() {
    child(How {
        publishes_late: false,
        ..RIGHT
    });
}
#[test]
#[should_panic(expected = "lost")]
fn an_early_call_is_added_with_acquire() {
    child(How {
        added: Relaxed,
        ..RIGHT
    });
}
#[test]
#[should_panic(expected = "lost")]
fn early_calls_are_taken_with_release() {
    child(How {
        published: Relaxed,
        ..RIGHT
    });
}
#[test]
#[should_panic]
fn a_profile_is_published_with_release() {
    child(How {
        running: Relaxed,
        ..RIGHT
    });
}
#[test]
#[should_panic]
fn a_token_is_stored_with_release() {
    child(How {
        token: (Relaxed, Acquire),
        ..RIGHT
    });
}
#[test]
#[should_panic]
fn a_token_is_loaded_with_acquire() {
    child(How {
        token: (Release, Relaxed),
        ..RIGHT
    });
}
