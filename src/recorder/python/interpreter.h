/* SPDX-License-Identifier: Apache-2.0 */
/* The CPython interpreter of this process, if it has one: where its threads have their frames.
 *
 * Nothing of it is called but the two functions that say which state the calling thread has, and whether it holds the GIL, and, if its
 * allocators are to be recorded, what exchanges them (hooks_python.c); nothing is written. What is read is proven first (interpreter.c), and after that only where it cannot vanish: the frames of the calling
 * thread stay while it holds the GIL. Without the GIL the interpreter may be finalized by another thread, which frees them; so then
 * they are read by the kernel, which says "no" instead of a fault. The thread that finalizes reads as if it held the GIL. A signal
 * handler may have interrupted the interpreter between two stores: what it allocates is read by the kernel too. */
#ifndef RECORDER_PYTHON_INTERPRETER_H
#define RECORDER_PYTHON_INTERPRETER_H

#include <stdbool.h>

#include "base/compiler.h"
#include "recorder/libc/libc.h"
#include "recorder/python/layout.h"

struct python_allocator;
struct python {
	const struct python_layout *layout;
	uint32_t version;	       /* its number in python_layouts */
	void *(*thread_state)(void);   /* of the calling thread, with the GIL or without */
	void *(*attached_state)(void); /* the same while it holds the GIL; else NULL */
	/* PyMem_GetAllocator and PyMem_SetAllocator; NULL: it has none. */
	void (*get_allocator)(int domain, struct python_allocator *ret);
	void (*set_allocator)(int domain, const struct python_allocator *allocator);
	bool first_ends_it;	  /* it was begun, so it is finalized, by the first thread */
	uintptr_t code_type;	  /* the type of all code objects; 0: nothing is proven yet */
	uint32_t looks, attempts; /* for a function that runs; to prove the layout */
};
extern HIDDEN struct python *python_here; /* NULL: there is none, or none that is known */

/* Called inside a hook by a thread that holds the GIL and allocates in a Python function; NULL: nobody wants to know. */
extern HIDDEN void (*python_visit)(void);
void python_domains_visit(void); /* looks whether the allocators are recorded: hooks_python.c */

static ALWAYS_INLINE bool python_is_here(void)
{
	return __atomic_load_n(&python_here, __ATOMIC_RELAXED) != NULL;
}

/* An object that the program has loaded: it may bring the interpreter. */
void python_look_at(const struct libc_object *object);

/* A fork's child: its only thread is the first one. At the start too. */
void python_first_thread(void);

/* How the calling thread's frames may be read. */
enum python_reading { PYTHON_UNREADABLE, PYTHON_PLAINLY, PYTHON_SAFELY };

/* The state of the calling thread, and how to read it. 0: it has none, or it is not to be read. interrupted: by a signal handler. */
uintptr_t python_state(bool interrupted, enum python_reading *ret);

/* Copies from this process' own memory; false: some of it cannot be read. */
bool python_read_safely(uintptr_t from, void *to, size_t bytes);
static ALWAYS_INLINE bool python_read(enum python_reading how, uintptr_t from, void *to,
				      size_t bytes)
{
	if (how != PYTHON_PLAINLY)
		return python_read_safely(from, to, bytes);
	__builtin_memcpy(to, (const void *)from, bytes);
	return true;
}

/* Which code object of those that had this address it is: by its version; else by what is shown of it, since one that looks the same
 * may as well be the same. */
static ALWAYS_INLINE bool python_version(const struct python_layout *l, enum python_reading how,
					 uintptr_t code, uint64_t *ret)
{
	uint32_t version = 0;
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
	    !python_read(how, file + PYTHON_LENGTH, &length, sizeof length))
		return false;
	*ret = name_hash + version;
	if (length < sizeof tail)
		return true;
	if (!python_read(how, file + l->ascii_bytes + length - sizeof tail, &tail, sizeof tail))
		return false;
	*ret += tail * UINT64_C(0xd6e8feb86659fd93);
	return true;
}
#endif
