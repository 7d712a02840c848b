# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A sender and receivers in containers: each in a user, PID, IPC, network, UTS, cgroup and mount namespace of its own,
with nothing in common but the folder of the socket, at different places. Every frame arrives whole. A third container
lists the channel, a standby takes it over, another user is refused with a sentence and admitted if both ends say so."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import schemas
from tool import DEADLINE, INFO, check, skip, wait_for

FRAMES = 60
VIDEO = ["video/x-raw,format=UYVY,width=320,height=180,framerate=50/1"]
CHECKSUM = re.compile(r"\d+:\d+:\d+\.\d+ ([0-9a-f]{40})")
OTHER_USERS = ("20001", "20002")

# As root of a user namespace: what it sees of the machine is the system, and the folder at the place that it is given.
INSIDE = """
shared=$1 place=$2 inside=$3
shift 3
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
mkdir -p "$place" /run/own
chmod 700 /run/own
mount --bind "$shared" "$place"
export XDG_RUNTIME_DIR=/run/own
# Another user than root is one of a namespace below, since this one mounts.
if [ "$inside" != 0 ]; then exec unshare --user --map-user="$inside" --map-group="$inside" "$@"; fi
exec "$@"
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--net",
           "--uts", "--cgroup", "--mount", "sh", "-euc", INSIDE, "sh"]


class Container:
    def __init__(self, shared, place, *command, user=None, inside=0):
        switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        self.process = subprocess.Popen(
            [*switch, *UNSHARE, shared, place, str(inside), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace")

    def end(self, status=0):
        """What it said."""
        out, err = self.process.communicate(timeout=DEADLINE)
        check(self.process.returncode == status, f"a container ends with {self.process.returncode}: {out[-500:]}{err}")
        return out, err

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def probe():
    """The reason why there are no such containers here; None: there are."""
    for program in ("unshare", "setpriv", "gst-launch-1.0"):
        if not shutil.which(program):
            return f"{program} is not installed"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*UNSHARE, folder, "/run/plant", "0", "true"], capture_output=True, text=True,
                              timeout=DEADLINE)
    return f"this machine makes no namespaces: {done.stderr.strip()}" if done.returncode else None


def send(shared, *sink, source=("num-buffers=%d" % FRAMES,), **how):
    return Container(shared, "/run/plant", "gst-launch-1.0", "-q", "videotestsrc", "is-live=true", *source, "!", *VIDEO,
                     "!", "tee", "name=t", "t.", "!", "queue", "!", "gpudirectsink", "address=unix:/run/plant/cam1",
                     *sink, "t.", "!", "queue", "!", "checksumsink", "sync=false", **how)


def receive(shared, place, *src, **how):
    return Container(shared, place, "gst-launch-1.0", "-m", "gpudirectsrc", f"address=unix:{place}/cam1", *src, "!",
                     "checksumsink", "sync=false", **how)


LOSSLESS = ("slow-receiver=block", "wait-for-connection=true")
ENDLESS = ("num-buffers=-1",)

if reason := probe():
    skip(reason)
# Makes the registry, which the containers read: to look at every plugin again takes each some seconds.
subprocess.run(["gst-inspect-1.0", "gpudirectsink"], stdout=subprocess.DEVNULL, timeout=DEADLINE, check=True)
with tempfile.TemporaryDirectory() as shared:
    # Two receivers at other places than the sender's.
    sender = send(shared, *LOSSLESS)
    receiver = receive(shared, "/run/elsewhere", "on-disconnect=eos")
    sent = CHECKSUM.findall(sender.end()[0])
    said, _ = receiver.end()
    came = CHECKSUM.findall(said)
    check(len(sent) == FRAMES and came == sent, f"of {len(sent)} frames came {len(came)}")
    check("active-path=(string)map" in said and "copies-cpu=(guint64)0" in said, "frames were copied")
    check('clock=(string)"same\\ host"' in said and "latency-p50=(guint64)" in said, "the latency is not known")
    check(not os.listdir(shared), f"left in the folder: {os.listdir(shared)}")

    # A third container lists the channel by its folder, and before that the receiver that waits.
    containers = [receive(shared, "/run/elsewhere")]
    try:
        def ask():
            out, _ = Container(shared, "/run/third", INFO, "--channels", "--json", "--directory", "/run/third").end()
            return schemas.require("channels.json", json.loads(out), "in a container")

        waiting = wait_for("a receiver that waits", lambda: ask()["waiting"])
        check(len(waiting) == 1 and waiting[0]["address"] == "unix:/run/third/cam1" and waiting[0]["pid"] is None and
              waiting[0]["name"] == "gst-launch-1.0", f"what waits is {waiting}")
        containers.insert(0, send(shared, source=ENDLESS))

        def listed():
            channels = ask()["channels"]
            found = channels and channels[0].get("receivers") and channels[0]["receivers"][0]["frames"] > 5
            return channels[0] if found else None
        channel = wait_for("the channel", listed)
        check(not ask()["waiting"], "a receiver that has its sender waits")
        check(channel["address"] == "unix:/run/third/cam1" and channel["answered"] and channel["pid"] is None and
              channel["receivers"][0]["route"] == "map", f"the channel is {channel}")

        # Another sender waits in its own container, and takes over when the first one is killed.
        containers.append(send(shared, "standby=true", source=ENDLESS))
        containers[0].kill()
        wait_for("the standby", lambda: (found := listed()) and found["connects"] >= 1)
    finally:
        for container in containers:
            container.kill()

# Users that do not know each other, since neither's namespace maps the other.
if os.geteuid() == 0:
    with tempfile.TemporaryDirectory() as shared:
        pathlib.Path(shared).chmod(0o1777)
        first, second = OTHER_USERS
        container = send(shared, source=ENDLESS, user=first)
        wait_for("the socket", lambda: os.path.exists(f"{shared}/cam1"))
        _, err = receive(shared, "/run/plant", "connection-timeout=10", user=second).end(1)
        check("a user of another user namespace (65534)" in err and "access=all" in err, f"another user: {err}")
        container.kill()

        # One that is 65534 itself must not take it for itself.
        container = send(shared, "access=all", source=ENDLESS, user=first)
        for inside in (0, 65534):
            wait_for("the socket", lambda: os.path.exists(f"{shared}/cam1"))
            _, err = receive(shared, "/run/plant", "connection-timeout=10", user=second, inside=inside).end(1)
            check("a user of another user namespace (65534)" in err and "here too" in err, f"as {inside}: {err}")
        container.kill()

        sender = send(shared, "access=all", *LOSSLESS, user=first)
        receiver = receive(shared, "/run/plant", "access=all", "on-disconnect=eos", user=second)
        sent = CHECKSUM.findall(sender.end()[0])
        said, _ = receiver.end()
        check(len(sent) == FRAMES and CHECKSUM.findall(said) == sent, f"to another user: {len(CHECKSUM.findall(said))}")
else:
    print("not shown: two users, for which this test is not root")
