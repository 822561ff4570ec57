/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the necessary parts of an ELF file: class, machine, interpreter, and the names in its dynamic string table. Every
 * offset is checked against the length. Compiled into the recorder too: no libc, no allocation.
 */
#include "base/elf.h"

#include <elf.h>
#include <stdbool.h>

#include "base/compiler.h"

struct name {
	const char *text;
	size_t bytes;
};
#define NAME(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

/* The file names of the loaders that run the recorder: of glibc and musl. */
static const struct name loaders[] = { NAME(ELF_LOADER_HERE), NAME(ELF_MUSL_HERE) };

static bool holds(const struct elf_source *file, uint64_t at, uint64_t bytes)
{
	return at <= file->length && bytes <= file->length - at;
}

/* Returns a part of the file; NULL: it has none there, or the part cannot be read. */
static const char *part_of(struct elf_source *file, uint64_t at, uint64_t bytes)
{
	return bytes <= ELF_PART_MAX && holds(file, at, bytes)
		       ? file->get_part(file, at, (size_t)bytes)
		       : NULL;
}

/* Copies a part of the file. */
static bool copy_part(struct elf_source *file, uint64_t at, void *to, size_t bytes)
{
	const char *part = part_of(file, at, bytes);

	if (part == NULL)
		return false;
	__builtin_memcpy(to, part, bytes);
	return true;
}

/* Returns true if `matches` does for some part of the range. Parts overlap: a match has at most OVERLAP - 1 bytes, and the byte before
 * it is in the same part, unless the range begins with it. */
enum { OVERLAP = 32 };
typedef bool match_fn(const char *text, size_t bytes, bool begins, const struct name *name);

static bool search(struct elf_source *file, uint64_t at, uint64_t bytes, match_fn *matches,
		   const struct name *name)
{
	for (uint64_t done = 0; holds(file, at, bytes); done += ELF_PART_MAX - OVERLAP) {
		size_t n = (size_t)MIN(bytes - done, (uint64_t)ELF_PART_MAX);
		const char *text = part_of(file, at + done, n);

		if (text == NULL)
			return false;
		if (matches(text, n, done == 0, name))
			return true;
		if (done + n == bytes)
			return false;
	}
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct elf_judgement judge_script(struct elf_source *file)
{
	enum { LINE_MAX = 256 }; /* what the kernel reads */
	size_t at = 2, end, bytes = (size_t)MIN(file->length, (uint64_t)LINE_MAX);
	const char *line = part_of(file, 0, bytes);

	if (line == NULL)
		return (struct elf_judgement){ .verdict = ELF_UNKNOWN };
	while (at < bytes && is_blank(line[at]))
		at++;
	for (end = at; end < bytes; end++) {
		if (is_blank(line[end]) || line[end] == '\n' || line[end] == 0)
			break;
	}
	return (struct elf_judgement){ end > at ? ELF_SCRIPT : ELF_TEXT, line + at, end - at };
}

static bool names_loader(const char *path, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(loaders); i++) {
		if (bytes >= loaders[i].bytes &&
		    __builtin_memcmp(path + bytes - loaders[i].bytes, loaders[i].text,
				     loaders[i].bytes) == 0)
			return true;
	}
	return false;
}

/* The segments of a file. */
struct segments {
	struct elf_source *file;
	uint64_t at;
	unsigned count;
};

static bool read_segment(const struct segments *segments, unsigned i, Elf64_Phdr *ret)
{
	return copy_part(segments->file, segments->at + i * sizeof *ret, ret, sizeof *ret);
}

/* Finds the first segment of a type. */
static bool find_segment(const struct segments *segments, uint32_t type, Elf64_Phdr *ret)
{
	for (unsigned i = 0; i < segments->count; i++) {
		if (read_segment(segments, i, ret) && ret->p_type == type)
			return true;
	}
	return false;
}

/* The file offset of a virtual address; SIZE_MAX: none. */
static uint64_t offset_of(const struct segments *segments, uint64_t address)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; i < segments->count; i++) {
		if (read_segment(segments, i, &segment) && segment.p_type == PT_LOAD &&
		    address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	return SIZE_MAX;
}

static bool names_sanitizer(const char *text, size_t bytes, bool begins, const struct name *unused)
{
	static const struct name names[] = { NAME("__asan_init"),  NAME("__tsan_init"),
					     NAME("__msan_init"),  NAME("__hwasan_init"),
					     NAME("libasan.so"),   NAME("libtsan.so"),
					     NAME("libhwasan.so"), NAME("__lsan_") };

	(void)unused;
	for (size_t at = 0; at < bytes; at++) {
		if (at == 0 ? !begins : text[at - 1] != 0)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			if (bytes - at > names[i].bytes &&
			    __builtin_memcmp(text + at, names[i].text, names[i].bytes) == 0)
				return true;
		}
	}
	return false;
}

static bool has_name(const char *text, size_t bytes, bool begins, const struct name *name)
{
	(void)begins;
	for (size_t at = 0; at + name->bytes <= bytes; at++) {
		if (text[at] == name->text[0] &&
		    __builtin_memcmp(text + at, name->text, name->bytes) == 0)
			return true;
	}
	return false;
}

/* A statically linked sanitizer runtime leaves no name in the dynamic table, but it starts before all constructors and has its
 * name in its messages. */
static bool contains_sanitizer_string(struct elf_source *file)
{
	static const struct name word = NAME("Sanitizer");

	return search(file, 0, file->length, has_name, &word);
}

/* Parts of a dynamic section. */
struct dynamic {
	uint64_t strings, strings_bytes; /* its string table in the file */
	uint64_t soname;
	bool has_soname, begins_early;
};

