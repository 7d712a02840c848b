#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""opencv-view.py [ADDRESS]: shows a channel of RGBA or BGRA pictures in a window of OpenCV; q closes it."""

import sys

import gpudirect

try:
    import cv2
except ImportError:
    sys.exit("opencv-view.py needs OpenCV, which is missing: install it (Debian: apt install python3-opencv)")
import numpy as np

TO_BGR = {"RGBA": cv2.COLOR_RGBA2BGR, "RGBx": cv2.COLOR_RGBA2BGR, "BGRA": cv2.COLOR_BGRA2BGR,
          "BGRx": cv2.COLOR_BGRA2BGR, "RGB": cv2.COLOR_RGB2BGR, "UYVY": cv2.COLOR_YUV2BGR_UYVY,
          "YUY2": cv2.COLOR_YUV2BGR_YUY2}

with gpudirect.Receiver(sys.argv[1] if len(sys.argv) > 1 else "demo", device="host",
                        slow_receiver="drop-oldest") as receiver:
    for frame in receiver:
        if frame.format not in TO_BGR:
            sys.exit(f"pictures are {frame.format}: opencv-view.py shows {', '.join(TO_BGR)}")
        cv2.imshow("gpudirect", cv2.cvtColor(np.asarray(frame), TO_BGR[frame.format]))
        if cv2.waitKey(1) == ord("q"):
            break
