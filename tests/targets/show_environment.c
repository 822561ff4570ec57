/* SPDX-License-Identifier: Apache-2.0 */
/* Prints its arguments but the first, and its environment, as libc and as the words above the arguments show it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv, char **envp)
{
	printf("  %d arguments", argc);
	for (int i = 1; i < argc; i++)
		printf(" %s", argv[i]);
	printf(", environment");
	for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
		printf(" %s", *entry);
	printf(", %s\n", envp == environ && argv + argc + 1 == envp ? "in its place" : "elsewhere");
	return 0;
}
