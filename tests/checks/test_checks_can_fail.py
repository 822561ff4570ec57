# SPDX-License-Identifier: Apache-2.0
"""A check that cannot fail checks nothing: each is given a tree that is right, and one with a planted fault."""

import json
import subprocess

import pytest
from conftest import ROOT, SPDX

LAYERS = "base:\nutil: base\nmodel: base util\n"


def only_finding(result):
    """The one finding of a check that failed; its last line is the count."""
    status, lines = result
    assert status == 1, lines
    assert len(lines) == 2, lines
    return lines[0]


def passes(result):
    status, lines = result
    assert status == 0, lines
    assert " 0 findings" in lines[-1]


# check-layers


def layered(tree, model='#include "util/error.h"\n#include <stdio.h>\n', base=""):
    tree.write("src/LAYERS", LAYERS)
    tree.write("src/base/span.h", base)
    tree.write("src/util/error.h", '#include "base/span.h"\n')
    tree.write("src/model/model.c", model)


def test_layers_accepts_what_is_allowed(tree):
    layered(tree)
    passes(tree.check("check-layers"))


def test_layers_finds_an_include_upwards(tree):
    layered(tree, base='\n#  include "model/model.h"\n')
    assert only_finding(tree.check("check-layers")) == "src/base/span.h:2: base may not include model/model.h"


def test_layers_finds_an_include_in_angle_brackets(tree):
    layered(tree, base="#include <util/error.h>\n")
    assert "base may not include util/error.h" in only_finding(tree.check("check-layers"))


def test_layers_finds_a_relative_include(tree):
    layered(tree, model='#include "error.h"\n')
    assert 'write "error.h" as "folder/file.h"' in only_finding(tree.check("check-layers"))


SUBFOLDERS = "model/low:\nmodel/high: low\nutil/plain/*.h:\n"


def test_layers_orders_subfolders(tree):
    layered(tree)
    tree.write("src/LAYERS", LAYERS + SUBFOLDERS)
    tree.write("src/model/low/a.h", "")
    tree.write("src/model/high/b.h", '#include "model/low/a.h"\n#include "model/model.h"\n')
    tree.write("src/util/plain/c.h", '#include "util/error.h"\n')
    tree.write("src/util/plain/c.c", '#include "util/other/d.h"\n')
    passes(tree.check("check-layers"))
    tree.write("src/model/low/a.h", '#include "model/high/b.h"\n')
    assert only_finding(tree.check("check-layers")) == "src/model/low/a.h:1: model/low may not include model/high/b.h"


def test_layers_orders_headers_of_subfolders(tree):
    layered(tree)
    tree.write("src/LAYERS", LAYERS + SUBFOLDERS)
    tree.write("src/util/plain/c.h", '#include "util/other/d.h"\n')
    assert only_finding(tree.check("check-layers")) == "src/util/plain/c.h:1: util/plain may not include util/other/d.h"


def test_layers_finds_a_way_round_by_dots(tree):
    layered(tree, base='#include "../model/model.h"\n')
    assert 'src/base/span.h:1: write "../model/model.h"' in only_finding(tree.check("check-layers"))


def test_layers_finds_an_unknown_folder(tree):
    layered(tree)
    tree.write("src/extra/extra.c", "")
    assert "folder extra is not in src/LAYERS" in only_finding(tree.check("check-layers"))


def make_library(tree, folder, text):
    tree.write(f"build/{folder}.c", text)
    tree.run("gcc", "-O2", "-c", f"build/{folder}.c", "-o", f"build/{folder}.o")
    tree.run("ar", "rc", f"build/libhg-{folder}.a", f"build/{folder}.o")


def test_layers_finds_an_extern_written_by_hand(tree):
    layered(tree)
    make_library(tree, "model", "int model_secret(void) { return 1; }\n")
    make_library(tree, "util", "int model_secret(void);\nint util_peek(void) { return model_secret() + 1; }\n")
    finding = only_finding(tree.check("check-layers", "--build", "build"))
    assert finding == "libhg-util.a: uses model_secret of model, which util may not"


