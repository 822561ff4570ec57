/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note has a name, a type and a content. Those of a thread follow its NT_PRSTATUS; the first thread is the one that ended the process.
 * Unknown notes are skipped; whatever is damaged ends the list. Pure, but for memory.
 */
#include <elf.h>
#include <string.h>
#include <sys/procfs.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/cursor.h"
#include "collect/kernel/core_file.h"

#ifdef __x86_64__
#define VECTOR_NOTE NT_X86_XSTATE
#else
#define VECTOR_NOTE NT_PRFPREG
#endif
#define ADDRESS_MAX (1ull << 57)

enum { NOTE_ALIGN = 4, MAPPED_MAX = 1 << 20, NAME_BYTES_MAX = 4096 };

static bool add_thread(struct core_file *core, struct span content)
{
	struct elf_prstatus status;
	struct core_thread thread = { 0 };

	if (content.size < sizeof status)
		return true;
	memcpy(&status, content.data, sizeof status);
	thread.tid = status.pr_pid;
	thread.registers =
		span_of(content.data + offsetof(struct elf_prstatus, pr_reg), sizeof status.pr_reg);
	if (core->threads.count == 0)
		core->signal =
			status.pr_cursig > 0 && status.pr_cursig < 128 ? status.pr_cursig : 0;
	return vector_push(&core->threads, thread);
}

static void take_process(struct core_file *core, struct span content)
{
	struct elf_prpsinfo info;

	if (content.size < sizeof info)
		return;
	memcpy(&info, content.data, sizeof info);
	core->pid = MAX(info.pr_pid, 0);
	core->ppid = MAX(info.pr_ppid, 0);
	core->uid = info.pr_uid + 1;
}

static void take_auxiliary(struct core_file *core, struct span content)
{
	struct cursor c = cursor_over(content);

	while (cursor_left(&c) >= 2 * sizeof(uint64_t)) {
		uint64_t type = cursor_u64(&c), value = cursor_u64(&c);

		if (type == AT_ENTRY)
			core->entry = value;
		if (type == AT_RANDOM)
			core->stack = value;
	}
}

/* Up to and with the terminator; NULL: there is none. */
static const char *next_name(struct cursor *names)
{
	const char *name = (const char *)names->at;
	const void *end = cursor_left(names) ? memchr(name, 0, cursor_left(names)) : NULL;

	if (!end)
		return NULL;
	cursor_skip(names, (size_t)((const char *)end - name) + 1);
	return name;
}

/* "count, page size, {start, end, offset in pages}..., names" */
static bool take_files(struct core_file *core, struct span content)
{
	enum { ENTRY_BYTES = 3 * sizeof(uint64_t) };
	struct cursor c = cursor_over(content), names = c;
	uint64_t count = cursor_u64(&c), page = cursor_u64(&c), end_before = 0, number = 0;
	const char *before = "";

	if (c.failed || core->mapped.count > 0 || count > MAPPED_MAX ||
	    count > cursor_left(&c) / ENTRY_BYTES)
		return true;
	cursor_skip(&names, 2 * sizeof(uint64_t) + count * ENTRY_BYTES);
	for (uint64_t i = 0; i < count; i++) {
		struct core_mapped one = { .start = cursor_u64(&c), .end = cursor_u64(&c) };

		one.offset = saturating_mul(cursor_u64(&c), page);
		one.name = next_name(&names);
		if (!one.name)
			return true;
		/* By address: the kernel and gdb write them so. No path is that long. */
		if (one.start < end_before || one.start >= one.end || one.end > ADDRESS_MAX ||
		    strnlen(one.name, NAME_BYTES_MAX) == NAME_BYTES_MAX)
			continue;
		number += strcmp(one.name, before) != 0;
		one.number = number;
		before = one.name;
		end_before = one.end;
		if (!vector_push(&core->mapped, one))
			return false;
	}
	return true;
}

/* Of the last thread. */
static void take_registers(struct core_file *core, uint32_t type, struct span content)
{
	if (core->threads.count == 0)
		return;
	struct core_thread *thread = &core->threads.at[core->threads.count - 1];

	if (type == VECTOR_NOTE)
		thread->vectors = content;
	else if (type == NT_ARM_TLS && content.size >= sizeof thread->thread_pointer)
		memcpy(&thread->thread_pointer, content.data, sizeof thread->thread_pointer);
}

static bool take_note(struct core_file *core, uint32_t type, struct span content)
{
	switch (type) {
	case NT_PRSTATUS:
		return add_thread(core, content);
	case NT_PRPSINFO:
		take_process(core, content);
		return true;
	case NT_AUXV:
		take_auxiliary(core, content);
		return true;
	case NT_FILE:
		return take_files(core, content);
	default:
		take_registers(core, type, content);
		return true;
	}
}

static void skip_padding(struct cursor *c)
{
	cursor_skip(c, MIN(-cursor_offset(c) % NOTE_ALIGN, cursor_left(c)));
}

bool core_notes_read(struct core_file *core)
{
	struct cursor c = cursor_over(span_of(core->notes, core->notes_bytes));

	while (cursor_left(&c) > 0) {
		uint32_t name_bytes = cursor_u32(&c), bytes = cursor_u32(&c), type = cursor_u32(&c);
		struct span name = cursor_bytes(&c, name_bytes);

		skip_padding(&c);
		struct span content = cursor_bytes(&c, bytes);

		skip_padding(&c);
		if (c.failed)
			return true;
		/* "CORE" or "LINUX", with the terminator. */
		if ((name.size == 5 && memcmp(name.data, "CORE", 5) == 0) ||
		    (name.size == 6 && memcmp(name.data, "LINUX", 6) == 0)) {
			if (!take_note(core, type, content))
				return false;
		}
	}
	return true;
}
