/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a jemalloc inside the executable. The collector has found its functions in the file that it started; the settings
 * also reach the programs that this one starts, so the addresses are used only if this is the same program.
 *
 * Owns: the variables in jemalloc.h, written once, by jemalloc_install. */
#include "recorder/hooks/jemalloc.h"

#include <sys/auxv.h>

#include "recorder/libc/libc.h"
#include "recorder/process/settings.h"
#include "recorder/sys.h"

char jemalloc_version[8];
uintptr_t jemalloc_pages, jemalloc_pages_bytes;
uintptr_t jemalloc_operators, jemalloc_operators_bytes;

bool jemalloc_is_expected(void)
{
	const Elf64_Phdr *headers = (const Elf64_Phdr *)sys_auxiliary(AT_PHDR);

	return settings.hooks.program != 0 && headers != NULL &&
	       sys_auxiliary(AT_PHENT) == sizeof *headers &&
	       settings.hooks.program ==
		       live_program_id(headers, sys_auxiliary(AT_PHNUM),
				       (const char *)libc_bias(libc_first_object()), true);
}
