// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17 -fcf-protection=full -Wl,-z,lazy
// adversary ROUNDS SEED [nosteps] [nocfi] [again]: a random program out of everything that is hard for a stack walker.
//
// Each round descends through frames of all kinds, allocating on the way down and up: alloca, realigned frames, with and
// without frame pointers, exceptions, longjmp, coroutines on recycled and remapped stacks, signals on the normal and on an
// alternate stack, faults, lazy binding, the loader, the vdso, hand-written frames, deep recursion. The trap flag makes
// a handler allocate after every single instruction of parts of it, prologues, epilogues, PLT stubs and the vdso included.
// The same seed gives the same program. "nosteps" leaves the trap flag alone, "nocfi" adds frames without unwind
// information, at which a walk must stop and libunwind guesses, "again" lets rounds come back: for what remembers stacks.
#include "adversary_asm.h"
#include "interrupted.h"
#include "plugin.h"
#include "single_step.h"
#include <alloca.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __clang__
#define FRAME_POINTER
#else
#define FRAME_POINTER __attribute__((optimize("no-omit-frame-pointer")))
#endif
#define USE(pointer) __asm__ volatile("" ::"r"(pointer) : "memory")
#define AFTER() __asm__ volatile("" ::: "memory")

enum { COROUTINES = 6, STACK = 256 * 1024, VDSO_BYTES = 2 * 4096 };

static uint32_t state;
static jmp_buf way_out;
static bool may_jump, with_steps = true, with_nocfi, with_again;
/* While stepping only the handler allocates: libunwind blocks signals, and a blocked trap kills. */
static bool stepping;
static unsigned long allocations, steps;
static uintptr_t vdso;

static unsigned random_below(unsigned n)
{
	return (next_random(&state) >> 8) % n;
}

