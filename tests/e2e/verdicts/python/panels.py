# SPDX-License-Identifier: Apache-2.0
"""A desktop tool: panels open and close; each of them wants to know of every tick while it is open."""
import os
import sys
import time


class EventBus:
    def __init__(self):
        self.handlers = {}

    def on(self, event, handler):
        self.handlers.setdefault(event, []).append(handler)

    def off(self, event, handler):
        self.handlers[event].remove(handler)

    def emit(self, event, *args):
        for handler in self.handlers.get(event, ()):
            handler(*args)


class Panel:
    def __init__(self, title):
        self.title = title
        self.is_open = True
        self.keys = 0

    def on_key(self, key):
        self.keys += key

    def close(self, bus):
        self.is_open = False
        bus.off("key", self.on_key)


def open_panel(bus, number):
    panel = Panel("panel %d" % number)
    canvas = bytearray(1200 + number * 61 % 1600)

    def on_resize(width):
        if panel.is_open:
            canvas[0] = width & 0xFF

    bus.on("key", panel.on_key)
    bus.on("resize", on_resize)
    return panel


def main():
    end = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
    bus = EventBus()
    number = 0
    rounds = 0
    while time.monotonic() < end:
        for _ in range(4):
            number += 1
            panel = open_panel(bus, number)
            bus.emit("key", number % 7)
            panel.close(bus)
        rounds += 1
        if rounds % 100 == 0:
            bus.emit("resize", rounds)
        time.sleep(0.012)
    os._exit(0)


main()
