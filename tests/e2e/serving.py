# SPDX-License-Identifier: Apache-2.0
"""`heapgauge view` as a test sees it: a server that was started, asked over real sockets, and ended by Ctrl-C."""

import errno
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import urllib.parse

SECONDS = 60


def page_env(folder):
    """Nothing of the tester's settings, and a cache of its own."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}
    return own | {"XDG_CACHE_HOME": str(folder / "cache")}


def commander(heapgauge, env, folder):
    """run("report", ...): what it printed; it must succeed."""

    def run(*arguments):
        done = subprocess.run([heapgauge, *map(str, arguments)], env=env, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def digits(cell):
    """"12,411,096 B" of a tooltip, with its sign."""
    title = cell["title"] if isinstance(cell, dict) else cell
    return int(re.match(r"[−\d,]+", title).group().replace(",", "").replace("−", "-"))


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Server:
    """A running `heapgauge view`. get() has the cookie, ask() only what it is given."""

    def __init__(self, heapgauge, *arguments, env, cwd, socket_path=None):
        self.socket_path = socket_path
        self.process = subprocess.Popen(
            [heapgauge, "view", *map(str, arguments)],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        self.url = os.read(self.process.stdout.fileno(), 4096).decode().strip() if ready else ""
        if not self.url:
            self.process.kill()
            raise AssertionError(f"no URL: {self.process.communicate()[1].decode()}")
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port
        self.token = urllib.parse.parse_qs(parts.query)["token"][0]
        self.cookie = None

    def connection(self):
        if self.socket_path:
            return UnixConnection(self.socket_path)
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)

    def ask(self, target, headers=None, method="GET"):
        connection = self.connection()
        try:
            connection.request(method, target, headers=headers or {})
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def enter(self):
        answer = self.ask(f"/?token={self.token}")
        assert answer.status == 303, answer.body
        self.cookie = answer.headers["Set-Cookie"].split(";")[0]
        return answer

    def get(self, target, headers=None, method="GET"):
        if not self.cookie:
            self.enter()
        return self.ask(target, {"Cookie": self.cookie} | (headers or {}), method)

    def result(self, *pairs, **named):
        query = urllib.parse.urlencode([*pairs, *named.items()])
        return self.get(f"/api/result?{query}")

    def raw(self, data, seconds=5):
        """Sends bytes as they are; what came back until the server closed or had nothing more to say."""
        got = b""
        with socket.create_connection((self.host, self.port), timeout=seconds) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while more := s.recv(65536):
                    got += more
            except (ConnectionError, TimeoutError):
                pass
            except OSError as error:  # it was closed by the server before we had said that we are through
                if error.errno != errno.ENOTCONN:
                    raise
        return got

    def end(self, number=signal.SIGINT):
        """(exit status, what it said on stderr)"""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, said = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said.decode()
