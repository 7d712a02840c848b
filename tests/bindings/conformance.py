#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Every binding passes the same list of behaviours: TABLE.

    conformance.py [--row NAME] [--sanitized] REFERENCE PROGRAM [ARGUMENT…]

PROGRAM is the binding's end, as end.py is Python's: a sender or a receiver that does what its arguments say, and prints
what it sees. It judges nothing. REFERENCE is the end in C, which is the other side in most rows.

    PROGRAM send|receive ADDRESS [NAME=VALUE…]

    media=CAPS        what a sender sends
    count=N           frames to send or to receive; default: a receiver's, to the end of the stream
    slots=N           as in the params
    receivers=N       a sender waits for so many receivers, for 10 s at most, before its first frame; default: 1
    sizes=A,B,…       of sound and data: bytes in use of the first frame, the second and so on, in turn; default: all
    key=N             a sender's frames have the flag DELTA, except every Nth from the first one on; default: none
    pause=A,B,…       after so many frames the end prints "paused N" and waits for a line of standard input; then a
                      receiver without late=1 releases the frames that it holds
    hold=N            a receiver keeps its first N frames and releases all others at once. It looks at each held frame
                      again ("held") before it releases it, in the order of their arrival
    late=1            a receiver is closed after its last frame, prints "late", waits for a line, and then releases
    quiet=1           a receiver looks at every frame, but does not print it
    timeout=SECONDS   how long a call waits for a slot or a frame; default: 10. After a timeout a sender prints the
                      status, waits for a line, and tries to send the same frame again

Frames are numbered from 0. A frame's payload is the bytes of the rows of all planes in order, without the bytes between
rows; of sound, data and tensors it is the bytes in use. Byte K of frame N is (7 × N + K) mod 251, and the frame's time
(pts) is N × 40 ms. SIGINT interrupts the library's call that waits. The end prints lines of words, each at once:

    ready                                 the sender or receiver is made, and SIGINT interrupts it
    media CAPS                            the library's text, before the first frame of a connection and of a format
    frame SEQUENCE PTS FLAGS BYTES SUM    FLAGS: C's, as a decimal number. SUM: Adler-32 of the payload, as zlib's
    held SEQUENCE PTS FLAGS BYTES SUM     the same of a held frame
    paused N, late                        see above
    status NAME SENTENCE                  a failure, by the name of gpud_status_string(): "closed" at the end of the
                                          stream, "again" after an interrupt. A receiver continues after "peer",
                                          and a sender after "timeout"; after any other status the end finishes
    end                                   the last line; the exit status is 0. 77: it cannot run here, and has said why
