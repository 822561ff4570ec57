/* SPDX-License-Identifier: Apache-2.0 */
/* See verify.h. The result goes to the file that HEAPGAUGE_VERIFY_LOG names, one line for each process at its end:
 *   VERIFY pid=P checked=N same=N cut=N stopped=N further=N remembered=N wrong=N
 * (further: libunwind ended early, ours goes on; remembered: by the memo) and the first wrong stacks in full. Atomics throughout; only a test loads this. */
#include "recorder/verify.h"

#include "recorder/rules.h"
#include "recorder/sys.h"
#include "recorder/walk.h"

enum {
	FRAMES_MAX = 2048,
	SHOWN_MAX = 20,
	LINE = 128,
	APPEND = 02101 /* O_WRONLY | O_CREAT | O_APPEND */
};

static uint64_t checked, same, cut, stopped, further, remembered, wrong;
static __thread void *theirs[FRAMES_MAX];

static const char *log_path(void)
{
	static const char name[] = "HEAPGAUGE_VERIFY_LOG=";

	for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
		size_t i = 0;

		while (name[i] && (*entry)[i] == name[i])
			i++;
		if (name[i] == 0)
			return *entry + i;
	}
	return NULL;
}

static size_t put_text(char *to, const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		to[n] = text[n];
	return n;
}

static size_t put_number(char *to, uint64_t value, unsigned base)
{
	char digits[24];
	size_t n = 0, at = 0;

	do
		digits[n++] = "0123456789abcdef"[value % base];
	while ((value /= base) != 0);
	while (n > 0)
		to[at++] = digits[--n];
	return at;
}

static void put_line(const char *line, size_t bytes)
{
	const char *path = log_path();
	long fd = path == NULL ? -1 : sys_call3(SYS_open, (long)path, APPEND, 0644);

	if (fd < 0)
		return;
	sys_call3(SYS_write, fd, (long)line, (long)bytes);
	sys_close((int)fd);
}

static void show_frame(const char *who, uint64_t number, uint64_t pc)
{
	char line[LINE];
	size_t n = put_text(line, who);

	n += put_number(line + n, number, 10);
	n += put_text(line + n, " 0x");
	n += put_number(line + n, pc, 16);
	n += put_text(line + n, "\n");
	put_line(line, n);
}

static void show(const struct walk *walk, int first, int count)
{
	if (__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED) > SHOWN_MAX)
		return;
	show_frame("WRONG mark ", walk->mark, 0);
	for (uint32_t i = 0; i < walk->count; i++)
		show_frame("  ours   ", i, walk->frame[walk->count - 1 - i].pc);
	for (int i = first; i < count; i++)
		show_frame("  theirs ", (uint64_t)(i - first), (uintptr_t)theirs[i]);
}

/* Whether the site of the record has the walk's frames: the hash alone proves nothing. */
static bool is_site_of(const struct walk *walk, uint32_t record)
{
	uint32_t node = memory_site(memory_record(record)->site)->node;

	for (uint32_t i = walk->count; i-- > 0; node = memory_node(node)->parent) {
		if (memory_node(node)->frame != rule_frame(walk->info[i].rule))
			return node == LIVE_FRAME_OTHER;
	}
	return node == walk->mark;
}

void verify_memo(struct slot *slot, uint32_t known, uint32_t walked)
{
	__atomic_add_fetch(&remembered, 1, __ATOMIC_RELAXED);
	if (known != walked)
		show(slot->walk, 0, 0);
}

void verify_stack(struct slot *slot, const uintptr_t *frame, uint32_t record)
{
	const struct walk *walk = slot->walk;
	int count = unw_backtrace(theirs, FRAMES_MAX);
	int first = 0;
	uint32_t equal = 0;

	while (first < count && (uintptr_t)theirs[first] != frame[1])
		first++;
	__atomic_add_fetch(&checked, 1, __ATOMIC_RELAXED);
	while (equal < walk->count && first + (int)equal < count &&
	       (uintptr_t)theirs[first + (int)equal] == walk->frame[walk->count - 1 - equal].pc)
		equal++;
	bool theirs_ended = first + (int)equal == count;

	bool gone_through = equal == walk->count;
	bool ended_early =
		walk->mark == LIVE_FRAME_CUT || rule_kind(walk->info[0].rule) == RULE_STOP;
	uint64_t *verdict = &same;

	if (!is_site_of(walk, record) ||
	    !(gone_through ? theirs_ended || ended_early : theirs_ended)) {
		show(walk, first, count);
		return;
	}
	if (!gone_through)
		verdict = &further;
	else if (ended_early)
		verdict = walk->mark == LIVE_FRAME_CUT ? &cut : &stopped;
	__atomic_add_fetch(verdict, 1, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void tell(void)
{
	static const char *const names[] = { " checked=", " same=",	  " cut=",  " stopped=",
					     " further=", " remembered=", " wrong=" };
	const uint64_t values[] = { checked, same, cut, stopped, further, remembered, wrong };
	char line[2 * LINE];
	size_t n = put_text(line, "VERIFY pid=");

	n += put_number(line + n, (uint64_t)sys_getpid(), 10);
	for (int i = 0; i < 7; i++) {
		n += put_text(line + n, names[i]);
		n += put_number(line + n, values[i], 10);
	}
	n += put_text(line + n, "\n");
	put_line(line, n);
}
