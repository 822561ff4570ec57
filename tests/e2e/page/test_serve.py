# SPDX-License-Identifier: Apache-2.0
"""heapgauge view: who may ask, what is answered, and that nothing sent at it does any harm."""

import base64
import concurrent.futures
import gzip
import http.client
import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import time
import urllib.parse
import zlib

import pytest

from http_garbage import CORPUS, mutated
from serving import SECONDS, Server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def env(folder):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_", "SSH_"))}
    return {k: v for k, v in own.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")} | {
        "XDG_CACHE_HOME": str(folder / "cache")
    }


@pytest.fixture(scope="module")
def command(heapgauge, env, folder):
    """command("report", ...): status, stdout and stderr."""

    def run(*arguments, **more):
        return subprocess.run([heapgauge, *map(str, arguments)], env=env | more, cwd=folder, capture_output=True, timeout=SECONDS)

    return run


@pytest.fixture(scope="module")
def recordings(command, target, folder):
    """Two runs, so that they can be compared."""
    for name, program in ("old.hg", "t_growth"), ("run.hg", "exported"):
        command("record", "-q", "-o", name, "--", target(program))
        assert (folder / name).exists()
    return folder


@pytest.fixture(scope="module")
def server(heapgauge, env, recordings):
    """One for all tests that only ask."""
    server = Server(heapgauge, "run.hg", "--against", "old.hg", "--no-open", env=env, cwd=recordings)
    yield server
    status, said = server.end()
    assert status == 0, said


@pytest.fixture
def start(heapgauge, env, recordings):
    """start(arguments..., NAME=value): one of a test's own, ended with it."""
    running = []

    def run(*arguments, socket_path=None, **more):
        running.append(Server(heapgauge, *arguments, env=env | more, cwd=recordings, socket_path=socket_path))
        return running[-1]

    yield run
    for one in running:
        one.end()


# ---- who may ask ----


def test_the_token_becomes_a_cookie_and_leaves_the_url(server):
    answer = server.ask(f"/?token={server.token}&view=flame&focus=a%26b%20%22%0d%0aX-Evil:1")
    assert answer.status == 303
    assert answer.headers["Location"] == "/?view=flame&focus=a%26b%20%22%0D%0AX-Evil%3A1"
    assert "X-Evil" not in answer.headers
    cookie, *flags = answer.headers["Set-Cookie"].split("; ")
    assert sorted(flags) == ["HttpOnly", "Path=/", "SameSite=Strict"]
    assert server.token not in cookie
    assert server.ask("/", {"Cookie": cookie}).status == 200
    assert server.ask("/", {"Cookie": f"other=1; {cookie}; more=2"}).status == 200


@pytest.mark.parametrize("path", ["/", "/api/about", "/api/result?view=summary", "/api/source?file=/etc/passwd", "/nothing"])
def test_strangers_are_told_nothing(server, path):
    name, value = server.cookie.split("=") if server.cookie else server.enter().headers["Set-Cookie"].split(";")[0].split("=")
    wrong = ["", f"{name}=", f"{name}={'0' * 32}", f"{name}={value[:-1]}", f"{name}={value}0", f"{name}={server.token}", f"x{name}={value}"]
    for cookie in wrong:
        answer = server.ask(path, {"Cookie": cookie} if cookie else {})
        assert answer.status == 403, (path, cookie)
        assert len(answer.body) < 300 and b"exported" not in answer.body
        assert "Set-Cookie" not in answer.headers


def test_a_wrong_token_lets_nobody_in(server):
    for token in ["", "0" * 32, server.token[:-1], server.token + "0", server.token.upper(), "%00" + server.token]:
        answer = server.ask(f"/?token={token}")
        assert answer.status in (400, 403), token
        assert "Set-Cookie" not in answer.headers
    assert server.ask(f"/api/about?token={server.token}").status == 403


