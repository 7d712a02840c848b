# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --receive, and what is at the other end lies: each time it ends with a sentence. No network card is
needed for that; bench_rdma_test.py is about those."""

import os
import select
import socket
import subprocess
import time

from hosts import FAILED, HELLO, ORDER, RAW, SUMMARY, Hello, Order, Peer
from tool import BENCH, DEADLINE, check, refused

listener = socket.create_server(("127.0.0.1", 0))
listener.settimeout(DEADLINE)
ADDRESS = f"rdma://127.0.0.1:{listener.getsockname()[1] - 1}"


def lie(what, expected, act, timeout="30"):
    """A bench that receives, its peer in this process, and how that ends. While the bench comes again, all is the
    same."""
    bench = subprocess.Popen([BENCH, "--receive", ADDRESS, "--timeout", timeout], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    peers, kept = [], []
    end = time.monotonic() + DEADLINE
    while bench.poll() is None and time.monotonic() < end:
        if select.select([listener], [], [], 0.1)[0]:
            peers.append(Peer(listener.accept()[0]))
            kept.append(act(peers[-1]))
    out, err = bench.communicate(timeout=DEADLINE)
    check(bench.returncode == 1 and expected in err, f"{what}: status {bench.returncode}, {err!r} lacks {expected!r}")
    check(out == "", f"{what}: prints {out!r}")
    check("\033" not in err, f"{what}: a terminal obeys {err!r}")
    for peer in peers:
        peer.socket.close()
    return kept[0]


def after_greeting(act):
    def whole(peer):
        peer.greet()
        return act(peer)
    return whole


# The listener is no bench, or another one. The right one may follow, and is waited for.
lie("nothing is said", "the other side says nothing", lambda peer: None, timeout="1")
lie("garbage", "hung up, or is not a gpudirect-bench",
    lambda peer: peer.socket.sendall(b"GET / HTTP/1.1\r\n\r\n" * 40), timeout="1")
lie("another machine", "of this kind of machine", lambda peer: peer.send(HELLO, Hello(magic=1).pack()), timeout="1")
lie("another version", "is version 9.9", lambda peer: peer.send(HELLO, peer.hello().of("9.9").pack()))
lie("a version for terminals", "is version ?[31m9", lambda peer: peer.send(HELLO, peer.hello().of("\033[31m9").pack()))

# What it asks for is not done because it asks.
lie("it hangs up", "the sending bench is gone", after_greeting(lambda peer: peer.socket.close()))
lie("half a message", "the sending bench is gone",
    after_greeting(lambda peer: (peer.header(ORDER, 100), peer.socket.close())))
lie("a huge message", "the sending bench is gone", after_greeting(lambda peer: peer.header(ORDER, 1 << 40)))
lie("a message of no type", "sent nonsense", after_greeting(lambda peer: peer.send(77, b"")))
lie("a short order", "sent nonsense", after_greeting(lambda peer: peer.send(ORDER, b"1234")))
lie("a target without a run", "sent nonsense", after_greeting(lambda peer: peer.send(RAW, b"\1\1")))
lie("a summary without a run", "sent nonsense", after_greeting(lambda peer: peer.send(SUMMARY, bytes(2000))))
lie("a failure", "the sending bench: ?[31mred", after_greeting(lambda peer: peer.fail("\033[31mred")))
for wrong in ({"runs": 0}, {"runs": 1 << 31}, {"frames": 1}, {"frames": 0xffffffff}, {"slots": 0}, {"slots": 65},
              {"fps_den": 0}, {"fps_num": 1 << 31}, {"warmup": 0xffffffff}, {"slow_receiver": 9}):
    reply = lie(f"an order with {wrong}", "asks for what it would refuse itself", after_greeting(
        lambda peer, wrong=wrong: (peer.send(ORDER, Order(**wrong).pack()), peer.receive())[1]))
    check(reply[0] == FAILED and b"would refuse itself" in reply[1], f"{wrong}: it was answered {reply}")
for wrong, text in (({"width": 0}, "asks for UYVY 0x180"),
                    ({"width": 30000, "height": 30000, "format": b"RGBA"}, "of 3600000000 bytes"),
                    ({"tensor_bytes": 100}, "of 100 bytes"), ({"tensor_bytes": 1000}, "of 1000 bytes"),
                    ({"tensor_bytes": 1 << 40}, "of 1099511627776 bytes"),
                    ({"width": 2, "height": 2}, "of 8 bytes"),
                    ({"format": b"\033[31m"}, "asks for ?[31m 320x180"),
                    ({"format": b"U" * 16}, "asks for " + "U" * 15)):
    lie(f"an order with {wrong}", text, after_greeting(
        lambda peer, wrong=wrong: peer.send(ORDER, Order(**wrong).pack())))

# A good order, which cannot be carried out here: both sides hear why.
if not os.path.exists("/sys/class/infiniband"):
    reply = lie("no network card", "no RDMA device", after_greeting(
        lambda peer: (peer.send(ORDER, Order().pack()), peer.receive())[1]))
    check(reply[0] == FAILED and b"no RDMA device" in reply[1], f"without a card it answers {reply}")
listener.close()
refused(1, f"no gpudirect-bench --to {ADDRESS} --remote is reached", "--receive", ADDRESS, "--timeout", "1")
