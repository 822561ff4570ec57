/* SPDX-License-Identifier: Apache-2.0 */
/* C6: leaves a daemon behind and ends with 7. lives_on FOLDER PROGRAM: the daemon writes its pid to FOLDER/pid, waits for
 * FOLDER/go, and writes to FOLDER/told what is recorded from then on; it ends by becoming PROGRAM, whose output follows there.
 * With a third argument it does nothing before FOLDER/go, so that nobody has heard from it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <heapgauge/heapgauge.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int folder;

static void take(int count)
{
	while (count-- > 0) {
		void *volatile block = malloc(1000);

		(void)block;
	}
}

/* By system calls alone. */
static void write_pid(void)
{
	char text[16];
	int length = snprintf(text, sizeof text, "%d\n", getpid());
	int fd = openat(folder, "part", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (write(fd, text, (size_t)length) != length)
		_exit(90);
	close(fd);
	renameat(folder, "part", folder, "pid"); /* there is no half of it */
}

static void tell_child(const char *who)
{
	char line[4096];
	int mappings = 0;

	take(1000);
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof line, maps))
		mappings += strstr(line, "heapgauge-profile") != NULL;
	fclose(maps);
	printf("%s %s a profile\n", who, mappings > 0 ? "has" : "has not");
	fflush(stdout);
}

static void daemon_runs(bool silent, char **argv)
{
	struct hg_stats before = { 0 }, after = { 0 };

	alarm(900); /* a test that fails must not leave it behind */
	if (!silent)
		take(5);
	write_pid();
	while (faccessat(folder, "go", F_OK, 0) < 0)
		usleep(5000);
	dup2(openat(folder, "told", O_WRONLY | O_CREAT | O_APPEND, 0666), STDOUT_FILENO);
	hg_stats(&before);
	take(5000);
	hg_stats(&after);
	printf("mode %d, %llu recorded\n", (int)after.mode,
	       (unsigned long long)(after.heap.calls - before.heap.calls));
	fflush(stdout);
	if (!silent && fork() == 0) {
		tell_child("child");
		_exit(0);
	}
	wait(NULL);
	execv(argv[2], (char *[]){ argv[2], NULL });
	_exit(91);
}

int main(int argc, char **argv)
{
	folder = argc > 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
	if (folder < 0)
		return 2;
	if (fork() == 0) {
		setsid();
		daemon_runs(argc > 3, argv);
	}
	while (faccessat(folder, "pid", F_OK, 0) < 0)
		usleep(1000);
	return 7;
}
