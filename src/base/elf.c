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

struct file {
	const char *bytes;
	size_t length;
};

static bool holds(const struct file *file, uint64_t at, uint64_t bytes)
{
	return at <= file->length && bytes <= file->length - at;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct elf_judgement judge_script(const struct file *file)
{
	size_t at = 2, end;

	while (at < file->length && is_blank(file->bytes[at]))
		at++;
	for (end = at; end < file->length; end++) {
		if (is_blank(file->bytes[end]) || file->bytes[end] == '\n' || file->bytes[end] == 0)
			break;
	}
	return (struct elf_judgement){ end > at ? ELF_SCRIPT : ELF_UNKNOWN, file->bytes + at,
				       end - at };
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

/* The file offset of a virtual address; SIZE_MAX: none. */
static uint64_t offset_of(const Elf64_Phdr *segments, unsigned count, uint64_t address)
{
	for (unsigned i = 0; i < count; i++) {
		if (segments[i].p_type == PT_LOAD && address >= segments[i].p_vaddr &&
		    address - segments[i].p_vaddr < segments[i].p_filesz)
			return address - segments[i].p_vaddr + segments[i].p_offset;
	}
	return SIZE_MAX;
}

static bool names_sanitizer(const char *text, uint64_t bytes)
{
	static const struct name names[] = { NAME("__asan_init"),  NAME("__tsan_init"),
					     NAME("__msan_init"),  NAME("__hwasan_init"),
					     NAME("libasan.so"),   NAME("libtsan.so"),
					     NAME("libhwasan.so"), NAME("__lsan_") };

	for (uint64_t at = 0; at < bytes; at++) {
		if (at != 0 && text[at - 1] != 0)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			if (bytes - at > names[i].bytes &&
			    __builtin_memcmp(text + at, names[i].text, names[i].bytes) == 0)
				return true;
		}
	}
	return false;
}

/* A statically linked sanitizer runtime leaves no name in the dynamic table, but it starts before all constructors and has its
 * name in its messages. */
static bool speaks_of_sanitizer(const struct file *file)
{
	static const char word[] = "Sanitizer";
	const size_t bytes = sizeof word - 1;

	for (size_t at = 0; at + bytes <= file->length; at++) {
		if (file->bytes[at] == 'S' && __builtin_memcmp(file->bytes + at, word, bytes) == 0)
			return true;
	}
	return false;
}

/* Parts of a dynamic section. */
struct dynamic {
	const char *strings; /* its string table */
	uint64_t strings_bytes, soname;
	bool has_soname, begins_early;
};

static bool read_dynamic(const struct file *file, const Elf64_Phdr *segments, unsigned count,
			 const Elf64_Phdr *dynamic, struct dynamic *ret)
{
	uint64_t strings = 0;

	*ret = (struct dynamic){ 0 };
	if (!holds(file, dynamic->p_offset, dynamic->p_filesz) || dynamic->p_offset % 8 != 0)
		return false;
	const Elf64_Dyn *entry = (const Elf64_Dyn *)(const void *)(file->bytes + dynamic->p_offset);

	for (uint64_t i = 0; i < dynamic->p_filesz / sizeof *entry && entry[i].d_tag != DT_NULL;
	     i++) {
		if (entry[i].d_tag == DT_STRTAB) {
			strings = entry[i].d_un.d_ptr;
		} else if (entry[i].d_tag == DT_STRSZ) {
			ret->strings_bytes = entry[i].d_un.d_val;
		} else if (entry[i].d_tag == DT_SONAME) {
			ret->soname = entry[i].d_un.d_val;
			ret->has_soname = true;
		} else if (entry[i].d_tag == DT_PREINIT_ARRAY) {
			ret->begins_early = true;
		}
	}
	uint64_t at = offset_of(segments, count, strings);

	if (!holds(file, at, ret->strings_bytes))
		ret->strings_bytes = 0;
	else
		ret->strings = file->bytes + at;
	return true;
}

static bool is_sanitized(const struct file *file, const Elf64_Phdr *segments, unsigned count,
			 const Elf64_Phdr *section)
{
	struct dynamic dynamic;

	return read_dynamic(file, segments, count, section, &dynamic) &&
	       (names_sanitizer(dynamic.strings, dynamic.strings_bytes) ||
		(dynamic.begins_early && speaks_of_sanitizer(file)));
}

static struct elf_judgement judge_segments(const struct file *file, const Elf64_Ehdr *elf)
{
	const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(file->bytes + elf->e_phoff);
	const Elf64_Phdr *interpreter = NULL, *dynamic = NULL;

	for (unsigned i = 0; i < elf->e_phnum; i++) {
		if (segments[i].p_type == PT_INTERP)
			interpreter = &segments[i];
		else if (segments[i].p_type == PT_DYNAMIC)
			dynamic = &segments[i];
	}
	if (interpreter == NULL || dynamic == NULL)
		return (struct elf_judgement){ .verdict = ELF_STATIC };
	if (!holds(file, interpreter->p_offset, interpreter->p_filesz) || interpreter->p_filesz < 2)
		return (struct elf_judgement){ .verdict = ELF_UNKNOWN };
	const char *path = file->bytes + interpreter->p_offset;
	size_t bytes = interpreter->p_filesz - 1;

	if (!names_loader(path, bytes))
		return (struct elf_judgement){ ELF_OTHER_LIBC, path, bytes };
	if (is_sanitized(file, segments, elf->e_phnum, dynamic))
		return (struct elf_judgement){ .verdict = ELF_SANITIZED };
	return (struct elf_judgement){ .verdict = ELF_FITS };
}

/* The string with its terminating zero. */
static bool has_string(const char *bytes, uint64_t length, const struct name *string)
{
	for (uint64_t at = 0; length > string->bytes && at < length - string->bytes; at++) {
		if (bytes[at] == string->text[0] &&
		    __builtin_memcmp(bytes + at, string->text, string->bytes + 1) == 0)
			return true;
	}
	return false;
}

/* glibc's loader has its own name as its soname, which others may need as a library; musl's has none, but a variable that tells debuggers. */
static bool is_named_loader(const struct dynamic *d)
{
	static const struct name musl = NAME("_dl_debug_addr");

	if (!d->has_soname)
		return has_string(d->strings, d->strings_bytes, &musl);
	return d->soname < d->strings_bytes &&
	       d->strings_bytes - d->soname >= sizeof ELF_LOADER_HERE &&
	       __builtin_memcmp(d->strings + d->soname, ELF_LOADER_HERE, sizeof ELF_LOADER_HERE) ==
		       0;
}

/* ld.so has a dynamic section and no interpreter. */
static bool is_loader(const struct file *file, const Elf64_Ehdr *elf)
{
	const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(file->bytes + elf->e_phoff);
	struct dynamic dynamic;

	for (unsigned i = 0; i < elf->e_phnum; i++) {
		if (segments[i].p_type == PT_DYNAMIC &&
		    read_dynamic(file, segments, elf->e_phnum, &segments[i], &dynamic))
			return is_named_loader(&dynamic);
	}
	return false;
}

struct elf_judgement elf_judge(const void *bytes, size_t length)
{
	const struct file file = { bytes, length };
	const Elf64_Ehdr *elf = bytes;
	const struct elf_judgement unknown = { .verdict = ELF_UNKNOWN };

	if (length >= 2 && file.bytes[0] == '#' && file.bytes[1] == '!')
		return judge_script(&file);
	if (length < EI_NIDENT || __builtin_memcmp(bytes, ELFMAG, SELFMAG) != 0)
		return unknown;
	if (elf->e_ident[EI_CLASS] != ELFCLASS64)
		return (struct elf_judgement){ .verdict = ELF_OTHER_CLASS };
	if (length < sizeof *elf)
		return unknown;
	if (elf->e_machine != ELF_MACHINE_HERE)
		return (struct elf_judgement){ .verdict = ELF_OTHER_MACHINE };
	if (elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phoff % 8 != 0 ||
	    !holds(&file, elf->e_phoff, (uint64_t)elf->e_phnum * sizeof(Elf64_Phdr)))
		return unknown;
	struct elf_judgement judgement = judge_segments(&file, elf);

	if (judgement.verdict == ELF_STATIC && elf->e_type == ET_DYN && is_loader(&file, elf))
		judgement.verdict = ELF_LOADER;
	return judgement;
}
