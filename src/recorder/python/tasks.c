/* SPDX-License-Identifier: Apache-2.0 */
/* See tasks.h. Owns: what each slot has read last. Inside a hook.
 *
 * The offsets are trusted once the object in the task's place has the type _asyncio.Task and its size. Until then, and whenever the type
 * differs from the last one, all reads go through the kernel. The running task cannot vanish, because its thread's state holds a
 * reference: it is read like a frame. Its name can: any thread that holds the GIL may replace it. Without the GIL the name is read
 * through the kernel, and discarded if the task has another one afterwards. */
#include "recorder/python/tasks.h"

#include "recorder/api/labels.h"
#include "recorder/memory.h"
#include "recorder/python/codes.h"

enum {
	NAME_CHARACTERS = 60,
	CLASSES = 16, /* between a task's own and _asyncio.Task */
	PLACES = 4,   /* words, up to the offset in the table, where a patch release may have it */
	ATTEMPT_SHIFT_MAX = 14,
	CALLS_UNTIL_RETRY = 1 << 8,
};
_Static_assert(sizeof "task=" + 4 * NAME_CHARACTERS <= LIVE_TAG_TEXT_MAX, "names are cut here");

static const char unnamed[] = "[unnamed]"; /* the interpreter's own names: Task-1, Task-2, ... */

struct python_tasks {
	uintptr_t type; /* of the last task; 0: none */
	bool type_is_task;
	uint32_t label;	      /* of the name; 0: none */
	uint32_t until_retry; /* allocations until a label that had no memory is tried again */
	uint32_t bytes;	      /* of the name */
	char name[4 * NAME_CHARACTERS + 1];
	char copy[4 * NAME_CHARACTERS + 1];
};

static uintptr_t
	task_at; /* proven offset in the thread state; 0: none yet. All threads find the same. */
static uint32_t failures;      /* attempts to prove it that failed; counted until one succeeds */
static uint32_t until_attempt; /* allocations until the next one */

/* Whether its objects are tasks of _asyncio, or of a class that was made from those. */
static COLD bool type_is_task(uintptr_t type)
{
	static const char name[] = "_asyncio.Task";

	for (int i = 0; i < CLASSES && type != 0;
	     i++, type = python_read_word(type + PYTHON_TYPE_BASE)) {
		if (python_read_word(type + PYTHON_TYPE_BYTES) == PYTHON_TASK_BYTES &&
		    python_type_is(type, name, sizeof name))
			return true;
	}
	return false;
}

/* Learns a type other than that of the slot's last task. The hook may be abandoned in between (siglongjmp). */
static COLD void learn_type(struct python_tasks *own, uintptr_t type)
{
	bool is_task = type_is_task(type);

	own->type = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	own->type_is_task = is_task;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	own->type = type;
}

