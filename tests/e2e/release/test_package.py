# SPDX-License-Identifier: Apache-2.0
"""The packages: Debian's own checker finds no error, and what they hold works from where it is put.

The long form installs the .deb in a fresh Debian 12 and records a program there."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from alone import folder_on_tmpfs
from compiled import WAIT_SECONDS
from reading import nothing_lost_is_said

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ROOT = pathlib.Path(__file__).parents[3]


def pack_into(folder, build):
    argv = ["cpack", "--config", build / "CPackConfig.cmake", "-B", folder]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def packages(build, tmp_path_factory):
    return pack_into(tmp_path_factory.mktemp("packages"), build)


def records(command, scratch, env):
    path = scratch / "run.hg"
    done = subprocess.run([command, "record", "-o", path, "--", "/bin/ls", "/"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert nothing_lost_is_said(done.stderr)
    done = subprocess.run([command, "report", path, "--view", "tree"], env=env, capture_output=True, text=True)
    assert "main" in done.stdout or "ls+0x" in done.stdout, done.stderr


def test_lintian_finds_nothing(packages):
    """But what the package's own overrides explain."""
    (package,) = packages.glob("*.deb")
    done = subprocess.run(["lintian", "--pedantic", "--fail-on", "error", package], capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert not [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:", "P:")], done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_deb_works_unpacked(packages, build, scratch, clean_env):
    (package,) = packages.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, scratch / "root"], check=True)
    assert (scratch / "root/usr/lib/heapgauge/libheapgauge.so").exists()
    records(scratch / "root/usr/bin/heapgauge", scratch, clean_env)
    fields = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True).stdout
    assert "libc6" in fields and "libdw1" in fields
    assert (scratch / "root/usr/lib/libheapgauge-profile.so.0").exists() and (scratch / "root/usr/include/heapgauge/profile.h").exists()
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


@pytest.fixture
def unpacked(packages, scratch):
    (archive,) = packages.glob("*-x86_64.tar.gz")
    subprocess.run(["tar", "xzf", archive, "-C", scratch], check=True)
    (command,) = scratch.glob("*/bin/heapgauge")
    return command.parents[1]


