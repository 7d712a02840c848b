# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-monitor over HTTP: what it says of channels that live, stop and die; whom it answers, and whom not;
nonsense; pictures that cost no other receiver a frame; a real Prometheus; and its end."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import schemas
from monitors import MONITOR, MONITORING, Monitor, Pipelines, Prometheus, wait_for_frames
from tool import DEADLINE, check, run, skip, wait_for

TOKEN = "a-token-of-this-test-0123456789"

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")

runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
folder = pathlib.Path(runtime.name)


def check_refusals():
    """Of its command line; it ends at once with a sentence."""
    token, short = folder / "token", folder / "short"
    token.write_text(TOKEN + "\n")
    short.write_text("short\n")
    for args, status, says in (
            (["--listen", "0.0.0.0:0"], 1, "needs a token"),
            (["--listen", "[::]:0"], 1, "needs a token"),
            (["--listen", "nowhere"], 1, "is not an IP address"),
            (["--listen", "127.0.0.1:99999"], 1, ""),
            (["--listen", "192.0.2.1:0", "--token-file", str(token)], 1, "only its user can read"),
            (["--token-file", str(folder / "none")], 1, "No such file"),
            (["--token-file", "/dev/zero"], 1, "only its user can read"),
            (["--directory", str(folder / "none")], 1, "No such file"),
            (["--directory", str(folder), "--all-users"], 2, "do not go together"),
            (["--watch-content", "--no-thumbnails"], 2, "do not go together"),
            (["--tls-certificate", "/c", "--tls-ca", "/a"], 2, "go together"),
            (["--tls-key", "/k"], 2, "go together"),
            (["--tui"], 1, "needs a terminal"),
            (["--nonsense"], 2, "--nonsense")):
        out, err = run(MONITOR, *args, status=status)
        check(says in err and not out, f"{args}: {err!r}")
    short.chmod(0o600)
    check("no token of 16 to 256" in run(MONITOR, "--token-file", str(short), status=1)[1], "a short token")
    token.chmod(0o600)
    return token


def check_requests(monitor):
    status, headers, body = monitor.ask("/")
    check(status == 200 and b"<title>gpudirect-monitor</title>" in body, f"/: {status}")
    policy = headers["Content-Security-Policy"]
    check("default-src 'none'" in policy and "frame-ancestors 'none'" in policy, policy)
    check("unsafe" not in policy and "Access-Control-Allow-Origin" not in headers, f"{headers}")
    check(headers["X-Content-Type-Options"] == "nosniff", f"{headers}")
    for host, wanted in (("localhost", 200), ("LOCALHOST:9", 200), ("127.0.0.1", 200), ("[::1]:8477", 200),
                         ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
                         ("", 421), ("192.0.2.1", 421)):
        for path in ("/", "/api/state", "/metrics", "/api/thumbnail?channel=cam1"):
            status = monitor.ask(path, headers={"Host": host})[0]
            check((status == 421) == (wanted == 421), f"Host {host!r}, {path}: {status}")
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        status = monitor.ask("/api/state", method, body=b"x" * 100000 if method in ("POST", "PUT") else None)[0]
        check(status == 405, f"{method}: {status}")
    for path in ("/nothing", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api", "/api/thumbnail",
                 "/api/thumbnail?channel=", "/api/thumbnail?channel=rdma%3A%2F%2F192.0.2.1%3A7174",
                 "/api/thumbnail?channel=%ff%00", "/" + "a" * 5000):
        status = monitor.ask(path)[0]
        check(status in (400, 404), f"{path[:60]}: {status}")
    for path in ("/api/state?after=nonsense", "/api/state?after=-1", "/api/state?after=99999999999999999999"):
        check(monitor.ask(path)[0] == 200, path)


