# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Colours of each format, matrix and range in OBS, by what it shows of a source; a format that it does not have; and PQ
or HLG from a channel through OBS, whose canvas is the same, to a channel."""

import sys

from studio import DEADLINE, Programme, Studio, check, gpudirect, numpy, until

# Luma and chroma of limited range, in 8 bits, and red, green and blue that they are by each matrix.
YUV = (90, 160, 80)
WEIGHTS = {"bt709": (0.2126, 0.0722), "bt601": (0.299, 0.114), "2:4:7:1": (0.299, 0.114)}
FULL = {"bt709": "1:3:5:1", "bt601": "1:4:16:4"}  # as GStreamer writes colorimetry: range, matrix, transfer, primaries
RGB = (200, 60, 30)


def expected(matrix, full):
    red, blue = WEIGHTS[matrix]
    y, u, v = YUV
    luma = y / 255 if full else (y - 16) / 219
    pb, pr = ((c - 128) / (255 if full else 224) for c in (u, v))
    r, b = luma + 2 * (1 - red) * pr, luma + 2 * (1 - blue) * pb
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return [min(max(255 * value, 0), 255) for value in (r, g, b)]


PACKED = {"RGBA": (*RGB, 255), "BGRA": (*RGB[::-1], 255), "BGRx": (*RGB[::-1], 7), "BGR": RGB[::-1]}


def paint(frame, number):
    y, u, v = YUV
    if frame.format in PACKED:
        numpy.asarray(frame)[:] = PACKED[frame.format]
    elif frame.format in ("UYVY", "YUY2"):
        pixels, luma = numpy.asarray(frame), 1 if frame.format == "UYVY" else 0
        pixels[:, :, luma] = y
        pixels[:, 0::2, 1 - luma], pixels[:, 1::2, 1 - luma] = u, v
    elif frame.format == "v210":
        words = [first << 2 | second << 12 | third << 22
                 for first, second, third in ((u, y, v), (y, u, y), (v, y, u), (y, v, y))]
        numpy.asarray(frame.raw).view(numpy.uint32).reshape(-1, 4)[:] = words
    else:
        for name, plane in frame.planes.items():
            plane = numpy.asarray(plane)
            unit = 256 if frame.format.startswith("P0") else 4 if plane.dtype == numpy.uint16 else 1
            if name == "UV":
                plane[:, :, 0], plane[:, :, 1] = u * unit, v * unit
            else:
                plane[:] = {"Y": y, "U": u, "V": v}[name] * unit


CASES = [("I420", "bt709", False), ("NV12", "bt601", False), ("I420", "bt709", True), ("Y42B", "bt709", False),
         ("Y444", "bt601", False), ("UYVY", "bt709", False), ("YUY2", "bt601", False), ("P010_10LE", "bt709", False),
         ("I420_10LE", "bt709", False), ("RGBA", None, True), ("BGRA", None, True), ("BGRx", None, True),
         ("BGR", None, True), ("BGRA", None, False)]


def check_formats():
    with Studio() as studio:
        version = [int(part) for part in studio.ask("GetVersion")["obsVersion"].split(".")]
        cases = CASES + ([("v210", "bt709", False)] if version >= [30, 1] else [])
        for number, (name, matrix, full) in enumerate(cases):
            if matrix:
                color, wanted = FULL[matrix] if full else matrix, expected(matrix, full)
            else:
                color, wanted = ("sRGB", RGB) if full else ("2:1:7:1", [(c - 16) * 255 / 219 for c in RGB])
            with Programme(f"c{number}", format=name, more=f"colorimetry=(string){color}", paint=paint, sound=False):
                studio.add_source(f"s{number}", address=f"c{number}")
                # Of the scene, which has the canvas's colours: obs-websocket gives a deep source's as they are.
                until(f"a picture of {name}", lambda: studio.pixels("One")[100, 100].any())
                pixels = studio.pixels("One")
                found = pixels[100, 100, :3].astype(int)
                check(abs(found - wanted).max() <= 3,
                      f"{name} {color}: {found} instead of {numpy.round(wanted)}")
            studio.ask("RemoveInput", inputName=f"s{number}")
        with Programme("odd", format="ARGB64_LE", more="colorimetry=sRGB", paint=lambda *_: None, sound=False):
            studio.add_source("odd", address="odd")
            until("a sentence about a format that OBS does not have",
                  lambda: "OBS has no such format: convert it" in studio.log.read_text())
    print(f"{len(cases)} formats are shown with the right colours")


def check_hdr(name):
    colorimetry, levels = f"bt2100-{name.lower()}", []

    def paint_level(frame, number):
        for plane_name, plane in frame.planes.items():
            numpy.asarray(plane)[:] = (500 if plane_name == "Y" else 512) << 6

    with Studio(f"ColorFormat=P010\nColorSpace=2100{name}\nColorRange=Partial\nHdrNominalPeakLevel=1000") as studio:
        with Programme("hdr", format="P010_10LE", more=f"colorimetry={colorimetry}", paint=paint_level, sound=False):
            studio.add_source(address="hdr")
            until("a picture", lambda: studio.pixels("programme") is not None)
            studio.vendor("StartOutput", address="out")
            with gpudirect.Receiver("out", device="host", timeout=DEADLINE) as receiver:
                while not levels or abs(levels[-1] - 500) > 4:
                    check(len(levels) < 100, f"{name} of 500 leaves OBS as {levels}")
                    with receiver.acquire() as frame:
                        levels.append(int(numpy.asarray(frame.planes["Y"])[100, 100]) >> 6)
                        check(frame.format == "P010_10LE" and colorimetry in frame.media, frame.media)
            studio.vendor("StopOutput")
    print(f"{name} of 500 leaves OBS as {levels[-1]}")


if __name__ == "__main__":
    check_hdr(sys.argv[1]) if sys.argv[1] in ("PQ", "HLG") else check_formats()
