#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""torch-boxes.py [FROM [TO [DEVICE]]]: finds bright regions of each RGBA picture, and sends the picture on, as it is,
with their boxes in a second stream of the programme: cam1 and cam1/boxes, each pair with one time. Receive both by
gpudirect.Group(["cam1", "cam1/boxes"])."""

import sys

import gpudirect

try:
    import torch
except ImportError:
    sys.exit("torch-boxes.py needs torch, which is missing: install it (Debian: apt install python3-torch)")

source, target, device = (sys.argv[1:] + ["demo", "cam1", "auto"][len(sys.argv) - 1:])[:3]
SIZE, BOXES = 32, 64
LAYOUT = gpudirect.tensor("float32", (BOXES, 5), "boxes", batch=True)  # left, top, right, bottom, brightness


def detect(picture):
    """Up to BOXES squares that are brighter than others, the brightest first. Yours would be a network."""
    gray = picture[..., :3].float().mean(dim=2)[None, None]
    means = torch.nn.functional.avg_pool2d(gray, SIZE)[0, 0]
    score, place = means.flatten().sort(descending=True)
    place = place[score > means.mean() + 32][:BOXES]
    left, top = SIZE * (place % means.shape[1]), SIZE * torch.div(place, means.shape[1], rounding_mode="floor")
    return torch.stack([left, top, left + SIZE, top + SIZE, score[:len(place)]], dim=1).float()


pictures = boxes = None
with gpudirect.Receiver(source, device=device, allow_old_dlpack=True) as receiver:
    for frame in receiver:
        if frame.format != "RGBA":
            sys.exit(f"pictures are {frame.format}: torch-boxes.py takes RGBA")
        if pictures is None:
            pictures = gpudirect.Sender(target, media=frame.media, device=frame.device)
            boxes = gpudirect.Sender(target + "/boxes", media=LAYOUT, device=frame.device)
        elif pictures.media != frame.media:
            pictures.configure(frame.media)
        found = detect(torch.from_dlpack(frame))
        boxes.send(found, pts=frame.pts)
        pictures.submit(frame)  # its own slot, which is not copied
for sender in (pictures, boxes):
    if sender:
        sender.send_eos()
        sender.close()
