/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinds a frame of code that has no unwind information: see scan.h. The code from the return address on is followed to where the
 * function returns, with all that happens to the stack pointer on the way; at the return it points to the caller's address, and the
 * registers that were popped are the caller's. Whatever compiled code does in between, the stack pointer at an instruction is always
 * the same distance from the frame's end: so any way leads to the same result.
 *
 * The one thing that misleads is a call that never returns, since what follows it is no part of the function. So ways with the fewest
 * calls go first, functions that are known to end the program or that reach no return are ends, and if two ways differ, nothing is
 * known. A frame that cannot return is the outermost one: musl calls main and a thread's function from such.
 *
 * Owns: the addresses of functions that never return, written at start-up. Works in scratch->remembered. */
#include "recorder/arch/scan.h"

#include <stddef.h>

#include "recorder/arch/x86_64/instruction.h"
#include "recorder/lookup.h"
#include "recorder/sys.h"
#include "recorder/unwind/cfi.h"

enum {
	WAYS_MAX = 21,
	SEEN_MAX = 80,
	CALLEE_WAYS_MAX = 16,
	STEPS_MAX = 16 << 10,
	CALLS_MAX = 200,
	FRAME_MAX = 1 << 18,
	CALL_BYTES = 5,
};
static uintptr_t endings[24]; /* functions that never return; 0: none */

enum base { BASE_SP, BASE_FP, BASE_LOST };

/* The registers that a function leaves as they were: rbx, rbp, r12 to r15. */
enum { SAVED = 6, SAVED_FP = 1, IN_ITSELF = INT16_MIN };
static const int8_t saved_register[SAVED] = { 3, REG_FP, 12, 13, 14, 15 };
static const uint8_t saved_number[SAVED] = { 3, DW_FP, 12, 13, 14, 15 };

/* A place in the code and the stack pointer there, relative to its value, or that of fp, at the start. */
struct way {
	uintptr_t pc;
	int32_t sp;
	uint8_t base; /* enum base */
	uint8_t calls;
	/* In words, relative to the same: where a register of the caller is, and where this code itself has put one. */
	int16_t saved[SAVED], pushed[SAVED];
	int16_t fp; /* the value that this code itself has given it; IN_ITSELF: none */
};

struct scan {
	uintptr_t start, end; /* code outside of it is another object's */
	uintptr_t page;	      /* the last readable one */
	uint32_t steps, ways, seen_count, calls_limit;
	bool lost; /* a way was given up */
	bool has_result, differs;
	struct way result; /* at the return */
	struct way waiting[WAYS_MAX];
	int32_t seen[SEEN_MAX]; /* targets of jumps, relative to `start` */
};
_Static_assert(sizeof(struct scan) <= sizeof((struct cfi_scratch *)NULL)->remembered, "its place");

static bool is_readable(struct scan *scan, uintptr_t from, uint32_t bytes)
{
	for (uintptr_t page = from / ARCH_PAGE; page <= (from + bytes - 1) / ARCH_PAGE; page++) {
		if (page != scan->page && !sys_readable(page * ARCH_PAGE))
			return false;
		scan->page = page;
	}
	return true;
}

static bool decode(struct scan *scan, uintptr_t pc, struct instruction *ret)
{
	if (pc < scan->start || pc >= scan->end || ++scan->steps > STEPS_MAX ||
	    !is_readable(scan, pc, INSTRUCTION_BYTES_READ))
		return false;
	*ret = instruction_decode((const uint8_t *)pc, pc);
	return ret->kind != INSTRUCTION_UNKNOWN;
}

/* Where a call or jump leads: through pointers, and through an entry of the procedure linkage table. 0: unknown. */
static uintptr_t target_of(struct scan *scan, const struct instruction *instruction)
{
	uintptr_t target = (uintptr_t)instruction->value;
	struct instruction there = *instruction;

	if (!instruction->by_pointer) {
		/* An entry may begin with endbr64. */
		for (int i = 0; i < 2; i++) {
			if (!decode(scan, target, &there) || there.kind != INSTRUCTION_OTHER ||
			    there.bytes != 4)
				break;
			target += 4;
		}
		if (there.kind != INSTRUCTION_TAIL_CALL)
			return (uintptr_t)instruction->value;
	}
	uintptr_t pointer = (uintptr_t)there.value;

	return pointer != 0 && pointer % 8 == 0 && is_readable(scan, pointer, 8)
		       ? *(const uintptr_t *)pointer
		       : 0;
}

