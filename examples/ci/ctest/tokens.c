/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tokens.h"

struct tokens tokens_split(const char *text)
{
	struct tokens tokens = {NULL, 0};

	while (*text) {
		size_t length = strcspn(text, " ");

		tokens.words = realloc(tokens.words, (tokens.count + 1) * sizeof *tokens.words);
		tokens.words[tokens.count++] = strndup(text, length);
		text += length + (text[length] == ' ');
	}
	return tokens;
}

void tokens_free(struct tokens *tokens)
{
	for (size_t i = 0; i < tokens->count; i++)
		free(tokens->words[i]);
	free(tokens->words);
}
