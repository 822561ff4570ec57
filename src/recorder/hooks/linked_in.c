/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of an allocator inside the executable. The collector has found its functions in the file that it started; the settings
 * also reach the programs that this one starts, so the addresses are used only if this is the same program.
 *
 * Owns: the variables in linked_in.h, written once, by linked_in_install. */
#include "recorder/hooks/linked_in.h"

#include <sys/auxv.h>

#include "format/live/live_hooks.h"
#include "recorder/libc/libc.h"
#include "recorder/process/settings.h"
#include "recorder/sys.h"

char linked_in_name[LINKED_IN_NAME];
uintptr_t linked_in_pages, linked_in_pages_bytes;
uintptr_t linked_in_entry, linked_in_entry_bytes;

bool linked_in_is_expected(void)
{
	const Elf64_Phdr *headers = (const Elf64_Phdr *)sys_auxiliary(AT_PHDR);

	return settings.hooks.program != 0 && headers != NULL &&
	       sys_auxiliary(AT_PHENT) == sizeof *headers &&
	       settings.hooks.program ==
		       live_program_id(headers, sys_auxiliary(AT_PHNUM),
				       (const char *)libc_bias(libc_first_object()), true);
}

void *linked_in_function(uint64_t address)
{
	return address != 0 ? (void *)(libc_bias(libc_first_object()) + address) : NULL;
}
