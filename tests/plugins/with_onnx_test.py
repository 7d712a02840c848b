# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""GStreamer's elements for inference (1.26) in three processes: a network adds tensors to each picture, a decoder turns
them into objects, and an overlay draws these. All three in one process draw the same."""

import pathlib
import struct

from chains import Chain, check, end_of, folder, free_port, need

WIDTH, HEIGHT, COUNT = 64, 48, 12
FLOAT, UINT8 = 1, 2


def field(number, value):
    """One of Protocol Buffers: a number of 7 bits, or up to 16383 bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(data) & 127 | 128, len(data) >> 7]) + data


def declare(name, kind, *dims):
    """An input or an output of a network."""
    shape = b"".join(field(1, field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def network(outputs):
    """An ONNX model that takes a picture and returns constants: {name: (dimensions, numbers)}."""
    graph = field(2, "constants") + field(11, declare("picture", UINT8, 1, HEIGHT, WIDTH, 4))
    for name, (dims, numbers) in outputs.items():
        values = b"".join(field(1, dim) for dim in dims) + field(2, FLOAT) + field(8, f"{name}_value")
        graph += field(5, values + field(9, struct.pack(f"<{len(numbers)}f", *numbers)))
        graph += field(1, field(1, f"{name}_value") + field(2, name) + field(4, "Identity"))
        graph += field(12, declare(name, FLOAT, *dims))
    return field(1, 8) + field(8, field(1, "") + field(2, 13)) + field(7, graph)


INFER = ["videotestsrc", f"num-buffers={COUNT}", "pattern=snow", "!",
         f"video/x-raw,format=RGBA,width={WIDTH},height={HEIGHT},framerate=10/1", "!",
         "onnxinference", "model-file=model.onnx", "!"]
DECODE = ["ssdobjectdetector", "label-file=labels", "!"]
# Directly behind a source that has no caps at its start, the overlay of 1.26 refuses the first picture: its handler of
# caps does not call that of its base class, which takes the pending reconfiguration as done.
OVERLAY = ["videoconvert", "!", "objectdetectionoverlay", "!"]


def sink(address, *more):
    return ["gpudirectsink", f"address={address}", "sync=false", "slow-receiver=block", "wait-for-connection=true",
            *more]


def pictures(name):
    data = pathlib.Path(name).read_bytes()
    check(len(data) == COUNT * WIDTH * HEIGHT * 4, f"{name} has {len(data)} bytes")
    return data


def check_one_process():
    with Chain() as chain:
        end_of(chain.start("plain", *INFER, "filesink", "location=plain.raw"), "plain")
        end_of(chain.start("alone", *INFER, *DECODE, *OVERLAY, "filesink", "location=alone.raw"), "alone")
    check(pictures("alone.raw") != pictures("plain.raw"), "the overlay draws nothing")


def check_processes(name, tensors, objects, *more):
    """At the address `tensors` the pictures have tensors, at `objects` objects, too."""
    with Chain() as chain:
        show = chain.start("show", "gpudirectsrc", f"address={objects}", "!", *OVERLAY, "filesink", f"location={name}")
        decode = chain.start("decode", "gpudirectsrc", f"address={tensors}", "!", *DECODE, *sink(objects, *more))
        infer = chain.start("infer", *INFER, *sink(tensors, *more))
        for process, what in ((infer, "infer"), (decode, "decode"), (show, "show")):
            end_of(process, what)
        check(pictures(name) == pictures("alone.raw"), f"{name} is drawn in another way than in one process")


need({name: "gstreamer1.0-plugins-bad of GStreamer 1.26 or later" for name in (
    "onnxinference", "ssdobjectdetector", "objectdetectionoverlay")})
with folder():
    pathlib.Path("labels").write_text("cat\ndog\n", encoding="ascii")
    pathlib.Path("model.onnx").write_bytes(network({
        "detection_boxes": ((1, 2, 4), (0.1, 0.1, 0.5, 0.5, 0.25, 0.5, 0.75, 0.875)),
        "detection_scores": ((1, 2), (0.75, 0.5)), "detection_classes": ((1, 2), (0, 1)),
        "num_detections": ((1,), (2,))}))
    check_one_process()
    check_processes("here", "tensors", "objects")
    check_processes("tcp", *(f"tcp://127.0.0.1:{free_port()}/{name}" for name in ("tensors", "objects")),
                    "allow-unauthenticated=true", "announce=false")
