/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor's checks of this machine. It records a small program with this heapgauge, because no list of
 * conditions is as complete as a trial. The other checks concern what makes reports less detailed, not impossible.
 * Reads /proc and the environment; changes nothing.
 */
#include "cli/doctor/doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "collect/kernel/cgroup.h"
#include "collect/collect.h"
#include "collect/binaries/preflight.h"
#include "collect/kernel/procfs.h"
#include "format/live/live.h"
#include "serve/http.h"
#include "serve/page.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/units.h"
#include "util/version.h"

static void judge_kernel(struct doctor *doctor)
{
	AUTO_CLOSE int memory = memfd_create("heapgauge-doctor", MFD_CLOEXEC);
	struct utsname name;

	if (uname(&name) == 0)
		doctor_add(doctor, "kernel", DOCTOR_OK, NULL, "Linux %s, %s%s", name.release,
			   name.machine,
			   version_is_from(name.release, 6, 15)
				   ? ""
				   : "; the exit status of all descendants needs Linux 6.15");
	if (memory < 0)
		doctor_add(doctor, "memory", DOCTOR_NO,
			   "allow memfd_create in the container's seccomp filter",
			   "memfd_create: %s", strerror(errno));
	if (access("/proc/self/maps", R_OK) < 0)
		doctor_add(doctor, "/proc", DOCTOR_NO, "mount it: mount -t proc proc /proc",
			   "/proc/self/maps: %s", strerror(errno));
}

static char *find_recorder(struct doctor *doctor)
{
	struct error error = ERROR_INIT;
	char *recorder = recorder_find(&error);

	if (recorder && preflight_recorder(recorder, &error) == 0) {
		doctor_add(doctor, "recorder", DOCTOR_OK, NULL, "%s", recorder);
		return recorder;
	}
	doctor_add_error(doctor, "recorder", DOCTOR_NO, &error);
	free(recorder);
	return NULL;
}

