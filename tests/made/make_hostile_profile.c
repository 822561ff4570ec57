/* SPDX-License-Identifier: Apache-2.0 */
/* links: format base */
/*
 * make_hostile_profile PLACE GIB HOW...: a live profile that claims to be large and holds next to nothing. PLACE is the file to
 * make, or "memory" for a process that has it mapped under the name that a recorder gives it, says its pid, and waits for the end of
 * its input. HOW, any of:
 *
 *	opened	every region is said to be open to its end
 *	used	every table is said to be full
 *	far	the last page of every region is there, and no other
 *	deep	one stack of 500,000 frames, and 100,000 sites on it
 *	paths	65,535 modules whose path is one text of a megabyte
 *	slots	a million threads
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "format/live/live.h"

static void *region(struct live_header *head, enum live_region which)
{
	return (char *)head + head->region[which].at;
}

static void open_to(struct live_header *head, enum live_region which, uint64_t count, size_t bytes)
{
	uint64_t pages = (count * bytes + LIVE_PAGE - 1) & ~(uint64_t)(LIVE_PAGE - 1);

	head->used[which] = count;
	head->opened[which] = pages < head->region[which].bytes ? pages : head->region[which].bytes;
}

static void make_deep(struct live_header *head)
{
	enum { NODES = 500000, SITES = 100000 };
	struct live_node *nodes = region(head, LIVE_NODES);
	struct live_site *sites = region(head, LIVE_SITES);
	struct live_site_counters *site_counters = region(head, LIVE_SITE_COUNTERS);
	uint64_t *frames = region(head, LIVE_FRAMES);

	open_to(head, LIVE_FRAMES, 8, sizeof *frames);
	open_to(head, LIVE_NODES, NODES, sizeof *nodes);
	open_to(head, LIVE_SITES, SITES, sizeof *sites);
	open_to(head, LIVE_SITE_COUNTERS, SITES, sizeof *site_counters);
	frames[1] = live_frame_pack(0, 0x1234, 0);
	for (uint32_t i = 1; i < NODES; i++)
		nodes[i] = (struct live_node){ .parent = i - 1, .frame = 1 };
	for (uint32_t i = LIVE_SITE_FIRST; i < SITES; i++) {
		sites[i] = (struct live_site){ .key = i, .node = NODES - i };
		site_counters[i] = (struct live_site_counters){
			.site = i, .calls = 1, .bytes = 64, .first_size = 64
		};
	}
}

static void make_paths(struct live_header *head)
{
	enum { MODULES = 65535, PATH = 1 << 20 };
	struct live_module *modules = region(head, LIVE_MODULES);

	open_to(head, LIVE_MODULES, MODULES, sizeof *modules);
	open_to(head, LIVE_STRINGS, PATH, 1);
	memset(region(head, LIVE_STRINGS), 'x', PATH);
	for (uint32_t i = 1; i < MODULES; i++)
		modules[i] = (struct live_module){ .start = i, .end = i, .path_bytes = PATH };
}

static void make_hostile(struct live_header *head, const char *how)
{
	for (int i = 0; i < LIVE_REGIONS; i++) {
		if (strcmp(how, "opened") == 0)
			head->opened[i] = head->region[i].bytes;
		if (strcmp(how, "used") == 0)
			head->used[i] = UINT64_MAX;
		if (strcmp(how, "far") == 0)
			((char *)region(head, (enum live_region)i))[head->region[i].bytes - 1] = 1;
	}
	if (strcmp(how, "deep") == 0)
		make_deep(head);
	if (strcmp(how, "paths") == 0)
		make_paths(head);
	if (strcmp(how, "slots") == 0)
		open_to(head, LIVE_SLOTS, LIVE_SLOTS_MAX, sizeof(struct live_slot));
}

static void make_head(struct live_header *head, uint64_t total)
{
	struct live_control *control = (void *)((char *)head + total);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (live_header_init(head, total) < 0)
		abort();
	head->pid = (uint32_t)getpid();
	head->granule_shift = 4;
	head->depth_limit = 64;
	head->started_mono_ns = (uint64_t)now.tv_sec * 1000000000u;
	head->own.kept = LIVE_KEPT_FILE;
	head->own.id = 1;
	memcpy(head->own.command, "hostile", 8);
	memcpy(control->magic, LIVE_CONTROL_MAGIC, sizeof control->magic);
	control->mode = LIVE_MODE_EXACT;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uint64_t total = strtoull(argv[2], NULL, 10) << 30;
	bool in_memory = strcmp(argv[1], "memory") == 0;
	int fd = in_memory ? memfd_create("heapgauge-profile", 0)
			   : open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)(total + LIVE_PAGE)) < 0)
		return 1;
	struct live_header *head = mmap(NULL, total + LIVE_PAGE, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (head == MAP_FAILED)
		return 1;
	make_head(head, total);
	for (int i = 3; i < argc; i++)
		make_hostile(head, argv[i]);
	head->ready = 1;
	if (!in_memory)
		return 0;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	return getchar() == 'q' ? 0 : 3;
}
