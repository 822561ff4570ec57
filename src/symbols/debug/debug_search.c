/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that may contain debug information.
 *
 * The search order is that of libdwfl: by build-id, then by .gnu_debuglink, whose file must have the same build-id or
 * else the CRC in the link. We do not use libdwfl's search because it opens any file of that name: it would block forever
 * on a pipe, and the names come from untrusted files. We also search for what libdwfl does not: the debug file of a
 * module that no longer exists, and packages of split units.
 */
#include "symbols/debug/debug_search.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

#include "base/compiler.h"
#include "util/buffer.h"
#include "util/cleanup.h"

static const char system_folder[] = "/usr/lib/debug";

/* ---- one file ---- */

struct span elf_build_id(Elf *elf)
{
	const void *id = NULL;
	ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id);

	return span_of(id, bytes > 0 ? (size_t)bytes : 0);
}

Elf_Scn *elf_section(Elf *elf, const char *wanted)
{
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return NULL;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) != NULL;) {
		GElf_Shdr header;
		const char *name = NULL;

		if (gelf_getshdr(scn, &header) && header.sh_type != SHT_NOBITS)
			name = elf_strptr(elf, names, header.sh_name);
		if (name && strcmp(name, wanted) == 0)
			return scn;
	}
	return NULL;
}

/* The CRC-32 of .gnu_debuglink, as in zlib and Ethernet. */
static uint32_t checksum_of(int fd)
{
	uint32_t table[256], crc = UINT32_MAX;
	uint8_t bytes[16384];
	ssize_t got;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
	}
	for (off_t at = 0; (got = pread(fd, bytes, sizeof bytes, at)) > 0; at += got)
		for (ssize_t i = 0; i < got; i++)
			crc = table[(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}

static bool is_wanted(int fd, const struct debug_wanted *wanted)
{
	if (wanted->build_id.size == 0)
		return wanted->checksum && checksum_of(fd) == wanted->checksum;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	bool same = elf && span_equal(elf_build_id(elf), wanted->build_id);

	elf_end(elf);
	return same;
}

/* Takes ownership of the path. */
static int try_file(char *path, const struct debug_wanted *wanted, char **ret_path)
{
	AUTO_FREE char *taken = path;
	AUTO_CLOSE int fd = path ? file_open_regular(path, NULL, NULL) : -1;

	if (fd < 0 || !is_wanted(fd, wanted))
		return -1;
	*ret_path = TAKE(taken);
	return TAKE_FD(fd);
}

static char *join3(const char *folder, const char *inner, const char *name)
{
	AUTO_FREE char *inside = path_join(folder, inner);

	return inside ? path_join(inside, name) : NULL;
}

/* ---- candidates ---- */

/* Below the folder by the path of its module, or by any suffix of that path: FOLDER/usr/bin/NAME, FOLDER/bin/NAME, FOLDER/NAME. */
static int try_below(const char *folder, const char *module_folder,
		     const struct debug_wanted *wanted, char **ret_path)
{
	int fd = -1;

	for (const char *end = module_folder; fd < 0 && end && *end == '/';
	     end = strchr(end + 1, '/'))
		fd = try_file(join3(folder, end + 1, wanted->name), wanted, ret_path);
	return fd < 0 ? try_file(path_join(folder, wanted->name), wanted, ret_path) : fd;
}

static int try_by_name(const struct debug_search *search, const char *module,
		       const struct debug_wanted *wanted, char **ret_path)
{
	AUTO_FREE char *folder = path_folder(module);
	int fd = -1;

	for (size_t i = 0; folder && fd < 0 && i < search->folder_count; i++) {
		/* Order: the user's folders, the module's own, the system's. */
		if (i + 1 == search->folder_count) {
			fd = try_file(path_join(folder, wanted->name), wanted, ret_path);
			if (fd < 0)
				fd = try_file(join3(folder, ".debug", wanted->name), wanted,
					      ret_path);
		}
		if (fd < 0)
			fd = try_below(search->folders[i], folder, wanted, ret_path);
	}
	return fd;
}

static int try_common(const char *beside, const struct debug_wanted *wanted, char **ret_path)
{
	AUTO_FREE char *folder = path_folder(beside);

	if (!folder)
		return -1;
	int fd = try_file(path_join(folder, wanted->name), wanted, ret_path);

	return fd >= 0 ? fd
		       : try_file(join3(folder, ".dwz", path_base(wanted->name)), wanted, ret_path);
}

static int try_all_common(const struct debug_search *search, const struct debug_wanted *wanted,
			  char **ret_path)
{
	/* In .build-id the debug file may be a symbolic link to the folder of the common file. */
	AUTO_FREE char *real = realpath(wanted->beside, NULL);
	int fd = wanted->name[0] == '/' ? try_file(strdup(wanted->name), wanted, ret_path) : -1;

	if (fd < 0)
		fd = try_common(wanted->beside, wanted, ret_path);
	if (fd < 0 && real)
		fd = try_common(real, wanted, ret_path);
	for (size_t i = 0; fd < 0 && i < search->folder_count; i++)
		fd = try_file(join3(search->folders[i], ".dwz", path_base(wanted->name)), wanted,
			      ret_path);
	return fd;
}

int debug_search_open(const struct debug_search *search, const struct debug_wanted *wanted,
		      char **ret_path)
{
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < search->folder_count; i++)
		fd = try_file(debug_search_path(search, i, wanted->build_id, ".debug"), wanted,
			      ret_path);
	if (fd < 0 && wanted->is_common)
		return try_all_common(search, wanted, ret_path);
	if (fd < 0)
		fd = try_by_name(search, wanted->beside, wanted, ret_path);
	if (fd < 0) {
		AUTO_FREE char *real = realpath(wanted->beside, NULL);

		if (real && strcmp(real, wanted->beside) != 0)
			fd = try_by_name(search, real, wanted, ret_path);
	}
	return fd;
}

