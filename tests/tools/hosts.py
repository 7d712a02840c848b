# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The other one of two benches on two hosts, as tools/bench/bench.h describes it; it says whatever a test wants."""

import dataclasses
import socket
import struct

READY, RESULT, FAILED, HELLO, ORDER, RAW, SUMMARY = 3, 6, 7, 8, 9, 10, 11
MAGIC = 0x6763686568626770
HEADER = struct.Struct("=QQ")  # type, size
DEADLINE = 60


@dataclasses.dataclass
class Hello:
    magic: int = MAGIC
    sizes: int = 0
    version: bytes = b""
    device: bytes = b"host"
    FORMAT = struct.Struct("=QQ32s32s")

    def of(self, version):
        return dataclasses.replace(self, version=version.encode())

    def pack(self):
        return self.FORMAT.pack(self.magic, self.sizes, self.version, self.device)


@dataclasses.dataclass
class Order:
    runs: int = 1
    source: bytes = b"host"
    format: bytes = b"UYVY"
    route: bytes = b""
    width: int = 320
    height: int = 180
    tensor_bytes: int = 0
    fps_num: int = 0
    fps_den: int = 1
    frames: int = 10
    warmup: int = 0
    slots: int = 4
    slow_receiver: int = 1
    foreign: int = 0
    full: int = 0
    elements: int = 0
    encrypted: int = 0

    def pack(self):
        return struct.pack("=I32s16s32s2I4xQ6I4I", *dataclasses.astuple(self))


class Peer:
    def __init__(self, connected):
        self.socket = connected
        self.socket.settimeout(DEADLINE)

    def header(self, kind, size):
        self.socket.sendall(HEADER.pack(kind, size))

    def send(self, kind, payload):
        self.socket.sendall(HEADER.pack(kind, len(payload)) + payload)

    def fail(self, reason):
        self.send(FAILED, struct.pack("=i512s", 1, reason.encode()))

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the bench hung up")
            data += more
        return data

    def receive(self):
        kind, size = HEADER.unpack(self.exactly(HEADER.size))
        return kind, self.exactly(size)

    def hello(self):
        """What the bench says of itself: what it would accept."""
        kind, payload = self.receive()
        assert kind == HELLO, kind
        return Hello(*Hello.FORMAT.unpack(payload))

    def greet(self):
        self.send(HELLO, self.hello().pack())
