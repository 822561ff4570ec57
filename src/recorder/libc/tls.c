/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a thread-local variable, from the words that the loader has stored for code that uses it. __tls_get_addr may allocate
 * and take the loader's lock; this does neither: where that function would allocate the thread's block, there is none yet.
 *
 * No state. All is read through the kernel: the object may be unloaded meanwhile, and if the loader is resizing the thread's vector of
 * blocks, the vector is already freed when the allocation is recorded. */
#include "recorder/libc/libc.h"
#include "recorder/sys.h"

/* How a TLS descriptor refers to a module that is not in the static block; __tls_get_addr has the first two words. */
struct tls_index {
	uint64_t module, at;
	uint64_t generation; /* of the vector in which the module has its entry */
};

/* glibc's vector has an entry for each module. Entry 0 is its generation, the one before it the number of entries. */
struct tls_entry {
	uintptr_t block, to_free;
};

static bool find_block(long pid, const struct tls_index *index, uintptr_t *ret)
{
	const uintptr_t unallocated = UINTPTR_MAX;
	uintptr_t vector = *(const uintptr_t *)(arch_thread_pointer() + ARCH_TLS_VECTOR_AT);
	struct tls_entry head[2] = { 0 }, entry = { 0 };

	*ret = 0;
	if (libc_is_musl() || !sys_read_safely(pid, vector - sizeof head[0], head, sizeof head))
		return false;
	if (index->module > head[0].block || index->generation > head[1].block)
		return true;
	if (!sys_read_safely(pid, vector + index->module * sizeof entry, &entry, sizeof entry))
		return false;
	if (entry.block != unallocated && entry.block != 0)
		*ret = entry.block + index->at;
	return true;
}

bool libc_tls_find(long pid, uint32_t relocation, uintptr_t words, uintptr_t *ret)
{
	struct tls_index index = { 0 };
	uintptr_t word[2] = { 0 };
	bool is_offset = relocation == ARCH_RELOCATION_TLS_OFFSET;

	if (!sys_read_safely(pid, words, word, is_offset ? sizeof word[0] : sizeof word))
		return false;
	if (is_offset ||
	    (relocation == ARCH_RELOCATION_TLS_DESCRIPTOR && arch_is_static_tls(word[1]))) {
		*ret = arch_thread_pointer() + word[is_offset ? 0 : 1];
		return true;
	}
	if (relocation == ARCH_RELOCATION_TLS_MODULE)
		index = (struct tls_index){ word[0], word[1], 0 };
	else if (!sys_read_safely(pid, word[1], &index, sizeof index))
		return false;
	return find_block(pid, &index, ret);
}

bool libc_tls_find_in_executable(long pid, uint64_t value, uintptr_t *ret)
{
	enum { EXECUTABLE = 1 }; /* its module, if it has thread-local variables */

	return find_block(pid, &(struct tls_index){ EXECUTABLE, value, 0 }, ret);
}