def test_layers_finds_libc_in_base(tree):
    layered(tree)
    make_library(tree, "base", "#include <stdlib.h>\nvoid *base_grab(void) { return malloc(8); }\n")
    assert "libhg-base.a: needs malloc" in only_finding(tree.check("check-layers", "--build", "build"))


def test_layers_wants_libraries_where_a_build_is_named(tree):
    layered(tree)
    (tree.path / "build").mkdir()
    assert "no libraries built" in only_finding(tree.check("check-layers", "--build", "build"))


# check-seam


PORTABLE = """#include "recorder/arch/arch.h"
/* rbp and %rsp on x86: __x86_64__, _dl_find_object, a page of 4096 */
extern int own_dynamic[] __asm__("_DYNAMIC");
void hook(int a) __asm__(symbol);
static const char what[] = "a trip of 14096 rspberries";
void f(int self) { __asm__("" : "+r"(self)); __asm__ volatile("" ::: "memory"); }
"""


def test_seam_accepts_what_is_portable(tree):
    tree.write("src/recorder/hooks/a.c", PORTABLE)
    tree.write("src/recorder/arch/x86_64/arch.h", "#define PAUSE __builtin_ia32_pause()\n")
    tree.write("src/recorder/libc/loader.c", "#include <link.h>\nstruct link_map *first;\n")
    passes(tree.check("check-seam"))


@pytest.mark.parametrize(
    "line, found",
    [
        ("#if defined(__x86_64__)", "__x86_64__ is an architecture"),
        ("if (type == R_X86_64_GLOB_DAT)", "R_X86_64_GLOB_DAT is an architecture"),
        ("enum { DW_RIP = 16 };", "RIP is a register"),
        ("uintptr_t saved_rbp;", "rbp is a register"),
        ("t = __builtin_ia32_rdtsc();", "__builtin_ia32_rdtsc is an instruction"),
        ('__asm__ volatile("pause");', '"pause" is an instruction'),
        ('__asm__("addq %1, %0" : "+m"(x) : "er"(by));', '"addq %1, %0" is an instruction'),
        ("frame = __builtin_frame_address(0);", "__builtin_frame_address is the frame's layout"),
        ("extern void *__libc_stack_end;", "__libc_stack_end is the C library"),
        ('is_named(path, "libc.so.6");', "libc.so is the C library"),
        ('find = lookup_first("_dl_find_object");', "_dl_find_object is the loader"),
        ("map = _r_debug.r_map;", "_r_debug is the loader"),
        ("enum { PAGE = 4096 };", "4096 is the kernel's page"),
    ],
)
def test_seam_finds_what_a_port_would_have_to_hunt(tree, line, found):
    tree.write("src/recorder/hooks/a.c", PORTABLE + line + "\n")
    number = PORTABLE.count("\n") + 1
    assert only_finding(tree.check("check-seam")).startswith(f"src/recorder/hooks/a.c:{number}: {found}:")


# check-words


@pytest.mark.parametrize("name", ["src/base/a.c", "docs/howto/a.md", "web/src/a.ts", "README.md"])
def test_words_finds_a_retired_term(tree, name):
    tree.write("src/base/b.c", "/* The recording mode, from a snapshot on. */\n")
    tree.write(name, "// it turns the dial\n")
    assert only_finding(tree.check("check-words")) == f'{name}:1: "the dial" is now: recording mode'


def test_words_leaves_history(tree):
    tree.write("docs/decisions/001-a.md", "the dial\n")
    tree.write("src/base/b.c", "int b;\n")
    passes(tree.check("check-words"))


# check-sizes


def function(lines):
    return "int long_one(int a,\n\t     int b)\n{\n" + "\ta += b;\n" * (lines - 3) + "\treturn a;\n}\n"


