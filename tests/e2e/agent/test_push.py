# SPDX-License-Identifier: Apache-2.0
"""Queue, sender and HTTP client of the agent, against a server that validates as Pyroscope does."""

import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import pytest

from compiled import WAIT_SECONDS, wait_for
from exports import output_of, tool
from profiles import TYPES, made_profile
from pyroscope import pyroscope_program, pyroscope_server  # noqa: F401 (fixtures)


@pytest.fixture
def push(build, tmp_path):
    """push(server, count=3) queues a profile and sends it; the counters at the end. Settings as of tests/made/push_items.c."""
    program = build / "made" / "push_items"
    if not program.exists():
        pytest.fail(f"{program} is not built")

    def begin(server, profile=None, bad=None, env=None, **settings):
        (tmp_path / "profile").write_bytes(profile or made_profile())
        settings = {"queue": tmp_path / "queue", "profile": tmp_path / "profile", "url": server.push_url, **settings}
        if bad:
            (tmp_path / "bad").write_bytes(bad)
            settings["bad"] = tmp_path / "bad"
        argv = [program, *(f"{name}={value}" for name, value in settings.items())]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | (env or {}))

    def run(server, **settings):
        with begin(server, **settings) as process:
            out, err = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 0 and not err, err
        return json.loads(out)

    run.begin = begin
    return run


def ids(profiles):
    return [profile["id"] for profile in profiles]


def serials(profiles):
    return [int(profile["labels"]["serial"]) for profile in profiles]


# ---- the server refuses what Pyroscope would ----


@pytest.mark.parametrize(
    "wrong, why",
    [
        ({"period": ("space", "count")}, "period_type"),
        ({"period": None}, "period_type"),
        ({"age_s": 3700}, "outside of the ingestion window"),
        ({"age_s": -700}, "outside of the ingestion window"),
        ({"samples": 16001}, "16001 samples"),
        ({"labels": 101}, "too many labels"),
        ({"padding": 4 << 20}, "bytes uncompressed"),
        ({"function": b"\xff"}, "not UTF-8"),
        ({"first_id": 2}, "function id 2"),
        ({"first_id": 0}, "0"),
        ({"values": (1, 2, 3)}, "mismatch"),
        ({"types": (("alloc-space", "bytes"), *TYPES[1:])}, "alloc-space"),
    ],
    ids=str,
)
def test_a_profile_that_breaks_a_limit_is_dropped_with_the_reason(pyroscope_server, push, wrong, why):
    server = pyroscope_server()
    result = push(server, count=3, bad=made_profile(**wrong))
    assert why in server.refused()[0]["refused"]
    assert len(server.accepted()) == 2 and len(server.refused()) == 1
    assert result["dropped_refused"] == 1 and result["refused"] == 1 and result["queued"] == 0
    assert result["error"].startswith("status 400: ") and why in result["error"]


def test_bytes_that_are_no_profile_are_dropped(pyroscope_server, push):
    result = push(pyroscope_server(), count=2, bad=b"no profile")
    assert (result["sent"], result["dropped_refused"]) == (1, 1)


# ---- delivery ----


def test_what_heapgauge_exports_is_accepted_with_its_numbers(pyroscope_server, push, heapgauge, target, tmp_path):
    recording, exported = tmp_path / "run.hg", tmp_path / "run.pb.gz"
    output_of(heapgauge, "record", "-o", recording, target("t_sizes"))
    output_of(heapgauge, "export", "--format", "pprof", "-o", exported, recording)
    server = pyroscope_server()
    assert push(server, profile=exported.read_bytes(), count=1)["sent"] == 1
    (profile,) = server.accepted()
    pprof = tool("pprof", "go install github.com/google/pprof@latest")
    for name, unit in TYPES:
        text = output_of(pprof, "-top", f"-sample_index={name}", "-unit=B", "-nodefraction=0", exported)
        total = next(line for line in text.splitlines() if "accounting for" in line).split()[-2]
        assert profile["totals"][name] == int(total.removesuffix("B")), (name, unit)


def test_items_arrive_once_in_order_with_their_labels(pyroscope_server, push):
    server = pyroscope_server()
    result = push(server, count=20)
    accepted = server.accepted()
    assert len(set(ids(accepted))) == 20 and not server.refused()
    assert serials(accepted) == list(range(1, 21))
    assert accepted[0]["labels"] == {"__name__": "memory", "__delta__": "false", "service_name": "pushed", "serial": "1"}
    assert all(profile["totals"] == {"alloc_objects": 1, "alloc_space": 100, "inuse_objects": 1, "inuse_space": 100} for profile in accepted)
    assert result["sent"] == 20 and result["ok"] == 20 and result["has_success"] and result["error"] == ""
    assert not list((server.folder.parent / "queue").iterdir())


