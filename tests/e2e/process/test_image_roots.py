# SPDX-License-Identifier: Apache-2.0
"""heapgauge image: where a program keeps pointers, and where it only seems to."""

import collections
import json
import subprocess

import pytest

from compiled import WAIT_SECONDS
from paused import compile_c


def with_wait(text):
    return text.replace("WAIT;", 'puts("ready"); fflush(stdout); while (getchar() != EOF) {}')


@pytest.fixture
def reach_of(paused, heapgauge, clean_env):
    """Takes an image of a program. (blocks by size and class, what holds them by size)"""

    def take(argv, *options):
        run = paused(argv)
        done, path = run.image(*options)
        assert done.returncode == 0, done.stderr
        assert run.end() == 0
        report = subprocess.run([heapgauge, "report", path, "--view", "leaks", "--format", "json", "--suppressions", "none"], env=clean_env,
                                capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
        classes, held_by = collections.defaultdict(dict), {}
        for site in json.loads(report.stdout)["sites"]:
            size = site["live_bytes"] // site["live_blocks"]
            held_by[size] = site["held_by"]
            for key, value in site["reach"].items():
                if value and key.endswith("_blocks"):
                    classes[size][key.removesuffix("_blocks")] = value
        return classes, held_by

    return take


# As compilers without optimization, a function that calls no other one has its variables below the stack pointer.
RED_ZONE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static volatile bool done;
static void *work(void *block)
{
	__asm__ volatile("movq %%rax, -120(%%rsp)\n"
			 "xorl %%eax, %%eax\n"
			 "xorl %%edi, %%edi\n"
			 "1: cmpb $0, (%%rdx)\n"
			 "je 1b\n"
			 : "+a"(block) : "d"(&done) : "rdi", "rsi", "rcx", "memory");
	return nullptr;
}
static void *call(void *) { return work(malloc(777)); }
int main()
{
	pthread_t thread;
	pthread_create(&thread, nullptr, call, nullptr);
	WAIT;
	done = true;
	pthread_join(thread, nullptr);
}
"""


@pytest.mark.parametrize("options", [[], ["--stop"]], ids=["clone", "stop"])
def test_the_red_zone_of_a_stack_is_searched(reach_of, scratch, options):
    if subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout != "x86_64\n":
        pytest.skip("no red zone")
    program = compile_c(scratch, "red_zone", with_wait(RED_ZONE), "-fno-inline", "-fomit-frame-pointer")
    assert reach_of([program], *options)[0][777] == {"stack": 1}


# Memory directly behind .bss of a library: the kernel makes one mapping of both.
NEIGHBOUR = r"""
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char *end;
static int find(dl_phdr_info *info, size_t, void *)
{
	if (strstr(info->dlpi_name, "neighbour.so"))
		for (int i = 0; i < info->dlpi_phnum; i++)
			if (info->dlpi_phdr[i].p_type == PT_LOAD)
				end = (char *)((info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz + 4095) & ~4095ul);
	return 0;
}
int main(int, char **argv)
{
	void *space = mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *library = dlopen(argv[1], RTLD_NOW);
	munmap(space, 1 << 20);
	void **held = (void **)dlsym(library, "held");
	dl_iterate_phdr(find, nullptr);
	char *own = (char *)mmap(end, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (own != end) return 1;
	held[9999] = malloc(333);
	*(void **)own = malloc(444);
	WAIT;
}
"""


def test_memory_behind_a_library_is_not_its_own(reach_of, scratch):
    library = scratch / "neighbour.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", library], input="void *held[10000];", text=True, check=True)
    classes, held_by = reach_of([compile_c(scratch, "behind", with_wait(NEIGHBOUR)), library])
    assert classes[333] == {"global": 1} and held_by[333] == "held (neighbour.so)"
    assert classes[444] == {"unknown": 1} and held_by[444] is None


SMALL = r"""
#include <stdio.h>
#include <stdlib.h>
void *first, *held;
int main() { held = malloc(333); WAIT; }
"""


def test_variables_of_a_file_whose_first_page_is_mapped_twice_are_named(reach_of, scratch):
    program = compile_c(scratch, "small", with_wait(SMALL), "-Wl,-z,noseparate-code,-z,norelro")
    assert reach_of([program])[1][333] == "held (small)"


EXECUTABLE_DATA = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
static void *table[1024] __attribute__((aligned(4096))) = { table };
int main()
{
	for (int i = 1; i < 1000; i++) table[i] = malloc(333);
	if (mprotect(table, sizeof table, PROT_READ | PROT_WRITE | PROT_EXEC)) return 1;
	WAIT;
}
"""


def test_data_that_may_be_executed_is_searched(reach_of, scratch):
    assert reach_of([compile_c(scratch, "executable", with_wait(EXECUTABLE_DATA))])[0][333] == {"global": 999}


# Its thread-local storage is not on the stacks, however large it is.
LOADED_LATER = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile bool is_up;
__attribute__((noinline)) static void leave_behind() { void *volatile old[2000]; old[100] = malloc(333); }
__attribute__((noinline)) static void forget() { volatile char old[4096]; for (unsigned i = 0; i < sizeof old; i++) old[i] = 0; }
static void *work(void *) { leave_behind(); forget(); is_up = true; for (;;) pause(); return nullptr; }
int main(int, char **argv)
{
	pthread_t thread;
	if (!dlopen(argv[1], RTLD_NOW)) return 1;
	pthread_create(&thread, nullptr, work, nullptr);
	while (!is_up) usleep(1000);
	WAIT;
	_exit(0);
}
"""


def test_what_a_stack_no_longer_has_is_not_searched(reach_of, scratch):
    library = scratch / "later.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", library], input="__thread char later[65536];", text=True, check=True)
    assert reach_of([compile_c(scratch, "loaded", with_wait(LOADED_LATER)), library])[0][333] == {"direct": 1}


ARENA = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *lost[100];
__attribute__((noinline)) static void scrub() { volatile char old[32 << 10]; for (unsigned i = 0; i < sizeof old; i++) old[i] = 0; }
/* All that it allocates it frees. */
__attribute__((noinline)) static void copy()
{
	void **copies[100];
	for (int i = 0; i < 100; i++) {
		copies[i] = (void **)calloc(20, sizeof(void *));
		copies[i][10] = lost[i];
	}
	for (void **copy : copies) free(copy);
}
static void *work(void *) { copy(); scrub(); return nullptr; } // its stack is kept, too
int main()
{
	pthread_t thread;
	for (void *&p : lost) p = malloc(333);
	pthread_create(&thread, nullptr, work, nullptr);
	pthread_join(thread, nullptr);
	memset(lost, 0, sizeof lost);
	scrub();
	WAIT;
}
"""


def test_free_memory_of_an_arena_is_not_searched(reach_of, scratch):
    assert reach_of([compile_c(scratch, "arena", with_wait(ARENA))])[0][333] == {"direct": 100}


ELSEWHERE = r"""
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>
static void **table;
__attribute__((noinline)) static void hold()
{
	void **shared = (void **)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*shared = malloc(333);
	epoll_event event = {};
	event.data.ptr = malloc(444);
	epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, 0, &event);
	table = (void **)malloc(8 * sizeof *table + 1);
	table[malloc_usable_size(table) / sizeof *table - 1] = malloc(555);
}
__attribute__((noinline)) static void scrub() { volatile char old[32 << 10]; for (unsigned i = 0; i < sizeof old; i++) old[i] = 0; }
int main() { hold(); scrub(); WAIT; }
"""


def test_elsewhere_no_pointers_are_searched(reach_of, scratch):
    classes, _ = reach_of([compile_c(scratch, "elsewhere", with_wait(ELSEWHERE))])
    assert [classes[size] for size in (333, 444, 555)] == [{"direct": 1}] * 3


# The one that runs is above one that does not, in a pool of the program, and so is a thread's stack above data; another thread can be cloned.
POOL = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
enum { STACK = 256 << 10, GUARD = 64 << 10 };
static ucontext_t back, coroutines[2];
static void low() { void *volatile block = malloc(333); swapcontext(&coroutines[0], &back); free(block); }
static void high() { void *volatile block = malloc(444); WAIT; swapcontext(&coroutines[1], &coroutines[0]); free(block); }
static void *idle(void *) { for (;;) pause(); }
/* Not merged with others. */
static char *map()
{
	char *at = (char *)mmap(nullptr, GUARD + 2 * STACK + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + GUARD;
	mprotect(at, 2 * STACK, PROT_READ | PROT_WRITE);
	return at;
}
int main()
{
	char *pool = map(), *mixed = map();
	pthread_attr_t attributes;
	pthread_t thread;
	*(void **)mixed = malloc(555);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, mixed + STACK, STACK);
	pthread_create(&thread, &attributes, idle, nullptr);
	pthread_create(&thread, nullptr, idle, nullptr);
	for (int i = 0; i < 2; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = pool + i * STACK;
		coroutines[i].uc_stack.ss_size = STACK;
		coroutines[i].uc_link = &back;
		makecontext(&coroutines[i], i ? high : low, 0);
		swapcontext(&back, &coroutines[i]);
	}
}
"""


@pytest.mark.parametrize("options", [[], ["--stop"]], ids=["copied", "stopped"])
def test_below_a_stack_the_program_may_have_other_ones(reach_of, scratch, options):
    classes, _ = reach_of([compile_c(scratch, "pool", with_wait(POOL), "-pthread")], *options)
    assert (classes[333], classes[444], classes[555]) == ({"unknown": 1}, {"stack": 1}, {"unknown": 1})
