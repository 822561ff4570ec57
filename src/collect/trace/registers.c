/* SPDX-License-Identifier: Apache-2.0 */
/* The same for a thread that is stopped (stop.c) and for one in a core file (core_threads.c). Pure. */
#include "collect/trace/registers.h"

#include <string.h>

enum { REGISTER_WORDS = sizeof(struct user_regs_struct) / sizeof(uint64_t) };

#ifdef __x86_64__
/* Within a system call, the vector registers hold nothing that the program still needs. */
static bool is_in_call(const struct user_regs_struct *registers)
{
	return (int64_t)registers->orig_rax >= 0;
}

static void place_thread(struct stopped_thread *thread, const struct user_regs_struct *registers,
			 uint64_t thread_pointer)
{
	(void)thread_pointer;
	thread->stack_pointer = registers->rsp;
	thread->thread_pointer = registers->fs_base;
}
#else
static bool is_in_call(const struct user_regs_struct *registers)
{
	(void)registers;
	return false;
}

static void place_thread(struct stopped_thread *thread, const struct user_regs_struct *registers,
			 uint64_t thread_pointer)
{
	thread->stack_pointer = registers->sp;
	thread->thread_pointer = thread_pointer;
}
#endif

static void add_words(struct stopped *s, const void *words, size_t count)
{
	memcpy(s->words.at + s->words.count, words, count * sizeof *s->words.at);
	s->words.count += count;
}

bool registers_add(struct stopped *s, pid_t tid, const struct user_regs_struct *registers,
		   uint64_t thread_pointer, const uint64_t *vectors, size_t vector_count)
{
	struct stopped_thread thread = { .tid = tid, .word_at = s->words.count };

	if (is_in_call(registers))
		vector_count = 0;
	if (!vector_reserve(&s->words, REGISTER_WORDS + vector_count) ||
	    !vector_reserve(&s->threads, 1))
		return false;
	place_thread(&thread, registers, thread_pointer);
	add_words(s, registers, REGISTER_WORDS);
	if (vector_count > 0)
		add_words(s, vectors, vector_count);
	thread.word_count = REGISTER_WORDS + vector_count;
	s->threads.at[s->threads.count++] = thread;
	return true;
}