def test_a_batch_is_one_request(pyroscope_server, push):
    server = pyroscope_server()
    assert push(server, count=20, batch=1000000)["ok"] == 1
    assert len(server.accepted()) == 20 and server.received() == 1


def test_a_batch_with_a_bad_item_is_sent_item_by_item(pyroscope_server, push):
    server = pyroscope_server()
    result = push(server, count=4, batch=1000000, bad=made_profile(period=None))
    assert (result["sent"], result["dropped_refused"], result["queued"]) == (3, 1, 0)
    assert len(set(ids(server.accepted()))) == 3
    # As Pyroscope, it had stored what was good of the batch, and can tell by the id.
    assert [profile["duplicate"] for profile in server.accepted()] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("how", [{"status": 429, "retry_after": "1"}, {"status": 500}, {"status": 503, "retry_after": "1"}, {"close": True}], ids=str)
def test_what_fails_for_now_is_sent_later(pyroscope_server, push, how):
    server = pyroscope_server()
    server.fault(requests=1, **how)
    began = time.monotonic()
    result = push(server, count=3)
    assert time.monotonic() - began >= 1
    assert result["sent"] == 3 and result["queued"] == 0 and result["ok"] == 3
    assert sum(result[name] for name in ("limited", "unavailable", "network")) == 1
    assert len(set(ids(server.accepted()))) == 3 and not any(profile["duplicate"] for profile in server.accepted())


def test_the_store_says_when_to_return(pyroscope_server, push):
    server = pyroscope_server()
    server.fault(requests=1, status=429, retry_after="4")
    began = time.monotonic()
    assert push(server, count=1)["sent"] == 1
    assert time.monotonic() - began >= 4


def test_an_answer_that_does_not_come_is_given_up(pyroscope_server, push):
    server = pyroscope_server()
    server.fault(requests=1, delay_ms=600000)
    result = push(server, count=1, timeout=500)
    assert result["network"] == 1 and result["sent"] == 1


@pytest.mark.parametrize("status", [302, 404])
def test_a_wrong_address_loses_nothing(pyroscope_server, push, status):
    server = pyroscope_server()
    server.fault(status=status)
    result = push(server, count=2, attempts=1)
    assert result["unexpected"] >= 1 and result["queued"] == 2 and result["error"] == f"status {status}"
    assert server.received() == result["unexpected"], "no redirect is followed"


def test_an_outage_is_waited_out(pyroscope_server, push):
    server = pyroscope_server()
    server.stop()
    with push.begin(server, count=5) as process:
        time.sleep(1.5)
        again = pyroscope_server(listen=server.address)
        out, err = process.communicate(timeout=WAIT_SECONDS)
    result = json.loads(out)
    assert result["network"] >= 1 and result["sent"] == 5 and not err
    assert len(set(ids(again.accepted()))) == 5


def test_an_item_over_the_rate_limit_does_not_stop_the_others(pyroscope_server, push):
    server = pyroscope_server()
    result = push(server, count=4, seconds=5, bad=made_profile(padding=3 << 20))
    assert len(set(ids(server.accepted()))) == 3 and result["sent"] == 3
    assert result["queued"] == 1 and result["limited"] >= 1 and "rate limit" in result["error"]


# ---- who is let in ----


def test_a_rotated_token_is_read_again(pyroscope_server, push, tmp_path):
    server, token = pyroscope_server(token="right-secret"), tmp_path / "token"
    token.write_text("wrong-secret\n")
    with push.begin(server, count=2, token=token) as process:
        wait_for(lambda: server.received() >= 1, "a request")
        token.write_text("right-secret\n")
        out, err = process.communicate(timeout=WAIT_SECONDS)
    result = json.loads(out)
    assert result["unauthorized"] >= 1 and result["sent"] == 2 and result["dropped_refused"] == 0
    assert "secret" not in out + err


@pytest.mark.parametrize("content, why", [("", "is empty"), ("a\nX-Injected: b", "control characters"), (None, "No such file")])
def test_a_token_that_cannot_be_used_is_reported(pyroscope_server, push, tmp_path, content, why):
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    server = pyroscope_server()
    result = push(server, count=1, token=token, attempts=1)
    assert result["local"] >= 1 and result["queued"] == 1 and why in result["error"] and "Injected" not in result["error"]
    assert server.received() == 0


def test_an_answer_that_repeats_the_token_is_not_shown(pyroscope_server, push, tmp_path):
    (tmp_path / "token").write_text("the-secret")
    server = pyroscope_server()
    server.fault(status=403, body="you sent Bearer the-secret")
    assert push(server, count=1, token=tmp_path / "token", attempts=1)["error"] == "status 403"


def test_tenant_user_and_password_are_sent(pyroscope_server, push, tmp_path):
    (tmp_path / "password").write_text("p:w\n")
    server = pyroscope_server(tenant="team-a", user="me", password="p:w")
    assert push(server, count=1, tenant="team-a", user="me", password=tmp_path / "password")["sent"] == 1
    assert server.accepted()[0]["tenant"] == "team-a"
    assert push(server, count=1, tenant="team-b", user="me", password=tmp_path / "password", attempts=1)["unauthorized"] >= 1


