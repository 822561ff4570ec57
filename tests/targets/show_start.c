/* SPDX-License-Identifier: Apache-2.0 */
/* Prints which of the recorder's variables it was started with, by what the kernel kept, and which it sees. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = { "LD_PRELOAD=", "HEAPGAUGE_" };

int main(void)
{
	static char text[1 << 20];
	int fd = open("/proc/self/environ", O_RDONLY);
	ssize_t bytes = read(fd, text, sizeof text - 1);

	for (unsigned i = 0; i < 2; i++)
		for (char *at = text; at < text + bytes; at += strlen(at) + 1)
			if (strncmp(at, names[i], strlen(names[i])) == 0)
				printf("started with %s\n", names[i]);
	for (unsigned i = 0; i < 2; i++)
		for (char **entry = environ; *entry; entry++)
			if (strncmp(*entry, names[i], strlen(names[i])) == 0)
				printf("sees %s\n", names[i]);
	puts("program");
	return 0;
}
