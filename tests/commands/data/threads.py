# SPDX-License-Identifier: Apache-2.0
import threading

sums = []
threads = [threading.Thread(target=lambda n=n: sums.append(sum(len(str(i)) for i in range(n)))) for n in range(0, 20000, 1000)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(sums))
