/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a log, sorts its lines and joins them. Why does it need three times the memory of the log?
 *
 *     cc -g -o peak peak.c && heapgauge record -o peak.hg ./peak */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 100000

static char *read_line(unsigned number)
{
	char text[128];

	snprintf(text, sizeof text, "%08x a line of the log that is about as long as such lines are", number * 2654435761u);
	return strdup(text);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join(char **lines, size_t count)
{
	size_t capacity = 4096, used = 0;
	char *text = malloc(capacity);

	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(lines[i]);

		if (used + length + 2 > capacity)
			text = realloc(text, capacity *= 2);
		memcpy(text + used, lines[i], length);
		used += length;
		text[used++] = '\n';
	}
	text[used] = '\0';
	return text;
}

int main(void)
{
	char **lines = malloc(LINES * sizeof *lines);
	char *text;

	for (unsigned i = 0; i < LINES; i++)
		lines[i] = read_line(i);
	qsort(lines, LINES, sizeof *lines, by_text);
	text = join(lines, LINES);
	for (unsigned i = 0; i < LINES; i++)
		free(lines[i]);
	free(lines);
	printf("%zu bytes\n", strlen(text));
	free(text);
	return 0;
}
