/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -std=c99 -D_GNU_SOURCE -pedantic -pthread */
/* Scopes: a block belongs to the stack and to the tags that were entered when it was allocated, whoever frees it. Prints
 * "TAG path visits calls bytes frees freed" of each path, which tests/e2e/modes/test_tags.py compares with the view tags. */
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "target.h"

enum { ROUNDS = 100, PATHS = 64 };

static struct {
	const char *path;
	uint64_t visits, calls, bytes, frees, freed;
} truth[PATHS];

static int number(const char *path)
{
	for (int i = 0; i < PATHS; i++) {
		if (truth[i].path == NULL)
			truth[i].path = path;
		if (strcmp(truth[i].path, path) == 0)
			return i;
	}
	_exit(96);
}

static struct truth own = TRUTH(take);

NOINLINE static char *take(const char *path, size_t bytes)
{
	char *block = malloc(bytes);
	int i = number(path);

	KEEP(block);
	truth[i].calls++;
	truth[i].bytes += bytes;
	truth_take(&own, bytes);
	return block;
}

NOINLINE static void drop(const char *path, char *block, size_t bytes)
{
	int i = number(path);

	truth[i].frees++;
	truth[i].freed += bytes;
	truth_drop(&own, bytes);
	free(block);
}

static void visit(const char *path)
{
	truth[number(path)].visits++;
}

/* Nested, and freed where another tag is entered. */
NOINLINE static void nested(void)
{
	char *outer, *inner;
	{
		HG_SCOPE("server");
		visit("server");
		outer = take("server", 100);
		{
			HG_SCOPE("parser");
			visit("server/parser");
			inner = take("server/parser", 30);
			drop("server", outer, 100);
		}
		outer = take("server", 7);
	}
	HG_SCOPE("parser");
	visit("parser");
	drop("server/parser", inner, 30);
	drop("server", outer, 7);
	drop("parser", take("parser", 1), 1);
}

/* A scope that is entered inside itself is one. */
NOINLINE static void recursive(int depth)
{
	HG_SCOPE("walk");
	visit("walk");
	char *block = take("walk", 16);

	if (depth > 0)
		recursive(depth - 1);
	drop("walk", block, 16);
}

NOINLINE static void computed(int n)
{
	char name[32];

	snprintf(name, sizeof name, "request %d", n);
	HG_SCOPE_NAME(name);
	static const char *const paths[3] = { "request 0", "request 1", "request 2" };

	memset(name, 'x', sizeof name); /* it was copied */
	visit(paths[n]);
	drop(paths[n], take(paths[n], 50), 50);
}

/* Longjmp out of two scopes, to where one is still entered, and to where none is. */
static jmp_buf back;

NOINLINE static void leap_inside(void)
{
	HG_SCOPE("inside");
	visit("jump/deep/inside");
	drop("jump/deep/inside", take("jump/deep/inside", 5), 5);
	longjmp(back, 1);
}

NOINLINE static void leap(void)
{
	HG_SCOPE("deep");
	visit("jump/deep");
	leap_inside();
}

NOINLINE static void jumping(void)
{
	HG_SCOPE("jump");
	visit("jump");
	if (setjmp(back) == 0)
		leap();
	drop("jump", take("jump", 11), 11);
	HG_SCOPE("again");
	visit("jump/again");
	drop("jump/again", take("jump/again", 12), 12);
}

/* Calls in pairs, across functions. */
static struct hg_scope phase;

NOINLINE static void begin_phase(void)
{
	static struct hg_tag tag = { "phase", 0 };

	phase = hg_enter(&tag);
	visit("phase");
}

NOINLINE static void phases(void)
{
	begin_phase();
	drop("phase", take("phase", 21), 21);
	hg_leave(phase);
}

/* Mappings too; told of by their kind. */
static struct truth mapped = TRUTH_MMAP(map_some);

NOINLINE static void map_some(void)
{
	HG_SCOPE("mapping");
	visit("mapping");
	void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	truth_take(&mapped, 8192);
	munmap(at, 8192);
	truth_drop(&mapped, 8192);
}

static char *from_thread;

static void *thread(void *unused)
{
	(void)unused;
	HG_SCOPE("thread");
	visit("thread");
	from_thread = take("thread", 33);
	return NULL;
}

static void cross_thread(void)
{
	pthread_t id;
	HG_SCOPE("joiner"); /* not the thread's */

	visit("joiner");
	CHECK(pthread_create(&id, NULL, thread, NULL) == 0);
	CHECK(pthread_join(id, NULL) == 0);
	drop("thread", from_thread, 33);
}

/* A block that grows belongs to where it grew last. */
NOINLINE static char *grow(char *block, size_t before, size_t after, const char *from,
			   const char *to)
{
	char *moved = realloc(block, after);

	KEEP(moved);
	truth[number(from)].frees++;
	truth[number(from)].freed += before;
	truth[number(to)].calls++;
	truth[number(to)].bytes += after;
	return moved;
}

static void growing(void)
{
	char *block;
	{
		HG_SCOPE("make");
		visit("make");
		block = take("make", 40);
	}
	HG_SCOPE("grow");
	visit("grow");
	truth_drop(&own, 40);
	block = grow(block, 40, 4000, "make", "grow");
	truth[number("grow")].frees++;
	truth[number("grow")].freed += 4000;
	free(block);
}

int main(void)
{
	char *leaked;

	for (int i = 0; i < ROUNDS; i++) {
		nested();
		recursive(5);
		computed(i % 3);
		jumping();
		phases();
	}
	map_some();
	cross_thread();
	growing();
	{
		HG_SCOPE("leaky");
		visit("leaky");
		leaked = take("leaky", 1000);
		KEEP(leaked);
	}
	CHECK(errno == 0);
	say("recorded or not, the same\n");
	for (int i = 0; i < PATHS && truth[i].path != NULL; i++)
		say("TAG %s|%lu|%lu|%lu|%lu|%lu\n", truth[i].path, (unsigned long)truth[i].visits,
		    (unsigned long)truth[i].calls, (unsigned long)truth[i].bytes,
		    (unsigned long)truth[i].frees, (unsigned long)truth[i].freed);
	truth_print(&own, "");
	truth_print(&mapped, "");
	return 0;
}
