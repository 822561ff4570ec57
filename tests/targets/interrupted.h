/* SPDX-License-Identifier: Apache-2.0 */
/* For targets whose signal handlers allocate: what did the signal interrupt?
 *
 * glibc's malloc may not be called while it is itself interrupted, so a handler may allocate only when the interrupted
 * instruction is the program's own or the recorder's: legal for libc, and the hardest case for the recorder. */
#ifndef INTERRUPTED_H
#define INTERRUPTED_H
#include "target.h"
#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>

enum interrupted { IN_OTHER, IN_PROGRAM, IN_RECORDER };

struct text_range {
	uintptr_t start, end;
};
static struct text_range program_text, recorder_text;

static inline void note_range(char *line, const char *program)
{
	unsigned long start, end;
	char rights[5];
	struct text_range *range;

	if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3 || rights[2] != 'x')
		return;
	if (strstr(line, "libheapgauge"))
		range = &recorder_text;
	else if (strstr(line, program))
		range = &program_text;
	else
		return;
	range->start = start;
	range->end = end;
}

/* Reads /proc/self/maps; the recorder is absent in a bare run. */
static inline void interrupted_init(void)
{
	static char maps[1 << 16];
	char program[4096];
	size_t used = 0;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	for (ssize_t n; (n = read(fd, maps + used, sizeof maps - 1 - used)) > 0;)
		used += (size_t)n;
	close(fd);
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	CHECK(n > 0);
	program[n] = '\0';
	char *rest = maps;
	for (char *line; (line = strsep(&rest, "\n")) != NULL;)
		note_range(line, program);
	CHECK(program_text.start);
}

static inline enum interrupted interrupted_where(const void *context)
{
	const ucontext_t *uc = (const ucontext_t *)context;
#ifdef __aarch64__
	uintptr_t pc = uc->uc_mcontext.pc;
#else
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#endif

	if (pc >= program_text.start && pc < program_text.end)
		return IN_PROGRAM;
	return pc >= recorder_text.start && pc < recorder_text.end ? IN_RECORDER : IN_OTHER;
}
#endif
