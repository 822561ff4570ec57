/* SPDX-License-Identifier: Apache-2.0 */
/* R13: generations of children of which each allocates and then outlives its parent. Prints how many mappings the first
 * and the last one have. With an argument the first one limits its address space to so many MiB, takes what the recorder
 * gave back, and each child finds it as it was. */
#include "target.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { GENERATIONS = 20, TAKEN = 64, PAGE = 4096 };
static char *taken[TAKEN];

static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int count = 0;

	CHECK(maps);
	while (fgets(line, sizeof line, maps))
		count++;
	fclose(maps);
	return count;
}

/* Maps a page behind each mapping of a profile, if there is room. */
static int take_gaps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int count = 0;
	unsigned long start, end;

	CHECK(maps);
	while (count < TAKEN && fgets(line, sizeof line, maps)) {
		if (!strstr(line, "heapgauge") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		char *page = mmap((void *)end, PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (page == MAP_FAILED)
			continue;
		memset(page, count + 1, PAGE);
		taken[count++] = page;
	}
	fclose(maps);
	return count;
}

int main(int argc, char **argv)
{
	int gaps = 0, first = 0;

	KEEP(argv);
	for (int i = 0; i < 1000; i++) {
		void *p = malloc(100);
		KEEP(p);
	}
	if (argc > 1) {
		struct rlimit limit = { strtoul(argv[1], NULL, 10) << 20, RLIM_INFINITY };

		CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
		gaps = take_gaps();
	}
	for (int generation = 1; generation <= GENERATIONS; generation++) {
		int status = 0;
		pid_t child = fork();

		CHECK(child >= 0);
		if (child > 0) {
			CHECK(waitpid(child, &status, 0) == child);
			_exit(WEXITSTATUS(status));
		}
		for (int i = 0; i < 1000; i++) {
			void *p = malloc(100);
			KEEP(p);
		}
		for (int i = 0; i < gaps; i++)
			CHECK(taken[i][0] == i + 1 && taken[i][PAGE - 1] == i + 1);
		if (generation == 1)
			first = mappings();
	}
	printf("gaps %d, mappings of the last %d more\n", gaps, mappings() - first);
	return 0;
}
