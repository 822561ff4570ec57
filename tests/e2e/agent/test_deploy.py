# SPDX-License-Identifier: Apache-2.0
"""The files of deploy/ are what the agent, systemd, Kubernetes and Prometheus take; and the permissions in them are enough, and needed."""

import contextlib
import fractions
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml

from agents import ROOT, running_agent, write_settings
from alone import file_of, folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, wait_for
from exports import output_of, tool
from pyroscope import pyroscope_program, pyroscope_server  # noqa: F401 (fixtures)
from running import compile_keeper, keeping

SOURCES = pathlib.Path(__file__).resolve().parents[3]
DEPLOY = SOURCES / "deploy"
UNIT = DEPLOY / "heapgauge-agent.service"
INI = DEPLOY / "agent.ini"
RULES = DEPLOY / "prometheus/alerts.yml"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
MANIFESTS = {path.stem: list(yaml.safe_load_all(path.read_text())) for path in (DEPLOY / "kubernetes").glob("*.yaml")}
NOBODY = 65534
needs_root = pytest.mark.skipif(not ROOT, reason="needs root: processes of other users")


@pytest.fixture
def folder():
    with folder_on_tmpfs() as path:
        yield path


# ---- settings ----

AGENT_SETTINGS = (SOURCES / "src/agent/agent_settings.c").read_text()
ROWS = {(section, key): (kind, member) for section, key, kind, member in re.findall(r'\{ "(\w+)", "([\w-]+)",\s+TYPE_(\w+),\s+MEMBER\((\w+)\)', AGENT_SETTINGS)}
# What a key needs beside it.
COMPANIONS = {"user": ["password-file"], "certificate-file": ["key-file"], "key-file": ["certificate-file"], "url": ["state"], "folder": ["state"], "keep": ["state"]}


def settings_entries():
    """{(section, key): (value, whether it is the default)} of all keys, which are commented out."""
    entries, section, has_default = {}, None, True
    for line in INI.read_text().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
        elif entry := re.fullmatch(r"#([\w-]+) = (.*)", line):
            entries[section, entry[1]] = entry[2], has_default
            has_default = True
        elif line.endswith("No default:"):
            has_default = False
    return entries


def test_the_settings_file_has_every_key():
    assert len(ROWS) > 20 and {at for at in settings_entries() if at[0] != "labels"} == set(ROWS)


def test_the_settings_file_shows_the_defaults():
    """Of every key that has one in the source."""
    block = re.search(r"defaults = \{(.*?)\n\};", AGENT_SETTINGS, re.S)[1]
    defaults = dict(re.findall(r"\.(\w+) = ([^,]+),", block))
    scales = {"s": 10**9, "min": 60 * 10**9, "MiB": 1 << 20, "GiB": 1 << 30, "": 1}
    for at, (kind, member) in ROWS.items():
        shown = settings_entries()[at][0]
        if member not in defaults:
            continue
        source = defaults.pop(member).strip()
        if kind == "TEXT":
            assert source == f'"{shown}"'
        elif kind == "YES":
            assert source == {"yes": "true", "no": "false"}[shown]
        else:
            number, unit = re.fullmatch(r"(\d+)(\D*)", shown).groups()
            assert eval(source.replace("ull", ""), {"NS_PER_S": 10**9}) == fractions.Fraction(number) * scales[unit], at  # noqa: S307
    assert defaults == {}


def check(heapgauge, path, env):
    done = subprocess.run([heapgauge, "agent", path, "--check"], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0 and done.stderr.endswith("is valid\n"), done.stderr


def elsewhere(text, scratch):
    """With folders of the test, in which all files exist."""
    for name in "/etc/heapgauge", "/var/lib/heapgauge", "/run/secrets/heapgauge", "/state":
        text = text.replace(name, str(scratch / name.strip("/").replace("/", "-")))
    for path in re.findall(r"-file = (\S+)", text):
        pathlib.Path(path).parent.mkdir(exist_ok=True)
        pathlib.Path(path).write_text("words")
        pathlib.Path(path).chmod(0o600)
    for name in re.findall(r"state = (\S+)", text):
        pathlib.Path(name).parent.mkdir(exist_ok=True)
    return text


def test_the_settings_file_is_valid(heapgauge, scratch, clean_env):
    check(heapgauge, INI, clean_env)
    text = elsewhere(INI.read_text(), scratch)
    for _section, key in settings_entries():
        some = re.compile(rf"^#({'|'.join([key, *COMPANIONS.get(key, [])])}) = ", re.M)
        (scratch / "agent.ini").write_text(some.sub(r"\1 = ", text))
        check(heapgauge, scratch / "agent.ini", clean_env)


# ---- systemd ----


def unit_values(key):
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.M)


