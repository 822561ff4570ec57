/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of Python functions. A code object is described once, when first seen: its name, file and line table are copied; readers
 * map an instruction to its line. */
#ifndef RECORDER_PYTHON_CODES_H
#define RECORDER_PYTHON_CODES_H

#include "recorder/python/interpreter.h"
#include "recorder/slot.h"

void python_codes_reset(void);

/* Returns the frame id of an instruction of a code object (version:
 * python_version()). LIVE_FRAME_OTHER: no memory, no lock, or unreadable. */
uint32_t python_frame_id(struct slot *slot, enum python_reading how, uintptr_t code,
			 uint64_t version, uintptr_t instruction);

/* The first characters of a string object, `limit` of them at most, which `to` has four bytes for each of: as UTF-8, *ret bytes. False: they
 * cannot be read. */
bool python_copy_text(enum python_reading how, uintptr_t object, uint32_t limit, char *to,
		      uint32_t *ret);
#endif
