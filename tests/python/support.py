# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the tests of the package share: other processes, and capsules as a consumer sees them."""

import atexit
import contextlib
import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
import time
import unittest

DEADLINE = 60
RGBA = "video/x-raw,format=RGBA,width=64,height=36,framerate=60/1"

# Addresses of this test alone. Set before the package is used.
_folder = tempfile.TemporaryDirectory(prefix="gpud-")
os.environ["XDG_RUNTIME_DIR"] = _folder.name
atexit.register(_folder.cleanup)


def need(name, package=None):
    """A module that the whole test needs, of a package that may have another name."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"skipped: {error}: install it (Debian: apt install python3-{package or name})")
        sys.exit(77)


def until(what, holds):
    """Waits for a condition that another thread or process makes true."""
    end = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {DEADLINE} s")
        time.sleep(0.005)


@contextlib.contextmanager
def process(code, *args, **env):
    """Another interpreter that runs this text, and is gone at the end of the block."""
    child = subprocess.Popen([sys.executable, "-c", code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, env=os.environ | env)
    try:
        yield child
    finally:
        child.kill()
        child.wait(DEADLINE)
        child.stdin.close()
        child.stdout.close()


def finish(child):
    """Standard output of a process that ends by itself."""
    out, _ = child.communicate(timeout=DEADLINE)
    if child.returncode != 0:
        raise AssertionError(f"a process ends with {child.returncode}: {out}")
    return out


# --- capsules

class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    pass


Managed._fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p),
                    ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed)))]


class Versioned(ctypes.Structure):
    pass


Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                      ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))), ("flags", ctypes.c_uint64),
                      ("tensor", Tensor)]

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]

USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


def consume(capsule, versioned):
    """The struct of a capsule, which is the caller's to delete() from now on."""
    name = b"dltensor_versioned" if versioned else b"dltensor"
    struct = Versioned if versioned else Managed
    managed = struct.from_address(_get_pointer(capsule, name))
    _set_name(capsule, USED[name])
    return managed


def delete(managed):
    """As a consumer in C++ does: without the GIL, which ctypes drops for the call."""
    managed.deleter(ctypes.byref(managed))


class Case(unittest.TestCase):
    """A test with addresses of its own."""

    def setUp(self):
        self.address = self.id().rsplit(".", 1)[-1].replace("_", "-")[:60]

    def refuses(self, kind, text, call, *args, **named):
        """The call raises this class with a sentence that has this text."""
        with self.assertRaises(kind) as raised:
            call(*args, **named)
        self.assertIn(text, str(raised.exception))
        return raised.exception


def main():
    unittest.main(verbosity=2)
