/* SPDX-License-Identifier: Apache-2.0 */
/* What still refers to a block. Its numbers are part of the file format. */
#ifndef FORMAT_REACH_H
#define FORMAT_REACH_H

/* X(id, name, sentence). Ordered: a block belongs to the first class of roots that reaches it. */
#define REACH_CLASS_TABLE(X)                                                                       \
	X(REACH_GLOBAL, "global", "reachable from a global variable")                              \
	X(REACH_TLS, "tls", "reachable from a thread-local variable")                              \
	X(REACH_UNKNOWN, "unknown", "reachable from memory of unknown use")                        \
	X(REACH_STACK, "stack", "reachable only from stacks and registers")                        \
	X(REACH_DIRECT, "direct", "unreachable, and nothing refers to it")                         \
	X(REACH_INDIRECT, "indirect", "unreachable: only unreachable blocks refer to it")          \
	X(REACH_RING, "ring", "unreachable: part of a reference cycle")

#define REACH_CLASS_ID(id, name, sentence) id,
enum reach_class { REACH_CLASS_TABLE(REACH_CLASS_ID) REACH_CLASSES };
#undef REACH_CLASS_ID

/* How the memory of a process was read. */
enum reach_taken {
	REACH_STOPPED = 0,
	REACH_CLONE = 1, /* it went on while its copy was read */
	REACH_CORE = 2,	 /* from a core file */
};

enum { REACH_ROOT_CLASSES = REACH_DIRECT };

static inline int reach_is_unreachable(unsigned reach_class)
{
	return reach_class >= REACH_DIRECT;
}

#endif
