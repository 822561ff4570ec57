/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter whose memory is not what it should be: the program has the symbols of CPython and one thread state, proves itself
 * once as an interpreter of VERSION (its row in python_layouts), and from then on mutates the words of its frames, code objects and strings at random before each
 * allocation. Frames come in rings, lead to memory that is not there, are of lengths beyond everything. It says that no thread holds the GIL, so
 * that every word is read by the kernel. From 3.14 on it runs tasks, which record --python-tasks reads: mutated likewise, and exchanged.
 *
 * ARGUMENTS: allocations, seed, words by which a patch release has the task earlier in the thread state,
 * anything: a forked child does all of it. */
#ifndef PYTHON_STATE_H
#define PYTHON_STATE_H

#include "target.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../../../src/recorder/python/layout.h"

enum {
	ARENA = 1 << 16,
	PAGE = 4096,
	CODES = 24,
	CODE_BYTES = 320,
	FRAMES = 120,
	FRAME_BYTES = 96,
	TEXTS = 40,
	TEXT_BYTES = 192,
	TASKS = 8,
	STATE_BYTES = 1104, /* of 3.15, which has the largest */
	TYPE_BYTES = 264,
	MUTATIONS = 8,
	USUAL = 1500, /* about a million reads */
	LONGER = 30000,
};

unsigned long Py_Version = (PYTHON_FIRST + VERSION) << 16; /* read before main */
uint64_t _PyRuntime[64];
static char *arena, *thread;
static unsigned earlier;
static uint64_t state_of_random;

void *PyGILState_GetThisThreadState(void)
{
	return thread;
}

void *_PyThreadState_UncheckedGet(void)
{
	return NULL;
}

static uint64_t random_word(void)
{
	state_of_random ^= state_of_random << 13;
	state_of_random ^= state_of_random >> 7;
	state_of_random ^= state_of_random << 17;
	return state_of_random * UINT64_C(0x9e3779b97f4a7c15) >> 8;
}

static void put(char *object, size_t offset, uint64_t value, size_t bytes)
{
	memcpy(object + offset, &value, bytes);
}

/* ---- an interpreter as it should be ---- */

static char *next_object;

static char *make(size_t bytes)
{
	char *object = next_object;

	next_object += (bytes + 15) & ~(size_t)15;
	CHECK(next_object <= arena + ARENA);
	return object;
}

static char *make_type(const char *name)
{
	char *type = make(TYPE_BYTES), *text = make(16);

	strcpy(text, name);
	put(type, PYTHON_TYPE_NAME, (uintptr_t)text, 8);
	return type;
}

static char *make_text(const struct python_layout *l, char *type, unsigned number)
{
	char *text = make(TEXT_BYTES);
	unsigned width = number % 5 == 4 ? 4 : number % 5 == 3 ? 2 : 1;
	unsigned ascii = width == 1 && number % 3 != 0;
	size_t at = ascii ? l->ascii_bytes : l->compact_bytes;
	unsigned count = 1 + number % 20;

	put(text, PYTHON_TYPE, (uintptr_t)type, 8);
	put(text, PYTHON_LENGTH, count, 8);
	put(text, PYTHON_STATE, (width | 1 << 3 | ascii << 4) << l->text_kind, 4);
	for (unsigned i = 0; i < count; i++)
		put(text, at + i * width, 'a' + (number + i) % 26, width);
	return text;
}

static char *make_bytes(char *type)
{
	char *bytes = make(64);

	put(bytes, PYTHON_TYPE, (uintptr_t)type, 8);
	put(bytes, PYTHON_SIZE, 20, 8);
	for (int i = 0; i < 20; i++)
		bytes[PYTHON_BYTES + i] = (char)(0x80 | i << 3);
	return bytes;
}

static char *codes[CODES], *frames[FRAMES], *texts[TEXTS], *tasks[TASKS], *loop;