def check_nonsense(monitor):
    """Bytes that are no request, and parts of one; then it goes on."""
    head = b"GET /api/state HTTP/1.1\r\nHost: localhost\r\n"
    for data in (b"\x00" * 1000, b"\xff\xfe nonsense\r\n\r\n", b"GET", head, head + b"A: " + b"b" * 200000,
                 b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nx",
                 b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\nx",
                 b"GET / HTTP/9.9\r\n\r\n", os.urandom(4096)):
        with socket.create_connection(("127.0.0.1", monitor.port), DEADLINE) as client:
            with contextlib.suppress(OSError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
        check(monitor.ask("/api/state")[0] == 200, f"after {data[:40]}")


def check_token(token):
    monitor = Monitor("--token-file", str(token), listen="0.0.0.0:0")
    try:
        check(monitor.ask("/")[0] == 200, "the page that asks for the token")
        wrong = (None, "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"bearer {TOKEN}", TOKEN,
                 "Basic dGVzdDp0ZXN0", "Bearer " + "a" * 5000)
        for path in ("/api/state", "/api/history", "/api/thumbnail?channel=cam1", "/metrics"):
            for value in wrong:
                status = monitor.ask(path, headers={"Authorization": value} if value else {})[0]
                check(status == 401, f"{path} with {value!r:.40}: {status}")
            check(monitor.ask(path + ("&" if "?" in path else "?") + f"token={TOKEN}")[0] == 401, "a token in a URL")
        state = monitor.state(Authorization=f"Bearer {TOKEN}", Host="monitor.example")
        check(state["channels"] == [], "with the token")
        monitor.end(signal.SIGTERM)
    finally:
        monitor.kill()


def check_metrics(monitor):
    status, headers, text = monitor.ask("/metrics")
    check(status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), f"{headers}")
    check(b'gpudirect_receiver_info{channel="cam1"' in text and b"# EOF" not in text, "the text format")
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=DEADLINE)
        check(done.returncode == 0 and not done.stderr, f"promtool: {done}")
    accept = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.3"}
    _, headers, text = monitor.ask("/metrics", headers=accept)
    check(headers["Content-Type"].startswith("application/openmetrics-text") and text.endswith(b"# EOF\n") and
          b"# TYPE gpudirect_channel_frames counter\n" in text and b"# UNIT " in text, f"OpenMetrics: {headers}")


def check_prometheus(prometheus):
    """It scrapes the monitor."""
    query = prometheus.query
    wait_for("Prometheus has the latencies", lambda: query(
            'histogram_quantile(0.99, gpudirect_receiver_latency_seconds_bucket{channel="cam1"})'), DEADLINE)
    check(query('up{job="gpudirect"}')[0]["value"][1] == "1", "the scrape failed")
    check(float(query('gpudirect_channel_frames_total{channel="cam1"}')[0]["value"][1]) > 0, "no frames")


def has_picture(monitor, address):
    status, headers, body = monitor.ask(f"/api/thumbnail?channel={address}")
    return status == 200 and headers["Content-Type"] == "image/jpeg" and body[:2] == b"\xff\xd8"


def check_pictures(monitor):
    """Of three formats, one of them on a GPU, while receivers beside them get every frame. Their senders wait for slow
    receivers, so that a slow machine makes them lose none; they do not wait for the monitor, which holds its frames."""
    addresses = ("cam1", "cam2", "cam3")
    before = {address: wait_for_frames(monitor, address, 1) for address in addresses}
    for address in addresses:
        wait_for(f"a picture of {address}", lambda: has_picture(monitor, address))
    pictures = {address: set() for address in addresses}

    def move():
        for address, seen in pictures.items():
            seen.add(monitor.ask(f"/api/thumbnail?channel={address}")[2])
        return all(len(seen) > 2 for seen in pictures.values())
    wait_for("pictures that move", move)
    for address in addresses:
        wait_for(f"frames of {address}", lambda: monitor.channel(address)["frames"] > before[address]["frames"] + 100)
        after = monitor.channel(address)
        one, other = before[address]["receivers"][0], after["receivers"][0]
        check(other["id"] == one["id"] and other["dropped"] == 0, f"{address}: its receiver lost {other['dropped']}")
        check(len(after["receivers"]) == 1, "the monitor shows its own receivers")
        # The sender counts its frames and its receivers' one after the other.
        lost = (after["frames"] - before[address]["frames"]) - (other["frames"] - one["frames"])
        check(abs(lost) <= 5, f"{address}: {lost} frames passed by its receiver")


