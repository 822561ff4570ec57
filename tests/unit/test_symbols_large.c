/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/*
 * A hundred thousand frames of a program with half a gigabyte of debug information. Skipped unless
 * HEAPGAUGE_LARGE_PROGRAM names one and HEAPGAUGE_LARGE_DEBUG its debug folder; test_names_large.py
 * fetches them. Time is that of all threads together: on two cores the clock shows less.
 */
#include "unit.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

#include "base/compiler.h"
#include "symbols/symbolizer.h"

enum { FRAMES = 100000 };
static const double cold_seconds = 30, warm_seconds = 1;

struct program {
	const char *path, *debug;
	uint8_t build_id[32];
	size_t build_id_bytes;
	uint64_t low, high; /* of its code */
};

static bool find_program(struct program *p)
{
	const void *id;
	GElf_Phdr header;
	size_t count;

	p->path = getenv("HEAPGAUGE_LARGE_PROGRAM");
	p->debug = getenv("HEAPGAUGE_LARGE_DEBUG");
	if (!p->path || !p->debug)
		return false;
	elf_version(EV_CURRENT);
	int fd = open(p->path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	ssize_t bytes = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;

	assert_in_range(bytes, 8, sizeof p->build_id);
	memcpy(p->build_id, id, (size_t)bytes);
	p->build_id_bytes = (size_t)bytes;
	assert_int_equal(elf_getphdrnum(elf, &count), 0);
	for (int i = 0; i < (int)count; i++)
		if (gelf_getphdr(elf, i, &header) && header.p_type == PT_LOAD &&
		    (header.p_flags & PF_X)) {
			p->low = header.p_vaddr;
			p->high = header.p_vaddr + header.p_memsz;
		}
	elf_end(elf);
	close(fd);
	return p->high > p->low + 4 * FRAMES;
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Asks for all; returns the seconds of all threads, and how many have a name and a line. */
static double ask_all(const struct program *p, const char *store, size_t *ret_named)
{
	struct symbolizer_options options = {
		.workers = 2,
		.store_folder = store,
		.debug_folders = &p->debug,
		.debug_folder_count = 1,
	};
	double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
	struct symbol_request *requests = calloc(FRAMES, sizeof *requests);
	struct symbolizer *s = symbolizer_new(&options);
	symbol_module_id id =
		symbolizer_module(s, p->path, span_of(p->build_id, p->build_id_bytes));
	uint64_t step = (p->high - p->low) / FRAMES;
	struct rusage usage;

	for (size_t i = 0; i < FRAMES; i++)
		requests[i] = (struct symbol_request){ id, p->low + i * step, false };
	symbolizer_prepare(s, requests, FRAMES);
	*ret_named = 0;
	for (size_t i = 0; i < FRAMES; i++) {
		struct symbol_list list = symbolizer_find(s, id, requests[i].address, false);

		*ret_named += list.at[0].function && list.at[0].line;
	}
	symbolizer_free(s);
	free(requests);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	getrusage(RUSAGE_SELF, &usage);
	printf("LARGE store=%s named=%zu cpu=%.2f wall=%.2f rss_mib=%ld\n", store, *ret_named, cpu,
	       seconds(CLOCK_MONOTONIC) - wall, usage.ru_maxrss / 1024);
	return cpu;
}

static void hundred_thousand_frames_of_a_large_program(void **state)
{
	struct program p = { 0 };
	char store[] = "/tmp/test_symbols_large.XXXXXX", line[128];
	size_t cold, warm;

	(void)state;
	if (!find_program(&p))
		skip();
	assert_non_null(mkdtemp(store));
	assert_true(ask_all(&p, store, &cold) < cold_seconds);
	assert_true(ask_all(&p, store, &warm) < warm_seconds);
	assert_int_equal(cold, warm);
	assert_true(cold > FRAMES * 9 / 10);
	snprintf(line, sizeof line, "rm -rf %s", store);
	assert_int_equal(system(line), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hundred_thousand_frames_of_a_large_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
