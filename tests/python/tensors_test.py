# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Tensors: from numpy to numpy and by capsules, several in a frame, batches that are not full, what does not fit."""

import importlib

import support
from support import DEADLINE, Case, consume, delete, until

np = support.need("numpy")

import gpudirect  # noqa: E402  after the addresses are set
from gpudirect import tensor  # noqa: E402

DETECTIONS = [tensor("float32", (64, 6), "boxes", batch=True), tensor("int64", (64,), "classes", batch=True),
              tensor("uint8", (3, 5), "anchors")]
UNKNOWN = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8), "bool": (6, 8), "complex64": (5, 64)}


class Tensors(Case):

    def pair(self, media, **named):
        sender = gpudirect.Sender(self.address, media=media, device="host", **named)
        receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, allow_old_dlpack=True)
        self.addCleanup(sender.close)
        self.addCleanup(receiver.close)

        def connected():
            self.assertIsNone(receiver.poll())
            return sender.info["receivers"] == 1
        until("the receiver is connected", connected)
        return sender, receiver

    def test_one(self):
        """The stream's name is that of its only tensor; what is written into a lent frame is not copied."""
        sender, receiver = self.pair(tensor(np.float32, (64, 6)))
        self.assertIn(f"names=(string){self.address}", sender.media)
        with sender.acquire(DEADLINE) as frame:
            self.assertEqual(frame.shape, (64, 6))
            np.asarray(frame.tensors[self.address])[:] = np.arange(384).reshape(64, 6)
        self.assertEqual(sender.info["copies"], 0)
        frame = receiver.acquire()
        self.assertEqual((frame.format, frame.dtype, list(frame.tensors)), ("tensors", "float32", [self.address]))
        self.assertIsNone(frame.batch)
        self.assertIn("float32 64x6", repr(frame))
        np.testing.assert_array_equal(np.asarray(frame), np.arange(384).reshape(64, 6))
        np.testing.assert_array_equal(np.from_dlpack(frame), np.asarray(frame.tensors[self.address]))
        sender.send(np.full((64, 6), 7, np.float32), DEADLINE, pts=5)
        self.assertEqual(sender.info["copies"], 1)
        with receiver.acquire() as frame:
            self.assertEqual(frame.pts, 5)
            self.assertTrue((np.asarray(frame) == 7).all())

    def test_several(self):
        """Fixed ones and two with a batch, of every size of it, none included."""
        sender, receiver = self.pair(DETECTIONS)
        for count in (64, 1, 17, 0):
            sent = {"boxes": np.random.default_rng(count).random((count, 6), np.float32),
                    "classes": np.arange(count) - 9, "anchors": np.full((3, 5), count, np.uint8)}
            sender.send(sent, DEADLINE)
            with receiver.acquire() as frame:
                self.assertEqual(frame.batch, count)
                self.assertEqual(list(frame.tensors), list(sent))
                for name, one in frame.tensors.items():
                    self.assertEqual((one.shape, one.offset % 256), (sent[name].shape, 0))
                    np.testing.assert_array_equal(np.asarray(one), sent[name])
                del one
                with self.assertRaisesRegex(BufferError, "frame.tensors"):
                    memoryview(frame)
        self.assertEqual(sender.info["copies"], 12)
        with sender.acquire(DEADLINE) as frame:
            frame.batch = 3
            self.assertEqual((frame.batch, frame.tensors["boxes"].shape), (3, (3, 6)))
            np.asarray(frame.tensors["boxes"])[:] = 1
        self.assertEqual(receiver.acquire().tensors["classes"].shape, (3,))

    def test_strided(self):
        """As the caps say: a tensor whose rows have gaps, beside one in the gaps."""
        sender, receiver = self.pair('other/tensors,format=static,dimensions="2:4,2:4",types="uint16,uint16",'
                                     'strides="1:4,1:4",offsets="0,4"')
        with sender.acquire(DEADLINE) as frame:
            for name, one in frame.tensors.items():
                np.asarray(one)[:] = 100 * int(name) + np.arange(8).reshape(4, 2)
        with receiver.acquire() as frame:
            self.assertEqual(frame.tensors["1"].strides, (8, 2))
            rows = np.asarray(frame.raw).view(np.uint16)[:8]
            np.testing.assert_array_equal(rows, [0, 1, 100, 101, 2, 3, 102, 103])
            np.testing.assert_array_equal(np.from_dlpack(frame.tensors["1"]), 100 + np.arange(8).reshape(4, 2))

    def test_types(self):
        """Those that numpy does not have travel by DLPack with their codes."""
        for name, (code, bits) in UNKNOWN.items():
            sender, receiver = self.pair(tensor(name, (3, 2), "x"), standby=True)
            with sender.acquire(DEADLINE) as frame:
                np.asarray(frame.raw)[:] = 1
            frame = receiver.acquire()
            self.assertEqual(frame.dtype, name)
            if name not in ("bool", "complex64"):
                with self.assertRaisesRegex(BufferError, "DLPack"):
                    memoryview(frame)
            managed = consume(frame.tensors["x"].__dlpack__(max_version=(1, 0)), True)
            self.assertEqual((managed.tensor.code, managed.tensor.bits, managed.tensor.lanes), (code, bits, 1))
            self.assertEqual([managed.tensor.shape[i] for i in range(2)], [3, 2])
            delete(managed)
            frame.release()
            sender.close()
            receiver.close()

    def test_refusals(self):
        sender, receiver = self.pair(DETECTIONS)
        good = {"boxes": np.zeros((5, 6), np.float32), "classes": np.zeros(5, np.int64),
                "anchors": np.zeros((3, 5), np.uint8)}
        for says, bad in {
            "a dict of as many": {"boxes": good["boxes"]},
            "float64 does not fit": good | {"boxes": np.zeros((5, 6))},
            r"batches of \[4, 5\]": good | {"classes": np.zeros(4, np.int64)},
            r"\(3, 4\) uint8 does not fit": good | {"anchors": np.zeros((3, 4), np.uint8)},
        }.items():
            with self.assertRaisesRegex(gpudirect.Invalid, says):
                sender.send(bad, DEADLINE)
        with self.assertRaisesRegex(ValueError, "no batch of 65"):
            sender.send(good | {"boxes": np.zeros((65, 6), np.float32), "classes": np.zeros(65, np.int64)}, DEADLINE)
        with sender.acquire(DEADLINE) as frame:
            kept = frame.tensors
            with self.assertRaisesRegex(gpudirect.Invalid, "has arrays"):
                frame.batch = 1
            del kept
            frame.release()
        with self.assertRaisesRegex(gpudirect.Invalid, "types as int8"):
            sender.configure(tensor("float31", (1,)))
        with self.assertRaisesRegex(gpudirect.Invalid, "does not end"):
            sender.configure(tensor("int8", (1 << 31, 1 << 31)))
        sender.send(good, DEADLINE)
        self.assertEqual(receiver.acquire().batch, 5)

    def library(self, name):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            self.skipTest(f"{error}: install it to try it")

    def test_torch(self):
        torch = self.library("torch")
        sender, receiver = self.pair([tensor(torch.bfloat16, (8, 4), "logits", batch=True)])
        sent = torch.arange(20).reshape(5, 4).to(torch.bfloat16)
        sender.send(sent, DEADLINE)
        with receiver.acquire() as frame:
            self.assertTrue(torch.equal(torch.from_dlpack(frame.tensors["logits"]), sent))
        with self.assertRaisesRegex(gpudirect.Invalid, "does not fit"):
            sender.send(sent.to(torch.float16), DEADLINE)

    def test_cupy(self):
        cupy = self.library("cupy")
        sender, receiver = self.pair(tensor("float32", (4,), "x"))
        with self.assertRaisesRegex(gpudirect.Invalid, "another device"):
            sender.send(cupy.zeros(4, "float32"), DEADLINE)

    def test_jax(self):
        jax = self.library("jax")
        sender, receiver = self.pair(tensor("float32", (4,), "x"))
        sender.send(jax.device_put(np.arange(4, dtype=np.float32), jax.devices("cpu")[0]), DEADLINE)
        with receiver.acquire() as frame:
            np.testing.assert_array_equal(np.asarray(frame), np.arange(4))


if __name__ == "__main__":
    support.main()