OWN_HOSTS = ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9999", "[::1]", "[::1]:8080"]
OTHER_HOSTS = [
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost", "0.0.0.0", "10.0.0.1",
    "[::]", "[::1", "::1", "localhost:80:80", "localhost:8x", "localhost@evil.example", "evil.example#localhost", "localhost,evil.example",
    "127.1", "2130706433", "x" * 300, "",
]  # fmt: skip


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_its_own_names_are_known(server, host):
    assert server.get("/api/about", {"Host": host}).status == 200


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_a_foreign_name_is_refused_even_with_cookie_and_token(server, host):
    assert server.get("/api/about", {"Host": host}).status == 403
    answer = server.get(f"/?token={server.token}", {"Host": host})
    assert answer.status == 403 and "Set-Cookie" not in answer.headers


def test_a_request_without_a_host_is_refused(server):
    got = server.raw(f"GET /api/about HTTP/1.0\r\nCookie: {server.get('/') and server.cookie}\r\n\r\n".encode())
    assert got.split()[1] in (b"400", b"403")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost:{port}", "http://localhost:{port}", "http://127.0.0.1:1", "http://127.0.0.1:{port}.evil.example", ""])
def test_another_origin_is_refused(server, origin):
    headers = {"Origin": origin.format(port=server.port), "Host": f"127.0.0.1:{server.port}"}
    assert server.get("/api/about", headers).status == 403
    assert server.get("/", headers).status == 403


