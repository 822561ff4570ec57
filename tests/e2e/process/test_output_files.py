# SPDX-License-Identifier: Apache-2.0
"""Where commands write: regular files, their own inputs, symbolic links, pipes, devices and mount points."""

import fcntl
import os
import pathlib
import signal
import stat
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, open_files, wait_for
from inotify import watched

ANOTHER_USER = 65534
SIGTIMEDWAIT = {"128", "137"}  # on x86-64 and aarch64

MANY = "#include <stdlib.h>\nint main(void) {\n" + "".join(f"static char *volatile kept{i}; kept{i} = malloc({i + 1});\n" for i in range(400)) + "}\n"

# The words that write to OUT and read run.hg; in a directory with other.hg and budgets.ini.
WRITERS = {
    "report": ["report", "run.hg", "--view", "sites", "--suppressions", "known.txt", "-o", "OUT"],
    "page": ["report", "run.hg", "--format", "html", "-o", "OUT"],
    "export": ["export", "run.hg", "--format", "folded", "--suppressions", "known.txt", "-o", "OUT"],
    "merge": ["merge", "run.hg", "other.hg", "-o", "OUT"],
    "bundle": ["bundle", "run.hg", "-o", "OUT"],
    "check": ["check", "run.hg", "--baseline", "other.hg", "--budgets", "budgets.ini", "--suppressions", "known.txt", "--junit", "OUT"],
    "record": ["record", "-q", "-o", "OUT", "--", "./many"],
}
STARTS = {"report": b"run.hg", "page": b"<!", "export": b"", "merge": b"HGREC", "bundle": b"HGREC", "check": b"<?xml", "record": b"HGREC"}
EVERY = pytest.mark.parametrize("writer", WRITERS)
NOT_RECORD = pytest.mark.parametrize("writer", [name for name in WRITERS if name != "record"])


@pytest.fixture(scope="module")
def inputs(heapgauge, tmp_path_factory):
    """A directory with the files that the writers read."""
    folder = tmp_path_factory.mktemp("inputs")
    compile_c(folder, "many", MANY)
    for name in "run.hg", "other.hg":
        subprocess.run([heapgauge, "record", "-q", "-o", name, "--", "./many"], cwd=folder, check=True, timeout=WAIT_SECONDS)
    (folder / "budgets.ini").write_text("max-peak = 1GiB\n")
    (folder / "known.txt").write_text("leak:no_such_function\n")
    return folder


@pytest.fixture
def here(inputs, scratch):
    """The same files in the directory of this test."""
    for path in inputs.iterdir():
        subprocess.run(["cp", "-p", path, scratch], check=True)
    (scratch / "out").mkdir()
    return scratch


@pytest.fixture
def argv(heapgauge):
    """argv(writer, out): the command that writes there."""
    return lambda writer, out: [str(heapgauge), *(str(out) if word == "OUT" else word for word in WRITERS[writer])]


@pytest.fixture
def run(argv, here, clean_env):
    def run(writer, out, **options):
        return subprocess.run(argv(writer, out), env=clean_env, cwd=here, capture_output=True, timeout=WAIT_SECONDS, **options)

    return run


@pytest.fixture
def in_namespace(argv, here, clean_env):
    """in_namespace(writer, out, script): runs the script and the command in a new mount namespace; skips without the privilege."""
    probe = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", here / "out"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no privilege to mount: {probe.stderr}")

    def run(writer, out, script, after="", prefix=()):
        script = f'set -e; {script}; set +e; "$@"; status=$?; {after}; exit $status'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", *prefix, *argv(writer, out)]
        return subprocess.run(words, env=clean_env, cwd=here, capture_output=True, timeout=WAIT_SECONDS)

    return run


def as_root():
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")


def is_written(writer, path):
    data = path.read_bytes()
    assert len(data) > 200 and STARTS[writer] in data[:100], (writer, data[:100])
    return True


# ---- inputs ----


@NOT_RECORD
@pytest.mark.parametrize("how", ["name", "link", "hard link"])
def test_no_command_replaces_its_own_input(writer, how, run, here):
    before = {path: path.read_bytes() for path in here.glob("*.*")}
    for path in [here / word for word in WRITERS[writer] if (here / word).is_file()]:
        out = here / "out" / path.name
        {"name": lambda: None, "link": lambda: out.symlink_to(path), "hard link": lambda: out.hardlink_to(path)}[how]()
        done = run(writer, path.name if how == "name" else out)
        assert done.returncode != 0 and b"this command reads that file; name another one" in done.stderr
        assert {path: path.read_bytes() for path in here.glob("*.*")} == before


