# SPDX-License-Identifier: Apache-2.0
"""What a program reads of its own numbers while it is recorded: hg_stats, hg_tag_stats, hg_tags, hg_sites."""

import json
import subprocess

import pytest

from alone import preloaded
from compiled import compile_c, losses
from test_control import INCLUDE

# Knows what it does, prints what it reads as JSON, and reads without a call of malloc: that is counted by hg_stats itself.
PROGRAM = r"""
#define _GNU_SOURCE
#include <heapgauge/heapgauge.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *kept[100];
__attribute__((noinline)) void *small_ones(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) void *large_ones(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
static void *other(void *unused) { free(kept[0]); free(kept[1]); return unused; }
static void put(const char *name, const struct hg_numbers *n, const char *end)
{
	printf("\"%s\": [%llu, %llu, %llu, %llu, %llu, %llu]%s", name, (unsigned long long)n->calls, (unsigned long long)n->bytes,
	       (unsigned long long)n->frees, (unsigned long long)n->freed_bytes, (unsigned long long)n->live_blocks,
	       (unsigned long long)n->live_bytes, end);
}
static void put_stats(const char *name, const struct hg_stats *s, const char *end)
{
	printf("\"%s\": {\"mode\": %u, \"estimated\": %u, \"peak\": %llu, \"bound\": %llu, \"own\": %llu, ", name, s->mode, s->estimated,
	       (unsigned long long)s->peak_bytes, (unsigned long long)s->peak_bound_bytes, (unsigned long long)s->recorder_bytes);
	put("mapped", &s->mapped, ", ");
	put("heap", &s->heap, end);
}
static void put_tag(const struct hg_tag_stats *t, const char *end)
{
	printf("{\"name\": \"%s\", \"parent\": %u, \"kind\": %u, \"visits\": %llu, ", t->name, t->parent, t->kind,
	       (unsigned long long)t->visits);
	put("self", &t->self, ", ");
	put("total", &t->total, "}");
	fputs(end, stdout);
}
int main(int argc, char **argv)
{
	static char out[1 << 16];
	static struct hg_stats before, at, after;
	static struct hg_tag_stats parser, nowhere, first, all[20];
	static struct hg_site_stats top[5], calls[1];
	pthread_t thread;
	setvbuf(stdout, out, _IOFBF, sizeof out);
	if (argc > 1) hg_mode((enum hg_mode)atoi(argv[1]));
	errno = 33;
	int there = hg_stats(&before);
	{
		HG_SCOPE("server");
		for (int i = 0; i < 10; i++) kept[i] = small_ones(100 + i);
		{
			HG_SCOPE("parser");
			for (int i = 10; i < 13; i++) kept[i] = large_ones(10000);
			kept[11] = realloc(kept[11], 20000);
			HG_LABEL("tenant", "acme");
			kept[13] = small_ones(7);
		}
		free(kept[12]);
	}
	{ HG_SCOPE("server"); }
	void *map = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argc > 2) { pthread_create(&thread, 0, other, 0); pthread_join(thread, 0); }
	else other(0);
	hg_stats(&at);
	int found = hg_tag_stats("server/parser", &parser), none = hg_tag_stats("parser", &nowhere);
	size_t tags = hg_tags(all, 20), few = hg_tags(&first, 1);
	size_t sites = hg_sites(top, 5, HG_BY_LIVE_BYTES), one = hg_sites(calls, 1, HG_BY_CALLS);
	hg_stats(&after);
	if (errno != 33) return 9;
	munmap(map, 8192);
	printf("{\"there\": %d, \"found\": %d, \"none\": %d, \"few\": %zu, ", there, found, none, few);
	put_stats("before", &before, "}, ");
	put_stats("at", &at, "}, ");
	put_stats("after", &after, "}, ");
	printf("\"parser\": ");
	put_tag(&parser, ", \"tags\": [");
	for (size_t i = 0; i < tags; i++) put_tag(&all[i], i + 1 < tags ? ", " : "");
	printf("], \"sites\": [");
	for (size_t i = 0; i < sites + one; i++) {
		struct hg_site_stats *s = i < sites ? &top[i] : &calls[0];
		Dl_info info = { 0 };
		if (s->frames) dladdr((char *)s->frame[0] - 1, &info);
		printf("{\"function\": \"%s\", \"frames\": %u, \"tag\": %u, ", info.dli_sname ? info.dli_sname : "", s->frames, s->tag);
		put("heap", &s->heap, i + 1 < sites + one ? "}, " : "}");
	}
	printf("]}");
	fflush(stdout);
	_exit(0);
}
"""