def test_sizes_accepts_the_limits_themselves(tree):
    tree.write("src/base/a.c", function(80) + "\n" * (800 - 82))
    tree.write("src/base/a.h", "\n" * 250)
    passes(tree.check("check-sizes"))


def test_sizes_finds_a_long_function(tree):
    tree.write("src/base/a.c", function(81))
    assert only_finding(tree.check("check-sizes")) == "src/base/a.c:3: long_one has 81 lines, at most 80"


def test_sizes_finds_a_long_source(tree):
    tree.write("src/base/a.c", "\n" * 801)
    assert only_finding(tree.check("check-sizes")) == "src/base/a.c: 801 lines, at most 800"


def test_sizes_finds_a_long_header(tree):
    tree.write("include/heapgauge/a.h", "\n" * 251)
    assert only_finding(tree.check("check-sizes")) == "include/heapgauge/a.h: 251 lines, at most 250"


def test_sizes_finds_a_full_folder(tree):
    for number in range(30):
        tree.write(f"src/base/deep/a{number}.c", "\n")
    passes(tree.check("check-sizes"))
    tree.write("src/base/deep/README.md", "\n")
    assert only_finding(tree.check("check-sizes")) == "src/base/deep: 31 files, at most 30; split it by subject"


def test_a_check_that_sees_no_files_fails(tree):
    status, lines = tree.check("check-sizes")
    assert (status, lines) == (1, ["check-sizes: looked at nothing"])


# check-banned


@pytest.mark.parametrize("name", ["strcpy", "strcat", "sprintf", "strtok", "atoi", "alloca"])
def test_banned_finds_each(tree, name):
    tree.write("src/base/a.c", f"void f(void)\n{{\n\t{name} (x);\n}}\n")
    assert f"src/base/a.c:3: {name} is banned" in only_finding(tree.check("check-banned"))


def test_banned_lets_words_and_relatives_pass(tree):
    tree.write("src/base/a.c", '/* strcpy(a, b) */ // atoi(x)\nchar *s = "sprintf(";\nsnprintf(x); my_strcat(y);\n')
    passes(tree.check("check-banned"))


# check-headers


def test_headers_accepts_one_that_stands_alone(tree):
    tree.write("src/base/a.h", "#ifndef A_H\n#define A_H\n#include <stdint.h>\nstruct a { uint32_t v; };\n#endif\n")
    tree.write("include/heapgauge/a.h", "#ifndef B_H\n#define B_H\nint hg_a(void);\n#endif\n")
    passes(tree.check("check-headers"))


def test_headers_finds_a_missing_include(tree):
    tree.write("src/base/a.h", "#ifndef A_H\n#define A_H\nstruct a { uint32_t v; };\n#endif\n")
    status, lines = tree.check("check-headers")
    assert status == 1
    assert [line.split(": not alone with ")[0] for line in lines[:2]] == ["src/base/a.h"] * 2
    assert "gcc" in lines[0] and "clang" in lines[1]


def test_headers_finds_a_missing_guard(tree):
    tree.write("src/base/a.h", "struct a { int v; };\n")
    status, lines = tree.check("check-headers")
    assert status == 1 and len(lines) == 3


def test_headers_finds_c11_in_a_public_header(tree):
    tree.write("include/heapgauge/a.h", '#ifndef B_H\n#define B_H\n_Static_assert(1, "");\n#endif\n')
    status, lines = tree.check("check-headers")
    assert status == 1
    assert any("-pedantic" in line for line in lines)


def test_headers_finds_a_cxx_keyword_in_a_public_header(tree):
    tree.write("include/heapgauge/a.h", "#ifndef B_H\n#define B_H\nint hg_a(int class);\n#endif\n")
    status, lines = tree.check("check-headers")
    assert status == 1
    assert len(lines) == 3  # both compilers as C++, neither as C


