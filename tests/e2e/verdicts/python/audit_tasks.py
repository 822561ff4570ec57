# SPDX-License-Identifier: Apache-2.0
"""An asyncio service: every request starts a background task that writes an audit record."""
import asyncio
import sys
import time


class Service:
    def __init__(self):
        self.background = set()
        self.written = 0

    async def write_audit(self, record):
        await asyncio.sleep(0)
        self.written += len(record)
        return record

    def spawn_audit(self, number, request):
        record = f"request={number} headers={request}"
        task = asyncio.get_running_loop().create_task(self.write_audit(record))
        self.background.add(task)

    async def handle(self, number):
        request = {f"header{index}": index * 1000 + number % 1000 for index in range(70)}
        self.spawn_audit(number, request)
        await asyncio.sleep(0)
        return len(request)


async def serve(seconds):
    service = Service()
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        await asyncio.gather(*(service.handle(number + index) for index in range(4)))
        number += 4
        await asyncio.sleep(0.01)
    assert service.written >= 0


asyncio.run(serve(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0))
