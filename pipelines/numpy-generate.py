#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""numpy-generate.py [ADDRESS [FRAMES]]: sends a moving gradient, drawn by numpy into the frames themselves."""

import sys

import gpudirect
import numpy as np

address = sys.argv[1] if len(sys.argv) > 1 else "demo"
frames = int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize
width, height = 640, 360

columns = (np.arange(width) % 256).astype(np.uint8)
rows = (np.arange(height) % 256).astype(np.uint8)[:, None]

media = f"video/x-raw,format=RGBA,width={width},height={height},framerate=30/1"
with gpudirect.Sender(address, media=media, device="host") as sender:
    sender.wait()
    for number in range(frames):
        with sender.acquire() as frame:
            picture = np.asarray(frame)
            picture[..., 0] = columns + np.uint8(number % 256)
            picture[..., 1] = rows
            picture[..., 2] = number % 256
            picture[..., 3] = 255
            frame.pts = number * 1_000_000_000 // 30
