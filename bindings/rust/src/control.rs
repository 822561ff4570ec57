// SPDX-License-Identifier: Apache-2.0
//! Contexts that travel, labels, moments that have a name, and what is recorded at all.

use crate::recorder::{self, Entered, Recorder};
use crate::with_end;
use core::ffi::c_void;
use core::marker::PhantomData;

/// What a thread is in: its scopes and labels. It may be sent to where the work goes on: along a queue, into a task, to a
/// pool of threads.
///
/// ```
/// let context = heapgauge::Context::here();
/// std::thread::spawn(move || {
///     let _in = context.enter();
///     // what is allocated here belongs to where the thread was spawned
/// })
/// .join()
/// .unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context(u32);

impl Context {
    /// That of the calling thread.
    #[inline]
    pub fn here() -> Context {
        recorder::get_whole().map_or(Context(0), |recorder| Context(unsafe { (recorder.context_get)() }))
    }

    /// The calling thread is in it until the result is dropped; then in what it was in before.
    #[inline]
    pub fn enter(self) -> InContext {
        let before = Context::here();
        self.set();
        InContext {
            before,
            of_this_thread: PhantomData,
        }
    }

    #[inline]
    fn set(self) {
        if let Some(recorder) = recorder::get_whole() {
            unsafe { (recorder.context_set)(self.0) }
        }
    }
}

/// See [`Context::enter`].
#[must_use = "the context ends when this is dropped"]
pub struct InContext {
    before: Context,
    of_this_thread: PhantomData<*const c_void>,
}

impl Drop for InContext {
    #[inline]
    fn drop(&mut self) {
        self.before.set();
    }
}

/// For whom the thread works until this is dropped: a request, a tenant, a phase. `--by label` groups by it.
///
/// A key has one value at a time. Of a key 1024 values are told apart; what comes later is counted as "other".
#[must_use = "the label ends when this is dropped"]
pub struct Label {
    entered: Entered,
    recorder: Option<&'static Recorder>,
    of_this_thread: PhantomData<*const c_void>,
}

impl Label {
    /// Both are copied the first time.
    #[inline]
    pub fn enter(key: &str, value: &str) -> Label {
        let recorder = recorder::get_whole();
        let entered = recorder.map_or(Entered::NONE, |recorder| {
            with_end(key, |key| {
                with_end(value, |value| unsafe {
                    (recorder.label_enter)(key, value, core::ptr::null())
                })
            })
        });
        Label {
            entered,
            recorder,
            of_this_thread: PhantomData,
        }
    }
}

impl Drop for Label {
    #[inline]
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder {
            unsafe { (recorder.leave)(self.entered) }
        }
    }
}

/// A label until another value is set, `None` takes it away, or the scope ends in which this was called.
pub fn label(key: &str, value: Option<&str>) {
    if let Some(recorder) = recorder::get_whole() {
        with_end(key, |key| {
            with_end(value.unwrap_or(""), |value| unsafe { (recorder.label)(key, value) });
        });
    }
}

fn say(kind: i32, name: &str) {
    if let Some(recorder) = recorder::get_whole() {
        with_end(name, |name| unsafe { (recorder.mark)(kind, name) });
    }
}

/// A name on the time line.
pub fn mark(name: &str) {
    say(0, name);
}

/// What every stack holds now, for `heapgauge report --at snap:NAME`; as often as wanted. The program does not wait.
pub fn snapshot(name: &str) {
    say(1, name);
}

/// What [`stop`] and [`start`] are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole process. Other threads follow within a MiB of their own allocations.
    Process = 0,
    /// The calling thread.
    Thread = 1,
}

/// Nothing that is allocated from now on is recorded; what was before ends when it is freed.
pub fn stop(place: Place) {
    if let Some(recorder) = recorder::get_whole() {
        unsafe { (recorder.go)(0, place as i32) }
    }
}

/// Goes on as before [`stop`]; a program that began dormant, as whoever records said.
pub fn start(place: Place) {
    if let Some(recorder) = recorder::get_whole() {
        unsafe { (recorder.go)(1, place as i32) }
    }
}

/// How the process is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    Dormant = 0,
    /// Every block is counted by its tag, without a stack.
    Tags = 1,
    /// Some blocks with their stacks; numbers are estimates.
    Sample = 2,
    /// Every block with its stack.
    Exact = 3,
    /// As whoever records says.
    AsTold = 255,
}

/// From now on, for the whole process.
pub fn set_mode(mode: Mode) {
    if let Some(recorder) = recorder::get_whole() {
        unsafe { (recorder.turn)(mode as i32) }
    }
}

/// Stacks only of blocks of `least` to `most` bytes; the others are counted without one. 0 and `usize::MAX`: of all.
pub fn set_stacks(least: usize, most: usize) {
    if let Some(recorder) = recorder::get_whole() {
        unsafe { (recorder.stacks)(least, most) }
    }
}
