# SPDX-License-Identifier: Apache-2.0
"""The packages: Debian's own checker finds no error, and what they hold works from where it is put.

The long form installs the .deb in a fresh Debian 12 and records a program there."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from alone import folder_on_tmpfs

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def packages(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    argv = ["cpack", "--config", build / "CPackConfig.cmake", "-B", folder]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def records(command, scratch, env):
    path = scratch / "run.hg"
    done = subprocess.run([command, "record", "-o", path, "--", "/bin/ls", "/"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nothing lost" in done.stderr
    done = subprocess.run([command, "report", path, "--view", "tree"], env=env, capture_output=True, text=True)
    assert "main" in done.stdout or "ls+0x" in done.stdout, done.stderr


def test_lintian_finds_no_error(packages):
    (package,) = packages.glob("*.deb")
    done = subprocess.run(["lintian", "--fail-on", "error", package], capture_output=True, text=True, timeout=120)
    assert not [line for line in done.stdout.splitlines() if line.startswith("E:")], done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_deb_works_unpacked(packages, build, scratch, clean_env):
    (package,) = packages.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, scratch / "root"], check=True)
    assert (scratch / "root/usr/lib/heapgauge/libheapgauge.so").exists()
    records(scratch / "root/usr/bin/heapgauge", scratch, clean_env)
    fields = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True).stdout
    assert "libc6" in fields and "libdw1" in fields
    copyright = (scratch / "root/usr/share/doc/heapgauge/copyright").read_text()
    for one in json.loads((build / "page-packages.json").read_text()):
        assert f"Files: web/node_modules/{one['name']}/*" in copyright
    assert "THE SOFTWARE IS PROVIDED" in copyright and "GPL-2+-with-linking-exception" in copyright
    assert {"NOTICE", "heapgauge.spdx.json"} <= {path.name for path in (scratch / "root/usr/share/doc/heapgauge").iterdir()}
    assert "libmicrohttpd12t64 | libmicrohttpd12" in fields, "T3: view loads it"
    argv = ["pkg-config", "--variable=recorder", "heapgauge"]
    env = clean_env | {"PKG_CONFIG_PATH": str(scratch / "root/usr/lib/pkgconfig")}
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert pathlib.Path(said).samefile(scratch / "root/usr/lib/heapgauge/libheapgauge.so"), "T2: wherever it is unpacked"


def test_the_tarball_works_unpacked(packages, scratch, clean_env):
    (archive,) = packages.glob("*.tar.gz")
    subprocess.run(["tar", "xzf", archive, "-C", scratch], check=True)
    (command,) = scratch.glob("*/bin/heapgauge")
    records(command, scratch, clean_env)


def test_pkg_config_and_cmake_find_it(build, scratch, clean_env):
    prefix = scratch / "prefix"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    env = clean_env | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    said = subprocess.run(["pkg-config", "--modversion", "heapgauge"], env=env, capture_output=True, text=True, check=True)
    assert f"project(heapgauge VERSION {said.stdout.strip()} " in (ROOT / "CMakeLists.txt").read_text()
    argv = ["pkg-config", "--variable=recorder", "heapgauge"]
    recorder = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert pathlib.Path(recorder).exists(), recorder
    for variable, needed in ("includedir", "heapgauge/heapgauge.hpp"), ("rust", "src/lib.rs"), ("fortran", ""):
        argv = ["pkg-config", f"--variable={variable}", "heapgauge"]
        said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()
        assert (pathlib.Path(said) / needed).is_file(), said
    (scratch / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(user LANGUAGES C)\nfind_package(heapgauge 0.1 REQUIRED)\n"
        "get_target_property(where heapgauge::recorder IMPORTED_LOCATION)\nfile(SIZE ${where} size)\n"
        'message(STATUS "recorder of ${size} bytes")\n'
    )
    argv = ["cmake", "-S", scratch, "-B", scratch / "out", f"-DCMAKE_PREFIX_PATH={prefix}"]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True)
    assert done.returncode == 0 and "recorder of" in done.stdout, done.stdout + done.stderr


def test_a_program_is_linked_with_the_recorder_as_the_page_says(build, scratch, clean_env, report_json):
    prefix = scratch / "prefix"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    (scratch / "a.c").write_text('#include <string.h>\nint main(void) { return strdup("kept") == 0; }\n')
    env = clean_env | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    argv = ["pkg-config", "--variable=linked_in", "heapgauge"]
    flags = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["cc", scratch / "a.c", "-o", scratch / "by-pkg-config", *flags], check=True)
    (scratch / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(user LANGUAGES C)\nfind_package(heapgauge 0.1 REQUIRED)\n"
        "add_executable(by-cmake a.c)\ntarget_link_libraries(by-cmake PRIVATE heapgauge::linked_in)\n"
    )
    argv = ["cmake", "-S", scratch, "-B", scratch / "out", f"-DCMAKE_PREFIX_PATH={prefix}"]
    subprocess.run(argv, env=clean_env, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", scratch / "out"], env=clean_env, check=True, capture_output=True)
    for program in scratch / "by-pkg-config", scratch / "out" / "by-cmake":
        with folder_on_tmpfs() as folder:
            own = {"HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1"}
            subprocess.run([program], env=clean_env | own, check=True)
            (live,) = folder.glob("*.live")
            sites = report_json(live, "sites", "--focus", "strdup")["sites"]
            assert [(site["calls"], site["total_bytes"]) for site in sites] == [(1, 5)]


@pytest.mark.skipif(not LONG, reason="a whole Debian: HEAPGAUGE_LONG=1")
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
def test_a_clean_debian_12(packages, tmp_path):
    root = tmp_path / "root"
    include = "--include=libdw1,libelf1,libxxhash0,libzstd1,zlib1g"
    subprocess.run(["debootstrap", "--variant=minbase", include, "bookworm", root], check=True, capture_output=True, timeout=900)
    (package,) = packages.glob("*.deb")
    shutil.copy(package, root / "heapgauge.deb")
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    try:
        subprocess.run(["chroot", root, "dpkg", "-i", "/heapgauge.deb"], check=True, capture_output=True)
        argv = ["chroot", root, "heapgauge", "record", "-o", "/run.hg", "--", "ls", "/"]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 0 and "nothing lost" in done.stderr, done.stderr
        done = subprocess.run(["chroot", root, "heapgauge", "report", "/run.hg"], capture_output=True, text=True)
        assert done.returncode == 0 and "peak" in done.stdout
    finally:
        subprocess.run(["umount", root / "proc"], check=True)