static void make_codes(const struct python_layout *l)
{
	char *code_type = make_type("code"), *text_type = make_type("str"),
	     *lines = make_bytes(make_type("bytes"));

	put(text_type, PYTHON_TYPE_FLAGS, PYTHON_TYPE_IS_TEXT, 8);
	for (unsigned i = 0; i < TEXTS; i++)
		texts[i] = make_text(l, text_type, i);
	for (unsigned i = 0; i < CODES; i++) {
		char *code = codes[i] = make(CODE_BYTES);

		put(code, PYTHON_TYPE, (uintptr_t)code_type, 8);
		put(code, PYTHON_SIZE, 40, 8);
		put(code, l->code_first_line, i * 10, 4);
		put(code, l->code_file, (uintptr_t)texts[i % TEXTS], 8);
		put(code, l->code_name, (uintptr_t)texts[(i * 7 + 1) % TEXTS], 8);
		if (l->code_short_name)
			put(code, l->code_short_name, (uintptr_t)texts[(i * 7 + 1) % TEXTS], 8);
		put(code, l->code_lines, (uintptr_t)lines, 8);
		if (l->code_version)
			put(code, l->code_version, i + 1, 4);
	}
}

/* Half of them of a class that was made from asyncio's. */
static void make_tasks(void)
{
	char *type = make_type("_asyncio.Task"), *derived = make_type("Own");

	put(type, PYTHON_TYPE_BYTES, PYTHON_TASK_BYTES, 8);
	put(derived, PYTHON_TYPE_BYTES, PYTHON_TASK_BYTES + 16, 8);
	put(derived, PYTHON_TYPE_BASE, (uintptr_t)type, 8);
	for (unsigned i = 0; i < TASKS; i++) {
		tasks[i] = make(PYTHON_TASK_BYTES + 16);
		put(tasks[i], PYTHON_TYPE, (uintptr_t)(i % 2 ? derived : type), 8);
		put(tasks[i], PYTHON_TASK_NAME, (uintptr_t)texts[i], 8);
	}
}

/* Frame i: of the code, called by the next one. */
static void fill_frame(const struct python_layout *l, unsigned i)
{
	char *frame = frames[i], *code = codes[random_word() % CODES];

	memset(frame, 0, FRAME_BYTES);
	put(frame, l->frame_code, (uintptr_t)code, 8);
	put(frame, l->frame_previous, i + 1 < FRAMES ? (uintptr_t)frames[i + 1] : 0, 8);
	put(frame, l->frame_instruction, (uintptr_t)code + l->code_units + random_word() % 40 * 2,
	    8);
	if (i % 17 == 16) {
		if (l->frame_is_entry)
			put(frame, l->frame_is_entry, 1, 1);
		else
			put(frame, l->frame_owner, l->entry_owner, 1);
	}
}

static void make_interpreter(const struct python_layout *l)
{
	next_object = arena;
	thread = make(STATE_BYTES);
	loop = make(64);
	make_codes(l);
	make_tasks();
	for (unsigned i = 0; i < FRAMES; i++)
		frames[i] = make(FRAME_BYTES);
	for (unsigned i = 0; i < FRAMES; i++)
		fill_frame(l, i);
	put(thread, l->thread_id, (uintptr_t)pthread_self(), 8);
	if (l->thread_loop)
		put(thread, l->thread_loop, (uintptr_t)loop, 8);
	else
		put(thread, l->thread_frame, (uintptr_t)frames[0], 8);
	put(loop, l->loop_frame, (uintptr_t)frames[0], 8);
	put(loop, l->loop_previous, (uintptr_t)loop, 8);
}

/* ---- and as it should not be ---- */

struct change {
	char *at;
	uint64_t was;
};