/* Runs `heapgauge record true` into the file and returns its exit status; the caller frees *ret_said. */
static int record_true(const char *file, char **ret_said)
{
	char self[] = "/proc/self/exe";
	char *argv[] = { (char[]){ "heapgauge" },   (char[]){ "record" },
			 (char[]){ "--no-config" }, (char[]){ "-q" },
			 (char[]){ "-o" },	    (char *)(uintptr_t)file,
			 (char[]){ "true" },	    NULL };
	AUTO(buffer_release) struct buffer said = BUFFER_INIT;
	posix_spawn_file_actions_t actions;
	int ends[2], status = -1;
	char part[512];
	ssize_t got;
	pid_t pid;

	*ret_said = NULL;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	int failed = posix_spawn(&pid, self, &actions, NULL, argv, environ);

	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (!failed && (got = read(ends[0], part, sizeof part)) > 0)
		if (said.size < 4096)
			buffer_append(&said, part, (size_t)got);
	close(ends[0]);
	if (failed || waitpid(pid, &status, 0) < 0)
		return -1;
	*ret_said = buffer_take_string(&said);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The command printed an error, and perhaps a hint on a second line, which then points into `said`. */
static void split_output(char *said, struct error *ret)
{
	static const char name[] = "heapgauge: ";
	const char *message = strsep(&said, "\n"), *hint = said ? strsep(&said, "\n") : NULL;

	if (strncmp(message, name, sizeof name - 1) == 0)
		message += sizeof name - 1;
	error_set(ret, "%s", message);
	if (hint && *hint)
		error_hint(ret, hint + strspn(hint, " "));
}

static void try_recording(struct doctor *doctor)
{
	char file[] = "/tmp/heapgauge-doctor.XXXXXX";
	AUTO_FREE char *said = NULL;
	struct error error = ERROR_INIT;
	AUTO_CLOSE int fd = -1;
	int status;

	if (preflight_program("true", &error) < 0) {
		doctor_add(doctor, "trial", DOCTOR_WARN, NULL, "not run: %s", error.message);
		return;
	}
	fd = mkostemp(file, O_CLOEXEC);
	if (fd < 0) {
		doctor_add(doctor, "trial", DOCTOR_WARN, "free space in /tmp", "not run: /tmp: %s",
			   strerror(errno));
		return;
	}
	status = record_true(file, &said);
	unlink(file);
	if (status == 0) {
		doctor_add(doctor, "trial", DOCTOR_OK, NULL, "the program 'true' was recorded");
		return;
	}
	if (said && *said)
		split_output(said, &error);
	else
		error_set(&error, "recording the program 'true' failed");
	doctor_add_error(doctor, "trial", DOCTOR_NO, &error);
}

static void judge_preload(struct doctor *doctor)
{
	const char *preload = getenv("LD_PRELOAD");
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;

	if (preload && *preload)
		doctor_add(doctor, "preload", DOCTOR_WARN, "unset LD_PRELOAD if they interfere",
			   "LD_PRELOAD already names other libraries: %s", preload);
	if (file_read("/etc/ld.so.preload", 65536, &text, NULL) == 0 && text.size > 1)
		doctor_add(doctor, "preload", DOCTOR_WARN, NULL,
			   "/etc/ld.so.preload loads libraries into every program");
}

static void judge_libc(struct doctor *doctor)
{
	const char *version = gnu_get_libc_version();

	if (!version_is_from(version, 2, 28))
		doctor_add(doctor, "glibc", DOCTOR_NO,
			   "record on a system with glibc 2.28 or later",
			   "%s: the recorder was never tried with it", version);
	else
		doctor_add(doctor, "glibc", DOCTOR_OK, NULL, "%s", version);
}

static void judge_live(struct doctor *doctor)
{
	char text[32];
	bool has_yama = procfs_small("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text) > 0;

	if (geteuid() == 0 || !has_yama || text[0] == '0')
		doctor_add(doctor, "report --pid", DOCTOR_OK, NULL,
			   "running processes can be read");
	else
		doctor_add(doctor, "report --pid", DOCTOR_WARN,
			   "sudo sysctl kernel.yama.ptrace_scope=0, or run it as root",
			   "kernel.yama.ptrace_scope is %c: running processes cannot be read",
			   text[0]);
}

static void judge_cgroup(struct doctor *doctor)
{
	struct cgroups cgroups;

	cgroups_init(&cgroups, "");
	struct cgroup_memory memory = cgroups_memory(&cgroups, getpid());
	const char *version = cgroups.second.at && cgroups.first.at ? "versions 1 and 2"
			      : cgroups.second.at		    ? "version 2"
			      : cgroups.first.at		    ? "version 1"
								    : NULL;

	if (!version)
		doctor_add(doctor, "cgroup", DOCTOR_OK, NULL, "no memory controller is mounted");
	else if (memory.limit_bytes)
		doctor_add(doctor, "cgroup", DOCTOR_OK, NULL,
			   "%s, %s of %s in use; the recorder takes a tenth of the rest at most",
			   version, units_bytes(memory.usage_bytes).text,
			   units_bytes(memory.limit_bytes).text);
	else
		doctor_add(doctor, "cgroup", DOCTOR_OK, NULL, "%s, no memory limit", version);
	cgroups_release(&cgroups);
}

static void judge_limits(struct doctor *doctor)
{
	struct rlimit space, core;

	if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
		doctor_add(doctor, "limits", DOCTOR_WARN, "ulimit -v unlimited",
			   "address space is limited to %s: the recorder must fit in it",
			   units_bytes(space.rlim_cur).text);
	else if (getrlimit(RLIMIT_CORE, &core) == 0)
		doctor_add(doctor, "limits", DOCTOR_OK, NULL,
			   "address space unlimited; core files %s",
			   core.rlim_cur == 0		    ? "off"
			   : core.rlim_cur == RLIM_INFINITY ? "on"
							    : "limited");
}

static bool has_entries(const char *folder)
{
	AUTO_CLOSE_FOLDER DIR *opened = opendir(folder);
	const struct dirent *entry;
	bool found = false;

	while (opened && !found && (entry = readdir(opened)))
		found = entry->d_name[0] != '.';
	return found;
}

static void judge_names(struct doctor *doctor)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY);
	const char *debuginfod = !library	    ? "debuginfod is not installed"
				 : !(urls && *urls) ? "DEBUGINFOD_URLS is not set"
						    : "debuginfod can be queried";

	if (library)
		dlclose(library);
	if (has_entries("/usr/lib/debug/.build-id"))
		doctor_add(doctor, "debug files", DOCTOR_OK, NULL, "/usr/lib/debug/.build-id; %s",
			   debuginfod);
	else
		doctor_add(
			doctor, "debug files", DOCTOR_OK, NULL,
			"none in /usr/lib/debug: system libraries show only exported symbols; %s",
			debuginfod);
	doctor_add(doctor, "JIT code", access("/tmp", W_OK) == 0 ? DOCTOR_OK : DOCTOR_WARN, NULL,
		   "named by /tmp/perf-PID.map, if the program writes one");
}

static void judge_page(struct doctor *doctor)
{
	struct error error = ERROR_INIT;

	if (!page_is_built())
		doctor_add(doctor, "view", DOCTOR_OK, NULL,
			   "this heapgauge was built without the page");
	else if (http_load(&error) < 0)
		doctor_add(doctor, "view", DOCTOR_WARN, "install libmicrohttpd12", "%s",
			   error.message);
	else
		doctor_add(doctor, "view", DOCTOR_OK, NULL, "the page can be served");
}

void doctor_machine(struct doctor *doctor)
{
	AUTO_FREE char *recorder = NULL;

	judge_kernel(doctor);
	judge_libc(doctor);
	recorder = find_recorder(doctor);
	if (live_is_disabled(getenv(LIVE_ENV_DISABLE)))
		doctor_add(doctor, "switch", DOCTOR_NO, "unset " LIVE_ENV_DISABLE,
			   LIVE_ENV_DISABLE " is set, which disables recording");
	else if (recorder)
		try_recording(doctor);
	judge_preload(doctor);
	judge_live(doctor);
	judge_cgroup(doctor);
	judge_limits(doctor);
	judge_names(doctor);
	judge_page(doctor);
}
