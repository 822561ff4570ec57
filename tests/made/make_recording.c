/* SPDX-License-Identifier: Apache-2.0 */
/* links: format util base elf */
/*
 * Writes a recording of any size, to measure readers with:
 *
 *	make_recording OUT.hg STACKS MOMENTS [PROGRAM]
 *
 * STACKS sites with stacks of their own of about 30 frames, all of which change at each of MOMENTS snapshots:
 * STACKS x MOMENTS rows. Frames are places in PROGRAM's code (this program's, if none is given), so that they have
 * names. The same arguments give the same bytes.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gelf.h>

#include "base/compiler.h"
#include "format/recording/recording.h"
#include "made.h"

enum { FRAMES = 50000, BRANCHES = 20000, DEPTH = 28, SECOND = 1000000000 };

struct code {
	uint64_t at, size;
	uint8_t build_id[32];
	uint32_t build_id_bytes;
};

static void take_build_id(struct code *code, Elf_Data *notes)
{
	GElf_Nhdr note;
	size_t name, data, at = 0;

	while ((at = gelf_getnote(notes, at, &note, &name, &data)) > 0)
		if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= sizeof code->build_id) {
			memcpy(code->build_id, (const char *)notes->d_buf + data, note.n_descsz);
			code->build_id_bytes = note.n_descsz;
		}
}

/* .text and build-id of the program. */
static struct code read_code(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct code code = { 0 };
	size_t names;

	elf_version(EV_CURRENT);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);

	if (!elf || elf_getshdrstrndx(elf, &names) != 0)
		die("cannot read the program");
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
		GElf_Shdr head;

		if (!gelf_getshdr(s, &head))
			die("cannot read the program's sections");
		if (strcmp(elf_strptr(elf, names, head.sh_name), ".text") == 0) {
			code.at = head.sh_addr;
			code.size = head.sh_size;
		}
		if (head.sh_type == SHT_NOTE)
			take_build_id(&code, elf_getdata(s, NULL));
	}
	elf_end(elf);
	close(fd);
	return code;
}

static void make_stacks(struct process_rows *p, const char *program, size_t stacks)
{
	struct code code = read_code(program);

	p->module_count = 2;
	p->modules = zeroed(2, sizeof *p->modules);
	p->modules[0].path = strdup("");
	p->modules[1] = (struct module_row){ .path = strdup(program),
					     .end = code.at + code.size,
					     .build_id_bytes = code.build_id_bytes };
	memcpy(p->modules[1].build_id, code.build_id, sizeof code.build_id);
	p->frame_count = FRAMES;
	p->frames = zeroed(FRAMES, sizeof *p->frames);
	for (size_t i = 1; i < FRAMES; i++)
		p->frames[i] = live_frame_pack(1, code.at + next_random() % code.size, 0);

	/* A trunk of branches, each DEPTH or so deep, and every stack a leaf of one of them. */
	p->node_count = 1 + BRANCHES + stacks;
	p->nodes = zeroed(p->node_count, sizeof *p->nodes);
	for (uint32_t i = 1; i <= BRANCHES; i++)
		p->nodes[i] = (struct node_row){ i % DEPTH ? i - 1 : (uint32_t)(next_random() % i),
						 1 + (uint32_t)(next_random() % (FRAMES - 1)) };
	p->site_count = stacks + 1;
	p->sites = zeroed(p->site_count, sizeof *p->sites);
	for (uint32_t i = 1; i <= stacks; i++) {
		uint32_t node = BRANCHES + i;

		p->nodes[node] = (struct node_row){ 1 + (uint32_t)(next_random() % BRANCHES),
						    1 + (uint32_t)(next_random() % (FRAMES - 1)) };
		p->sites[i] = (struct site_row){ .node = node, .born_ns = i };
	}
}

