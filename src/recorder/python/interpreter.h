/* SPDX-License-Identifier: Apache-2.0 */
/* The CPython interpreter of this process, if any: where its threads have their frames.
 *
 * We call only the two functions that return the calling thread's state and whether it holds the GIL and, if its allocators are
 * recorded, those that get and set them (hooks_python.c); nothing is written. The layout is proven before use (interpreter.c), and
 * memory is read directly only while it cannot vanish: the frames of the calling thread stay while it holds the GIL. Without the
 * GIL another thread may finalize the interpreter and free them; so they are read through the kernel, which returns an error
 * instead of a fault. The thread that finalizes reads as if it held the GIL. A signal handler may have interrupted the interpreter
 * between two stores: its allocations use reads through the kernel too. */
#ifndef RECORDER_PYTHON_INTERPRETER_H
#define RECORDER_PYTHON_INTERPRETER_H

#include <stdbool.h>

#include "base/compiler.h"
#include "recorder/libc/libc.h"
#include "recorder/memory.h"
#include "recorder/python/layout.h"

struct python_allocator;
struct python {
	const struct python_layout *layout;
	uint32_t version;	       /* index in python_layouts */
	void *(*thread_state)(void);   /* state of the calling thread, with or without the GIL */
	void *(*attached_state)(void); /* the same while it holds the GIL; else NULL */
	/* PyMem_GetAllocator and PyMem_SetAllocator; NULL: missing. */
	void (*get_allocator)(int domain, struct python_allocator *ret);
	void (*set_allocator)(int domain, const struct python_allocator *allocator);
	bool first_ends_it;	  /* the first thread initialized it, so it will finalize it */
	uintptr_t code_type;	  /* type of all code objects; 0: layout not proven yet */
	uint32_t looks, attempts; /* polls for a running function; failed proofs of the layout */
};
extern HIDDEN struct python *python_here; /* NULL: none, or an unsupported one */

/* Called inside a hook by a thread that holds the GIL and allocates in a Python function; NULL: not needed. mapper: return address
 * of an mmap call; else 0. */
extern HIDDEN void (*python_visit)(uintptr_t mapper);
void python_domains_start(
	void); /* checks at each visit whether the allocators are recorded: hooks_python.c */

/* How the calling thread's frames may be read. */
enum python_reading { PYTHON_UNREADABLE, PYTHON_PLAINLY, PYTHON_SAFELY };

/* Returns the label of the task that the thread with this state (0: none) runs; 0: none, or it is unreadable, which is counted. how: from
 * python_state(). NULL: tasks are not recorded (tasks.c). */
struct slot;
extern HIDDEN uint32_t (*python_task_label)(struct slot *slot, enum python_reading how,
					    uintptr_t state);

static ALWAYS_INLINE bool python_is_here(void)
{
	return __atomic_load_n(&python_here, __ATOMIC_RELAXED) != NULL;
}

/* Checks whether a newly loaded object contains the interpreter. */
void python_look_at(const struct libc_object *object);

/* Call at start-up and in a forked child, whose only thread is the first one. */
void python_first_thread(void);

/* Returns the state of the calling thread, and how to read it. 0: none, or it
 * must not be read. interrupted: a signal handler may be running. */
uintptr_t python_state(bool interrupted, enum python_reading *ret);

static ALWAYS_INLINE bool python_read(enum python_reading how, uintptr_t from, void *to,
				      size_t bytes)
{
	if (how != PYTHON_PLAINLY)
		return memory_read_safely(from, to, bytes);
	__builtin_memcpy(to, (const void *)from, bytes);
	return true;
}

/* Reads a word by the kernel; 0: unreadable. */
uintptr_t python_read_word(uintptr_t at);
/* Whether a type has this name; `bytes` includes the terminating zero and is at most 16. */
bool python_type_is(uintptr_t type, const char *name, size_t bytes);

/* A fingerprint of a string whose hash is not computed yet: its length, and both ends if it holds its characters itself, with room for
 * at least 8. False: unreadable. */
static ALWAYS_INLINE bool python_ends_of_text(const struct python_layout *l,
					      enum python_reading how, uintptr_t object,
					      uint64_t *ret)
{
	uint64_t length = 0, head = 0, tail = 0;
	uint32_t state = 0;
	uintptr_t first = object + l->ascii_bytes;

	if (!python_read(how, object + PYTHON_LENGTH, &length, sizeof length) ||
	    !python_read(how, object + PYTHON_STATE, &state, sizeof state))
		return false;
	*ret = length;
	if (!python_text_is_compact(l, state))
		return true;
	if (!python_read(how, first, &head, sizeof head) ||
	    !python_read(how, first + (length > sizeof tail ? length - sizeof tail : 0), &tail,
			 sizeof tail))
		return false;
	*ret = (head + length) * UINT64_C(0xa0761d6478bd642f) + tail;
	return true;
}

/* Distinguishes code objects that had the same address one after another: by version, if it has one; else by name, first line and
 * file, since objects equal in these are indistinguishable in reports. */
static ALWAYS_INLINE bool python_version(const struct python_layout *l, enum python_reading how,
					 uintptr_t code, uint64_t *ret)
{
	uint32_t version = 0, state;
	uintptr_t name, file;
	uint64_t name_hash, length, tail = 0;

	if (LIKELY(l->code_version != 0)) {
		bool known = python_read(how, code + l->code_version, &version, sizeof version);

		*ret = version;
		return known;
	}
	if (!python_read(how, code + l->code_first_line, &version, sizeof version) ||
	    !python_read(how, code + l->code_short_name, &name, sizeof name) ||
	    !python_read(how, code + l->code_file, &file, sizeof file) ||
	    !python_read(how, name + PYTHON_HASH, &name_hash, sizeof name_hash) ||
	    !python_read(how, file + PYTHON_LENGTH, &length, sizeof length) ||
	    !python_read(how, file + PYTHON_STATE, &state, sizeof state))
		return false;
	if (UNLIKELY(name_hash == PYTHON_NO_HASH) && !python_ends_of_text(l, how, name, &name_hash))
		return false;
	*ret = name_hash + version + (length << 32);
	if (length < sizeof tail || UNLIKELY(!python_text_is_compact(l, state)))
		return true;
	if (!python_read(how, file + l->ascii_bytes + length - sizeof tail, &tail, sizeof tail))
		return false;
	*ret += tail * UINT64_C(0xd6e8feb86659fd93);
	return true;
}
#endif
