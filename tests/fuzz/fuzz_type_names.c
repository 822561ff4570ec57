/* links: analysis util base */
/* SPDX-License-Identifier: Apache-2.0 */
/* Names come from other people's binaries: whatever they are, reading them ends and stays inside. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/result/type_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(struct span part, const char *text, size_t length)
{
	if (part.size &&
	    ((const char *)part.data < text || (const char *)part.data + part.size > text + length))
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct span arguments[8];
	struct buffer out = BUFFER_INIT;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	size_t length = strlen(text);
	struct span name = name_qualified(text), subject = name_subject(name);

	check_inside(name, text, length);
	check_inside(subject, text, length);
	size_t count = name_arguments(subject, arguments, 8);

	for (size_t i = 0; i < count; i++)
		check_inside(arguments[i], text, length);
	if (name_begins(subject, "std::vector") > subject.size)
		__builtin_trap();
	type_append(&out, span_of(text, length));
	/* "..." for what is too deep, ", " and brackets: never much more than there was. */
	if (out.size > 4 * length + 64)
		__builtin_trap();
	buffer_release(&out);
	free(text);
	return 0;
}
