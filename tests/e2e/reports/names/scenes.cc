// SPDX-License-Identifier: Apache-2.0
//
// Stacks whose functions and lines are known. Every scene allocates a size of its own, and the lines say which frame they
// are: "@1001.0 leaf" is the innermost frame of the allocation of 1001 bytes. Whether a frame is a function of its own or
// was inlined is the compiler's business: names and lines must be the same at every level of optimization.
#include <csetjmp>
#include <csignal>
#include <cstdlib>

#define BARRIER __asm__ volatile("" ::: "memory") // no tail calls, and nothing moves across
#define NOINLINE __attribute__((noinline))

void *volatile kept;

extern void in_other_unit(size_t size); // other.cc

namespace
{
struct Shelf {
	static void put(size_t size)
	{
		kept = malloc(size); // @1001.0 put @1002.0 put @1003.0 put @1004.0 put
		BARRIER;
	}
};
} // namespace

static inline void inner(size_t size)
{
	Shelf::put(size); // @1001.1 inner
	BARRIER;
}

static inline __attribute__((always_inline)) void middle(size_t size)
{
	for (int i = 0; i < 1; i++) {
		inner(size); // @1001.2 middle
		BARRIER;
	}
}

NOINLINE void chain()
{
	middle(1001); // @1001.3 chain
	BARRIER;
}

NOINLINE void lambdas()
{
	auto named = [](size_t size) {
		Shelf::put(size); // @1002.1 operator()
		BARRIER;
	};
	auto calls = [&](size_t size) {
		named(size); // @1002.2 operator()
		BARRIER;
	};

	calls(1002); // @1002.3 lambdas
	BARRIER;
}

template <typename T> struct Box {
	template <typename F> NOINLINE void each(F &&f)
	{
		f(sizeof(T)); // @1003.2 each
		BARRIER;
	}
};

NOINLINE void templates()
{
	Box<int>().each([](size_t) { // @1003.3 templates
		Shelf::put(1003);    // @1003.1 operator()
		BARRIER;
	});
	BARRIER;
}

static jmp_buf resume;

static void on_trap(int)
{
	Shelf::put(1004); // @1004.1 on_trap
	BARRIER;
	longjmp(resume, 1);
}

// The trap is at the very first byte: one byte back is another function.
__attribute__((naked, noinline)) void traps_at_once()
{
	__asm__("ud2\n\tret"); // @1004.3 traps_at_once
}

NOINLINE void signals()
{
	signal(SIGILL, on_trap);
	if (setjmp(resume) == 0)
		traps_at_once(); // @1004.4 signals
	BARRIER;
}

__attribute__((noreturn)) NOINLINE void leaves()
{
	kept = malloc(1005); // @1005.0 leaves
	BARRIER;
	_Exit(0);
}

// Nothing comes after the call: it returns to the first byte of another function.
NOINLINE void ends_in_a_call()
{
	leaves(); // @1005.1 ends_in_a_call
}

NOINLINE void comes_after()
{
	BARRIER;
}

int main()
{
	chain(); // @1001.4 main
	BARRIER;
	lambdas(); // @1002.4 main
	BARRIER;
	templates(); // @1003.4 main
	BARRIER;
	signals(); // @1004.5 main
	BARRIER;
	in_other_unit(1006); // @1006.2 main
	BARRIER;
	comes_after();
	ends_in_a_call(); // @1005.2 main
	return 0;
}
