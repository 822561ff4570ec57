/* SPDX-License-Identifier: Apache-2.0 */
/* See thread_context.h.
 *
 * Owns: where the variable is. The loader has stored that for the code that uses the variable: as an offset from the thread pointer
 * if it is in the static TLS block, else as a module and an offset. A module's block is found in the thread's vector of blocks, as
 * __tls_get_addr finds it; where that function would allocate the block, there is no context yet. Nothing of the program's is trusted: not the
 * pointer, not the record, not the block, which all are read through the kernel. */
#include "recorder/otel/thread_context.h"

#include <elf.h>

#include "recorder/api/labels.h"
#include "recorder/libc/libc.h"
#include "recorder/lookup.h"
#include "recorder/memory.h"

static const char variable[] = "otel_thread_ctx_v1";

enum { ATTRIBUTES_MAX = 2048 }; /* 612 are recommended */
struct otel_area {
	uint8_t window[OTEL_WINDOW];
	uint8_t attributes[ATTRIBUTES_MAX + 1];
};

/* How a TLS descriptor refers to a module that is not in the static block, and how __tls_get_addr is called. */
struct tls_index {
	uint64_t module, at;
	uint64_t
		generation; /* of the vector in which the module has its entry; not of __tls_get_addr */
};

/* Written under the loader's lock. A forked child has the same. */
static struct {
	uintptr_t user; /* the dynamic section of the object in which this was found; 0: none yet */
	intptr_t offset; /* from the thread pointer; 0: see `dynamic` */
	struct tls_index dynamic;
} place;

void otel_start(const char *keys)
{
	otel_keys_start(keys);
	/* Until a sample has found the variable. */
	memory.head->health[HEALTH_otel_no_context] = otel_key_count != 0;
}

/* ---- where it is ---- */

/* The object may have been unloaded. */
static bool is_loaded(uintptr_t dynamic)
{
	struct libc_found found;

	return dynamic != 0 && libc_find(dynamic, &found) &&
	       (uintptr_t)libc_dynamic(found.object) == dynamic;
}

static void set_place(const struct libc_object *user, intptr_t offset, struct tls_index dynamic)
{
	__atomic_store_n(&place.user, 0, __ATOMIC_SEQ_CST);
	place.offset = offset;
	place.dynamic = dynamic;
	__atomic_store_n(&place.user, (uintptr_t)libc_dynamic(user), __ATOMIC_RELEASE);
}

/* The block of a module in the calling thread; 0: it has none yet. */
static uintptr_t block_of(const struct tls_index *index)
{
	uintptr_t vector = libc_tls_vector();
	struct libc_tls_entry head[2], entry; /* head: the vector's length and generation */

	if (!memory_read_safely(vector - sizeof head[0], head, sizeof head) ||
	    index->module > head[0].block || index->generation > head[1].block ||
	    !memory_read_safely(vector + index->module * sizeof entry, &entry, sizeof entry) ||
	    entry.block == LIBC_TLS_UNALLOCATED)
		return 0;
	return entry.block;
}

/* What the loader has stored for a relocation. False: it is not of the variable. */
static bool read_relocation(const struct libc_object *map, const struct lookup_relocations *all,
			    const Elf64_Rela *relocation)
{
	const uintptr_t *word = (const uintptr_t *)(libc_bias(map) + relocation->r_offset);
	uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
	struct tls_index dynamic = { 0 };

	if ((type != ARCH_RELOCATION_TLS_OFFSET && type != ARCH_RELOCATION_TLS_DESCRIPTOR &&
	     type != ARCH_RELOCATION_TLS_MODULE) ||
	    !lookup_relocation_is(all, relocation, variable))
		return false;
	if (type == ARCH_RELOCATION_TLS_MODULE)
		set_place(map, 0, (struct tls_index){ word[0], word[1], 0 });
	else if (type == ARCH_RELOCATION_TLS_OFFSET)
		set_place(map, (intptr_t)word[0], dynamic);
	else if (arch_is_static_tls(word[1]))
		set_place(map, (intptr_t)word[1], dynamic);
	else if (memory_read_safely(word[1], &dynamic, sizeof dynamic))
		set_place(map, 0, dynamic);
	return true;
}

