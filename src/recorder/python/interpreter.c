/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the interpreter, and proves that its memory layout matches the table.
 *
 * Owns: python_here, set at most once. The first thread to finish a proof sets its code_type: all find the same value. The proof:
 * with reads that cannot fault, the whole chain of frames of a thread leads to objects of one type, named "code", each with its
 * instruction inside, strings as name and file, and bytes as line table. If a release moved one of these, the proof fails and
 * stacks stay native. */
#include "recorder/python/interpreter.h"

#include "recorder/lookup.h"
#include "recorder/memory.h"
#include "recorder/sys.h"
#include "recorder/unwind/modules.h"

enum {
	ATTEMPTS = 16,
	FRAMES_PROVEN = 256,
	RUNTIME_WORDS = 1 << 17,
	EAGER = 1 << 12, /* polls for the first function; after that one in SELDOM */
	SELDOM = 1 << 8,
};

struct python *python_here;
void (*python_visit)(uintptr_t mapper);
uint32_t (*python_task_label)(struct slot *slot, enum python_reading how, uintptr_t state);
static struct python found;
static uintptr_t first_thread; /* what pthread_self returns in it */
static uintptr_t self_below;   /* how far that is below the thread pointer */
static bool looked_at;	       /* an interpreter was found, supported or not */
static struct {
	uintptr_t at;
	uint64_t words;
} runtime;

/* As pthread_self, by which the interpreter knows its threads. */
static inline uintptr_t this_thread(void)
{
	return libc_thread_block() - (ARCH_THREAD_IS_BLOCK ? 0 : self_below);
}

static void *symbol_of(const struct libc_object *object, const char *name)
{
	const Elf64_Sym *symbol = lookup_in(object, name);

	return symbol != NULL ? (void *)(libc_bias(object) + symbol->st_value) : NULL;
}

/* Finds the state of the whole interpreter. */
static void find_runtime(const struct libc_object *object)
{
	const Elf64_Sym *symbol = lookup_in(object, "_PyRuntime");

	runtime.at = libc_bias(object) + symbol->st_value;
	runtime.words = MIN(symbol->st_size / sizeof(uintptr_t), (uint64_t)RUNTIME_WORDS);
}

/* True if the process' first thread initialized the interpreter, and so will
 * finalize it: the interpreter stores that thread's id. */
static bool was_begun_by_first_thread(void)
{
	const uintptr_t *words = (const uintptr_t *)runtime.at;

	for (uint64_t i = 0; i < runtime.words; i++) {
		if (words[i] == first_thread)
			return true;
	}
	return false;
}

/* From 3.13 on, the start of the interpreter's state says so. Free-threaded builds lay out objects differently. */
static bool is_free_threaded(void)
{
	const uint64_t *state = (const uint64_t *)runtime.at;
	static const char cookie[8] = { 'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y' };

	return state != NULL && __builtin_memcmp(state, cookie, sizeof cookie) == 0 &&
	       state[2] != 0;
}

/* NULL: unsupported. An interpreter that is loaded later may be unloaded, together with the functions called here. */
static const struct python_layout *layout_of(const struct libc_object *object)
{
	const unsigned long *version = symbol_of(object, "Py_Version"); /* from 3.11 on */

	if (version == NULL || is_free_threaded() || !lookup_was_there_at_start(object))
		return NULL;
	found.version = (uint32_t)(*version >> 16) - PYTHON_FIRST;
	return found.version < PYTHON_VERSIONS ? &python_layouts[found.version] : NULL;
}

COLD void python_look_at(const struct libc_object *object)
{
	if (lookup_in(object, "_PyRuntime") == NULL ||
	    __atomic_exchange_n(&looked_at, true, __ATOMIC_RELAXED))
		return;
	find_runtime(object);
	found.layout = layout_of(object);
	*(void **)&found.thread_state = symbol_of(object, "PyGILState_GetThisThreadState");
	*(void **)&found.attached_state = symbol_of(object, "_PyThreadState_UncheckedGet");
	if (found.attached_state == NULL)
		*(void **)&found.attached_state = symbol_of(object, "PyThreadState_GetUnchecked");
	if (found.layout == NULL || found.thread_state == NULL || found.attached_state == NULL) {
		health_add(HEALTH_python_unknown);
		return;
	}
	*(void **)&found.get_allocator = symbol_of(object, "PyMem_GetAllocator");
	*(void **)&found.set_allocator = symbol_of(object, "PyMem_SetAllocator");
	if (python_visit != NULL) /* until its allocators are recorded */
		health_add(HEALTH_python_domains);
	if (python_task_label != NULL && found.layout->thread_task == 0)
		health_add(HEALTH_python_no_tasks);
	__atomic_store_n(&python_here, &found, __ATOMIC_RELEASE);
	/* Cached walks have no Python frames. */
	__atomic_add_fetch(&modules_generation, 1, __ATOMIC_RELAXED);
}

void python_first_thread(void)
{
	uintptr_t (*self)(void) = NULL;

	if (!ARCH_THREAD_IS_BLOCK)
		*(void **)&self = lookup_next("pthread_self");
	self_below = self != NULL ? libc_thread_block() - self() : 0;
	first_thread = this_thread();
	if (looked_at &&
	    python_here == NULL) /* the parent's profile says so, and this one should too */
		health_add(HEALTH_python_unknown);
}

