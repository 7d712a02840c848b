# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Arrays of other libraries, for Sender.send()."""

import sys

from .errors import Invalid

CPU = 1  # DLPack's type of device
KINDS = {"int": "bhilqn", "uint": "BHILQN", "float": "efd"}


def as_buffer(array):
    """A memoryview of what lies in host memory; None: it lies on a device, or has numbers that numpy has not."""
    try:
        return memoryview(array)
    except TypeError:
        pass
    if hasattr(array, "__dlpack_device__"):
        if array.__dlpack_device__()[0] != CPU:
            return None
    elif not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
        raise TypeError(f"{type(array).__name__} is neither a gpudirect.Frame nor an array: give one that is a buffer, "
                        "or has an array interface or DLPack")
    try:
        import numpy
    except ImportError:
        raise TypeError(f"numpy is needed to read {type(array).__name__}, and missing: install it (Debian: apt install "
                        "python3-numpy)") from None
    try:
        return memoryview(numpy.asarray(array) if hasattr(array, "__array__") or not hasattr(array, "__dlpack__")
                          else numpy.from_dlpack(array))
    except (TypeError, ValueError):
        if hasattr(array, "__dlpack__"):
            return None
        raise


def name_type(buffer):
    """The type of a buffer's elements by numpy's name; the format of module struct if it is not a number."""
    code = buffer.format.lstrip("@=<>!")
    big = buffer.format[0] in ">!" and buffer.itemsize > 1
    for kind, codes in KINDS.items():
        if len(code) == 1 and code in codes:
            return f">{kind[0]}{buffer.itemsize}" if big else f"{kind}{8 * buffer.itemsize}"
    return "bool" if code == "?" else buffer.format


def copy_on_device(target, array, device):
    """Lets the array's own library copy it into a lent frame, or a tensor of it, on the library's current stream."""
    name = type(array).__module__.partition(".")[0]
    if array.__dlpack_device__() != target.__dlpack_device__() and name != "torch":
        raise Invalid(f"the array lies on another device (DLPack's {array.__dlpack_device__()}) than the sender's "
                      f"frames, which are on {device}: move it there, or give the sender its device")
    library = sys.modules[name]
    if not hasattr(library, "from_dlpack"):
        raise TypeError(f"{name} has no from_dlpack(), which copies into the frame: write into one of acquire()")
    into = library.from_dlpack(target)
    if tuple(array.shape) != tuple(into.shape) or array.dtype != into.dtype:
        raise Invalid(f"an array of {tuple(array.shape)} {array.dtype} does not fit into frames of {target.shape} "
                      f"{target.dtype}")
    into[...] = array
