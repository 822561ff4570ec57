/* SPDX-License-Identifier: Apache-2.0 */
/*
 * about_itself: writes reports about itself while it runs: the tree of its stacks, its sizes, and the tags of each of its threads.
 *
 * Compiled by tests as any user would, against what was installed; run with the recorder preloaded.
 */
#include <heapgauge/heapgauge.h>
#include <heapgauge/profile.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 2 };

static void *volatile kept[100];
static pthread_barrier_t barrier;

__attribute__((noinline)) static void fill(int count, size_t bytes)
{
	for (int i = 0; i < count; i++)
		kept[i] = malloc(bytes);
	__asm__("");
}

static void *work(void *number)
{
	{
		HG_SCOPE_NAME(number ? "second" : "first");
		fill(10, number ? 3000 : 1000);
	}
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void write_report(struct hg_profile *profile, const char *const *options, size_t count)
{
	struct hg_error error;
	struct hg_report *report = hg_profile_report(profile, options, count, &error);

	if (!report || hg_report_write(report, "text", STDOUT_FILENO, &error) < 0) {
		fprintf(stderr, "%s\n", error.message);
		_exit(1);
	}
	hg_report_free(report);
}

/* One tree of tags for each thread that has tags. */
static void write_threads(struct hg_profile *profile)
{
	const char *const options[] = { "--view", "threads" };
	struct hg_report *threads = hg_profile_report(profile, options, 2, NULL);
	const struct hg_table *table = hg_report_rows(threads);
	size_t columns = hg_table_column_count(table);
	struct hg_cell *cells = calloc(columns, sizeof *cells);

	for (size_t row = 0; row < hg_table_row_count(table); row++) {
		char tid[32] = "";

		hg_table_row(table, row, cells);
		for (size_t i = 0; i < columns; i++)
			if (hg_table_column_name(table, i)[0] == 't' &&
			    hg_table_column_name(table, i)[1] == 'i')
				snprintf(tid, sizeof tid, "%llu",
					 (unsigned long long)cells[i].as.number);
		const char *const of_thread[] = { "--view", "tags",	"--cost",
						  "live",   "--thread", tid };

		dprintf(STDOUT_FILENO, "thread %s\n", tid);
		write_report(profile, of_thread, 6);
	}
	free(cells);
	hg_report_free(threads);
}

int main(void)
{
	const char *const tree[] = { "--view", "tree", "--cost", "live", "--names", "short" };
	const char *const sizes[] = { "--view", "sizes", "--cost", "calls" };
	struct hg_error error;
	pthread_t thread[WORKERS];

	pthread_barrier_init(&barrier, NULL, WORKERS + 1);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&thread[i], NULL, work, i ? "" : NULL);
	pthread_barrier_wait(&barrier);
	struct hg_profile *profile = hg_profile_open_process(getpid(), &error);

	if (!profile) {
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	write_report(profile, tree, 6);
	write_report(profile, sizes, 4);
	write_threads(profile);
	hg_profile_close(profile);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
