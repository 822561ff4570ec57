# SPDX-License-Identifier: Apache-2.0
"""What looks like an allocator with hooks and is not, or no longer, is not called: the program runs as without us, and reports say what
was not recorded."""

import subprocess

import pytest

from builds import LIBRARIES
from compiled import compile_c

MALLCTL = """
#include <stdio.h>
#include <stdlib.h>
/* Not jemalloc's: it would end the program. */
__attribute__((noinline)) int mallctl(const char *name) { puts(name); exit(9); }
int mallocx(void) { return 1; }
int main(int argc, char **argv)
{
	if (argc > 5)
		return mallctl(argv[1]);
	for (int i = 0; i < 1000; i++)
		free(realloc(NULL, 10 + i));
	return mallocx() + 2;
}
"""
# It has jemalloc's names and the beginning of its messages, but no hooks.
NO_HOOKS = """
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
const char message[] = "<jemalloc>: hello";
int je_mallctl(const char *name, void *old, size_t *bytes, void *new, size_t new_bytes)
{
	if (HOW == 1 && strstr(name, "install"))
		return 0; /* it does not call them */
	return HOW == 2 ? EAGAIN : ENOENT;
}
void *je_realloc(void *p, size_t n) { return realloc(p, n); }
void je_free(void *p) { free(p); }
int main(int argc, char **argv)
{
	char *volatile block = NULL;
	if (argc > 5)
		return je_mallctl(argv[1], 0, 0, 0, 0);
	for (int i = 0; i < 1000; i++)
		je_free(block = je_realloc(NULL, 10 + i));
	return 3 + (message[0] == 'x');
}
"""
PLAIN = """
#include <stdlib.h>
int main(void)
{
	for (int i = 0; i < 1000; i++) {
		char *volatile block = malloc(10 + i);
		free(block);
	}
	return 3;
}
"""
LINK = ["-fno-builtin", "-lstdc++", "-lm", "-lpthread", "-ldl"]


def with_allocator(folder, name, archive, *flags):
    return compile_c(folder, name, PLAIN, *flags, "-Wl,-u,malloc", "-x", "none", "-Wl,--start-group", LIBRARIES / archive, "-Wl,--end-group", *LINK)


def test_a_function_named_mallctl_is_not_jemallocs(scratch, record, report_json):
    program = compile_c(scratch, "impostor", MALLCTL, "-fno-builtin")
    done = record([program])
    assert (done.returncode, done.stdout) == (3, "")
    [process] = report_json(done.path)["processes"]
    assert process["allocator"] == "glibc" and process["calls"] == 1000


@pytest.mark.parametrize("how", [0, 1, 2], ids=["no such name", "not called", "none is free"])
def test_a_jemalloc_without_hooks_that_we_know_is_left_alone(how, scratch, record, report_json):
    program = compile_c(scratch, "without", NO_HOOKS, "-fno-builtin", f"-DHOW={how}")
    done = record([program])
    assert (done.returncode, done.stdout, done.stderr) == (3, "", done.stderr)
    [process] = report_json(done.path)["processes"]
    assert process["allocator"] == "glibc" and 1000 <= process["calls"] <= 1001  # its realloc is glibc's


@pytest.mark.parametrize("archive", ["libjemalloc_pic.a", "libtcmalloc_minimal.a"])
def test_a_program_that_was_replaced_before_it_began_is_not_called_at_the_old_addresses(archive, scratch, record, report_json):
    program = with_allocator(scratch, "first", archive)
    other = with_allocator(scratch, "second", archive, "-O0", "-DMORE", "-Wl,-z,norelro", "-Wl,-Ttext-segment=0x500000", "-no-pie")
    done = record(["sh", "-c", 'cp "$1" "$0.new"; mv "$0.new" "$0"; exec "$0"', program, other])
    assert done.returncode == 3, done.stderr
    [allocator] = {p["allocator"] for p in report_json(done.path)["processes"] if p["command"].split()[0].endswith("/first")}
    assert allocator == "first" and report_json(done.path)["warnings"] == {"unrecorded_allocators": 1}


@pytest.mark.parametrize("archive", ["libjemalloc_pic.a", "libtcmalloc_minimal.a"])
def test_a_debug_file_with_addresses_that_have_no_code_is_not_believed(archive, scratch, record, report_json):
    """It has the right build-id and checksum."""
    program, debug = with_allocator(scratch, "program", archive, "-Wl,--build-id"), scratch / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    names = ["je_mallctl", "mallctl", "MallocHook_AddNewHook"]
    subprocess.run(["objcopy", *(f"--strip-symbol={n}" for n in names), *(f"--add-symbol={n}=0x7000000000,function,global" for n in names[1:]), debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program], check=True)
    done = record([program])
    assert done.returncode == 3, done.stderr
    assert report_json(done.path)["warnings"] == {"unrecorded_allocators": 1}