def test_its_own_origin_is_served_and_no_other_may_read(server):
    own = f"127.0.0.1:{server.port}"
    answer = server.get("/api/about", {"Origin": f"http://{own}", "Host": own, "Sec-Fetch-Site": "same-origin"})
    assert answer.status == 200
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_other_sites_may_link_to_the_page_but_ask_for_nothing(server):
    assert server.get("/api/about", {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert server.get("/api/result?view=summary", {"Sec-Fetch-Site": "same-site"}).status == 403
    assert server.get("/", {"Sec-Fetch-Site": "cross-site"}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"])
def test_there_is_get_and_nothing_else(server, method):
    answer = server.get("/api/about", method=method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"


def test_head_is_get_without_the_body(server):
    whole = server.get("/api/about")
    head = server.get("/api/about", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(whole.body))


PATHS = [
    "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/api/../../etc/passwd",
    "/api/about/../../etc/passwd", "/api/about/", "/api", "/api/", "/API/about", "/index.html", "/run.hg", "/./run.hg", "/%00/etc/passwd",
    "/api/about%00.html", "/\\..\\..\\etc\\passwd", "/favicon.ico", "file:///etc/passwd",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(server, path):
    answer = server.get(path)
    assert answer.status in (400, 403, 404), answer.body[:200]
    assert b"root:" not in answer.body and len(answer.body) < 1000
    assert "error" in answer.json()


def test_only_this_machine_can_reach_it(server):
    listening = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
    where = {words[1].split(":")[0] for words in listening if words[3] == "0A" and int(words[1].split(":")[1], 16) == server.port}
    assert where == {"0100007F"}
    listening = [line.split() for line in open("/proc/net/tcp6").read().splitlines()[1:]]
    assert not [words for words in listening if words[3] == "0A" and int(words[1].split(":")[1], 16) == server.port]


def test_a_host_that_others_can_reach_is_warned_of(start):
    """H12: the URL was printed as for any other."""
    status, said = start("run.hg", "--no-open", "--host", "0.0.0.0").end()
    assert status == 0 and re.search(r"warning: other machines can reach port \d+ \(--host 0\.0\.0\.0\)", said), said
    assert "warning" not in start("run.hg", "--no-open", "--host", "127.0.0.2").end()[1]


def test_connections_that_only_drip_keep_nobody_out(start):
    """H12: 256 of them were all that there may be, and each byte kept them alive."""
    view = start("run.hg", "--no-open")
    view.enter()
    held = http.client.HTTPConnection(view.host, view.port, timeout=SECONDS)  # a browser that was there before
    held.request("GET", "/api/about", headers={"Cookie": view.cookie})
    assert held.getresponse().read()
    drips = []
    try:
        for _ in range(400):
            one = socket.create_connection((view.host, view.port), timeout=SECONDS)
            one.sendall(b"GET / HT")
            drips.append(one)
        sent = 0
        for one in drips:
            try:
                one.sendall(b"T")
                sent += 1
            except ConnectionError:
                pass  # sent away
        assert sent > 0
        assert view.get("/api/about").status == 200
        held.request("GET", "/api/about", headers={"Cookie": view.cookie})
        assert held.getresponse().status == 200
    finally:
        for one in drips:
            one.close()
        held.close()


def test_a_host_that_was_asked_for_is_known_by_its_name(start):
    server = start("run.hg", "--no-open", "--host", "0.0.0.0")
    assert server.get("/api/about", {"Host": "192.0.2.7:80"}).status == 200
    assert server.get("/api/about", {"Host": "evil.example"}).status == 403


# ---- the page ----


def test_the_page_carries_its_data_and_runs_only_its_own_scripts(server, command):
    first, second = server.get("/"), server.get("/?view=flame")
    policy = first.headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-(\w{32})';", policy).group(1)
    assert f'nonce="{nonce}"'.encode() in first.body
    assert nonce.encode() not in second.body
    assert b"__HEAPGAUGE_NONCE__" not in first.body
    for word in "default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'":
        assert word in policy
    assert "unsafe" not in policy and "*" not in policy
    assert first.headers["Content-Type"] == "text/html; charset=utf-8"
    assert first.headers["X-Content-Type-Options"] == "nosniff"
    assert first.headers["Referrer-Policy"] == "no-referrer"
    assert first.headers["Cache-Control"] == "no-store"
    data = json.loads(re.search(rb'id="heapgauge-data">(.*?)</script>', first.body, re.S).group(1))
    assert data["about"] == server.get("/api/about").json()
    assert data["results"]["view=summary"] == json.loads(command("report", "run.hg", "--format", "json").stdout)


def test_about_has_the_words_of_the_help(server, command):
    about = server.get("/api/about").json()
    text = " ".join(command("report", "--help").stdout.decode().split())
    assert [f["path"] for f in about["files"]] == ["run.hg"]
    assert (about["compare"], about["before"], about["command"]) == (True, "old.hg", "heapgauge report run.hg")
    assert len(about["views"]) > 15 and len(about["costs"]) > 10 and len(about["axes"]) > 5
    for word in about["views"] + about["costs"] + about["axes"] + about["moments"]:
        assert word["name"] in text and word["help"] in text, word
    names = [option["name"] for option in about["options"]]
    assert {"cost", "focus", "names", "limit"} < set(names)
    assert not {"suppressions", "debug-folder", "debuginfod", "output", "pid", "format"} & set(names)


# ---- answers ----

QUESTIONS = [
    "cost=leaked", "cost=calls&limit=3", "view=tree&cost=total&threshold=0", "view=tree&callees=1&depth=3&cost=calls",
    "view=functions&by=module", "view=functions&by=line&cost=total", "view=functions&by=thread&cost=calls", "by=file", "by=size&cost=calls",
    "view=sites&focus=grows&focus=main", "view=sites&ignore=even", "view=sites&module=exported", "view=sites&not-module=libstdc",
    "view=sites&min-size=100&max-size=1KiB", "view=sites&kind=all", "view=flame&cost=calls&fold-recursion=1", "view=flame&callees=1",
    "view=flame&threshold=5", "view=flame&limit=7&cost=total", "view=flame&by=line&depth=4", "view=sites&at=peak&minus=end", "view=sites&names=short",
    "view=sites&names=raw", "view=sites&callees=0", "view=tree&fold-recursion=no", "view=flame&cost=rate",
]  # fmt: skip


def typed(query):
    """The query as options; a flag that is off is none."""
    words = []
    for name, value in urllib.parse.parse_qsl(query):
        if name in ("callees", "fold-recursion", "fold-libraries"):
            words += [f"--{name}={value}"]
        else:
            words += [f"--{name}", value]
    return words


#: Views of what this recording does not have.
LACKING = {"view=pages", "view=pins", "view=map"}


def same_as_typed(server, command, query):
    answer = server.get(f"/api/result?{query}")
    printed = command("report", "run.hg", "--format", "json", *typed(query))
    if query in LACKING:
        assert printed.returncode == 1 and answer.status == 400
        assert answer.json()["error"] in printed.stderr.decode()
        return
    assert printed.returncode == 0, printed.stderr
    assert answer.status == 200, answer.body
    assert answer.body == printed.stdout
    assert answer.headers["Content-Type"] == "application/json"


def test_every_answer_is_what_report_prints_whatever_was_asked_before(server, command):
    views = [f"view={view['name']}" for view in server.get("/api/about").json()["views"] if view["name"] not in ("pages", "pins", "map")]
    questions = views + QUESTIONS
    random.Random(8).shuffle(questions)
    for query in questions:
        same_as_typed(server, command, query)
    # Once more, from what was kept.
    for query in questions[:5]:
        same_as_typed(server, command, query)


def test_every_comparison_is_what_diff_prints(server, command):
    compared = 0
    for view in server.get("/api/about").json()["views"]:
        answer = server.result(view=view["name"], compare=1)
        printed = command("diff", "old.hg", "run.hg", "--format", "json", "--view", view["name"])
        if view["compares"]:
            compared += 1
            assert answer.body == printed.stdout, view
        else:
            assert answer.status == 400
            assert answer.json()["error"] == f"the view {view['name']} does not compare recordings"
    assert compared > 8


def test_the_older_recording_answers_alone_too(server, command):
    for view in ("timeline", "summary", "sites"):
        assert server.result(view=view, file="before").body == command("report", "old.hg", "--format", "json", "--view", view).stdout, view
    assert server.result(view="sites", file="after").status == 400


def test_a_packed_answer_is_the_same(server):
    plain = server.result(view="sites")
    packed = server.get("/api/result?view=sites", {"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 3


WRONG = [
    "viw=sites", "view=sits", "cost=peek", "cost=", "by=nothing", "at=time:xyz", "focus=(", "limit=many", "limit=-1", "threshold=200", "min-size=big",
    "names=long", "kind=stack", "callees=maybe", "depth=1.5", "view=sites&min-size=9&max-size=8", "view=tree&by=thread", "view=flame&by=site", "at=snap:99999&cost=live",
    "minus=end&cost=max", "view=sites&thread=99999999", "view=sites&process=nobody", "%3Cscript%3E=1", "=", "view",
]  # fmt: skip


@pytest.mark.parametrize("query", WRONG)
def test_what_cannot_be_understood_is_told_in_the_same_words(server, command, query):
    answer = server.get(f"/api/result?{query}")
    words = [f"--{name}={value}" for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)]
    said = command("report", "run.hg", "--format", "json", *words).stderr.decode().splitlines()[0]
    assert answer.status == 400
    assert answer.json() == {"schema": 1, "error": said.removeprefix("heapgauge: ")}


@pytest.mark.parametrize(
    "query",
    ["suppressions=/etc/passwd", "debug-folder=/", "debuginfod=1", "debuginfod-deadline=1", "no-cache=1", "no-symbols=1", "output=x", "o=x", "format=text",
     "pid=1", "bytes=1", "color=always", "no-pager=1", "no-config=1", "help=1", "-o=x", "per=2"],
)  # fmt: skip
def test_what_touches_the_machine_cannot_be_asked_for(server, query):
    answer = server.get(f"/api/result?view=summary&{query}")
    assert answer.status == 400 and answer.json()["error"].startswith("unknown option --")


def test_a_nul_byte_ends_no_word_early(server):
    for query in "view=summary%00x", "view%00=summary", "view=summary%00", "%00", "view=summary&limit=1%00":
        assert server.get(f"/api/result?{query}").status == 400, query


def test_settings_and_environment_decide_nothing_on_the_page(start, command):
    plain = command("report", "run.hg", "--format", "json", "--view", "sites").stdout
    assert start("run.hg", "--no-open", HEAPGAUGE_LIMIT="1").result(view="sites").body == plain


def test_several_recordings_are_chosen_by_number(start, command):
    server = start("run.hg", "old.hg", "--no-open")
    about = server.get("/api/about").json()
    assert [(f["index"], f["name"]) for f in about["files"]] == [(0, "run.hg"), (1, "old.hg")]
    assert about["compare"] is False
    for number, name in enumerate(["run.hg", "old.hg"]):
        assert server.result(view="sites", file=number).body == command("report", name, "--format", "json", "--view", "sites").stdout
    assert server.result(view="sites", file=2).status == 400
    assert "--against" in server.result(view="sites", compare=1).json()["error"]
    assert server.result(view="sites", file="before").status == 400


def test_options_of_names_hold_for_all_answers(start, command):
    server = start("run.hg", "--no-open", "--no-symbols")
    assert server.result(view="tree").body == command("report", "run.hg", "--format", "json", "--view", "tree", "--no-symbols").stdout


def test_suppressions_hold_for_all_answers(start, command, recordings):
    (recordings / "some.supp").write_text("leak:grows\n")
    printed = command("report", "run.hg", "--format", "json", "--view", "sites", "--suppressions", "some.supp").stdout
    assert json.loads(printed)["suppressed_sites"] > 0
    assert start("run.hg", "--no-open", "--suppressions", "some.supp").result(view="sites").body == printed


# ---- source ----


def test_source_is_of_files_that_frames_name_and_no_others(server, target):
    frames = server.result(view="sites").json()["frames"]
    path = next(f["file"] for f in frames if f["file"] and f["file"].endswith("exported.cc"))
    got = server.get(f"/api/source?file={urllib.parse.quote(path)}").json()
    assert (got["file"], got["from"]) == (path, "disk")
    assert "\n".join(got["lines"]) + "\n" == open(path).read()
    folder, name = os.path.split(path)
    for other in "/etc/passwd", "run.hg", path + "x", f"{folder}/./{name}", f"{folder}/../{os.path.basename(folder)}/{name}", "", "exported.cc":
        answer = server.get(f"/api/source?file={urllib.parse.quote(other)}")
        assert answer.status == 404 and b"root:" not in answer.body
    assert server.get("/api/source").status == 400
    assert server.get(f"/api/source?file={path}&file=/etc/passwd").status == 400


def test_source_comes_from_the_bundle_where_the_disk_has_none_or_has_changed(start, command, target, recordings):
    source = recordings / "moved.c"
    text = '#include <stdlib.h>\nint main(void)\n{\n\tfree(malloc(77)); /* here */\n\treturn 0;\n}\n'
    source.write_text(text)
    subprocess.run(["gcc", "-g", "-O0", source, "-o", recordings / "moved"], check=True)
    command("record", "-q", "-o", "moved.hg", "--", recordings / "moved")
    assert command("bundle", "--sources", "1", "moved.hg").returncode == 0

    def lines():
        return start("moved.hg", "--no-open").get(f"/api/source?file={source}").json()

    assert lines() == {"schema": 1, "file": str(source), "from": "disk", "lines": text.splitlines()}
    source.write_text(text.replace("here", "elsewhere"))
    assert lines()["lines"][:6] == [None, None, "{", "\tfree(malloc(77)); /* here */", "\treturn 0;"]
    source.unlink()
    assert lines()["from"] == "bundle"


# ---- starting and ending ----


def test_it_listens_on_a_socket_that_only_its_owner_may_use(start, recordings, command):
    path = recordings / "view.sock"
    server = start("run.hg", "--socket", path, socket_path=path)
    status = path.stat()
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
    assert server.result(view="sites").body == command("report", "run.hg", "--format", "json", "--view", "sites").stdout
    assert server.ask("/api/about").status == 403
    taken = command("view", "run.hg", "--socket", path)
    assert taken.returncode == 1 and b"already exists" in taken.stderr
    returncode, said = server.end()
    assert returncode == 0 and "ssh -L 8080:" in said
    assert not path.exists()


def test_a_socket_left_behind_is_replaced_and_a_file_is_not(start, recordings, command):
    path = recordings / "left.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    assert start("run.hg", "--socket", path, socket_path=path).get("/api/about").status == 200
    file = recordings / "precious"
    file.write_text("precious")
    assert command("view", "run.hg", "--socket", file).returncode == 1
    assert file.read_text() == "precious"
    assert b"longer than" in command("view", "run.hg", "--socket", "x" * 200).stderr


def test_a_port_in_use_is_told(start, command):
    server = start("run.hg", "--no-open")
    done = command("view", "run.hg", "--no-open", "--port", server.port)
    assert done.returncode == 1
    assert done.stderr.decode() == f"heapgauge: port {server.port} of 127.0.0.1 is in use; name another, or leave out --port for a free one\n"


def test_a_port_can_be_chosen(start):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert start("run.hg", "--no-open", "--port", port).port == port


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_quietly_even_with_visitors(start, number):
    server = start("run.hg", "--no-open")
    waiting = socket.create_connection((server.host, server.port))
    waiting.sendall(b"GET / HTTP/1.1\r\n")
    assert server.get("/api/about").status == 200
    began = time.monotonic()
    assert server.end(number) == (0, "heapgauge: press Ctrl-C to stop\n")
    assert time.monotonic() - began < 10
    waiting.close()


def test_what_cannot_be_read_is_told_before_anything_is_opened(command, recordings):
    (recordings / "bad.hg").write_text("no recording")
    done = command("view", "run.hg", "bad.hg", "--no-open")
    assert done.returncode == 1 and done.stdout == b"" and b"cannot read the recording (bad.hg" in done.stderr
    assert command("view", "run.hg", "--port", "70000").returncode == 2
    assert command("view", "run.hg", "--port", "80", "--socket", "x").returncode == 2
    assert b"cannot resolve the address" in command("view", "run.hg", "--no-open", "--host", "no.such.host.invalid").stderr


@pytest.fixture
def browser(recordings, tmp_path):
    """A browser that writes down what it is asked to open, and then stays."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "xdg-open"
    script.write_text(f'#!/bin/sh\necho "$$ $1" >{tmp_path}/opened.new\nmv {tmp_path}/opened.new {tmp_path}/opened\nexec sleep 300\n')
    script.chmod(0o755)
    yield {"PATH": f"{folder}:{os.environ['PATH']}", "DISPLAY": ":99"}, tmp_path / "opened"
    if (tmp_path / "opened").exists():
        os.kill(int((tmp_path / "opened").read_text().split()[0]), signal.SIGKILL)


def test_the_browser_is_opened_beside_it_with_a_token_good_for_once(start, browser):
    variables, opened = browser
    server = start("run.hg", **variables)
    for _ in range(100):
        if opened.exists():
            break
        time.sleep(0.1)
    pid, url = opened.read_text().split()
    assert url.startswith(f"http://127.0.0.1:{server.port}/?token=") and server.token not in url
    target = url.removeprefix(f"http://127.0.0.1:{server.port}")
    assert server.ask(target).status == 303
    assert server.ask(target).status == 403
    assert server.enter().status == 303
    # Ctrl-C ends the server and not the browser.
    assert server.end()[0] == 0
    os.kill(int(pid), 0)


def test_no_browser_is_opened_if_none_is_wanted_or_there_is_no_screen(start, browser):
    variables, opened = browser
    start("run.hg", "--no-open", **variables).get("/")
    start("run.hg", **(variables | {"DISPLAY": ""})).get("/")
    time.sleep(0.3)
    assert not opened.exists()


def test_a_missing_browser_is_no_failure(start, tmp_path):
    (tmp_path / "bin").mkdir()
    assert start("run.hg", PATH=str(tmp_path / "bin"), DISPLAY=":99").get("/").status == 200


# ---- many, and mad ----


def test_many_clients_at_once_get_the_same_answers(start, command):
    server = start("run.hg", "--no-open")
    server.enter()
    views = ["sites", "tree", "flame", "functions", "summary", "types", "sizes", "timeline", "threads", "health"]
    wanted = {view: command("report", "run.hg", "--format", "json", "--view", view).stdout for view in views}

    def client(number):
        order = random.Random(number).sample(views, len(views))
        return all(server.result(view=view).body == wanted[view] for view in order)

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert all(pool.map(client, range(20)))


def test_garbage_is_answered_with_a_refusal_or_not_at_all(start):
    server = start("run.hg", "--no-open")
    server.enter()
    for data in [*CORPUS, *mutated(8, 400)]:
        got = server.raw(data, seconds=2)
        # Nothing of the recording, whatever was sent; and it still lives.
        assert b"heapgauge-data" not in got and b"exported" not in got, data
        assert server.process.poll() is None, data
    assert server.get("/api/about").status == 200
    assert server.end() == (0, "heapgauge: press Ctrl-C to stop\n")


def test_garbage_with_the_right_cookie_does_no_harm_either(start):
    server = start("run.hg", "--no-open")
    server.enter()
    cookie = f"Cookie: {server.cookie}\r\n".encode()
    dice = random.Random(9)
    names = ["view", "cost", "at", "minus", "by", "focus", "ignore", "module", "thread", "process", "min-size", "kind", "depth", "threshold", "limit", "names", "file", "compare"]
    values = ["sites", "flame", "tree", "peak", "end", "snap:1", "time:0.1", "function", "0", "1", "-1", "99999999999999999999", "%", "(", "[[:", "\\", "a{99999}", ".*" * 50, "\xff\xfe", "", "all", "raw", "1e999", "nan"]
    for _ in range(400):
        pairs = [(dice.choice(names), dice.choice(values)) for _ in range(dice.randint(0, 6))]
        query = urllib.parse.urlencode(pairs, encoding="latin-1")
        path = dice.choice(["/", "/api/result", "/api/result", "/api/result", "/api/about", "/api/source", "/x"])
        got = server.raw(f"GET {path}?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode() + cookie + b"\r\n", seconds=20)
        assert got.split()[1] in (b"200", b"303", b"400", b"403", b"404"), (path, query, got[:200])
        assert server.process.poll() is None, query
    assert server.end()[0] == 0


# ---- the page as a file ----


def test_a_saved_page_has_the_answers_inside(command, recordings):
    done = command("report", "run.hg", "--format", "html", "-o", "page.html")
    assert (done.returncode, done.stdout) == (0, b"")
    page = (recordings / "page.html").read_bytes()
    assert page.count(b"</script>") == 2
    data = json.loads(re.search(rb'id="heapgauge-data">(.*?)</script>', page, re.S).group(1))
    assert data["saved"] is True and data["about"]["files"][0]["name"] == "run.hg"
    results = json.loads(zlib.decompress(base64.b64decode(data["results_zlib"])))
    views = {urllib.parse.parse_qs(query)["view"][0] for query in results}
    assert views >= {"summary", "sites", "flame", "timeline", "sizes", "lifetimes", "reallocs", "threads", "processes", "memory", "advice", "health", "growth"}
    sites = json.loads(zlib.decompress(base64.b64decode(data["sites_zlib"])))["sites"]
    listed = json.loads(command("report", "run.hg", "--format", "json", "--view", "sites", "--limit", "1").stdout)
    assert {len(column) for column in sites.values()} == {len(sites["node"])} and len(sites["node"]) >= listed["site_count"] > 0
    for query, result in results.items():
        view, *rest = urllib.parse.parse_qsl(query)
        assert view[0] == "view" and rest == sorted(rest), query
        assert result == json.loads(command("report", "run.hg", "--format", "json", *typed(query)).stdout), query


def test_a_saved_page_is_whole_or_nothing(command, recordings):
    for option in ["--cost", "peak"], ["--focus", "x"], ["--limit", "5"], ["--view", "tree"]:
        done = command("report", "run.hg", "--format", "html", "-o", "no.html", *option)
        assert done.returncode == 2 and b"omit --" in done.stderr
    assert not (recordings / "no.html").exists()
    assert b"--against" in command("diff", "old.hg", "run.hg", "--format", "html").stderr
    assert command("report", "run.hg", "--format", "html", HEAPGAUGE_LIMIT="1").stdout.startswith(b"<!doctype html>")


# ---- the library behind it ----


def test_no_other_command_loads_a_server(heapgauge):
    """It would bring a TLS library along, whose start costs more than all of `heapgauge --version`."""
    needed = subprocess.run(["ldd", heapgauge], capture_output=True, text=True, check=True).stdout
    assert "libc.so.6" in needed
    assert "microhttpd" not in needed and "gnutls" not in needed


def test_a_server_that_cannot_be_loaded(heapgauge, tmp_path, env, folder, recordings):
    (tmp_path / "libmicrohttpd.so.12").write_text("no library")
    done = subprocess.run(
        [heapgauge, "view", "run.hg", "--no-open"], cwd=folder, env=env | {"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True, timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1 and "needs libmicrohttpd.so.12, which cannot be loaded" in done.stderr, done.stderr
