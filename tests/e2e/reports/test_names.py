# SPDX-License-Identifier: Apache-2.0
"""Names: functions, files and lines of every way to build a program, and of every place debug information can be in."""

import collections
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

SOURCES = pathlib.Path(__file__).resolve().parent / "names"


def golden():
    """size -> [(function, file, line), ...], leaf first, as the comments of the sources say. None: not said."""
    frames = collections.defaultdict(dict)
    for path in SOURCES.glob("*.cc"):
        for number, text in enumerate(path.read_text().splitlines(), start=1):
            for size, index, name in re.findall(r"@(\d+)\.(\d+) ([\w()]+)", text):
                frames[int(size)][int(index)] = (name, path.name, number)
    return {size: [known.get(i) for i in range(max(known) + 1)] for size, known in frames.items()}


GOLDEN = golden()


def plain(function):
    """The last part of a function's name, without parameters and template arguments."""
    function = function.replace("(anonymous namespace)", "").replace("operator()", "operator").replace("->", "")
    function, before = re.sub(r" \[clone.*| const$", "", function), None
    while function != before:
        function, before = re.sub(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}", "", function), function
    last = function.split("::")[-1].split(" ")[-1]
    return "operator()" if last == "operator" else last


def run(*argv, **options):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=WAIT_SECONDS, **options)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}: {done.stderr}"
    return done.stdout


def build_scenes(folder, compiler, *flags, program="scenes"):
    """Builds the scenes in the folder, in two steps so that .dwo files have a place."""
    if platform.machine() != "x86_64":
        pytest.skip("scenes.cc has instructions of x86-64")
    objects = []
    for source in ("scenes.cc", "other.cc"):
        objects.append(folder / source.replace(".cc", ".o"))
        run(compiler, "-g", "-w", *flags, "-c", SOURCES / source, "-o", objects[-1], cwd=folder)
    path = folder / program
    run(compiler, "-g", *flags, *objects, "-o", path, cwd=folder)
    return path


def stacks(rows):
    """size -> stack, of the sites whose size is golden."""
    found = {}
    for site in rows["sites"]:
        sizes = [bar["low_bytes"] for bar in site["sizes"]]
        if len(sizes) == 1 and sizes[0] in GOLDEN:
            found[sizes[0]] = site["stack"]
    return found


def check_golden(rows):
    found = stacks(rows)
    assert set(found) == set(GOLDEN)
    for size, frames in GOLDEN.items():
        stack = [(plain(f["function"]), pathlib.Path(f["file"] or "?").name, f["line"]) for f in found[size]]
        for expected, real in zip(frames, stack):
            if expected:
                assert real == expected, f"{size}: {stack}"


def test_an_inlined_lambda_is_called_by_its_function(scratch, record, report_json):
    """gcc gives it no linkage name, so that only the tree of scopes tells whose it is."""
    program = build_scenes(scratch, "g++", "-O2")
    stack = stacks(report_json(record([program]).path, "sites"))[1002]
    assert [f["function"] for f in stack[:4]] == [
        "(anonymous namespace)::Shelf::put", "lambdas::{lambda}::operator()", "lambdas::{lambda}::operator()", "lambdas()"
    ]
    assert [f["inlined"] for f in stack[:4]] == [True, True, True, False]


def only_functions(rows, program):
    """The functions of the golden stacks that are real ones, where only the symbol table is left."""
    for size, stack in stacks(rows).items():
        names = [plain(f["function"]) for f in stack if f["module"] == str(program)]
        assert "main" in names, f"{size}: {names}"
        assert all(f["file"] is None and f["line"] == 0 for f in stack if f["module"] == str(program))


