#!/usr/bin/python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames from one process to others by torch.multiprocessing, counted as gpudirect-bench counts its own: as many frames
in flight as there are slots, marks in eight rows and at the end that each receiver reads and checks, latency from
putting a tensor into the queue to having read its marks, CPU time of a frame by the process's own clock. Prints a line
of JSON for each run: frames/s as fast as they go, and all else at a pace."""

import argparse
import json
import sys
import time

import numpy
import torch
import torch.multiprocessing

ROWS, MARK = 8, 16  # marked rows, and bytes of a mark
DEADLINE = 30  # seconds
WHILE = 0.3
WARMUP = 8  # frames that are not counted
END = -1


def mark_of(index):
    return numpy.frombuffer(b"gpud" + index.to_bytes(8, "little") + b"\0\0\0\0", numpy.uint8)


def marked(tensor, options):
    """The places of a frame's marks, as views of the tensor."""
    stride = options.width * 2
    step = (options.height - 1) // (ROWS - 1) * stride
    starts = [*range(0, ROWS * step, step), options.height * stride - MARK]
    return [tensor[start:start + MARK] for start in starts]


def receive(options, frames, room, results):
    torch.set_num_threads(1)
    results.put(None)
    latencies, damaged, index, cpu, begun, end = [], 0, 0, 0, 0, 0
    while (item := frames.get(timeout=DEADLINE))[1] != END:
        tensor, index, sent = item
        read = [place.cpu().numpy() for place in marked(tensor, options)]
        now = time.monotonic_ns()
        damaged += any(not numpy.array_equal(place, mark_of(index)) for place in read)
        del tensor, read
        room.release()
        if index == WARMUP:
            begun, cpu = now, time.process_time_ns()
        elif index > WARMUP:
            latencies.append((now - sent) / 1e3)
            end = now
    results.put({"latencies": latencies, "damaged": damaged + abs(index - WARMUP - len(latencies)),
                 "cpu": (time.process_time_ns() - cpu) / 1e3 / len(latencies),
                 "fps": len(latencies) * 1e9 / (end - begun)})


def send(options, fps, queues, rooms):
    """CPU time of a frame in microseconds. fps: 0: for a while, as fast as the receivers take them."""
    slots = [torch.zeros(options.width * 2 * options.height, dtype=torch.uint8, device=options.device)
             for _ in range(options.slots)]
    if options.device == "cpu":
        slots = [slot.share_memory_() for slot in slots]
    places = [marked(slot, options) for slot in slots]
    begun, cpu, index = time.monotonic(), 0, 0
    while index < WARMUP + options.frames or not fps and time.monotonic() - begun < WHILE:
        index += 1
        if index == WARMUP + 1:
            begun, cpu = time.monotonic(), time.process_time_ns()
        if fps:
            due = begun + (index - (WARMUP if index > WARMUP else 0)) / fps
            time.sleep(max(due - time.monotonic(), 0))
        for room in rooms:
            if not room.acquire(timeout=DEADLINE):
                sys.exit("a receiver takes no more frames")
        mark = torch.from_numpy(mark_of(index).copy())
        for place in places[index % options.slots]:
            place.copy_(mark)
        if options.device != "cpu":
            torch.cuda.synchronize()
        sent = time.monotonic_ns()
        for queue in queues:
            queue.put((slots[index % options.slots], index, sent))
    used = (time.process_time_ns() - cpu) / 1e3 / (index - WARMUP)
    for room in rooms * options.slots:  # all frames are back: their memory may go
        room.acquire(timeout=DEADLINE)
    for queue in queues:
        queue.put((None, END, 0))
    return used


def measure(options, fps, context):
    queues = [context.Queue() for _ in range(options.receivers)]
    rooms = [context.Semaphore(options.slots) for _ in queues]
    results = context.Queue()
    processes = [context.Process(target=receive, args=(options, queue, room, results), daemon=True)
                 for queue, room in zip(queues, rooms)]
    for process in processes:
        process.start()
    for _ in processes:
        results.get(timeout=DEADLINE)  # it is ready
    sender = send(options, fps, queues, rooms)
    found = [results.get(timeout=DEADLINE) for _ in processes]
    for process in processes:
        process.join(DEADLINE)
    latencies = sorted(latency for one in found for latency in one["latencies"])
    p50, p99 = (latencies[min(len(latencies) * share // 100, len(latencies) - 1)] for share in (50, 99))
    fps, cpu, damaged = (sum(one[key] for one in found) for key in ("fps", "cpu", "damaged"))
    return {"fps": fps / len(found), "latency_us_p50": p50, "latency_us_p99": p99, "sender_cpu_us": sender,
            "receiver_cpu_us": cpu / len(found), "damaged": damaged}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(",")[0])
    for name, usual in (("width", 1920), ("height", 1080), ("frames", 60), ("slots", 4), ("receivers", 1),
                        ("runs", 3), ("fps", 60)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # CUDA does not work in a forked process.
    context = torch.multiprocessing.get_context("fork" if options.device == "cpu" else "spawn")
    for _ in range(options.runs):
        fast, paced = measure(options, 0, context), measure(options, options.fps, context)
        print(json.dumps(paced | {"fps": fast["fps"], "damaged": fast["damaged"] + paced["damaged"]}), flush=True)


if __name__ == "__main__":
    main()
