# SPDX-License-Identifier: Apache-2.0
import collections, gc, hashlib, json, os, re, sys, zlib

lists = collections.defaultdict(list)
for i in range(30000):
    lists[i % 100].append(str(i))
print(len(lists), hashlib.md5(json.dumps(lists).encode()).hexdigest())
print(len(zlib.compress(b"abc" * 100000)), re.sub(r"(\d)\1", "x", "112233"))


class Ring:
    pass


rings = [Ring() for _ in range(20000)]
rings[0].all = rings
del rings
print(gc.collect() > 0)
sys.stderr.write("to stderr\n")
child = os.fork()
if child == 0:
    many = [bytearray(1000) for _ in range(1000)]
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(7)
