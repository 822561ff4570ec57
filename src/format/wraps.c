/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the functions to wrap: format/wraps.h. The collector parses them to reject invalid ones, the recorder to wrap them.
 * Pure; any thread; for any text, each call advances or ends. */
#include "format/wraps.h"

#include <stdint.h>

#include "base/compiler.h"

static const struct {
	const char *word;
	enum wrap_shape shape;
} words[] = {
	{ "malloc", WRAP_MALLOC },
	{ "free", WRAP_FREE },
	{ "calloc", WRAP_CALLOC },
	{ "realloc", WRAP_REALLOC },
	{ "reallocarray", WRAP_REALLOCARRAY },
	{ "aligned_alloc", WRAP_ALIGNED_ALLOC },
	{ "memalign", WRAP_ALIGNED_ALLOC },
	{ "posix_memalign", WRAP_POSIX_MEMALIGN },
	{ "valloc", WRAP_MALLOC },
	{ "pvalloc", WRAP_MALLOC },
	{ "strdup", WRAP_STRDUP },
	{ "strndup", WRAP_STRDUP },
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '.';
}

static size_t name_bytes(const char *text)
{
	size_t n = 0;

	while (is_name(text[n]))
		n++;
	return n;
}

static bool is_word(struct wrap_text text, const char *word)
{
	size_t i = 0;

	while (i < text.bytes && word[i] && text.at[i] == word[i])
		i++;
	return i == text.bytes && word[i] == 0;
}

static bool fail(struct wraps *w)
{
	w->wrong = w->text;
	w->text = "";
	return false;
}

/* "NAME=" at the start of a group. */
static void begin_group(struct wraps *w)
{
	size_t n = 0;

	w->begun = true;
	w->pool = (struct wrap_text){ 0 };
	while (w->text[n] && w->text[n] != '=' && w->text[n] != ',' && w->text[n] != ';' &&
	       w->text[n] != ':')
		n++;
	if (w->text[n] == '=' && n > 0) {
		w->pool = (struct wrap_text){ w->text, n };
		w->text += n + 1;
	}
}

/* Parses the separator after an item. False: there is something else. */
static bool end_item(struct wraps *w)
{
	w->word = 0;
	if (*w->text == ';') {
		w->begun = false;
		w->group++;
	}
	if (*w->text == 0)
		return true;
	if (*w->text != ',' && *w->text != ';')
		return false;
	w->text++;
	return *w->text != 0;
}

static bool next_of_prefix(struct wraps *w, struct wrap_text prefix, struct wrap_item *ret)
{
	const char *word = words[w->word].word;

	if (w->pool.at == NULL)
		w->pool = prefix;
	*ret = (struct wrap_item){ .shape = words[w->word].shape,
				   .name = prefix,
				   .rest = { word, 0 },
				   .pool = w->pool,
				   .group = w->group,
				   .by_prefix = true };
	while (word[ret->rest.bytes])
		ret->rest.bytes++;
	if (++w->word < ARRAY_SIZE(words))
		return true;
	w->text += prefix.bytes + 1;
	return end_item(w) || fail(w);
}

bool wraps_next(struct wraps *w, struct wrap_item *ret)
{
	if (*w->text == 0)
		return false;
	if (!w->begun)
		begin_group(w);
	struct wrap_text first = { w->text, name_bytes(w->text) };

	if (first.bytes > 0 && first.bytes <= WRAPS_NAME_MAX && w->text[first.bytes] == '*')
		return next_of_prefix(w, first, ret);
	struct wrap_text function = { first.at + first.bytes + 1, 0 };

	if (w->text[first.bytes] == ':')
		function.bytes = name_bytes(function.at);
	size_t shape = 0;

	while (shape < ARRAY_SIZE(words) && !is_word(first, words[shape].word))
		shape++;
	if (shape == ARRAY_SIZE(words) || function.bytes == 0 || function.bytes > WRAPS_NAME_MAX)
		return fail(w);
	if (w->pool.at == NULL)
		w->pool = function;
	*ret = (struct wrap_item){
		.shape = words[shape].shape, .name = function, .pool = w->pool, .group = w->group
	};
	w->text = function.at + function.bytes;
	return end_item(w) || fail(w);
}
