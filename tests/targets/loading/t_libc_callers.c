/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that what libc allocates on behalf of a function (strdup, asprintf, getline, fopen, qsort) is that function's. */
#include "target.h"

static struct truth strdup_truth = TRUTH(by_strdup);
static struct truth strndup_truth = TRUTH(by_strndup);

static NOINLINE char *by_strdup(const char *s)
{
	char *p = strdup(s);
	KEEP(p);
	truth_take(&strdup_truth, strlen(s) + 1);
	return p;
}

static NOINLINE char *by_strndup(const char *s, size_t n)
{
	char *p = strndup(s, n);
	KEEP(p);
	truth_take(&strndup_truth, n + 1);
	return p;
}

static NOINLINE char *by_asprintf(int i)
{
	char *p = NULL;
	CHECK(asprintf(&p, "number %d", i) > 0);
	KEEP(p);
	return p;
}

static NOINLINE char *by_getline(FILE *file)
{
	char *line = NULL;
	size_t size = 0;
	CHECK(getline(&line, &size, file) > 0);
	KEEP(line);
	return line;
}

static NOINLINE FILE *by_fopen(const char *path)
{
	FILE *file = fopen(path, "r");
	KEEP(file);
	CHECK(file);
	return file;
}

int main(void)
{
	for (int i = 0; i < 200; i++) {
		char *p = by_strdup("a block that libc asks for");
		char *q = by_strndup("a block that libc asks for", (size_t)(i % 20));
		free(q);
		truth_drop(&strndup_truth, (size_t)(i % 20) + 1);
		if (i % 4)
			continue;
		free(p);
		truth_drop(&strdup_truth, 27);
	}
	for (int i = 0; i < 50; i++)
		free(by_asprintf(i));
	for (int i = 0; i < 20; i++) {
		FILE *file = by_fopen("/proc/self/maps");
		free(by_getline(file));
		fclose(file);
	}
	truth_print(&strdup_truth, "");
	truth_print(&strndup_truth, "");
	/* How much libc takes for these is its business; that it comes and goes is not. */
	say("EXPECT site=by_asprintf kind=heap calls>=50 live_bytes=0 live_blocks=0\n");
	say("EXPECT site=by_fopen kind=heap calls=20 live_bytes=0 live_blocks=0\n");
	say("EXPECT site=by_getline kind=heap calls>=20 live_bytes=0 live_blocks=0\n");
	return 0;
}
