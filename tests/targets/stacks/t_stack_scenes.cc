// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17 -fcf-protection=full -Wl,-z,lazy
// Proves one by one that stacks are whole through every kind of frame: each scene allocates below a special frame, and
// the chain of functions from the allocation to main, or to the coroutine's root, is the one in the source.
#include "adversary_asm.h"
#include "plugin.h"
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __clang__
#define FRAME_POINTER
#else
#define FRAME_POINTER __attribute__((optimize("no-omit-frame-pointer")))
#endif
#define USE(pointer) __asm__ volatile("" ::"r"(pointer) : "memory")
#define AFTER()                                                                                    \
	__asm__ volatile("" ::: "memory") /* something follows the call: it is no tail call */

enum { REPEAT = 7, STACK = 256 * 1024 };
static const char *chains[64];
static int n_chains;

static void scene(const char *chain)
{
	chains[n_chains++] = chain;
}

extern "C" {
NOINLINE void leaf(long n)
{
	void *p = malloc(static_cast<size_t>(n));
	KEEP(p);
	free(p);
	AFTER();
}

NOINLINE void in_alloca(long n)
{
	auto *room = static_cast<char *>(alloca(static_cast<size_t>(16 * (n % 7 + 1))));
	room[0] = 1;
	USE(room);
	leaf(n);
	USE(room);
}

NOINLINE void in_aligned(long n)
{
	alignas(64) volatile char room[128];
	room[0] = 1;
	USE(room);
	leaf(n);
	room[1] = room[0];
}

NOINLINE void in_aligned_varargs(long n, ...)
{
	alignas(64) volatile char room[64];
	va_list args;
	va_start(args, n);
	room[0] = static_cast<char>(va_arg(args, int));
	va_end(args);
	USE(room);
	leaf(n);
	room[1] = room[0];
}

NOINLINE void in_aligned_alloca(long n)
{
	alignas(64) volatile char room[64];
	auto *more = static_cast<char *>(alloca(static_cast<size_t>(16 * (n % 5 + 1))));
	more[0] = room[0] = 1;
	USE(more);
	leaf(n);
	USE(room);
}

FRAME_POINTER NOINLINE void in_frame_pointer(long n)
{
	leaf(n);
	AFTER();
}

NOINLINE void outer_frame_pointer(long n);
FRAME_POINTER NOINLINE void outer_frame_pointer(long n)
{
	asm_call_r12(in_aligned, n);
	asm_call_saved_by_expression(in_alloca, n);
	asm_call_value_expression(in_frame_pointer, n);
	AFTER();
}

NOINLINE void in_catch(long n)
{
	try {
		throw n;
	} catch (long value) {
		leaf(value);
	}
}

struct frees_while_unwinding {
	long n;
	NOINLINE ~frees_while_unwinding();
};
NOINLINE frees_while_unwinding::~frees_while_unwinding()
{
	leaf(n);
	AFTER();
}
NOINLINE void in_cleanup(long n)
{
	try {
		frees_while_unwinding f{ n };
		throw n;
	} catch (long) {
	}
}

static jmp_buf far_up;
NOINLINE void jump_away(long n)
{
	if (n)
		longjmp(far_up, 1);
	AFTER();
}
NOINLINE void after_longjmp(long n)
{
	if (setjmp(far_up) == 0)
		jump_away(n);
	leaf(n);
	AFTER();
}

static jmp_buf noreturn_up;
__attribute__((noreturn)) NOINLINE void never_returns(long n)
{
	leaf(n);
	longjmp(noreturn_up, 1);
}
/* Its last instruction is the call: the return address lies in the next function. */
NOINLINE void ends_in_call(long n)
{
	never_returns(n);
}
NOINLINE void call_noreturn(long n)
{
	if (setjmp(noreturn_up) == 0)
		ends_in_call(n);
	AFTER();
}

/* A tail call leaves no frame: tail_caller is not in the stack. */
NOINLINE void tail_callee(long n)
{
	leaf(n);
	AFTER();
}
NOINLINE void tail_caller(long n)
{
	tail_callee(n + 0);
}
NOINLINE void above_tail(long n)
{
	tail_caller(n);
	AFTER();
}

static volatile long handler_n;
static void on_signal(int)
{
	leaf(handler_n);
	AFTER();
}
static void on_trap(int, siginfo_t *, void *context)
{
	leaf(handler_n);
	static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}
NOINLINE void in_signal(long n)
{
	handler_n = n;
	raise(SIGUSR1);
	AFTER();
}
NOINLINE void in_signal_alternate(long n)
{
	handler_n = n;
	raise(SIGUSR2);
	AFTER();
}
NOINLINE void in_trap(long n)
{
	handler_n = n;
	asm_trap_first();
	AFTER();
}

static void *main_sp, *coroutine_sp;
static void coroutine_body(long n)
{
	in_aligned(n);
	asm_switch(&coroutine_sp, main_sp);
	__builtin_trap();
}
/* The stack is mapped, used, unmapped, and mapped again. */
NOINLINE void run_coroutine(long n)
{
	void *stack =
		mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	asm_switch(&main_sp, asm_coroutine(stack, STACK, coroutine_body, n));
	munmap(stack, STACK);
}

static int by_number(const void *a, const void *b)
{
	leaf(handler_n);
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}
NOINLINE void in_callback(long n)
{
	int two[2] = { 2, 1 };
	handler_n = n;
	qsort(two, 2, sizeof two[0], by_number);
	AFTER();
}
}

