/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ours that nothing behind us defines: they are withdrawn, so that whoever looks for them finds what would be
 * found without us. It matters for the C++ operators. In a C program nobody defines them, but a plugin may bring its own;
 * would it find ours, we could not tell whose are meant: after a jump the return address is another object's.
 *
 * A name is withdrawn by making its entry in our own symbol table an undefined one, which ld.so passes over. The table is
 * read-only memory of ours that holds no code. What the objects of the start were bound to before stays as it is: a weak
 * reference, since nothing else starts without a definition. */
#include "recorder/withdraw.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "format/live.h"
#include "recorder/sys.h"

/* Where we lie; from the linker, as _DYNAMIC is. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static Elf64_Sym *symbols; /* NULL: nothing can be withdrawn */
static const char *names;
static const uint32_t *hash; /* DT_GNU_HASH */

/* What a dynamic entry points to: ld.so may have added where the object lies, or not. */
static void *place(const Elf64_Dyn *entry)
{
	uintptr_t at = entry->d_un.d_ptr, base = (uintptr_t)__ehdr_start;

	return (void *)(at >= base ? at : base + at);
}

/* All of the table; it lies in front of the names. */
static bool protect(int protection)
{
	uintptr_t start = (uintptr_t)symbols & ~(uintptr_t)(LIVE_PAGE - 1);

	return !sys_failed(sys_mprotect((void *)start, (uintptr_t)names - start, protection));
}

void withdraw_begin(void)
{
	for (const Elf64_Dyn *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			symbols = place(entry);
		else if (entry->d_tag == DT_STRTAB)
			names = place(entry);
		else if (entry->d_tag == DT_GNU_HASH)
			hash = place(entry);
	}
	if (names == NULL || hash == NULL || (uintptr_t)symbols > (uintptr_t)names ||
	    !protect(PROT_READ | PROT_WRITE))
		symbols = NULL;
}

void withdraw_end(void)
{
	if (symbols != NULL)
		protect(PROT_READ);
	symbols = NULL;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t value = 5381;

	for (; *name; name++)
		value = value * 33 + (unsigned char)*name;
	return value;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* Our own entry of a name; NULL: not ours. */
static Elf64_Sym *find(const char *name)
{
	uint32_t buckets = hash[0], first = hash[1], bloom_words = hash[2];
	const uint32_t *bucket = hash + 4 + 2 * bloom_words;
	const uint32_t *chain = bucket + buckets;
	uint32_t value = gnu_hash(name), i = bucket[value % buckets];

	for (; i >= first && i != 0; i++) {
		if ((chain[i - first] | 1) == (value | 1) && same(names + symbols[i].st_name, name))
			return &symbols[i];
		if (chain[i - first] & 1)
			break;
	}
	return NULL;
}

void withdraw(const char *name)
{
	Elf64_Sym *symbol = symbols != NULL ? find(name) : NULL;

	if (symbol == NULL)
		return;
	__atomic_store_n(&symbol->st_value, 0, __ATOMIC_RELAXED);
	symbol->st_shndx = SHN_UNDEF;
}
