#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording adds to the start of a program: `true`, and one that is linked with 300 libraries.

    tests/cost/startup.py --build build/release

Wall time of `heapgauge record -q` beside the bare program, interleaved, minima; each library allocates once as it is
loaded, so that each is seen on a stack.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time

LIBRARIES = 300


def make_program(folder):
    """A program linked with LIBRARIES libraries."""
    names = []
    for number in range(LIBRARIES):
        source = folder / f"l{number}.c"
        source.write_text(
            f"#include <stdlib.h>\nvoid *kept_{number};\n"
            f"__attribute__((constructor)) static void begin(void) {{ kept_{number} = malloc({number + 1}); }}\n"
            f"int value_{number}(void) {{ return {number}; }}\n"
        )
        names.append(f"l{number}")
    subprocess.run(
        "for i in l*.c; do gcc -O1 -shared -fPIC $i -o lib${i%.c}.so || exit 1; done", shell=True, check=True, cwd=folder
    )
    calls = "".join(f"int value_{n}(void);" for n in range(LIBRARIES))
    total = "+".join(f"value_{n}()" for n in range(LIBRARIES))
    (folder / "main.c").write_text(f"{calls}\nint main(void) {{ return ({total}) != {sum(range(LIBRARIES))}; }}\n")
    program = folder / "main"
    subprocess.run(
        ["gcc", "main.c", "-o", program, f"-L{folder}", *(f"-l{name}" for name in names), f"-Wl,-rpath,{folder}"],
        check=True, cwd=folder,
    )  # fmt: skip
    return program


def wall(argv):
    start = time.monotonic()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        record = [args.build.resolve() / "heapgauge", "record", "-q", "-o", folder / "run.hg", "--"]
        for name, argv in (("true", ["/usr/bin/true"]), (f"{LIBRARIES} libraries", [make_program(folder)])):
            bare, recorded = [], []
            for _ in range(args.runs):
                bare.append(wall(argv))
                recorded.append(wall(record + argv))
            print(f"{name}: bare {min(bare) * 1e3:.1f} ms, recorded {min(recorded) * 1e3:.1f} ms, "
                  f"added {(min(recorded) - min(bare)) * 1e3:.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