def test_systemd_takes_the_unit(heapgauge, scratch):
    analyze = tool("systemd-analyze", "apt install systemd")
    (command,) = unit_values("ExecStart")
    assert command == "/usr/bin/heapgauge agent /etc/heapgauge/agent.ini"
    unit = scratch / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/heapgauge", str(heapgauge)))
    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout + done.stderr == ""
    done = subprocess.run([analyze, "security", "--offline=yes", "--threshold=40", unit], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


# ---- permissions ----

UNIT_CAPABILITIES = [name.removeprefix("CAP_").lower() for name in unit_values("CapabilityBoundingSet")[0].split()]


def container(manifest, name="heapgauge-agent"):
    for document in MANIFESTS[manifest]:
        for one in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            if one["name"] == name:
                return one
    raise AssertionError(f"{manifest} has no container {name}")


def as_root_with(capabilities):
    return ["setpriv", f"--bounding-set={','.join(['-all', *('+' + name for name in capabilities)])}", "--no-new-privs"]


def as_nobody():
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def service(folder):
    return f"till-{folder.name}"


@contextlib.contextmanager
def watched(heapgauge, build, env, folder, before):
    """A killed process that the agent never saw, then an agent, and a process of another user with and without a file; profiles of killed
    ones become recordings."""
    profiles = folder / "profiles"
    profiles.mkdir()
    os.chown(profiles, NOBODY, NOBODY)
    profiles.chmod(0o700)
    # Names that nothing else on the machine has: the agent sees and keeps what other tests kill, too.
    keeper = compile_keeper(folder).rename(folder / f"keeper-{folder.name}")
    for path in (folder, keeper):
        path.chmod(0o755)
    own = preloaded(build, env, OTEL_SERVICE_NAME=service(folder))
    with keeping([*as_nobody(), keeper], own | {"HEAPGAUGE_DIR": str(profiles)}) as left:
        left.kill()
    state = folder / "state"
    settings = write_settings(folder, agent={"state": state, "names": "no"}, files={"folder": folder / "files"}, ended={"folders": profiles, "keep": folder / "killed"})
    with (
        keeping([*as_nobody(), keeper], own | {"HEAPGAUGE_DIR": str(profiles)}) as filed,
        keeping([*as_nobody(), keeper], own) as unfiled,
        running_agent(heapgauge, settings, env, before=before) as agent,
    ):
        agent.profiles, agent.left, agent.filed, agent.unfiled = profiles, left.target, filed, unfiled
        yield agent


def written(folder, pid):
    return len(list((folder / "files").rglob(f"*{pid}*.pb.gz")))


def recordings(folder):
    return list((folder / "killed").glob(f"service=*-{folder.name}/*/*/*.hg"))


def service_of(agent, pid):
    return re.search(rf'heapgauge_live_bytes\{{[^}}]*pid="{pid}"[^}}]*service_name="([^"]+)"', agent.get("/metrics")[1].decode())[1]


@needs_root
@pytest.mark.parametrize("where", ["unit", "daemonset"])
def test_the_capabilities_are_enough(heapgauge, build, clean_env, folder, where):
    names = UNIT_CAPABILITIES if where == "unit" else [name.lower() for name in container("daemonset")["securityContext"]["capabilities"]["add"]]
    with watched(heapgauge, build, clean_env, folder, as_root_with(names)) as agent:
        for run in agent.filed, agent.unfiled:
            assert agent.sees(run.target)["live_bytes"] == 900 * 200
            assert agent.numbers(run.target)["memory_bytes.rss"] > 0
            assert service_of(agent, run.target) == service(folder)
        wait_for(lambda: len(recordings(folder)) == 1, "the recording of the process that was killed before")
        agent.filed.kill()
        wait_for(lambda: len(recordings(folder)) == 2, "the recording of a killed process")
        wait_for(lambda: agent.numbers()["agent_ended_processes_total.killed"] >= 2, "its end to be counted")


@needs_root
def test_without_sys_ptrace_it_sees_no_process_of_others(heapgauge, build, clean_env, folder):
    with watched(heapgauge, build, clean_env, folder, as_root_with(set(UNIT_CAPABILITIES) - {"sys_ptrace"})) as agent:
        wait_for(lambda: recordings(folder), "files that killed processes left")
        assert agent.numbers()["agent_hidden_processes"] >= 2
        assert not agent.numbers(agent.filed.target) and not agent.numbers(agent.unfiled.target)


@needs_root
@pytest.mark.parametrize("name", ["setuid", "setgid"])
def test_without_setuid_or_setgid_it_reads_nothing(heapgauge, build, clean_env, folder, name):
    with watched(heapgauge, build, clean_env, folder, as_root_with(set(UNIT_CAPABILITIES) - {name})) as agent:
        wait_for(lambda: agent.numbers()["agent_unreadable_processes"] >= 2, "readings to fail")
        assert not agent.numbers(agent.filed.target)
        assert any("cannot become the user of the process" in line for line in agent.said)


@needs_root
def test_without_dac_read_search_it_has_numbers_but_no_labels_and_no_ends(heapgauge, build, clean_env, folder):
    with watched(heapgauge, build, clean_env, folder, as_root_with(set(UNIT_CAPABILITIES) - {"dac_read_search"})) as agent:
        assert agent.sees(agent.filed.target)["live_bytes"] == 900 * 200
        assert service_of(agent, agent.filed.target) != service(folder), "its environment cannot be read"
        agent.filed.kill()
        wait_for(lambda: not agent.numbers(agent.filed.target), "its end to be seen")
        assert recordings(folder) == []


@needs_root
@pytest.mark.parametrize("has_it", [True, False])
def test_checkpoint_restore_is_for_processes_without_a_file(heapgauge, build, clean_env, folder, has_it):
    """Only then the last profile of one comes after its end."""
    names = set(UNIT_CAPABILITIES) - (set() if has_it else {"checkpoint_restore"})
    with watched(heapgauge, build, clean_env, folder, as_root_with(names)) as agent:
        agent.sees(agent.unfiled.target)
        held = [os.readlink(link) for link in pathlib.Path(f"/proc/{agent.process.pid}/fd").iterdir() if os.path.lexists(link)]
        assert any("heapgauge-profile" in link or "/dev/zero" in link for link in held) == has_it, held


@needs_root
@pytest.mark.parametrize("has_it", [True, False])
def test_dac_override_is_for_removing_profiles(heapgauge, build, clean_env, folder, has_it):
    names = {*UNIT_CAPABILITIES, "dac_override"} if has_it else UNIT_CAPABILITIES
    with watched(heapgauge, build, clean_env, folder, as_root_with(names)) as agent:
        wait_for(lambda: recordings(folder), "the recording")
        if has_it:
            wait_for(lambda: file_of(agent.profiles, agent.left) is None, "its profile to be removed")
        else:
            wait_for(lambda: any("cannot remove" in line for line in agent.said), "the agent to say that it cannot")
            assert file_of(agent.profiles, agent.left)


@needs_root
def test_a_profile_is_not_removed_while_its_process_runs(heapgauge, build, clean_env, folder):
    """Whatever the agent may not see: here with the capabilities that containers have by default."""
    usual = ["chown", "dac_override", "fowner", "setuid", "setgid", "kill"]
    with watched(heapgauge, build, clean_env, folder, as_root_with(usual)) as agent:
        wait_for(lambda: file_of(agent.profiles, agent.left) is None, "the profile of a killed process to be removed")
        assert not agent.numbers(agent.filed.target), "it cannot be seen"
        assert file_of(agent.profiles, agent.filed.target) and len(recordings(folder)) == 1
        agent.filed.kill()
        wait_for(lambda: file_of(agent.profiles, agent.filed.target) is None, "its profile to be removed after its end")


@needs_root
def test_a_sidecar_of_the_same_user_needs_no_capability(heapgauge, build, clean_env, folder):
    assert container("sidecar")["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    os.chown(folder, NOBODY, NOBODY)
    with watched(heapgauge, build, clean_env, folder, [*as_nobody(), "--bounding-set=-all", "--no-new-privs"]) as agent:
        assert agent.sees(agent.filed.target)["live_bytes"] == 900 * 200
        assert service_of(agent, agent.filed.target) == service(folder)
        agent.filed.kill()
        wait_for(lambda: len(recordings(folder)) == 2, "recordings of both killed processes")
        wait_for(lambda: file_of(agent.profiles, agent.filed.target) is None, "its profile to be removed")


# ---- Kubernetes ----


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_kubernetes_takes_the_manifest(name):
    """By the schemas that Kubernetes publishes: of an old version and of the newest that the package has."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for document in MANIFESTS[name]:
        for version in "1.25", kubernetes_validate.latest_version():
            kubernetes_validate.validate(document, version, strict=True)
    broken = json.loads(json.dumps(MANIFESTS[name][-1]))
    broken["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.25", strict=True)


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_a_manifest_agrees_with_itself_and_with_the_image(name):
    pod = MANIFESTS[name][-1]["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    maps = {document["metadata"]["name"] for document in MANIFESTS[name] if document["kind"] == "ConfigMap"}
    everything = pod.get("initContainers", []) + pod["containers"]
    assert {mount["name"] for one in everything for mount in one["volumeMounts"]} == volumes
    assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} == maps
    assert all("memory" in one["resources"]["limits"] and re.fullmatch(r"[a-z-]+:[\d.]+", one["image"]) for one in everything)
    version = re.search(r"project\(heapgauge VERSION ([\d.]+)", (SOURCES / "CMakeLists.txt").read_text())[1]
    assert {one["image"] for one in everything if one["name"] != "server"} == {f"heapgauge-agent:{version}"}


@pytest.mark.parametrize("name", ["recorder", "sidecar"])
def test_a_manifest_turns_the_recorder_on(name):
    pod = MANIFESTS[name][-1]["spec"]["template"]["spec"]
    (server,) = (one for one in pod["containers"] if one["name"] == "server")
    env = {entry["name"]: entry.get("value") for entry in server["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    (init,) = pod["initContainers"]
    program, source, target = init["command"]
    assert (program, source, target) == ("cp", "/usr/lib/heapgauge/libheapgauge.so", init["volumeMounts"][0]["mountPath"] + "/")
    assert env["LD_PRELOAD"] == f"{mounts['heapgauge']}/libheapgauge.so" and env["HEAPGAUGE_DIR"] == mounts["profiles"]
    assert env["HEAPGAUGE_MODE"] == "sample"
    (profiles,) = (volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == "profiles")
    assert profiles["medium"] == "Memory", "the recorder wants a tmpfs"
    labels = (SOURCES / "src/agent/labels.c").read_text()
    for variable in "POD_NAME", "POD_NAMESPACE", "NODE_NAME", "CONTAINER_NAME", "OTEL_SERVICE_NAME":
        assert variable in env and f'"{variable}"' in labels


@pytest.mark.parametrize("name", ["sidecar", "daemonset"])
def test_the_settings_in_a_manifest_are_valid(heapgauge, scratch, clean_env, name):
    (text,) = (document["data"]["agent.ini"] for document in MANIFESTS[name] if document["kind"] == "ConfigMap")
    (scratch / "agent.ini").write_text(elsewhere(text, scratch))
    check(heapgauge, scratch / "agent.ini", clean_env)
    mounts = [mount["mountPath"] for mount in container(name)["volumeMounts"]]
    for path in re.findall(r"= (/\S+)", text):
        assert any(pathlib.Path(path).is_relative_to(mount) for mount in mounts), path


# ---- Prometheus and Grafana ----

PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_promtool_takes_the_rules():
    output_of(tool("promtool", "apt install prometheus"), "check", "rules", RULES)
    output_of(tool("promtool", ""), "test", "rules", pathlib.Path(__file__).with_name("alerts_test.yml"))


def test_each_alert_is_tested_firing_and_silent():
    tests = [one for group in yaml.safe_load(pathlib.Path(__file__).with_name("alerts_test.yml").read_text())["tests"] for one in group["alert_rule_test"]]
    names = {rule["alert"] for rule in ALERTS}
    assert len(names) == len(ALERTS) >= 7
    assert {one["alertname"] for one in tests if one["exp_alerts"]} == {one["alertname"] for one in tests if not one["exp_alerts"]} == names


def test_the_reasons_of_a_loss_are_counters_of_the_recorder():
    counters = re.findall(r"\bX\((\w+),", (SOURCES / "src/format/health.h").read_text())
    (rule,) = (rule for rule in ALERTS if rule["alert"] == "RecorderLost")
    for name in re.findall(r"\w+(?:\([\w|]+\))?", re.search(r'reason=~"([^"]+)"', rule["expr"])[1]):
        start, _, rest = name.rstrip(")").partition("(")
        assert all(start + end in counters for end in rest.split("|")), name


def test_the_dashboard_is_whole():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) and len(PANELS) >= 20
    cells = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not own & cells and place["x"] + place["w"] <= 24, panel["title"]
        cells |= own
    for panel in PANELS:
        references = [target["refId"] for target in panel["targets"]]
        assert panel["title"] and references and len(set(references)) == len(references)
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) <= variables | {"__rate_interval", "__all"}


def test_every_metric_of_dashboard_and_alerts_exists_and_every_query_works(heapgauge, build, clean_env, folder, scratch, pyroscope_server):
    """A running agent that pushes, and a real Prometheus that scrapes it and answers each query."""
    server = pyroscope_server()
    settings = write_settings(scratch, pyroscope={"url": server.url}, agent={"state": scratch / "state", "names": "no"})
    prometheus = tool("prometheus", "apt install prometheus")
    with running_agent(heapgauge, settings, clean_env) as agent, keeping([compile_keeper(scratch)], preloaded(build, clean_env, folder, OTEL_SERVICE_NAME="till")) as run:
        agent.sees(run.target)
        served = set(re.findall(r"^# TYPE (\w+) ", agent.get("/metrics")[1].decode(), re.M))
        queries = QUERIES + [rule["expr"] for rule in ALERTS] + [variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable]
        named = {name for query in queries for name in re.findall(r"\bheapgauge_\w+", query)}
        assert len(named) > 20 and named <= served, named - served
        (scratch / "prometheus.yml").write_text(
            f"rule_files: ['{RULES}']\nscrape_configs:\n- job_name: heapgauge\n  scrape_interval: 1s\n  static_configs: [{{targets: ['{agent.host}:{agent.port}']}}]\n"
        )
        argv = [prometheus, f"--config.file={scratch}/prometheus.yml", f"--storage.tsdb.path={scratch}/data", "--web.listen-address=127.0.0.1:0"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                address = next(m[1] for line in process.stderr if (m := re.search(r'msg="Listening on" address=(\S+)', line)))

                def ask(query):
                    for name, value in {"$__rate_interval": "5m", "$service": ".*", "$instance": ".*"}.items():
                        query = query.replace(name, value)
                    done = subprocess.run(["curl", "-s", "--data-urlencode", f"query={query}", f"http://{address}/api/v1/query"], capture_output=True, text=True)
                    answer = json.loads(done.stdout or "{}")
                    assert answer.get("status") == "success", (query, answer)
                    return answer["data"]["result"]

                wait_for(lambda: subprocess.run(["curl", "-sf", f"http://{address}/-/ready"], capture_output=True).returncode == 0, "Prometheus to be ready")
                wait_for(lambda: ask('count_over_time(heapgauge_live_bytes{service_name="till"}[1m]) > 2'), "Prometheus to have scraped")
                # What needs a memory limit, a tag or a loss has no answer here.
                empty = {query for query in QUERIES if not ask(query)}
            finally:
                process.kill()
                process.stderr.read()
    assert all(re.search(r"cgroup|tag_live|health_events", query) for query in empty), empty


# ---- where they are ----


def test_they_are_installed(build, tmp_path):
    subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], check=True, capture_output=True)
    installed = tmp_path / "share/heapgauge/deploy"
    ours = {path.relative_to(DEPLOY) for path in DEPLOY.rglob("*") if path.is_file()}
    assert ours == {path.relative_to(installed) for path in installed.rglob("*") if path.is_file()}
    recipe = (DEPLOY / "Containerfile").read_text()
    assert "heapgauge_*.deb" in recipe and "libcurl4" in recipe and "ca-certificates" in recipe
