# SPDX-License-Identifier: Apache-2.0
"""heapgauge image: the shortest path to a block, with offsets, and the types of C++ objects, against programs that know both."""

import json
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS
from paused import compile_c
from test_image import sites_of

PATHS = r"""
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")
struct node { char name[32]; struct node *next; void *payload; };
extern "C" {
struct { long count[3]; struct node *head; } registry;
struct node *long_list;
void *middle[4];
static __thread void *volatile own[2];
NOINLINE struct node *make_node(struct node *next) { struct node *n = (struct node *)calloc(1, sizeof *n); KEEP(n); n->next = next; return n; }
NOINLINE struct node *make_long(struct node *next) { struct node *n = (struct node *)calloc(1, sizeof *n); KEEP(n); n->next = next; return n; }
NOINLINE void *make_payload() { void *p = malloc(3000); KEEP(p); return p; }
NOINLINE void *make_deep() { void *p = malloc(4000); KEEP(p); return p; }
NOINLINE char *make_middle() { char *p = (char *)calloc(1, 500); KEEP(p); return p; }
NOINLINE void *make_behind() { void *p = malloc(600); KEEP(p); return p; }
NOINLINE void *make_own() { void *p = malloc(700); KEEP(p); return p; }
NOINLINE void *make_local() { void *p = malloc(800); KEEP(p); return p; }
NOINLINE void *make_short_cut() { void *p = malloc(900); KEEP(p); return p; }
NOINLINE void make_all()
{
	struct node *last = make_node(nullptr), *end = make_long(nullptr);
	last->payload = make_payload();
	for (int i = 0; i < 4; i++) last = make_node(last);
	registry.head = last;
	end->payload = make_deep();
	for (int i = 1; i < 100; i++) end = make_long(end);
	long_list = end;
	char *inside = make_middle();
	void *behind = make_behind();
	memcpy(inside + 72, &behind, 8);
	middle[2] = inside + 100;
	own[1] = make_own();
	// A long way and a short one: from the third node of the list, and from the first.
	void *twice = make_short_cut();
	registry.head->payload = twice;
	registry.head->next->next->payload = twice;
}
NOINLINE void scrub() { volatile char old[16 << 10]; for (size_t i = 0; i < sizeof old; i++) old[i] = 0; }
}
int main()
{
	make_all();
	void *volatile here = make_local();
	scrub();
	printf("TRUTH next=%zu payload=%zu\n", offsetof(struct node, next), offsetof(struct node, payload));
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	free(here);
	return 0;
}
"""


def by_function(sites):
    """Of several sites in one function the first, which retains most."""
    found = {}
    for site in sites:
        for frame in site["stack"]:
            if frame["function"].startswith("make_") and frame["function"] != "make_all":
                found.setdefault(frame["function"], site)
                break
    return found


def steps(path):
    """(function, offset, blocks) of each step behind the root."""
    return [(s["name"].split(" ")[0] if s["name"] else None, s["offset_bytes"], s["blocks"]) for s in path[1:]]


