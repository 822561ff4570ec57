/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the functions to forward to.
 *
 * Owns: `next`. The lookup calls no outside function and takes no lock. So a call that arrives while another thread is looking up,
 * or in a signal handler that interrupted the lookup, or in a child forked from it, does its own lookup and writes the same values.
 * Invariant: once next_is_found is set, every word of `next` is final. */
#include "recorder/hooks/next.h"

#include <sys/syscall.h>

#include "recorder/hooks/allocator.h"
#include "recorder/hooks/composed.h"
#include "recorder/lookup.h"
#include "recorder/unwind/modules.h"
#include "recorder/hooks/operators.h"
#include "recorder/sys.h"
#include "recorder/hooks/unexport.h"

struct next next;
bool next_is_found;

/* Only the allocator that a block came from knows its size: all functions that return blocks must be in one object, and no other
 * malloc may precede ours. */
static void check_usable(struct next *found)
{
	const void *const makers[] = { (void *)found->malloc,	(void *)found->calloc,
				       (void *)found->realloc,	(void *)found->posix_memalign,
				       (void *)found->memalign, (void *)found->free };

	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		if (!modules_same((const void *)found->usable, makers[i]))
			found->usable = NULL;
	}
	if (found->other_malloc != NULL)
		found->usable = NULL; /* the operators hand out its blocks */
}

/* If the executable has a recorder linked in, that one leaves the work to us. */
static void find_previous(struct next *found)
{
	found->other_malloc = lookup_before("malloc");
	found->other_realloc = lookup_before("realloc");
	if ((found->other_malloc != NULL || found->other_realloc != NULL) &&
	    lookup_before("confstr") != NULL) {
		found->other_malloc = NULL;
		found->other_realloc = NULL;
	}
}

/* Names are stored inline, so that ld.so has nothing to relocate. */
static const struct wanted {
	char name[20];
	uint16_t at;
} wanted[] = {
	{ "syscall", offsetof(struct next, syscall) },
	{ "confstr", offsetof(struct next, confstr) },
	{ "malloc", offsetof(struct next, malloc) },
	{ "free", offsetof(struct next, free) },
	{ "calloc", offsetof(struct next, calloc) },
	{ "realloc", offsetof(struct next, realloc) },
	{ "posix_memalign", offsetof(struct next, posix_memalign) },
	{ "aligned_alloc", offsetof(struct next, aligned_alloc) },
	{ "memalign", offsetof(struct next, memalign) },
	{ "valloc", offsetof(struct next, valloc) },
	{ "pvalloc", offsetof(struct next, pvalloc) },
	{ "malloc_usable_size", offsetof(struct next, malloc_usable_size) },
	{ "free_sized", offsetof(struct next, free_sized) },
	{ "free_aligned_sized", offsetof(struct next, free_aligned_sized) },
	{ "strdup", offsetof(struct next, duplicate) },
	{ "strndup", offsetof(struct next, duplicate_most) },
	{ "mmap", offsetof(struct next, mmap) },
	{ "munmap", offsetof(struct next, munmap) },
	{ "mremap", offsetof(struct next, mremap) },
	{ "sbrk", offsetof(struct next, sbrk) },
	{ "brk", offsetof(struct next, brk) },
	{ "fork", offsetof(struct next, fork) },
	{ "_Fork", offsetof(struct next, fork_alone) },
	{ "execve", offsetof(struct next, execve) },
	{ "execvpe", offsetof(struct next, execvpe) },
	{ "fexecve", offsetof(struct next, fexecve) },
	{ "execveat", offsetof(struct next, execveat) },
	{ "posix_spawn", offsetof(struct next, posix_spawn) },
	{ "posix_spawnp", offsetof(struct next, posix_spawnp) },
	{ "system", offsetof(struct next, system) },
	{ "popen", offsetof(struct next, popen) },
	{ "_exit", offsetof(struct next, exit_now) },
	{ "quick_exit", offsetof(struct next, exit_quickly) },
	{ "prctl", offsetof(struct next, prctl) },
	{ "mlockall", offsetof(struct next, mlockall) },
	{ "setrlimit", offsetof(struct next, setrlimit) },
	{ "prlimit", offsetof(struct next, prlimit) },
};