def test_the_archive_carries_its_libraries(unpacked, scratch, clean_env):
    records(unpacked / "bin/heapgauge", scratch, clean_env)
    (page_library,) = (unpacked / "lib/heapgauge").glob("libmicrohttpd.so.*")
    argv = ["ldd", unpacked / "bin/heapgauge"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    # A library finds those that it needs by the path of the command that loads it.
    env = clean_env | {"LD_LIBRARY_PATH": str(page_library.parent)}
    lines += subprocess.run(["ldd", page_library], env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    loaded = {line.split()[0]: line.split()[2] for line in lines if "=>" in line}
    assert len(loaded) > 10
    for name, path in loaded.items():
        own = name.split(".")[0] not in ("libc", "libm")
        assert pathlib.Path(path).is_relative_to(unpacked) == own, (name, path)
        assert not own or "icense" in (unpacked / f"share/doc/heapgauge/licenses/{name}.txt").read_text()


def system_of(unpacked, root):
    """As cmake/package/Containerfile makes it: the archive, the C library, and nothing else."""
    shutil.copytree(unpacked, root / "opt/heapgauge")
    for name in "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6":
        (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, root / name[1:])
    (root / "tmp").mkdir()
    return root


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for chroot")
def test_the_archive_is_a_container_image(unpacked, scratch, clean_env):
    root = system_of(unpacked, scratch / "image")
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    assert size < 30e6
    env = clean_env | {"PATH": "/opt/heapgauge/bin", "HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"}
    inside = ["/usr/bin/unshare", "--mount", "--pid", "--fork", "/bin/sh", "-c", f'/bin/mkdir -p {root}/proc; /bin/mount -t proc proc {root}/proc; exec /usr/sbin/chroot {root} "$@"', "-"]
    command = "/opt/heapgauge/bin/heapgauge"
    shutil.copy("/bin/true", root / "tmp")
    argv = [*inside, command, "record", "-o", "/tmp/run.hg", "--", "/tmp/true"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and (root / "tmp/run.hg").exists(), done.stderr
    done = subprocess.run([*inside, command, "doctor"], env=env, capture_output=True, text=True)
    assert "ok    view" in done.stdout, done.stdout + done.stderr


def python_packages(packages):
    """(wheel, sdist) of the archive in the folder."""
    (archive,) = packages.glob("*-x86_64.tar.gz")
    argv = [ROOT / "cmake/package/wheel.py", archive, packages]
    return tuple(map(pathlib.Path, subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()))


@pytest.fixture(scope="module")
def wheel(packages):
    return python_packages(packages)[0]


def pip_install(venv, *what):
    """Into a new environment, which sees the packages of this one: setuptools and pytest."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", venv], check=True, capture_output=True)
    argv = [venv / "bin/pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", *what]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def reads_and_measures(venv, scratch, env):
    """The package records, reads and limits a test: by the library near the command that it finds, and the plugin without -p."""
    (scratch / "test_it.py").write_text("import pytest\n@pytest.mark.heapgauge(peak='1MB')\ndef test_it():\n    bytes(2_000_000)\n")
    program = "import heapgauge; r = heapgauge.record(['ls', '/'], 'by-python.hg', quiet=True); print(len(heapgauge.open(r.path).view('sites')))"
    done = subprocess.run([venv / "bin/python", "-c", program], env=env, cwd=scratch, capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout.split()[-1]) > 0, done.stdout + done.stderr
    argv = [venv / "bin/python", "-m", "pytest", "--heapgauge", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(argv, env=env, cwd=scratch, capture_output=True, text=True)
    assert "test_it.py:4 in test_it" in done.stdout, done.stdout + done.stderr


def test_pip_installs_the_wheel(wheel, scratch, clean_env):
    pip_install(scratch / "venv", wheel)
    records(scratch / "venv/bin/heapgauge", scratch, clean_env)
    reads_and_measures(scratch / "venv", scratch, clean_env)
    libraries = subprocess.run(["ldd", scratch / "venv/lib/libheapgauge-profile.so.0"], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"libdw\.so\.1 => {scratch}/venv/lib/", libraries), "the libraries that it brought"
    done = subprocess.run([scratch / "venv/bin/pip", "show", "--files", "heapgauge"], capture_output=True, text=True, check=True)
    assert "License" in done.stdout and "../../../bin/heapgauge" in done.stdout


def test_pip_installs_the_sources(packages, build, scratch, clean_env):
    """The Python part alone, for a heapgauge that is on PATH; of an installation, and of the source distribution."""
    prefix = scratch / "prefix"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    env = clean_env | {"PATH": f"{prefix / 'bin'}{os.pathsep}{clean_env['PATH']}"}
    for name, what in ("sdist", python_packages(packages)[1]), ("installed", prefix / "share/heapgauge/python"):
        (scratch / name).mkdir()
        pip_install(scratch / name / "venv", what)
        reads_and_measures(scratch / name / "venv", scratch / name, env)


def test_the_tag_of_the_wheel_is_honest(wheel):
    """auditwheel reads the files, and knows what each platform has."""
    pytest.importorskip("auditwheel")
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert f'constrains the platform tag to "{wheel.stem.split("-")[-1]}"' in said or wheel.stem.split("-")[-1] in said, said


def test_two_packings_are_equal(build, packages, tmp_path):
    """Two whole builds in different folders are the long form; here: no file names a folder, and no package the time."""
    for name in "heapgauge", "libheapgauge.so", "libheapgauge.a", "libheapgauge-profile.so.0":
        data = (build / name).read_bytes()
        assert str(ROOT).encode() not in data and str(build).encode() not in data, name
    pack_into(tmp_path, build)
    python_packages(packages), python_packages(tmp_path)
    made = [package for package in packages.glob("heapgauge*") if package.suffix in (".deb", ".gz", ".whl")]
    assert len(made) == 4
    for package in made:
        assert package.read_bytes() == (tmp_path / package.name).read_bytes(), package.name


@pytest.mark.skipif(not LONG, reason="builds twice: HEAPGAUGE_LONG=1")
def test_two_builds_are_equal(tmp_path):
    made = []
    for name in "one", "another":
        folder = tmp_path / name / ("deeper" if name == "another" else "")
        subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
        subprocess.run(["cmake", "--preset", "release", "-DBUILD_TESTING=OFF"], cwd=folder, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", "--preset", "release"], cwd=folder, check=True, capture_output=True)
        pack_into(tmp_path / f"{name}-packages", folder / "build/release")
        made.append({path.name: path.read_bytes() for path in (tmp_path / f"{name}-packages").glob("heapgauge*.*")})
    assert len(made[0]) == 2 and made[0] == made[1]


def test_pkg_config_and_cmake_find_it(build, scratch, clean_env):
    prefix = scratch / "prefix"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    env = clean_env | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    said = subprocess.run(["pkg-config", "--modversion", "heapgauge"], env=env, capture_output=True, text=True, check=True)
    assert f"project(heapgauge VERSION {said.stdout.strip()} " in (ROOT / "CMakeLists.txt").read_text()
    argv = ["pkg-config", "--variable=recorder", "heapgauge"]
    recorder = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert pathlib.Path(recorder).exists(), recorder
    for variable, needed in ("includedir", "heapgauge/heapgauge.hpp"), ("rust", "src/lib.rs"), ("fortran", ""), ("python", "pyproject.toml"):
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


TAGGED = """
#include <heapgauge/heapgauge.h>
#include <string.h>
int main(void)
{
	HG_SCOPE("load");
	return strdup("kept") == 0;
}
"""


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-gcc is not here")
def test_the_apkbuild_packs_a_recorder_built_with_musl(scratch, clean_env, report_json):
    """As abuild calls it; the compiler is Debian's, with the kernel's headers of the host."""
    (scratch / "src").mkdir()
    (version,) = re.findall(r"^pkgver=(.*)", (ROOT / "cmake/package/APKBUILD").read_text(), re.M)
    (scratch / "src" / f"heapgauge-{version}").symlink_to(ROOT)
    env = clean_env | {"CC": "musl-gcc", "CFLAGS": "-Os -Werror -idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu"}
    env |= {"srcdir": str(scratch / "src"), "pkgdir": str(scratch / "pkg")}
    argv = ["sh", "-euc", '. "$1"; build; package', "-", ROOT / "cmake/package/APKBUILD"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    needed = subprocess.run(["readelf", "-d", scratch / "pkg/usr/lib/heapgauge/libheapgauge.so"], capture_output=True, text=True).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so"]
    assert not (scratch / "pkg/usr/bin").exists() and not list((scratch / "pkg").rglob("*profile.pc"))

    def ask(*argv):
        env = clean_env | {"PKG_CONFIG_PATH": str(scratch / "pkg/usr/lib/pkgconfig")}
        return subprocess.run(["pkg-config", *argv, "heapgauge"], env=env, capture_output=True, text=True, check=True).stdout.split()

    (scratch / "tagged.c").write_text(TAGGED)
    for name, flags, more in (
        ("preloaded", [], {"LD_PRELOAD": ask("--variable=recorder")[0]}),
        ("linked", ask("--variable=linked_in"), {}),
    ):
        program = scratch / name
        subprocess.run(["musl-gcc", scratch / "tagged.c", "-o", program, *ask("--cflags"), *flags], check=True, timeout=WAIT_SECONDS)
        with folder_on_tmpfs() as folder:
            subprocess.run([program], env=clean_env | more | {"HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1"}, check=True)
            (live,) = folder.glob("*.live")
            (tag,) = [row for row in report_json(live, "tags")["tags"] if row["tag"] == "load"]
            assert (tag["self_calls"], tag["self_total_bytes"]) == (1, 5)
            assert report_json(live)["processes"][0]["allocator"] == "musl"


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
        assert done.returncode == 0 and nothing_lost_is_said(done.stderr), done.stderr
        done = subprocess.run(["chroot", root, "heapgauge", "report", "/run.hg"], capture_output=True, text=True)
        assert done.returncode == 0 and "peak" in done.stdout
    finally:
        subprocess.run(["umount", root / "proc"], check=True)
