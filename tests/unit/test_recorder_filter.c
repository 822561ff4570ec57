/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The recorder's reading of seccomp filters against the kernel's: random filters are installed in a child, which makes each
 * of the recorder's calls and lives, or does not. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/process/seccomp_filter.c"

enum { FILTERS = 60, LONGEST = 24 };

static uint64_t seed = 20261121;

static uint32_t below(uint32_t limit)
{
	return (uint32_t)(unit_random(&seed) % limit);
}

/* Numbers that calls have, so that comparisons go both ways. */
static uint32_t some_number(void)
{
	const struct question *q = &questions[below(ARRAY_SIZE(questions))];

	switch (below(4)) {
	case 0:
		return q->number;
	case 1:
		return (uint32_t)q->argument[below(4)];
	case 2:
		return below(64);
	default:
		return (uint32_t)unit_random(&seed);
	}
}

static struct sock_filter some_instruction(uint32_t left)
{
	static const uint16_t tests[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
	static const uint16_t works[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
					  BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH, BPF_NEG };
	uint16_t source = below(3) ? BPF_K : BPF_X;

	switch (below(12)) {
	case 0:
	case 1:
	case 2:
		return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    4 * below(sizeof(struct seccomp_data) / 4));
	case 3:
		return (struct sock_filter)BPF_STMT((below(2) ? BPF_LD : BPF_LDX) | BPF_W | BPF_LEN,
						    0);
	case 4:
		return (struct sock_filter)BPF_STMT((below(2) ? BPF_LD : BPF_LDX) | BPF_IMM,
						    some_number());
	case 5:
		return (struct sock_filter)BPF_STMT(below(2) ? BPF_ST : BPF_STX, below(2));
	case 6:
		return (struct sock_filter)BPF_STMT((below(2) ? BPF_LD : BPF_LDX) | BPF_MEM,
						    below(2));
	case 7:
		return (struct sock_filter)BPF_STMT(BPF_MISC | (below(2) ? BPF_TAX : BPF_TXA), 0);
	case 8:
		return (struct sock_filter)BPF_STMT(
			BPF_ALU | works[below(ARRAY_SIZE(works))] | source, 1 + below(31));
	case 9:
		return (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, below(left));
	default:
		return (struct sock_filter)BPF_JUMP(BPF_JMP | tests[below(ARRAY_SIZE(tests))] |
							    source,
						    some_number(), below(left), below(left));
	}
}

/* The child must be able to say how it ended. The kernel wants every way to end in an answer, so there are two last. */
static uint16_t some_filter(struct sock_filter *code)
{
	static const uint32_t answers[] = { SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS,
					    SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_TRAP,
					    SECCOMP_RET_LOG };
	uint32_t length = 3 + below(LONGEST - 3);
	uint16_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	for (; n < length; n++)
		code[n] = some_instruction(length - n);
	for (int i = 0; i < 2; i++)
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							 answers[below(ARRAY_SIZE(answers))]);
	return n;
}

/* 1 lives, 0 dies, -1: the kernel refuses the filter. */
static int kernel_lets(const struct sock_fprog *program, const struct question *q)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		close(3); /* what the calls are about: ctest's log, which one of them would make 64 GiB long */
		prctl(PR_SET_DUMPABLE, 0);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) != 0)
			_exit(1);
		sys_call6(q->number, (long)q->argument[0], (long)q->argument[1],
			  (long)q->argument[2], (long)q->argument[3], 0, 0);
		sys_call3(SYS_exit_group, 0, 0, 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status) == 0 ? 1 : -1;
}

static void random_filters_are_understood_as_the_kernel_does(void **state)
{
	unsigned accepted = 0, killed = 0;

	(void)state;
	for (unsigned i = 0; accepted < FILTERS && i < 100 * FILTERS; i++) {
		struct sock_filter code[LONGEST + 2];
		struct sock_fprog program = { some_filter(code), code };
		unsigned expected = 0;

		if (kernel_lets(&program, &questions[0]) < 0)
			continue;
		accepted++;
		for (size_t k = 0; k < ARRAY_SIZE(questions); k++) {
			if (kernel_lets(&program, &questions[k]) == 0) {
				expected |= questions[k].group;
				killed++;
			}
		}
		if (filter_forbids(&program) != expected) {
			for (unsigned k = 0; k < program.len; k++)
				print_message("%2u: %04x %u %u %x\n", k, code[k].code, code[k].jt,
					      code[k].jf, code[k].k);
			assert_int_equal(filter_forbids(&program), expected);
		}
	}
	assert_int_equal(accepted, FILTERS);
	assert_in_range(killed, FILTERS, (uintmax_t)FILTERS * ARRAY_SIZE(questions) - FILTERS);
}

static void a_filter_that_cannot_be_read_is_left_to_the_kernel(void **state)
{
	struct sock_fprog program = { 5, (void *)16 };

	(void)state;
	assert_int_equal(filter_forbids(NULL), 0);
	assert_int_equal(filter_forbids((const void *)0x1000), 0);
	assert_int_equal(filter_forbids(&program), 0);
}

/* A call that seems to have succeeded and was not made is worse than one that failed. */
static void error_0_is_not_harmless(void **state)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO) };
	struct sock_fprog program = { 1, code };

	(void)state;
	assert_int_equal(filter_forbids(&program), SYS_ALL | SYS_HOLD | SYS_DUMP);
	code[0].k |= EPERM;
	assert_int_equal(filter_forbids(&program), 0);
}

static void what_an_earlier_filter_hides_is_forbidden(void **state)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { 1, code };

	(void)state;
	sys_forbidden = SYS_PROBE;
	assert_int_equal(filter_forbids(&program), SYS_ALL | SYS_HOLD | SYS_DUMP);
	assert_int_equal(filter_forbids(NULL), 0);
	sys_forbidden = 0;
}

/* Jumps beyond the end, codes that are none, lengths that are too large: some answer, and no crash. */
static void random_bytes_are_no_filter_and_do_no_harm(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		struct sock_filter code[40];
		struct sock_fprog program = { (uint16_t)below(40), code };
		uint8_t *bytes = (uint8_t *)code;

		for (size_t k = 0; k < sizeof code; k++)
			bytes[k] = (uint8_t)unit_random(&seed);
		assert_true(filter_forbids(&program) <= (SYS_ALL | SYS_HOLD | SYS_DUMP));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_filters_are_understood_as_the_kernel_does),
		cmocka_unit_test(a_filter_that_cannot_be_read_is_left_to_the_kernel),
		cmocka_unit_test(error_0_is_not_harmless),
		cmocka_unit_test(what_an_earlier_filter_hides_is_forbidden),
		cmocka_unit_test(random_bytes_are_no_filter_and_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
