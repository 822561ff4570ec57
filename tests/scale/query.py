#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a question to many stored profiles takes: an embedded ClickHouse with generated profiles.

    python3 -m venv VENV && VENV/bin/pip install chdb && VENV/bin/python tests/scale/query.py [--profiles 1000000] [--folder FOLDER]

Profiles of one hour, one a minute for each process: 20 tenants with 50 services each. How many samples a profile has is what
push_bytes.py found for sampled programs (SAMPLES); which stacks they are of is drawn with a few frequent ones and many rare ones. The
tables are those of a columnar store of profiles as Pyroscope's blocks are: samples refer to a stack by its number, and what a stack is
stands once for a build-id.
"""

import argparse
import pathlib
import shutil
import tempfile
import time

TENANTS, SERVICES, MINUTES = 20, 50, 60
# Of ten services: three like redis-server, three like a Python service, three like a backend of PostgreSQL, one like clang.
SAMPLES = (28, 28, 28, 29, 29, 29, 2, 2, 2, 250)
STACKS = 8  # different stacks of a service for each sample of a profile
HOUR = "toDateTime('2026-11-18 03:00:00', 'UTC')"

SCHEMA = """
create table samples (
    tenant LowCardinality(String), service LowCardinality(String), time DateTime('UTC') codec(DoubleDelta, LZ4), process UInt32, build UInt32, stack UInt32,
    alloc_objects UInt64 codec(T64, LZ4), alloc_space UInt64 codec(T64, LZ4), inuse_objects UInt64 codec(T64, LZ4), inuse_space UInt64 codec(T64, LZ4)
) engine = MergeTree partition by toDate(time) order by (tenant, service, time, process);
create table stacks (build UInt32, stack UInt32, own_site String, frames Array(String)) engine = MergeTree order by (build, stack);
"""

FILL_SAMPLES = """
insert into samples
with {samples} as samples
select concat('tenant-', toString(tenant)), concat('service-', toString(service)), {hour} + toIntervalSecond(minute * 60 + process % 60), process, service as build,
    toUInt32(pow(rand64(draw) / 18446744073709551616., 3) * {stacks} * samples[service % 10 + 1]) as stack,
    1 + rand32(draw) % 100 as objects, objects * (16 + rand32(process) % 4000), rand32(stack) % 50, 64 * (rand32(draw + 1) % 100000)
from (
    select process, process % {tenants} as tenant, intDiv(process, {tenants}) % {services} as service, minute, arrayJoin(range(samples[service % 10 + 1])) as draw
    from (select number % {processes} as process, intDiv(number, {processes}) as minute from numbers_mt({from_profile}, {profiles}))
)
"""
FILL_STACKS = """
insert into stacks
with {samples} as samples
select service, stack, concat('function_', toString(stack % 200), ' (file', toString(stack % 40), '.cc:', toString(stack % 900), ')'),
    arrayMap(i -> concat('frame_', toString(cityHash64(service, stack, i) % 5000)), range(20))
from (select number as service, arrayJoin(range({stacks} * samples[number % 10 + 1])) as stack from numbers({services}))
"""
QUESTIONS = {
    "top own-code sites of a service in the last hour, by tenant": """
select tenant, own_site, sum(alloc_space) as allocated, avg(inuse_space) as live
from (select tenant, build, stack, sum(alloc_space) as alloc_space, avg(inuse_space) as inuse_space from samples
      where service = '{service}' and time >= {hour} group by tenant, build, stack) as s
join stacks using (build, stack)
group by tenant, own_site order by tenant, allocated desc limit 5 by tenant""",
    "the same of one tenant": """
select own_site, sum(alloc_space) as allocated
from (select build, stack, sum(alloc_space) as alloc_space from samples where tenant = 'tenant-7' and service = '{service}' and time >= {hour} group by build, stack) as s
join stacks using (build, stack)
group by own_site order by allocated desc limit 5""",
    "live bytes of one process over the hour": """
select time, sum(inuse_space) from samples where tenant = 'tenant-7' and service = '{service}' and process = {process} group by time order by time""",
    "services of all tenants by allocated bytes": """
select service, sum(alloc_space) as allocated from samples where time >= {hour} group by service order by allocated desc limit 5""",
}


def fill(session, profiles):
    processes = max(profiles // MINUTES, 1)
    words = {"samples": f"[{', '.join(map(str, SAMPLES))}]", "hour": HOUR, "stacks": STACKS, "tenants": TENANTS, "services": SERVICES, "processes": processes}
    began = time.monotonic()
    for at in range(0, profiles, 100_000):
        session.query(FILL_SAMPLES.format(from_profile=at, profiles=min(100_000, profiles - at), **words))
    session.query(FILL_STACKS.format(**words))
    session.query("optimize table samples final")
    return time.monotonic() - began


def ask(session, question):
    """Seconds, rows and bytes read, and the first line of the answer; the best of three."""
    best = None
    for _ in range(3):
        began = time.monotonic()
        answer = session.query(question, "CSV")
        seconds = time.monotonic() - began
        if best is None or seconds < best[0]:
            best = (seconds, answer.storage_rows_read(), answer.storage_bytes_read(), str(answer).partition("\n")[0])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=int, default=1_000_000)
    parser.add_argument("--folder", type=pathlib.Path, help="for the tables; removed at the end")
    args = parser.parse_args()
    from chdb import session as chdb_session  # large, and not in the packages of Debian

    folder = args.folder or pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-query-"))
    session = chdb_session.Session(str(folder))
    try:
        for statement in filter(str.strip, ("create database scale engine = Atomic; use scale;" + SCHEMA).split(";")):
            session.query(statement)
        seconds = fill(session, args.profiles)
        rows, stored, plain = (int(n) for n in str(session.query("select sum(rows), sum(data_compressed_bytes), sum(data_uncompressed_bytes) from system.parts where active and table = 'samples'", "CSV")).strip().split(","))
        print(f"{args.profiles:,} profiles, {rows:,} samples in {stored / 1e6:,.0f} MB ({stored / args.profiles:,.0f} bytes a profile; {plain / 1e6:,.0f} MB before compression), generated in {seconds:.0f} s")
        print("| question | seconds | rows read | bytes read |\n|---|---|---|---|")
        for name, question in QUESTIONS.items():
            seconds, read, size, first = ask(session, question.format(service="service-13", hour=HOUR, process=13 * TENANTS + 7))
            if not first:
                raise SystemExit(f"query.py: no answer to: {name}")
            print(f"| {name} | {seconds:.2f} | {read:,} | {size / 1e6:,.1f} MB |", flush=True)
    finally:
        session.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