# check-fence


GOOD_LINK = ["-shared", "-fPIC", "-O2", "-fno-plt", "-fcf-protection=full", "-nostartfiles", "-Wl,-z,now", "-Wl,-z,nodelete"]
GOOD_LINK += ["-Wl,--version-script=src/recorder/exports.map"]
GOOD_SOURCE = "#include <string.h>\nsize_t hg_length(const char *s) { return strlen(s); }\nvoid malloc_x(void) {}\n"


def fenced(tree, source=GOOD_SOURCE, link=GOOD_LINK, exports="{ global: hg_*; malloc_x; /* no; */ local: *; };\n", more_imports=""):
    allow = "# loader\n__cxa_finalize\n_ITM_deregisterTMCloneTable\n_ITM_registerTMCloneTable\n__gmon_start__\nstrlen # why\n"
    tree.write("src/recorder/imports.allow", allow + more_imports)
    tree.write("src/recorder/exports.map", exports)
    tree.write("a.c", source)
    tree.run("gcc", "a.c", "-o", "libheapgauge.so", *link)
    return tree.check("check-fence", "--build", ".")


def test_fence_accepts_what_is_listed(tree):
    passes(fenced(tree))


def test_fence_finds_an_import(tree):
    source = GOOD_SOURCE + "#include <stdlib.h>\nchar *hg_env(void) { return getenv(\"A\"); }\n"
    assert "imports getenv, which imports.allow does not have" in only_finding(fenced(tree, source))


def test_fence_finds_an_export(tree):
    link = GOOD_LINK[:-1]
    assert "exports other, which" in only_finding(fenced(tree, GOOD_SOURCE + "void other(void) {}\n", link))


def test_fence_does_not_take_local_names_for_exports(tree):
    # Without the script nothing is hidden: names after "local:" must not count as allowed.
    exports = "{ global: hg_length; local: malloc_x; };\n"
    assert "exports malloc_x, which" in only_finding(fenced(tree, GOOD_SOURCE, GOOD_LINK[:-1], exports))


def test_fence_finds_a_library(tree):
    assert "needs libm.so.6" in only_finding(fenced(tree, link=GOOD_LINK + ["-Wl,--no-as-needed", "-lm"]))


@pytest.mark.parametrize(
    "flag, instead, words",
    [
        ("-Wl,-z,now", "-Wl,-z,lazy", "does not bind at load"),
        ("-Wl,-z,nodelete", None, "can be unloaded"),
        ("-fno-plt", "-fplt", "has PLT relocations"),
        (None, "-Wl,-z,noseparate-code", "symbol table lies among code"),
        (None, "-Wl,-z,norelro", "its relocations stay writable"),
        (None, "-Wl,-z,execstack", "wants an executable stack"),
    ],
)
def test_fence_finds_a_missing_flag(tree, flag, instead, words):
    link = [x for x in GOOD_LINK if x != flag] + ([instead] if instead else [])
    assert words in only_finding(fenced(tree, link=link))


def test_fence_finds_writable_code(tree):
    source = GOOD_SOURCE + '__asm__(".section .both, \\"awx\\"; .quad 1; .text");\n'
    assert only_finding(fenced(tree, source)) == "libheapgauge.so: has memory that is writable and executable"


def test_fence_finds_relocations_in_code(tree):
    source = GOOD_SOURCE + '__asm__(".text; .p2align 3; .quad hg_length");\n'
    assert "has relocations in code" in only_finding(fenced(tree, source, GOOD_LINK + ["-Wl,-z,notext"]))


def test_fence_finds_a_symbol_of_a_newer_glibc(tree):
    source = GOOD_SOURCE + "int _dl_find_object(void *, void *);\nint hg_find(void) { return _dl_find_object(0, 0); }\n"
    finding = only_finding(fenced(tree, source, more_imports="_dl_find_object\n"))
    assert finding == "libheapgauge.so: needs _dl_find_object of glibc 2.35, which 2.28 does not have"