"""

import argparse
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import zlib

DEADLINE = 30  # seconds, for each line
CORRUPTED, DELTA = 1 << 0, 1 << 7
FRAME_NS = 40_000_000
PICTURE = "video/x-raw, format=(string)NV12, width=(int)36, height=(int)21, framerate=(fraction)25/1"
# What is sent, the bytes of each frame (for pictures also those between rows), the payload's, and more orders.
KINDS = {
    "picture": (PICTURE, [1152], [36 * 21 + 36 * 11], []),
    "sound": ("audio/x-raw, format=(string)S16LE, layout=(string)interleaved, rate=(int)48000, channels=(int)2, "
              "samples-per-block=(int)480", [1920, 400], [1920, 400], ["sizes=1920,400"]),
    "data": ("meta/x-klv, max-size=(guint64)4000", [100, 4000, 1], [100, 4000, 1], ["sizes=100,4000,1"]),
    "coded": ("video/x-h264, max-size=(guint64)4096, stream-format=(string)byte-stream, alignment=(string)au, "
              "width=(int)64, height=(int)36, framerate=(fraction)25/1", [4096, 90, 80], [4096, 90, 80],
              ["sizes=4096,90,80", "key=3"]),
    "tensor": ("other/tensors, format=(string)static, num_tensors=(int)1, dimensions=(string)6:4, "
               "types=(string)float32, framerate=(fraction)0/1", [96], [96], []),
}
COUNT = 8
SLOTS = 4


class Wrong(Exception):
    """What an end did instead of what the table says."""


class CannotRun(Exception):
    """An end lacks something here."""


class End:
    """A process that is one end of a stream."""

    def __init__(self, command, role, address, *orders):
        self.name = f"{pathlib.Path(command[-1]).name} {role} {address} {' '.join(orders)}"
        self.process = subprocess.Popen([*command, role, address, *orders], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.rest = b""

    def hear(self):
        """The words of the next line, of which the last one may have blanks."""
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], DEADLINE)[0]:
                raise Wrong(f"{self.name}: no line within {DEADLINE} s")
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got and self.process.wait(DEADLINE) == 77:
                raise CannotRun(self.name)
            if not got:
                raise Wrong(f"{self.name}: it ended with {self.process.wait(DEADLINE)}, without \"end\"")
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def expect(self, text):
        """The next line begins so; what follows is returned."""
        line = self.hear()
        if line != text and not line.startswith(text + " "):
            raise Wrong(f"{self.name}: it prints \"{line}\" instead of \"{text}\"")
        return line[len(text) + 1:]

    def expect_media(self, kind="picture"):
        media = self.expect("media")
        if media != KINDS[kind][0]:
            raise Wrong(f"{self.name}: media is {media}, not {KINDS[kind][0]}")

    def expect_frame(self, number, kind="picture", word="frame", sequence=None):
        """Frame `number` of a sender as KINDS have it, which is its frame `number` + 1."""
        _, sizes, payloads, orders = KINDS[kind]
        payload = bytes((7 * number + k) % 251 for k in range(payloads[number % len(payloads)]))
        delta = DELTA if "key=3" in orders and number % 3 else 0
        found_sequence, pts, flags, size, total = map(int, self.expect(word).split())
        found = found_sequence, pts, flags & (DELTA | CORRUPTED), size, total
        right = number + 1, number * FRAME_NS, delta, sizes[number % len(sizes)], zlib.adler32(payload)
        if found != right:
            raise Wrong(f"{self.name}: {word} {number} is {found}, not {right}: sequence, pts, flags, bytes, sum")

    def expect_status(self, status, text):
        sentence = self.expect(f"status {status}")
        if text not in sentence:
            raise Wrong(f"{self.name}: \"{sentence}\" does not say \"{text}\"")

    def expect_end(self):
        self.expect("end")
        if self.process.wait(DEADLINE) != 0:
            raise Wrong(f"{self.name}: its exit status is {self.process.returncode}")

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait(DEADLINE)

    def measure(self):
        """Open files, threads, and kilobytes of memory of its own."""
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return len(list((proc / "fd").iterdir())), int(status["Threads"]), int(status["RssAnon"].split()[0])


# --- rows: what an end of the binding does, opposite to one of the reference

def pass_frames(table, sender, receiver, kind):
    """All frames of a kind."""
    media, _, _, orders = KINDS[kind]
    sending = table.start(sender, "send", "cam1", f"media={media}", f"count={COUNT}", *orders)
    receiving = table.start(receiver, "receive", "cam1")
    sending.expect("ready")
    receiving.expect("ready")
    receiving.expect_media(kind)
    for number in range(COUNT):
        receiving.expect_frame(number, kind)
    receiving.expect_status("closed", "ended the stream")
    receiving.expect_end()
    sending.expect_end()


def hold(table, sender, receiver):
    """A receiver that holds all slots holds up the sender, keeps their content, and releases them."""
    sending = table.start(sender, "send", "cam1", f"media={PICTURE}", f"count={COUNT}", f"slots={SLOTS}",
                          f"pause={SLOTS}", "timeout=0.3")
    receiving = table.start(receiver, "receive", "cam1", f"hold={SLOTS}", f"pause={SLOTS}")
    sending.expect("ready")
    sending.expect(f"paused {SLOTS}")
    receiving.expect("ready")
    receiving.expect_media()
    for number in range(SLOTS):
        receiving.expect_frame(number)
    receiving.expect(f"paused {SLOTS}")
    sending.go_on()
    sending.expect_status("timeout", "")
    receiving.go_on()
    for number in range(SLOTS):
        receiving.expect_frame(number, word="held")
    sending.go_on()
    for number in range(SLOTS, COUNT):
        receiving.expect_frame(number)
    receiving.expect_status("closed", "ended the stream")
    receiving.expect_end()
    sending.expect_end()


def release_late(table):
    """Frames outlive their receiver and their sender."""
    sending = table.start(table.reference, "send", "cam1", f"media={PICTURE}", f"slots={SLOTS}", "pause=3")
    receiving = table.start(table.binding, "receive", "cam1", "count=3", "hold=2", "late=1")
    sending.expect("ready")
    receiving.expect("ready")
    receiving.expect_media()
    for number in range(3):
        receiving.expect_frame(number)
    receiving.expect("late")
    sending.expect("paused 3")
    sending.kill()
    receiving.go_on()
    receiving.expect_frame(0, word="held")
    receiving.expect_frame(1, word="held")
    receiving.expect_end()


def lose_sender(table):
    """A sender's death is no end of the stream; the next sender's frames follow."""
    sending = table.start(table.reference, "send", "cam1", f"media={PICTURE}", "pause=2")
    receiving = table.start(table.binding, "receive", "cam1")
    sending.expect("ready")
    receiving.expect("ready")
    sending.expect("paused 2")
    sending.kill()
    receiving.expect_media()
    receiving.expect_frame(0)
    receiving.expect_frame(1)
    receiving.expect_status("peer", "")
    sending = table.start(table.reference, "send", "cam1", f"media={PICTURE}", "count=2")
    sending.expect("ready")
    receiving.expect_media()
    receiving.expect_frame(0)
    receiving.expect_frame(1)
    receiving.expect_status("closed", "ended the stream")
    receiving.expect_end()
    sending.expect_end()


def lose_receiver(table):
    """A receiver that holds up the sender dies; the other one gets all frames."""
    sending = table.start(table.binding, "send", "cam1", f"media={PICTURE}", f"count={COUNT}", f"slots={SLOTS}",
                          "receivers=2")
    dying = table.start(table.reference, "receive", "cam1", f"hold={SLOTS}", f"pause={SLOTS}")
    other = table.start(table.reference, "receive", "cam1")
    sending.expect("ready")
    for end in dying, other:
        end.expect("ready")
        end.expect_media()
    for number in range(SLOTS):
        dying.expect_frame(number)
        other.expect_frame(number)
    dying.expect(f"paused {SLOTS}")
    dying.kill()
    for number in range(SLOTS, COUNT):
        other.expect_frame(number)
    other.expect_status("closed", "ended the stream")
    other.expect_end()
    sending.expect_end()


def refuse_address(table, role):
    """A malformed address is refused with the library's sentence."""
    end = table.start(table.binding, role, "a/b/c", *([f"media={PICTURE}"] if role == "send" else []))
    line = end.hear()
    if line == "ready":  # where the address is not read before the first frame
        line = end.hear()
    if not line.startswith("status invalid ") or "is not an address" not in line:
        raise Wrong(f"{end.name}: it prints \"{line}\" instead of \"status invalid … is not an address …\"")
    end.expect_end()