static bool read_dynamic(const struct segments *segments, const Elf64_Phdr *section,
			 struct dynamic *ret)
{
	Elf64_Dyn entry;
	uint64_t strings = 0;

	*ret = (struct dynamic){ 0 };
	if (!holds(segments->file, section->p_offset, section->p_filesz))
		return false;
	for (uint64_t at = 0; at + sizeof entry <= section->p_filesz; at += sizeof entry) {
		if (!copy_part(segments->file, section->p_offset + at, &entry, sizeof entry))
			return false;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_STRTAB) {
			strings = entry.d_un.d_ptr;
		} else if (entry.d_tag == DT_STRSZ) {
			ret->strings_bytes = entry.d_un.d_val;
		} else if (entry.d_tag == DT_SONAME) {
			ret->soname = entry.d_un.d_val;
			ret->has_soname = true;
		} else if (entry.d_tag == DT_PREINIT_ARRAY) {
			ret->begins_early = true;
		}
	}
	ret->strings = offset_of(segments, strings);
	if (!holds(segments->file, ret->strings, ret->strings_bytes))
		ret->strings_bytes = 0;
	return true;
}

static bool is_sanitized(const struct segments *segments, const Elf64_Phdr *section)
{
	struct elf_source *file = segments->file;
	struct dynamic dynamic;

	return read_dynamic(segments, section, &dynamic) &&
	       (search(file, dynamic.strings, dynamic.strings_bytes, names_sanitizer, NULL) ||
		(dynamic.begins_early && contains_sanitizer_string(file)));
}

static struct elf_judgement judge_segments(const struct segments *segments)
{
	Elf64_Phdr interpreter, dynamic;

	if (!find_segment(segments, PT_INTERP, &interpreter) ||
	    !find_segment(segments, PT_DYNAMIC, &dynamic))
		return (struct elf_judgement){ .verdict = ELF_STATIC };
	const char *path = part_of(segments->file, interpreter.p_offset, interpreter.p_filesz);

	if (path == NULL || interpreter.p_filesz < 2)
		return (struct elf_judgement){ .verdict = ELF_UNKNOWN };
	size_t bytes = interpreter.p_filesz - 1;

	if (!names_loader(path, bytes))
		return (struct elf_judgement){ ELF_OTHER_LIBC, path, bytes };
	if (is_sanitized(segments, &dynamic))
		return (struct elf_judgement){ .verdict = ELF_SANITIZED };
	return (struct elf_judgement){ .verdict = ELF_FITS };
}

/* glibc's loader has its own name as its soname, which others may need as a library; musl's has none, but a variable that tells debuggers. */
static bool is_named_loader(struct elf_source *file, const struct dynamic *d)
{
	/* The string with its terminating zero. */
	static const struct name musl = { "_dl_debug_addr", sizeof "_dl_debug_addr" };
	char soname[sizeof ELF_LOADER_HERE];

	if (!d->has_soname)
		return search(file, d->strings, d->strings_bytes, has_name, &musl);
	return d->soname < d->strings_bytes && d->strings_bytes - d->soname >= sizeof soname &&
	       copy_part(file, d->strings + d->soname, soname, sizeof soname) &&
	       __builtin_memcmp(soname, ELF_LOADER_HERE, sizeof soname) == 0;
}

/* ld.so has a dynamic section and no interpreter. */
static bool is_loader(const struct segments *segments)
{
	Elf64_Phdr section;
	struct dynamic dynamic;

	return find_segment(segments, PT_DYNAMIC, &section) &&
	       read_dynamic(segments, &section, &dynamic) &&
	       is_named_loader(segments->file, &dynamic);
}

struct elf_judgement elf_judge_source(struct elf_source *file)
{
	const struct elf_judgement unknown = { .verdict = ELF_UNKNOWN };
	size_t bytes = (size_t)MIN(file->length, (uint64_t)sizeof(Elf64_Ehdr));
	Elf64_Ehdr elf = { .e_machine = EM_NONE };

	if (!copy_part(file, 0, &elf, bytes))
		return unknown;
	if (bytes >= 2 && elf.e_ident[0] == '#' && elf.e_ident[1] == '!')
		return judge_script(file);
	if (bytes < SELFMAG || __builtin_memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
		return (struct elf_judgement){ .verdict = ELF_TEXT };
	if (elf.e_ident[EI_CLASS] != ELFCLASS64)
		return (struct elf_judgement){ .verdict = ELF_OTHER_CLASS };
	if (bytes < sizeof elf)
		return unknown; /* e_ident may be cut, too: then its class is 0 */
	if (elf.e_machine != ELF_MACHINE_HERE)
		return (struct elf_judgement){ .verdict = ELF_OTHER_MACHINE };
	const struct segments segments = { file, elf.e_phoff, elf.e_phnum };

	if (elf.e_phentsize != sizeof(Elf64_Phdr) ||
	    !holds(file, elf.e_phoff, (uint64_t)elf.e_phnum * sizeof(Elf64_Phdr)))
		return unknown;
	struct elf_judgement judgement = judge_segments(&segments);

	if (judgement.verdict == ELF_STATIC && elf.e_type == ET_DYN && is_loader(&segments))
		judgement.verdict = ELF_LOADER;
	return judgement;
}

struct in_memory {
	struct elf_source source;
	const char *bytes;
};

static const char *read_memory(struct elf_source *source, uint64_t at, size_t bytes)
{
	(void)bytes;
	return ((struct in_memory *)source)->bytes + at;
}

struct elf_judgement elf_judge(const void *bytes, size_t length)
{
	struct in_memory file = { { length, read_memory }, bytes };

	return elf_judge_source(&file.source);
}
