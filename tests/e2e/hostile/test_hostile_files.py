# SPDX-License-Identifier: Apache-2.0
"""A target whose files are made to keep its collector busy: it ends when the target does, with a recording."""

import resource
import struct
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

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


HOLDS = "#include <stdlib.h>\nvoid *held[1000];\n__attribute__((constructor)) static void fill(void) { for (int i = 0; i < 1000; i++) held[i] = malloc(100); }\n"
WAITS = "#include <stdio.h>\nint main(void) { puts(\"ready\"); fflush(stdout); while (getchar() != EOF) {} return 0; }\n"


def with_long_names(path, name_bytes, count):
    """Gives a library so many more variables, whose names are ends of one text."""
    data = bytearray(path.read_bytes())
    table_at, (row_bytes, rows) = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table_at + i * row_bytes) for i in range(rows)]
    symbols = next(i for i, section in enumerate(sections) if section[1] == 2)
    old_at, old_bytes, names = sections[symbols][4], sections[symbols][5], sections[symbols][6]
    old = [struct.unpack_from("<IBBHQQ", data, old_at + i) for i in range(0, old_bytes, 24)]
    *_, shndx, at, size = next(symbol for symbol in old if symbol[5] == 8000)
    names_at = len(data)
    data += b"\0" + b"x" * name_bytes + b"\0"
    symbols_at = len(data)
    data += bytes(24) + b"".join(struct.pack("<IBBHQQ", 1 + i % name_bytes, 0x11, 0, shndx, at + i * 8 % size, 8) for i in range(count))
    for section, start, length in ((names, names_at, name_bytes + 2), (symbols, symbols_at, (count + 1) * 24)):
        struct.pack_into("<QQ", data, table_at + section * row_bytes + 0x18, start, length)
    path.write_bytes(data)


def test_a_library_with_names_of_megabytes(paused, heapgauge, clean_env, scratch):
    """Each was copied: a hundred thousand times fifty megabytes."""
    library = compile_c(scratch, "libnames.so", HOLDS, "-shared", "-fPIC")
    program = compile_c(scratch, "waits", WAITS, "-Wl,--no-as-needed", f"-L{scratch}", "-lnames", f"-Wl,-rpath,{scratch}")
    with_long_names(library, 50_000_000, 100_000)
    run = paused([program])
    done, path = run.image()
    assert done.returncode == 0, done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20, "KiB"
    assert run.end() == 0
    for file, view in ((path, "leaks"), (scratch / "paused.hg", "globals")):
        report = subprocess.run([heapgauge, "report", file, "--view", view], env=clean_env, capture_output=True, timeout=WAIT_SECONDS, check=False)
        assert report.returncode == 0, report.stderr


# Cuts off each recording just after it was mapped.
CUTS = r"""
#define _GNU_SOURCE
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	char link[64], path[4096] = "";
	void *map = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	if (fd >= 0 && readlink(link, path, sizeof path - 1) > 3 && strcmp(path + strlen(path) - 3, ".hg") == 0 && truncate(path, 0) == 0)
		write(2, "cut\n", 4);
	return map;
}
"""


@pytest.mark.parametrize("command", ["report", "view"])
def test_a_recording_that_becomes_shorter_while_it_is_mapped(record, heapgauge, clean_env, scratch, command):
    run = record(["true"])
    cuts = compile_c(scratch, "cuts.so", CUTS, "-shared", "-fPIC", "-Wno-unused-result")
    done = subprocess.run([heapgauge, command, run.path, *(["--no-open"] if command == "view" else [])], env=clean_env | {"LD_PRELOAD": str(cuts)},
                          capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 1 and done.stderr.startswith("cut\nheapgauge: cannot read the recording"), done