def find_no_sender(table):
    """Without a sender the wait ends, and the sentence says which address."""
    end = table.start(table.binding, "receive", "nothing-here", "timeout=0.2")
    end.expect("ready")
    end.expect_status("timeout", "nothing-here")
    end.expect_end()


def meet_other_version(table, role):
    """A peer whose protocol has another version: the first message of a receiver, with the next number."""
    path = os.environ["XDG_RUNTIME_DIR"] + "/version"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(DEADLINE)
        receiving = table.start(table.binding if role == "receive" else table.reference, "receive", "unix:" + path)
        receiving.expect("ready")
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(DEADLINE)
            hello = bytearray(connection.recv(65536))
            version = hello[4]
            hello[4] += 1
            connection.send(hello)
            receiving.expect_status("unsupported",
                                    f"speaks version {version + 1} of the protocol, this library {version}")
            receiving.expect_end()
    os.unlink(path)
    if role == "receive":
        return
    sending = table.start(table.binding, "send", "unix:" + path, f"media={PICTURE}", "count=1")
    sending.expect("ready")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(DEADLINE)
        connection.connect(path)
        connection.send(hello)
        answer = connection.recv(65536)
        if f"speaks version {version + 1} of the protocol".encode() not in answer:
            raise Wrong(f"{sending.name}: a receiver of another version gets {answer!r}")
    receiving = table.start(table.reference, "receive", "unix:" + path)
    receiving.expect("ready")
    receiving.expect_media()
    receiving.expect_frame(0)
    sending.expect_end()


