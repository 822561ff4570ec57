/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons why a process that should have been recorded was not, with texts for the user. The numbers are part of both formats: a new
 * reason gets the next one, and a reader treats an unknown one as the first.
 *   X(name, who, why)
 * who: PROGRAM, CHILD or PROCESS. */
#ifndef FORMAT_MISSED_H
#define FORMAT_MISSED_H

#define MISSED_REASONS(X)                                                                            \
	X(unconnected, PROGRAM,                                                                      \
	  "never reached heapgauge: no free descriptor, no address space, or killed at once")        \
	X(child, CHILD, "never reached heapgauge: no free descriptor, or killed at once")            \
	X(no_room, PROCESS,                                                                          \
	  "its limits leave no room for the recorder: see ulimit -v, ulimit -n and ulimit -f")       \
	X(no_memory, PROCESS, "heapgauge had no memory or descriptor for it")                        \
	X(bypassed, PROGRAM, "started by a system call that the recorder does not see")              \
	X(recorder, PROGRAM,                                                                         \
	  "cannot read the recorder's file there: a chroot, or another user's program")              \
	X(privileged, PROGRAM,                                                                       \
	  "privileged: set-user-id, set-group-id, with file capabilities, "                          \
	  "or an effective user or group that is not the real one")                                  \
	X(static, PROGRAM, "statically linked")                                                      \
	X(other_class, PROGRAM, "32-bit")                                                            \
	X(other_machine, PROGRAM, "built for another architecture")                                  \
	X(other_libc, PROGRAM, "built for another C library than glibc and musl")                    \
	X(sanitized, PROGRAM, "built with a sanitizer")                                              \
	X(unreadable, PROGRAM,                                                                       \
	  "its file is not an ELF program or cannot be read, or no descriptor was free")             \
	X(sealed, PROCESS, "a seccomp filter forbids what the recorder needs")                       \
	X(busy, PROGRAM, "started by the recorder itself, or without space for its variables")       \
	X(lost, PROCESS,                                                                             \
	  "its recording could not be read: it was damaged, or lost with the process, whose limits " \
	  "allowed only its own memory (ulimit -n, ulimit -f)")

enum missed_reason {
#define MISSED_ENUM(name, who, why) MISSED_##name,
	MISSED_REASONS(MISSED_ENUM)
#undef MISSED_ENUM
		MISSED_COUNT,
};

struct missed_words {
	const char *name, *one, *many, *why;
};
extern const struct missed_words missed_words[MISSED_COUNT];
#endif
