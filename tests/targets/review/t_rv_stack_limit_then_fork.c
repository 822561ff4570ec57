/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -fno-omit-frame-pointer */
/* Proves that the child of a program that raised its stack limit may allocate on a stack made by hand that lies below an
 * unreadable page: nothing above it is read. */
#include "target.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

__attribute__((used)) static NOINLINE void work(void)
{
	for (size_t i = 0; i < 20; i++)
		take(i);
	__asm__ volatile("" ::: "memory");
}

/* Calls work() on the stack that ends at `top`; its unwind information says that the caller is here. */
void on_stack(void *top);
__asm__(".text\n.globl on_stack\n.type on_stack, @function\non_stack:\n"
	".cfi_startproc\n push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset 3, -16\n"
	" mov %rsp, %rbx\n mov %rdi, %rsp\n call work\n mov %rbx, %rsp\n pop %rbx\n"
	".cfi_def_cfa_offset 8\n ret\n.cfi_endproc\n.size on_stack, . - on_stack\n");

static void on_small_stack(void)
{
	char *memory =
		mmap(NULL, 5 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(memory != MAP_FAILED);
	CHECK(mprotect(memory, 4 * 4096, PROT_READ | PROT_WRITE) == 0);
	on_stack(memory + 4 * 4096);
}

int main(void)
{
	struct rlimit limit;
	int status;

	CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
	on_small_stack();
	pid_t child = fork();
	if (child == 0) {
		on_small_stack();
		_exit(5);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	say("child calls=20 bytes=190\n");
	truth_print(&truth, "");
	say("HEALTH_MAYBE stacks_stopped\nHEALTH_MAYBE stacks_unreadable\n");
	return 0;
}