NOINLINE static void all_scenes(long n)
{
	in_alloca(n);
	in_aligned(n);
	in_aligned_varargs(n, 1);
	in_aligned_alloca(n);
	in_frame_pointer(n);
	asm_call_expression(leaf, n);
	asm_call_rbx(in_frame_pointer, n);
	asm_call_two_exits(in_aligned_alloca, n);
	outer_frame_pointer(n);
	in_catch(n);
	in_cleanup(n);
	after_longjmp(n);
	call_noreturn(n);
	above_tail(n);
	in_signal(n);
	in_signal_alternate(n);
	in_trap(n);
	run_coroutine(n);
	in_callback(n);
	AFTER();
}

static void set_handlers()
{
	static char stack[STACK];
	struct sigaction action = {};
	stack_t alternate = {};

	alternate.ss_sp = stack;
	alternate.ss_size = sizeof stack;
	CHECK(sigaltstack(&alternate, nullptr) == 0);
	action.sa_handler = on_signal;
	CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
	action.sa_flags = SA_ONSTACK;
	CHECK(sigaction(SIGUSR2, &action, nullptr) == 0);
	action.sa_sigaction = on_trap;
	action.sa_flags = SA_SIGINFO;
	CHECK(sigaction(SIGILL, &action, nullptr) == 0);
}

int main()
{
	set_handlers();
	for (long i = 0; i < REPEAT; i++)
		all_scenes(100 + i);
	scene("leaf<in_alloca");
	scene("leaf<in_aligned");
	scene("leaf<in_aligned_varargs");
	scene("leaf<in_aligned_alloca");
	scene("leaf<in_frame_pointer");
	scene("leaf<asm_call_expression");
	scene("leaf<in_frame_pointer<asm_call_rbx");
	scene("leaf<in_aligned_alloca<asm_call_two_exits");
	scene("leaf<in_aligned<asm_call_r12<outer_frame_pointer");
	scene("leaf<in_alloca<asm_call_saved_by_expression<outer_frame_pointer");
	scene("leaf<in_frame_pointer<asm_call_value_expression<outer_frame_pointer");
	scene("leaf<in_catch");
	scene("leaf<frees_while_unwinding::~frees_while_unwinding<in_cleanup");
	scene("leaf<after_longjmp");
	scene("leaf<never_returns<ends_in_call<call_noreturn");
	scene("leaf<tail_callee<above_tail");
	scene("leaf<on_signal<in_signal");
	scene("leaf<on_signal<in_signal_alternate");
	scene("leaf<on_trap<asm_trap_first<in_trap");
	scene("leaf<by_number<in_callback");
	for (int i = 0; i < n_chains; i++)
		say("EXPECT stack=%s<all_scenes<main kind=heap calls=%d frees=%d\n", chains[i],
		    REPEAT, REPEAT);
	say("EXPECT stack=leaf<in_aligned<coroutine_body<asm_coroutine_entry kind=heap calls=%d frees=%d\n",
	    REPEAT, REPEAT);
	return 0;
}
