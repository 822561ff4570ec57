# SPDX-License-Identifier: Apache-2.0
"""A mail generator that compiles its templates anew every ten rounds and renders mails in between."""
import re
import sys
import time

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


class Template:
    def __init__(self, name, source):
        self.name = name
        self.pieces = PLACEHOLDER.split(source)

    def render(self, values):
        output = []
        for index, piece in enumerate(self.pieces):
            output.append(values.get(piece, "") if index % 2 else piece)
        return "".join(output)


def compile_templates(version):
    table = {}
    for number in range(600):
        source = f"Dear {{{{name}}}}, version {version} of " + f"offer {number} costs {{{{price}}}} in {{{{city}}}}; " * 6
        table[f"template{number}"] = Template(f"template{number}", source)
    return table


def render_batch(table, first):
    mails = []
    for number in range(first, first + 40):
        values = {"name": f"customer {number}", "price": str(number % 97), "city": "Springfield"}
        mails.append(table[f"template{number % 600}"].render(values))
    return sum(map(len, mails))


table = compile_templates(0)
end = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
rounds = characters = 0
while time.monotonic() < end:
    characters += render_batch(table, rounds * 40)
    rounds += 1
    if rounds % 10 == 0:
        table = compile_templates(rounds)
    time.sleep(0.012)
assert characters >= 0
