/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -pthread */
/* Blocks that are held in every way there is, and lost in every way. Prints the truth by function and class, then waits for its input to
 * end, so that an image can be taken. Pointers to lost blocks are hidden by XOR before they are forgotten. */
#include <pthread.h>
#include <sys/mman.h>

#include "../target.h"

#define HELD(function, class, blocks, bytes)                                                       \
	say("TRUTH site=%s class=%s blocks=%d bytes=%d\n", #function, #class, blocks, bytes)

enum { HIDE = 0x5a5a5a5a };

struct node {
	struct node *left, *right;
	char payload[48];
};

static struct node *volatile tree;
static void *volatile interior;
static void **volatile table;
static volatile uintptr_t hidden[8];
static __thread void *volatile own;

/* Overwrites what earlier calls left on the stack. */
static NOINLINE void scrub(void)
{
	volatile char old[16 << 10];

	for (size_t i = 0; i < sizeof old; i++)
		old[i] = 0;
}

static NOINLINE struct node *grow_tree(int depth)
{
	struct node *node = calloc(1, sizeof *node);

	KEEP(node);
	if (depth > 1) {
		node->left = grow_tree(depth - 1);
		node->right = grow_tree(depth - 1);
	}
	return node;
}

static NOINLINE void point_inside(void)
{
	char *block = malloc(1000);

	KEEP(block);
	interior = block + 512;
}

static NOINLINE void make_table(void)
{
	table = calloc(100, sizeof *table);
	for (int i = 0; i < 100; i++) {
		table[i] = malloc(24);
		KEEP(table[i]);
	}
}

static NOINLINE void hide_pointer(void)
{
	char *block = malloc(3000);

	KEEP(block);
	hidden[0] = (uintptr_t)block ^ HIDE;
}

/* A ring of four nodes, one of which holds a further block. */
static NOINLINE void lose_ring(void)
{
	struct node *nodes[4];

	for (int i = 0; i < 4; i++) {
		nodes[i] = calloc(1, sizeof **nodes);
		KEEP(nodes[i]);
	}
	for (int i = 0; i < 4; i++)
		nodes[i]->left = nodes[(i + 1) % 4];
	hidden[1] = (uintptr_t)nodes[0] ^ HIDE;
	memset(nodes, 0, sizeof nodes);
}

static NOINLINE void hang_on_ring(void)
{
	struct node *node = (struct node *)(hidden[1] ^ HIDE);

	node->right = calloc(1, sizeof *node);
	KEEP(node->right);
	node = NULL;
	KEEP(node);
}

static NOINLINE void lose_list(void)
{
	struct node *head = NULL;

	for (int i = 0; i < 10; i++) {
		struct node *node = calloc(1, sizeof *node);

		KEEP(node);
		node->left = head;
		head = node;
	}
	hidden[2] = (uintptr_t)head ^ HIDE;
}

/* It refers to itself, and to a block that is held by another. */
static NOINLINE void lose_selfish(void)
{
	struct node *node = calloc(1, sizeof *node);

	KEEP(node);
	node->left = node;
	node->right = tree;
	hidden[3] = (uintptr_t)node ^ HIDE;
}

static NOINLINE void keep_in_mapping(void)
{
	void **page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	page[100] = malloc(700);
	KEEP(page[100]);
}

static NOINLINE void keep_by_thread(void)
{
	own = malloc(333);
}

static NOINLINE void *on_stack(void)
{
	void *block = malloc(5555);

	KEEP(block);
	return block;
}

static NOINLINE void *on_other_stack(void)
{
	void *block = malloc(6666);

	KEEP(block);
	return block;
}

static NOINLINE void *by_other_thread(void)
{
	void *block = malloc(222);

	KEEP(block);
	return block;
}

static pthread_barrier_t ready;

static void *other_thread(void *argument)
{
	void *volatile mine = on_other_stack();

	(void)argument;
	own = by_other_thread();
	scrub();
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
	free(mine);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	char byte;

	tree = grow_tree(5);
	point_inside();
	make_table();
	hide_pointer();
	lose_ring();
	hang_on_ring();
	lose_list();
	lose_selfish();
	keep_in_mapping();
	keep_by_thread();
	pthread_barrier_init(&ready, NULL, 2);
	CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
	pthread_barrier_wait(&ready);
	void *volatile here = on_stack();

	scrub();
	HELD(grow_tree, global, 31, 31 * 64);
	HELD(point_inside, global, 1, 1000);
	HELD(make_table, global, 101, 800 + 2400);
	HELD(hide_pointer, direct, 1, 3000);
	HELD(lose_ring, ring, 4, 4 * 64);
	HELD(hang_on_ring, indirect, 1, 64);
	HELD(lose_list, direct, 1, 64);
	HELD(lose_list, indirect, 9, 9 * 64);
	HELD(lose_selfish, direct, 1, 64);
	HELD(keep_in_mapping, unknown, 1, 700);
	HELD(keep_by_thread, tls, 1, 333);
	HELD(by_other_thread, tls, 1, 222);
	HELD(on_stack, stack, 1, 5555);
	HELD(on_other_stack, stack, 1, 6666);
	say("TRUTH held site=grow_tree by=tree\n");
	say("TRUTH held site=make_table by=table\n");
	say("TRUTH held site=point_inside by=interior\n");
	say("ready\n");
	while (read(0, &byte, 1) > 0)
		;
	free(here);
	return 0;
}
