// SPDX-License-Identifier: Apache-2.0
//! Sums up a journal of "account amount" lines.

use std::collections::BTreeMap;

pub fn totals(journal: &str) -> BTreeMap<&str, i64> {
    let mut totals = BTreeMap::new();
    for line in journal.lines() {
        let (account, amount) = line.split_once(' ').expect("account amount");
        *totals.entry(account).or_insert(0) += amount.parse::<i64>().expect("a number");
    }
    totals
}

#[cfg(test)]
mod tests {
    #[test]
    fn totals() {
        let journal: String = (0..20_000).map(|i| format!("account{} {}\n", i % 50, i)).collect();
        assert_eq!(super::totals(&journal).values().sum::<i64>(), (0..20_000).sum());
    }
}