/* An allocator may define these, as mimalloc 3 does, and then they take a block without calling malloc by its name. libc's call it. */
static void avoid_copies_of_allocator(struct next *found)
{
	struct lookup_search search = lookup_behind_us();
	bool dup = modules_same((void *)found->malloc, (void *)found->duplicate);
	bool ndup = modules_same((void *)found->malloc, (void *)found->duplicate_most);

	while ((dup || ndup) && lookup_next_object(&search)) {
		if (lookup_here(&search, LIBC_FUNCTION) == NULL)
			continue;
		void *of_libc = dup ? lookup_here(&search, "strdup") : (void *)found->duplicate;
		void *most_of_libc =
			ndup ? lookup_here(&search, "strndup") : (void *)found->duplicate_most;

		found->avoids_duplicate = of_libc != (void *)found->duplicate;
		found->avoids_duplicate_most = most_of_libc != (void *)found->duplicate_most;
		*(void **)&found->duplicate = of_libc;
		*(void **)&found->duplicate_most = most_of_libc;
		return;
	}
}

static void look_up(struct next *found)
{
	struct lookup_search search = lookup_behind_us();

	while (lookup_next_object(&search)) {
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
			void **at = (void **)(void *)((char *)found + wanted[i].at);

			if (*at == NULL)
				*at = lookup_here(&search, wanted[i].name);
		}
	}
	found->usable = found->malloc_usable_size;
	avoid_copies_of_allocator(found);
	find_previous(found);
	check_usable(found);
}

/* Unexports those of our names that nobody else defines, and those that without us lead where ours do. */
static void unexport_others(void)
{
	/* Missing in some version of musl; forwarded to under another name. glibc's cfree is there, but not found. */
	static const char of_glibc[][16] = { "cfree",  "pvalloc",     "reallocarray",
					     "mmap64", "setrlimit64", "prlimit64" };
	static bool done;

	if (__atomic_exchange_n(&done, true, __ATOMIC_RELAXED))
		return;
	unexport_begin();
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (*(void **)(void *)((char *)&next + wanted[i].at) == NULL)
			unexport(wanted[i].name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(of_glibc) && libc_is_musl(); i++) {
		if (lookup_next(of_glibc[i]) == NULL)
			unexport(of_glibc[i]);
	}
	if (!next.avoids_duplicate)
		unexport("strdup");
	if (!next.avoids_duplicate_most)
		unexport("strndup");
	operators_unexport();
	unexport_end();
}

/* The one case where we cannot pass through: a program linked with us and without ld.so (-static). Its libc's malloc shares an
 * object file with functions that libc needs, so ours cannot both replace it and call it. There is no allocator, and no program to
 * harm. */
static COLD void give_up(void)
{
	static const char why[] =
		"heapgauge: this program is linked statically (-static), so the recorder in it finds no "
		"allocator to call: link it dynamically, or without libheapgauge.a\n";

	sys_call3(SYS_write, 2, (long)why, sizeof why - 1);
	for (;;)
		sys_call3(SYS_exit_group, 127, 0, 0);
}

/* True if another recorder comes after us, e.g. if heapgauge record starts a program that has one linked in: one is enough, and the
 * collector knows that one better. Only recorders, libc and sanitizer runtimes define both symbols. */
static bool is_recorder_behind(const struct next *found)
{
	return modules_same((void *)found->confstr, (void *)found->malloc) &&
	       !modules_same((void *)found->confstr, lookup_next(LIBC_FUNCTION)) &&
	       !modules_same((void *)found->confstr, lookup_next("__sanitizer_set_death_callback"));
}

COLD void next_find(void)
{
	struct next found = { .usable_in_header = next.usable_in_header };

	modules_find_loader();
	look_up(&found);
	if (found.malloc == NULL)
		give_up();
	found.is_recorder = is_recorder_behind(&found);
	composed_replace(&found, lookup_next(LIBC_FUNCTION));
	next = found;
	operators_look_up();
	allocator_look_up();
	__atomic_store_n(&next_is_found, true, __ATOMIC_RELEASE);
	unexport_others();
}