def test_fence_looks_at_the_command(tree):
    passes(fenced(tree))
    tree.write("main.c", "int main(void) { return 0; }\n")
    tree.run("gcc", "main.c", "-o", "heapgauge", "-no-pie", "-Wl,-z,lazy")
    status, lines = tree.check("check-fence", "--build", ".")
    assert status == 1 and "heapgauge: does not bind at load (-z now)" in lines
    assert "heapgauge: must be loaded at a fixed address (-pie)" in lines


@pytest.mark.parametrize("flag, mark", [("-fcf-protection=branch", "SHSTK"), ("-fcf-protection=return", "IBT")])
def test_fence_finds_a_missing_mark(tree, flag, mark):
    """R14"""
    status, lines = fenced(tree, link=[flag if x == "-fcf-protection=full" else x for x in GOOD_LINK])
    assert status == 1 and f"libheapgauge.so: has no {mark} mark (-fcf-protection=full)" in lines
    assert any("does not begin with endbr64" in line for line in lines) == (mark == "IBT")


def test_fence_looks_into_the_archive(tree):
    """R14"""
    passes(fenced(tree))
    tree.run("gcc", "-c", "-fcf-protection=return", "a.c", "-o", "one.o")
    tree.run("gcc", "-c", "-fcf-protection=full", "a.c", "-o", "two.o")
    tree.run("ar", "rc", "libheapgauge.a", "one.o", "two.o")
    finding = only_finding(tree.check("check-fence", "--build", "."))
    assert finding == "libheapgauge.a(one.o): has no IBT mark (-fcf-protection=full)"


def test_fence_finds_an_entry_that_may_not_be_jumped_to(tree):
    """R14"""
    source = GOOD_SOURCE + '__asm__(".globl hg_bare\\n.type hg_bare, @function\\nhg_bare: ret\\n");\n'
    assert only_finding(fenced(tree, source)) == "libheapgauge.so: hg_bare does not begin with endbr64"


def test_fence_skips_only_what_is_not_built(tree):
    status, lines = tree.check("check-fence", "--build", ".")
    assert status == 0 and "SKIPPED" in lines[0]


def test_fence_wants_its_lists(tree):
    fenced(tree)
    (tree.path / "src/recorder/imports.allow").unlink()
    assert only_finding(tree.check("check-fence", "--build", ".")) == "src/recorder/imports.allow: is missing"


# check-format-doc


def test_format_doc_accepts_a_described_record(tree):
    tree.write("src/format/live/live.h", "/* doc: live_site */\nstruct live_site;\n/* The map; doc: map. */\n")
    tree.write("docs/format.md", "# Format\n\n### `live_site`\n\n## The map\n")
    passes(tree.check("check-format-doc"))


def test_format_doc_finds_a_record_without_a_section(tree):
    tree.write("src/format/live/live.h", "\n/* doc: live_site */\n")
    tree.write("docs/format.md", "# live_sites\n\nAbout live_site.\n")
    expected = "src/format/live/live.h:2: live_site has no section in docs/format.md"
    assert only_finding(tree.check("check-format-doc")) == expected


def test_format_doc_finds_headers_without_any_marker(tree):
    tree.write("src/format/live/live.h", "struct live_site;\n")
    tree.write("docs/format.md", "# Format\n")
    assert "no \"doc: NAME\" marker" in only_finding(tree.check("check-format-doc"))


# check-style


def styled(tree, text):
    tree.write(".clang-format", (ROOT / ".clang-format").read_text())
    tree.write("src/base/a.c", text)
    return tree.check("check-style")


def test_style_accepts_formatted_text(tree):
    passes(styled(tree, SPDX + "int f(void)\n{\n\treturn 0;\n}\n"))