WAYS = [
    *(pytest.param(compiler, [level], id=f"{compiler}{level}")
      for compiler in ("g++", "clang++") for level in ("-O0", "-O1", "-O2", "-O3", "-Os")),
    *(pytest.param("g++", ["-O2", f"-fuse-ld={linker}", *pie], id=f"{linker}{pie[0]}")
      for linker in ("bfd", "gold", "lld", "mold") for pie in (["-pie", "-fPIE"], ["-no-pie", "-fno-pie"])),
    pytest.param("g++", ["-O2", "-flto"], id="g++-lto"),
    pytest.param("g++", ["-O3", "-flto", "-no-pie", "-fno-pie"], id="g++-lto-no-pie"),
    pytest.param("clang++", ["-O2", "-flto", "-fuse-ld=lld"], id="clang++-lto"),
    pytest.param("clang++", ["-O2", "-flto=thin", "-fuse-ld=lld"], id="clang++-thin-lto"),
    pytest.param("g++", ["-O2", "-gdwarf-4"], id="g++-dwarf4"),
    pytest.param("clang++", ["-O2", "-gdwarf-4"], id="clang++-dwarf4"),
    pytest.param("g++", ["-O2", "-ffunction-sections", "-Wl,--gc-sections"], id="g++-sections"),
    pytest.param("clang++", ["-O2", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--gc-sections,--icf=none"],
                 id="clang++-sections"),
    pytest.param("g++", ["-O2", "-gz"], id="g++-compressed"),
    pytest.param("g++", ["-O2", "-static-libgcc", "-Wl,--emit-relocs"], id="g++-relocs"),
]


@pytest.mark.parametrize("compiler, flags", WAYS)
def test_functions_and_lines_are_those_of_the_source(compiler, flags, scratch, record, report_json):
    program = build_scenes(scratch, compiler, *flags)
    done = record([program])
    assert done.returncode == 0, done.stderr
    check_golden(report_json(done.path, "sites"))


def strip_with_link(folder, program):
    debug = folder / "scenes.debug"
    run("objcopy", "--only-keep-debug", program, debug)
    run("strip", "--strip-all", program)
    run("objcopy", f"--add-gnu-debuglink={debug}", program)
    return debug


def strip_with_link_in_folder(folder, program):
    debug = strip_with_link(folder, program)
    (folder / ".debug").mkdir()
    debug.rename(folder / ".debug" / debug.name)


def dwz_alone(folder, program):
    run("dwz", program)


def dwz_together(folder, program):
    """Two programs whose common debug information goes to a third file."""
    twin = folder / "twin"
    shutil.copy(program, twin)
    common = folder / "common.debug"
    run("dwz", "-m", common, "-M", common, program, twin)
    assert ".gnu_debugaltlink" in run("readelf", "-SW", program)


def mini_debug_info(folder, program):
    """The symbols of a stripped program, compressed inside it, as Fedora does."""
    mini = folder / "mini"
    names = run("nm", program, "--format=posix", "--defined-only").splitlines()
    (folder / "keep").write_text("".join(line.split()[0] + "\n" for line in names if line.split()[1] in "tT"))
    run("objcopy", "-S", "--remove-section", ".comment", f"--keep-symbols={folder / 'keep'}", program, mini)
    run("xz", "--force", mini)
    run("strip", "--strip-all", program)
    run("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", program)


def pack_gnu(folder, program):
    run("dwp", "-e", program, "-o", f"{program}.dwp", cwd=folder)
    for path in folder.glob("*.dwo"):
        path.unlink()


def pack_llvm(folder, program):
    run("llvm-dwp", "-e", program, "-o", f"{program}.dwp", cwd=folder)
    for path in folder.glob("*.dwo"):
        path.unlink()


def nothing(folder, program):
    pass


SPLIT = ["-O2", "-gsplit-dwarf"]
PLACES = [
    pytest.param("g++", ["-O2"], strip_with_link, id="debuglink"),
    pytest.param("g++", ["-O2"], strip_with_link_in_folder, id="debuglink-in-folder"),
    pytest.param("g++", ["-O2"], dwz_alone, id="dwz"),
    pytest.param("g++", ["-O2"], dwz_together, id="dwz-common"),
    pytest.param("g++", SPLIT, nothing, id="g++-dwo"),
    pytest.param("clang++", SPLIT, nothing, id="clang++-dwo"),
    pytest.param("g++", [*SPLIT, "-gdwarf-4"], nothing, id="g++-dwo-4"),
    pytest.param("g++", SPLIT, pack_llvm, id="g++-dwp"),  # binutils' dwp 2.40 crashes on gcc's DWARF 5
    pytest.param("g++", [*SPLIT, "-gdwarf-4"], pack_gnu, id="g++-dwp-4"),
    pytest.param("clang++", SPLIT, pack_llvm, id="clang++-dwp"),
    pytest.param("clang++", [*SPLIT, "-gdwarf-4"], pack_llvm, id="clang++-dwp-4"),
    pytest.param("clang++", [*SPLIT, "-no-pie", "-fno-pie"], pack_llvm, id="clang++-dwp-no-pie"),
    pytest.param("clang++", [*SPLIT, "-ffunction-sections"], pack_llvm, id="clang++-dwp-sections"),
]


@pytest.mark.parametrize("compiler, flags, place", PLACES)
def test_debug_information_is_found_where_it_is(compiler, flags, place, scratch, record, report_json):
    program = build_scenes(scratch, compiler, *flags)
    place(scratch, program)
    done = record([program])
    assert done.returncode == 0, done.stderr
    check_golden(report_json(done.path, "sites"))


@pytest.mark.parametrize("how", [mini_debug_info, lambda _, program: run("strip", "--strip-debug", program)],
                         ids=["gnu_debugdata", "symtab"])
def test_without_debug_information_functions_are_named_by_their_symbols(how, scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    how(scratch, program)
    done = record([program])
    assert done.returncode == 0, done.stderr
    only_functions(report_json(done.path, "sites"), program)


def of_program(rows, program):
    return [f for stack in stacks(rows).values() for f in stack if f["module"] == str(program)]


def is_place(frame, program):
    return frame["function"] == f"{program.name}+{frame['offset']:#x}" and frame["file"] is None


def test_a_module_that_changed_on_disk_is_refused(heapgauge, scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    done = record([program])
    check_golden(report_json(done.path, "sites", "--no-cache"))
    build_scenes(scratch, "g++", "-O2", "-DCHANGED", "-fno-inline")
    frames = of_program(report_json(done.path, "sites", "--no-cache"), program)
    assert len(frames) >= 12
    assert all(is_place(f, program) for f in frames), frames
    text = run(heapgauge, "report", done.path, "-v", "sites", "--no-cache")
    assert "scenes+0x...: the file changed since it was recorded" in text


def test_a_frame_outside_the_debug_information_of_its_module_is_not_said_to_have_none(heapgauge, scratch, record, report_json):
    """The second time, the names come from the cache."""
    (scratch / "plain.c").write_text("#include <stdlib.h>\nvoid *plain(void) { void *p = malloc(77); __asm__(\"\" :: \"r\"(p)); return p; }\n")
    run("gcc", "-g0", "-O1", "-c", scratch / "plain.c", "-o", scratch / "plain.o")
    source = "void *plain(void);\nint main(void) { return !plain(); }\n"
    program = compile_c(scratch, "partly", source, scratch / "plain.o")
    run("strip", "--strip-symbol=plain", program)
    done = record([program])
    for _ in range(2):
        health = {row["meaning"] for row in report_json(done.path, "health")["health"]}
        assert "frame shows as partly+0x...: not in its debug information" in health
        modules = {row["module"]: row for row in report_json(done.path, "modules")["modules"]}
        assert modules[str(program)]["names_from"] == "debug information"


def test_names_that_were_found_once_are_kept_for_that_build_at_that_path(clean_env, scratch, record, report_json):
    """Also when the program is another by now, or gone: the names are of the one that was recorded."""
    program = build_scenes(scratch, "g++", "-O2")
    done = record([program])
    first = report_json(done.path, "sites")
    check_golden(first)
    kept = list((pathlib.Path(clean_env["XDG_CACHE_HOME"]) / "heapgauge" / "names").glob("*.names"))
    assert kept and all(path.stat().st_mode & 0o077 == 0 for path in kept)
    build_scenes(scratch, "g++", "-O2", "-DCHANGED", "-fno-inline")
    assert report_json(done.path, "sites") == first
    program.unlink()
    assert report_json(done.path, "sites") == first
    for path in kept:  # damaged: not believed
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    frames = of_program(report_json(done.path, "sites"), program)
    assert frames and all(is_place(f, program) for f in frames), frames


def test_a_module_that_is_gone_is_shown_by_its_place(scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    done = record([program])
    program.unlink()
    frames = of_program(report_json(done.path, "sites"), program)
    assert len(frames) >= 12
    assert all(is_place(f, program) for f in frames), frames


def test_a_debug_file_with_another_checksum_is_refused(scratch, record, report_json):
    """Without build-ids the checksum in .gnu_debuglink is all there is."""
    program = build_scenes(scratch, "g++", "-O2", "-Wl,--build-id=none")
    debug = strip_with_link(scratch, program)
    done = record([program])
    check_golden(report_json(done.path, "sites"))
    with open(debug, "ab") as file:
        file.write(b"\0")
    frames = of_program(report_json(done.path, "sites"), program)
    assert frames and all(is_place(f, program) for f in frames), frames


def test_a_debug_file_of_another_build_is_refused(scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    debug = strip_with_link(scratch, program)
    other = build_scenes(scratch, "g++", "-O2", "-fno-inline", program="other")
    run("objcopy", "--only-keep-debug", other, debug)
    done = record([program])
    frames = of_program(report_json(done.path, "sites"), program)
    assert frames and all(is_place(f, program) for f in frames), frames


def test_split_units_that_are_lost_leave_functions_and_lines(scratch, record, report_json):
    program = build_scenes(scratch, "g++", *SPLIT)
    for path in scratch.glob("*.dwo"):
        path.unlink()
    done = record([program])
    found = stacks(report_json(done.path, "sites"))
    frames = [(plain(f["function"]), pathlib.Path(f["file"]).name, f["line"]) for f in found[1005][:3]]
    assert frames == GOLDEN[1005]


JIT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A runtime in three lines: makes `sub rsp, 8; mov edi, 1234; call malloc; add rsp, 8; ret` and says so for perf. */
int main(int argc, char **argv)
{
	unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0xbf, 0xd2, 4, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0,
				 0x48, 0x83, 0xc4, 8, 0xc3 };
	void *(*target)(size_t) = malloc;
	char path[64];

	memcpy(code + 11, &target, sizeof target);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof code);
	if (argc > 1) {
		snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
		FILE *map = fopen(path, "w");
		fprintf(map, "%lx %zx LazyCompile:*hot /srv/app.js:7:3\n", (long)page, sizeof code);
		fclose(map);
	}
	return ((void *(*)(void))page)() == NULL;
}
"""


def test_code_of_a_runtime_is_named_by_its_map(heapgauge, scratch, record, report_json):
    program = compile_c(scratch, "jit", JIT)
    done = record([program, "map"])
    assert done.returncode == 0, done.stderr
    rows = report_json(done.path, "sites")
    (site,) = [s for s in rows["sites"] if s["sizes"][0]["low_bytes"] == 1234]
    frame = site["stack"][0]
    path = pathlib.Path(f"/tmp/perf-{site['pid']}.map")
    try:
        assert frame["function"] == "LazyCompile:*hot /srv/app.js:7:3"
        assert frame["module"] == "[jit]"
        # The same map, from before this process: it is another's.
        os.utime(path, (1_000_000_000, 1_000_000_000))
        text = run(heapgauge, "report", done.path, "-v", "sites", "--no-cache")
        assert "made by a runtime, and" in text and f"{path} is of another process" in " ".join(text.split())
        path.unlink()
        text = run(heapgauge, "report", done.path, "-v", "sites", "--no-cache")
        assert f"{path} is gone" in " ".join(text.split())
        (site,) = [s for s in report_json(done.path, "sites")["sites"] if s["sizes"][0]["low_bytes"] == 1234]
        assert site["stack"][0]["function"] == hex(frame["offset"]) and site["stack"][0]["module"] == ""
    finally:
        path.unlink(missing_ok=True)


def test_a_folder_that_is_named_is_asked_by_build_id(scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    build_id = run("readelf", "-n", program).partition("Build ID: ")[2].split()[0]
    debug = scratch / "symbols" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    run("objcopy", "--only-keep-debug", program, debug)
    run("strip", "--strip-all", program)
    done = record([program])
    frames = of_program(report_json(done.path, "sites", "--no-cache"), program)
    assert frames and all(is_place(f, program) for f in frames)
    check_golden(report_json(done.path, "sites", "--no-cache", "--debug-folder", scratch / "symbols"))
    program.unlink()
    check_golden(report_json(done.path, "sites", "--no-cache", "--debug-folder", scratch / "symbols"))


@pytest.mark.parametrize("style, put, each", [
    ("full", "(anonymous namespace)::Shelf::put", "void Box<int>::each<templates()::{lambda(unsigned long)#1}>"),
    ("short", "(anonymous namespace)::Shelf::put", "Box<...>::each<...>"),
    ("raw", "(anonymous namespace)::Shelf::put", "_ZN3BoxIiE4eachIZ9templatesvEUlmE_EEvOT_"),
])
def test_names_have_the_style_that_is_asked_for(style, put, each, scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    stack = stacks(report_json(record([program]).path, "sites", "--names", style))[1003]
    assert stack[0]["function"] == put  # inlined, and without a linkage name
    assert stack[2]["function"].startswith(each), stack[2]
    assert stack[3]["function"] == {"full": "templates()", "short": "templates", "raw": "_Z9templatesv"}[style]


@pytest.mark.parametrize("layout", ["", "bin", "whole"])
def test_a_build_folder_names_a_stripped_program(layout, scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2", "-Wl,--build-id")
    folder = scratch / "build" / {"": "", "bin": program.parent.name, "whole": str(program.parent)[1:]}[layout]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, folder / program.name)
    subprocess.run(["strip", program], check=True)
    done = record([program])
    unnamed = of_program(report_json(done.path, "sites", "--no-cache"), program)
    assert unnamed and all(is_place(f, program) for f in unnamed)
    check_golden(report_json(done.path, "sites", "--no-cache", "--debug-folder", scratch / "build"))
    # A copy that is stripped too tells nothing.
    subprocess.run(["strip", folder / program.name], check=True)
    assert of_program(report_json(done.path, "sites", "--no-cache", "--debug-folder", scratch / "build"), program) == unnamed
