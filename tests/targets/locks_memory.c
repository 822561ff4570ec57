/* SPDX-License-Identifier: Apache-2.0 */
/* locks_memory [limit]: locks all its memory, now and in future, and says what it cost. With "limit" it does so as an
 * ordinary user with a limit of at most 64 MiB. */
#include "target.h"
#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { LIMIT = 64 << 20 };

static NOINLINE void *take_locked(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static long locked_kib(void)
{
	char text[8192] = "";
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
	fclose(file);
	const char *line = strstr(text, "VmRSS:");
	CHECK(line);
	return atol(line + 6);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "limit") == 0) {
		struct rlimit limit;
		CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
		limit.rlim_cur = limit.rlim_max < LIMIT ? limit.rlim_max : LIMIT;
		CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
		if (geteuid() == 0)
			CHECK(setgroups(0, NULL) == 0 && setresuid(65534, 65534, 65534) == 0);
	}
	free(take_locked(100));
	int status = mlockall(MCL_CURRENT | MCL_FUTURE);
	say("mlockall %d %s\n", status, status ? strerror(errno) : "");
	for (size_t n = 0; n < 10000; n++)
		free(take_locked(n));
	say("RESIDENT %ld\n", locked_kib());
	return 0;
}