def test_style_finds_bad_formatting(tree):
    finding = only_finding(styled(tree, SPDX + "int f(void) {\n  return 0;\n}\n"))
    assert finding.startswith("src/base/a.c:2: not formatted")


def test_style_finds_a_missing_licence(tree):
    assert only_finding(styled(tree, "int f(void)\n{\n\treturn 0;\n}\n")) == "src/base/a.c:1: no SPDX line"


# check-tidy


def tidied(tree, text):
    tree.write(".clang-tidy", (ROOT / ".clang-tidy").read_text())
    source = tree.write("src/base/a.c", text)
    commands = [{"directory": str(tree.path), "file": str(source), "command": f"clang -std=gnu17 -c {source}"}]
    tree.write("build/compile_commands.json", json.dumps(commands))
    return tree.check("check-tidy", "--build", str(tree.path / "build"))


def test_tidy_accepts_plain_code(tree):
    passes(tidied(tree, "int twice(int a);\nint twice(int a)\n{\n\treturn 2 * a;\n}\n"))


def test_tidy_finds_a_function_nobody_can_follow(tree):
    # Each level of nesting costs one more than the one outside: 1 + 2 + ... + 7 = 28 > 25.
    body = "".join("\t" * n + f"if (a > {n})\n" for n in range(1, 8)) + "\t" * 8 + "a++;\n"
    finding = only_finding(tidied(tree, f"int f(int a);\nint f(int a)\n{{\n{body}\treturn a;\n}}\n"))
    assert finding.startswith("src/base/a.c:2: function 'f' has cognitive complexity of 28")


def test_tidy_looks_at_what_a_change_concerns(tree):
    """A file whose header changed; not the one that is as it was."""
    bug = "int half(int);\nint half(int n)\n{\n\tif (n > 0)\n\t\treturn n;\n\telse\n\t\treturn n;\n}\n"
    tree.write(".clang-tidy", (ROOT / ".clang-tidy").read_text())
    tree.write("src/util/half.h", SPDX)
    sources = [tree.write("src/util/half.c", '#include "util/half.h"\n' + bug), tree.write("src/util/other.c", bug)]
    commands = [{"directory": str(tree.path), "file": str(p), "command": f"clang -I{tree.path}/src -c {p}"} for p in sources]
    tree.write("build/compile_commands.json", json.dumps(commands))
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]):
        tree.run("git", *command)
    check = lambda *options: tree.check("check-tidy", "--build", str(tree.path / "build"), *options)  # noqa: E731
    assert check("--since", "HEAD")[0] == 0
    tree.write("src/util/half.h", SPDX + "extern int low;\n")
    status, lines = check("--since", "HEAD")
    assert status == 1 and any("half.c" in line for line in lines) and not any("other.c" in line for line in lines), lines
    status, lines = check("--since", "unknown")
    assert status == 1 and any("other.c" in line for line in lines), lines


def test_tidy_finds_a_likely_bug(tree):
    text = "#include <string.h>\nint f(const char *a);\nint f(const char *a)\n{\n\tif (strcmp(a, \"x\") == -1)\n\t\treturn 1;\n\treturn 0;\n}\n"
    assert "bugprone-suspicious-string-compare" in only_finding(tidied(tree, text))


# sum-tests


