/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of Python functions: code objects are described once, when first seen. Its name, file and table of lines are copied; which
 * line an instruction is on is found out by readers. */
#ifndef RECORDER_PYTHON_CODES_H
#define RECORDER_PYTHON_CODES_H

#include "recorder/python/interpreter.h"
#include "recorder/slot.h"

void python_codes_reset(void);

/* The frame of an instruction of a code object (version: python_version()). LIVE_FRAME_OTHER: no memory, no lock, or it cannot be read. */
uint32_t python_frame_id(struct slot *slot, enum python_reading how, uintptr_t code,
			 uint64_t version, uintptr_t instruction);
#endif
