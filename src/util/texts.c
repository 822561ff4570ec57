/* SPDX-License-Identifier: Apache-2.0 */
/* A string table, and an index of the texts already in it: see texts.h. */
#include "util/texts.h"

#include <string.h>

void texts_release(struct texts *texts)
{
	buffer_release(&texts->bytes);
	intern_release(&texts->known);
}

uint32_t texts_add_span(struct texts *texts, struct span text)
{
	struct intern_entry *entry;

	if (texts->bytes.size == 0)
		buffer_char(&texts->bytes, 0);
	if (text.size == 0)
		return 0;
	entry = intern_entry(&texts->known, text);
	if (!entry || texts->bytes.size > UINT32_MAX - text.size - 1)
		texts->bytes.failed = true;
	if (texts->bytes.failed)
		return 0;
	if (!entry->value) {
		entry->value = (void *)(uintptr_t)texts->bytes.size;
		buffer_append(&texts->bytes, text.data, text.size);
		buffer_char(&texts->bytes, 0);
	}
	return (uint32_t)(uintptr_t)entry->value;
}

uint32_t texts_add(struct texts *texts, const char *text)
{
	return texts_add_span(texts, span_of(text, text ? strlen(text) : 0));
}
