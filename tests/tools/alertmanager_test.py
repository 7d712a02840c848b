# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The shipped configuration of Alertmanager, behind the shipped one of Prometheus: the death of a sender arrives in a
mailbox and at a webhook, and so does its end."""

import http.server
import json
import os
import pathlib
import re
import shutil
import socketserver
import subprocess
import tempfile
import threading

from monitors import MONITORING, Monitor, Pipelines, Prometheus, free_port, wait_for_frames
from tool import check, skip, wait_for

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")
if Prometheus.missing or not PROGRAM:
    skip(Prometheus.missing or "prometheus-alertmanager is not installed (./tools/setup check installs it)")

mails, posts = [], []


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as one client needs."""

    def handle(self):
        self.say("220 ready")
        while line := self.rfile.readline():
            command = line[:4].upper()
            if command == b"DATA":
                self.say("354 go on")
                mails.append("".join(text.decode(errors="replace") for text in iter(self.rfile.readline, b".\r\n")))
            self.say("221 bye" if command == b"QUIT" else "250 good")
            if command == b"QUIT":
                return

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def start(folder, mail, hook, port):
    config = folder / "alertmanager.yml"
    text = (MONITORING / "alertmanager.yml").read_text()
    text = text.replace("localhost:25", f"127.0.0.1:{mail}").replace("127.0.0.1:9095", f"127.0.0.1:{hook}")
    # Told at once, and the end of an alarm soon.
    config.write_text(re.sub("(group_wait|group_interval): .*", r"\1: 1s", text))
    return subprocess.Popen([PROGRAM, f"--config.file={config}", f"--storage.path={folder / 'alertmanager'}",
                             f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def posted(status):
    """Whether the webhook was told so of cam1."""
    return any(alert["status"] == status and alert["labels"].get("channel") == "cam1" and
               alert["labels"]["alertname"] == "GpudirectSenderDied" for post in posts for alert in post["alerts"])


def check_alarms(monitor, pipelines):
    sender = pipelines.send("cam1")
    wait_for_frames(monitor, "cam1", 0)
    check(not mails and not posts, f"an alarm where all is well: {mails} {posts}")
    sender.kill()
    sender.wait()
    wait_for("the webhook", lambda: posted("firing"))
    wait_for("the mail", lambda: any("cam1" in mail and "GpudirectSenderDied" in mail for mail in mails))
    pipelines.send("cam1")
    wait_for("the end of the alarm", lambda: posted("resolved"))


with tempfile.TemporaryDirectory() as home, socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as mailbox, \
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook) as webhook:
    os.environ["XDG_RUNTIME_DIR"] = home
    folder, port = pathlib.Path(home), free_port()
    alertmanager = start(folder, serve(mailbox), serve(webhook), port)
    monitor = Monitor()
    prometheus = Prometheus(monitor, folder, MONITORING / "prometheus.yml", MONITORING / "alerts.yml", port)
    with Pipelines() as pipelines:
        try:
            check_alarms(monitor, pipelines)
        finally:
            monitor.kill()
            prometheus.close()
            alertmanager.kill()
            alertmanager.wait()
            mailbox.shutdown()
            webhook.shutdown()
