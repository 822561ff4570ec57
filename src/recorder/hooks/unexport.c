/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ours that nothing behind us defines: they are unexported, so that whoever looks for them finds what would be
 * found without us. It matters for the C++ operators. In a C program nobody defines them, but a plugin may bring its own;
 * would it find ours, we could not know whose are meant: after a jump the return address is another object's.
 *
 * A name is unexported by making its entry in our own symbol table an undefined one, which ld.so passes over. The table is
 * read-only memory of ours that holds no code. What the objects of the start were bound to before stays as it is: a weak
 * reference, since nothing else starts without a definition. Where we are a part of the executable nothing is unexported: it
 * shows to others only what libraries define as well, and its table may lie in one page with its code. */
#include "recorder/hooks/unexport.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "recorder/lookup.h"
#include "recorder/unwind/modules.h"
#include "recorder/sys.h"

static bool can_write;

static bool protect(int protection)
{
	uintptr_t start, bytes;

	lookup_own_table(&start, &bytes);
	uintptr_t before = start % ARCH_PAGE;

	return bytes != 0 &&
	       !sys_failed(sys_mprotect((void *)(start - before), before + bytes, protection));
}

void unexport_begin(void)
{
	can_write = !modules_is_linked_in() && protect(PROT_READ | PROT_WRITE);
}

void unexport_end(void)
{
	if (can_write)
		protect(PROT_READ);
	can_write = false;
}

void unexport(const char *name)
{
	Elf64_Sym *symbol = can_write ? (Elf64_Sym *)(uintptr_t)lookup_own(name) : NULL;

	if (symbol == NULL)
		return;
	__atomic_store_n(&symbol->st_value, 0, __ATOMIC_RELAXED);
	symbol->st_shndx = SHN_UNDEF;
}
