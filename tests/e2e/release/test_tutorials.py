# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials: every command is run in order, and says what is printed there."""

import os
import pathlib
import shutil

import subprocess

import pytest

from compiled import wait_for
from sessions import ROOT, check_session, session

PAGES = sorted(path.stem for path in (ROOT / "docs/tutorials").glob("*.md"))
# What systemd would do: a memory control group of its own for the command. No manager runs here.
SYSTEMD_RUN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" = -p ] && shift; shift; done
echo $$ > %s/tasks
exec "$@"
"""


@pytest.fixture
def limited(scratch):
    """A folder with a systemd-run that limits the command to 96 MiB."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    group = root / f"heapgauge-tutorial-{os.getpid()}"
    if not (root / "tasks").exists():
        pytest.skip("no memory cgroup (v1) is mounted here")
    try:
        group.mkdir()
    except OSError as reason:
        pytest.skip(f"cannot make a memory cgroup here: {reason}")
    (group / "memory.limit_in_bytes").write_text(str(96 << 20))
    program = scratch / "bin" / "systemd-run"
    program.parent.mkdir()
    program.write_text(SYSTEMD_RUN % group)
    program.chmod(0o755)
    yield program.parent
    wait_for(lambda: not (group / "tasks").read_text(), "the cgroup to be empty")
    group.rmdir()
    shutil.rmtree("/dev/shm/heapgauge-cache", ignore_errors=True)


def commands_of(page):
    return session((ROOT / "docs/tutorials" / f"{page}.md").read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if page != "oom-kill"])
def test_a_tutorial(page, heapgauge, scratch, clean_env):
    commands = commands_of(page)
    assert len(commands) >= 3
    check_session(commands, heapgauge, scratch, clean_env)


def test_an_oom_kill(limited, build, heapgauge, scratch, clean_env):
    prefix = scratch / "prefix"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    shutil.rmtree("/dev/shm/heapgauge-cache", ignore_errors=True)
    env = clean_env | {"PATH": f"{limited}:{clean_env['PATH']}", "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    said = check_session(commands_of("oom-kill"), heapgauge, scratch, env)
    assert "was killed by the OOM killer" in said and "99.7 % of it from compute (cache.c:19)" in said
