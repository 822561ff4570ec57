# SPDX-License-Identifier: Apache-2.0
"""A target whose files are made to keep its collector busy: it ends when the target does, with a recording."""

import struct

import pytest

from compiled import compile_c

# Maps the file as code, so often; has memory that nobody recorded, which is why its files are looked at; and waits until they were.
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDONLY);
	for (int i = 0; i < atoi(argv[2]); i++)
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) return 1;
	enum { BYTES = 32 << 20 };
	memset((void *)syscall(SYS_mmap, NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, BYTES);
	void *volatile kept = malloc(100);
	usleep(500 * 1000);
	return kept ? 4 : 0;
}
"""
LIBRARY = "#include <stdlib.h>\nvoid *a(void) { return malloc(1); }\nvoid *b(void *p) { return realloc(calloc(1, 2), 3); }\n"


def elf(path, sections, total):
    """An ELF file of so many bytes, most of which are a hole. sections: (name, type, flags, at, bytes)."""
    names = b"\0.rodata\0.text\0.symtab\0"
    head_bytes, section_bytes, names_at, table_at = 64, 64, 64, 128
    rows = [bytes(section_bytes), struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)]
    rows += [
        struct.pack("<IIQQQQIIQQ", names.index(name), kind, flags, 0, at, size, 1, 0, 1, 24)
        for name, kind, flags, at, size in sections
    ]
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table_at, 0, head_bytes, 56, 0, section_bytes, len(rows), 1
    )
    with path.open("wb") as file:
        file.write((head + names).ljust(table_at, b"\0") + b"".join(rows))
        file.truncate(total)
    return path


@pytest.fixture
def program(scratch):
    return compile_c(scratch, "maps_files", SOURCE)


@pytest.mark.parametrize("name, kind, flags", [(b".rodata", 1, 2), (b".text", 1, 6), (b".symtab", 2, 0)])
def test_a_file_of_a_terabyte(name, kind, flags, program, record, report_json, scratch):
    """It was read to its end, for hours, and filled the memory."""
    size = 1 << 40
    file = elf(scratch / "huge.so", [(name, kind, flags, 4096, size - 4096)], size)
    run = record([program, file, "1"])
    assert run.returncode == 4 and len(report_json(run.path)["processes"]) == 1


def test_a_file_whose_sections_are_all_the_same_bytes(program, record, report_json, scratch):
    size = 64 << 20
    file = elf(scratch / "same.so", [(b".symtab", 2, 0, 4096 * 1024, size - 4096 * 1024)] * 60000, size)
    run = record([program, file, "1"])
    assert run.returncode == 4 and len(report_json(run.path)["processes"]) == 1


def test_a_library_that_is_mapped_very_often(program, record, report_json, scratch):
    """Each time it was looked for at all the places, each of which was looked for among all the mappings."""
    library = compile_c(scratch, "often.so", LIBRARY, "-shared", "-fPIC")
    run = record([program, library, "20000"])
    assert run.returncode == 4 and len(report_json(run.path)["processes"]) == 1
