#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""torch-train.py [ADDRESS [DEVICE]]: trains a small network on the pictures of a channel while it runs, on the device
where they arrive: it learns to restore each picture from a sixteenth of its pixels. It ends with the stream."""

import sys

import gpudirect

try:
    import torch
except ImportError:
    sys.exit("torch-train.py needs torch, which is missing: install it (Debian: apt install python3-torch)")

source, device = (sys.argv[1:] + ["cam1", "auto"][len(sys.argv) - 1:])[:2]


class Pictures(torch.utils.data.IterableDataset):
    """RGBA pictures as colours × rows × columns. Each is a copy, in floats, and its frame is given back at once."""

    def __iter__(self):
        with gpudirect.Receiver(source, device=device, allow_old_dlpack=True) as receiver:
            for frame in receiver:
                if frame.format != "RGBA":
                    sys.exit(f"pictures are {frame.format}: torch-train.py takes RGBA")
                yield torch.from_dlpack(frame)[..., :3].permute(2, 0, 1).float() / 255


torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(),
                              torch.nn.Conv2d(16, 3 * 16, 3, padding=1), torch.nn.PixelShuffle(4))
optimizer = torch.optim.Adam(network.parameters(), 0.01)
for step, batch in enumerate(torch.utils.data.DataLoader(Pictures(), batch_size=4)):
    if step == 0:
        network.to(batch.device)
    loss = torch.nn.functional.mse_loss(network(batch), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: {len(batch)} pictures, loss {float(loss):.5f}", flush=True)
