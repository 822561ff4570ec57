/* links: cli */
/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor looks at any file that it is pointed at. */
#include <stdint.h>
#include <string.h>

#include "cli/doctor_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_facts facts;

	if (elf_facts_of(span_of(data, size), &facts) &&
	    (facts.build_id_bytes > sizeof facts.build_id ||
	     (facts.linked_in && !strlen(facts.linked_in))))
		__builtin_trap();
	return 0;
}