static bool has_dwarf(int fd)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	bool has = elf && elf_section(elf, ".debug_info");

	elf_end(elf);
	return has;
}

/* A copy of the module itself that was not stripped, in one of the user's folders. */
static int try_unstripped(const struct debug_search *search, const char *module,
			  struct span build_id, char **ret_path)
{
	const struct debug_wanted wanted = { .beside = module,
					     .name = path_base(module),
					     .build_id = build_id };
	AUTO_FREE char *folder = path_folder(module);

	for (size_t i = 0; folder && build_id.size > 0 && i + 1 < search->folder_count; i++) {
		AUTO_FREE char *path = NULL;
		AUTO_CLOSE int fd = try_below(search->folders[i], folder, &wanted, &path);

		if (fd >= 0 && has_dwarf(fd)) {
			*ret_path = TAKE(path);
			return TAKE_FD(fd);
		}
	}
	return -1;
}

int debug_search_debug_file(const struct debug_search *search, const char *module_path,
			    struct span build_id, const char *link, uint32_t checksum,
			    char **ret_path)
{
	AUTO_FREE char *made_up = NULL;

	if (!link && asprintf(&made_up, "%s.debug", path_base(module_path)) < 0)
		return -1;
	const struct debug_wanted wanted = {
		.beside = module_path,
		.name = link ? path_base(link) : made_up,
		.build_id = build_id,
		.checksum = checksum,
	};

	int fd = debug_search_open(search, &wanted, ret_path);

	return fd >= 0 ? fd : try_unstripped(search, module_path, build_id, ret_path);
}

/* libdwfl calls this for a module without DWARF. */
static int find_debuginfo(Dwfl_Module *module, void **user_data, const char *module_name,
			  Dwarf_Addr base, const char *path, const char *link, GElf_Word checksum,
			  char **ret_path)
{
	struct debug_question *question = *user_data;
	const unsigned char *id = NULL;
	GElf_Addr address;
	int id_bytes = dwfl_module_build_id(module, &id, &address);

	(void)module_name;
	(void)base;
	/* A name without a checksum is a request for dwz's common file: symbol_module.c finds that. */
	if (!path || (link && checksum == 0))
		return -1;
	int fd = debug_search_debug_file(question->search, path,
					 span_of(id, id_bytes > 0 ? (size_t)id_bytes : 0), link,
					 checksum, ret_path);

	question->found = file_identity(fd);
	return fd;
}

/* ---- the search ---- */

bool debug_search_init(struct debug_search *search, const char *const *extra, size_t count)
{
	*search = (struct debug_search){ 0 };
	search->folders = calloc(count + 1, sizeof *search->folders);
	if (!search->folders)
		return false;
	for (size_t i = 0; i <= count; i++) {
		search->folders[i] = strdup(i < count ? extra[i] : system_folder);
		search->folder_count += search->folders[i] != NULL;
	}
	search->callbacks = (Dwfl_Callbacks){
		.find_debuginfo = find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	if (search->folder_count == count + 1)
		return true;
	debug_search_release(search);
	return false;
}

void debug_search_release(struct debug_search *search)
{
	for (size_t i = 0; i < search->folder_count; i++)
		free(search->folders[i]);
	free(search->folders);
	*search = (struct debug_search){ 0 };
}

char *debug_search_path(const struct debug_search *search, size_t folder, struct span build_id,
			const char *suffix)
{
	AUTO(buffer_release) struct buffer path = BUFFER_INIT;

	if (build_id.size < 2)
		return NULL;
	buffer_printf(&path, "%s/.build-id/%02x/", search->folders[folder], build_id.data[0]);
	for (size_t i = 1; i < build_id.size; i++)
		buffer_printf(&path, "%02x", build_id.data[i]);
	buffer_text(&path, suffix);
	return buffer_take_string(&path);
}
