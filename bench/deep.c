/* SPDX-License-Identifier: Apache-2.0 */
/* deep DOCUMENTS: a JSON-parser-like recursion of 200 frames that allocates, grows and frees at every level. */
#include "workload.h"

struct node {
	int n, cap;
	struct node **kids;
	char *key;
	size_t key_len;
};

static struct truth T;
static uint32_t seed = 0xC0FFEEu;

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_add(&T, n);
	return p;
}

static void push(struct node *parent, struct node *kid)
{
	if (parent->n == parent->cap) {
		size_t old = (size_t)parent->cap * sizeof *parent->kids;
		parent->cap = parent->cap ? parent->cap * 2 : 1;
		parent->kids = realloc(parent->kids, (size_t)parent->cap * sizeof *parent->kids);
		if (old)
			truth_sub(&T, old);
		truth_add(&T, (size_t)parent->cap * sizeof *parent->kids);
	}
	parent->kids[parent->n++] = kid;
}

static NOINLINE struct node *new_node(unsigned min_key, unsigned spread)
{
	struct node *node = take(sizeof *node);
	memset(node, 0, sizeof *node);
	if (spread) {
		node->key_len = min_key + next_random(&seed) % spread;
		node->key = take(node->key_len);
		node->key[0] = 1;
	}
	return node;
}

static NOINLINE struct node *parse_value(int depth);

static NOINLINE struct node *parse_object(int depth)
{
	struct node *object = new_node(8, 40);
	push(object, new_node(4, 28));
	struct node *kid = parse_value(depth - 1);
	KEEP(kid);
	if (kid)
		push(object, kid);
	return object;
}

static NOINLINE struct node *parse_array(int depth)
{
	struct node *array = new_node(0, 0);
	push(array, new_node(4, 28));
	struct node *kid = parse_value(depth - 1);
	KEEP(kid);
	if (kid)
		push(array, kid);
	push(array, new_node(4, 28));
	return array;
}

static NOINLINE struct node *parse_value(int depth)
{
	if (depth <= 0)
		return NULL;
	struct node *value = depth & 1 ? parse_object(depth) : parse_array(depth);
	KEEP(value);
	return value;
}

static NOINLINE void drop(struct node *node)
{
	for (int i = 0; i < node->n; i++)
		drop(node->kids[i]);
	if (node->kids) {
		free(node->kids);
		truth_sub(&T, (size_t)node->cap * sizeof *node->kids);
	}
	if (node->key) {
		free(node->key);
		truth_sub(&T, node->key_len);
	}
	free(node);
	truth_sub(&T, sizeof *node);
}

int main(int argc, char **argv)
{
	int documents = argc > 1 ? atoi(argv[1]) : 2000;
	for (int i = 0; i < documents; i++)
		drop(parse_value(100));
	truth_print("deep", &T);
	return 0;
}
