// SPDX-License-Identifier: Apache-2.0
// Joins two streams, clicks and purchases, over a window of the last events.
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

struct Click {
    user: u32,
    url: String,
    headers: Vec<String>,
}

struct Joiner {
    window: VecDeque<Click>,
    limit: usize,
    matches: usize,
}

impl Joiner {
    #[inline(never)]
    fn add_click(&mut self, number: u32) {
        let user = number.wrapping_mul(2654435761) % 900;
        let headers = (0..4).map(|i| format!("x-header-{}: {}", i, "v".repeat(30 + (number as usize + i) % 60))).collect();
        self.window.push_back(Click { user, url: format!("https://shop.example/item/{}?session={:032x}", number, number), headers });
        while self.window.len() > self.limit {
            self.window.pop_front();
        }
    }

    #[inline(never)]
    fn join(&mut self, buyers: &[u32]) {
        let mut by_user: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for click in self.window.iter().rev().take(600) {
            by_user.entry(click.user).or_default().push(&click.url);
        }
        for buyer in buyers {
            if let Some(urls) = by_user.get(buyer) {
                self.matches += urls.len();
            }
        }
        self.matches += self.window.front().map_or(0, |c| c.headers.len());
    }
}

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "4".to_string());
    let end = Instant::now() + Duration::from_secs_f64(argument.parse().unwrap());
    let mut joiner = Joiner { window: VecDeque::new(), limit: 2200, matches: 0 };
    let mut number = 0;
    // The broker replays the window's length of events to a new consumer.
    for _ in 0..2200 {
        joiner.add_click(number);
        number += 1;
    }
    while Instant::now() < end {
        for _ in 0..25 {
            joiner.add_click(number);
            number += 1;
        }
        let buyers: Vec<u32> = (0..15).map(|i| (number * 17 + i * 59) % 900).collect();
        joiner.join(&buyers);
        std::thread::sleep(Duration::from_millis(13));
    }
    assert!(joiner.matches > 0);
}
