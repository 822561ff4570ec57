# SPDX-License-Identifier: Apache-2.0
"""Who is named for a stack, beyond the rule of the recording: not the program's allocators and containers, not its copies of libraries,
and of an installed program its own package."""

import shutil
import subprocess
import sys

import pytest

from compiled import WAIT_SECONDS, compile_c

ALONE = "__attribute__((noinline, noclone)) "
HEAD = "#include <stdlib.h>\nstatic void *volatile kept[5000]; static int count;\n"


@pytest.fixture
def heaviest(record, report_json):
    """heaviest(argv): the owner of the most memory at the peak."""

    def find(argv, *options):
        run = record(argv, *options)
        assert run.returncode == 0, run.stderr
        return report_json(run.path)["verdict"]["peak_owner"]

    return find


def callers(function, count, size="20 * {} + 8"):
    """Functions that call it once each, and a call of each."""
    names = [f"use{i}" for i in range(count)]
    defined = "".join(f"{ALONE}static void {name}(void) {{ free({function}({size.format(i)})); }}\n" for i, name in enumerate(names))
    return defined, " ".join(f"{name}();" for name in names)


def wrapper(name, calls="malloc", linkage="static "):
    return f"{ALONE}{linkage}void *{name}(size_t n) {{ void *p = {calls}(n); if (!p) abort(); return p; }}\n"


LOAD = ALONE + "static void load(void) {{ kept[count++] = {function}(700); }}\n"
MAIN = "int main(void) {{ {calls} for (int i = 0; i < 2000; i++) load(); return 0; }}\n"


def program_around(function, definition, count=9, **options):
    defined, calls = callers(function, count, **options)
    return HEAD + definition + defined + LOAD.format(function=function) + MAIN.format(calls=calls)


INLINED = "static inline __attribute__((always_inline)) void *hand_out(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }\n"
TWO_LAYERS = (
    wrapper("inner")
    + "".join(f"{ALONE}static void *outer{i}(void) {{ void *p = inner({30 * i + 40}); return p; }}\n" for i in range(8))
    + wrapper("hand_out", "inner")
)


def test_a_wrapper_that_was_inlined(heaviest, scratch):
    assert heaviest([compile_c(scratch, "program", program_around("hand_out", INLINED))]).startswith("load (program.c:")


def test_a_wrapper_of_a_wrapper(heaviest, scratch):
    source = program_around("hand_out", TWO_LAYERS).replace("int main(void) {", "int main(void) { " + "".join(f"free(outer{i}());" for i in range(8)))
    assert heaviest([compile_c(scratch, "program", source)]).startswith("load (program.c:")


@pytest.mark.parametrize("count, size", [(6, "20 * {} + 8"), (9, "64 + 0 * {}")], ids=["few callers", "one size"])
def test_no_wrapper(heaviest, scratch, count, size):
    """With fewer callers, or as a constructor, which always asks for one size, the function itself is the answer."""
    source = program_around("hand_out", INLINED.replace("malloc(n)", "malloc(n)" if count < 8 else "malloc(64)"), count, size=size)
    assert heaviest([compile_c(scratch, "program", source)]).startswith("hand_out (program.c:")


def test_a_function_with_many_lines_that_allocate_is_no_wrapper(heaviest, scratch):
    lines = "\n".join(f"if (n % 4 == {i}) {{ p = malloc(n); __asm__ volatile(\"\" : \"+r\"(p)); }}" for i in range(4))
    definition = ALONE + f"static void *hand_out(size_t n) {{ void *p = 0;\n{lines}\nreturn p; }}\n"
    source = program_around("hand_out", definition).replace("hand_out(700)", "hand_out(700 + count % 4)")
    assert heaviest([compile_c(scratch, "program", source)]).startswith("hand_out (program.c:")


@pytest.mark.parametrize("function", ["mem_pool_alloc", "node_pool_alloc_aligned", "more_blocks", "grow_alloc_block", "emalloc_real"])
def test_pools_are_known_by_name(heaviest, scratch, function):
    program = compile_c(scratch, "program", program_around(function, wrapper(function), 1))
    assert heaviest([program]) == f"load (program.c:5) via {function}"


def test_what_only_wrappers_call_is_part_of_them(heaviest, scratch):
    source = program_around("xmalloc", wrapper("refill") + wrapper("xmalloc", "refill"), 1)
    owner = heaviest([compile_c(scratch, "program", source)])
    assert owner.startswith("load (program.c:") and owner.endswith(" via xmalloc")


def test_a_source_file_that_is_an_allocator(heaviest, scratch):
    """But a program of one file is none."""
    part = compile_c(scratch, "blockAlloc", "#include <stdlib.h>\n" + wrapper("take", linkage=""), "-c")
    source = HEAD + "void *take(size_t n);\n" + LOAD.format(function="take") + MAIN.format(calls="")
    assert heaviest([compile_c(scratch, "program", source, "-x", "none", part, "-x", "c")]) == "load (program.c:4) via take"
    source = HEAD + LOAD.format(function="malloc") + MAIN.format(calls="")
    assert heaviest([compile_c(scratch, "alloc", source)]) == "load (alloc.c:3)"


