# SPDX-License-Identifier: Apache-2.0
"""Requests that no browser sends: what an HTTP parser may stumble over, and how to make more of it."""

import random

LINE = b"\r\n"


def request(line=b"GET / HTTP/1.1", *headers):
    return LINE.join([line, *headers, b"", b""])


HOST = b"Host: localhost"
CORPUS = [
    b"",
    b"\0",
    b"\r\n" * 1000,
    b"\xff" * 4096,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # a TLS hello
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET",
    b"GET /",
    b"GET / HTTP/1.1",
    b"GET /\r\n\r\n",
    b"GET  /  HTTP/1.1\r\n\r\n",
    b"get / http/1.1\r\nhost: localhost\r\n\r\n",
    request(b"GET / HTTP/9.9", HOST),
    request(b"GET / HTTP/1.0"),
    request(b"GET / HTTP/1.1"),
    request(b"GET / HTTP/1.1", b"Host:"),
    request(b"GET / HTTP/1.1", HOST, HOST),
    request(b"GET / HTTP/1.1", b"Host: localhost", b"Host: evil.example"),
    request(b"GET http://localhost/ HTTP/1.1", HOST),
    request(b"GET http://evil.example/ HTTP/1.1", b"Host: evil.example"),
    request(b"GET //localhost// HTTP/1.1", HOST),
    request(b"GET * HTTP/1.1", HOST),
    request(b"CONNECT localhost:22 HTTP/1.1", HOST),
    request(b"GET /%00 HTTP/1.1", HOST),
    request(b"GET /%zz%1 HTTP/1.1", HOST),
    request(b"GET /% HTTP/1.1", HOST),
    request(b"GET /\x00\x01\x02 HTTP/1.1", HOST),
    request(b"GET /?token HTTP/1.1", HOST),
    request(b"GET /?token= HTTP/1.1", HOST),
    request(b"GET /?token=%00 HTTP/1.1", HOST),
    request(b"GET /?&&&=&=&a HTTP/1.1", HOST),
    request(b"GET /?" + b"a=b&" * 5000 + b" HTTP/1.1", HOST),
    request(b"GET /" + b"a" * 200000 + b" HTTP/1.1", HOST),
    request(b"GET / HTTP/1.1", HOST, b"X: " + b"y" * 200000),
    request(b"GET / HTTP/1.1", HOST, *[b"X-%d: y" % i for i in range(5000)]),
    request(b"GET / HTTP/1.1", HOST, b"Cookie: " + b"a=b; " * 3000),
    request(b"GET / HTTP/1.1", HOST, b"Cookie: =;=;;;\"a\"=\"b"),
    request(b"GET / HTTP/1.1", HOST, b"Cookie: heapgauge-00000000="),
    request(b"GET / HTTP/1.1", HOST, b" folded: header"),
    request(b"GET / HTTP/1.1", HOST, b": no name"),
    request(b"GET / HTTP/1.1", HOST, b"no colon"),
    request(b"GET / HTTP/1.1", HOST, b"Content-Length: -1"),
    request(b"GET / HTTP/1.1", HOST, b"Content-Length: 99999999999999999999999"),
    request(b"GET / HTTP/1.1", HOST, b"Content-Length: 4", b"Content-Length: 5") + b"12345",
    request(b"GET / HTTP/1.1", HOST, b"Content-Length: 10") + b"12",
    request(b"GET / HTTP/1.1", HOST, b"Transfer-Encoding: chunked") + b"ffffffffffffffff\r\n",
    request(b"GET / HTTP/1.1", HOST, b"Transfer-Encoding: chunked", b"Content-Length: 3") + b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    request(b"GET / HTTP/1.1", HOST, b"Expect: 100-continue", b"Content-Length: 10"),
    request(b"GET / HTTP/1.1", HOST, b"Upgrade: websocket", b"Connection: Upgrade"),
    request(b"GET / HTTP/1.1", HOST, b"Range: bytes=0-0,-1,5-"),
    request(b"GET / HTTP/1.1", HOST) * 50,
    request(b"POST / HTTP/1.1", HOST, b"Content-Length: 100000") + b"x" * 100000,
    request(b"A" * 70000 + b" / HTTP/1.1", HOST),
]


def mutated(seed, count):
    """Requests of the corpus with bytes changed, taken, added and parts exchanged; the same for the same seed."""
    dice = random.Random(seed)
    for _ in range(count):
        data = bytearray(dice.choice(CORPUS)[:3000])
        for _ in range(dice.randint(1, 8)):
            at = dice.randint(0, len(data))
            what = dice.randint(0, 3)
            if what == 0 and data:
                data[at % len(data)] = dice.randint(0, 255)
            elif what == 1:
                data[at:at] = bytes(dice.choices(b"\r\n\0: %&=?/;", k=dice.randint(1, 4)))
            elif what == 2:
                del data[at : at + dice.randint(1, 20)]
            else:
                other = dice.choice(CORPUS)[:3000]
                data[at:at] = other[: dice.randint(0, 200)]
        yield bytes(data)