static void make_site_counters(struct process_rows *p, size_t stacks)
{
	p->site_counters_count = stacks;
	p->site_counters = zeroed(stacks, sizeof *p->site_counters);
	for (uint32_t i = 1; i <= stacks; i++) {
		struct site_counters_row *c = &p->site_counters[i - 1];
		uint64_t size = 16 + next_random() % 512;

		*c = (struct site_counters_row){ .site = i, .calls = 1 + next_random() % 1000 };
		c->bytes = c->calls * size;
		c->frees = next_random() % (c->calls + 1);
		c->freed_bytes = c->frees * size;
		c->peak_blocks = (int64_t)(c->calls - c->frees);
		c->peak_bytes = c->peak_blocks * (int64_t)size;
		c->max_bytes = (uint64_t)c->peak_bytes;
		p->process.calls += c->calls;
		p->process.bytes += c->bytes;
		p->process.frees += c->frees;
		p->process.freed_bytes += c->freed_bytes;
		p->process.peak_bytes += (uint64_t)c->peak_bytes;
		p->process.peak_blocks += (uint64_t)c->peak_blocks;
	}
}

static void make_moments(struct process_rows *p, size_t stacks, size_t moments)
{
	p->snapshot_count = moments;
	p->snapshots = zeroed(moments, sizeof *p->snapshots);
	p->snapshot_site_count = stacks * moments;
	p->snapshot_sites = zeroed(p->snapshot_site_count, sizeof *p->snapshot_sites);
	p->series_count = moments;
	p->series = zeroed(moments, sizeof *p->series);
	for (size_t m = 0; m < moments; m++) {
		struct snapshot_row *s = &p->snapshots[m];

		*s = (struct snapshot_row){ .at_ns = (m + 1) * SECOND,
					    .sites_at = (uint32_t)(m * stacks),
					    .sites_count = (uint32_t)stacks };
		for (uint32_t i = 0; i < stacks; i++) {
			const struct site_counters_row *c = &p->site_counters[i];
			int64_t blocks = (int64_t)(m + 1) * c->peak_blocks / (int64_t)moments;
			int64_t bytes = blocks * (int64_t)(c->bytes / c->calls);

			p->snapshot_sites[s->sites_at + i] =
				(struct snapshot_site){ i + 1, bytes, blocks };
			s->live_bytes += (uint64_t)bytes;
			s->live_blocks += (uint64_t)blocks;
		}
		s->rss_bytes = s->live_bytes + (1 << 20);
		p->series[m] = (struct series_row){ .at_ns = s->at_ns,
						    .live_bytes = s->live_bytes,
						    .live_blocks = s->live_blocks,
						    .calls = p->process.calls * (m + 1) / moments,
						    .bytes = p->process.bytes * (m + 1) / moments,
						    .rss_bytes = s->rss_bytes,
						    .threads = 1 };
	}
}

static void write_out(const char *path, const struct recording *r)
{
	struct format_error error = { { 0 } };
	void *bytes;
	size_t length;

	if (recording_encode(r, &bytes, &length, &error) < 0)
		die(error.message);
	FILE *out = fopen(path, "we");

	if (!out || fwrite(bytes, 1, length, out) != length || fclose(out) != 0)
		die("cannot write");
	free(bytes);
	printf("%s: %zu bytes\n", path, length);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage: make_recording OUT.hg STACKS MOMENTS [PROGRAM]");
	size_t stacks = strtoul(argv[2], NULL, 10), moments = strtoul(argv[3], NULL, 10);
	char *program = realpath(argc > 4 ? argv[4] : "/proc/self/exe", NULL);
	struct recording r = { .run = { .duration_ns = (moments + 1) * SECOND,
					.host = strdup("made"),
					.kernel = strdup("made"),
					.version = strdup("made"),
					.command = strdup("./made") },
			       .process_count = 1,
			       .processes = zeroed(1, sizeof *r.processes) };
	struct process_rows *p = &r.processes[0];

	if (!program || stacks == 0 || stacks > 100000000 || stacks * moments > UINT32_MAX)
		die("numbers out of range, or no such program");
	p->process = (struct process_row){ .pid = 1,
					   .mode = LIVE_MODE_EXACT,
					   .end = END_EXIT,
					   .duration_ns = r.run.duration_ns,
					   .command = strdup("./made"),
					   .exe = strdup(program),
					   .allocator = strdup("glibc") };
	make_stacks(p, program, stacks);
	make_site_counters(p, stacks);
	make_moments(p, stacks, moments);
	p->process.peak_at_ns = r.run.duration_ns;
	r.run.peak_bytes = p->process.peak_bytes;
	write_out(argv[1], &r);
	recording_release(&r);
	free(program);
	return 0;
}
