# SPDX-License-Identifier: Apache-2.0
"""T1: no room for the recording where it was to be: it is written where there is room, and the summary is printed in any case."""

import pathlib
import re
import stat
import subprocess

import pytest

from compiled import WAIT_SECONDS

FULL = "mount -t tmpfs -o size=4k none {0} && {{ cat /dev/zero > {0}/zeros; }} 2>/dev/null;"


@pytest.fixture
def elsewhere(scratch, clean_env):
    """The environment of a user whose TMPDIR has room."""
    folder = scratch / "elsewhere"
    folder.mkdir()
    return clean_env | {"TMPDIR": str(folder)}


@pytest.fixture
def without_room(scratch):
    """without_room(argv, env, folders): runs it where these folders are full."""
    probe = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", scratch], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"may not mount here: {probe.stderr}")

    def run(argv, env, *folders):
        if any(pathlib.Path(argv[0]).is_relative_to(folder) for folder in folders):
            pytest.skip(f"{argv[0]} is where there shall be no room")
        script = "".join(FULL.format(folder) for folder in folders) + 'exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, argv)]
        return subprocess.run(words, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)

    return run


def written(said):
    return pathlib.Path(re.search(r"No space left on device\. The recording is (\S+) instead", said)[1])


def test_it_is_written_where_there_is_room(heapgauge, without_room, elsewhere, scratch, target, report_json):
    full = scratch / "full"
    full.mkdir()
    done = without_room([heapgauge, "record", "-o", full / "run.hg", "--", target("t_sizes")], elsewhere, full)
    assert done.returncode == 0
    path = written(done.stderr)
    assert path == scratch / "elsewhere" / "run.hg"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "others may read that folder"
    assert f"cannot write {full}/run.hg: No space" in done.stderr.splitlines()[-1], "the last line, and it names what was asked for"
    assert "\n  peak " in done.stderr and f"wrote {path} (" in done.stderr
    assert report_json(path)["processes"][0]["calls"] > 0


def test_a_device_that_is_full(heapgauge, without_room, elsewhere, scratch, target, report_json):
    words = f'mount -t tmpfs none {scratch}/full && mknod {scratch}/full/node c 1 7 && exec "$@"'
    (scratch / "full").mkdir()
    done = without_room(["sh", "-c", words, "sh", heapgauge, "record", "-q", "-o", scratch / "full" / "node", "--", target("t_sizes")], elsewhere)
    assert done.returncode == 0
    assert report_json(written(done.stderr))["processes"][0]["calls"] > 0


@pytest.mark.parametrize("ends, status", [("exit 7", 125), ("kill -9 $$", -9)])
def test_nowhere_is_room(heapgauge, without_room, clean_env, ends, status):
    """The summary is what is left; a program that was killed ends this as ever."""
    env = clean_env | {"TMPDIR": "/tmp", "HOME": "/tmp"}
    argv = [heapgauge, "record", "-o", "/var/tmp/run.hg", "--", "sh", "-c", ends]
    done = without_room(argv, env, "/var/tmp", "/dev/shm", "/tmp")
    assert done.returncode == status
    assert "\n  peak " in done.stderr and "\n  wrote " not in done.stderr
    assert "no space in TMPDIR, /var/tmp, /tmp, HOME or /dev/shm: the recording is lost" in done.stderr.splitlines()[-1]


DEVICES = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && ln -s /proc/self/fd/1 /dev/stdout &&"


def test_a_link_in_dev_is_not_replaced(heapgauge, without_room, elsewhere, scratch, report_json):
    """Root could: everybody's /dev/stdout would be a recording."""
    words = f'{DEVICES} "$1" record -q -o /dev/stdout -- /bin/true > "$2" && readlink /dev/stdout'
    done = without_room(["sh", "-c", words, "sh", str(heapgauge), str(scratch / "run.hg")], elsewhere)
    assert (done.returncode, done.stdout) == (0, "/proc/self/fd/1\n"), done.stderr
    assert report_json(scratch / "run.hg")["processes"][0]["pid"] > 0
