/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the recorder is, and why it was not heard from. The kernel and the loader say nothing when LD_PRELOAD has no
 * effect, so the program's file is looked at: statically linked, set-user-id, of another class or C library.
 * No state. Input is hostile: the file is read through a bounds-checked cursor.
 */
#include "collect/explain.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "collect/collect.h"
#include "util/cleanup.h"
#include "util/files.h"

#define RECORDER_FILE "libheapgauge.so"

/* The path that execvp would take; the caller's, NULL if there is none. */
static char *look_up(const char *program)
{
	const char *path = getenv("PATH");

	if (strchr(program, '/'))
		return strdup(program);
	for (const char *at = path ? path : "/bin:/usr/bin"; at;) {
		size_t length = strcspn(at, ":");
		AUTO_FREE char *folder = length ? strndup(at, length) : strdup(".");
		AUTO_FREE char *candidate = folder ? path_join(folder, program) : NULL;

		if (candidate && access(candidate, X_OK) == 0)
			return TAKE(candidate);
		at = at[length] ? at + length + 1 : NULL;
	}
	return NULL;
}

enum linkage { LINK_UNKNOWN, LINK_DYNAMIC, LINK_STATIC, LINK_OTHER_CLASS, LINK_MUSL, LINK_SCRIPT };

static enum linkage linkage_of(struct span file)
{
	struct cursor c = cursor_over(file);
	Elf64_Ehdr head;

	if (file.size > 2 && memcmp(file.data, "#!", 2) == 0)
		return LINK_SCRIPT;
	if (!cursor_copy(&c, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return LINK_UNKNOWN;
	if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return LINK_OTHER_CLASS;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		struct span interpreter;
		Elf64_Phdr segment;

		cursor_seek(&c, head.e_phoff + (size_t)i * head.e_phentsize);
		if (!cursor_copy(&c, &segment, sizeof segment))
			return LINK_UNKNOWN;
		if (segment.p_type != PT_INTERP)
			continue;
		cursor_seek(&c, segment.p_offset);
		interpreter = cursor_bytes(&c, segment.p_filesz);
		if (c.failed)
			return LINK_UNKNOWN;
		return memmem(interpreter.data, interpreter.size, "musl", 4) ? LINK_MUSL
									     : LINK_DYNAMIC;
	}
	return LINK_STATIC;
}

static bool is_privileged(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
					((st.st_mode & S_ISGID) && st.st_gid != getgid()));
}

void explain_silence(const char *program, char *ret, size_t room)
{
	AUTO_FREE char *path = look_up(program);
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	enum linkage linkage = LINK_UNKNOWN;

	if (path && is_privileged(path)) {
		snprintf(
			ret, room,
			"%s is set-user-id or set-group-id: the loader does not let the recorder in.\n"
			"  Record a copy without that bit.",
			program);
		return;
	}
	if (path && file_map_open(&map, path, NULL) == 0)
		linkage = linkage_of(map.bytes);
	switch (linkage) {
	case LINK_STATIC:
		snprintf(ret, room,
			 "%s is statically linked: the recorder cannot be loaded into it.\n"
			 "  Record a dynamically linked build.",
			 program);
		return;
	case LINK_OTHER_CLASS:
		snprintf(ret, room, "%s is built for another architecture than the recorder.",
			 program);
		return;
	case LINK_MUSL:
		snprintf(ret, room,
			 "%s uses musl libc; the recorder was built for another C library.",
			 program);
		return;
	case LINK_SCRIPT:
		snprintf(ret, room, "%s is a script whose interpreter did not load the recorder.",
			 program);
		return;
	case LINK_UNKNOWN:
	case LINK_DYNAMIC:
		break;
	}
	snprintf(
		ret, room,
		"%s never started the recorder. It may have replaced LD_PRELOAD, or run where the\n"
		"  recorder's file cannot be read.",
		program);
}

/* Takes ownership of `path`. */
static char *if_readable(char *path)
{
	if (path && access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

static char *beside(const char *folder, const char *relative)
{
	AUTO_FREE char *part = path_join(folder, relative);
	char *path = part ? path_join(part, RECORDER_FILE) : NULL;
	AUTO_FREE char *found = if_readable(path);

	/* LD_PRELOAD wants it whole: the program may run in another folder. */
	return found ? realpath(found, NULL) : NULL;
}

char *recorder_find(struct error *error)
{
	static const char *const places[] = {
		".",
		"../lib",
		"../lib/x86_64-linux-gnu",
		"../lib/aarch64-linux-gnu",
		"../lib64",
		"../lib/heapgauge",
	};
	const char *given = getenv("HEAPGAUGE_RECORDER");
	AUTO_FREE char *self = realpath("/proc/self/exe", NULL);
	AUTO_FREE char *folder = self ? path_folder(self) : NULL;

	if (given && *given) {
		char *path = realpath(given, NULL);

		if (path && access(path, R_OK) == 0)
			return path;
		free(path);
		error_errno(error, "cannot read the recorder %s, which HEAPGAUGE_RECORDER names",
			    given);
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(places) && folder; i++) {
		char *path = beside(folder, places[i]);

		if (path)
			return path;
	}
	error_set(error,
		  "cannot find the recorder " RECORDER_FILE " beside %s or in ../lib.\n"
		  "  Set HEAPGAUGE_RECORDER to its path.",
		  self ? self : "this program");
	return NULL;
}
