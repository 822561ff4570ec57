/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOKENS_H
#define TOKENS_H

#include <stddef.h>

struct tokens {
	char **words;
	size_t count;
};

struct tokens tokens_split(const char *text);
void tokens_free(struct tokens *tokens);

#endif