MODES = {"tags": 1, "sample": 2, "exact": 3}
LARGE = 3 * 10000 + 20000
SMALL = sum(range(100, 110))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("stats"), "stats", PROGRAM, "-pthread", "-rdynamic", f"-I{INCLUDE}", "-ldl")


def check(said, mode, threads):
    at, before = said["at"], said["before"]
    assert (said["there"], said["found"], said["none"], said["few"]) == (1, 1, 0, 1)
    assert at["mode"] == MODES[mode] and at["estimated"] == (mode == "sample")
    # What reading itself allocates: nothing.
    assert said["after"]["heap"] == at["heap"]
    taken = [a - b for a, b in zip(at["heap"], before["heap"])]
    calls, size, freed = 15, SMALL + LARGE + 7, 10000 + 10000 + 201
    if not threads:  # a thread has memory of its own
        assert taken == [calls, size, 4, freed, calls - 4, size - freed]
        assert at["peak"] == before["heap"][5] + SMALL + 10000 + 20000 + 10000 + 7 and at["bound"] == 0
    assert at["mapped"][:2] == [before["mapped"][0] + 1, before["mapped"][1] + 8192]
    assert at["own"] > 100000
    label = [1, 7, 0, 0, 1, 7]
    parser = [4, LARGE, 2, 20000, 2, 30000]
    assert said["parser"] == {
        "name": "parser", "parent": 1, "kind": 0, "visits": 1, "self": parser,
        "total": [a + b for a, b in zip(parser, label)],
    }  # fmt: skip
    by_name = {(tag["name"], tag["parent"], tag["kind"]): tag for tag in said["tags"]}
    assert [key for key in by_name if by_name[key]["visits"]] == [("server", 0, 0), ("parser", 1, 0), ("tenant=acme", 3, 2)]
    server = said["tags"][1]
    assert server["visits"] == 2 and server["self"] == [10, SMALL, 2, 201, 8, SMALL - 201]
    assert server["total"] == [15, SMALL + LARGE + 7, 4, 20201, 11, SMALL + LARGE + 7 - 20201]
    assert by_name[("tenant=acme", 3, 2)]["self"] == label
    root = said["tags"][0]
    assert root["name"] == "" and root["total"] == at["heap"]


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_a_program_reads_its_own_numbers(mode, threads, program, record, report_json):
    argv = [program, str(MODES[mode]), *["threads"] * threads]
    # Blocks of at least the interval are samples that stand for themselves.
    run = record(argv, "--mode", "sample", "--interval", "256")
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    if mode == "sample":
        assert said["parser"]["self"] == [4, LARGE, 2, 20000, 2, 30000]
        assert said["at"]["mode"] == 2 and said["at"]["estimated"] == 1
        return
    check(said, mode, threads)
    assert losses(report_json(run.path)["processes"][0]) == {}
    top = said["sites"]
    if mode == "tags":
        assert {site["frames"] for site in top} == {0}
        return
    assert [(site["function"], site["heap"][5]) for site in top[:3]] == [("main", 20000), ("large_ones", 10000), ("small_ones", SMALL - 201)]
    assert (top[-1]["function"], top[-1]["heap"][0]) == ("small_ones", 10)
    assert said["tags"][top[0]["tag"]]["name"] == "parser"
    # And the report says the same.
    sites = report_json(run.path, "sites", "--cost", "leaked")["sites"]
    assert [(s["stack"][0]["function"], s["not_freed_bytes"]) for s in sites[:2]] == [("main", 20000), ("large_ones", 10000)]


def test_dormant(program, record):
    said = json.loads(record([program, "0"]).stdout)
    assert (said["there"], said["at"]["mode"], said["found"]) == (1, 0, 1)
    assert said["at"]["heap"] == said["before"]["heap"] and said["parser"]["visits"] == 1
    assert said["parser"]["total"] == [0] * 6


def test_in_a_process_that_records_itself(program, build, clean_env):
    done = subprocess.run([program, "3"], env=preloaded(build, clean_env), capture_output=True, text=True, check=True)
    check(json.loads(done.stdout), "exact", 0)


def test_without_the_recorder_there_is_nothing_to_read(program, clean_env):
    done = subprocess.run([program, "3"], env=clean_env, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert (said["there"], said["found"], said["at"]["mode"], said["at"]["heap"]) == (0, 0, 0, [0] * 6)
    assert said["tags"] == said["sites"] == []
