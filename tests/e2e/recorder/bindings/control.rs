// SPDX-License-Identifier: Apache-2.0
//! What the crate says of recording itself, and reads of it: blocks of known sizes.
use heapgauge::{Context, Label, Mode, Order, Place};
use std::hint::black_box;
use std::thread;

#[inline(never)]
fn take(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(bytes))
}

fn main() {
    let mut kept = Vec::with_capacity(100);
    let mut all = [heapgauge::TagStats::default(); 40];
    let mut top = [heapgauge::SiteStats::default(); 3];
    let context = {
        heapgauge::scope!("request");
        let _tenant = Label::enter("tenant", "acme");
        kept.push(take(100));
        Context::here()
    };
    kept.push(
        thread::spawn(move || {
            let own = Context::here();
            let block = {
                let _in = context.enter();
                heapgauge::scope!("step");
                take(200)
            };
            assert_eq!(Context::here(), own);
            block
        })
        .join()
        .unwrap(),
    );
    {
        heapgauge::scope!("phases");
        heapgauge::label("phase", Some("load"));
        kept.push(take(1000));
        heapgauge::label("phase", None);
        kept.push(take(2000));
    }
    heapgauge::snapshot("loaded");
    {
        heapgauge::scope!("control");
        heapgauge::stop(Place::Thread);
        kept.push(take(7));
        heapgauge::start(Place::Thread);
        heapgauge::stop(Place::Process);
        kept.push(take(8));
        assert!(heapgauge::stats().map_or(true, |stats| stats.mode() == Mode::Dormant));
        heapgauge::start(Place::Process);
        heapgauge::set_mode(Mode::Tags);
        kept.push(take(4000));
        heapgauge::set_mode(Mode::AsTold);
        heapgauge::set_stacks(6000, usize::MAX);
        kept.push(take(5999));
        kept.push(take(6000));
        heapgauge::set_stacks(0, usize::MAX);
    }
    heapgauge::mark("half");
    kept.remove(0);
    heapgauge::snapshot("done");
    let request = heapgauge::tag_stats("request");
    let count = heapgauge::tags(&mut all);
    let heaviest = heapgauge::sites(&mut top, Order::LiveBytes);
    assert_eq!(request.is_some(), heapgauge::is_recorded());
    if let (Some(request), Some(stats)) = (request, heapgauge::stats()) {
        assert_eq!((request.name(), request.visits), ("request", 1));
        assert_eq!(
            (request.total.calls, request.total.bytes, request.total.live_bytes),
            (2, 300, 200)
        );
        assert_eq!(request.own.calls, 0);
        assert_eq!((stats.mode(), stats.is_estimated()), (Mode::Exact, false));
        assert_eq!(stats.heap.live_bytes, stats.heap.bytes - stats.heap.freed_bytes);
        assert!(stats.peak_bytes >= stats.heap.live_bytes && stats.tags as usize == count);
        let label = all[..count]
            .iter()
            .find(|tag| tag.is_label() && tag.visits > 0)
            .unwrap();
        assert_eq!(
            (label.name(), label.own.bytes, all[label.parent as usize].name()),
            ("tenant=acme", 100, "request")
        );
        assert_eq!(
            (heaviest, top[0].heap.live_bytes, top[0].frames().len()),
            (3, 4000 + 5999, 0)
        );
        assert_eq!(top[1].heap.live_bytes, 6000);
        assert!(top[1].frames().len() > 2 && all[top[1].tag as usize].name() == "control");
    }
    println!("{}", kept.len());
}