def check_levels(monitor, pipelines):
    """The peak of each channel of sound, however the samples lie; here left alone, at a tenth of full scale."""
    source = ("audiotestsrc", "is-live=true", "wave=square", "volume=0.1", "samplesperbuffer=480", "!",
              "audio/x-raw,channels=2,rate=48000", "!", "audiopanorama", "panorama=-1", "!", "audioconvert", "!")
    kinds = {"interleaved": "S16LE", "non-interleaved": "F32LE"}
    for layout, form in kinds.items():
        pipelines.launch(*source, f"audio/x-raw,format={form},layout={layout}", "!", "gpudirectsink",
                         f"address=meter-{layout}/audio")

    def levels(layout):
        status, headers, body = monitor.ask(f"/api/thumbnail?channel=meter-{layout}/audio")
        is_drawn = status == 200 and headers["Content-Type"] == "image/svg+xml"
        return is_drawn and re.findall(r">(-\d+ dB|silent)<", body.decode())
    for layout in kinds:
        found = wait_for(f"levels of {layout} sound", lambda: levels(layout))
        check(len(found) == 2 and found[0] in ("-14 dB", "-20 dB") and found[1] == "silent",
              f"the levels of {layout} sound are {found}")


def check_ends(monitor, sender, receiver, pipelines):
    """A receiver that leaves, a sender that stops, goes on and is killed; the others are shown all the time."""
    receiver.send_signal(signal.SIGINT)
    wait_for("the receiver's end", lambda: not monitor.channel("cam1")["receivers"])
    check(monitor.has_event("disconnect", "is gone"), "a receiver that left is no event")
    pipelines.receive("cam1")
    wait_for("a connect", lambda: monitor.has_event("connect", "connects: process"))
    sender.send_signal(signal.SIGSTOP)
    wait_for("it notices", lambda: not monitor.channel("cam1")["answered"])
    check("is stopped" in monitor.channel("cam1")["reason"], f"{monitor.channel('cam1')}")
    wait_for("the others answer", lambda: monitor.channel("cam2")["answered"])
    check(monitor.has_event("silent", "is stopped"), "a sender that stops is no event")
    sender.send_signal(signal.SIGCONT)
    wait_for("it goes on", lambda: monitor.channel("cam1")["answered"])
    check_gone(monitor, sender, pipelines)
    events = monitor.state()["events"]
    check([event["number"] for event in events] == list(range(1, len(events) + 1)), "numbers of events")
    last = json.loads(monitor.ask(f"/api/state?after={len(events) - 1}")[2])["events"]
    check(len(last) >= 1 and last[0]["number"] == len(events), "events after one")


def check_gone(monitor, sender, pipelines):
    """A sender that is killed while a receiver waits, and one that says goodbye, are remembered until they are back, or
    dismissed; each says how it ended."""
    sender.kill()
    gone = wait_for("it is gone", lambda: is_gone(monitor.channel("cam1")))
    check(gone["end"] == "death" and gone["severity"] == "bad" and gone["state"] == "Died" and not gone["answered"],
          f"a killed sender is {gone}")
    check(monitor.has_event("gone", "has died, without a goodbye"), "a killed sender is no event")
    check(monitor.ask("/api/thumbnail?channel=cam1")[0] == 404, "a picture of what is gone")
    waiting = wait_for("the receiver waits", lambda: monitor.channel("cam1")["waiting"])
    check(len(waiting) == 1 and waiting[0]["name"] == "gst-launch-1.0" and waiting[0]["pid"] and
          waiting[0]["since_s"] >= gone["absent_since_s"] - 5, f"what waits is {waiting}")
    text = monitor.ask("/metrics")[2].decode()
    for sample in ('gpudirect_channel_up{channel="cam1"} 0\n',
                   'gpudirect_channel_gone_seconds{channel="cam1",how="died"} ',
                   'gpudirect_receivers_waiting{channel="cam1"} 1\n'):
        check(sample in text, f"no {sample!r} in {text}")
    again = pipelines.send("cam1")
    wait_for_frames(monitor, "cam1", 1)
    check(monitor.has_event("channel", "back: gst-launch-1.0"), "its return is no event")
    check(not monitor.channel("cam1")["waiting"] and "gone_seconds{" not in monitor.ask("/metrics")[2].decode(),
          "it is gone, and there")
    again.send_signal(signal.SIGINT)
    gone = wait_for("it has ended", lambda: is_gone(monitor.channel("cam1")))
    check(gone["end"] == "goodbye" and gone["state"] == "Ended", f"a sender that said goodbye is {gone}")
    # One is dismissed; it stays as long as its receiver waits.
    other = pipelines.send("cam5")
    wait_for_frames(monitor, "cam5", 0)
    other.kill()
    wait_for("it is gone, too", lambda: is_gone(monitor.channel("cam5")))
    check(monitor.dismiss("cam5") == 200 and not monitor.channel("cam5"), "a channel is not dismissed")
    check(monitor.dismiss("cam5") == 404 and monitor.dismiss("cam2") == 404, "what is not gone is dismissed")
    check(monitor.dismiss() == 200, "not all of them are dismissed")
    left = monitor.channel("cam1")
    check(left["presence"] == "never" and left["waiting"] and left["state"] == "No sender", f"it is {left}")


