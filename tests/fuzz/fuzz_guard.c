/* SPDX-License-Identifier: Apache-2.0 */
/* links: serve util base */
/*
 * Headers of a request, from anybody: without a secret nobody passes, whatever they say. The same bytes as data of a
 * page never end its script element.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "serve/guard.h"
#include "serve/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char page[] = "<script type=\"application/json\" id=\"heapgauge-data\">null</script>";

static void check_page(const uint8_t *data, size_t size)
{
	struct buffer out = BUFFER_INIT;

	if (!page_fill_in(&out, span_of(page, strlen(page)), "", span_of(data, size)))
		abort();
	const char *end = memmem(out.data, out.size, "</", 2);

	if (!end || (size_t)(end - (const char *)out.data) != out.size - strlen("</script>") ||
	    memmem(out.data, out.size, "<!--", 4))
		abort();
	buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { FIELDS = 6 };
	static struct guard guard;
	char *text = malloc(size + 1), *rest = text;
	const char *fields[FIELDS] = { 0 };

	if (!guard.token[0] && !guard_init(&guard, "box", true))
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t i = 0; i < FIELDS && rest; i++)
		fields[i] = strsep(&rest, "\n");
	const struct guard_request request = { .path = fields[0] ? fields[0] : "/",
					       .host = fields[1],
					       .origin = fields[2],
					       .fetch_site = fields[3],
					       .cookie = fields[4],
					       .token = fields[5] };
	enum guard_verdict verdict = guard_check(&guard, &request);

	if (verdict == GUARD_PASS || verdict == GUARD_ENTER)
		abort();
	free(text);
	check_page(data, size);
	return 0;
}
