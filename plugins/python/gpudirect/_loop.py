# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames in an event loop of asyncio, by the descriptor that becomes readable with them."""

import asyncio

from .errors import Closed


class Frames:
    """What `async for` iterates over. One task at a time waits for a source."""

    def __init__(self, source, poll):
        self._source, self._poll = source, poll

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            while (frame := self._poll()) is None:
                await self._readable()
        except Closed:
            raise StopAsyncIteration from None
        return frame

    async def _readable(self):
        source = self._source
        if source._waiting is not None:
            raise RuntimeError("another task waits for frames of this object")
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        fd = source.fileno()
        loop.add_reader(fd, wake, waiting)
        source._waiting = (loop, fd, waiting)
        try:
            await waiting
        finally:
            stop_waiting(source)


def wake(waiting):
    if not waiting.done():
        waiting.set_result(None)


def stop_waiting(source):
    """Ends a wait: before the descriptor is closed, whose number may be another's afterwards. Within the loop's own
    thread."""
    if source._waiting is not None:
        loop, fd, waiting = source._waiting
        source._waiting = None
        loop.remove_reader(fd)
        wake(waiting)