static bool is_ending(uintptr_t function)
{
	for (size_t i = 0; i < ARRAY_SIZE(endings) && function != 0; i++) {
		if (endings[i] == function)
			return true;
	}
	return false;
}

/* True if this is the first visit. */
static bool visit(struct scan *scan, uintptr_t pc)
{
	int32_t offset = (int32_t)(pc - scan->start);

	for (uint32_t i = 0; i < scan->seen_count; i++) {
		if (scan->seen[i] == offset)
			return false;
	}
	if (scan->seen_count == SEEN_MAX) {
		scan->lost = true;
		return false;
	}
	scan->seen[scan->seen_count++] = offset;
	return true;
}

/* For one function that is called, without regard to its stack. */
struct callee {
	uint32_t waiting_count, seen_count;
	uintptr_t waiting[CALLEE_WAYS_MAX], seen[CALLEE_WAYS_MAX];
};

/* False: no room. */
static bool callee_add(struct callee *callee, uintptr_t pc)
{
	for (uint32_t i = 0; i < callee->seen_count; i++) {
		if (callee->seen[i] == pc)
			return true;
	}
	if (callee->seen_count == CALLEE_WAYS_MAX)
		return false;
	callee->seen[callee->seen_count++] = pc;
	callee->waiting[callee->waiting_count++] = pc;
	return true;
}

/* Follows the code up to the next jump. True: it may return; branches are added. */
static bool callee_step(struct scan *scan, struct callee *callee)
{
	uintptr_t pc = callee->waiting[--callee->waiting_count];
	struct instruction instruction;

	for (;; pc += instruction.bytes) {
		if (!decode(scan, pc, &instruction))
			return true;
		if (instruction.kind == INSTRUCTION_END)
			return false;
		if (instruction.kind < INSTRUCTION_CALL)
			continue;
		if (instruction.kind == INSTRUCTION_BRANCH) {
			if (!callee_add(callee, (uintptr_t)instruction.value))
				return true;
			continue;
		}
		bool ends = instruction.kind != INSTRUCTION_RETURN &&
			    is_ending(target_of(scan, &instruction));

		if (instruction.kind == INSTRUCTION_CALL && !ends)
			continue;
		if (instruction.kind == INSTRUCTION_JUMP && !ends)
			return !callee_add(callee, (uintptr_t)instruction.value);
		return !ends;
	}
}

static bool never_returns(struct scan *scan, const struct instruction *call)
{
	uintptr_t target = target_of(scan, call);
	struct callee callee = { 0 };

	if (is_ending(target))
		return true;
	if (target < scan->start || target >= scan->end)
		return false;
	callee_add(&callee, target);
	while (callee.waiting_count > 0) {
		if (callee_step(scan, &callee))
			return false;
	}
	return true;
}

static void add_way(struct scan *scan, struct way way)
{
	if (scan->ways < WAYS_MAX)
		scan->waiting[scan->ways++] = way;
	else
		scan->lost = true;
}

static void found(struct scan *scan, const struct way *way)
{
	if (way->base == BASE_LOST || way->sp % 8 != 0 || way->sp >= FRAME_MAX ||
	    (way->base == BASE_SP && way->sp < 0)) {
		scan->lost = true;
		return;
	}
	if (scan->has_result && (scan->result.sp != way->sp || scan->result.base != way->base ||
				 scan->result.saved[SAVED_FP] != way->saved[SAVED_FP]))
		scan->differs = true;
	scan->has_result = true;
	scan->result = *way;
}

/* A register is loaded. A function that is jumped to pushes and pops it once more, which changes nothing. */
static void save(struct way *way, int reg, int64_t at)
{
	for (int i = 0; i < SAVED; i++) {
		if (saved_register[i] == reg && way->pushed[i] != at / 8)
			way->saved[i] = (int16_t)(at / 8);
	}
}

static void forget_saved(struct way *way)
{
	for (int i = 0; i < SAVED; i++)
		way->saved[i] = way->pushed[i] = IN_ITSELF;
	way->fp = IN_ITSELF;
}