@pytest.mark.parametrize("options", [[], ["--stop"]], ids=["clone", "stop"])
def test_paths_are_those_of_the_program(paused, heapgauge, clean_env, scratch, options):
    run = paused([compile_c(scratch, "paths", PATHS)])
    done, path = run.image(*options)
    assert done.returncode == 0, done.stderr
    assert run.lines[0] == "TRUTH next=32 payload=40\n"
    sites = by_function(sites_of(heapgauge, path, clean_env))

    def root(name):
        first = sites[name]["path"][0]
        assert first["name"] == sites[name]["held_by"]
        return first["name"], first["offset_bytes"]

    assert root("make_payload") == ("registry (paths)", 24)
    assert steps(sites["make_payload"]["path"]) == [("make_node", 32, 4), ("make_node", 40, 1)]
    assert sites["make_payload"]["path"][1]["site"] == sites["make_node"]["site"]
    assert root("make_node") == ("registry (paths)", 24) and len(sites["make_node"]["path"]) == 1
    assert steps(sites["make_short_cut"]["path"]) == [("make_node", 40, 1)]
    assert root("make_deep") == ("long_list (paths)", 0)
    assert steps(sites["make_deep"]["path"]) == [("make_long", 32, 7), (None, None, 85), ("make_long", 32, 7), ("make_long", 40, 1)]
    assert root("make_middle") == ("middle (paths)", 16)
    assert root("make_behind") == ("middle (paths)", 16) and steps(sites["make_behind"]["path"]) == [("make_middle", 72, 1)]
    assert root("make_local")[0] == f"stack of thread {run.pid}"
    assert root("make_own")[0] == f"thread-local storage of thread {run.pid}"
    report = [heapgauge, "report", path, "--view", "leaks", "--format", "json"]
    roots = json.loads(subprocess.run(report, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout)["retained_by_root"]
    expected = {"long_list (paths)": 100 * 48 + 4000, "registry (paths)": 5 * 48 + 3000 + 900, "middle (paths)": 500 + 600}
    assert {name: roots.get(name) for name in expected} == expected and list(roots.values()) == sorted(roots.values(), reverse=True)
    text = subprocess.run([heapgauge, "report", path, "--view", "leaks", "--focus", "make_payload"], env=clean_env,
                          capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout
    assert re.search(r"held by  registry\+0x18 \(paths\) > make_node \(paths.cc:\d+\) \+0x20 x 4 > make_node \(paths.cc:\d+\) \+0x28\n", text), text
    assert run.end() == 0


TYPES = r"""
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#define NOINLINE __attribute__((noinline))
struct Shape { virtual ~Shape() {} virtual int area() const { return 1; } long id = 1; };
struct Named { virtual ~Named() {} virtual const char *name() const { return "n"; } char *text = nullptr; };
namespace ns {
struct Circle : Shape { int area() const override { return 3; } double radius = 2; };
struct Label : Shape, Named { Label() { text = (char *)malloc(1000); } int area() const override { return 2; } };
template <typename T> struct Box : virtual Shape { T value[4] = {}; int area() const override { return 4; } };
}
namespace { struct Hidden : Shape { int area() const override { return 5; } long more[7] = {}; }; }
struct Plain { long words[5] = {}; };
struct Counted { long words[3] = {}; };
std::vector<Shape *> shapes;
std::vector<Named *> names;
std::vector<std::shared_ptr<Counted>> counted;
void *plain, *array;
Shape *volatile lost;
template <typename T> NOINLINE T *make() { return new T; }
NOINLINE void lose() { lost = new ns::Circle; lost = nullptr; }
NOINLINE void scrub() { volatile char old[16 << 10]; for (size_t i = 0; i < sizeof old; i++) old[i] = 0; }
NOINLINE void make_all()
{
	for (int i = 0; i < 10; i++) shapes.push_back(make<ns::Circle>());
	for (int i = 0; i < 3; i++) names.push_back(make<ns::Label>()); // a pointer to its second base: into the middle
	for (int i = 0; i < 2; i++) shapes.push_back(make<ns::Box<short>>());
	shapes.push_back(make<Hidden>());
	for (int i = 0; i < 4; i++) counted.push_back(std::make_shared<Counted>());
	plain = make<Plain>();
	array = new ns::Circle[6]; // the number of elements is before the first
	lose();
}
#define TRUTH(name, blocks, bytes, retained, lost) std::printf("TRUTH %s|%zu|%zu|%zu|%zu\n", name, (size_t)(blocks), (size_t)(bytes), (size_t)(retained), (size_t)(lost))
int main()
{
	make_all();
	scrub();
	TRUTH("ns::Circle", 11, 11 * sizeof(ns::Circle), 11 * sizeof(ns::Circle), sizeof(ns::Circle));
	TRUTH("ns::Label", 3, 3 * sizeof(ns::Label), 3 * (sizeof(ns::Label) + 1000), 0);
	TRUTH("ns::Box<short>", 2, 2 * sizeof(ns::Box<short>), 2 * sizeof(ns::Box<short>), 0);
	TRUTH("(anonymous namespace)::Hidden", 1, sizeof(Hidden), sizeof(Hidden), 0);
	std::puts("ready");
	std::fflush(stdout);
	while (std::getchar() != EOF) {}
	return 0;
}
"""

BUILDS = {"pie": [], "stripped": ["-s"], "no-pie": ["-no-pie", "-fno-pie"], "static-libstdc++": ["-static-libstdc++", "-s"],
          "packed": ["-Wl,-z,noseparate-code", "-Wl,-z,norelro"]}


@pytest.mark.parametrize("how", BUILDS)
def test_types_are_those_of_the_objects(paused, heapgauge, clean_env, scratch, how):
    run = paused([compile_c(scratch, "types", TYPES, *BUILDS[how])])
    done, path = run.image()
    assert done.returncode == 0, done.stderr

    def report(*options):
        done = subprocess.run([heapgauge, "report", path, "--view", "leaks", "--format", "json", "--suppressions", "none", *options],
                              env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
        return json.loads(done.stdout)

    types = {row["type"]: row for row in report("--by", "type")["types"]}
    truth = [line.removeprefix("TRUTH ").strip().split("|") for line in run.lines if line.startswith("TRUTH")]
    assert len(truth) == 4
    for name, *numbers in truth:
        row = types.pop(name)
        assert [row[key] for key in ("live_blocks", "live_bytes", "retained_bytes", "unreachable_bytes")] == [int(n) for n in numbers], name
    shared = [row for name, row in types.items() if name.startswith("std::_Sp_counted_ptr_inplace<Counted")]
    assert len(shared) == 1 and shared[0]["live_blocks"] == 4
    assert set(types) == {shared[0]["type"], "(no type)"}, "no other object has virtual functions"
    sites = report()["sites"]
    live = sum(sum(v for k, v in s["reach"].items() if k.endswith("_bytes")) for s in sites)
    assert types["(no type)"]["live_bytes"] == live - sum(int(n[2]) for n in truth) - shared[0]["live_bytes"]
    assert {s["type"] for s in sites} == {None, shared[0]["type"], *(n[0] for n in truth)}
    if how != "stripped" and "static" not in how:
        label = next(s for s in sites if s["type"] == "ns::Label")
        assert label["held_by"] == "names (types)" and [(s["type"], s["blocks"]) for s in label["path"][1:]] == [(None, 1)]
        text = next(s for s in sites if s["path"] and s["path"][-1].get("type") == "ns::Label")
        assert text["path"][-1]["offset_bytes"] == 24, "text, behind two tables and the id"
    assert run.end() == 0


def test_without_rtti_there_are_no_types(paused, heapgauge, clean_env, scratch):
    source = TYPES.replace("std::make_shared<Counted>()", "std::shared_ptr<Counted>()")
    run = paused([compile_c(scratch, "types", source, "-fno-rtti")])
    done, path = run.image()
    assert done.returncode == 0, done.stderr
    done = subprocess.run([heapgauge, "report", path, "--view", "leaks", "--by", "type", "--format", "json"], env=clean_env,
                          capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    assert [row["type"] for row in json.loads(done.stdout)["types"]] == ["(no type)"]
    assert run.end() == 0


FORGED = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" void *_ZTVN10__cxxabiv117__class_type_infoE[];
struct info { void *table; const char *name; };
struct table { long top; const void *of; void *functions[2]; };
static char endless[1 << 16], letters[] = "4Evil\x1b[31m", good[] = "4Good";
static info infos[6];
static table tables[8];
void *kept[8];
int main()
{
	void *class_info = &_ZTVN10__cxxabiv117__class_type_infoE[2];
	memset(endless, 'a', sizeof endless);
	infos[0] = {class_info, good};
	infos[1] = {class_info, letters};
	infos[2] = {class_info, endless};
	infos[3] = {class_info, (char *)8};
	infos[4] = {&tables[4].functions, good}; // its own kind
	infos[5] = {(void *)-16, good};
	for (int i = 0; i < 6; i++) tables[i] = {0, &infos[i], {}};
	tables[6] = {0, (char *)&infos[0] + 1, {}};
	tables[7] = {8, &infos[0], {}}; // a second base
	for (int i = 0; i < 8; i++) {
		kept[i] = malloc(100 + i);
		*(void **)kept[i] = &tables[i].functions;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	return 0;
}
"""


def test_forged_vtables_give_no_types(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "forged", FORGED)])
    done, path = run.image()
    assert done.returncode == 0, done.stderr
    done = subprocess.run([heapgauge, "report", path, "--view", "leaks", "--by", "type", "--format", "json", "--suppressions", "none"], env=clean_env,
                          capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    types = {row["type"]: row["live_bytes"] for row in json.loads(done.stdout)["types"]}
    assert set(types) == {"Good", "(no type)"} and types["Good"] == 100
    assert run.end() == 0


def test_names_of_types_are_redacted(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "types", TYPES)])
    done, path = run.image()
    assert done.returncode == 0, done.stderr
    run.end()
    subprocess.run([heapgauge, "bundle", path, "-o", scratch / "shared.hg", "--redact", "names"], env=clean_env, check=True, timeout=WAIT_SECONDS)
    sites = sites_of(heapgauge, scratch / "shared.hg", clean_env)
    types = {s["type"] for s in sites} | {step.get("type") for s in sites for step in s["path"] or []}
    assert len(types) > 4 and all(re.fullmatch(r"type\d+", name) for name in types - {None})
