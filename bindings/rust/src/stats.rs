// SPDX-License-Identifier: Apache-2.0
//! What a program can read of its own numbers while it is recorded, to export them as metrics for instance. The layouts
//! are those of `<heapgauge/stats.h>`. Nothing here allocates or waits.

use crate::control::Mode;
use crate::{recorder, with_end};
use core::ffi::c_void;

/// In the sampled mode they are estimates.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Allocations.
    pub calls: u64,
    /// Bytes that were allocated.
    pub bytes: u64,
    /// Allocations that were freed.
    pub frees: u64,
    /// Bytes that were freed.
    pub freed_bytes: u64,
    /// What is left.
    pub live_blocks: u64,
    /// What is left.
    pub live_bytes: u64,
}

/// Of the whole process; see [`stats`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    mode: u32,
    estimated: u32,
    /// Blocks.
    pub heap: Numbers,
    /// Of the heap's `live_bytes`.
    pub peak_bytes: u64,
    /// By how much more the peak may have been; 0 = it is exact.
    pub peak_bound_bytes: u64,
    /// Anonymous mappings that the program made itself.
    pub mapped: Numbers,
    /// How many there are: [`tags`] gives at most that many.
    pub tags: u64,
    /// How many there are: [`sites`] gives at most that many.
    pub sites: u64,
    /// What the recorder takes itself.
    pub recorder_bytes: u64,
}

impl Stats {
    /// How the calling thread is recorded now.
    pub fn mode(&self) -> Mode {
        match self.mode {
            1 => Mode::Tags,
            2 => Mode::Sample,
            3 => Mode::Exact,
            _ => Mode::Dormant,
        }
    }

    /// Whether some of the numbers are estimates.
    pub fn is_estimated(&self) -> bool {
        self.estimated != 0
    }
}

/// Of a tag; see [`tag_stats`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TagStats {
    name: [u8; 64],
    /// The one outside, as an index of [`tags`].
    pub parent: u32,
    kind: u32,
    /// How often it was entered.
    pub visits: u64,
    /// Blocks that were allocated in it, but in no scope inside.
    pub own: Numbers,
    /// And in those inside.
    pub total: Numbers,
}

impl TagStats {
    /// Without those outside; the first 63 bytes, as far as they are whole characters.
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        match core::str::from_utf8(&self.name[..end]) {
            Ok(name) => name,
            Err(error) => core::str::from_utf8(&self.name[..error.valid_up_to()]).unwrap_or(""),
        }
    }

    /// Whether it is a label, "key=value".
    pub fn is_label(&self) -> bool {
        self.kind == 2
    }
}

impl Default for TagStats {
    fn default() -> TagStats {
        TagStats {
            name: [0; 64],
            parent: 0,
            kind: 0,
            visits: 0,
            own: Numbers::default(),
            total: Numbers::default(),
        }
    }
}

/// Of a stack; see [`sites`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SiteStats {
    frame: [*const c_void; 32],
    frames: u32,
    /// An index of [`tags`]; 0 = none.
    pub tag: u32,
    /// Its blocks.
    pub heap: Numbers,
}

impl SiteStats {
    /// Return addresses, innermost first; none in the mode tags.
    pub fn frames(&self) -> &[*const c_void] {
        &self.frame[..(self.frames as usize).min(self.frame.len())]
    }
}

impl Default for SiteStats {
    fn default() -> SiteStats {
        SiteStats {
            frame: [core::ptr::null(); 32],
            frames: 0,
            tag: 0,
            heap: Numbers::default(),
        }
    }
}

/// What is heaviest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// What holds most now.
    LiveBytes = 0,
    /// What has allocated most.
    Bytes = 1,
    /// What has allocated most often.
    Calls = 2,
}

/// Totals and the peak; `None` without the recorder.
///
/// ```
/// if let Some(stats) = heapgauge::stats() {
///     println!("{} bytes are live", stats.heap.live_bytes);
/// }
/// ```
pub fn stats() -> Option<Stats> {
    let mut ret = Stats::default();
    let there = recorder::get_whole().map_or(0, |recorder| unsafe {
        (recorder.stats)(&mut ret, core::mem::size_of::<Stats>())
    });
    (there != 0).then_some(ret)
}

/// Of one tag by its path, "server/parser"; `None`: nobody was there yet.
pub fn tag_stats(path: &str) -> Option<TagStats> {
    let mut ret = TagStats::default();
    let there = recorder::get_whole().map_or(0, |recorder| {
        with_end(path, |path| unsafe { (recorder.tag_stats)(path, &mut ret) })
    });
    (there != 0).then_some(ret)
}

/// The first tags, each behind the one outside; the first is no tag: what was allocated in none. Returns how many.
pub fn tags(ret: &mut [TagStats]) -> usize {
    recorder::get_whole().map_or(0, |recorder| unsafe { (recorder.tags)(ret.as_mut_ptr(), ret.len()) })
}

/// The heaviest stacks. Returns how many.
pub fn sites(ret: &mut [SiteStats], order: Order) -> usize {
    recorder::get_whole().map_or(0, |recorder| unsafe {
        (recorder.sites)(ret.as_mut_ptr(), ret.len(), order as i32)
    })
}
