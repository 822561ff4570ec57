# SPDX-License-Identifier: Apache-2.0
"""Very many threads: 1,500 at once, and 1,000 more when those have ended, who go on with counters of the first ones because there were more
than 1,024. Each says the truth about itself; totals must be to the byte, and what is shown of a thread is true or not shown."""

import collections
import json
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, losses
from reading import with_frames

AT_ONCE, LATER = 1500, 1000

# A thread takes blocks, frees some, frees blocks of its neighbour, and leaves some to main, who frees a part of all.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { AT_ONCE = %d, LATER = %d, THREADS = AT_ONCE + LATER };
struct worker {
	pthread_t thread;
	int tid, number;
	void *for_neighbour, *for_main;
	long calls, bytes, own, freed, by_main, by_neighbour; /* bytes but for the first */
};
static struct worker worker[THREADS];
static pthread_barrier_t here;
__attribute__((noinline)) static void *take(struct worker *w, long n)
{
	void *p = malloc(n);
	__asm__ volatile("" : "+r"(p) : : "memory");
	w->calls++;
	w->bytes += n;
	return p;
}
static void work(struct worker *w)
{
	long size = 256 + w->number;
	w->tid = gettid();
	for (int i = 0; i < 3 + w->number %% 5; i++) {
		void *p = take(w, size);
		if (i == 0) { free(p); w->own += size; }
	}
	w->for_main = take(w, 100 + size);
	w->for_neighbour = take(w, 1000 + size);
}
static void *at_once(void *arg)
{
	struct worker *w = arg, *next = &worker[(w->number + 1) %% AT_ONCE];
	work(w);
	pthread_barrier_wait(&here);
	if (w->number %% 3 == 0) {
		free(next->for_neighbour);
		next->by_neighbour += 1000 + 256 + next->number;
		w->freed += 1000 + 256 + next->number;
	}
	pthread_barrier_wait(&here);
	return NULL;
}
static void *later(void *arg) { work(arg); return NULL; }
int main(void)
{
	pthread_attr_t small;
	struct worker sum = { 0 };
	pthread_barrier_init(&here, NULL, AT_ONCE);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 * 1024);
	for (int i = 0; i < THREADS; i++) worker[i].number = i;
	for (int i = 0; i < AT_ONCE; i++)
		if (pthread_create(&worker[i].thread, &small, at_once, &worker[i])) return 9;
	for (int i = 0; i < AT_ONCE; i++) pthread_join(worker[i].thread, NULL);
	for (int i = AT_ONCE; i < THREADS; i++) {
		if (pthread_create(&worker[i].thread, &small, later, &worker[i])) return 9;
		pthread_join(worker[i].thread, NULL);
	}
	for (int i = 0; i < THREADS; i++)
		if (i %% 2) { free(worker[i].for_main); worker[i].by_main = 100 + 256 + i; }
	for (int i = 0; i < THREADS; i++) {
		struct worker *w = &worker[i];
		char line[160];
		long by_others = w->by_main + w->by_neighbour;
		int n = snprintf(line, sizeof line, "%%d %%ld %%ld %%ld %%ld %%ld\n", w->tid, w->calls, w->bytes, w->bytes - w->own - by_others,
				 by_others, w->freed);
		if (write(1, line, n) != n) return 8;
	}
	_exit(0);
}
""" % (AT_ONCE, LATER)

Truth = collections.namedtuple("Truth", "tid calls bytes live by_others for_others")


class Recorded:
    def __init__(self, heapgauge, path, truth):
        self.heapgauge, self.path = heapgauge, path
        self.truth = {one.tid: one for one in truth}

    def run(self, *options):
        argv = [self.heapgauge, "report", self.path, *options]
        return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)

    def ask(self, *options):
        done = self.run("--format", "json", "--limit", "100000", *options)
        assert done.returncode == 0, done.stderr
        return with_frames(json.loads(done.stdout))

    def rows(self):
        """The rows of the program's threads; of tids that came twice only those that are told apart."""
        rows = self.ask("--view", "threads")["threads"]
        return [row for row in rows if row["tid"] in self.truth]