/* Looks for a task where this release may have it: patch releases have inserted words before it. */
static COLD bool prove(const struct python_layout *l, uintptr_t state)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		uintptr_t at = l->thread_task - i * sizeof at, task = python_read_word(state + at);

		if (task == 0 || !type_is_task(python_read_word(task + PYTHON_TYPE)))
			continue;
		__atomic_fetch_sub(&memory.head->health[HEALTH_python_tasks],
				   __atomic_exchange_n(&failures, 0, __ATOMIC_RELAXED),
				   __ATOMIC_RELAXED);
		__atomic_store_n(&task_at, at, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* The offset of the task; 0: not proven. A word at the offset of the table is tried at once. Other attempts, and those after a failure,
 * are rare: each is a dozen system calls. */
static uintptr_t offset_of_task(const struct python_layout *l, enum python_reading how,
				uintptr_t state)
{
	uintptr_t at = __atomic_load_n(&task_at, __ATOMIC_ACQUIRE), word = 0;

	if (LIKELY(at != 0))
		return at;
	uint32_t failed = __atomic_load_n(&failures, __ATOMIC_RELAXED);
	bool is_there = python_read(how, state + l->thread_task, &word, sizeof word) && word != 0;

	if (__atomic_load_n(&until_attempt, __ATOMIC_RELAXED) > 0 && (!is_there || failed > 0)) {
		__atomic_fetch_sub(&until_attempt, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (prove(l, state))
		return __atomic_load_n(&task_at, __ATOMIC_RELAXED);
	if (is_there) { /* a task that cannot be read, or something else */
		__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
		health_add(HEALTH_python_tasks);
	}
	__atomic_store_n(&until_attempt,
			 is_there ? 1u << MIN(failed, (uint32_t)ATTEMPT_SHIFT_MAX)
				  : CALLS_UNTIL_RETRY,
			 __ATOMIC_RELAXED);
	return 0;
}

/* The size is checked too: the class may be gone and another one have its address. */
static bool is_task(struct python_tasks *own, enum python_reading how, uintptr_t task)
{
	uintptr_t type, bytes;

	if (!python_read(how, task + PYTHON_TYPE, &type, sizeof type))
		return false;
	if (UNLIKELY(type != own->type))
		learn_type(own, type);
	return own->type_is_task &&
	       python_read(how, type + PYTHON_TYPE_BYTES, &bytes, sizeof bytes) &&
	       bytes >= PYTHON_TASK_BYTES;
}

/* Whether the string is the name that the slot has a label of. Only where it is easily said. */
static bool is_last_name(const struct python_tasks *own, uintptr_t object)
{
	const struct python_layout *l = python_here->layout;
	uint64_t length;
	uint32_t state;

	python_read(PYTHON_PLAINLY, object + PYTHON_LENGTH, &length, sizeof length);
	python_read(PYTHON_PLAINLY, object + PYTHON_STATE, &state, sizeof state);
	struct python_text text = python_text(l, object, length, state);

	return own->label != 0 && text.width == 1 && text.count == own->bytes &&
	       text.at == object + l->ascii_bytes &&
	       __builtin_memcmp((const void *)text.at, own->name, own->bytes) == 0;
}

static bool is_default(const char *name)
{
	static const char prefix[] = "Task-";

	if (__builtin_memcmp(name, prefix, sizeof prefix - 1) != 0)
		return name[0] == 0;
	name += sizeof prefix - 1;
	do {
		if (*name < '0' || *name > '9')
			return false;
	} while (*++name != 0);
	return true;
}

/* The label of the name in own->copy. 0: no memory. */
static uint32_t label_of_read(struct slot *slot, struct python_tasks *own, uint32_t bytes)
{
	own->copy[bytes] = 0;
	if (bytes == own->bytes && __builtin_memcmp(own->copy, own->name, bytes) == 0 &&
	    (own->label != 0 || own->until_retry > 0)) {
		own->until_retry -= own->label == 0;
		return own->label;
	}
	own->label = own->until_retry = 0; /* the hook may be abandoned in between */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__builtin_memcpy(own->name, own->copy, bytes + 1);
	own->bytes = bytes;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	own->label = labels_name(slot, "task", is_default(own->name) ? unnamed : own->name);
	own->until_retry = own->label == 0 ? CALLS_UNTIL_RETRY : 0;
	return own->label;
}

static uint32_t label_of(struct slot *slot, struct python_tasks *own, enum python_reading how,
			 uintptr_t state, uintptr_t task)
{
	enum python_reading of_name = how;
	uintptr_t name, type, same;
	uint64_t flags;
	uint32_t bytes = 0;

	if (how == PYTHON_PLAINLY && (uintptr_t)python_here->attached_state() != state)
		of_name = PYTHON_SAFELY;
	if (!is_task(own, how, task) ||
	    !python_read(how, task + PYTHON_TASK_NAME, &name, sizeof name) || name == 0 ||
	    !python_read(of_name, name + PYTHON_TYPE, &type, sizeof type) ||
	    !python_read(of_name, type + PYTHON_TYPE_FLAGS, &flags, sizeof flags))
		return 0;
	if ((flags & PYTHON_TYPE_IS_TEXT) != 0) {
		if (of_name == PYTHON_PLAINLY && is_last_name(own, name))
			return own->label;
		if (!python_copy_text(of_name, name, NAME_CHARACTERS, own->copy, &bytes))
			return 0;
	} else if ((flags & PYTHON_TYPE_IS_INT) == 0) {
		return 0;
	}
	if (of_name != PYTHON_PLAINLY &&
	    (!python_read(how, task + PYTHON_TASK_NAME, &same, sizeof same) || same != name))
		return 0;
	return label_of_read(slot, own, bytes);
}

static NOINLINE uint32_t task_label(struct slot *slot, enum python_reading how, uintptr_t state)
{
	const struct python_layout *l = python_here->layout;
	uintptr_t task = 0;
	uint32_t label = 0;
	uintptr_t at = state != 0 && l->thread_task != 0 ? offset_of_task(l, how, state) : 0;

	if (at == 0 || (python_read(how, state + at, &task, sizeof task) && task == 0))
		return 0;
	if (slot->tasks == NULL)
		slot->tasks = memory_scratch(sizeof *slot->tasks);
	if (task != 0 && slot->tasks != NULL)
		label = label_of(slot, slot->tasks, how, state, task);
	if (label == 0)
		health_add(HEALTH_python_tasks);
	return label;
}

void python_tasks_start(bool wanted)
{
	python_task_label = wanted ? task_label : NULL;
	failures = until_attempt = 0; /* a forked child's health begins anew */
	if (wanted && python_is_here() && python_here->layout->thread_task == 0)
		health_add(HEALTH_python_no_tasks);
}