extern "C" {
NOINLINE void go(int depth);
static void go_long(long depth)
{
	go(static_cast<int>(depth));
	AFTER();
}

NOINLINE void leaf_malloc(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	allocations++;
	free(p);
}

NOINLINE void leaf_realloc(size_t n)
{
	void *p = calloc(n, 2);
	KEEP(p);
	p = realloc(p, n * 5 + 1);
	KEEP(p);
	allocations += 2;
	free(p);
}

NOINLINE void leaf_new(size_t n)
{
	char *p = new char[n + 1];
	KEEP(p);
	allocations++;
	delete[] p;
}

NOINLINE void leaf(void)
{
	size_t n = 16 + random_below(300);
	if (stepping)
		return;
	switch (random_below(4)) {
	case 0:
		leaf_realloc(n);
		break;
	case 1:
		leaf_new(n);
		break;
	default:
		leaf_malloc(n);
		break;
	}
	AFTER();
}

NOINLINE void f_plain(int depth)
{
	go(depth);
	AFTER();
	leaf();
	AFTER();
}

NOINLINE void f_big_frame(int depth)
{
	volatile char room[2000];
	room[0] = 1;
	go(depth);
	leaf();
	room[1] = room[0];
}

NOINLINE void f_alloca(int depth)
{
	auto *room = static_cast<char *>(alloca(16 * (1 + random_below(20))));
	room[0] = 1;
	USE(room);
	go(depth);
	leaf();
	USE(room);
}

NOINLINE void f_aligned_varargs(int depth, ...)
{
	alignas(64) volatile char room[128];
	room[0] = 1;
	USE(room);
	go(depth);
	leaf();
	room[2] = room[0];
}

NOINLINE void f_aligned_alloca(int depth)
{
	alignas(128) volatile char room[64];
	auto *more = static_cast<char *>(alloca(16 * (1 + random_below(5))));
	more[0] = room[0] = 1;
	USE(more);
	go(depth);
	leaf();
	USE(room);
}

FRAME_POINTER NOINLINE void f_frame_pointer(int depth)
{
	go(depth);
	AFTER();
	leaf();
	AFTER();
}

NOINLINE void f_exception(int depth)
{
	try {
		go(depth);
		if (random_below(4) == 0 && !stepping)
			throw depth;
	} catch (int) {
		leaf();
		go(depth - 4);
	}
	leaf();
}

struct allocates_while_unwinding {
	NOINLINE ~allocates_while_unwinding()
	{
		leaf();
	}
};

NOINLINE void f_throw_far(int depth)
{
	try {
		allocates_while_unwinding cleanup;
		f_alloca(depth - 1);
		if (!stepping)
			throw 1L;
	} catch (long) {
		leaf();
	}
}

/* A callee-saved register, rbp among them, holds a value across the calls. */
NOINLINE void f_registers(int depth)
{
	unsigned long a = random_below(99), b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13;
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	go(depth);
	__asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
	leaf();
	go(depth - 5);
	__asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
}

NOINLINE void f_two_calls(int depth)
{
	if (random_below(2)) {
		go(depth);
		__asm__ volatile("nop" ::: "memory");
	} else {
		go(depth);
		__asm__ volatile("nop; nop" ::: "memory");
	}
	leaf();
}

NOINLINE void f_tail(int depth)
{
	leaf();
	f_two_calls(depth);
}

__attribute__((noreturn)) NOINLINE void never_returns(jmp_buf *out)
{
	leaf();
	longjmp(*out, 1);
}
NOINLINE void ends_in_call(jmp_buf *out)
{
	never_returns(out);
}
NOINLINE void f_noreturn(int depth)
{
	jmp_buf out;
	if (setjmp(out) == 0)
		ends_in_call(&out);
	go(depth);
	AFTER();
}

NOINLINE void f_assembly(int depth)
{
	static asm_callee *const none = nullptr;
	switch (random_below(with_nocfi ? 7 : 6)) {
	case 0:
		asm_call_expression(go_long, depth);
		break;
	case 1:
		asm_call_rbx(go_long, depth);
		break;
	case 2:
		asm_call_r12(go_long, depth);
		break;
	case 3:
		asm_call_saved_by_expression(go_long, depth);
		break;
	case 4:
		asm_call_value_expression(go_long, depth);
		break;
	case 5:
		asm_call_two_exits(none, 0);
		asm_call_two_exits(go_long, depth);
		break;
	default:
		asm_call_no_cfi(go_long, depth);
		break;
	}
	AFTER();
}

static volatile int signal_depth;
static void on_signal(int)
{
	leaf();
	go(signal_depth);
	AFTER();
}
static void on_fault(int, siginfo_t *, void *context)
{
	leaf();
	static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}
NOINLINE void f_signal(int depth)
{
	signal_depth = depth - 3;
	// Not raise(): before glibc 2.34 it blocks all signals.
	tgkill(getpid(), gettid(), random_below(2) ? SIGUSR1 : SIGUSR2);
	AFTER();
}
NOINLINE void f_fault(int depth)
{
	asm_trap_first();
	go(depth);
	AFTER();
}

NOINLINE void f_clock(int depth)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	USE(&now);
	go(depth);
	AFTER();
}

static int by_number(const void *a, const void *b)
{
	leaf();
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}
NOINLINE void f_callback(int depth)
{
	int some[3] = { 3, 1, 2 };
	qsort(some, 3, sizeof some[0], by_number);
	USE(some);
	go(depth);
	AFTER();
}

NOINLINE void f_deep(int depth)
{
	volatile char room[24];
	room[0] = 1;
	if (depth > 0)
		f_deep(depth - 1);
	else
		leaf();
	if (depth % 997 == 5)
		leaf();
	room[1] = room[0];
}
}

static void (*library_call)(void (*)(int), int);

extern "C" NOINLINE void f_library(int depth)
{
	if (stepping)
		go(depth);
	else
		library_call(go, depth);
	AFTER();
}