uintptr_t python_read_word(uintptr_t at)
{
	uintptr_t word = 0;

	return at % sizeof word == 0 && memory_read_safely(at, &word, sizeof word) ? word : 0;
}

bool python_type_is(uintptr_t type, const char *name, size_t bytes)
{
	char text[16] = { 0 };
	uintptr_t at = python_read_word(type + PYTHON_TYPE_NAME);

	return at != 0 && memory_read_safely(at, text, bytes) &&
	       __builtin_memcmp(text, name, bytes) == 0;
}

static bool is_of_type(uintptr_t object, const char *name, size_t bytes)
{
	return python_type_is(python_read_word(object + PYTHON_TYPE), name, bytes);
}

static bool is_text(const struct python_layout *l, uintptr_t object)
{
	uint64_t length = python_read_word(object + PYTHON_LENGTH);
	uint32_t state;

	return is_of_type(object, "str", sizeof "str") &&
	       memory_read_safely(object + PYTHON_STATE, &state, sizeof state) &&
	       python_text(l, object, length, state).width != 0;
}

static bool code_is_proven(const struct python_layout *l, uintptr_t code, uintptr_t instruction)
{
	uintptr_t units = code + l->code_units - PYTHON_UNIT; /* initially before the first one */
	uintptr_t size = python_read_word(code + PYTHON_SIZE);

	return is_of_type(code, "code", sizeof "code") && size != 0 && size < 1 << 28 &&
	       instruction - units <= (size + 1) * PYTHON_UNIT &&
	       is_text(l, python_read_word(code + l->code_file)) &&
	       is_text(l, python_read_word(code + l->code_name)) &&
	       is_of_type(python_read_word(code + l->code_lines), "bytes", sizeof "bytes");
}

/* Returns the type of the code of all frames from this one on; 0: no function is running. False: the layout does not match. */
static bool prove_frames(const struct python_layout *l, uintptr_t frame, uintptr_t *ret_type)
{
	*ret_type = 0;
	for (int i = 0; i < FRAMES_PROVEN && frame != 0;
	     i++, frame = python_read_word(frame + l->frame_previous)) {
		uint8_t owner = 0;
		uintptr_t code = python_read_word(frame + l->frame_code) & ~(uintptr_t)PYTHON_TAGS;

		if (!memory_read_safely(frame + l->frame_owner, &owner, 1) || owner > l->last_owner)
			return false;
		if (owner >= l->entry_owner)
			continue;
		if (!code_is_proven(l, code, python_read_word(frame + l->frame_instruction)) ||
		    (*ret_type != 0 && *ret_type != python_read_word(code + PYTHON_TYPE)))
			return false;
		*ret_type = python_read_word(code + PYTHON_TYPE);
	}
	return true;
}

/* The first frames may be incomplete, so a proof is retried a few times. */
static COLD bool prove(uintptr_t state)
{
	const struct python_layout *l = found.layout;
	uintptr_t type = 0;

	uint32_t looks = __atomic_fetch_add(&found.looks, 1, __ATOMIC_RELAXED);

	if (__atomic_load_n(&found.attempts, __ATOMIC_RELAXED) >= ATTEMPTS ||
	    (looks > EAGER && looks % SELDOM != 0))
		return false;
	uintptr_t frame =
		l->thread_loop != 0
			? python_read_word(python_read_word(state + l->thread_loop) + l->loop_frame)
			: python_read_word(state + l->thread_frame);

	if (python_read_word(state + l->thread_id) != this_thread() ||
	    !prove_frames(l, frame, &type)) {
		if (__atomic_add_fetch(&found.attempts, 1, __ATOMIC_RELAXED) == ATTEMPTS)
			health_add(HEALTH_python_unknown);
		return false;
	}
	if (type == 0)
		return false; /* not running Python code yet */
	found.first_ends_it = was_begun_by_first_thread();
	__atomic_store_n(&found.code_type, type, __ATOMIC_RELEASE);
	return true;
}

/* For any thread at any moment. Separate, so that python_state needs few registers. */
static NOINLINE uintptr_t examine(uintptr_t state, bool interrupted, enum python_reading *ret)
{
	uintptr_t thread = this_thread(), owner = 0;

	if (state == 0)
		return 0;
	if (UNLIKELY(__atomic_load_n(&found.code_type, __ATOMIC_ACQUIRE) == 0) && !prove(state))
		return 0;
	*ret = PYTHON_SAFELY;
	if (LIKELY(!interrupted) && ((thread == first_thread && found.first_ends_it) ||
				     (uintptr_t)found.attached_state() == state))
		*ret = PYTHON_PLAINLY;
	return python_read(*ret, state + found.layout->thread_id, &owner, sizeof owner) &&
			       owner == thread
		       ? state
		       : 0;
}

uintptr_t python_state(bool interrupted, enum python_reading *ret)
{
	uintptr_t state = (uintptr_t)found.thread_state(), thread = this_thread();

	/* What nearly every call finds. */
	if (LIKELY(state != 0 && __atomic_load_n(&found.code_type, __ATOMIC_ACQUIRE) != 0 &&
		   !interrupted && thread == first_thread && found.first_ends_it &&
		   *(const uintptr_t *)(state + found.layout->thread_id) == thread)) {
		*ret = PYTHON_PLAINLY;
		return state;
	}
	return examine(state, interrupted, ret);
}
