# SPDX-License-Identifier: Apache-2.0
"""A program with 624 MB of DWARF: ceph-osd of Debian. HEAPGAUGE_LONG=1 only: it fetches half a gigabyte."""

import os
import re
import subprocess

import pytest


@pytest.mark.skipif(os.environ.get("HEAPGAUGE_LONG") != "1", reason="fetches half a gigabyte: HEAPGAUGE_LONG=1")
def test_hundred_thousand_frames_of_ceph(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ceph")
    subprocess.run(["apt-get", "download", "-qq", "ceph-osd", "ceph-osd-dbg"], cwd=folder, check=True, timeout=1800)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True, timeout=600)
    env = os.environ | {
        "HEAPGAUGE_LARGE_PROGRAM": str(folder / "root/usr/bin/ceph-osd"),
        "HEAPGAUGE_LARGE_DEBUG": str(folder / "root/usr/lib/debug"),
    }
    done = subprocess.run([build / "unit/test_symbols_large"], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (cold, cold_mib), (warm, warm_mib) = re.findall(r"named=(\d+) .*rss_mib=(\d+)", done.stdout)
    assert int(cold) == int(warm) > 90_000
    assert int(cold_mib) < 1500, done.stdout
    print(done.stdout)