extern "C" NOINLINE void go(int depth)
{
	if (random_below(3) == 0)
		leaf();
	if (depth <= 0) {
		leaf();
		if (may_jump && random_below(64) == 0)
			longjmp(way_out, 1);
		return;
	}
	switch (random_below(18)) {
	case 0:
		f_plain(depth - 1);
		break;
	case 1:
		f_big_frame(depth - 1);
		break;
	case 2:
		f_alloca(depth - 1);
		break;
	case 3:
		f_aligned_varargs(depth - 1, 1, 2);
		break;
	case 4:
		f_aligned_alloca(depth - 1);
		break;
	case 5:
		f_frame_pointer(depth - 1);
		break;
	case 6:
		f_exception(depth - 1);
		break;
	case 7:
		f_throw_far(depth - 1);
		break;
	case 8:
		f_registers(depth - 1);
		break;
	case 9:
		f_two_calls(depth - 1);
		break;
	case 10:
		f_tail(depth - 1);
		break;
	case 11:
		f_noreturn(depth - 1);
		break;
	case 12:
		f_signal(depth - 1);
		break;
	case 13:
		f_fault(depth - 1);
		break;
	case 14:
		f_clock(depth - 1);
		break;
	case 15:
		f_callback(depth - 1);
		break;
	case 16:
		f_library(depth - 1);
		break;
	default:
		f_assembly(depth - 1);
		break;
	}
	AFTER();
}

/* Coroutines: the first half by ucontext, the second half by hand. */
static struct coroutine {
	char *stack;
	ucontext_t context;
	void *sp;
	bool done;
} coroutine[COROUTINES];
static ucontext_t main_context;
static void *main_sp;
static int current;

static void context_body()
{
	for (int i = 0; i < 12; i++) {
		go(static_cast<int>(3 + random_below(9)));
		swapcontext(&coroutine[current].context, &main_context);
	}
	coroutine[current].done = true;
}

static void coroutine_body(long turns)
{
	for (long i = 0; i < turns; i++) {
		go(static_cast<int>(3 + random_below(9)));
		asm_switch(&coroutine[current].sp, main_sp);
	}
	coroutine[current].done = true;
	asm_switch(&coroutine[current].sp, main_sp);
	__builtin_trap();
}

static NOINLINE void begin_context(struct coroutine *c)
{
	getcontext(&c->context);
	c->context.uc_stack.ss_sp = c->stack;
	c->context.uc_stack.ss_size = STACK;
	c->context.uc_link = &main_context;
	makecontext(&c->context, context_body, 0);
}

