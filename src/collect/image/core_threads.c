/* SPDX-License-Identifier: Apache-2.0 */
/* The notes of a core file have the registers as ptrace shows them. Their size is that of this machine: core_file.c checked it. Pure. */
#include "collect/image/core_threads.h"

#include <string.h>

#include "base/compiler.h"
#include "collect/trace/registers.h"

bool threads_of_core(const struct core_file *core, struct stopped *ret)
{
	enum { VECTOR_WORDS_MAX = 2048 };
	uint64_t vectors[VECTOR_WORDS_MAX];
	struct user_regs_struct registers;

	*ret = (struct stopped){ .pid = core->pid };
	for (size_t i = 0; i < core->threads.count; i++) {
		const struct core_thread *thread = &core->threads.at[i];
		size_t count = MIN(thread->vectors.size / sizeof *vectors, ARRAY_SIZE(vectors));

		if (thread->registers.size < sizeof registers)
			continue;
		memcpy(&registers, thread->registers.data, sizeof registers);
		if (count > 0)
			memcpy(vectors, thread->vectors.data, count * sizeof *vectors);
		if (!registers_add(ret, thread->tid, &registers, thread->thread_pointer, vectors,
				   count))
			return false;
	}
	return ret->threads.count > 0;
}
