# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-monitor, a client of its page, and pipelines that it shows."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request

import schemas
from tool import DEADLINE, check, wait_for

MONITOR = os.environ["GPUDIRECT_MONITOR"]
MONITORING = pathlib.Path(__file__).resolve().parents[2] / "pipelines" / "monitoring"
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

    def dismiss(self, address=None):
        """The status of the answer."""
        query = f"?channel={urllib.parse.quote(address)}" if address else ""
        return self.ask(f"/api/dismiss{query}", "POST", {"X-Gpudirect": "dismiss"})[0]

    def has_event(self, kind, text):
        return any(event["kind"] == kind and text in event["text"] for event in self.state()["events"])

    def end(self, sent=signal.SIGINT):
        self.process.send_signal(sent)
        check(self.process.wait(DEADLINE) == 0, f"signal {sent} ends it with {self.process.returncode}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Prometheus:
    """A real one, with a configuration and rules of pipelines/monitoring, which looks once a second."""

    missing = None if shutil.which("prometheus") else "prometheus is not installed (./tools/setup check installs it)"

    def __init__(self, monitor, folder, shipped, rules, alertmanager=9):
        config = folder / shipped.name
        text = shipped.read_text().replace("127.0.0.1:8477", f"127.0.0.1:{monitor.port}")
        text = text.replace("127.0.0.1:9093", f"127.0.0.1:{alertmanager}")
        # Without the second one Prometheus looks at its rules once a minute.
        for key in ("scrape_interval", "evaluation_interval"):
            assert f"  {key}: 5s\n" in text, f"{shipped} has no {key} of 5 s"
            text = text.replace(f"{key}: 5s", f"{key}: 1s")
        config.write_text(text.replace("alerts.yml", str(rules)))
        self.port = free_port()
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path):
        """The data of its answer; None: it does not answer yet."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with contextlib.suppress(OSError):
            with opener.open(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=DEADLINE) as answer:
                return json.load(answer)["data"]
        return None

    def query(self, words):
        data = self.ask(f"query?query={urllib.parse.quote(words)}")
        return data and data["result"]

    def alerts(self):
        """By (name, channel): "pending" or "firing"; None: it does not answer yet."""
        data = self.ask("alerts")
        return data and {(alert["labels"]["alertname"], alert["labels"].get("channel")): alert["state"]
                         for alert in data["alerts"]}

    def close(self):
        self.process.kill()
        self.process.wait()


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