static void begin_coroutines(bool remap)
{
	for (int i = 0; i < COROUTINES; i++) {
		struct coroutine *c = &coroutine[i];
		if (remap && c->stack)
			munmap(c->stack, STACK);
		if (remap || !c->stack)
			c->stack = static_cast<char *>(mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
							    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		c->done = false;
		if (i < COROUTINES / 2)
			begin_context(c);
		else
			c->sp = asm_coroutine(c->stack, STACK, coroutine_body, 12);
	}
}

/* Some are left unfinished, so that their stacks go while frames lie on them. */
static NOINLINE void run_coroutines(bool remap)
{
	begin_coroutines(remap);
	for (int i = 0; i < 12 * COROUTINES; i++) {
		current = static_cast<int>(random_below(COROUTINES));
		if (coroutine[current].done)
			continue;
		if (current < COROUTINES / 2)
			swapcontext(&main_context, &coroutine[current].context);
		else
			asm_switch(&main_sp, coroutine[current].sp);
		leaf();
	}
}

/* Allocates wherever the program itself or the vdso is interrupted; never inside libc, which would not survive it. */
static void on_step(int, siginfo_t *, void *context)
{
	auto pc = static_cast<uintptr_t>(
		static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
	if (interrupted_where(context) != IN_PROGRAM && pc - vdso >= VDSO_BYTES)
		return;
	steps++;
	leaf_malloc(8);
}

static NOINLINE void run_stepped(void)
{
	struct timespec now;
	bool jump = may_jump;

	may_jump = false;
	stepping = true;
	step_on();
	clock_gettime(CLOCK_MONOTONIC, &now);
	go(8);
	step_off();
	stepping = false;
	may_jump = jump;
}

static NOINLINE void overwrite_dead_frames(void)
{
	volatile unsigned long room[1500];
	for (unsigned i = 0; i < 1500; i++)
		room[i] = 0x5555;
	USE(room);
}

static void *library;
static unsigned long library_count;
static void reload_library()
{
	unsigned long *count;
	void (*bind)(void);

	if (library) {
		count = static_cast<unsigned long *>(plugin_symbol(library, "library_allocations"));
		library_count += *count;
		CHECK(dlclose(library) == 0);
	}
	library = plugin_open("lib_adversary", RTLD_LAZY);
	library_call = reinterpret_cast<void (*)(void (*)(int), int)>(
		plugin_symbol(library, "library_call"));
	bind = reinterpret_cast<void (*)(void)>(plugin_symbol(library, "library_bind_lazily"));
	bind();
}

static void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {};
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO | SA_NODEFER | flags;
	CHECK(sigaction(number, &action, nullptr) == 0);
}

static void set_handlers()
{
	static char stack[1 << 20];
	stack_t alternate = {};
	alternate.ss_sp = stack;
	alternate.ss_size = sizeof stack;
	CHECK(sigaltstack(&alternate, nullptr) == 0);
	auto *plain = reinterpret_cast<void (*)(int, siginfo_t *, void *)>(
		reinterpret_cast<void *>(on_signal));
	set_handler(SIGUSR1, plain, 0);
	set_handler(SIGUSR2, plain, SA_ONSTACK);
	set_handler(SIGILL, on_fault, 0);
	set_handler(SIGTRAP, on_step, 0);
}

static NOINLINE void descend()
{
	may_jump = true;
	if (setjmp(way_out) == 0)
		go(static_cast<int>(random_below(22)));
	may_jump = false;
}

static NOINLINE void round_of(long r)
{
	/* The same calls again, with other words in what they leave free. */
	for (int i = 0; with_again && i < 3; i++) {
		uint32_t kept = state;
		descend();
		state = kept;
		if (i == 1)
			overwrite_dead_frames();
	}
	descend();
	if (r % 5 == 0)
		overwrite_dead_frames();
	if (r % 40 == 0)
		run_coroutines(r % 200 == 0);
	if (r % 100 == 50)
		reload_library();
	if (with_steps && r % 250 == 30) {
		set_handler(SIGTRAP, on_step, r % 500 == 30 ? SA_ONSTACK : 0);
		run_stepped();
	}
	if (r % 120 == 119)
		f_deep(static_cast<int>(260 + random_below(6000)));
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1000;
	state = static_cast<uint32_t>(argc > 2 ? atol(argv[2]) : 1) * 2654435761u | 1;
	for (int i = 3; i < argc; i++) {
		with_steps &= strcmp(argv[i], "nosteps") != 0;
		with_nocfi |= strcmp(argv[i], "nocfi") == 0;
		with_again |= strcmp(argv[i], "again") == 0;
	}
	interrupted_init();
	vdso = getauxval(AT_SYSINFO_EHDR);
	set_handlers();
	reload_library();
	for (long r = 0; r < rounds; r++)
		round_of(r);
	library_count +=
		*static_cast<unsigned long *>(plugin_symbol(library, "library_allocations"));
	say("ok, random state %08x\n", state);
	say("EXPECT site=leaf_malloc+leaf_realloc+leaf_new kind=heap calls=%lu live_blocks=0\n",
	    allocations);
	say("EXPECT site=library_leaf kind=heap calls>=%lu live_blocks=0\n", library_count);
	say("HEALTH stacks_cut\nHEALTH_MAYBE stacks_stopped\n");
	return steps || !with_steps ? 0 : 1;
}
