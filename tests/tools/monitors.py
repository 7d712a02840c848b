# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-monitor, a client of its page, and pipelines that it shows."""

import http.client
import json
import os
import signal
import subprocess
import urllib.parse

import schemas
from tool import DEADLINE, check, wait_for

MONITOR = os.environ["GPUDIRECT_MONITOR"]
CAPS = "video/x-raw,format={},width=640,height=360,framerate=50/1"


class Monitor:
    def __init__(self, *args, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([MONITOR, f"--listen={listen}", *args], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        check(line.startswith("gpudirect-monitor: http://"), f"it says {line!r}")
        self.url = line.split()[1]
        self.port = urllib.parse.urlsplit(self.url).port

    def ask(self, path, method="GET", headers=None, body=None):
        """Status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def state(self, **headers):
        status, _, body = self.ask("/api/state", headers=headers)
        check(status == 200, f"/api/state: {status} {body}")
        return schemas.require("monitor.json", json.loads(body), "/api/state")

    def channel(self, address):
        return next((one for one in self.state()["channels"] if one["address"] == address), None)

    def has_event(self, kind, text):
        return any(event["kind"] == kind and text in event["text"] for event in self.state()["events"])

    def end(self, sent=signal.SIGINT):
        self.process.send_signal(sent)
        check(self.process.wait(DEADLINE) == 0, f"signal {sent} ends it with {self.process.returncode}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Pipelines:
    """Ended with the block."""

    def __init__(self):
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.wait()

    def launch(self, *words, program="gst-launch-1.0"):
        process = subprocess.Popen([program, "-q", *words], stdout=subprocess.DEVNULL)
        self.started.append(process)
        return process

    def send(self, address, form="UYVY", pattern="smpte", sink=()):
        return self.launch("videotestsrc", "is-live=true", f"pattern={pattern}", "!", CAPS.format(form), "!",
                           "gpudirectsink", f"address={address}", *sink)

    def receive(self, address, **how):
        return self.launch("gpudirectsrc", f"address={address}", "!", "fakesink", "sync=false", **how)


def wait_for_frames(monitor, address, receivers):
    """The channel, once all of its receivers get frames."""
    def look():
        channel = monitor.channel(address)
        if not channel or not channel["answered"] or len(channel["receivers"]) != receivers:
            return None
        return channel if all(one["frames"] > 10 and one["rate_hz"] for one in channel["receivers"]) else None
    return wait_for(f"frames of {address}", look)
