# SPDX-License-Identifier: Apache-2.0
"""Debug information from a real debuginfod server on this machine: asked for only if wanted, and not for ever."""

import http.server
import os
import pty
import shutil
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from compiled import WAIT_SECONDS, wait_for
from reading import with_frames
from serving import Server
from test_names import build_scenes, check_golden, dwz_together, is_place, of_program, run


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class DebugServer:
    def __init__(self, folder):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.folder = folder
        port = self.url.rpartition(":")[2]
        # -t: look for new files each second; the database is a file because :memory: is not shared by its threads.
        self.process = subprocess.Popen(
            ["debuginfod", "-F", "-p", port, "-t", "1", "-d", folder / "db", folder / "files"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"DEBUGINFOD_URLS": ""},
        )

    def metrics(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=WAIT_SECONDS) as answer:
            return answer.read().decode()

    def has(self, build_id):
        try:
            with urllib.request.urlopen(f"{self.url}/buildid/{build_id}/debuginfo", timeout=WAIT_SECONDS) as answer:
                return answer.status == 200
        except OSError:
            return False

    def requests(self):
        """How many questions about files it was asked."""
        return sum(float(line.split()[-1]) for line in self.metrics().splitlines()
                   if line.startswith("http_responses_total") and "/metrics" not in line)


@pytest.fixture
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("debuginfod")
    (folder / "files").mkdir()
    server = DebugServer(folder)
    yield server
    server.process.kill()
    server.process.wait()


def build_id_of(program):
    return run("readelf", "-n", program).partition("Build ID: ")[2].split()[0]


@pytest.fixture
def served(server, scratch, record):
    """A stripped program whose debug file only the server has, and its recording."""
    program = build_scenes(scratch, "g++", "-O2")
    # At once: the server does not look again at a file that it found half written.
    run("objcopy", "--only-keep-debug", program, scratch / "scenes.debug")
    shutil.move(scratch / "scenes.debug", server.folder / "files" / "scenes.debug")
    run("strip", "--strip-all", program)
    wait_for(lambda: server.has(build_id_of(program)), "the server to find the debug file")
    done = record([program])
    assert done.returncode == 0, done.stderr
    return program, done.path


@pytest.fixture
def asking_env(server, clean_env, scratch):
    clean_env |= {"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": str(scratch / "fetched")}
    return clean_env


def test_servers_are_asked_if_wanted_and_only_then(server, served, asking_env, report_json):
    program, recording = served
    before = server.requests()
    frames = of_program(report_json(recording, "sites"), program)
    assert frames and all(is_place(f, program) for f in frames)
    assert server.requests() == before, "a server was asked without being told to"
    check_golden(report_json(recording, "sites", "--debuginfod", "--no-cache"))
    assert server.requests() == before + 1
    # It is in the cache of the library now.
    server.process.kill()
    check_golden(report_json(recording, "sites", "--debuginfod", "--no-cache"))


def test_servers_are_asked_for_every_recording_of_a_page(server, served, asking_env, heapgauge, scratch):
    """And for each style of names."""
    program, recording = served
    server_env = asking_env | {"XDG_CACHE_HOME": str(scratch / "cache")}
    page = Server(heapgauge, recording, shutil.copy(recording, scratch / "second.hg"), "--debuginfod", "--no-cache", "--no-open", env=server_env, cwd=scratch)
    try:
        for question in ({"file": 0}, {"file": 1}, {"file": 1, "names": "full"}):
            frames = of_program(with_frames(page.result(view="sites", **question).json()), program)
            assert frames and not any(is_place(frame, program) for frame in frames), question
    finally:
        page.end()
    assert server.requests() > 0


def test_a_program_that_is_gone_is_named_by_the_server(served, asking_env, report_json):
    program, recording = served
    program.unlink()
    check_golden(report_json(recording, "sites", "--debuginfod"))
    # The library keeps the file; its names are not kept as if they had been read from the program. (H9)
    shutil.rmtree(asking_env["DEBUGINFOD_CACHE_PATH"])
    asking_env["DEBUGINFOD_URLS"] = ""
    frames = of_program(report_json(recording, "sites"), program)
    assert frames and all(is_place(f, program) for f in frames)


def test_the_common_file_of_dwz_comes_from_the_server_too(server, scratch, record, asking_env, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    dwz_together(scratch, program)
    done = record([program])
    common = scratch / "common.debug"
    shutil.move(common, server.folder / "files" / "common.debug")
    wait_for(lambda: server.has(build_id_of(server.folder / "files" / "common.debug")), "the server to find dwz's file")
    check_golden(report_json(done.path, "sites", "--debuginfod"))


def test_a_server_that_does_not_answer_costs_the_deadline_and_no_more(heapgauge, served, asking_env):
    program, recording = served
    silent = socket.create_server(("127.0.0.1", 0))
    held = []  # not closed: the client waits
    threading.Thread(target=lambda: held.append(silent.accept()), daemon=True).start()
    asking_env["DEBUGINFOD_URLS"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
    began = time.monotonic()
    text = run(heapgauge, "report", recording, "-v", "sites", "--debuginfod", "--debuginfod-deadline", "2", "--no-cache",
               env=asking_env)
    assert 2 <= time.monotonic() - began < 15
    assert "deadline for debuginfod servers has passed" in " ".join(text.split())
    assert f"{program.name}+0x" in text


@pytest.mark.parametrize("urls, words", [("", "DEBUGINFOD_URLS names none"),
                                         ("http://127.0.0.1:9", "questions to debuginfod servers failed")])
def test_servers_that_cannot_be_asked_are_told(urls, words, heapgauge, served, asking_env):
    _, recording = served
    text = run(heapgauge, "report", recording, "-v", "sites", "--debuginfod", "--no-cache",
               env=asking_env | {"DEBUGINFOD_URLS": urls})
    assert words in " ".join(text.split())


def test_a_person_sees_that_something_is_fetched(heapgauge, server, served, asking_env):
    """A server that takes its time, and a terminal to say so on."""
    _, recording = served
    debug = (server.folder / "files" / "scenes.debug").read_bytes()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(debug)))
            self.end_headers()
            for at in range(0, len(debug), len(debug) // 8):
                self.wfile.write(debug[at : at + len(debug) // 8])
                time.sleep(0.25)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as slow:
        threading.Thread(target=slow.serve_forever, daemon=True).start()
        asking_env["DEBUGINFOD_URLS"] = f"http://127.0.0.1:{slow.server_address[1]}"
        ours, terminal = pty.openpty()
        done = subprocess.run([heapgauge, "report", recording, "-v", "sites", "--debuginfod", "--no-cache"], env=asking_env,
                              stdout=subprocess.PIPE, stderr=terminal, timeout=WAIT_SECONDS)
        os.close(terminal)
        said = os.read(ours, 65536).decode()
        os.close(ours)
        slow.shutdown()
    assert done.returncode == 0
    assert b"scenes.cc" in done.stdout
    assert "fetching debug information: " in said and "KiB" in said
