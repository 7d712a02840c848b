# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Tensors as a media: what tensor() returns, and the caps of it."""

import math
import re
import typing

ALIGNMENT = 256  # of each tensor in its frame, as DLPack wishes


class _Tensor(typing.NamedTuple):
    """What tensor() returns: the media of a stream, or, in a list, one of several tensors that travel together."""

    type: str
    shape: tuple
    name: str = ""
    batch: bool = False


def tensor(type, shape, name="", *, batch=False):
    """A tensor, for Sender(media=): tensor("float32", (64, 6), "boxes").

    type   of the elements: numpy's name, "bfloat16", "float8_e4m3fn", …, or a dtype of a library
    shape  lengths of up to 8 dimensions
    name   by which Frame.tensors has it; without one, a tensor alone has the last part of the sender's address
    batch  the first dimension is a batch, of which a frame may have less: see Frame.batch
    """
    return _Tensor(getattr(type, "__name__", str(type)).rpartition(".")[2], tuple(int(size) for size in shape), name,
                  bool(batch))


def _bytes(one):
    bits = re.search(r"\d+", one.type)
    return (int(bits.group()) // 8 if bits else 1) * math.prod(one.shape)


def to_caps(media, address):
    """The text of a media; None and texts are theirs."""
    if media is None or isinstance(media, str):
        return media
    tensors = [media] if isinstance(media, _Tensor) else list(media)
    last = re.split("[/@]", address)[-1]
    if len(tensors) == 1 and not tensors[0].name and re.fullmatch("[a-zA-Z][-a-zA-Z0-9_.+]{,30}", last):
        tensors = [tensors[0]._replace(name=last)]
    # A frame's bytes in use say how full the batch is, so that tensors that have it come last.
    offsets, end = {}, 0
    for i in sorted(range(len(tensors)), key=lambda i: tensors[i].batch):
        offsets[i] = -(-end // ALIGNMENT) * ALIGNMENT
        end = offsets[i] + _bytes(tensors[i])
    fields = {
        "dimensions": [":".join(str(size) for size in reversed(one.shape)) for one in tensors],
        "types": [one.type for one in tensors],
        "names": [one.name for one in tensors],
        "offsets": [str(offsets[i]) for i in range(len(tensors))],
    }
    text = "".join(f', {name}=(string)"{",".join(values)}"' for name, values in fields.items() if any(values))
    batch = sum(one.batch << i for i, one in enumerate(tensors))
    return f"other/tensors, format=static, num_tensors={len(tensors)}{text}" + \
        (f", batch=(bitmask){batch:#x}" if batch else "")
