/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporters share. Nothing here knows a format. */
#include "export/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "util/files.h"

int no_memory(struct error *error)
{
	return error_set(error, "out of memory");
}

static size_t hash_pointer(const void *item)
{
	return (size_t)(((uintptr_t)item >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

static bool grow(struct numbering *n)
{
	size_t wanted = n->slot_count ? n->slot_count * 2 : 256;
	uint32_t *slots = calloc(wanted, sizeof *slots);

	if (!slots)
		return false;
	for (size_t i = 0; i < n->items.count; i++) {
		size_t at = hash_pointer(n->items.at[i]) & (wanted - 1);

		while (slots[at])
			at = (at + 1) & (wanted - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(n->slots);
	n->slots = slots;
	n->slot_count = wanted;
	return true;
}

size_t number_of(struct numbering *n, const void *item)
{
	if (n->items.count * 2 >= n->slot_count && !grow(n))
		return SIZE_MAX;
	size_t at = hash_pointer(item) & (n->slot_count - 1);

	for (; n->slots[at]; at = (at + 1) & (n->slot_count - 1))
		if (n->items.at[n->slots[at] - 1] == item)
			return n->slots[at] - 1;
	if (!vector_push(&n->items, item))
		return SIZE_MAX;
	n->slots[at] = (uint32_t)n->items.count;
	return n->items.count - 1;
}

void numbering_release(struct numbering *n)
{
	vector_release(&n->items);
	free(n->slots);
	*n = (struct numbering){ 0 };
}

int entry_stack(const struct export_input *in, const struct entry *e, struct stack_scratch *scratch,
		struct place_chain *ret)
{
	scratch->places.count = 0;
	for (node_id n = e->site->node; n.v; n = profile_node(e->process, n).parent) {
		struct place_chain chain = places_of(in->places, e->process, n);

		if (!chain.at || !vector_reserve(&scratch->places, chain.count))
			return -1;
		for (size_t i = 0; i < chain.count; i++)
			scratch->places.at[scratch->places.count++] = chain.at[i];
	}
	*ret = (struct place_chain){ scratch->places.at, scratch->places.count };
	return 0;
}

void stack_scratch_release(struct stack_scratch *scratch)
{
	vector_release(&scratch->places);
}

void write_safe(FILE *out, const char *text, const char *bad, char instead)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		fputc(c < 0x20 || c == 0x7f || strchr(bad, *text) ? instead : *text, out);
	}
}

void write_valgrind_frame(FILE *out, const struct place *place)
{
	const struct result_frame *f = &place->frame;

	fprintf(out, "0x%" PRIX64 ": ", f->offset);
	/* Parentheses end a name there: those of C++ go. */
	write_safe(out, f->function, "", ' ');
	if (f->file && f->line)
		fprintf(out, " (%s:%" PRIu32 ")", path_base(f->file), f->line);
	else if (f->module[0])
		fprintf(out, " (in %s)", f->module);
	else
		fputs(" (in unknown)", out);
}
