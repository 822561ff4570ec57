/* SPDX-License-Identifier: Apache-2.0 */
/* A memcached-like store: slabs of 16 KiB in three size classes, an LRU list in each, a limit on the number of slabs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLASSES = 3, SLAB_BYTES = 16384, SLABS_PER_CLASS = 100, BUCKETS = 16384 };

struct item {
	struct item *newer, *older, *chain;
	uint64_t key;
	uint32_t length;
	uint8_t class_index;
	unsigned char data[];
};

struct size_class {
	size_t chunk;
	size_t slabs;
	struct item *free_items;
	struct item *newest, *oldest;
};

static struct size_class classes[CLASSES] = { { .chunk = 128 },
					      { .chunk = 512 },
					      { .chunk = 2048 } };
static struct item **buckets;
static uint64_t state = 1;

static uint64_t random_number(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return state >> 24;
}

static double time_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void lru_unlink(struct size_class *class, struct item *item)
{
	*(item->newer ? &item->newer->older : &class->newest) = item->older;
	*(item->older ? &item->older->newer : &class->oldest) = item->newer;
}

static void lru_push(struct size_class *class, struct item *item)
{
	item->newer = NULL;
	item->older = class->newest;
	*(class->newest ? &class->newest->newer : &class->oldest) = item;
	class->newest = item;
}

static struct item **bucket_of(uint64_t key)
{
	return &buckets[(key * 0x9E3779B97F4A7C15ull) >> 50];
}

static void hash_remove(struct item *item)
{
	struct item **link = bucket_of(item->key);
	while (*link != item)
		link = &(*link)->chain;
	*link = item->chain;
}

static __attribute__((noinline)) void add_slab(struct size_class *class)
{
	char *slab = malloc(SLAB_BYTES);
	if (!slab)
		abort();
	class->slabs++;
	for (size_t at = 0; at + class->chunk <= SLAB_BYTES; at += class->chunk) {
		struct item *item = (struct item *)(slab + at);
		item->chain = class->free_items;
		class->free_items = item;
	}
}

static __attribute__((noinline)) struct item *take_item(struct size_class *class)
{
	if (!class->free_items && class->slabs < SLABS_PER_CLASS)
		add_slab(class);
	struct item *item = class->free_items;
	if (item) {
		class->free_items = item->chain;
		return item;
	}
	item = class->oldest;
	lru_unlink(class, item);
	hash_remove(item);
	return item;
}

static struct item *lookup(uint64_t key)
{
	struct item *item = *bucket_of(key);
	while (item && item->key != key)
		item = item->chain;
	return item;
}

static __attribute__((noinline)) void store(uint64_t key, uint32_t length)
{
	if (lookup(key))
		return;
	int index = length <= 80 ? 0 : length <= 460 ? 1 : 2;
	struct item *item = take_item(&classes[index]);
	item->key = key;
	item->length = length;
	item->class_index = (uint8_t)index;
	memset(item->data, (int)key, length);
	item->chain = *bucket_of(key);
	*bucket_of(key) = item;
	lru_push(&classes[index], item);
}

static __attribute__((noinline)) unsigned answer_get(uint64_t key)
{
	struct item *item = lookup(key);
	if (!item)
		return 0;
	struct size_class *class = &classes[item->class_index];
	lru_unlink(class, item);
	lru_push(class, item);
	unsigned char *reply = malloc(item->length + 32u);
	memcpy(reply, item->data, item->length);
	unsigned first = reply[0];
	free(reply);
	return first;
}

static uint32_t length_for(uint64_t key)
{
	static const uint32_t lengths[] = { 40, 70, 75, 300, 450, 1500 };
	return lengths[key % 6];
}

int main(int argc, char **argv)
{
	double end = time_now() + (argc > 1 ? atof(argv[1]) : 4.0);
	unsigned sum = 0;
	buckets = calloc(BUCKETS, sizeof *buckets);
	for (uint64_t key = 0; key < 40000; key++)
		store(key, length_for(key));
	while (time_now() < end) {
		for (int i = 0; i < 400; i++) {
			uint64_t key = random_number() % 100000;
			sum += answer_get(key);
			store(key, length_for(key));
		}
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
	return sum == 0xffffffffu;
}
