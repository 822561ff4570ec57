/* SPDX-License-Identifier: Apache-2.0 */
/* A tiny script interpreter: interns all names of its library at the start, then runs scripts whose values are short-lived. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMES 18000
#define TABLE 8192

struct symbol {
	struct symbol *next;
	uint32_t hash;
	uint32_t slot;
	char name[];
};

struct value {
	size_t length;
	char *text;
};

struct stack {
	struct value *values;
	size_t depth, room;
};

static struct symbol *table[TABLE];
static uint64_t output;

static uint32_t hash_name(const char *name)
{
	uint32_t h = 2166136261u;
	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h;
}

__attribute__((noinline)) static struct symbol *intern(const char *name, uint32_t slot)
{
	uint32_t hash = hash_name(name);
	for (struct symbol *s = table[hash % TABLE]; s != NULL; s = s->next)
		if (s->hash == hash && strcmp(s->name, name) == 0)
			return s;
	size_t length = strlen(name);
	struct symbol *s = malloc(sizeof *s + length + 1);
	if (s == NULL)
		abort();
	s->hash = hash;
	s->slot = slot;
	memcpy(s->name, name, length + 1);
	s->next = table[hash % TABLE];
	table[hash % TABLE] = s;
	return s;
}

__attribute__((noinline)) static void push_text(struct stack *stack, const char *text,
						size_t length)
{
	if (stack->depth == stack->room) {
		stack->room = stack->room * 2 + 4;
		stack->values = realloc(stack->values, stack->room * sizeof *stack->values);
		if (stack->values == NULL)
			abort();
	}
	struct value v = { length, malloc(length + 1) };
	if (v.text == NULL)
		abort();
	memcpy(v.text, text, length);
	v.text[length] = '\0';
	stack->values[stack->depth++] = v;
}

__attribute__((noinline)) static void concat_top(struct stack *stack)
{
	struct value *b = &stack->values[--stack->depth], *a = &stack->values[stack->depth - 1];
	a->text = realloc(a->text, a->length + b->length + 1);
	if (a->text == NULL)
		abort();
	memcpy(a->text + a->length, b->text, b->length + 1);
	a->length += b->length;
	free(b->text);
}

__attribute__((noinline)) static void run_script(uint32_t seed)
{
	struct stack stack = { 0 };
	char name[40];
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t n = (seed * 7919u + i * 104729u) % NAMES;
		snprintf(name, sizeof name, "library.module%u.function%u", (unsigned)(n % 150),
			 (unsigned)n);
		struct symbol *s = intern(name, n);
		push_text(&stack, s->name, strlen(s->name));
	}
	while (stack.depth > 1)
		concat_top(&stack);
	output += stack.values[0].length;
	free(stack.values[0].text);
	free(stack.values);
}

int main(int argc, char **argv)
{
	struct timespec start, t;
	char name[40];
	double length = argc > 1 ? atof(argv[1]) : 4.0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (uint32_t n = 0; n < NAMES; n++) {
		snprintf(name, sizeof name, "library.module%u.function%u", (unsigned)(n % 150),
			 (unsigned)n);
		intern(name, n);
	}
	uint32_t scripts = 0;
	do {
		for (int i = 0; i < 6; i++)
			run_script(scripts++);
		nanosleep(&(struct timespec){ 0, 12000000 }, NULL);
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((double)(t.tv_sec - start.tv_sec) + (double)(t.tv_nsec - start.tv_nsec) * 1e-9 <
		 length);
	return output == 0;
}
