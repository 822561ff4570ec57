/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations of every kind from several threads, and a model of what a recorder must say of them: arguments SEED and the
 * number of operations of each thread. The model is a few arrays under one lock, which is all that there is to it. Each process
 * prints at its end, for tests/e2e/recorder/test_random.py,
 *
 *   NUMBERS pid kind function tag pool calls bytes frees freed_bytes    function -: counted without a stack
 *   THREAD pid name calls bytes                                         heap blocks that the thread took
 *   MOMENT pid snapshot kind function tag pool bytes blocks             what was live then
 *
 * and nothing of what it does depends on the recorder. Sampled blocks are at least as large as the interval, so that each
 * stands for itself. */
#include "target.h"
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
	THREADS = 4,
	ROUNDS = 6,
	BLOCKS = 2000,
	MAPS = 64,
	POOLS = 3,
	POOL_BLOCKS = 200,
	INTERVAL = 4096, /* as test_random.py says */
	PAGE = 4096,
	CHILD_OPERATIONS = 300,
};

enum kind { HEAP, MMAP, POOL, KINDS };
static const char *const kind_names[] = { "heap", "mmap", "pool" };

/* ---- functions that stacks end in ---- */

enum site {
	TAKE_A,
	TAKE_B,
	TAKE_ZEROED,
	TAKE_ALIGNED,
	GROW,
	MAP,
	REMAP,
	ADD,
	RESIZE,
	NO_STACK,
	SITES
};
static const char *const site_names[] = { "take_a", "take_b", "take_zeroed", "take_aligned", "grow",
					  "map",    "remap",  "add",	     "resize",	     "-" };