def test_record_does_not_replace_the_program(run, here):
    before = (here / "many").read_bytes()
    done = run("record", "many")
    assert done.returncode == 125 and b"cannot write many: this command reads that file" in done.stderr
    assert (here / "many").read_bytes() == before


def test_image_does_not_replace_the_core_file(heapgauge, here):
    (here / "core.1").write_text("a core file")
    done = subprocess.run([heapgauge, "image", "core.1", "-o", "core.1"], cwd=here, capture_output=True, timeout=WAIT_SECONDS)
    assert done.returncode != 0 and b"cannot write core.1: this command reads that file" in done.stderr
    assert (here / "core.1").read_text() == "a core file"


def test_bundle_without_a_name_replaces_the_recording(heapgauge, here, report_json):
    (here / "run.hg").chmod(0o640)
    subprocess.run([heapgauge, "bundle", "run.hg"], cwd=here, check=True, capture_output=True, timeout=WAIT_SECONDS)
    assert report_json(here / "run.hg")["processes"] and stat.S_IMODE((here / "run.hg").stat().st_mode) == 0o640


# ---- regular files and links ----


@EVERY
def test_a_replaced_file_keeps_its_mode_and_owner(writer, run, here):
    out = here / "out" / "file"
    out.write_text("old")
    out.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(out, ANOTHER_USER, 4321)
    before = out.stat()
    with out.open() as reader:
        assert run(writer, out).returncode == 0 and is_written(writer, out)
        assert reader.read() == "old", "a reader of the old file keeps it"
    after = out.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listdir(here / "out") == ["file"]


@EVERY
def test_a_link_of_the_user_is_followed(writer, run, here):
    (here / "target").mkdir()
    (here / "target" / "file").write_text("old")
    for name in "file", "new":
        (here / "out" / name).symlink_to(f"../target/{name}")
        (here / "out" / f"{name}2").symlink_to(name)
        assert run(writer, here / "out" / f"{name}2").returncode == 0 and is_written(writer, here / "target" / name)
    assert all(path.is_symlink() for path in (here / "out").iterdir())
    assert sorted(os.listdir(here / "target")) == ["file", "new"]


@EVERY
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o755])
def test_a_link_of_another_user_is_not_followed(writer, mode, run, here):
    """The kernel follows it in some of these directories, or in all if fs.protected_symlinks is 0."""
    as_root()
    (here / "secret").write_text("mine")
    (here / "out").chmod(mode)
    (here / "out" / "link").symlink_to("../secret")
    os.lchown(here / "out" / "link", ANOTHER_USER, ANOTHER_USER)
    done = run(writer, here / "out" / "link")
    assert done.returncode != 0 and b"link: it is a symbolic link of another user; name the file that it leads to" in done.stderr
    assert (here / "secret").read_text() == "mine" and os.listdir(here / "out") == ["link"]


@EVERY
def test_a_loop_of_links_a_directory_and_a_missing_one(writer, run, here):
    (here / "out" / "loop").symlink_to("loop")
    for name, message in ("out/loop", b"too many symbolic links"), ("out", b"it is a directory"), ("no/file", b"there is no directory no; create it first"):
        if (writer, name) == ("record", "out"):
            continue  # the default name in it
        done = run(writer, name)
        assert done.returncode != 0 and b"cannot write " in done.stderr and message in done.stderr
    assert os.listdir(here / "out") == ["loop"]


def test_a_planted_file_is_replaced_by_one_of_the_user(run, here):
    """Otherwise that user could read the output."""
    as_root()
    (here / "out").chmod(0o1777)
    (here / "out" / "file").write_text("planted")
    (here / "out" / "file").chmod(0o666)
    os.chown(here / "out" / "file", ANOTHER_USER, ANOTHER_USER)
    assert run("export", here / "out" / "file", umask=0o077).returncode == 0
    st = (here / "out" / "file").stat()
    assert (stat.S_IMODE(st.st_mode), st.st_uid) == (0o600, 0)


REMOTE = """
#include <pthread.h>
#include <stdlib.h>
static void *release(void *p) { free(p); return NULL; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, release, malloc(1000));
    pthread_join(thread, NULL);
}
"""


