#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Polls the status pages of some hosts and warns when the average gets bad. A script that somebody wrote in an hour.
import sys
import time

hosts = ["web-%02d" % i for i in range(20)]
history = {host: [] for host in hosts}
warnings = 0
begin = time.monotonic()
length = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
poll = 0

while time.monotonic() - begin < length:
    for host in hosts[poll % 4 * 5:poll % 4 * 5 + 5]:
        poll_time = time.monotonic() - begin
        page = b"status=ok;load=%d;" % (poll % 9) + b"uptime=%d;" % poll * (60 + poll % 40)
        history[host].append((poll_time, page.decode()))
        recent = history[host][-20:]
        if sum(len(text) for _, text in recent) / len(recent) > 5000:
            warnings += 1
    poll += 1
    time.sleep(0.01)
