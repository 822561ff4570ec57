# SPDX-License-Identifier: Apache-2.0
"""Python's json and dicts, as many rounds as asked for; with PYTHONMALLOC=malloc every object is a malloc."""

import json
import sys

people = [
    {"id": i, "name": f"person {i}", "likes": [f"thing {i * k % 31}" for k in range(6)], "at": {"x": i / 3, "y": [i, -i]}}
    for i in range(400)
]
text = json.dumps(people)
for turn in range(int(sys.argv[1])):
    by_name = {person["name"]: {**person, "turn": turn} for person in json.loads(text)}
    by_liking = {}
    for person in by_name.values():
        for thing in person["likes"]:
            by_liking.setdefault(thing, []).append(person["name"] + str(turn))