static void set_sp_by_fp(struct way *way, int64_t offset)
{
	if (way->fp != IN_ITSELF) {
		way->sp = way->fp * 8 + (int32_t)offset;
		return;
	}
	if (way->base != BASE_FP)
		forget_saved(way);
	way->base = BASE_FP;
	way->sp = (int32_t)offset;
}

/* What an instruction that does not jump does to the stack pointer and the saved registers. */
static void apply(struct way *way, const struct instruction *instruction)
{
	switch (instruction->kind) {
	case INSTRUCTION_PUSH:
		way->sp -= 8;
		for (int i = 0; i < SAVED; i++) {
			if (saved_register[i] == instruction->reg)
				way->pushed[i] = (int16_t)(way->sp / 8);
		}
		break;
	case INSTRUCTION_LEAVE:
		set_sp_by_fp(way, 0);
		save(way, REG_FP, way->sp);
		way->sp += 8;
		break;
	case INSTRUCTION_POP:
		if (instruction->reg == REG_SP)
			way->base = BASE_LOST;
		save(way, instruction->reg, way->sp);
		way->sp += 8;
		break;
	case INSTRUCTION_ADD_SP:
		way->sp += (int32_t)instruction->value;
		break;
	case INSTRUCTION_SP_IS:
		if (instruction->base_is_fp)
			set_sp_by_fp(way, instruction->value);
		else
			way->sp += (int32_t)instruction->value;
		break;
	case INSTRUCTION_FP_IS_SP:
		way->fp = (int16_t)(way->sp / 8);
		break;
	case INSTRUCTION_LOST_SP:
		way->base = BASE_LOST;
		break;
	case INSTRUCTION_LOAD:
		save(way, instruction->reg, way->sp + instruction->value);
		break;
	default:
		break;
	}
}

/* One instruction. False: the way ends here. */
static bool follow(struct scan *scan, struct way *way)
{
	struct instruction instruction;
	struct way other = *way;

	if (!decode(scan, way->pc, &instruction)) {
		scan->lost = true;
		return false;
	}
	way->pc += instruction.bytes;
	switch (instruction.kind) {
	case INSTRUCTION_CALL:
		if (never_returns(scan, &instruction))
			return false;
		scan->lost |= way->calls == scan->calls_limit;
		return way->calls++ < scan->calls_limit;
	case INSTRUCTION_BRANCH:
		other.pc = (uintptr_t)instruction.value;
		if (other.pc >= scan->start && other.pc < scan->end && visit(scan, other.pc))
			add_way(scan, other);
		return true;
	case INSTRUCTION_JUMP:
		if (is_ending(target_of(scan, &instruction)))
			return false;
		way->pc = (uintptr_t)instruction.value;
		if (way->pc >= scan->start && way->pc < scan->end)
			return visit(scan, way->pc);
		found(scan, way); /* another function returns for this one */
		return false;
	case INSTRUCTION_TAIL_CALL:
		if (is_ending(target_of(scan, &instruction)))
			return false;
		found(scan, way);
		return false;
	case INSTRUCTION_RETURN:
		found(scan, way);
		return false;
	case INSTRUCTION_LOST_JUMP:
		scan->lost = true;
		return false;
	case INSTRUCTION_END:
		return false;
	default:
		apply(way, &instruction);
		return true;
	}
}

static void follow_all(struct scan *scan, uintptr_t pc, uint32_t calls_limit)
{
	scan->calls_limit = calls_limit;
	scan->steps = scan->ways = scan->seen_count = 0;
	scan->lost = scan->has_result = scan->differs = false;
	struct way way = { .pc = pc };

	forget_saved(&way);
	add_way(scan, way);
	while (scan->ways > 0) {
		way = scan->waiting[--scan->ways];
		while (follow(scan, &way))
			;
	}
}

/* As call frame information would say it. */
static void describe(const struct scan *scan, struct cfi_state *ret)
{
	const struct way *result = &scan->result;
	int64_t cfa = result->sp + 8;

	*ret = (struct cfi_state){ 0 };
	if (!scan->has_result) {
		ret->kind[DW_PC] = CFI_UNDEFINED;
		return;
	}
	ret->cfa_register = result->base == BASE_FP ? DW_FP : DW_SP;
	ret->cfa_offset = cfa;
	ret->kind[DW_PC] = CFI_OFFSET;
	ret->value[DW_PC] = ARCH_RETURN_AT;
	for (int i = 0; i < SAVED; i++) {
		if (result->saved[i] != IN_ITSELF) {
			ret->kind[saved_number[i]] = CFI_OFFSET;
			ret->value[saved_number[i]] = result->saved[i] * 8 - cfa;
		}
	}
}

