#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""numpy-generate.py [ADDRESS [FRAMES]]: sends a moving gradient, drawn by numpy into the frames themselves."""

import sys
import time

import gpudirect
import numpy as np

address = sys.argv[1] if len(sys.argv) > 1 else "demo"
frames = int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize
width, height, rate = 640, 360, 30

columns = (np.arange(width) % 256).astype(np.uint8)
rows = (np.arange(height) % 256).astype(np.uint8)[:, None]

media = f"video/x-raw,format=RGBA,width={width},height={height},framerate={rate}/1"
with gpudirect.Sender(address, media=media, device="host") as sender:
    sender.wait()
    begin = time.monotonic()
    for number in range(frames):
        # By the time since the first frame: pauses of 1/30 s would add up with the time that drawing takes.
        time.sleep(max(0, begin + number / rate - time.monotonic()))
        with sender.acquire() as frame:
            picture = np.asarray(frame)
            picture[..., 0] = columns + np.uint8(number % 256)
            picture[..., 1] = rows
            picture[..., 2] = number % 256
            picture[..., 3] = 255
            frame.pts = number * 1_000_000_000 // rate
