# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry profiles, decoded with OpenTelemetry's own schema; in the long form taken by its collector."""

import collections
import re
import socket
import subprocess

import pytest

from compiled import compile_c, wait_for
from exports import LONG, ROOT, output_of, scene, tool  # noqa: F401
from test_export_pprof import LABELLED, QUESTIONS, TYPES, raw, sums

TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")


def decode(path):
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

    return profiles_service_pb2.ExportProfilesServiceRequest.FromString(path.read_bytes())


def profiles(request):
    """(pid, name of the sample type, profile) of each."""
    for resource in request.resource_profiles:
        pid = attributes_of(resource.resource)["process.pid"]
        for scope in resource.scope_profiles:
            for profile in scope.profiles:
                yield pid, request.dictionary.string_table[profile.sample_type.type_strindex], profile


def value_of(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def attributes_of(resource):
    found = {pair.key: value_of(pair.value) for pair in resource.attributes}
    assert len(found) == len(resource.attributes)
    return found


def referenced(dictionary, indices):
    """The attributes that a message refers to; each key once."""
    found = {}
    for index in indices:
        attribute = dictionary.attribute_table[index]
        key = dictionary.string_table[attribute.key_strindex]
        assert index > 0 and key and key not in found
        found[key] = value_of(attribute.value)
    return found


def stack_of(dictionary, index):
    """(function, file, line) of each frame, innermost first, inlined ones too."""
    string = dictionary.string_table
    stack = []
    for at in dictionary.stack_table[index].location_indices:
        for line in dictionary.location_table[at].lines:
            function = dictionary.function_table[line.function_index]
            stack.append((string[function.name_strindex], string[function.filename_strindex], line.line))
    return tuple(stack)


def check_dictionary(request):
    """What the schema demands: zero values first, indices inside their tables; no item twice, none that nothing refers to."""
    d = request.dictionary
    tables = {name: getattr(d, f"{name}_table") for name in TABLES}
    used = {name: {0} for name in TABLES}
    for name, table in tables.items():
        items = [item if name == "string" else item.SerializeToString() for item in table]
        assert not items[0], f"item 0 of the table of {name}s"
        assert len(items) == len(set(items)), f"the table of {name}s has an item twice"

    def refer(name, *indices):
        assert all(0 <= index < len(tables[name]) for index in indices), name
        used[name].update(indices)

    for item in d.mapping_table:
        refer("string", item.filename_strindex)
        refer("attribute", *item.attribute_indices)
    for item in d.location_table:
        refer("mapping", item.mapping_index)
        refer("attribute", *item.attribute_indices)
        refer("function", *(line.function_index for line in item.lines))
        if item.mapping_index:
            mapping = d.mapping_table[item.mapping_index]
            assert mapping.memory_start <= item.address < mapping.memory_limit
    for item in d.function_table:
        refer("string", item.name_strindex, item.filename_strindex, item.system_name_strindex)
    for item in d.attribute_table:
        refer("string", item.key_strindex, item.unit_strindex)
    for item in d.stack_table:
        assert 0 not in item.location_indices
        refer("location", *item.location_indices)
    for _, _, profile in profiles(request):
        for kind in (profile.sample_type, profile.period_type):
            assert kind.type_strindex and kind.unit_strindex
            refer("string", kind.type_strindex, kind.unit_strindex)
        refer("attribute", *profile.attribute_indices)
        identities = set()
        for sample in profile.samples:
            refer("stack", sample.stack_index)
            refer("attribute", *sample.attribute_indices)
            refer("link", sample.link_index)
            assert len(sample.values) == 1 and sample.values[0] != 0
            identities.add((sample.stack_index, frozenset(sample.attribute_indices)))
        assert len(identities) == len(profile.samples)
    for name, table in tables.items():
        assert used[name] == set(range(len(table))), f"a {name} that nothing refers to"


def found_values(request):
    """{(pid, sample type, stack): value}, over all tags."""
    values = collections.Counter()
    for pid, name, profile in profiles(request):
        for sample in profile.samples:
            values[pid, name, stack_of(request.dictionary, sample.stack_index)] += sample.values[0]
    return values


def expected_values(it, *question):
    """The same, from the sites of the report."""
    clean = lambda text: "".join(c if c >= " " else "?" for c in text or "")
    values = collections.Counter()
    live = ("live_blocks", "live_bytes") if "--at" in question else ("not_freed_blocks", "not_freed_bytes")
    for site in it.sites(*question):
        stack = tuple((clean(f["function"]), clean(f["file"]), f["line"] or 0) for f in site["stack"])
        for name, key in zip(TYPES, ("calls", "total_bytes", *live)):
            values[site["pid"], name, stack] += site[key]
    return collections.Counter({key: value for key, value in values.items() if value})


@pytest.mark.parametrize(
    "name, question",
    [("plain", question) for question in QUESTIONS]
    + [(name, QUESTIONS[1]) for name in ("tree", "odd", "bare")]
    + [(name, question) for name in ("rust", "python") for question in QUESTIONS[:2]],
    ids=str,
)
def test_otlp_has_every_stack_with_the_numbers_of_the_report_and_of_pprof(scene, name, question):
    it = scene(name)
    request = decode(it.export("otlp", *question))
    check_dictionary(request)
    found = found_values(request)
    assert found == expected_values(it, *question) and found
    totals = collections.Counter()
    for (_, sample_type, _), value in found.items():
        totals[sample_type] += value
    assert {key: totals[key] for key in TYPES} == sums(raw(it.export("pprof", *question))[0])


def test_units_and_periods_of_otlp_are_those_of_pprof(scene):
    request = decode(scene("tree").export("otlp"))
    string = request.dictionary.string_table
    run = scene("tree").report("summary")["run"]
    kinds = collections.defaultdict(set)
    for pid, name, profile in profiles(request):
        kinds[pid].add((name, string[profile.sample_type.unit_strindex]))
        assert [string[profile.period_type.type_strindex], string[profile.period_type.unit_strindex]] == ["space", "bytes"]
        assert profile.period == 1
        begin, end = profile.time_unix_nano, profile.time_unix_nano + profile.duration_nano
        assert run["started_real_ns"] <= begin <= end <= run["started_real_ns"] + run["duration_ns"]
        moment = {"heapgauge.moment": "at the end"} if name.startswith("inuse") else {}
        assert referenced(request.dictionary, profile.attribute_indices) == moment
    expected = {(name, "bytes" if name.endswith("space") else "count") for name in TYPES}
    assert list(kinds.values()) == [expected, expected]


@pytest.mark.parametrize("sample_type, cost", [*TYPES.items(), ("temporary_calls", "temporary")])
def test_the_cost_that_was_asked_for_is_the_first_profile(scene, sample_type, cost):
    it = scene("plain")
    request = decode(it.export("otlp", "--cost", cost))
    check_dictionary(request)
    _, name, profile = next(profiles(request))
    assert name == sample_type
    assert sum(sample.values[0] for sample in profile.samples) == it.whole("--cost", cost)


def test_a_resource_is_a_process(scene):
    it = scene("tree")
    request = decode(it.export("otlp"))
    summary = it.report("summary")
    found = {}
    for resource in request.resource_profiles:
        attributes = attributes_of(resource.resource)
        found[attributes["process.pid"]] = attributes
        (scope,) = resource.scope_profiles
        assert (scope.scope.name, scope.scope.version) == ("heapgauge", summary["run"]["version"])
        exe = attributes["process.executable.path"]
        assert exe.endswith("/exported") and attributes["process.executable.name"] == attributes["service.name"] == "exported"
        assert f"Build ID: {attributes['process.executable.build_id.gnu']}\n" in output_of("readelf", "-n", exe)
        assert (attributes["host.name"], attributes["host.arch"], attributes["os.type"]) == (socket.gethostname(), "amd64", "linux")
    assert found.keys() == {p["pid"] for p in summary["processes"]} and len(found) == 2


@pytest.mark.parametrize("name", ["plain", "rust", "python"])
def test_mappings_have_build_ids_and_frames_their_types(scene, name):
    it = scene(name)
    dictionary = decode(it.export("otlp")).dictionary
    string = dictionary.string_table
    checked = 0
    for mapping in dictionary.mapping_table[1:]:
        path = string[mapping.filename_strindex]
        build_id = referenced(dictionary, mapping.attribute_indices).get("process.executable.build_id.gnu")
        if path.endswith((".so", ".so.6", "/exported", "/rusty", "/python3.11")) and build_id:
            assert f"Build ID: {build_id}\n" in output_of("readelf", "-n", path)
            checked += 1
    assert checked
    languages = {}
    for site in it.sites():
        for frame in site["stack"]:
            languages[frame["function"], frame["file"] or "", frame["line"] or 0] = frame["language"]
    types = collections.Counter()
    for location in dictionary.location_table[1:]:
        outermost = dictionary.function_table[location.lines[-1].function_index]
        key = string[outermost.name_strindex], string[outermost.filename_strindex], location.lines[-1].line
        frame_type = referenced(dictionary, location.attribute_indices).get("profile.frame.type")
        assert frame_type == {"python": "cpython", "rust": "rust"}.get(languages[key], "native"), key
        types[frame_type] += 1
    assert types[{"plain": "native", "rust": "rust", "python": "cpython"}[name]]


def test_labels_and_tags_are_attributes_of_samples(scratch, record, heapgauge):
    run = record([compile_c(scratch, "labelled", LABELLED, f"-I{ROOT / 'include'}")])
    path = scratch / "labelled.otlp.pb"
    output_of(heapgauge, "export", run.path, "--format", "otlp", "-o", path)
    request = decode(path)
    check_dictionary(request)
    held = {}
    for _, name, profile in profiles(request):
        for sample in profile.samples:
            if name == "inuse_space" and "take" in [frame[0] for frame in stack_of(request.dictionary, sample.stack_index)]:
                attributes = referenced(request.dictionary, sample.attribute_indices)
                held[tuple(sorted(attributes.items()))] = sample.values[0]
    assert held == {
        (("heapgauge.tag", "request/tenant=acme"), ("tenant", "acme")): 100,
        (("heapgauge.tag", "request/tenant=acme/phase=load"), ("phase", "load"), ("tenant", "acme")): 20,
        (("heapgauge.tag", "request/tenant=initech"), ("tenant", "initech")): 3000,
    }


def test_otlp_shows_a_change_with_its_sign(scene):
    it = scene("plain")
    question = ["--at", "end", "--minus", "peak"]
    found = found_values(decode(it.export("otlp", *question)))
    change = sum(value for (_, name, _), value in found.items() if name == "inuse_space")
    assert change == it.whole("--cost", "live", *question) < 0


def test_variances_of_a_sampled_recording_are_profiles_of_their_own(scratch, record, heapgauge, target):
    run = record([target("t_histograms")], "--mode", "sample", "--interval", "1KiB")
    paths = {form: scratch / f"sampled.{form}" for form in ("otlp", "pprof")}
    for form, path in paths.items():
        output_of(heapgauge, "export", run.path, "--format", form, "-o", path)
    request = decode(paths["otlp"])
    check_dictionary(request)
    found = collections.Counter()
    for _, name, profile in profiles(request):
        found[name] += sum(sample.values[0] for sample in profile.samples)
        assert profile.period == 1024
    expected = collections.Counter()
    for values, _, _ in raw(paths["pprof"])[0]:
        expected.update(values)
    assert found.keys() == expected.keys() == TYPES.keys() | {f"{name}_variance" for name in TYPES}
    assert all(found[name] == expected[name] for name in TYPES)
    # Rounded where several stacks are one sample.
    assert all(abs(found[name] - expected[name]) <= len(request.dictionary.stack_table) for name in expected)
    assert found["alloc_space_variance"] > 0


def test_otlp_of_nothing_has_a_resource_and_no_samples(scene):
    request = decode(scene("empty").export("otlp"))
    check_dictionary(request)
    assert [(name, len(profile.samples)) for _, name, profile in profiles(request)] == [
        (name, 0) for name in ("inuse_space", "alloc_objects", "alloc_space", "inuse_objects")
    ]


def test_otlp_says_that_it_is_experimental_and_of_which_version(scene, scratch):
    it = scene("plain")
    argv = [it.heapgauge, "export", it.path, "--format", "otlp", "-o", scratch / "run.otlp.pb"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stderr
    shown = it.run("export", "--help")
    for text in (said, re.search(r"^  otlp +(.*?)^  \w", shown, re.M | re.S)[1]):
        text = " ".join(text.split())
        assert "experimental" in text and "OTLP 1.10.0" in text and "v1development" in text


@pytest.fixture
def collector(scratch):
    """Configured and used as the page says. Sends run.otlp.pb of a folder and returns what the debug exporter prints of it."""
    page = (ROOT / "docs/howto/opentelemetry.md").read_text()
    program = tool("otelcol-profiles", "tools/build-collector")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:%d" % free.getsockname()[1]
    here = lambda text: text.replace("127.0.0.1:4318", address).replace("otelcol ", f"exec {program} ")
    log = scratch / "collector.log"
    (scratch / "collector.yaml").write_text(here(re.search(r"```yaml\n(.*?)```", page, re.S)[1]))
    start, send = (here(re.search(rf"^{word} .*$", page, re.M)[0]) for word in ("otelcol", "curl"))
    with log.open("w") as out, subprocess.Popen(start, shell=True, cwd=scratch, stdout=out, stderr=out) as process:

        def printed_of(folder):
            wait_for(lambda: "Everything is ready" in log.read_text(), "the collector to start")
            before = log.stat().st_size
            output_of("sh", "-c", send, cwd=folder)
            printed = lambda: log.read_bytes()[before:].decode()
            wait_for(lambda: re.search(r'^\t?\{"resource": .*"otelcol.signal": "profiles"\}$', printed(), re.M), "the profile")
            return printed()

        yield printed_of
        process.terminate()


@pytest.mark.skipif(not LONG, reason="the collector is compiled for ten minutes: HEAPGAUGE_LONG=1")
@pytest.mark.parametrize("name", ["plain", "tree", "rust", "python", "odd"])
def test_the_opentelemetry_collector_takes_the_file_as_it_is(scene, collector, scratch, name):
    it = scene(name)
    path = scratch / "run.otlp.pb"
    it.run("export", it.path, "--format", "otlp", "-o", path)
    printed = collector(scratch)
    request = decode(path)
    counts = re.search(r'"resource profiles": (\d+), "sample records": (\d+)', printed)
    samples = [len(profile.samples) for _, _, profile in profiles(request)]
    assert [int(counts[1]), int(counts[2])] == [len(request.resource_profiles), sum(samples)]
    found = [list(map(int, re.findall(r"Values: \[(-?\d+)\]", part))) for part in re.split(r"^ *Profile #\d+$", printed, flags=re.M)[1:]]
    expected = expected_values(it)
    names = [(pid, name) for pid, name, _ in profiles(request)]
    assert [len(values) for values in found] == samples
    for key, values in zip(names, found, strict=True):
        assert sum(values) == sum(value for (pid, name, _), value in expected.items() if (pid, name) == key)
    lines = {line.strip() for line in printed.splitlines()}
    assert {function for _, _, stack in expected for function, _, _ in stack} <= lines
