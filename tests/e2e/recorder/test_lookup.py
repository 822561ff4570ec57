# SPDX-License-Identifier: Apache-2.0
"""The recorder finds names without the loader (src/recorder/lookup.c); here dlsym is asked for the same ones.

The code under test is compiled into a program, which then stands where the recorder stands: what is behind it is next.
"""

import pathlib
import re
import subprocess

import pytest

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "src"
MAIN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "recorder/lookup.h"
bool libc_musl;
const struct r_debug *libc_debug(void) { return &_r_debug; }
int near_one(void);
static void *by_object(const char *name)
{
	struct lookup_search search = lookup_behind_us();
	void *found = NULL;

	while (found == NULL && lookup_next_object(&search))
		found = lookup_here(&search, name);
	return found;
}
int main(int count, char **words)
{
	/* Without PIC, this gives malloc an address in the executable. */
	void *volatile address = (void *)malloc;
	(void)address;
	near_one();
	if (strcmp(words[1], "-") != 0 && dlopen(words[1], RTLD_NOW) == NULL)
		return 1;
	for (int i = 2; i < count; i++)
		printf("%s next %d first %d found %d\n", words[i],
		       lookup_next(words[i]) == dlsym(RTLD_NEXT, words[i]) && by_object(words[i]) == dlsym(RTLD_NEXT, words[i]),
		       lookup_first(words[i]) == dlsym(RTLD_DEFAULT, words[i]), lookup_next(words[i]) != NULL);
	return 0;
}
"""
NEAR = """
int deep_one(void);
int near_one(void) { return deep_one(); }
int both(void) { return 1; }
__attribute__((weak)) int weak_here(void) { return 1; }
__attribute__((visibility("protected"))) int guarded(void) { return 1; }
extern int not_here(void) __attribute__((weak));
int uses_not_here(void) { return not_here ? not_here() : 0; }
int data = 7;
"""
DEEP = """
int deep_one(void) { return 2; }
int both(void) { return 2; }
int weak_here(void) { return 2; }
static int one(void) { return 1; }
static int (*choose(void))(void) { return one; }
int chosen(void) __attribute__((ifunc("choose")));
int old_version(void) { return 1; }
int new_version(void) { return 2; }
__asm__(".symver old_version, versioned@V1");
__asm__(".symver new_version, versioned@@V2");
int gone(void) { return 1; }
__asm__(".symver gone, only_old@V1");
"""
VERSIONS = """
V1 { global: versioned; only_old; };
V2 { global: *; local: old_version; new_version; gone; } V1;
"""
EXTRA = "int preloaded(void) { return 3; } int both(void) { return 3; }"
OWN = ["near_one", "deep_one", "both", "weak_here", "guarded", "not_here", "data", "chosen", "versioned", "only_old"]
OTHERS = ["preloaded", "_dl_find_object", "__tls_get_addr", "no_such_name", ""]
FOUND = {"near_one", "deep_one", "both", "weak_here", "guarded", "data", "chosen", "versioned"}


def recorder_names():
    """Everything that the recorder looks for."""
    text = (SOURCES / "recorder" / "hooks" / "next.c").read_text() + (SOURCES / "recorder" / "hooks" / "operators.h").read_text()
    return re.findall(r'"(\w+)"[),]', text)


def gcc(*words):
    subprocess.run(["gcc", "-g", "-Wno-attributes", *words], check=True)


@pytest.fixture(scope="module", params=["gnu", "sysv"])
def folder(request, tmp_path_factory):
    """main needs libnear and libc; libnear needs libdeep, which therefore stands behind libc."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, text in {"main.c": MAIN, "near.c": NEAR, "deep.c": DEEP, "v": VERSIONS, "extra.c": EXTRA}.items():
        (folder / name).write_text(text)
    library = ["-shared", "-fPIC", f"-Wl,--hash-style={request.param}", f"-Wl,-rpath,{folder}"]
    gcc(*library, folder / "deep.c", f"-Wl,--version-script={folder / 'v'}", "-o", folder / "libdeep.so")
    gcc(*library, folder / "near.c", folder / "libdeep.so", "-o", folder / "libnear.so")
    gcc(*library, folder / "extra.c", "-o", folder / "libextra.so")
    parts = ["-I", SOURCES, folder / "main.c", SOURCES / "recorder" / "lookup.c", folder / "libnear.so"]
    for name, flag in (("pie", "-pie"), ("no-pie", "-no-pie")):
        code = "-fPIE" if name == "pie" else "-fno-pic"
        gcc(code, flag, f"-Wl,-rpath,{folder}", f"-Wl,--hash-style={request.param}", *parts, "-o", folder / name)
    return folder


def ask(program, names, preload=(), plugin="-"):
    """{name: (next is dlsym's, first is dlsym's, there is a next)}"""
    done = subprocess.run(
        [program, plugin, *names],
        env={"LD_PRELOAD": ":".join(map(str, preload))},
        check=True,
        capture_output=True,
        text=True,
    )
    lines = re.findall(r"^(\w*) next (\d) first (\d) found (\d)$", done.stdout, re.M)
    assert len(lines) == len(names), done.stdout
    return {name: (same == "1", first == "1", found == "1") for name, same, first, found in lines}


@pytest.mark.parametrize("program", ["pie", "no-pie"])
@pytest.mark.parametrize("preload", [[], ["libextra.so"], ["libdeep.so", "libextra.so"]])
def test_every_answer_is_the_loaders(folder, program, preload):
    names = OWN + OTHERS + recorder_names()
    assert len(names) > 60
    answers = ask(folder / program, names, [folder / name for name in preload])
    # For malloc in a program without PIC, dlsym gives the executable's own stub; who defines it is the question here.
    differs = {"malloc"} if program == "no-pie" else set()
    assert {n for n in names if not answers[n][0]} == set()
    assert {n for n in names if not answers[n][1]} == differs
    assert {n for n in OWN if answers[n][2]} == FOUND
    assert answers["malloc"][2] and answers["_dl_find_object"][2]
    assert answers["preloaded"][2] == ("libextra.so" in preload)
    assert not answers["_Znwm"][2] and not answers["no_such_name"][2]


def test_what_came_by_dlopen_is_not_found_because_it_may_go(folder):
    names = ["preloaded", "both", "chosen", "malloc"]
    answers = ask(folder / "pie", names, plugin=folder / "libextra.so")
    assert [answers[name] for name in names] == [(True, True, False)] + [(True, True, True)] * 3


def test_a_library_with_the_name_of_a_symbolic_link_is_of_the_start(folder, scratch):
    (scratch / "libnear.so").symlink_to(folder / "libnear.so")
    done = subprocess.run(
        [folder / "pie", "-", "deep_one", "chosen"],
        env={"LD_LIBRARY_PATH": str(scratch)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("next 1 first 1 found 1") == 2
