# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A hostile client of gpudirect-monitor: bodies without an end, headers without an end, requests without an end, and
connections without a request. The monitor stays small, and others get their answers."""

import contextlib
import os
import pathlib
import select
import socket
import tempfile
import time

from monitors import Monitor
from tool import DEADLINE, check, wait_for

TOKEN = "a-token-of-this-test-0123456789"
GROWTH = 32 << 20  # bytes of memory that no request may cost
FLOOD = 192 << 20

folder = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = folder.name


def connect(monitor, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", monitor.port), DEADLINE, (source, 0))


def memory(monitor):
    """The most that it has had, in bytes."""
    status = pathlib.Path(f"/proc/{monitor.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def answers(monitor, source="127.0.0.3"):
    with connect(monitor, source) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return client.recv(15) == b"HTTP/1.1 200 OK"


def flood(monitor, head, data):
    """Sends a body until the connection ends."""
    with connect(monitor) as client:
        client.sendall(head + b"\r\n")
        for _ in range(FLOOD // len(data)):
            client.sendall(data)
    return True


def check_bodies(monitor):
    before = memory(monitor)
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    for request in (b"GET /", b"GET /api/state", b"GET /%zz", b"GET http://evil.example/", b"HEAD /metrics", b"POST /",
                    b"OPTIONS *", b"CONNECT localhost:1"):
        head = request + b" HTTP/1.1\r\nHost: localhost\r\n"
        for length, data in ((b"Transfer-Encoding: chunked", chunk), (b"Content-Length: 99999999999", chunk),
                             (b"Content-Length: 99999999999\r\nExpect: 100-continue", chunk)):
            ended = False
            try:
                flood(monitor, head + length + b"\r\n", data)
            except OSError:
                ended = True
            grown = memory(monitor) - before
            check(grown < GROWTH, f"{request} with {length} costs {grown >> 20} MiB")
            check(ended, f"{request} with {length}: it read all of {FLOOD >> 20} MiB")
    status, _, body = monitor.ask("/", headers={"Content-Length": "5"}, body=b"abcde")
    check(status == 413 and b"no request has a body" in body, f"a small body: {status} {body}")
    check(monitor.ask("/")[0] == 200, "after the floods")


def check_ranges(monitor):
    before = memory(monitor)
    status, _, body = monitor.ask("/", headers={"Range": "bytes=" + ",".join(f"{i}-" for i in range(9000))})
    check(status == 200 and len(body) < 1 << 20, f"9000 ranges: {status}, {len(body)} bytes")
    check(memory(monitor) - before < GROWTH, "9000 ranges cost memory")


def check_slow_headers(monitor):
    """A byte now and then holds no place: there is a deadline for all of them."""
    begin = time.monotonic()
    with connect(monitor, "127.0.0.2") as client, contextlib.suppress(OSError):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        while time.monotonic() < begin + DEADLINE:
            client.sendall(b"A: b\r\n")
            if select.select([client], [], [], 0.5)[0] and not client.recv(1000):
                break
    check(time.monotonic() < begin + DEADLINE, "headers that do not end keep a connection")


def is_ended(client):
    with contextlib.suppress(OSError):
        return bool(select.select([client], [], [], 0)[0]) and client.recv(1) == b""
    return True


def check_connections(monitor):
    """One address has 8 at most, and those that ask for nothing make room; 40 addresses keep no other one out."""
    slow = [connect(monitor) for _ in range(100)]
    for client in slow[-4:]:
        with contextlib.suppress(OSError):
            client.sendall(b"GET / HTTP/1.1\r\n")
    wait_for("those that are too many are ended", lambda: sum(is_ended(client) for client in slow) >= 92)
    check(answers(monitor, "127.0.0.1"), "beside idle connections of the same address")
    for address in range(10, 50):
        for _ in range(8):
            slow.append(connect(monitor, f"127.0.0.{address}"))
            with contextlib.suppress(OSError):
                slow[-1].sendall(b"GET / HTTP/1.1\r\n")
    begin = time.monotonic()
    check(answers(monitor), "beside 320 connections of 40 addresses")
    check(time.monotonic() < begin + DEADLINE / 2, "an answer takes as long as others are idle")
    for client in slow:
        client.close()


def check_pipeline(monitor):
    """Requests that were sent without waiting for answers: so many are answered, and the connection ends."""
    got = b""
    with connect(monitor) as client, contextlib.suppress(OSError):
        client.sendall(b"GET /monitor.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        client.shutdown(socket.SHUT_WR)
        while data := client.recv(1 << 20):
            got += data
    count = got.count(b"HTTP/1.1 200")
    check(0 < count <= 100, f"{count} of 1000 requests of one connection are answered")


token = pathlib.Path(folder.name) / "token"
token.touch(0o600)
token.write_text(TOKEN)
for options in ((), ("--token-file", str(token))):
    monitor = Monitor(*options)
    try:
        check_bodies(monitor)
        check_ranges(monitor)
        check_connections(monitor)
        check_pipeline(monitor)
        check_slow_headers(monitor)
        check(answers(monitor), "at the end")
        idle = [connect(monitor) for _ in range(5)]
        monitor.end()
    finally:
        monitor.kill()
