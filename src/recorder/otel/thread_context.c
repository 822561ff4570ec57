/* SPDX-License-Identifier: Apache-2.0 */
/* See thread_context.h.
 *
 * Owns: where the loader has stored what it knows of the variable, for code that uses it (libc_tls_find). Nothing of the program's is
 * trusted, neither the pointer nor what it points to: all is read through the kernel. */
#include "recorder/otel/thread_context.h"

#include "recorder/api/labels.h"
#include "recorder/libc/libc.h"
#include "recorder/lookup.h"
#include "recorder/memory.h"

static const char variable[] = "otel_thread_ctx_v1";

enum { ATTRIBUTES_MAX = 2048 }; /* 612 are recommended */
struct otel_attributes {
	uint8_t bytes[ATTRIBUTES_MAX + 1];
};

/* Written under the loader's lock, each by itself: a reader that sees an old one beside a new one finds no context, or an unreadable
 * one. A forked child has the same. */
static uintptr_t words; /* 0: not found yet */
static uint32_t relocation;
static uintptr_t own_offset; /* of an executable's variable; then `words` points here */

void otel_start(const char *keys)
{
	otel_keys_start(keys);
	/* Until a sample has found a context. */
	memory.head->health[HEALTH_otel_no_context] = otel_key_count != 0;
}

/* ---- where the variable is ---- */

static void set_words(uintptr_t at, uint32_t type)
{
	__atomic_store_n(&relocation, type, __ATOMIC_RELAXED);
	__atomic_store_n(&words, at, __ATOMIC_RELEASE);
}

static bool is_of_variable(const struct lookup_relocations *all, const Elf64_Rela *entry)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(entry->r_info);

	return (type == ARCH_RELOCATION_TLS_OFFSET || type == ARCH_RELOCATION_TLS_DESCRIPTOR ||
		type == ARCH_RELOCATION_TLS_MODULE) &&
	       lookup_relocation_is(all, entry, variable);
}

static void visit(const struct libc_object *map)
{
	struct lookup_relocations all;
	const Elf64_Sym *own = libc_is_executable(map) ? lookup_tls_in(map, variable) : NULL;
	uintptr_t at;

	/* The linker has replaced the relocations of an executable's own variables, which are in the static block. */
	if (own != NULL && libc_tls_find_in_executable(memory.head->pid, own->st_value, &at)) {
		own_offset = at - arch_thread_pointer();
		set_words((uintptr_t)&own_offset, ARCH_RELOCATION_TLS_OFFSET);
	}
	if (own != NULL || !lookup_relocations(map, &all))
		return;
	for (int k = 0; k < 2; k++) {
		for (uint64_t i = 0; i < all.table[k].count; i++) {
			const Elf64_Rela *entry = &all.table[k].at[i];

			if (is_of_variable(&all, entry)) {
				set_words(libc_bias(map) + entry->r_offset,
					  (uint32_t)ELF64_R_TYPE(entry->r_info));
				return;
			}
		}
	}
}

void otel_visit_all(void)
{
	for (const struct libc_object *map = otel_key_count != 0 ? libc_first_object() : NULL;
	     map != NULL && words == 0; map = libc_next_object(map))
		visit(map);
}

void otel_visit(uintptr_t address)
{
	struct libc_found found;

	if (otel_key_count == 0 || (words != 0 && libc_find(words, &found)))
		return; /* the first one, until it is unloaded */
	if (libc_find(address, &found))
		visit(found.object);
}

/* The calling thread's record; 0: none. False: unreadable. */
static bool record_here(uintptr_t *ret)
{
	uintptr_t at = __atomic_load_n(&words, __ATOMIC_ACQUIRE);

	*ret = 0;
	return at == 0 || (libc_tls_find(memory.head->pid,
					 __atomic_load_n(&relocation, __ATOMIC_RELAXED), at, &at) &&
			   (at == 0 || memory_read_safely(at, ret, sizeof *ret)));
}

/* ---- the record ---- */

struct record {
	uint8_t trace[16], span[8];
	uint8_t valid, flags; /* valid: 1, anything else is not */
	uint16_t attribute_bytes;
};
_Static_assert(sizeof(struct record) == 28, "attributes follow");

/* Where the values of the requested keys are: the last one of each. */
struct values {
	uint16_t at[LIVE_OTEL_KEYS];
	uint8_t bytes[LIVE_OTEL_KEYS]; /* 0: none */
};

/* Stops at an incomplete entry. False: there are keys that the table does not have. */
static bool find_values(const uint8_t *a, uint32_t bytes, struct values *ret)
{
	uint32_t known = otel_keys_known();
	bool all = true;

	for (uint32_t at = 0; at + 2 <= bytes && at + 2 + a[at + 1] <= bytes;
	     at += 2u + a[at + 1]) {
		all &= a[at] < known;
		for (uint32_t i = 0; i < otel_key_count; i++) {
			if (otel_key_is(i, a[at])) {
				ret->at[i] = (uint16_t)(at + 2);
				ret->bytes[i] = a[at + 1];
			}
		}
	}
	return all;
}

/* False: it cannot be read. */
static bool read_values(struct otel_attributes *to, uintptr_t at, struct values *ret)
{
	struct record record;

	if (!memory_read_safely(at, &record, sizeof record))
		return false;
	if (record.valid != 1 || record.attribute_bytes == 0)
		return true;
	return to != NULL && record.attribute_bytes <= ATTRIBUTES_MAX &&
	       memory_read_safely(at + sizeof record, to->bytes, record.attribute_bytes) &&
	       find_values(to->bytes, record.attribute_bytes, ret);
}

uint32_t otel_tag(struct slot *slot, uint32_t tag)
{
	uintptr_t record;
	struct values values = { 0 };
	bool readable = record_here(&record);

	if (readable && record == 0)
		return tag;
	if (memory.head->health[HEALTH_otel_no_context] != 0)
		memory.head->health[HEALTH_otel_no_context] = 0;
	if (slot->otel == NULL)
		slot->otel = memory_scratch(sizeof *slot->otel);
	if (!readable || !read_values(slot->otel, record, &values))
		health_add(HEALTH_otel_unread);
	for (uint32_t i = 0; i < otel_key_count; i++) {
		if (values.bytes[i] == 0 || slot->otel->bytes[values.at[i]] == 0)
			continue;
		uint8_t *value = &slot->otel->bytes[values.at[i]];

		value[values.bytes[i]] = 0; /* the next entry's key, which is no longer needed */
		if (!labels_with(slot, &tag, otel_key(i), (const char *)value))
			health_add(HEALTH_lost_tags);
	}
	return tag;
}
