# SPDX-License-Identifier: Apache-2.0
"""Targets on CPU models other than the host's, emulated by qemu-user, without the recorder and with it. The model decides how
many registers the kernel and the dynamic linker save on a stack. qemu emulates neither AVX-512 nor AMX: those remain to hosts
that have them."""

import subprocess

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c
from test_targets import WAIT_SECONDS, compare, inconsistencies, parse

MODELS = {
    "qemu64": "plain x86-64: no AVX, no XSAVE",
    "Haswell": "AVX2",
    "max": "all that qemu has; its XSAVE area is as large as that of AVX-512",
}
# Those that depend on registers or stacks, and that qemu itself can run.
NAMES = ["t_small_stacks", "t_misaligned_stack", "t_stack_scenes", "t_stack_ucontext", "t_throw_across", "t_threads_many"]


@pytest.fixture
def run_on(scratch, clean_env):
    """run_on(model, program, {...}): the program there, with these variables."""

    def run(model, program, variables):
        given = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
        return subprocess.run(
            ["qemu-x86_64", "-cpu", model, *given, program],
            env=clean_env, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_SECONDS,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_target_runs_on_any_cpu(name, model, target, build, run_on, report_json):
    """T12: t_small_stacks crashed without the recorder where the dynamic linker saves many vector registers."""
    bare = run_on(model, target(name), {})
    assert bare.returncode == 0, f"bare: {bare.stdout[-2000:]}{bare.stderr[-2000:]}"
    with folder_on_tmpfs() as folder:
        run = run_on(model, target(name), preloaded(build, {}, folder, HEAPGAUGE_KEEP="1"))
        assert run.returncode == 0, f"recorded: {run.stdout[-2000:]}{run.stderr[-2000:]}"
        (path,) = folder.iterdir()
        process = report_json(path, "summary")["processes"][0]
        sites = report_json(path, "sites")["sites"]
    truth = parse(run.stdout)
    assert truth.expectations and truth.output == parse(bare.stdout).output
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)


def test_errno_is_as_ever_where_the_kernel_tells_less(build, run_on, scratch):
    """qemu-user gives no vDSO, of which libc makes an error."""
    program = compile_c(scratch, "first_errno", "#include <errno.h>\nint main(void) { return errno; }\n")
    assert run_on("qemu64", program, {}).returncode == 0
    with folder_on_tmpfs() as folder:
        assert run_on("qemu64", program, preloaded(build, {}, folder)).returncode == 0
