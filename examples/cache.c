/* SPDX-License-Identifier: Apache-2.0 */
/* A service that keeps every answer, because somebody might ask again. Run it with a limit of memory and it is killed:
 *
 *     cc -g -o cache cache.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct answer {
	struct answer *next;
	unsigned key;
	char *text;
};

static struct answer *answers[4096];

static char *compute(unsigned key)
{
	char *text = malloc(8000);

	memset(text, 'x', 7999);
	text[7999] = '\0';
	snprintf(text, 8000, "the answer to %u", key);
	return text;
}

static const char *remember(unsigned key)
{
	struct answer *answer = malloc(sizeof *answer);

	answer->key = key;
	answer->text = compute(key);
	answer->next = answers[key % 4096];
	answers[key % 4096] = answer;
	return answer->text;
}

static const char *ask(unsigned key)
{
	for (struct answer *answer = answers[key % 4096]; answer; answer = answer->next)
		if (answer->key == key)
			return answer->text;
	return remember(key);
}

int main(int argc, char **argv)
{
	unsigned questions = argc > 1 ? (unsigned)atoi(argv[1]) : 40000;
	size_t length = 0;

	for (unsigned i = 0; i < questions; i++)
		length += strlen(ask(i));
	printf("%zu characters\n", length);
	return 0;
}
