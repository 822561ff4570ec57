# SPDX-License-Identifier: Apache-2.0
import resource

resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
try:
    bytearray(700 << 20)
except MemoryError:
    print("MemoryError")
resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
try:
    files = [open("/dev/null") for _ in range(20)]
except OSError as problem:
    print(problem.errno)