def interrupt(table, role):
    """SIGINT ends the wait for the other end, in order."""
    end = table.start(table.binding, role, "cam1", *([f"media={PICTURE}"] if role == "send" else []))
    end.expect("ready")
    end.process.send_signal(signal.SIGINT)
    end.expect_status("again", "")
    end.expect_end()


def do_not_grow(table):
    """Ten thousand frames, both ends of the binding: between the 2,000th and the last one nothing is left over."""
    sending = table.start(table.binding, "send", "cam1", "media=meta/x-klv,max-size=64", "count=10000",
                          "pause=2000,10000")
    receiving = table.start(table.binding, "receive", "cam1", "count=10000", "pause=2000,10000", "quiet=1")
    receiving.expect("ready")
    sending.expect("ready")
    receiving.expect("media")
    before = []
    for frames in 2000, 10000:
        for index, end in enumerate((sending, receiving)):
            end.expect(f"paused {frames}")
            files, threads, memory = end.measure()
            if not before or len(before) == 1:
                before.append((files, threads, memory))
                continue
            limit = before[index][2] + (1 << 20 if table.sanitized else 256)
            if files > before[index][0] or threads > before[index][1] or memory > limit:
                raise Wrong(f"{end.name}: it has {files} files, {threads} threads and {memory} kB after {frames} "
                            f"frames, and had {before[index]} after 2,000")
        sending.go_on()
        receiving.go_on()
    receiving.expect_end()
    sending.expect_end()


TABLE = {}
for kind in KINDS:
    TABLE[f"send {kind}"] = lambda table, kind=kind: pass_frames(table, table.binding, table.reference, kind)
    TABLE[f"receive {kind}"] = lambda table, kind=kind: pass_frames(table, table.reference, table.binding, kind)
TABLE |= {
    "hold": lambda table: hold(table, table.reference, table.binding),
    "be held up": lambda table: hold(table, table.binding, table.reference),
    "release late": release_late,
    "sender dies": lose_sender,
    "receiver dies": lose_receiver,
    "send to a wrong address": lambda table: refuse_address(table, "send"),
    "receive from a wrong address": lambda table: refuse_address(table, "receive"),
    "receive where no sender is": find_no_sender,
    "send to another version": lambda table: meet_other_version(table, "send"),
    "receive from another version": lambda table: meet_other_version(table, "receive"),
    "interrupt a sender": lambda table: interrupt(table, "send"),
    "interrupt a receiver": lambda table: interrupt(table, "receive"),
    "do not grow": do_not_grow,
}


class Table:
    """The ends of one run, and the processes of one row."""

    def __init__(self, reference, binding, sanitized):
        self.reference, self.binding, self.sanitized = [reference], binding, sanitized
        self.ends = []

    def start(self, command, role, address, *orders):
        end = End(command, role, address, *orders)
        self.ends.append(end)
        return end

    def run(self, row):
        try:
            TABLE[row](self)
        finally:
            for end in self.ends:
                end.kill()
                end.process.stdin.close()
                end.process.stdout.close()
            self.ends.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", choices=TABLE)
    parser.add_argument("--sanitized", action="store_true", help="memory may grow, by what a sanitizer keeps")
    parser.add_argument("reference")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    table = Table(args.reference, args.program, args.sanitized)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gpud-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        for row in [args.row] if args.row else TABLE:
            try:
                table.run(row)
                print(f"ok      {row}", flush=True)
            except CannotRun as error:
                print(f"skipped: {error} cannot run here")
                return 77
            except (Wrong, OSError, ValueError) as error:
                failed += 1
                print(f"FAILED  {row}: {error}", flush=True)
    return 1 if failed else 0


sys.exit(main())
