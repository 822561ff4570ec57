/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that mappings which a program unmaps by the bare system call do not pile up: the next mapping at that address
 * ends what was there. */
#include "target.h"
#include <sys/mman.h>
#include <sys/syscall.h>

static uint64_t bytes_mapped, calls;

static NOINLINE void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	calls++;
	bytes_mapped += bytes;
	return p;
}

int main(void)
{
	const size_t mib = 1 << 20, last = 8 * mib;

	for (size_t i = 0; i < 50; i++) {
		size_t bytes = (i % 5 + 1) * mib;
		CHECK(syscall(SYS_munmap, map(bytes), bytes) == 0);
	}
	void *p = map(last);
	CHECK(munmap(p, last) == 0);
	say("EXPECT site=map kind=mmap calls=%lu bytes=%lu live_bytes<=%zu\n", (unsigned long)calls,
	    (unsigned long)bytes_mapped, 5 * mib);
	say("EXPECT process mmap_bytes=%lu mmap_calls=%lu mmap_peak_bytes>=%zu mmap_peak_bytes<=%zu\n",
	    (unsigned long)bytes_mapped, (unsigned long)calls, last, last + 5 * mib);
	return 0;
}