def summed(tmp_path, *documents):
    paths = []
    for number, text in enumerate(documents):
        paths.append(tmp_path / f"{number}.xml")
        if text is not None:
            paths[-1].write_text(text)
    done = subprocess.run([ROOT / "tools" / "sum-tests", *paths], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()[-1]


CMOCKA = """<testsuite><testcase name="a" status="{status}">{failure}<system-out>
[==========] Running 5 test(s).
[==========] 5 test(s) run.
[  PASSED  ] {passed} test(s).
</system-out></testcase></testsuite>"""
PYTEST = '<testsuites><testsuite><testcase name="x"/><testcase name="y">{inner}</testcase></testsuite></testsuites>'


def test_sum_adds_tests_of_both_kinds(tmp_path):
    cmocka = CMOCKA.format(status="run", failure="", passed=5)
    assert summed(tmp_path, cmocka, PYTEST.format(inner="")) == (0, "7 passed, 0 failed")


def test_sum_counts_failures(tmp_path):
    cmocka = CMOCKA.format(status="fail", failure="<failure/>", passed=3)
    assert summed(tmp_path, cmocka, PYTEST.format(inner="<failure/>")) == (1, "4 passed, 3 failed")


def test_sum_counts_a_program_that_died_after_its_tests(tmp_path):
    cmocka = CMOCKA.format(status="fail", failure="<failure/>", passed=5)
    assert summed(tmp_path, cmocka) == (1, "5 passed, 1 failed")


def test_sum_does_not_count_skipped_tests_as_passed(tmp_path):
    assert summed(tmp_path, PYTEST.format(inner="<skipped/>")) == (0, "1 passed, 0 failed")


def test_sum_knows_a_skipped_cmocka_test_from_a_failed_one(tmp_path):
    cmocka = CMOCKA.format(status="run", failure="", passed="3 test(s).\n[  SKIPPED ] 2")
    assert summed(tmp_path, cmocka) == (0, "3 passed, 0 failed")


def test_sum_counts_an_unbuilt_program_as_failed(tmp_path):
    text = '<testsuite><testcase name="a" status="notrun"><skipped/></testcase></testsuite>'
    assert summed(tmp_path, PYTEST.format(inner=""), text) == (1, "2 passed, 1 failed")


@pytest.mark.parametrize("broken", [None, "<testsuite><testc"])
def test_sum_counts_a_missing_or_broken_file_as_failed(tmp_path, broken):
    assert summed(tmp_path, PYTEST.format(inner=""), broken) == (1, "2 passed, 1 failed")


# check-web


def web_page(tree, content="", digest=None):
    """A tree with a page built from it; the digest is what web/build.mjs makes."""
    for name in ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", "src/main.tsx", "src/parts/a.css"]:
        tree.write(f"web/{name}", f"the text of {name}\n")
    (tree.path / "web/build.mjs").write_bytes((ROOT / "web/build.mjs").read_bytes())
    if digest is None:
        made = subprocess.run(["node", tree.path / "web/build.mjs", "--hash"], capture_output=True, text=True, check=True)
        digest = made.stdout.strip()
    page = f'<!doctype html><meta name="heapgauge-web" content="{digest}">{content}'
    tree.write("build/heapgauge", f"ELF\0 and code \0{page}\0 and more")


def test_web_accepts_the_page_of_these_sources(tree):
    web_page(tree)
    passes(tree.check("check-web", "--build", "build"))


@pytest.mark.parametrize("name", ["src/main.tsx", "src/parts/a.css", "package-lock.json", "src/new.ts"])
def test_web_finds_a_page_older_than_its_sources(tree, name):
    web_page(tree)
    tree.write(f"web/{name}", "changed\n")
    assert "its page is not that of web/" in only_finding(tree.check("check-web", "--build", "build"))


def test_web_finds_a_file_that_was_taken_away(tree):
    web_page(tree)
    (tree.path / "web/src/parts/a.css").unlink()
    assert "its page is not that of web/" in only_finding(tree.check("check-web", "--build", "build"))


def test_web_finds_a_command_without_a_page(tree):
    web_page(tree)
    tree.write("build/heapgauge", "ELF")
    assert "has no page" in only_finding(tree.check("check-web", "--build", "build"))


@pytest.mark.parametrize(
    "content",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        "<style>@font-face { src: url(https://fonts.example/a.woff) }</style>",
    ],
)
def test_web_finds_what_would_be_fetched_from_elsewhere(tree, content):
    web_page(tree, content)
    assert "fetches from elsewhere" in only_finding(tree.check("check-web", "--build", "build"))
