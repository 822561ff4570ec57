# SPDX-License-Identifier: Apache-2.0
import multiprocessing


def work(n):
    return sum(len(str(i)) for i in range(n))


if __name__ == "__main__":
    for start in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(start).Pool(4) as pool:
            print(start, sum(pool.map(work, range(0, 2000, 20))))
