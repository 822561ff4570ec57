/* links: collect */
/* SPDX-License-Identifier: Apache-2.0 */
/* Any program that is recorded, or that the doctor is pointed at. */
#include <stdint.h>
#include <string.h>

#include "collect/binaries/allocator_hooks.h"
#include "collect/binaries/elf_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_facts facts;
	struct live_hooks hooks;

	if (elf_facts_of(span_of(data, size), &facts) &&
	    (facts.build_id_bytes > sizeof facts.build_id ||
	     (facts.linked_in && !strlen(facts.linked_in))))
		__builtin_trap();
	if (allocator_hooks_of(span_of(data, size), span_of(data, size), &hooks) &&
	    (hooks.program == 0 || hooks.mallctl == 0 || hooks.pages_bytes > 1 << 16))
		__builtin_trap();
	return 0;
}
