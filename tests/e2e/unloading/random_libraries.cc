/* SPDX-License-Identifier: Apache-2.0 */
/* random_libraries SEED THREADS OPERATIONS LIBRARIES MODES: threads open, call and close libraries at random, also on coroutines, with
 * exceptions and recursion. If MODES is 1, they also change the recording mode. Prints the number of blocks that each library has
 * allocated, and their size. With -DNAME this file is such a library. */
#include <cstddef>
#include <cstdlib>

static constexpr std::size_t size_of(int library)
{
	return 5000 + 64 * (std::size_t)library;
}

#ifdef NAME
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define INNER JOIN(NAME, _inner)
#define OUTER JOIN(NAME, _outer)
#ifdef FILL
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
__asm__(".text\n.fill " TEXT(FILL) ", 1, 0x90\n");
#endif

extern "C" __attribute__((noipa, aligned(256))) void INNER(std::size_t bytes, bool throws)
{
	volatile char room[ROOM];

	room[bytes & 15] = 1;
	void *volatile block = malloc(bytes);
	free(block);
	if (throws)
		throw 1;
}

/* Allocates depth + 1 blocks. */
extern "C" __attribute__((noipa, aligned(256))) void OUTER(std::size_t bytes, int depth,
							   bool throws)
{
	if (depth > 0)
		OUTER(bytes, depth - 1, throws);
	try {
		INNER(bytes, throws);
	} catch (int) {
	}
}
#else
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <ucontext.h>

enum {
	THREADS_MAX = 16,
	LIBRARIES_MAX = 16,
	DEPTH_MAX = 20,
	SMALLEST_STACK = 64 << 10,
	LARGEST_STACK = 512 << 10
};

static unsigned long seed, operations;
static int libraries;
static bool changes_modes;
static unsigned long allocated[LIBRARIES_MAX];

typedef void outer_function(std::size_t bytes, int depth, bool throws);

/* A call of a library, perhaps on a coroutine. */
struct call {
	outer_function *outer;
	int library, depth;
	bool throws;
};

struct worker {
	uint64_t random;
	void *handle[LIBRARIES_MAX];
	struct call call;
	ucontext_t home, coroutine;
};
static struct worker workers[THREADS_MAX];

static unsigned draw(struct worker *worker, unsigned count)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return (unsigned)(worker->random >> 32) % count;
}

static void open_library(struct worker *worker, int library)
{
	char path[64];

	snprintf(path, sizeof path, "./library%d.so", library);
	worker->handle[library] = dlopen(path, draw(worker, 2) ? RTLD_NOW : RTLD_LAZY);
	if (worker->handle[library] == NULL) {
		puts(dlerror());
		exit(2);
	}
}

static void close_library(struct worker *worker, int library)
{
	dlclose(worker->handle[library]);
	worker->handle[library] = NULL;
}

__attribute__((noipa)) static void perform(struct worker *worker)
{
	const struct call *call = &worker->call;

	call->outer(size_of(call->library), call->depth, call->throws);
	__atomic_fetch_add(&allocated[call->library], (unsigned long)call->depth + 1,
			   __ATOMIC_RELAXED);
}

static void enter_coroutine(unsigned high, unsigned low)
{
	perform((struct worker *)(((uintptr_t)high << 32) | low));
}

static void perform_on_coroutine(struct worker *worker)
{
	std::size_t bytes = SMALLEST_STACK + draw(worker, LARGEST_STACK - SMALLEST_STACK);
	char *stack = (char *)malloc(bytes);

	getcontext(&worker->coroutine);
	worker->coroutine.uc_stack.ss_sp = stack;
	worker->coroutine.uc_stack.ss_size = bytes;
	worker->coroutine.uc_link = &worker->home;
	makecontext(&worker->coroutine, (void (*)())enter_coroutine, 2,
		    (unsigned)((uintptr_t)worker >> 32), (unsigned)(uintptr_t)worker);
	swapcontext(&worker->home, &worker->coroutine);
	free(draw(worker, 2) ? stack : realloc(stack, bytes / 4));
}

static void call_library(struct worker *worker, int library)
{
	char name[64];

	snprintf(name, sizeof name, "library%d_outer", library);
	worker->call = (struct call){ (outer_function *)dlsym(worker->handle[library], name),
				      library, (int)draw(worker, DEPTH_MAX), draw(worker, 3) == 0 };
	if (draw(worker, 4) == 0)
		perform_on_coroutine(worker);
	else
		perform(worker);
}

static void change_mode(struct worker *worker)
{
	static const enum hg_mode modes[] = { HG_DORMANT, HG_SAMPLE, HG_EXACT };

	hg_mode(modes[draw(worker, 3)]);
}

static void operate(struct worker *worker)
{
	int library = (int)draw(worker, (unsigned)libraries);

	if (worker->handle[library] == NULL)
		open_library(worker, library);
	else if (draw(worker, 3) == 0)
		close_library(worker, library);
	else
		call_library(worker, library);
	if (changes_modes && draw(worker, 20) == 0)
		change_mode(worker);
}

static void *work(void *argument)
{
	struct worker *worker = (struct worker *)argument;

	for (unsigned long i = 0; i < operations; i++)
		operate(worker);
	return NULL;
}

int main(int, char **arguments)
{
	pthread_t threads[THREADS_MAX];
	int count = atoi(arguments[2]);

	seed = strtoul(arguments[1], NULL, 10);
	operations = strtoul(arguments[3], NULL, 10);
	libraries = atoi(arguments[4]);
	changes_modes = atoi(arguments[5]) != 0;
	for (int i = 0; i < count; i++) {
		workers[i].random =
			(seed * THREADS_MAX + (unsigned long)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < libraries; i++)
		printf("library%d %lu %zu\n", i, allocated[i], size_of(i));
	return 0;
}
#endif
