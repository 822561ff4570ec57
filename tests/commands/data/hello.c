/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Builds and frees a list. */
int main(void)
{
	char **rows = calloc(1000, sizeof *rows);
	size_t bytes = 0;

	for (int i = 0; i < 1000; i++) {
		rows[i] = malloc(20);
		snprintf(rows[i], 20, "row %d", i * 7);
		bytes += strlen(rows[i]);
	}
	for (int i = 0; i < 1000; i++)
		free(rows[i]);
	free(rows);
	printf("%zu bytes\n", bytes);
	return 0;
}