def test_only_a_server_with_the_right_certificate_gets_profiles(pyroscope_server, push):
    server = pyroscope_server(tls=True)
    result = push(server, count=1, attempts=1)
    assert result["tls"] >= 1 and result["queued"] == 1 and "certificate" in result["error"]
    assert push(server, ca=server.client_certificate, attempts=1)["tls"] >= 1, "another authority"
    assert push(server, ca=server.certificate)["sent"] == 1


def test_a_client_certificate_is_presented(pyroscope_server, push):
    server = pyroscope_server(tls=True, client_certificate=True)
    result = push(server, count=1, ca=server.certificate, attempts=1)
    assert result["queued"] == 1 and result["tls"] + result["network"] >= 1
    assert push(server, ca=server.certificate, certificate=server.client_certificate, key=server.client_key)["sent"] == 1


def test_the_environment_names_no_proxy(pyroscope_server, push):
    proxy = "http://127.0.0.1:1"
    assert push(pyroscope_server(), count=1, env={"http_proxy": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy})["sent"] == 1


def test_without_libcurl_it_says_what_to_install(pyroscope_server, push, tmp_path, build):
    (tmp_path / "libcurl.so.4").write_text("no library")
    with push.begin(pyroscope_server(), count=1, env={"LD_LIBRARY_PATH": str(tmp_path)}) as process:
        err = process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == 1 and "needs libcurl.so.4, which cannot be loaded" in err and "install libcurl4" in err
    assert "libcurl" not in output_of("readelf", "-d", build / "made" / "push_items")


# ---- ends ----


def test_it_stops_within_two_seconds_and_leaves_everything_queued(pyroscope_server, push):
    server = pyroscope_server()
    server.fault(delay_ms=600000)
    result = push(server, count=3, seconds=1)
    assert result["stop_ms"] < 2000 and result["queued"] == 3
    server.fault(status=500)  # stopped while waiting for the next attempt
    result = push(server, seconds=1)
    assert result["stop_ms"] < 2000 and result["queued"] == 3
    server.no_fault()
    assert push(server)["sent"] == 3 and len(set(ids(server.accepted()))) == 3


def test_a_kill_after_delivery_sends_again_with_the_same_id(pyroscope_server, push):
    server = pyroscope_server()
    server.fault(requests=1, stored=True, close=True)
    with push.begin(server, count=1) as process:
        wait_for(server.accepted, "the profile")
        process.send_signal(signal.SIGKILL)
    assert push(server)["sent"] == 1
    first, second = server.accepted()
    assert first["id"] == second["id"] and second["duplicate"]


def test_killed_at_random_moments_no_item_is_lost(pyroscope_server, push, tmp_path):
    server, queued = pyroscope_server(rate=0), set()

    def in_queue():
        # SEQUENCE-KEY-SERIAL-TIME.item, or the same without the first while it is pending.
        return {int(path.name.split("-")[-2], 16) for path in (tmp_path / "queue").glob("*.[ip]*")}

    server.fault(delay_ms=50)  # a fast machine would have sent everything before it is killed
    for i in range(12):
        with push.begin(server, count=20, first=1 + 20 * i) as process:
            if i % 2:
                wait_for(in_queue, "something is queued")
            threading.Event().wait(random.uniform(0, 0.05 if i % 2 else 0.4))
            process.kill()
        queued |= in_queue()
    server.no_fault()
    assert push(server)["queued"] == 0
    delivered = serials(server.accepted())
    assert queued and queued <= set(delivered) and not server.refused()
    for i in range(12):
        of_run = sorted(serial for serial in set(delivered) if 20 * i < serial <= 20 * (i + 1))
        assert of_run == list(range(1 + 20 * i, 1 + 20 * i + len(of_run))), "none between others is missing"
    # Only what was just being sent is sent again, with the same id.
    assert len(delivered) - len(set(delivered)) == sum(profile["duplicate"] for profile in server.accepted()) <= 12
    assert len(set(ids(server.accepted()))) == len(set(delivered))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_drops_what_does_not_fit(pyroscope_server, push, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", small], capture_output=True).returncode != 0:
        pytest.skip("mount is not permitted here")
    try:
        server = pyroscope_server()
        profile = made_profile(comment=os.urandom(30000).hex())
        result = push(server, count=20, profile=profile, queue=small / "queue")
        assert result["dropped_write"] >= 10 and result["sent"] == 20 - result["dropped_write"] > 3
        assert len(set(ids(server.accepted()))) == result["sent"] and not server.refused()
        assert not list(pathlib.Path(small / "queue").iterdir())
    finally:
        subprocess.run(["umount", small], check=True)