@pytest.fixture(scope="module", params=["exact", "sample"])
def recorded(request, heapgauge, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    program = compile_c(folder, "many", PROGRAM, "-pthread")
    # No block of the threads is smaller than that: each is a sample that stands for itself.
    mode = ["--mode", "sample", "--interval", "256"] if request.param == "sample" else []
    argv = [heapgauge, "record", "-q", "-o", folder / "run.hg", *mode, "--", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    truth = [Truth(*map(int, line.split())) for line in done.stdout.splitlines()]
    assert len({one.tid for one in truth}) == len(truth) == AT_ONCE + LATER, "a number came twice"
    return Recorded(heapgauge, folder / "run.hg", truth)


def test_totals_are_to_the_byte(recorded):
    truth = recorded.truth.values()
    sites = [s for s in recorded.ask("--view", "sites", "--cost", "calls")["sites"] if s["stack"][0]["function"] == "take"]
    assert sum(s["calls"] for s in sites) == sum(one.calls for one in truth)
    assert sum(s["total_bytes"] for s in sites) == sum(one.bytes for one in truth)
    assert sum(s["not_freed_bytes"] for s in sites) == sum(one.live for one in truth)
    (process,) = recorded.ask("--view", "summary")["processes"]
    assert process["threads"] == 1 + AT_ONCE + LATER
    assert losses(process) == {}
    answer = recorded.ask("--view", "threads")
    assert (sum(row["calls"] for row in answer["threads"]), sum(row["total_bytes"] for row in answer["threads"])) == (process["calls"], process["total_bytes"])
    assert answer["cross_thread_freed_bytes"] >= sum(one.by_others for one in truth)


def test_each_thread_is_told_what_is_known_of_it(recorded):
    rows = recorded.rows()
    assert len(rows) == AT_ONCE + LATER
    shared = [row for row in rows if row["slot_threads"] > 1]
    assert len(shared) > LATER, "the later ones, and those whose counters they have"
    for row in rows:
        one = recorded.truth[row["tid"]]
        assert (row["calls"], row["total_bytes"]) == (one.calls, one.bytes)
        held, passed = row["live_bytes"], (row["freed_by_others_bytes"], row["freed_for_others_bytes"])
        if row["slot_threads"] > 1:
            assert held is None and passed == (None, None)
        else:
            assert (held, passed) == (one.live, (one.by_others, one.for_others)), row


def test_the_text_says_what_is_shared(recorded):
    text = recorded.run("--view", "threads", "--limit", "3000").stdout
    assert "very many threads" in text and "not known" in text
    assert any(line.split()[-3:] == ["-", "-", "-"] for line in text.splitlines())


def test_groups_by_thread_add_up_and_name_whose_they_are(recorded):
    answer = recorded.ask("--view", "functions", "--by", "thread", "--cost", "leaked")
    groups = answer["threads"]
    assert sum(group["live_bytes"] for group in groups) == answer["shown"]
    slots = collections.defaultdict(list)
    for row in recorded.rows():
        slots[row["slot"]].append(row["tid"])
    of_first = {int(group["thread"].split("(")[1].split(")")[0]): group for group in groups}
    for tids in slots.values():
        first = next(tid for tid in tids if tid in of_first)
        label, live = of_first[first]["thread"], sum(recorded.truth[tid].live for tid in tids)
        assert of_first[first]["live_bytes"] == live
        assert label.endswith(f"and {len(tids) - 1} later in its place") == (len(tids) > 1), label


def test_a_filter_leaves_out_what_is_not_its_own_and_says_so(recorded):
    rows = recorded.rows()
    own = next(row["tid"] for row in rows if row["slot_threads"] == 1)
    shared = next(row["tid"] for row in rows if row["slot_threads"] > 1)
    answer = recorded.ask("--view", "sites", "--cost", "leaked", "--thread", str(own))
    assert answer["shown"] == recorded.truth[own].live and "note" not in answer
    refused = recorded.run("--view", "sites", "--cost", "leaked", "--thread", str(shared))
    assert refused.returncode != 0 and "counted together with others" in refused.stderr
    # Of all threads together nothing is shared with others.
    answer = recorded.ask("--view", "sites", "--cost", "leaked", "--thread", ".")
    assert answer["shown"] >= sum(one.live for one in recorded.truth.values()) and "note" not in answer
