/* SPDX-License-Identifier: Apache-2.0 */
/* Unexports those of our names that no later object defines, so that lookups find what they would find without us. This
 * matters for the C++ operators: a C program defines none, but a plugin may bring its own. If it found ours, we could not
 * know which definition was meant: after a jump the return address is in another object.
 *
 * To unexport a name, we make its entry in our own symbol table undefined; ld.so skips it. The table is in our read-only
 * memory and shares no page with code. Bindings of objects loaded at start-up stay: only weak references, since nothing else
 * starts without a definition. Nothing is unexported if we are part of the executable: it exports only what libraries define
 * too, and its table may share a page with its code. */
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
	uintptr_t before = start % sys_page();

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
