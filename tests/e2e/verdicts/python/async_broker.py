# SPDX-License-Identifier: Apache-2.0
"""A broker on asyncio: bounded queues per consumer, and the last value of every topic."""
import asyncio
import sys
import time

TOPICS = 300


class Broker:
    def __init__(self, consumers):
        self.retained = {}
        self.queues = [asyncio.Queue(maxsize=50) for _ in range(consumers)]
        self.delivered = 0

    async def publish(self, topic, payload):
        message = {"topic": topic, "payload": payload, "words": payload.split()}
        self.retained[topic] = message
        await self.queues[hash(topic) % len(self.queues)].put(message)

    async def consume(self, queue):
        while True:
            message = await queue.get()
            if message is None:
                return
            self.delivered += len(message["words"])


async def produce(broker, end):
    number = 0
    for topic in range(TOPICS):
        await broker.publish("sensors/%d" % topic, "value %d " % topic * 40)
    while time.monotonic() < end:
        for _ in range(8):
            number += 1
            await broker.publish("sensors/%d" % (number * 7 % TOPICS), "value %d " % (number % 1000) * (20 + number % 40))
        await asyncio.sleep(0.012)
    for queue in broker.queues:
        await queue.put(None)


async def main():
    end = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
    broker = Broker(3)
    await asyncio.gather(produce(broker, end), *(broker.consume(queue) for queue in broker.queues))


asyncio.run(main())
