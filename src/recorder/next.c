/* SPDX-License-Identifier: Apache-2.0 */
/* Finding what to forward to, and the arena for requests that come before.
 *
 * Owns: `next` (written once), early_arena (append only: blocks freed there are not reused). Invariant: next_ready()
 * is true for good after the first success. Meanwhile a signal handler or another thread may come: it is served early. */
#include "recorder/next.h"

#include "recorder/allocator.h"
#include "recorder/lookup.h"
#include "recorder/modules.h"
#include "recorder/operators.h"
#include "recorder/withdraw.h"

struct next next;
char early_arena[EARLY_BYTES] __attribute__((aligned(4096)));
static size_t early_used;

enum { UNKNOWN, LOOKING, READY };
static int state;

void *next_or_withdraw(const char *name)
{
	void *found = lookup_next(name);

	if (found == NULL)
		withdraw(name);
	return found;
}

/* A block may be asked for its size only by the allocator that it came from: everything that hands out blocks, and the
 * malloc that libraries reach, must be of one object, or of ours. */
static void check_usable(void)
{
	const void *const makers[] = { (void *)next.malloc,   (void *)next.calloc,
				       (void *)next.realloc,  (void *)next.posix_memalign,
				       (void *)next.memalign, (void *)next.free };

	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		if (!modules_same((const void *)next.usable, makers[i]))
			next.usable = NULL;
	}
	if (next.other_malloc != NULL)
		next.usable = NULL; /* the operators hand out its blocks */
}

/* First what has no answer of its own before this is done. */
static void look_up(void)
{
	next.syscall = lookup_next("syscall");
	next.malloc = lookup_next("malloc");
	next.free = lookup_next("free");
	next.calloc = lookup_next("calloc");
	next.realloc = lookup_next("realloc");
	next.reallocarray = lookup_next("reallocarray");
	next.posix_memalign = lookup_next("posix_memalign");
	next.aligned_alloc = lookup_next("aligned_alloc");
	next.memalign = lookup_next("memalign");
	next.valloc = lookup_next("valloc");
	next.pvalloc = lookup_next("pvalloc");
	next.malloc_usable_size = lookup_next("malloc_usable_size");
	next.usable = next.malloc_usable_size;
	next.free_sized = next_or_withdraw("free_sized");
	next.free_aligned_sized = next_or_withdraw("free_aligned_sized");
	next.mmap = lookup_next("mmap");
	next.munmap = lookup_next("munmap");
	next.mremap = lookup_next("mremap");
	next.execve = lookup_next("execve");
	next.execvpe = lookup_next("execvpe");
	next.fexecve = lookup_next("fexecve");
	next.execveat = next_or_withdraw("execveat");
	next.posix_spawn = lookup_next("posix_spawn");
	next.posix_spawnp = lookup_next("posix_spawnp");
	next.system = lookup_next("system");
	next.popen = lookup_next("popen");
	next.prctl = lookup_next("prctl");
	next.mlockall = lookup_next("mlockall");
	next.setrlimit = lookup_next("setrlimit");
	next.prlimit = lookup_next("prlimit");
	next.other_malloc = lookup_first("malloc");
	if (modules_same(next.other_malloc, (void *)next_ready))
		next.other_malloc = NULL;
	check_usable();
}

COLD static bool find(void)
{
	int expected = UNKNOWN;

	if (!__atomic_compare_exchange_n(&state, &expected, LOOKING, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return expected == READY;
	modules_find_loader();
	withdraw_begin();
	look_up();
	operators_look_up();
	allocator_look_up();
	withdraw_end();
	__atomic_store_n(&state, READY, __ATOMIC_RELEASE);
	return true;
}

bool next_ready(void)
{
	return LIKELY(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == READY) || find();
}

/* A block's size stands in the 16 bytes before it. */
void *early_alloc(size_t size, size_t alignment)
{
	size_t align = MAX(alignment, (size_t)16);
	size_t used = __atomic_load_n(&early_used, __ATOMIC_RELAXED);
	size_t at;

	do {
		at = (used + 16 + align - 1) & ~(align - 1);
		if (size > EARLY_BYTES || at + size > EARLY_BYTES)
			return NULL;
	} while (!__atomic_compare_exchange_n(&early_used, &used, at + size, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	__builtin_memcpy(early_arena + at - sizeof size, &size, sizeof size);
	return early_arena + at;
}

size_t early_size(const void *block)
{
	size_t size;

	__builtin_memcpy(&size, (const char *)block - sizeof size, sizeof size);
	return size;
}
