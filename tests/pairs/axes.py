# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a pipeline of the pairs can be, which combinations cannot, and those that failed once."""

AXES = {
    # coded: a codec's units, of which four in five depend on those before; programme: pictures, sound, tensors, units
    "media": ["picture", "sound", "ancillary", "klv", "tensors", "coded", "programme"],
    # map: host to host; staged: OpenCL to host; opencl: OpenCL to OpenCL; cuda: CUDA to CUDA, on the fake driver; tcp:
    # as between hosts, with a key
    "route": ["map", "staged", "opencl", "cuda", "tcp"],
    # programme: received by gpudirectprogramsrc; group: two channels, received in step
    "handover": ["plain", "backup", "group", "standby", "programme"],
    # file: not live, and so nothing may be lost; the others are live, with their policy
    "pace": ["file", "live", "live-block", "live-newest", "live-oldest"],
    # direct: an appsink; late: a tee whose other branch is 200 ms late; hold: a queue that holds 200 ms; record: a
    # file; keep: an appsink whose application keeps the last buffers
    "downstream": ["direct", "late", "hold", "record", "keep"],
    # caps: three changes, the last one just before the end; restart: the sender is killed, and another one begins;
    # eos: it ends its stream, and begins another; switch: the receiver changes to another sender, and back
    "change": ["none", "caps", "device", "restart", "eos", "switch"],
    # metas: one of 30 KiB with each buffer; lines: pictures are sent, and read, while they are written
    "extra": ["none", "metas", "lines"],
    # sender and receiver: GStreamer's elements, or the C library's and the Python package's programs
    "ends": ["gst-gst", "c-gst", "gst-c", "python-gst", "gst-python", "python-python"],
}


def _core(p, side=None):
    """Whether an end (0: the sender, 1: the receiver; None: any) is a program of the library's, not an element."""
    ends = p["ends"].split("-")
    return any(end != "gst" for end in (ends if side is None else [ends[side]]))


def _blocks(p):
    return p["media"] not in ("picture", "programme")


# Each: the reason, and what has it. A reason is a property of the product or of the end's program, never a failure.
EXCLUDED = [
    ("sound and data lie in host memory whatever the device is",
     lambda p: _blocks(p) and p["route"] not in ("map", "tcp")),
    ("an address of a network cannot be taken over", lambda p: p["handover"] == "standby" and p["route"] == "tcp"),
    ("a group holds pictures alone", lambda p: p["handover"] == "group" and p["media"] != "picture"),
    ("a file that stands by is over before the other one ends",
     lambda p: p["handover"] == "standby" and p["pace"] == "file" and p["change"] in ("restart", "eos")),
    ("two files begin whenever they do: they have no common instants",
     lambda p: p["pace"] == "file" and (p["handover"] == "group"
                                        or (p["handover"] == "backup" and p["change"] in ("restart", "eos")))),
    ("KLV and ancillary data have one format",
     lambda p: p["media"] in ("klv", "ancillary") and p["change"] == "caps"),
    ("only the sink's ring moves, to a GPU whose memory comes, and back",
     lambda p: p["change"] == "device" and (p["route"] != "cuda" or _core(p) or p["media"] != "picture")),
    ("a source with a backup, and a group, do not follow a sender's device",
     lambda p: p["change"] == "device" and p["handover"] in ("backup", "group", "standby")),
    ("a source with a backup has no other address while it plays",
     lambda p: p["change"] == "switch" and p["handover"] == "backup"),
    ("a receiver that changes to another sender begins with its newest picture",
     lambda p: p["change"] == "switch" and p["pace"] == "file"),
    ("only pictures have lines", lambda p: p["extra"] == "lines" and p["media"] != "picture"),
    ("the elements send whole pictures", lambda p: p["extra"] == "lines" and not _core(p, 0)),
    ("custom metas are GStreamer's", lambda p: p["extra"] == "metas" and _core(p)),
    ("a backup or group of pictures is compared whole",
     lambda p: p["extra"] == "lines" and p["handover"] in ("backup", "group")),
    ("the programs of the library send and receive one stream, on the host",
     lambda p: _core(p) and p["media"] not in ("picture", "sound", "tensors", "coded")),
    ("the programs of the library send from the host", lambda p: _core(p, 0) and p["route"] not in ("map", "tcp")),
    ("the programs of the library receive on the host",
     lambda p: _core(p, 1) and p["route"] not in ("map", "staged", "tcp")),
    ("the programs of the library have one peer, and end with it",
     lambda p: _core(p) and (p["handover"] not in ("plain", "programme") or p["change"] in ("restart", "eos"))),
    ("a pipeline's elements are behind gpudirectsrc",
     lambda p: _core(p, 1) and (p["downstream"] not in ("direct", "keep") or p["handover"] == "programme")),
    ("a file of raw bytes has one format, and no place for metas",
     lambda p: p["downstream"] == "record" and (p["change"] == "device" or p["extra"] == "metas")),
]


# Pipelines that failed once, whole, in the order of the axes; and two that lose by their policy, as they should.
FOUND = [
    "picture map plain live-newest direct none none gst-gst",
    "picture map plain live-oldest direct none none gst-gst",
    "sound map backup live direct none none gst-gst",
    "sound map backup live direct restart none gst-gst",
    "ancillary map backup live direct none none gst-gst",
    "klv map backup live direct none none gst-gst",
    "programme map programme live direct restart none gst-gst",
    "picture map plain live late none none gst-gst",
    "picture map plain live hold none none gst-gst",
    "picture map plain live keep none none gst-gst",
    "picture map plain live direct caps none gst-gst",
    "picture map plain live record caps none gst-gst",
    "sound map plain live direct caps none gst-gst",
    "picture opencl plain live direct caps none gst-gst",
    "picture cuda plain live direct caps none gst-gst",
    "picture map backup live direct caps none gst-gst",
    "klv map plain live direct none none gst-gst",
    "picture cuda plain live-block hold none metas gst-gst",
    "picture map plain live keep none none c-gst",
    "picture map backup file keep none none gst-gst",
    "coded map plain file direct caps none python-gst",
    "ancillary map plain live direct switch none gst-gst",
]
