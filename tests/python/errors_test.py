# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Failures as exceptions with the library's sentence, wrong types for every argument, and waits that neither hold the
GIL nor swallow Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading

import support
from support import DEADLINE, RGBA, Case, process

import gpudirect


class Errors(Case):

    def test_classes(self):
        for kind, base in ((gpudirect.Timeout, TimeoutError), (gpudirect.Invalid, ValueError),
                           (gpudirect.NoMemory, MemoryError), (gpudirect.NoAccess, PermissionError),
                           (gpudirect.PeerLost, ConnectionError), (gpudirect.DeviceFailure, OSError),
                           (gpudirect.Closed, gpudirect.Error), (gpudirect.TakenBack, gpudirect.Error),
                           (gpudirect.AddressInUse, gpudirect.DeviceFailure)):
            self.assertTrue(issubclass(kind, base) and issubclass(kind, gpudirect.Error))

    def test_sentences(self):
        error = self.refuses(gpudirect.Invalid, "is not a device", gpudirect.Receiver, "a", device="nonsense")
        self.assertEqual((error.status, error.native, error.origin), ("invalid", 0, None))
        self.refuses(gpudirect.NoDevice, "", gpudirect.Receiver, "a", device="opencl:77")
        self.refuses(gpudirect.Invalid, "", gpudirect.Receiver, "")
        self.refuses(gpudirect.Invalid, "", gpudirect.Receiver, "a", slots=1000)
        self.refuses(gpudirect.Invalid, "", gpudirect.Sender, "a/b/../c", device="host")
        self.refuses(gpudirect.Invalid, "", gpudirect.Sender, self.address, "nonsense", device="host")
        self.refuses(gpudirect.Invalid, "", gpudirect.Sender, self.address,
                     "video/x-raw,format=ABCD,width=1,height=1", device="host")
        for name, text in (("RGBX", 'it is spelled "RGBx"'), ("bgrx", 'it is spelled "BGRx"'),
                           ("NV12_4L4", "videoconvert ! video/x-raw,format=RGBA"), ("", "name of a format")):
            self.refuses(gpudirect.Invalid, text, gpudirect.Sender, self.address,
                         f"video/x-raw,format=(string)\"{name}\",width=8,height=8", device="host")
        self.refuses(gpudirect.NoDevice, "", gpudirect.Capture, "v4l2:///dev/no-such-card")
        with gpudirect.Sender(self.address, device="host") as sender:
            error = self.refuses(gpudirect.AddressInUse, "another sender has the address", gpudirect.Sender,
                                 self.address, device="host")
            self.assertEqual(error.origin, "errno")
            self.refuses(gpudirect.Invalid, "no format", sender.acquire)
            self.refuses(gpudirect.Timeout, "", sender.wait, 1, timeout=0)
        self.refuses(gpudirect.Closed, "the sender is closed", sender.acquire)
        self.refuses(gpudirect.Closed, "the sender is closed", sender.send_eos)
        self.assertEqual((sender.info["frames"], sender.info["device"]), (0, "host"))
        with gpudirect.Receiver(self.address, device="host") as receiver:
            self.refuses(gpudirect.Timeout, self.address, receiver.acquire, timeout=0)
            self.assertIsNone(receiver.poll())
        for call in (receiver.acquire, receiver.poll, receiver.fileno):
            self.refuses(gpudirect.Closed, "the receiver is closed", call)
        info = receiver.info
        self.assertEqual((info["frames"], info["device"], info["encrypted"]), (0, "host", ""))
        self.assertEqual(list(receiver), [])

    def test_wrong_types(self):
        wrong = [
            (gpudirect.Receiver,), (gpudirect.Receiver, 1), (gpudirect.Receiver, None), (gpudirect.Receiver, b"a"),
            (gpudirect.Receiver, "a", 1), (gpudirect.Sender,), (gpudirect.Sender, 1), (gpudirect.Sender, "a", 1),
            (gpudirect.Capture,), (gpudirect.Capture, 5), (gpudirect.channels, 1), (gpudirect.channels, None, "a"),
            (gpudirect.Frame,), (gpudirect.Plane,),
        ]
        for call, *arguments in wrong:
            with self.assertRaises(TypeError, msg=f"{call} {arguments}"):
                call(*arguments)
        named = {
            gpudirect.Receiver: {"timeout": "a", "name": 1, "slots": "a", "slow_receiver": 1, "route": 1, "access": 1,
                                 "psk_file": 1, "busy_poll": "a", "on_event": 1, "alloc": 1, "device": 1,
                                 "on_disconnect": 1, "tls_certificate": 1, "tls_key": 1, "tls_ca": 1, "nonsense": 1},
            gpudirect.Sender: {"device": 1, "name": 1, "slots": 1.5, "slow_receiver": 1, "route": 1, "access": 1,
                               "psk_file": 1, "tls_certificate": 1, "tls_key": 1, "tls_ca": 1, "nonsense": 1},
            gpudirect.Capture: {"format": 1, "width": "a", "height": 1.5, "fps": "25", "device": 1, "timeout": "a",
                                "slots": "a", "method": 1, "input": 1, "controls": [], "nonsense": 1},
        }
        for call, arguments in named.items():
            for name, value in arguments.items():
                with self.assertRaises(TypeError, msg=f"{call} {name}={value!r}"):
                    call(self.address, **{name: value})
        self.refuses(TypeError, "whole number", gpudirect.Capture, "v4l2:///dev/video0", controls={"a": 1.5})
        self.refuses(ValueError, "drop-oldest", gpudirect.Receiver, "a", slow_receiver="fast")
        self.refuses(ValueError, "at least 0", gpudirect.Receiver, "a", timeout=-1)
        self.refuses(ValueError, "at least 0", gpudirect.Receiver, "a", timeout=float("nan"))
        self.refuses(ValueError, "busy_poll", gpudirect.Receiver, "a", busy_poll=float("inf"))
        self.refuses(ValueError, "null", gpudirect.Receiver, "a\0b")
        self.refuses(ValueError, "null", gpudirect.Receiver, "a", device="host\0")
        self.refuses(ValueError, '"raise" or a function', gpudirect.Receiver, "a", on_disconnect="eos")
        self.refuses(ValueError, "seconds", gpudirect.channels, None, None)

    def test_certificates(self):
        """They reach the library, which refuses them on one host."""
        files = {"tls_certificate": "/c", "tls_key": "/k", "tls_ca": "/a"}
        for name, value in files.items():
            says = name.replace("_", "-") + " is for addresses of other hosts"
            self.refuses(gpudirect.Error, says, gpudirect.Receiver, self.address, **{name: value})
            self.refuses(gpudirect.Error, says, gpudirect.Sender, self.address, **{name: value})
            self.refuses(gpudirect.Error, says, gpudirect.Group, [self.address, "other"], **{name: value})

    def test_wrong_types_of_a_frame(self):
        with gpudirect.Sender(self.address, media=RGBA, device="host") as sender:
            for call, *arguments in ((sender.submit,), (sender.submit, 1), (sender.acquire, "a"), (sender.wait, "a"),
                                     (sender.send_event,), (sender.send_event, "a"), (sender.send_event, 1, 1),
                                     (sender.configure, 1), (sender.set_slow_receiver, 1)):
                with self.assertRaises(TypeError, msg=f"{call} {arguments}"):
                    call(*arguments)
            self.refuses(gpudirect.Invalid, "2048", sender.send_event, 1, bytes(3000))
            frame = sender.acquire(timeout=DEADLINE)
            for name in ("pts", "dts", "duration", "offset", "flags"):
                for value in ("a", 1.5, []):
                    with self.assertRaises(TypeError):
                        setattr(frame, name, value)
                for value in (-1, 1 << 64):
                    with self.assertRaises(ValueError):
                        setattr(frame, name, value)
            with self.assertRaises(TypeError):
                frame.flags = None
            with self.assertRaises(TypeError):
                frame.meta = "text"
            with self.assertRaises(ValueError):
                frame.meta = bytes(705)
            with self.assertRaises(ValueError):
                frame.large_meta = bytes(1048577)
            with self.assertRaises(AttributeError):
                frame.number = 1
            with self.assertRaises(AttributeError):
                del frame.pts
            frame.pts = None
            for arguments in ({"stream": "a"}, {"max_version": 1}, {"max_version": (1,)}, {"max_version": ("a", 0)},
                              {"dl_device": 1}, {"dl_device": (1,)}, {"nonsense": 1}):
                with self.assertRaises(TypeError, msg=str(arguments)):
                    frame.__dlpack__(**arguments)
            self.refuses(TypeError, "positional", frame.__dlpack__, None)
            self.refuses(ValueError, "stream", frame.__dlpack__, stream=-2)
            self.refuses(BufferError, "another device", frame.__dlpack__, dl_device=(2, 0))
            sender.submit(frame)
            for call in (frame.__dlpack__, lambda: frame.raw, lambda: frame.planes, lambda: memoryview(frame),
                         lambda: sender.submit(frame)):
                self.refuses(gpudirect.Invalid, "was submitted", call)

    # --- waiting

    def test_gil_is_released(self):
        """Another thread ends a wait that would last a minute: it needs the GIL for that."""
        receiver = gpudirect.Receiver(self.address, device="host")
        waits = threading.Event()
        raised = []

        def wait():
            waits.set()
            try:
                receiver.acquire(timeout=DEADLINE)
            except gpudirect.Error as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        self.assertTrue(waits.wait(DEADLINE))
        receiver.close()
        thread.join(DEADLINE)
        self.assertFalse(thread.is_alive())
        self.assertIsInstance(raised[0], gpudirect.Closed)
        self.assertTrue(receiver.closed)

    INTERRUPTED = """
import sys, threading, gpudirect
one = gpudirect.{0}
try:
    # Said by another thread, so that this one waits by then.
    threading.Timer(0.2, print, ["waits"], {{"flush": True}}).start()
    one.{1}
except KeyboardInterrupt:
    print("interrupted", flush=True)
one.close()
"""

    def test_interrupt(self):
        for made, call in ((f'Receiver("{self.address}", device="host")', "acquire()"),
                           (f'Receiver("{self.address}", device="host")', "__next__()"),
                           (f'Sender("{self.address}", device="host")', "wait(1)")):
            with process(self.INTERRUPTED.format(made, call)) as child:
                self.assertEqual(child.stdout.readline(), "waits\n")
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.stdout.readline(), "interrupted\n")
                self.assertEqual(child.wait(DEADLINE), 0)

    def test_fork(self):
        code = """
import os, sys, gpudirect
receiver = gpudirect.Receiver("a", device="host")
child = os.fork()
if child == 0:
    for call in (receiver.poll, lambda: gpudirect.Receiver("b", device="host")):
        try:
            call()
            os._exit(1)
        except RuntimeError as error:
            if "forked" not in str(error) or 'multiprocessing_context="spawn"' not in str(error):
                os._exit(2)
    receiver.close()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        self.assertEqual(subprocess.run([sys.executable, "-c", code], timeout=DEADLINE).returncode, 0)

    def test_subinterpreter(self):
        code = f"import sys; sys.path[:] = {sys.path!r}\nimport gpudirect"
        try:
            import _interpreters as interpreters  # Python 3.13, where it returns what was raised
        except ImportError:
            try:
                import _xxsubinterpreters as interpreters
            except ImportError:
                self.skipTest("this Python has neither _interpreters nor _xxsubinterpreters")
        one = interpreters.create()
        if interpreters.__name__ == "_interpreters":
            text = interpreters.run_string(one, code).formatted
        else:
            with self.assertRaises(interpreters.RunFailedError) as raised:
                interpreters.run_string(one, code)
            text = str(raised.exception)
        self.assertRegex(text, "main interpreter|not support loading in subinterpreters")  # ours, or Python's own
        interpreters.destroy(one)

    def test_names(self):
        self.assertEqual(set(dir(gpudirect)) - set(gpudirect.__all__), {"__doc__", "__version__"})
        self.assertFalse({"atexit", "typing", "weakref", "_gpudirect"} & set(dir(gpudirect)))

    def test_the_host_has_two_names(self):
        with gpudirect.Sender(self.address, media=RGBA, device="cpu") as sender, \
                gpudirect.Receiver(self.address, device="cpu") as receiver, \
                gpudirect.Group([self.address], device=["cpu"]):
            self.assertEqual((sender.info["device"], receiver.info["device"]), ("host", "host"))
            self.assertEqual(sender.acquire(timeout=DEADLINE).device, "host")

    def test_lists(self):
        names = [device["name"] for device in gpudirect.devices()]
        self.assertEqual(names[0], "host")
        with gpudirect.Sender(self.address, media=RGBA, device="host", name="test"):
            channel, = gpudirect.channels(self.address)
            self.assertEqual((channel["address"], channel["name"], channel["pid"]), (self.address, "test", os.getpid()))
            self.assertIn("format=(string)RGBA", channel["media"])
            self.assertIn(self.address, [one["address"] for one in gpudirect.info()["channels"]])
        self.assertEqual(gpudirect.info()["version"], gpudirect.__version__)


if __name__ == "__main__":
    support.main()
