/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaves_host_alone FILE PID VIEW...: reads the recording and the process, and prints what of this program the library has changed.
 *
 * It compares the state before with the state after, and takes the place of the functions that change it, so that a change which is
 * undone is found as well. Compiled by tests as any user would, against what was installed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <heapgauge/profile.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
static int found;

static void report(const char *what)
{
	found++;
	printf("%s\n", what);
}

/* ---- functions in whose place ours are called, by every library ---- */

static int is_library(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && strstr(info.dli_fname, "libheapgauge-profile");
}

#define CALLED(name)                                                                               \
	do {                                                                                       \
		if (is_library(__builtin_return_address(0)))                                       \
			report("the library called " name);                                        \
	} while (0)

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
	int (*real)(int, const struct sigaction *, struct sigaction *);

	if (action)
		CALLED("sigaction");
	*(void **)&real = next("sigaction");
	return real(number, action, before);
}

void (*signal(int number, void (*handler)(int)))(int)
{
	void (*(*real)(int, void (*)(int)))(int);

	CALLED("signal");
	*(void **)&real = next("signal");
	return real(number, handler);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
	int (*real)(int, const sigset_t *, sigset_t *);

	CALLED("pthread_sigmask");
	*(void **)&real = next("pthread_sigmask");
	return real(how, set, before);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
	int (*real)(int, const sigset_t *, sigset_t *);

	CALLED("sigprocmask");
	*(void **)&real = next("sigprocmask");
	return real(how, set, before);
}

int setenv(const char *name, const char *value, int replaces)
{
	int (*real)(const char *, const char *, int);

	CALLED("setenv");
	*(void **)&real = next("setenv");
	return real(name, value, replaces);
}

int unsetenv(const char *name)
{
	int (*real)(const char *);

	CALLED("unsetenv");
	*(void **)&real = next("unsetenv");
	return real(name);
}

int putenv(char *entry)
{
	int (*real)(char *);

	CALLED("putenv");
	*(void **)&real = next("putenv");
	return real(entry);
}

char *setlocale(int category, const char *name)
{
	char *(*real)(int, const char *);

	if (name)
		CALLED("setlocale");
	*(void **)&real = next("setlocale");
	return real(category, name);
}

long syscall(long number, ...)
{
	long (*real)(long, ...), a[6];
	va_list arguments;

	if (number == SYS_rt_sigaction || number == SYS_rt_sigprocmask)
		CALLED("syscall for signals");
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	*(void **)&real = next("syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* If another process truncates a mapped recording, its reader gets a SIGBUS. */
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	char link[64], path[4096] = "";
	int number = errno;

	if (fd >= 0) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		if (readlink(link, path, sizeof path - 1) > 3 &&
		    strcmp(path + strlen(path) - 3, ".hg") == 0)
			report("a recording was mapped");
	}
	errno = number;
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

/* ---- the state ---- */

struct state {
	struct sigaction actions[65]; /* by number */
	sigset_t mask;
	char **environment, *entries[1000], *texts[1000], *locale;
	size_t entry_count;
	mode_t file_mask;
	char folder[4096];
	int free_fd;
};

static void handle(int number)
{
	(void)number;
}

/* No signal keeps its default that can have something else. */
static void set_actions(void)
{
	for (int i = 1; i <= SIGRTMAX; i++) {
		struct sigaction action = { .sa_handler = i % 2 ? SIG_IGN : handle,
					    .sa_flags = SA_RESTART };

		if (i < 32 || i >= SIGRTMIN)
			sigaction(i, &action, NULL);
	}
}

static void read_state(struct state *s)
{
	*s = (struct state){ .environment = environ };
	for (int i = 1; i <= SIGRTMAX; i++)
		sigaction(i, NULL, &s->actions[i]);
	pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
	for (; environ[s->entry_count] && s->entry_count < 1000; s->entry_count++) {
		s->entries[s->entry_count] = environ[s->entry_count];
		s->texts[s->entry_count] = strdup(environ[s->entry_count]);
	}
	s->locale = strdup(setlocale(LC_ALL, NULL));
	s->file_mask = umask(0);
	umask(s->file_mask);
	if (!getcwd(s->folder, sizeof s->folder))
		s->folder[0] = '\0';
	s->free_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(s->free_fd);
}

static int is_same_set(const sigset_t *a, const sigset_t *b)
{
	for (int i = 1; i <= SIGRTMAX; i++)
		if (sigismember(a, i) != sigismember(b, i))
			return 0;
	return 1;
}

static int is_same_action(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
	       is_same_set(&a->sa_mask, &b->sa_mask);
}

static void compare(const struct state *a, const struct state *b)
{
	for (int i = 1; i <= SIGRTMAX; i++)
		if (!is_same_action(&a->actions[i], &b->actions[i])) {
			found++;
			printf("the action of signal %d has changed\n", i);
		}
	if (!is_same_set(&a->mask, &b->mask))
		report("the signal mask has changed");
	if (a->environment != b->environment || a->entry_count != b->entry_count)
		report("the environment has changed");
	for (size_t i = 0; i < a->entry_count && i < b->entry_count; i++)
		if (a->entries[i] != b->entries[i] || strcmp(a->texts[i], b->texts[i]) != 0)
			report("an environment variable has changed");
	if (strcmp(a->locale, b->locale) != 0 || a->file_mask != b->file_mask ||
	    strcmp(a->folder, b->folder) != 0)
		report("the locale, the umask or the working directory has changed");
	if (a->free_fd != b->free_fd)
		report("a descriptor has remained open");
}

/* ---- the library ---- */

static void use_report(struct hg_profile *profile, const char *view, const char *extra)
{
	static const char *const formats[] = { "text", "markdown", "json", "csv" };
	const char *const options[] = { "--view", view, extra };
	struct hg_error error;
	struct hg_report *made = hg_profile_report(profile, options, extra ? 3 : 2, &error);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!made) {
		report(error.message);
		return;
	}
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		hg_report_write(made, formats[i], null, NULL);
	close(null);
	hg_report_free(made);
}

static void use(struct hg_profile *profile, char *const *views, struct hg_error *error)
{
	if (!profile) {
		report(error->message);
		return;
	}
	for (; *views; views++)
		use_report(profile, *views, NULL);
	for (int i = 0; i < 2; i++)
		use_report(profile, "sites", "--debuginfod");
	hg_profile_close(profile);
}

int main(int argc, char **argv)
{
	static struct state before, after;
	struct hg_error error;

	if (argc < 4)
		return 2;
	set_actions();
	read_state(&before);
	use(hg_profile_open(argv[1], &error), argv + 3, &error);
	use(hg_profile_open_process(atoi(argv[2]), &error), argv + 3, &error);
	if (hg_profile_open("/dev/null", &error) || hg_profile_open(argv[0], &error))
		report("what is no recording was opened");
	read_state(&after);
	compare(&before, &after);
	return found ? 1 : 0;
}