static void visit(const struct libc_object *map)
{
	struct lookup_relocations all;
	const Elf64_Sym *own = libc_is_executable(map) ? lookup_tls_in(map, variable) : NULL;

	/* The linker has replaced the relocations of an executable's own variables. */
	if (own != NULL) {
		uintptr_t block = block_of(&(struct tls_index){ LIBC_TLS_EXECUTABLE });

		if (block != 0)
			set_place(map, (intptr_t)(block + own->st_value - arch_thread_pointer()),
				  (struct tls_index){ 0 });
		return;
	}
	if (!lookup_relocations(map, &all))
		return;
	for (int k = 0; k < 2; k++) {
		for (uint64_t i = 0; i < all.table[k].count; i++) {
			if (read_relocation(map, &all, &all.table[k].at[i]))
				return;
		}
	}
}

void otel_visit_all(void)
{
	for (const struct libc_object *map = otel_key_count != 0 ? libc_first_object() : NULL;
	     map != NULL && place.user == 0; map = libc_next_object(map))
		visit(map);
}

void otel_visit(uintptr_t address)
{
	struct libc_found found;

	if (otel_key_count != 0 && !is_loaded(place.user) && libc_find(address, &found))
		visit(found.object);
}

/* The calling thread's record; 0: none. False: the variable is unreadable. */
static bool record_here(uintptr_t *ret)
{
	*ret = 0;
	if (place.offset != 0) {
		*ret = *(const uintptr_t *)(arch_thread_pointer() + (uintptr_t)place.offset);
		return true;
	}
	uintptr_t block = block_of(&place.dynamic);

	return block == 0 || memory_read_safely(block + place.dynamic.at, ret, sizeof *ret);
}

/* ---- the record ---- */

struct record {
	uint8_t trace[16], span[8];
	uint8_t valid, flags; /* valid: 1, anything else is not */
	uint16_t attribute_bytes;
};
_Static_assert(sizeof(struct record) == 28, "attributes follow");

/* The values of the requested keys in the area: the last one of each. */
struct values {
	uint16_t at[LIVE_OTEL_KEYS];
	uint8_t bytes[LIVE_OTEL_KEYS]; /* 0: none */
};

/* Returns the number of keys that the table must have for these attributes. */
static uint32_t find_values(const struct otel_area *area, uint32_t bytes, struct values *ret)
{
	const uint8_t *a = area->attributes;
	uint32_t needed = 0;

	*ret = (struct values){ 0 };
	for (uint32_t at = 0; at + 2 <= bytes && at + 2 + a[at + 1] <= bytes;
	     at += 2u + a[at + 1]) {
		needed = MAX(needed, a[at] + 1u);
		for (uint32_t i = 0; i < otel_key_count; i++) {
			if (otel_key_is(i, a[at])) {
				ret->at[i] = (uint16_t)(at + 2);
				ret->bytes[i] = a[at + 1];
			}
		}
	}
	return needed;
}

/* False: it cannot be read. */
static bool read_values(struct otel_area *area, uintptr_t at, struct values *ret)
{
	struct record record;

	*ret = (struct values){ 0 };
	if (!memory_read_safely(at, &record, sizeof record))
		return false;
	if (record.valid != 1 || record.attribute_bytes == 0)
		return true;
	if (record.attribute_bytes > ATTRIBUTES_MAX ||
	    !memory_read_safely(at + sizeof record, area->attributes, record.attribute_bytes))
		return false;
	uint32_t needed = find_values(area, record.attribute_bytes, ret);

	if (needed > otel_keys_known() && otel_keys_refresh(area->window))
		find_values(area, record.attribute_bytes, ret);
	return otel_keys_known() != 0;
}

uint32_t otel_tag(struct slot *slot, uint32_t tag)
{
	uintptr_t record;
	struct values values;

	if (!is_loaded(__atomic_load_n(&place.user, __ATOMIC_ACQUIRE)))
		return tag;
	if (UNLIKELY(memory.head->health[HEALTH_otel_no_context] != 0))
		memory.head->health[HEALTH_otel_no_context] = 0;
	bool known = record_here(&record);

	if (known && record == 0)
		return tag;
	if (slot->otel == NULL)
		slot->otel = memory_scratch(sizeof *slot->otel);
	if (!known || slot->otel == NULL || !read_values(slot->otel, record, &values)) {
		health_add(HEALTH_otel_unread);
		return tag;
	}
	for (uint32_t i = 0; i < otel_key_count; i++) {
		uint8_t *value = &slot->otel->attributes[values.at[i]];

		if (values.bytes[i] == 0 || value[0] == 0)
			continue;
		value[values.bytes[i]] = 0; /* the next entry's key, which is no longer needed */
		if (!labels_with(slot, &tag, otel_key(i), (const char *)value))
			health_add(HEALTH_lost_tags);
	}
	return tag;
}
