#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""torch-detect.py [FROM [TO [DEVICE]]]: finds the brightest region of each RGBA picture and draws a box around it, on
the device where the pictures are. Frames arrive and leave without a copy to the host. A sender that vanishes is waited
for."""

import sys

import gpudirect

try:
    import torch
except ImportError:
    sys.exit("torch-detect.py needs torch, which is missing: install it (Debian: apt install python3-torch)")

source, target, device = (sys.argv[1:] + ["demo", "detected", "auto"][len(sys.argv) - 1:])[:3]
SIZE = 32


def brightest(picture):
    """Row and column of the brightest square of SIZE pixels; on the device, and one transfer of two numbers."""
    gray = picture[..., :3].float().mean(dim=2)[None, None]
    means = torch.nn.functional.avg_pool2d(gray, SIZE)[0, 0]
    place = int(means.argmax())
    return SIZE * (place // means.shape[1]), SIZE * (place % means.shape[1])


sender = None
with gpudirect.Receiver(source, device=device, allow_old_dlpack=True) as receiver:
    for frame in receiver:
        if frame.format != "RGBA":
            sys.exit(f"pictures are {frame.format}: torch-detect.py takes RGBA")
        if sender is None:
            sender = gpudirect.Sender(target, media=frame.media, device=frame.device)
        elif sender.media != frame.media:
            sender.configure(frame.media)
        picture = torch.from_dlpack(frame)
        row, column = brightest(picture)
        with sender.acquire() as lent:
            drawn = torch.from_dlpack(lent)
            drawn.copy_(picture)
            red = torch.tensor([255, 0, 0, 255], dtype=torch.uint8, device=drawn.device)
            drawn[row:row + 2, column:column + SIZE] = red
            drawn[row + SIZE - 2:row + SIZE, column:column + SIZE] = red
            drawn[row:row + SIZE, column:column + 2] = red
            drawn[row:row + SIZE, column + SIZE - 2:column + SIZE] = red
            lent.pts = frame.pts
        del picture, drawn
if sender is not None:
    sender.send_eos()
    sender.close()
