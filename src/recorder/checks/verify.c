/* SPDX-License-Identifier: Apache-2.0 */
/* See verify.h. The result goes to the file named by HEAPGAUGE_VERIFY_LOG, one line per process at its end:
 *   VERIFY pid=P checked=N same=N cut=N stopped=N further=N remembered=N wrong=N
 * (further: the other unwinder ended early, ours goes on; remembered: stack cache hits) and the first wrong stacks in full. All counters are
 * atomic; only tests load this. HEAPGAUGE_VERIFY_BY_LIBGCC: where stacks are compared frame by frame, with libgcc's unwinder instead. */
#include "recorder/checks/verify.h"

#include "recorder/unwind/modules.h"
#include "recorder/sys.h"

enum {
	FRAMES_MAX = 2048,
	SHOWN_MAX = 20,
	CACHED_RULES = 1 << 15,
	LINE = 128,
};

static uint64_t checked, same, cut, stopped, further, remembered, wrong;
static __thread void *theirs[FRAMES_MAX];
static __thread uintptr_t ours[FRAMES_MAX];

/* The value of a variable, whose name ends with "="; NULL: not set. */
static const char *variable(const char *name)
{
	for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
		size_t i = 0;

		while (name[i] && (*entry)[i] == name[i])
			i++;
		if (name[i] == 0)
			return *entry + i;
	}
	return NULL;
}

static const char *log_path(void)
{
	return variable("HEAPGAUGE_VERIFY_LOG=");
}

bool verify_is_old(void)
{
	return variable("HEAPGAUGE_VERIFY_OLD=") != NULL;
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
	long fd = path == NULL ? -1
			       : sys_call6(SYS_openat, AT_FDCWD, (long)path,
					   O_WRONLY | O_CREAT | O_APPEND, 0644, 0, 0);

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

/* Writes the return addresses of a site's stack to `ours`, innermost first; returns their number. ret_mark: the sentinel at the
 * root, enum live_frame_mark or 0. */
static int frames_of(uint32_t counters, uint32_t *ret_mark)
{
	uint32_t node = memory_site(memory_counters(counters)->site)->node;
	int count = 0;

	for (; node > LIVE_FRAME_STACK_OFF && count < FRAMES_MAX;
	     node = memory_node(node)->parent) {
		uintptr_t address = memory_frame_address(memory_node(node)->frame);

		if (address != 0)
			ours[count++] = address;
	}
	*ret_mark = node;
	return count;
}

static void show(uint32_t mark, int our_count, int first, int count)
{
	if (__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED) > SHOWN_MAX)
		return;
	show_frame("WRONG mark ", mark, 0);
	for (int i = 0; i < our_count; i++)
		show_frame("  ours   ", (uint64_t)i, ours[i]);
	for (int i = first; i < count; i++)
		show_frame("  theirs ", (uint64_t)(i - first), (uintptr_t)theirs[i]);
}

#ifdef HEAPGAUGE_VERIFY_BY_STEPS
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *ret_count)
{
	int *count = ret_count;
	uintptr_t pc = _Unwind_GetIP(context);

	if (*count == FRAMES_MAX || pc == 0) /* beyond the outermost function */
		return _URC_END_OF_STACK;
	theirs[(*count)++] = (void *)pc;
	return _URC_NO_REASON;
}

/* It caches 128 rules unless told otherwise, and looks for others at each step. */
__attribute__((constructor)) static void enlarge_cache(void)
{
	unw_set_cache_size(unw_local_addr_space, CACHED_RULES, 0);
}

static int backtrace_of_libunwind(void)
{
	static __thread unw_context_t context;
	static __thread unw_cursor_t cursor;
	unw_save_loc_t saved;
	unw_word_t pc;
	int count = 0, stepped = -1;

	unw_getcontext(&context);
	if (unw_init_local(&cursor, &context) < 0)
		return 0;
	while (count < FRAMES_MAX && (stepped = unw_step(&cursor)) > 0 &&
	       unw_get_reg(&cursor, UNW_REG_IP, &pc) == 0 && pc != 0)
		theirs[count++] = (void *)pc;
	/* It ends at the frame whose x29 is 0, as of the outermost function, and leaves that out. Where its address was saved is known. */
	if (stepped == 0 && count < FRAMES_MAX &&
	    unw_get_save_loc(&cursor, UNW_AARCH64_X30, &saved) == 0 && saved.type == UNW_SLT_MEMORY)
		theirs[count++] = (void *)arch_strip(*(const uintptr_t *)saved.u.addr);
	return count;
}

static int backtrace_of_other(void)
{
	int count = 0;

	if (variable("HEAPGAUGE_VERIFY_BY_LIBGCC=") == NULL)
		return backtrace_of_libunwind();
	_Unwind_Backtrace(take_frame, &count);
	return count;
}
#else
static int backtrace_of_other(void)
{
	return unw_backtrace(theirs, FRAMES_MAX);
}
#endif

void verify_stack(const uintptr_t *frame, uint32_t counters, bool by_memo)
{
	uint32_t mark;
	int our_count = frames_of(counters, &mark), count = backtrace_of_other();
	int first = 0, equal = 0;

	while (first < count && (uintptr_t)theirs[first] != frame[1])
		first++;
	__atomic_add_fetch(&checked, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&remembered, by_memo, __ATOMIC_RELAXED);
	if (mark == LIVE_FRAME_OTHER || mark == LIVE_FRAME_STACK_OFF)
		return; /* no memory: neither right nor wrong */
	while (equal < our_count && first + equal < count &&
	       (uintptr_t)theirs[first + equal] == ours[equal])
		equal++;
	bool theirs_ended = first + equal == count;
	bool gone_through = equal == our_count;
	/* ld.so starts the process in assembly without unwind information: a root for us. */
	bool ended_early = mark != 0 || (our_count > 0 && modules_is_loader(ours[our_count - 1]));
	uint64_t *verdict = &same;

	if (!theirs_ended && !(gone_through && ended_early)) {
		show(mark, our_count, first, count);
		return;
	}
	if (!gone_through)
		verdict = &further;
	else if (ended_early)
		verdict = mark == LIVE_FRAME_CUT ? &cut : &stopped;
	__atomic_add_fetch(verdict, 1, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void report(void)
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
