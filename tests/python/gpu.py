#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames on a real GPU between processes: what torch writes, torch, CuPy and JAX read bit for bit and without a copy;
tensors likewise, also from memory of each of torch's allocators, and into it; then how fast, and what a frame costs the
CPU. For a machine that has them; a row of a missing one says so."""

import importlib.util
import os
import statistics
import sys
import time

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["JAX_ENABLE_X64"] = "1"

import support
from support import DEADLINE, finish, process

import gpudirect

WIDTH, HEIGHT = 3840, 2160
MEDIA = f"video/x-raw,format=RGBA,width={WIDTH},height={HEIGHT},framerate=60/1"
CHECKED, TIMED, PACED = 100, 3000, 300

# What each process runs; the first argument is the address.
SEND = """
import sys, time, torch, gpudirect
address, count, pace = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with gpudirect.Sender(address, media=%r, device="cuda:0", slots=8, slow_receiver="block") as sender:
    sender.wait(timeout=%d)
    picture = torch.zeros(%d, %d, 4, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    start, cpu, due = time.monotonic(), time.process_time(), time.monotonic()
    for number in range(count):
        if pace == "check":
            generator = torch.Generator("cuda").manual_seed(number)
            picture = torch.randint(0, 256, picture.shape, dtype=torch.uint8, device="cuda", generator=generator)
        if pace == "60":
            due += 1 / 60
            time.sleep(max(0, due - time.monotonic()))
        with sender.acquire(timeout=%d) as frame:
            frame.pts = time.monotonic_ns()
            if pace != "words":
                torch.from_dlpack(frame).copy_(picture)
    print((time.process_time() - cpu) / count * 1e6, sender.info["copies_cpu"], sender.info["copies_gpu"])
    sender.send_eos()
""" % (MEDIA, DEADLINE, HEIGHT, WIDTH, DEADLINE)

RELAY = """
import sys, time, torch, gpudirect
with gpudirect.Receiver(sys.argv[1], device="cuda:0") as receiver, \\
        gpudirect.Sender(sys.argv[2], media=%r, device="cuda:0", slots=8) as sender:
    sender.wait(timeout=%d)
    cpu = frames = 0
    for frame in receiver:
        frames += 1
        cpu = cpu or time.process_time()
        with sender.acquire(timeout=%d) as lent:
            torch.bitwise_not(torch.from_dlpack(frame), out=torch.from_dlpack(lent))
            lent.pts = frame.pts
    print((time.process_time() - cpu) / frames * 1e6)
    sender.send_eos()
""" % (MEDIA, DEADLINE, DEADLINE)

# Boxes of a detector, lent and sent in turn, from memory of torch's allocator.
DETECT = """
import sys, torch, gpudirect
address, count = sys.argv[1], int(sys.argv[2])
media = [gpudirect.tensor("bfloat16", (64, 6), "boxes", batch=True), gpudirect.tensor("int64", (64,), "classes",
         batch=True)]
with gpudirect.Sender(address, media=media, device="cuda:0", slots=4, slow_receiver="block") as sender:
    sender.wait(timeout=%d)
    for number in range(count):
        generator = torch.Generator("cuda").manual_seed(number)
        batch = number %% 65
        boxes = torch.randn(batch, 6, device="cuda", generator=generator).to(torch.bfloat16)
        classes = torch.randint(0, 80, (batch,), device="cuda", generator=generator)
        if number %% 2:
            sender.send({"boxes": boxes, "classes": classes}, timeout=%d)
        else:
            with sender.acquire(timeout=%d) as frame:
                frame.batch = batch
                torch.from_dlpack(frame.tensors["boxes"]).copy_(boxes)
                torch.from_dlpack(frame.tensors["classes"]).copy_(classes)
    print(sender.info["copies"], sender.info["copies_cpu"], sender.info["copies_gpu"])
    sender.send_eos()
""" % (DEADLINE, DEADLINE, DEADLINE)
ALLOCATORS = {"caching": "", "expandable segments": "expandable_segments:True"}


def expected(number):
    generator = torch.Generator("cuda").manual_seed(number)
    return torch.randint(0, 256, (HEIGHT, WIDTH, 4), dtype=torch.uint8, device="cuda", generator=generator)


def whole_torch(frame, number):
    return torch.equal(torch.from_dlpack(frame), expected(number))


def whole_cupy(frame, number):
    import cupy
    return bool((cupy.from_dlpack(frame) == cupy.from_dlpack(expected(number))).all())


def whole_jax(frame, number):
    import jax
    return bool((jax.dlpack.from_dlpack(frame) == jax.dlpack.from_dlpack(expected(number))).all())


def check(name, is_whole):
    if not importlib.util.find_spec(name):
        print(f"{name:8} is not installed: skipped")
        return True
    with process(SEND, f"check-{name}", str(CHECKED), "check") as child, \
            gpudirect.Receiver(f"check-{name}", device="cuda:0", timeout=DEADLINE, allow_old_dlpack=True) as receiver:
        wrong = [number for number, frame in enumerate(receiver) if not is_whole(frame, number)]
        info = receiver.info
        out = finish(child).split()
    copies = [info["copies_cpu"], info["copies_gpu"], int(out[1]), int(out[2])]
    right = not wrong and copies == [0] * 4 and info["frames"] == CHECKED
    print(f"{name:8} {info['frames']} frames, wrong {wrong}, copies {copies}: {'ok' if right else 'WRONG'}")
    return right


def boxes_right(frame, number):
    generator, batch = torch.Generator("cuda").manual_seed(number), number % 65
    boxes = torch.randn(batch, 6, device="cuda", generator=generator).to(torch.bfloat16)
    classes = torch.randint(0, 80, (batch,), device="cuda", generator=generator)
    return frame.batch == batch and torch.equal(torch.from_dlpack(frame.tensors["boxes"]), boxes) and \
        torch.equal(torch.from_dlpack(frame.tensors["classes"]), classes)


def check_tensors(allocator, own):
    """own: the frames arrive in torch's memory, by a copy of the receiver's."""
    memory = {}

    def alloc(slot, size):
        memory[slot] = torch.empty(size, dtype=torch.uint8, device="cuda")
        return memory[slot].data_ptr()
    name = f"tensors-{allocator.split()[0]}-{own}"
    with process(DETECT, name, str(CHECKED), PYTORCH_CUDA_ALLOC_CONF=ALLOCATORS[allocator],
                 PYTORCH_ALLOC_CONF=ALLOCATORS[allocator]) as child, \
            gpudirect.Receiver(name, device="cuda:0", timeout=DEADLINE, allow_old_dlpack=True,
                               alloc=alloc if own else None) as receiver:
        wrong = [number for number, frame in enumerate(receiver) if not boxes_right(frame, number)]
        info, out = receiver.info, finish(child).split()
    right = not wrong and info["frames"] == CHECKED and out == [str(CHECKED // 2 * 2), "0", "0"] and \
        info["copies_cpu"] == 0 and info["copies_gpu"] == (CHECKED + 1 if own else 0)  # one is the test of the link
    print(f"tensors  {info['frames']} frames of a sender with {allocator}{', into torch memory' if own else ''}: wrong "
          f"{wrong}, sent by torch's copy {out[0]}, copies by the library {info['copies_gpu']}, route {info['path']}: "
          f"{'ok' if right else 'WRONG'}")
    return right


def measure(pace, count):
    """Frames a second, the CPU's µs at both ends, and the ages of the frames in µs."""
    with process(SEND, f"timed-{pace}", str(count), pace) as child, \
            gpudirect.Receiver(f"timed-{pace}", device="cuda:0", timeout=DEADLINE, allow_old_dlpack=True) as receiver:
        ages = []
        for frame in receiver:
            if not ages:
                start, cpu = time.monotonic(), time.process_time()
            torch.from_dlpack(frame)
            ages.append((time.monotonic_ns() - frame.pts) / 1e3)
        rate = (len(ages) - 1) / (time.monotonic() - start)
        own = (time.process_time() - cpu) / len(ages) * 1e6
        return rate, float(finish(child).split()[0]), own, ages


def relay():
    with process(RELAY, "relay-in", "relay-out") as between, process(SEND, "relay-in", str(PACED), "60") as child, \
            gpudirect.Receiver("relay-out", device="cuda:0", timeout=DEADLINE, allow_old_dlpack=True) as receiver:
        ages = []
        for frame in receiver:
            torch.from_dlpack(frame)
            ages.append((time.monotonic_ns() - frame.pts) / 1e3)
        finish(child)
        return ages, float(finish(between))


def ceiling():
    """Copies a second of such a picture, as torch makes them."""
    one, two = (torch.zeros(HEIGHT, WIDTH, 4, dtype=torch.uint8, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    start = time.monotonic()
    for _ in range(TIMED):
        two.copy_(one)
    torch.cuda.synchronize()
    return TIMED / (time.monotonic() - start)


torch = support.need("torch")
if not torch.cuda.is_available():
    print("skipped: torch has no CUDA device")
    sys.exit(77)
right = all([check("torch", whole_torch), check("cupy", whole_cupy), check("jax", whole_jax),
             *(check_tensors(allocator, own) for allocator in ALLOCATORS for own in (False, True))])
top = ceiling()
for pace in ("copy", "words"):
    rate, sent, received, _ = measure(pace, TIMED)
    print(f"4K RGBA, {pace}: {rate:.0f}/s (torch's own copy {top:.0f}/s, ratio {rate / top:.2f}), "
          f"CPU {sent:.1f} us sender, {received:.1f} us receiver")
ages = measure("60", PACED)[3]
print(f"4K60: p50 {statistics.median(ages):.0f} us, p99 {statistics.quantiles(ages, n=100)[98]:.0f} us "
      "until the CPU has it")
through, cpu = relay()
print(f"4K60 through another torch process: p50 {statistics.median(through):.0f} us, "
      f"added {statistics.median(through) - statistics.median(ages):.0f} us, its CPU {cpu:.0f} us a frame")
sys.exit(0 if right else 1)
