/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of web/, embedded in this program, and how data get into it.
 *
 * The page is one HTML file built by CMake (HEAPGAUGE_PAGE_FILE), with a placeholder for data and one for the nonce
 * of its scripts. The data come from recordings, whose names may contain anything: characters that could end the
 * script element or start a comment in it are written as JSON escapes.
 */
#include "serve/page.h"

#include <string.h>

#include "base/compiler.h"

static const char data_begin[] = "<script type=\"application/json\" id=\"heapgauge-data\">";
static const char data_inside[] = "null</script>";
static const char nonce_word[] = "__HEAPGAUGE_NONCE__";

#ifdef HEAPGAUGE_PAGE_FILE
__asm__(".pushsection .rodata\n"
	"heapgauge_page_begin: .incbin \"" HEAPGAUGE_PAGE_FILE "\"\n"
	"heapgauge_page_end: .byte 0\n"
	".popsection\n");
extern const uint8_t heapgauge_page_begin[] HIDDEN, heapgauge_page_end[] HIDDEN;

static struct span built_page(void)
{
	return span_of(heapgauge_page_begin,
		       (size_t)((uintptr_t)heapgauge_page_end - (uintptr_t)heapgauge_page_begin));
}
#else
static struct span built_page(void)
{
	return (struct span){ 0 };
}
#endif

bool page_is_built(void)
{
	return built_page().size != 0;
}

static void append_part(struct buffer *out, const uint8_t *at, const uint8_t *end,
			const char *nonce)
{
	const uint8_t *word;

	while ((word = memmem(at, (size_t)(end - at), nonce_word, strlen(nonce_word)))) {
		buffer_append(out, at, (size_t)(word - at));
		buffer_text(out, nonce);
		at = word + strlen(nonce_word);
	}
	buffer_append(out, at, (size_t)(end - at));
}

static void append_data(struct buffer *out, struct span data)
{
	const uint8_t *at = data.data, *end = at + data.size, *less;

	while (at < end && (less = memchr(at, '<', (size_t)(end - at)))) {
		bool risky = less + 1 == end || less[1] == '/' || less[1] == '!';

		buffer_append(out, at, (size_t)(less - at));
		buffer_text(out, risky ? "\\u003c" : "<");
		at = less + 1;
	}
	if (at < end)
		buffer_append(out, at, (size_t)(end - at));
}

bool page_fill_in(struct buffer *out, struct span page, const char *nonce, struct span data)
{
	const uint8_t *end = page.data + page.size;
	const uint8_t *begin =
		page.size ? memmem(page.data, page.size, data_begin, strlen(data_begin)) : NULL;

	if (!begin)
		return false;
	begin += strlen(data_begin);
	if ((size_t)(end - begin) < strlen(data_inside) ||
	    memcmp(begin, data_inside, strlen(data_inside)) != 0)
		return false;
	append_part(out, page.data, begin, nonce);
	append_data(out, data);
	append_part(out, begin + strlen("null"), end, nonce);
	return true;
}

bool page_fill(struct buffer *out, const char *nonce, struct span data)
{
	return page_fill_in(out, built_page(), nonce, data);
}