/* True if the call that returns to pc never does. */
static bool follows_ending(struct scan *scan, uintptr_t pc)
{
	enum { CALL = 0xe8 };
	struct instruction call;

	return *(const uint8_t *)(pc - CALL_BYTES) == CALL &&
	       decode(scan, pc - CALL_BYTES, &call) && never_returns(scan, &call);
}

/* What a signal handler returns to: the kernel has put the interrupted registers above it. */
static bool is_signal_return(uintptr_t pc)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

	return __builtin_memcmp((const void *)pc, code, sizeof code) == 0;
}

static void describe_signal(struct cfi_state *ret)
{
	enum { BREG_SP = 0x70 + DW_SP, DEREF = 0x06, REGISTERS_AT = 40 };
	/* In the order of ucontext_t: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. The offsets in LEB128. */
#define SAVED_AT(n)                                                                                \
	{                                                                                          \
		3, BREG_SP, ((REGISTERS_AT + 8 * (n)) & 0x7f) | 0x80,                              \
			(REGISTERS_AT + 8 * (n)) >> 7                                              \
	}
	static const uint8_t saved[][4] = { SAVED_AT(0),  SAVED_AT(1),	SAVED_AT(2),  SAVED_AT(3),
					    SAVED_AT(4),  SAVED_AT(5),	SAVED_AT(6),  SAVED_AT(7),
					    SAVED_AT(8),  SAVED_AT(9),	SAVED_AT(10), SAVED_AT(11),
					    SAVED_AT(12), SAVED_AT(13), SAVED_AT(14), SAVED_AT(15),
					    SAVED_AT(16) };
#undef SAVED_AT
	static const uint8_t number[] = {
		8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16
	};
	static const uint8_t cfa[] = { 4, BREG_SP, ((REGISTERS_AT + 8 * 15) & 0x7f) | 0x80,
				       (REGISTERS_AT + 8 * 15) >> 7, DEREF };

	*ret = (struct cfi_state){ .cfa_by_expression = true, .cfa_expression = cfa };
	for (size_t i = 0; i < ARRAY_SIZE(number); i++) {
		ret->kind[number[i]] = CFI_EXPRESSION;
		ret->value[number[i]] = (int64_t)(uintptr_t)saved[i];
	}
}

enum scan_result arch_scan(uintptr_t pc, bool exact, struct cfi_scratch *scratch)
{
	enum { OBJECT_MAX = 1 << 28 };
	struct scan *scan = (struct scan *)(void *)scratch->remembered;

	*scan = (struct scan){ .start = pc - MIN(pc, (uintptr_t)OBJECT_MAX),
			       .end = pc + OBJECT_MAX };
	if (!is_readable(scan, pc - CALL_BYTES, CALL_BYTES + INSTRUCTION_BYTES_READ))
		return SCAN_UNKNOWN;
	if (is_signal_return(pc)) {
		describe_signal(&scratch->state);
		return SCAN_SIGNAL;
	}
	if (!exact && follows_ending(scan, pc))
		return SCAN_UNKNOWN;
	for (uint32_t calls = 0; calls <= CALLS_MAX; calls = 4 * calls + 2) {
		follow_all(scan, pc, calls);
		if (scan->has_result || !scan->lost)
			break;
	}
	if (scan->differs || (!scan->has_result && scan->lost))
		return SCAN_UNKNOWN;
	describe(scan, &scratch->state);
	return SCAN_FRAME;
}

void arch_scan_start(void)
{
	static const char names[][20] = { "exit",	"_exit",	 "_Exit",
					  "quick_exit", "abort",	 "longjmp",
					  "_longjmp",	"siglongjmp",	 "pthread_exit",
					  "thrd_exit",	"__assert_fail", "__stack_chk_fail" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		endings[2 * i] = (uintptr_t)lookup_first(names[i]);
		endings[2 * i + 1] = (uintptr_t)lookup_next(names[i]);
	}
}
