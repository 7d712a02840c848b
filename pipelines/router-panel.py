#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""router-panel.py PORT OUTPUT INPUT...: sends on OUTPUT what one of the inputs sends; http://localhost:PORT/ has a
button for each of them. An input that does not come within 3 s leaves the one before on air."""

import http.server
import sys
import threading
import urllib.parse

import gpudirect

port, output, *inputs = sys.argv[1:]
receiver = gpudirect.Receiver(inputs[0], device="host",
                              on_switch=lambda to, error: print(error or f"{to} is on air", flush=True))


class Panel(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = "".join(f'<form method=post action="/{urllib.parse.quote(name, "")}"><button style="background:'
                       f'{"red" if name == receiver.info["address"] else "none"}">{name}</button></form>'
                       for name in inputs).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page)

    def do_POST(self):
        name = urllib.parse.unquote(self.path[1:])
        if name in inputs:
            receiver.switch(name, timeout=3)
        self.send_response(303 if name in inputs else 404)
        self.send_header("Location", "/")
        self.end_headers()


panel = http.server.ThreadingHTTPServer(("localhost", int(port)), Panel)
threading.Thread(target=panel.serve_forever, daemon=True).start()
print(f"http://localhost:{panel.server_port}/", flush=True)
sender = None
while True:
    for frame in receiver:  # until the input on air ends its stream: it may begin another, or another one is chosen
        if sender is None:
            sender = gpudirect.Sender(output, media=frame.media, device="host", slow_receiver="drop-oldest")
        elif sender.media != frame.media:
            sender.configure(frame.media)
        sender.submit(frame)
