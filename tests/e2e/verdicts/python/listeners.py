# SPDX-License-Identifier: Apache-2.0
"""A small application server whose requests listen for changes of the settings."""
import sys
import time

settings_listeners = []


class RequestContext:
    def __init__(self, number):
        self.number = number
        self.body = b""
        self.debug = False

    def apply_settings(self, settings):
        self.debug = settings["debug"]


def connect(listener):
    settings_listeners.append(listener)


def disconnect(listener):
    settings_listeners.remove(listener)


def handle_request(number, raw):
    context = RequestContext(number)
    context.body = raw.replace(b"%20", b" ")
    connect(context.apply_settings)
    return render_response(context)


def render_response(context):
    words = context.body.split()
    return b"HTTP/1.1 200 OK\r\n\r\n" + b"-".join(words[:20])


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    start = time.monotonic()
    number = 0
    sent = 0
    raw = b"POST%20/form%20" + b"field=value%20" * 120
    while time.monotonic() - start < seconds:
        for _ in range(6):
            number += 1
            sent += len(handle_request(number, raw))
        if number % 3000 == 0:
            for listener in settings_listeners[-10:]:
                listener({"debug": True})
        time.sleep(0.01)


main()