def is_gone(channel):
    return channel if channel and channel["presence"] == "gone" else None


def check_dismiss(monitor):
    """What a page of another site can send is refused."""
    own = {"X-Gpudirect": "dismiss"}
    for method, headers, wanted in (("GET", own, 405), ("PUT", own, 405), ("OPTIONS", own, 405), ("POST", {}, 403),
                                    ("POST", {"X-Gpudirect": "x"}, 403),
                                    ("POST", {"Content-Type": "text/plain", "Origin": "http://evil.example"}, 403),
                                    ("POST", own | {"Host": "evil.example"}, 421), ("POST", own, 200)):
        status = monitor.ask("/api/dismiss", method, headers)[0]
        check(status == wanted, f"{method} with {headers}: {status}")
    check(monitor.ask("/api/dismiss", "POST", own, body=b"x")[0] == 413, "a body is taken")


def check_expected():
    """Of a file, and of a folder of files, which may change; what is wrong in them is said."""
    lists = folder / "lists"
    lists.mkdir()
    (lists / "studio").write_text("cam1\n  cam7/audio  # sound\n\n# none\n")
    (lists / ".hidden").write_text("nonsense nonsense\n")
    single = folder / "list"
    single.write_text("unix:/nowhere/cam8\n")
    for text, says in (("cam1\ncam 2\n", 'line 2: "cam 2" is not an address'), ("/run/cam1\n", "is not an address"),
                       ("rdma://10.0.0.1:7174/\n", "is not an address"), (".cam\n", "is not an address")):
        wrong = folder / "wrong"
        wrong.write_text(text)
        check(says in run(MONITOR, "--expect", str(wrong), status=1)[1], f"a list with {text!r}")
    check("No such file" in run(MONITOR, "--expect", str(folder / "none"), status=1)[1], "a list that is not there")
    monitor = Monitor("--expect", str(lists), "--expect", str(single))
    try:
        for address in ("cam1", "cam7/audio", "unix:/nowhere/cam8"):
            channel = wait_for("what is expected", lambda: monitor.channel(address))
            check(channel["presence"] == "never" and channel["expected"] and channel["state"] == "Never there" and
                  channel["severity"] == "bad", f"{channel}")
        check(monitor.state()["notes"] == [], f"{monitor.state()['notes']}")
        text = monitor.ask("/metrics")[2].decode()
        check('gpudirect_channel_up{channel="cam1",expected="yes"} 0\n' in text and
              'gpudirect_channel_gone_seconds{channel="cam1",expected="yes",how="never"} ' in text, text)
        check(monitor.dismiss("cam1") == 404, "what is expected is dismissed")
        single.write_text("cam9\n")
        wait_for("the list that changed", lambda: monitor.channel("cam9") and not monitor.channel("unix:/nowhere/cam8"))
        single.write_text("cam 9\n")
        wait_for("a note on what is wrong now", lambda: "is not an address" in "".join(monitor.state()["notes"]))
        check(monitor.channel("cam9")["expected"], "the list that was right is forgotten")
    finally:
        monitor.kill()