@pytest.mark.parametrize("name", ["file", "link", "new"])
def test_an_export_that_is_refused_leaves_what_was_there(name, heapgauge, here, report_json):
    (here / "out" / "file").write_text("old")
    (here / "out" / "link").symlink_to("file")
    program = compile_c(here, "remote", REMOTE, "-pthread")
    subprocess.run([heapgauge, "record", "-q", "-o", "remote.hg", "--", program], cwd=here, check=True, timeout=WAIT_SECONDS)
    thread = report_json(here / "remote.hg")["processes"][0]["pid"]
    argv = [heapgauge, "export", "remote.hg", "--format", "dhat", "--thread", str(thread), "-o", f"out/{name}"]
    done = subprocess.run(argv, cwd=here, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode != 0
    assert (here / "out" / "file").read_text() == "old" and sorted(os.listdir(here / "out")) == ["file", "link"]


# ---- mount points, devices and full disks, in a new mount namespace ----

BIND = "mount -t tmpfs -o mode=755 none out; mkdir out/dir; echo old > out/real; chmod 640 out/real; chown 12:34 out/real; echo > out/dir/file; mount --bind out/real out/dir/file"
SHOW = 'echo; stat -c "%a %u %g" out/real out/dir/file; ls -A out out/dir; cp out/real copied'


@EVERY
@pytest.mark.parametrize("read_only", [False, True])
def test_a_mounted_file_is_written_in_place(writer, read_only, in_namespace, here):
    """Rename is impossible, as in a container that mounts one file, also below a read-only directory."""
    script = BIND + ("; mount --bind out/dir out/dir; mount -o remount,bind,ro out/dir; mount --bind out/real out/dir/file" if read_only else "")
    done = in_namespace(writer, "out/dir/file", script, SHOW)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split()[-11:] == "640 12 34 640 12 34 out: dir real out/dir: file".split()
    assert is_written(writer, here / "copied")


@EVERY
def test_a_file_whose_owner_cannot_be_kept_is_written_in_place(writer, in_namespace, here):
    script = "mount -t tmpfs -o mode=755 none out; echo old > out/real; chown 12:34 out/real; chmod 666 out/real; stat -c %i out/real"
    prefix = ["setpriv", "--bounding-set", "-chown", "--"]
    done = in_namespace(writer, "out/real", script, 'stat -c "%i %a %u %g" out/real; ls -A out; cp out/real copied', prefix)
    assert done.returncode == 0, done.stderr
    before, *_, after, mode, user, group, name = done.stdout.decode().split()
    assert (before, mode, user, group, name) == (after, "666", "12", "34", "real")
    assert is_written(writer, here / "copied")


@EVERY
@pytest.mark.parametrize("mounted", [False, True])
def test_a_full_disk_leaves_the_old_file(writer, mounted, in_namespace, here):
    script = "mount -t tmpfs -o size=16k none out; echo old > out/file; echo old > out/other"
    script += "; mount --bind out/file out/other" if mounted else ""
    script += "; cat /dev/zero > out/zeros 2>/dev/null || true"
    done = in_namespace(writer, "out/other", script, "echo; cat out/other; ls -A out")
    assert b"No space left on device" in done.stderr
    assert done.returncode == 0 if writer == "record" else done.returncode != 0
    assert done.stdout.decode().split()[-4:] == ["old", "file", "other", "zeros"]


DEVICES = "mount -t tmpfs -o mode=755 none out; mknod out/null c 1 3; mknod out/full c 1 7; ln -s null out/link"


@EVERY
@pytest.mark.parametrize("device", ["null", "full", "link"])
def test_a_device_is_written_to_and_stays(writer, device, in_namespace):
    done = in_namespace(writer, f"out/{device}", DEVICES, 'echo; stat -c "%F %t %T" out/null out/full out/link; ls -A out')
    assert done.returncode == 0 if device != "full" or writer == "record" else done.returncode != 0
    assert (b"No space left on device" in done.stderr) == (device == "full")
    left = "character special file 1 3\ncharacter special file 1 7\nsymbolic link 0 0\nfull\nlink\nnull\n"
    assert done.stdout.decode().endswith("\n" + left)


# ---- stdout ----


OWN_DEV = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9; ln -s /proc/self/fd /dev/fd; ln -s fd/1 /dev/stdout"


@EVERY
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/link"])
def test_stdout_gets_the_output_where_it_is(writer, name, in_namespace, here):
    """The output is appended, and no name in /dev is replaced. The test mounts its own /dev."""
    script = f"{OWN_DEV}; ln -s stdout /dev/link; ls /dev > devices; echo before > all; exec >> all"
    done = in_namespace(writer, name, script, "ls /dev > devices2; readlink /dev/stdout /dev/link > links")
    assert done.returncode == 0, done.stderr
    data = (here / "all").read_bytes()
    assert data.startswith(b"before\n") and len(data) > 200 and STARTS[writer] in data
    assert (here / "devices2").read_text() == (here / "devices").read_text() and (here / "links").read_text() == "fd/1\nstdout\n"


def test_a_link_stays_if_the_reader_ends_early(argv, here, clean_env):
    (here / "out" / "link").symlink_to("/proc/self/fd/1")
    run = subprocess.Popen(argv("export", "out/link"), cwd=here, env=clean_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    run.stdout.close()
    run.stderr.close()
    assert run.wait(WAIT_SECONDS) != 0
    assert os.readlink(here / "out" / "link") == "/proc/self/fd/1"


# ---- pipes ----


@EVERY
def test_a_pipe_gets_the_output_and_stays(writer, argv, here, clean_env):
    os.mkfifo(here / "out" / "pipe")
    with watched(here / "out") as events:
        run = subprocess.Popen(argv(writer, "out/pipe"), cwd=here, env=clean_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        (here / "copied").write_bytes((here / "out" / "pipe").read_bytes())
        run.communicate(timeout=WAIT_SECONDS)
        assert set(events()) <= {"pipe"}, "a file appeared next to it"
    assert run.returncode == 0 and is_written(writer, here / "copied")
    assert (here / "out" / "pipe").is_fifo() and os.listdir(here / "out") == ["pipe"]


def waits_for_reader(pid):
    return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] in SIGTIMEDWAIT


@EVERY
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("has_reader", [False, True])
def test_a_signal_ends_the_wait_for_a_reader(writer, number, has_reader, argv, here, clean_env):
    """No reader comes, or it does not read. record then writes to another directory."""
    os.mkfifo(here / "out" / "pipe")
    (here / "elsewhere").mkdir()
    env = clean_env | {"TMPDIR": str(here / "elsewhere")}
    ends = [os.open(here / "out" / "pipe", flag | os.O_NONBLOCK) for flag in (os.O_RDONLY, os.O_WRONLY)] if has_reader else []
    if has_reader:
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
        os.write(ends[1], bytes(4096))
    run = subprocess.Popen(argv(writer, "out/pipe"), cwd=here, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if has_reader:
        wait_for(lambda: str(here / "out" / "pipe") in open_files(run.pid), "the full pipe to be opened")
    else:
        wait_for(lambda: waits_for_reader(run.pid), "the wait for a reader")
    run.send_signal(number)
    said = run.communicate(timeout=WAIT_SECONDS)[1]
    for end in ends:
        os.close(end)
    assert run.returncode == (0 if writer == "record" else -number)
    assert (here / "out" / "pipe").is_fifo() and os.listdir(here / "out") == ["pipe"]
    if writer == "record":
        assert f"interrupted{'' if has_reader else ' while waiting for a reader'}. The recording is {here}/elsewhere/pipe instead" in said
        assert is_written("record", here / "elsewhere" / "pipe")


@EVERY
def test_a_pipe_of_another_user_in_a_shared_directory_is_refused(writer, run, here):
    """fs.protected_fifos may be 0."""
    as_root()
    (here / "out").chmod(0o1777)
    os.mkfifo(here / "out" / "pipe", 0o666)
    os.chown(here / "out" / "pipe", ANOTHER_USER, ANOTHER_USER)
    done = run(writer, here / "out" / "pipe")
    assert done.returncode != 0 and b"it belongs to another user, in a directory that everyone can write; name another file" in done.stderr
    assert (here / "out" / "pipe").is_fifo()


def test_a_default_name_that_is_taken_by_a_pipe_gets_a_number(heapgauge, here, clean_env):
    os.mkfifo(here / "out" / "many.hg")
    subprocess.run([heapgauge, "record", "-q", "-o", "out/%e.hg", "--", "./many"], cwd=here, env=clean_env, check=True, timeout=WAIT_SECONDS)
    assert is_written("record", here / "out" / "many-2.hg") and (here / "out" / "many.hg").is_fifo()
