# SPDX-License-Identifier: Apache-2.0
"""A recording with many deep stacks: every format is written in bounded memory, and pprof and ms_print read it."""

import re
import resource
import subprocess

import pytest

from exports import LONG, output_of, scene, tool  # noqa: F401

STACKS = 150000 if LONG else 20000
FORMATS = ["pprof", "otlp", "folded", "speedscope", "dot", "dot-tags", "gprof2dot", "callgrind", "massif", "dhat", "heaptrack", "csv", "jsonl"]
# What opening the recording takes, and as much again.
MEMORY_BYTES = (600 if LONG else 250) << 20


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_recording_is_exported_in_little_memory(scene, heapgauge, form):
    it = scene(f"made {STACKS}")

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))

    argv = [heapgauge, "export", it.path, "--format", form, "-o", "/dev/null"]
    done = subprocess.run(argv, preexec_fn=limit, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_pprof_reads_a_large_recording(scene):
    it = scene(f"made {STACKS}")
    program = tool("pprof", "go install github.com/google/pprof@latest")
    text = output_of(program, "-top", "-unit=B", "-sample_index=alloc_space", it.export("pprof"))
    assert re.search(r"Total samples = (\d+)B", text)[1] == str(it.whole("--cost", "total"))


def test_ms_print_reads_a_large_recording(scene):
    it = scene(f"made {STACKS}")
    text = output_of("ms_print", it.export("massif"))
    assert f'100.00% ({it.whole("--cost", "peak"):,}B) (heap allocation functions)' in text