def check_folders(pipelines):
    """Two of them are both; one that goes, with its sender, is no end of what is known."""
    studios = [folder / "studio1", folder / "studio2"]
    for studio in studios:
        studio.mkdir()
    senders = [pipelines.send(f"unix:{studio}/cam") for studio in studios]
    receiver = pipelines.receive(f"unix:{studios[0]}/cam")
    monitor = Monitor(*(f"--directory={studio}" for studio in studios))
    try:
        addresses = [f"unix:{studio}/cam" for studio in studios]
        for address, receivers in zip(addresses, (1, 0)):
            wait_for_frames(monitor, address, receivers)
        senders[0].kill()
        gone = wait_for("its end", lambda: is_gone(monitor.channel(addresses[0])))
        check(gone["end"] == "death", f"{gone}")
        wait_for("its receiver waits", lambda: monitor.channel(addresses[0])["waiting"])
        senders[1].kill()
        senders[1].wait()
        shutil.rmtree(studios[1])
        gone = wait_for("the other's end", lambda: is_gone(monitor.channel(addresses[1])))
        check(gone["end"] in ("death", "unknown"), f"{gone}")
        check(monitor.channel(addresses[0]), "the first is forgotten")
        receiver.kill()
        wait_for("no receiver waits", lambda: not monitor.channel(addresses[0])["waiting"])
    finally:
        monitor.kill()


def check_addresses():
    """That cannot be asked: said, and the others are shown. 192.0.2.1 belongs to no host, by RFC 5737."""
    monitor = Monitor("nonsense://", "rdma://192.0.2.1:7174/cam9", "none-of-that-name")
    try:
        state = wait_for("the answer", lambda: monitor.state() if monitor.state()["time_s"] else None)
        said = "\n".join(state["notes"] + [f"{one['address']}: {one['reason']}" for one in state["channels"]])
        for words in ("nonsense://", "is not an address", "rdma://192.0.2.1:7174/cam9", "no sender listens"):
            check(words in said, f"it says {said!r}, and not {words!r}")
        monitor.end()
    finally:
        monitor.kill()


token = check_refusals()
check_addresses()
check_expected()
check_token(token)
with Pipelines() as pipelines:
    check_folders(pipelines)
    monitor = Monitor("--psk-file", str(folder / "none"))  # channels of this host need no key
    prometheus = None
    if Prometheus.missing:
        print(f"a real Prometheus: not tried, {Prometheus.missing}")
    else:
        prometheus = Prometheus(monitor, folder, MONITORING / "prometheus.yml", MONITORING / "alerts.yml")
    try:
        check(monitor.state()["channels"] == [], "a channel out of nothing")
        check_requests(monitor)
        check_dismiss(monitor)
        check_nonsense(monitor)
        for address, form, device in (("cam2", "v210", "host"), ("cam3", "NV12", "opencl:0"), ("cam1", "UYVY", "host")):
            sender = pipelines.send(address, form, sink=(f"device={device}", "slow-receiver=block"))
            receiver = pipelines.receive(address)
        check_pictures(monitor)
        history = schemas.require("monitor.json", json.loads(monitor.ask("/api/history")[2]), "/api/history")
        check({one["address"] for one in history["channels"]} == {"cam1", "cam2", "cam3"} and
              all(0 < len(one["rate_hz"]) <= 600 for one in history["channels"]), "the history")
        check_metrics(monitor)
        if prometheus:
            check_prometheus(prometheus)
        check_levels(monitor, pipelines)
        check_ends(monitor, sender, receiver, pipelines)
        # While pictures are taken, one of a sender that hangs.
        hanging = pipelines.send("cam4")
        wait_for("another picture", lambda: monitor.channel("cam4") and has_picture(monitor, "cam4"))
        hanging.send_signal(signal.SIGSTOP)
        monitor.end()
        hanging.send_signal(signal.SIGCONT)
    finally:
        monitor.kill()
        if prometheus:
            prometheus.close()
