# SPDX-License-Identifier: Apache-2.0
import asyncio


async def work(n):
    await asyncio.sleep(0)
    return str(n) * 10


async def main():
    print(len("".join(await asyncio.gather(*(work(n) for n in range(5000))))))


asyncio.run(main())
