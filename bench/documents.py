# SPDX-License-Identifier: Apache-2.0
"""CPython workload: json, dicts and strings. Run with PYTHONMALLOC=malloc so that every object is a malloc."""
import json
import sys

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 25

documents = [
    {
        "id": i,
        "name": f"user{i}",
        "tags": [f"t{j * i % 97}" for j in range(8)],
        "nested": {"a": i * 1.5, "b": [i, i + 1, i + 2], "c": {f"k{k}": f"v{k * i}" for k in range(6)}},
    }
    for i in range(2000)
]
text = json.dumps(documents)
kept = []
for r in range(ROUNDS):
    parsed = json.loads(text)
    by_name = {d["name"]: {**d, "round": r} for d in parsed}
    by_tag = {}
    for d in parsed:
        for tag in d["tags"]:
            by_tag.setdefault(tag, []).append((d["id"], tag + str(r)))
    if r % 10 == 0:
        kept.append(by_name)
print(len(kept), len(by_tag))