VECTOR = """
#include <stdlib.h>
#define ALONE __attribute__((noinline))
template <class T> struct array {
	T *at = nullptr; int count = 0, room = 0;
	ALONE void grow(int n) { at = static_cast<T *>(realloc(static_cast<void *>(at), n * sizeof(T))); room = n; }
	void push(T value) { if (count == room) grow(2 * room + 7); at[count++] = value; }
};
template <int N> struct item { char bytes[N]; };
template <int N> ALONE void some() { array<item<N>> a; a.push({}); free(a.at); }
static array<item<16>> *table;
ALONE static void load() { for (int i = 0; i < 50000; i++) table->push({}); }
int main()
{
	some<1>(); some<2>(); some<3>(); some<4>(); some<5>(); some<6>(); some<7>(); some<8>();
	table = new array<item<16>>();
	load();
}
"""


def test_a_container_of_the_program(heaviest, scratch):
    """The instances of a template are one function; no instance has eight callers."""
    (scratch / "program.cc").write_text(VECTOR)
    subprocess.run(["g++", "-g", "-O1", "-o", scratch / "program", scratch / "program.cc"], check=True, timeout=WAIT_SECONDS)
    assert heaviest([scratch / "program"]).startswith("load (program.cc:12)")


@pytest.mark.parametrize("folder, owner", [("third_party", "load (program.c:4) via parse"), ("lib", "parse (parser.c:2)")])
def test_copies_of_libraries(heaviest, scratch, folder, owner):
    project = scratch / "vendor" / "project"  # which may be in such a folder itself
    (project / folder).mkdir(parents=True)
    part = compile_c(project / folder, "parser", "#include <stdlib.h>\n" + wrapper("parse", linkage=""), "-c")
    source = HEAD + "void *parse(size_t n);\n" + LOAD.format(function="parse") + MAIN.format(calls="")
    assert heaviest([compile_c(project, "program", source, "-x", "none", part, "-x", "c")]) == owner


@pytest.fixture
def tool(scratch):
    """A console script and its package, in the layout that pip makes."""
    environment = scratch / "env"
    packages = environment / "lib" / "python3.11" / "site-packages"
    for name in "tool", "other":
        (packages / name).mkdir(parents=True)
    (environment / "bin").mkdir()
    (packages / "other" / "__init__.py").write_text("def make(n):\n    return bytearray(n)\n")
    (packages / "tool" / "__init__.py").write_text("import other\ndef load():\n    return other.make(3000000)\ndef main():\n    return load()\n")
    script = environment / "bin" / "run-tool"
    script.write_text(f"import sys\nsys.path.insert(0, {str(packages)!r})\nfrom tool import main\nif __name__ == '__main__':\n    kept = main()\n")
    return script


def test_a_console_script_is_of_its_package(heaviest, tool):
    assert heaviest([sys.executable, tool]) == "load (__init__.py:3) via make"


def test_a_script_of_the_project_is_its_own(heaviest, tool, scratch):
    """Packages that it calls are not."""
    script = scratch / "run.py"
    script.write_text(tool.read_text())
    assert heaviest([sys.executable, script]) == "<module> (run.py:5) via main"


def test_own_code_comes_before_the_package(heaviest, tool, scratch):
    """As a plugin that the tool calls, which calls back into the tool."""
    plugin = scratch / "plugin.py"
    plugin.write_text("import tool\ndef work():\n    return tool.load()\n")
    package = next(tool.parent.parent.rglob("tool/__init__.py"))
    call = f"    sys.path.append({str(scratch)!r})\n    import plugin\n    return plugin.work()"
    package.write_text(package.read_text().replace("    return load()", call) + "import sys\n")
    assert heaviest([sys.executable, tool]) == "work (plugin.py:3) via load"


def test_an_installed_crate_is_its_own(heaviest, scratch):
    """Its sources are in the registry, as are those of its dependencies."""
    if not shutil.which("rustc"):
        pytest.fail("rustc is not installed")
    registry = scratch / ".cargo" / "registry" / "src" / "index"
    for name in "tool-1.0.0", "other-2.0.0":
        (registry / name / "src").mkdir(parents=True)
    other, main = registry / "other-2.0.0" / "src" / "lib.rs", registry / "tool-1.0.0" / "src" / "main.rs"
    other.write_text("#[inline(never)]\npub fn make(n: usize) -> Vec<u8> {\n    vec![1; n]\n}\n")
    main.write_text(
        "#[inline(never)]\nfn load() -> Vec<u8> {\n    let v = other::make(3_000_000);\n    std::hint::black_box(v)\n}\n"
        "fn main() {\n    std::hint::black_box(load());\n}\n"
    )
    for words in ["--crate-type=rlib", "--crate-name=other", other], ["--crate-name=tool", "--extern", "other=libother.rlib", main]:
        subprocess.run(["rustc", "--edition=2021", "-g", "-O", *words], cwd=scratch, check=True, timeout=WAIT_SECONDS)
    assert heaviest([scratch / "tool"]) == "tool::load (main.rs:3) via other::make"


def test_what_the_interpreter_keeps_is_no_leak(record, report_json):
    run = record([sys.executable, "-c", "pass"])
    verdict = report_json(run.path)["verdict"]
    assert verdict["kind"] == "freed", verdict
