/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel and the loader are silent if LD_PRELOAD has no effect, or report it in a way that does not help the user. So the
 * files are checked first: base/elf.h checks their bytes, stat and one attribute their privileges. For a script, its
 * interpreter is checked.
 *
 * No state. A file that cannot be checked passes: running it will show.
 */
#include "collect/binaries/preflight.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/elf.h"
#include "base/privilege.h"
#include "collect/binaries/elf_facts.h"
#include "format/unrecorded.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { SCRIPTS_MAX = 5, NAME_SHOWN = 120 };

/* The subject of messages: "./tool", or "./run.sh is a script for /bin/tool, which". */
struct subject {
	char text[3 * NAME_SHOWN];
};

static struct subject subject_of(const char *program, const char *interpreter)
{
	struct subject subject;

	if (interpreter)
		snprintf(subject.text, sizeof subject.text, "%.*s is a script for %.*s, which",
			 NAME_SHOWN, program, NAME_SHOWN, interpreter);
	else
		snprintf(subject.text, sizeof subject.text, "%.*s", NAME_SHOWN, program);
	return subject;
}

static enum privilege privilege_of_file(const char *path)
{
	struct privilege_facts facts = {
		.uid = getuid(), .euid = geteuid(), .gid = getgid(), .egid = getegid()
	};
	struct statvfs mount = { 0 };
	struct stat st;

	if (stat(path, &st) < 0)
		return PRIVILEGE_NONE;
	facts.mode = st.st_mode;
	facts.file_uid = st.st_uid;
	facts.file_gid = st.st_gid;
	facts.capable = getxattr(path, "security.capability", NULL, 0) > 0;
	facts.privileges_ignored = (statvfs(path, &mount) == 0 && mount.f_flag & ST_NOSUID) ||
				   prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
	return privilege_of(&facts);
}

/* The loader ignores LD_PRELOAD if a program gets other privileges than its caller has. */
static int check_privileges(const char *path, const char *subject, struct error *error)
{
	switch (privilege_of_file(path)) {
	case PRIVILEGE_SET_USER_ID:
		error_set(error, "%s is set-user-id: the loader does not load the recorder into it",
			  subject);
		return error_hint(
			error,
			"Record a copy without that bit (cp does not keep it), or run heapgauge as its owner.");
	case PRIVILEGE_SET_GROUP_ID:
		error_set(error,
			  "%s is set-group-id: the loader does not load the recorder into it",
			  subject);
		return error_hint(
			error,
			"Record a copy without that bit (cp does not keep it), or run heapgauge as its group.");
	case PRIVILEGE_CAPABILITIES:
		error_set(error,
			  "%s has file capabilities: the loader does not load the recorder into it",
			  subject);
		return error_hint(
			error,
			"Record a copy without them (cp does not keep them), or run heapgauge as root.");
	case PRIVILEGE_OF_CALLER:
		error_set(
			error,
			"%s would run with an effective user or group that is not the real one, as heapgauge does: the loader does not load the recorder into it",
			subject);
		return error_hint(
			error,
			"Run heapgauge itself without set-user-id, or with real and effective ids alike.");
	case PRIVILEGE_NONE:
		break;
	}
	return 0;
}

static int explain_verdict(const struct elf_judgement *judgement, const char *subject,
			   struct error *error)
{
	switch (judgement->verdict) {
	case ELF_STATIC:
		error_set(error, "%s is statically linked: the recorder cannot be loaded into it",
			  subject);
		return error_hint(error, "Record a dynamically linked build.");
	case ELF_OTHER_CLASS:
		error_set(error, "%s is a 32-bit program: the recorder is a 64-bit one", subject);
		return error_hint(error, "Record a 64-bit build.");
	case ELF_OTHER_MACHINE:
		error_set(error, "%s is built for another architecture than the recorder", subject);
		return error_hint(
			error,
			"Record a build for this machine, or run heapgauge on a machine of that architecture.");
	case ELF_OTHER_LIBC:
		error_set(
			error,
			"%s is built for another C library (its loader is %.*s), and the recorder for glibc and musl",
			subject,
			(int)(judgement->path_bytes < NAME_SHOWN ? judgement->path_bytes
								 : NAME_SHOWN),
			judgement->path);
		return error_hint(error, "Record a build for one of these.");
	case ELF_SANITIZED:
		error_set(
			error,
			"%s is built with a sanitizer, which has its own allocator and allows no other",
			subject);
		return error_hint(error, "Record a build without -fsanitize.");
	case ELF_FITS:
	case ELF_LOADER:
	case ELF_SCRIPT:
	case ELF_TEXT:
	case ELF_UNKNOWN:
		break;
	}
	return 0;
}

/* Checks one file. *ret_next gets the interpreter of a script; the caller frees it. */
static int check_file(const char *path, const char *subject, char **ret_next, struct error *error)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_judgement judgement;

	*ret_next = NULL;
	if (file_map_open(&map, path, NULL) < 0)
		return 0;
	judgement = elf_judge(map.bytes.data, map.bytes.size);
	if (judgement.verdict == ELF_SCRIPT) {
		*ret_next = strndup(judgement.path, judgement.path_bytes);
		return 0; /* the kernel ignores the privileges of scripts */
	}
	if (check_privileges(path, subject, error) < 0)
		return -1;
	return explain_verdict(&judgement, subject, error);
}

int preflight_program(const char *program, struct error *error)
{
	AUTO_FREE char *path = program_path(program);
	bool is_script = false;

	for (int i = 0; i < SCRIPTS_MAX && path; i++) {
		struct subject subject = subject_of(program, is_script ? path : NULL);
		char *next;

		if (check_file(path, subject.text, &next, error) < 0)
			return -1;
		free(path);
		path = next;
		is_script = true;
	}
	return 0;
}

const char *preflight_linked_in(const char *program)
{
	AUTO_FREE char *path = program_path(program);
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_facts facts;

	if (!path || file_map_open(&map, path, NULL) < 0 || !elf_facts_of(map.bytes, &facts))
		return NULL;
	if (facts.defines_malloc)
		return facts.linked_in ? facts.linked_in : "an allocator";
	/* A runtime may contain an allocator that it uses for some of its objects, or for none. */
	return facts.unrecorded & unrecorded_of_class(UNRECORDED_RUNTIME) ? NULL : facts.linked_in;
}

int preflight_recorder(const char *recorder, struct error *error)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	enum elf_verdict verdict;

	if (strpbrk(recorder, " :\t\n")) {
		error_set(
			error,
			"the recorder %.*s has a space or a colon in its path, which LD_PRELOAD cannot name",
			2 * NAME_SHOWN, recorder);
		return error_hint(error, "Set HEAPGAUGE_RECORDER to a copy of it elsewhere.");
	}
	if (file_map_open(&map, recorder, error) < 0)
		return error_wrap(error, "cannot read the recorder");
	/* A library has no interpreter, so it looks like a static program, or like the loader itself. */
	verdict = elf_judge(map.bytes.data, map.bytes.size).verdict;
	if (verdict != ELF_STATIC && verdict != ELF_LOADER) {
		error_set(
			error,
			"%.*s is not a recorder for this machine: it is damaged, or built for another architecture",
			2 * NAME_SHOWN, recorder);
		return error_hint(
			error,
			"Install heapgauge again, or set HEAPGAUGE_RECORDER to its libheapgauge.so.");
	}
	return 0;
}
