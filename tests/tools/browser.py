# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A headless Chromium, driven by WebDriver: chromedriver speaks HTTP and JSON."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request

from tool import DEADLINE, check, skip, wait_for


class Browser:
    missing = next((f"{name} is not installed (./tools/setup check installs it)"
                    for name in ("chromium", "chromedriver") if not shutil.which(name)), None)

    def __init__(self):
        self.home = tempfile.TemporaryDirectory()
        self.log = open(f"{self.home.name}/log", "w+")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=self.log, stderr=subprocess.STDOUT,
                                       env=os.environ | {"HOME": self.home.name})
        self.port = wait_for("chromedriver", self._find_port)
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                f"--user-data-dir={self.home.name}/profile", "--force-prefers-reduced-motion"]
        self.session = None
        wanted = {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": args}}}}
        # On a busy machine chromium itself may give up while it starts ("unable to connect to renderer").
        tries = (self._ask("POST", "/session", wanted, may_fail=True) for _ in range(3))
        session = next(filter(None, tries), None)
        if not session:
            self.close()
            skip("chromium starts, and opens no page here (\"unable to connect to renderer\", in some containers)")
        self.session = session["sessionId"]

    def _find_port(self):
        with open(self.log.name) as log:
            for line in log:
                if "started successfully on port" in line:
                    return int(line.rsplit(" ", 1)[1].rstrip(".\n"))
        check(self.driver.poll() is None, "chromedriver does not start")
        return None

    def _ask(self, method, path, body=None, may_fail=False):
        prefix = f"/session/{self.session}" if self.session else ""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{prefix}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=DEADLINE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            return None if may_fail else check(False, f"the browser, {path}: {error.read().decode()[:1000]}")

    def open(self, url):
        self._ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        """What a function with this body returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def devtools(self, command, **params):
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def resize(self, width, height, scale=1):
        """Of the page, as on a screen of these pixels; a window is 500 wide at least."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                      mobile=width < 600)

    def press(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def log_lines(self):
        """Errors and warnings of the page, among them those of its security policy."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path, whole=False):
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole, **({} if not whole else {
            "clip": {"x": 0, "y": 0, "scale": 1, **self.run("return {width: document.documentElement.clientWidth, "
                                                           "height: document.documentElement.scrollHeight}")}}))
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            if self.session:
                self._ask("DELETE", "")
        finally:
            self.driver.kill()
            self.driver.wait()
            self.log.close()
            self.home.cleanup()
