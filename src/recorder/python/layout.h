/* SPDX-License-Identifier: Apache-2.0 */
/* Where CPython keeps what a stack consists of: byte offsets in the state of a thread, in a frame and in a code object. They are the
 * same in all releases of a minor version, and are believed only after interpreter.c has proven them in this process. */
#ifndef RECORDER_PYTHON_LAYOUT_H
#define RECORDER_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_layout {
	/* The thread: its id, and the innermost frame. Up to 3.12 that is in the record of the interpreter loop (_PyCFrame), which
	 * lies on the native stack and leads to the one outside. */
	uint16_t thread_id, thread_loop, thread_frame;
	uint16_t loop_frame, loop_previous;
	/* A frame: its code, the caller's frame, the instruction, whether it is the outermost of its interpreter loop (3.11). */
	uint16_t frame_code, frame_previous, frame_instruction, frame_owner, frame_is_entry;
	uint8_t entry_owner; /* from this one on it is no function's, but marks an interpreter loop, in whose native frame it lies */
	uint8_t last_owner;  /* there is none above */
	/* Code. A version tells two of them that had the same address one after the other; 0: there is none, and the name is needed. */
	uint16_t code_version, code_short_name, code_first_line, code_file, code_name, code_lines,
		code_traceable, code_units;
	/* A string: the bytes before its characters, and where its state has their kind (then whether it is compact, whether ASCII). */
	uint8_t ascii_bytes, compact_bytes, text_kind;
};

enum {
	PYTHON_TYPE = 8,    /* of any object: its type */
	PYTHON_SIZE = 16,   /* of a code object: units; of bytes: bytes */
	PYTHON_HASH = 24,   /* of a string: of its characters, if it is a name */
	PYTHON_LENGTH = 16, /* of a string: characters */
	PYTHON_STATE = 32,  /* of a string: bits of PYTHON_STATE_* */
	PYTHON_BYTES = 32,  /* of bytes: where they begin */
	PYTHON_TYPE_NAME = 24,
	PYTHON_TAGS = 3,	 /* bits of a reference to a code object that are not its address */
	PYTHON_UNIT = 2,	 /* bytes of an instruction or of a word of its cache */
	PYTHON_FRAME_BYTES = 80, /* of a frame: all of the above lies within */
};

/* A string object's characters, each of `width` bytes. */
struct python_text {
	uintptr_t at;
	uint64_t count;
	uint32_t width; /* 0: it is laid out in another way */
};
static inline struct python_text python_text(const struct python_layout *l, uintptr_t object,
					     uint64_t length, uint32_t state)
{
	uint32_t width = state >> l->text_kind & 7;
	bool is_compact = state >> (l->text_kind + 3) & 1;
	bool is_ascii = state >> (l->text_kind + 4) & 1;

	return (struct python_text){
		.at = object + (is_ascii ? l->ascii_bytes : l->compact_bytes),
		.count = length,
		.width = is_compact && (width == 1 || width == 2 || width == 4) ? width : 0,
	};
}

/* What no version since 3.12 has moved. */
#define PYTHON_SINCE_3_12                                                                          \
	.frame_code = 0, .frame_previous = 8, .frame_instruction = 56, .entry_owner = 3,           \
	.code_version = 92, .code_first_line = 68, .code_file = 112, .code_name = 128,             \
	.code_lines = 136, .ascii_bytes = 40, .compact_bytes = 56, .text_kind = 2

/* One row for each minor version, from 3.11 on. In a header, so that the walk has them as constants. */
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
		.frame_owner = 74,
		.last_owner = 3,
		.code_traceable = 192,
		.code_units = 208,
	},
};
#endif
