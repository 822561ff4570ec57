/* SPDX-License-Identifier: Apache-2.0 */
/* CPython's layout of what makes up a stack: byte offsets in a thread state, a frame and a code object. They are the same in all
 * releases of a minor version, except for that of the task, and are trusted only after interpreter.c (tasks.c) has proven them in this
 * process. */
#ifndef RECORDER_PYTHON_LAYOUT_H
#define RECORDER_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_layout {
	/* Thread state: its id, and the innermost frame. Up to 3.12 the frame is in the record of the interpreter loop (_PyCFrame),
	 * which is on the native stack and points to the outer one. */
	uint16_t thread_id, thread_loop, thread_frame;
	uint16_t thread_task; /* the asyncio task that it runs; 0: no thread says so */
	uint16_t loop_frame, loop_previous;
	/* Frame: its code, the caller's frame, the instruction, whether it is the outermost of its interpreter loop (3.11). */
	uint16_t frame_code, frame_previous, frame_instruction, frame_owner, frame_is_entry;
	uint8_t entry_owner; /* owners from this value on mark an interpreter loop, in whose native frame they are, not a function */
	uint8_t last_owner;  /* the largest valid owner */
	/* Code object. The version distinguishes objects that had the same
	 * address one after another; 0: none, and the name is needed. */
	uint16_t code_version, code_short_name, code_first_line, code_file, code_name, code_lines,
		code_traceable, code_units;
	/* String: the bytes before its characters, and the bit of its state
	 * where their kind starts (then the compact and ASCII flags). */
	uint8_t ascii_bytes, compact_bytes, text_kind;
};

enum {
	PYTHON_TYPE = 8,    /* of any object: its type */
	PYTHON_SIZE = 16,   /* of a code object: in units; of bytes: in bytes */
	PYTHON_HASH = 24,   /* of a string: hash of its characters, or PYTHON_NO_HASH */
	PYTHON_LENGTH = 16, /* of a string: characters */
	PYTHON_STATE = 32,  /* of a string: bits of PYTHON_STATE_* */
	PYTHON_BYTES = 32,  /* of bytes: start of the data */
	PYTHON_TYPE_NAME = 24,
	PYTHON_TYPE_BYTES = 32,	 /* size of its objects without the variable part */
	PYTHON_TYPE_FLAGS = 168, /* bits: PYTHON_TYPE_IS_* */
	PYTHON_TYPE_IS_INT = 1 << 24,
	PYTHON_TYPE_IS_TEXT = 1 << 28,
	PYTHON_TYPE_BASE = 256, /* the base class */
	PYTHON_TASK_NAME = 136, /* of a task: a string, or its number until a name is requested */
	PYTHON_TASK_BYTES = 168,
	PYTHON_TAGS = 3, /* bits of a reference to a code object that are not part of its address */
	PYTHON_UNIT = 2, /* bytes of an instruction or an inline cache entry */
	PYTHON_FRAME_BYTES = 80, /* of a frame: covers all of the above */
};

#define PYTHON_NO_HASH UINT64_MAX /* not computed yet */

/* A string object's characters, each of `width` bytes. */
struct python_text {
	uintptr_t at;
	uint64_t count;
	uint32_t width; /* 0: unsupported layout */
};
/* Whether a string object holds its characters itself: one of a subclass of str does not. */
static inline bool python_text_is_compact(const struct python_layout *l, uint32_t state)
{
	return state >> (l->text_kind + 3) & 1;
}
static inline struct python_text python_text(const struct python_layout *l, uintptr_t object,
					     uint64_t length, uint32_t state)
{
	uint32_t width = state >> l->text_kind & 7;
	bool is_compact = python_text_is_compact(l, state);
	bool is_ascii = state >> (l->text_kind + 4) & 1;

	return (struct python_text){
		.at = object + (is_ascii ? l->ascii_bytes : l->compact_bytes),
		.count = length,
		.width = is_compact && (width == 1 || width == 2 || width == 4) ? width : 0,
	};
}

/* Unchanged since 3.12. */
#define PYTHON_SINCE_3_12                                                                          \
	.frame_code = 0, .frame_previous = 8, .frame_instruction = 56, .entry_owner = 3,           \
	.code_version = 92, .code_first_line = 68, .code_file = 112, .code_name = 128,             \
	.code_lines = 136, .ascii_bytes = 40, .compact_bytes = 56, .text_kind = 2

/* One row per minor version, from 3.11 on. In a header, so that the walk uses them as constants. */
enum { PYTHON_FIRST = 0x030b, PYTHON_VERSIONS = 5 };
static const struct python_layout python_layouts[PYTHON_VERSIONS] = {
	{
		/* 3.11 */
		.thread_id = 152,	 .thread_loop = 56,	 .loop_frame = 8,
		.loop_previous = 16,	 .frame_code = 32,	 .frame_previous = 48,
		.frame_instruction = 56, .frame_owner = 69,	 .frame_is_entry = 68,
		.entry_owner = 3, /* none is */
		.last_owner = 2,	 .code_short_name = 120, .code_first_line = 72,
		.code_file = 112,	 .code_name = 128,	 .code_lines = 136,
		.code_traceable = 168,	 .code_units = 184,	 .ascii_bytes = 48,
		.compact_bytes = 72,	 .text_kind = 2,
	},
	{
		/* 3.12 */
		PYTHON_SINCE_3_12,
		.thread_id = 136,
		.thread_loop = 56,
		.loop_frame = 0,
		.loop_previous = 8,
		.frame_owner = 70,
		.last_owner = 3,
		.code_traceable = 176,
		.code_units = 192,
	},
	{
		/* 3.13 */
		PYTHON_SINCE_3_12,
		.thread_id = 152,
		.thread_frame = 72,
		.frame_owner = 70,
		.last_owner = 3,
		.code_traceable = 184,
		.code_units = 200,
	},
	{
		/* 3.14 */
		PYTHON_SINCE_3_12,
		.thread_id = 152,
		.thread_frame = 72,
		.thread_task = 872,
		.frame_owner = 74,
		.last_owner = 4,
		.code_traceable = 192,
		.code_units = 208,
	},
	{
		/* 3.15 */
		PYTHON_SINCE_3_12,
		.thread_id = 176,
		.thread_frame = 72,
		.thread_task = 1032,
		.frame_owner = 74,
		.last_owner = 3,
		.code_traceable = 192,
		.code_units = 208,
	},
};
#endif