static uint64_t strange_word(uint64_t was)
{
	switch (random_word() % 9) {
	case 0:
		return 0;
	case 1:
		return random_word();
	case 2:
		return (uintptr_t)arena + random_word() % (2 * ARENA); /* half of it is not there */
	case 3:
		return (uintptr_t)frames[random_word() % FRAMES];
	case 4:
		return (uintptr_t)codes[random_word() % CODES] | (random_word() & 3);
	case 5:
		return (uintptr_t)arena + ARENA - random_word() % 64; /* ends in the middle */
	case 6:
		return was ^ UINT64_C(1) << random_word() % 64;
	case 7:
		return was + random_word() % 16 - 8;
	default:
		return UINT64_MAX - random_word() % 4096;
	}
}

static struct change change_somewhere(const struct python_layout *l)
{
	struct change change;

	switch (random_word() % (l->thread_task ? 5 : 4)) {
	case 0:
		change.at = thread + (random_word() % 2 ? l->thread_loop + l->thread_frame : 0);
		break;
	case 1:
		change.at = frames[random_word() % 24] + random_word() % (FRAME_BYTES - 8);
		break;
	case 2:
		change.at = texts[random_word() % TEXTS] + random_word() % 64;
		break;
	case 3:
		change.at = codes[random_word() % CODES] + random_word() % (CODE_BYTES - 8);
		break;
	default:
		change.at = random_word() % 4 == 0 ? thread + l->thread_task - 8 * earlier
						   : tasks[random_word() % TASKS] +
							     random_word() % PYTHON_TASK_BYTES;
	}
	memcpy(&change.was, change.at, 8);
	put(change.at, 0, strange_word(change.was), 8);
	return change;
}

static struct truth all = TRUTH(allocate);

static NOINLINE void allocate(unsigned i)
{
	size_t bytes = 16 + i % 100;
	char *block = malloc(bytes);

	KEEP(block);
	truth_take(&all, bytes);
	free(block);
	truth_drop(&all, bytes);
}

/* The stack of the interpreter's own functions differs too. */
static NOINLINE void descend(unsigned i, unsigned depth)
{
	if (depth > 0)
		descend(i, depth - 1);
	else
		allocate(i);
	KEEP(depth);
}

static void run(const struct python_layout *l, unsigned count)
{
	struct change changes[MUTATIONS];

	for (unsigned i = 0; i < 64; i++)
		allocate(i); /* time to prove it */
	for (unsigned i = 0; i < count; i++) {
		unsigned n = (unsigned)(random_word() % MUTATIONS);

		if (l->thread_task)
			put(thread, l->thread_task - 8 * earlier,
			    i % 9 ? (uintptr_t)tasks[random_word() % TASKS] : 0, 8);
		for (unsigned k = 0; k < n; k++)
			changes[k] = change_somewhere(l);
		if (l->thread_loop)
			put(loop, l->loop_frame, (uintptr_t)frames[random_word() % 24], 8);
		else
			put(thread, l->thread_frame, (uintptr_t)frames[random_word() % 24], 8);
		descend(i, random_word() % 6);
		while (n-- > 0)
			put(changes[n].at, 0, changes[n].was, 8);
		fill_frame(l, (unsigned)(random_word() % 24));
	}
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)long_form(USUAL, LONGER);
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;

	earlier = argc > 3 ? (unsigned)atoi(argv[3]) : 0;

	state_of_random = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
	arena = mmap(NULL, 2 * ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(arena != MAP_FAILED);
	CHECK(mprotect(arena + ARENA, ARENA, PROT_NONE) == 0);
	make_interpreter(&python_layouts[VERSION]);
	if (earlier > 0) /* the list of all tasks, which is never NULL */
		put(thread, python_layouts[VERSION].thread_task, (uintptr_t)loop, 8);
	if (argc > 4) {
		for (unsigned i = 0; i < 1000; i++)
			allocate(i);
		if (fork() > 0) {
			wait(NULL);
			return 0;
		}
	}
	run(&python_layouts[VERSION], count);
	say("EXPECT process calls=%llu\n", (unsigned long long)all.calls);
	say("HEALTH python_unread\n");
	say("HEALTH_MAYBE stacks_cut\n"); /* frames that a mutation made a ring of */
	return 0;
}
#endif