static NOINLINE void *take_a(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void *take_b(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void *take_zeroed(size_t n)
{
	void *p = calloc(1, n);
	KEEP(p);
	return p;
}

static NOINLINE void *take_aligned(size_t n)
{
	void *p = NULL;
	CHECK(posix_memalign(&p, 64, n) == 0);
	KEEP(p);
	return p;
}

static NOINLINE void *grow(void *old, size_t n)
{
	void *p = realloc(old, n);
	KEEP(p);
	return p;
}

static NOINLINE void *map(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	return p;
}

static NOINLINE void *remap(void *old, size_t n, size_t more)
{
	void *p = mremap(old, n, more, MREMAP_MAYMOVE);
	KEEP(p);
	return p;
}

static NOINLINE void add(hg_pool pool, void *at, size_t n)
{
	hg_pool_alloc(pool, at, n);
	KEEP(at);
}

static NOINLINE void resize(hg_pool pool, void *at, size_t n)
{
	hg_pool_resize(pool, at, at, n);
	KEEP(at);
}

/* ---- the model, under one lock ---- */

enum { NAMES = 3, TAGS = 1 + NAMES + NAMES * NAMES }; /* none, one scope, one in another */
static const char *const names[] = { "red", "green", "blue" };

struct numbers {
	uint64_t calls, bytes, frees, freed_bytes;
};
static struct numbers model[KINDS][SITES][TAGS][POOLS];
static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER;

/* What is known of a block that the program has. */
struct block {
	char *at;
	size_t size;
	enum kind kind;
	enum site site;
	uint8_t tag, pool;
	bool recorded;
};
static struct block blocks[BLOCKS], maps[MAPS], pooled[POOLS][POOL_BLOCKS];
static char arena[POOLS][POOL_BLOCKS][16];
static hg_pool pools[POOLS];

/* Operations have the mode to themselves together; who changes it, alone. */
static pthread_rwlock_t mode_lock = PTHREAD_RWLOCK_INITIALIZER;
static enum hg_mode mode = HG_EXACT;
static unsigned mode_changes;

struct worker {
	uint32_t seed;
	char name[16];
	struct hg_scope scope[2];
	int depth, outer, inner;
	bool stopped;
	unsigned mode_seen;
	uint64_t calls, bytes;
};

static int tag_of(const struct worker *w)
{
	if (w->depth == 0)
		return 0;
	/* a scope inside itself is the same */
	return w->depth == 1 || w->inner == w->outer ? 1 + w->outer
						     : 1 + NAMES + w->outer * NAMES + w->inner;
}

static struct numbers *numbers_of(const struct block *block)
{
	return &model[block->kind][block->site][block->tag][block->pool];
}

static bool is_recorded(const struct worker *w)
{
	return mode != HG_DORMANT && !w->stopped;
}

static struct block new_block(struct worker *w, enum kind kind, enum site site, char *at,
			      size_t size, int pool)
{
	struct block block = { at,
			       size,
			       kind,
			       mode == HG_TAGS ? NO_STACK : site,
			       (uint8_t)tag_of(w),
			       (uint8_t)pool,
			       is_recorded(w) };

	CHECK(at != NULL && at != MAP_FAILED);
	pthread_mutex_lock(&model_lock);
	if (block.recorded) {
		numbers_of(&block)->calls++;
		numbers_of(&block)->bytes += size;
	}
	pthread_mutex_unlock(&model_lock);
	if (block.recorded && kind == HEAP) {
		w->calls++;
		w->bytes += size;
	}
	return block;
}

static void end_block(const struct block *block)
{
	pthread_mutex_lock(&model_lock);
	if (block->recorded) {
		numbers_of(block)->frees++;
		numbers_of(block)->freed_bytes += block->size;
	}
	pthread_mutex_unlock(&model_lock);
}

/* Takes whatever is in a place and leaves it empty. */
static struct block take_out(struct block *place)
{
	pthread_mutex_lock(&model_lock);
	struct block block = *place;

	*place = (struct block){ 0 };
	pthread_mutex_unlock(&model_lock);
	return block;
}

/* Puts a block into a place; if it is not empty any more, into none. */
static bool put_in(struct block *place, const struct block *block)
{
	pthread_mutex_lock(&model_lock);
	bool empty = place->at == NULL;

	if (empty)
		*place = *block;
	pthread_mutex_unlock(&model_lock);
	return empty;
}

/* ---- operations ---- */

static size_t some_size(struct worker *w)
{
	uint32_t r = next_random(&w->seed);
	size_t least = mode == HG_SAMPLE ? INTERVAL : 0;

	if (r % 16 == 0)
		return least + r / 16 % 300000;
	if (r % 4 == 0)
		return least + r / 16 % 9000;
	return least + r / 16 % 500;
}

static struct block take(struct worker *w)
{
	size_t size = some_size(w);

	switch (next_random(&w->seed) % 5) {
	case 0:
		return new_block(w, HEAP, TAKE_B, take_b(size), size, 0);
	case 1:
		return new_block(w, HEAP, TAKE_ZEROED, take_zeroed(size), size, 0);
	case 2:
		return new_block(w, HEAP, TAKE_ALIGNED, take_aligned(size), size, 0);
	default:
		return new_block(w, HEAP, TAKE_A, take_a(size), size, 0);
	}
}

static void drop(const struct block *block)
{
	if (block->at == NULL)
		return;
	end_block(block);
	free(block->at);
}

/* The place of some block: taken, freed or grown, as it comes. Anybody may have filled it. */
static void change_block(struct worker *w)
{
	struct block *place = &blocks[next_random(&w->seed) % BLOCKS];
	struct block block = take_out(place);

	if (block.at == NULL) {
		block = take(w);
	} else if (next_random(&w->seed) % 4 == 0) {
		size_t size = some_size(w) + 1;
		char *at = grow(block.at, size);

		end_block(&block);
		block = new_block(w, HEAP, GROW, at, size, 0);
	} else {
		drop(&block);
		return;
	}
	if (!put_in(place, &block))
		drop(&block);
}

/* mremap of what is not known leaves it so. */
static void change_map(struct worker *w)
{
	struct block *place = &maps[next_random(&w->seed) % MAPS];
	struct block block = take_out(place);
	size_t size = (1 + next_random(&w->seed) % 20) * PAGE;

	if (block.at == NULL) {
		block = new_block(w, MMAP, MAP, map(size), size, 0);
	} else if (next_random(&w->seed) % 3 == 0) {
		bool known = block.recorded;
		char *at = remap(block.at, block.size, size);

		end_block(&block);
		if (known) {
			block = new_block(w, MMAP, REMAP, at, size, 0);
		} else {
			block.at = at;
			block.size = size;
		}
	} else {
		end_block(&block);
		CHECK(munmap(block.at, block.size) == 0);
		return;
	}
	if (!put_in(place, &block)) {
		end_block(&block);
		munmap(block.at, block.size);
	}
}

/* An address belongs to one place, so it cannot be anybody else's meanwhile: the place is kept busy. */
static void change_pool(struct worker *w)
{
	int pool = (int)(next_random(&w->seed) % POOLS),
	    n = (int)(next_random(&w->seed) % POOL_BLOCKS);
	static bool busy[POOLS][POOL_BLOCKS];
	size_t size = some_size(w);

	if (__atomic_exchange_n(&busy[pool][n], true, __ATOMIC_ACQUIRE))
		return;
	struct block block = pooled[pool][n];

	if (block.at == NULL) {
		add(pools[pool], arena[pool][n], size);
		pooled[pool][n] = new_block(w, POOL, ADD, arena[pool][n], size, pool);
	} else if (size % 3 == 0) {
		resize(pools[pool], block.at, size);
		end_block(&block);
		pooled[pool][n] = new_block(w, POOL, RESIZE, block.at, size, pool);
	} else {
		end_block(&block);
		hg_pool_free(pools[pool], block.at);
		pooled[pool][n] = (struct block){ 0 };
	}
	__atomic_store_n(&busy[pool][n], false, __ATOMIC_RELEASE);
}

static void change_scope(struct worker *w)
{
	uint32_t r = next_random(&w->seed);
	int name = (int)(r / 4 % NAMES);

	if (w->depth == 0 || (w->depth == 1 && r % 2)) {
		*(w->depth == 0 ? &w->outer : &w->inner) = name;
		w->scope[w->depth++] = hg_enter_name(names[name]);
	} else {
		hg_leave(w->scope[--w->depth]);
	}
}

static void change_stopped(struct worker *w)
{
	w->stopped = !w->stopped;
	if (w->stopped)
		hg_stop(HG_THREAD);
	else
		hg_start(HG_THREAD);
}

static void change_mode(struct worker *w)
{
	static const enum hg_mode modes[] = { HG_EXACT, HG_EXACT, HG_TAGS, HG_SAMPLE, HG_DORMANT };

	pthread_rwlock_wrlock(&mode_lock);
	mode = modes[next_random(&w->seed) % 5];
	mode_changes++;
	hg_mode(mode);
	pthread_rwlock_unlock(&mode_lock);
}

static void fork_child(struct worker *w);

static void operate(struct worker *w, long count)
{
	for (long i = 0; i < count; i++) {
		uint32_t what = next_random(&w->seed) % 4000;

		pthread_rwlock_rdlock(&mode_lock);
		if (w->mode_seen != mode_changes && !w->stopped)
			hg_start(
				HG_THREAD); /* else it looks at the mode when it next comes to it */
		w->mode_seen = mode_changes;
		if (what < 2800)
			change_block(w);
		else if (what < 3000)
			change_map(w);
		else if (what < 3600)
			change_pool(w);
		else if (what < 3980)
			change_scope(w);
		else if (what < 3990)
			change_stopped(w);
		else if (what < 3996)
			fork_child(w);
		pthread_rwlock_unlock(&mode_lock);
		if (what >= 3996)
			change_mode(w);
	}
}

/* ---- what is told ---- */

static void tag_name(char *ret, size_t room, int tag)
{
	if (tag == 0)
		snprintf(ret, room, "-");
	else if (tag <= NAMES)
		snprintf(ret, room, "%s", names[tag - 1]);
	else
		snprintf(ret, room, "%s/%s", names[(tag - 1 - NAMES) / NAMES],
			 names[(tag - 1 - NAMES) % NAMES]);
}

/* Each of the model's numbers; moment: NULL, or the name of a snapshot. */
static void tell(const char *moment)
{
	char tag[32], pool[16];

	for (int i = 0; i < KINDS * SITES * TAGS * POOLS; i++) {
		const struct numbers *n = &((const struct numbers *)model)[i];
		int kind = i / POOLS / TAGS / SITES;

		if (n->calls == 0)
			continue;
		tag_name(tag, sizeof tag, i / POOLS % TAGS);
		snprintf(pool, sizeof pool, kind == POOL ? "pool%d" : "-", i % POOLS);
		if (moment == NULL)
			say("NUMBERS %d %s %s %s %s %lu %lu %lu %lu\n", (int)getpid(),
			    kind_names[kind], site_names[i / POOLS / TAGS % SITES], tag, pool,
			    n->calls, n->bytes, n->frees, n->freed_bytes);
		else
			say("MOMENT %d %s %s %s %s %s %lu %lu\n", (int)getpid(), moment,
			    kind_names[kind], site_names[i / POOLS / TAGS % SITES], tag, pool,
			    n->bytes - n->freed_bytes, n->calls - n->frees);
	}
}

/* ---- processes ---- */

static void forget(struct block *block, size_t count)
{
	for (size_t i = 0; i < count; i++)
		block[i].recorded = false;
}

/* The child knows none of its parent's blocks. Nobody else holds the model's lock now. */
static void fork_child(struct worker *w)
{
	int status;

	pthread_mutex_lock(&model_lock);
	pid_t child = fork();

	pthread_mutex_unlock(&model_lock);
	CHECK(child >= 0);
	if (child > 0) {
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		return;
	}
	memset(model, 0, sizeof model);
	forget(blocks, BLOCKS);
	forget(maps, MAPS);
	forget(&pooled[0][0], POOLS * POOL_BLOCKS);
	for (int i = 0; i < CHILD_OPERATIONS; i++) {
		if (i % 8 == 0)
			change_map(w);
		else if (i % 4 == 0)
			change_scope(w);
		else
			change_block(w);
	}
	tell(NULL);
	_exit(0);
}

static long operations;

static void *work(void *arg)
{
	struct worker *w = arg;

	prctl(PR_SET_NAME, w->name);
	operate(w, operations);
	return NULL;
}

/* Threads come and go; between the rounds there is nobody but this one. */
static void run_round(struct worker *self, int round)
{
	struct worker w[THREADS];
	pthread_t thread[THREADS];
	char moment[32];

	hg_stop(HG_THREAD); /* what libc takes for a thread is not in the model */
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .seed = next_random(&self->seed),
					.mode_seen = mode_changes };
		snprintf(w[i].name, sizeof w[i].name, "w%d.%d", round, i);
		CHECK(pthread_create(&thread[i], NULL, work, &w[i]) == 0);
	}
	if (!self->stopped)
		hg_start(HG_THREAD);
	operate(self, operations);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(thread[i], NULL) == 0);
		say("THREAD %d %s %lu %lu\n", (int)getpid(), w[i].name, w[i].calls, w[i].bytes);
	}
	snprintf(moment, sizeof moment, "m%d.%d", (int)getpid(), round);
	hg_snapshot(moment);
	tell(moment);
}

int main(int argc, char **argv)
{
	struct worker self = { .seed = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) | 1 : 1 };

	hg_mode(mode); /* begins sampled, for the interval */
	operations = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
	for (int i = 0; i < POOLS; i++) {
		char name[16];

		snprintf(name, sizeof name, "pool%d", i);
		pools[i] = hg_pool_new(name);
	}
	for (int round = 0; round < ROUNDS; round++)
		run_round(&self, round);
	tell(NULL);
	return 0;
}
