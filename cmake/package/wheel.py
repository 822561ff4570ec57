#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py ARCHIVE FOLDER: the archive that cpack makes (heapgauge-X.Y.Z-x86_64.tar.gz) as a wheel for `pip install heapgauge`, and its
Python part alone as a source distribution.

In the wheel bin/heapgauge becomes a script of the environment, the package of bindings/python a module of it, and all else lies below it as
in any prefix, where command and module look for it. No builder of wheels packs a tree that CMake installed; the format is a zip file with
a few files of its own. The platform tag names the oldest glibc that has all symbols which the files want."""

import base64
import gzip
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

METADATA = """Metadata-Version: 2.4
Name: heapgauge
Version: {version}
Summary: An exact heap profiler for Linux: every allocation with its full stack
License-Expression: Apache-2.0
License-File: LICENSE
License-File: NOTICE
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Framework :: Pytest
Classifier: Topic :: Software Development :: Debuggers
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: heapgauge\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
ENTRY_POINTS = "[pytest11]\nheapgauge = heapgauge.pytest_plugin\n"
PACKAGE = "share/heapgauge/python/"


def oldest_glibc(files):
    """(2, N): the newest symbol version that an ELF file among them wants."""
    versions = {(2, 0)}
    for file in files:
        if file.read_bytes()[:4] == b"\x7fELF":
            said = subprocess.run(["readelf", "--version-info", "--wide", file], capture_output=True, text=True, check=True).stdout
            versions |= {(int(major), int(minor)) for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", said)}
    return max(versions)


def place(name, base):
    """Where a file of the prefix lies in the wheel; None: nowhere."""
    if name.startswith(PACKAGE):
        return name[len(PACKAGE) + len("src/") :] if name.endswith(".py") else None
    return f"{base}.data/scripts/heapgauge" if name == "bin/heapgauge" else f"{base}.data/data/{name}"


def content_of(prefix, base):
    """(name, data, mode) of each file. A wheel has no links: a library has the one name that the loader looks for, and the name that
    the linker looks for is a file that leads there."""
    for path in sorted(prefix.rglob("*")):
        name = place(str(path.relative_to(prefix)), base)
        if path.is_symlink() and path.suffix == ".so":
            yield name, f"INPUT({path.readlink()})\n".encode(), 0o644
        elif path.is_file() and name and not re.search(r"\.so\.\d+\.\d+$", name):
            yield name, path.read_bytes(), path.stat().st_mode


def write_wheel(prefix, version, processor, when, folder):
    base = f"heapgauge-{version}"
    glibc = oldest_glibc(path for path in prefix.rglob("*") if path.is_file() and path.suffix != ".a")
    platform = f"manylinux_{glibc[0]}_{glibc[1]}_{processor}"
    documents = prefix / "share/doc/heapgauge"
    content = list(content_of(prefix, base))
    metadata = METADATA.format(version=version, readme=(documents / "README.md").read_text())
    own = [("METADATA", metadata), ("WHEEL", WHEEL.format(platform=platform)), ("entry_points.txt", ENTRY_POINTS)]
    own += [(f"licenses/{name}", (documents / name).read_text()) for name in ("LICENSE", "NOTICE")]
    content += [(f"{base}.dist-info/{name}", text.encode(), 0o644) for name, text in own]

    def digest(data):
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

    record = f"{base}.dist-info/RECORD"
    rows = [f"{name},sha256={digest(data)},{len(data)}" for name, data, _ in content] + [f"{record},,"]
    content.append((record, ("\n".join(rows) + "\n").encode(), 0o644))
    wheel = folder / f"{base}-py3-none-{platform}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data, mode in content:
            info = zipfile.ZipInfo(name, when)
            info.external_attr = (0o100755 if mode & 0o100 else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return wheel


def write_sdist(prefix, version, seconds, folder):
    """The sources of the package as pip builds them, with the licence."""
    base, package = f"heapgauge-{version}", prefix / PACKAGE
    files = {str(path.relative_to(package)): path.read_bytes() for path in sorted(package.rglob("*")) if path.is_file()}
    files["LICENSE"] = (prefix / "share/doc/heapgauge/LICENSE").read_bytes()
    files["PKG-INFO"] = METADATA.format(version=version, readme=files["README.md"].decode()).replace("License-File: NOTICE\n", "").encode()
    sdist = folder / f"{base}.tar.gz"
    with open(sdist, "wb") as raw, gzip.GzipFile("", "wb", mtime=seconds, fileobj=raw) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, data in sorted(files.items()):
                info = tarfile.TarInfo(f"{base}/{name}")
                info.size, info.mtime, info.mode = len(data), seconds, 0o644
                tar.addfile(info, io.BytesIO(data))
    return sdist


def main():
    archive, folder = map(pathlib.Path, sys.argv[1:])
    version, processor = re.fullmatch(r"heapgauge-(.+)-(x86_64|aarch64)\.tar\.gz", archive.name).groups()
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as tar:
        when = max(member.mtime for member in tar.getmembers())
        tar.extractall(scratch)
        (prefix,) = pathlib.Path(scratch).iterdir()
        print(write_wheel(prefix, version, processor, zip_time(when), folder))
        print(write_sdist(prefix, version, when, folder))


def zip_time(seconds):
    """UTC, and at least 1980: the format has no earlier."""
    return max(time.gmtime(seconds)[:6], (1980, 1, 1, 0, 0, 0))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
