# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""PipeWire's elements on both sides of ours, over a daemon of the test's own: whole pictures, and a death of each of
the processes between."""

import json
import os
import shutil
import subprocess
import sys

from chains import DEADLINE, LIVE, Chain, Pictures, folder, kill, need, skip, wait_for

PROGRAMS = {"pipewire": "pipewire", "pw-dump": "pipewire-bin", "wireplumber": "wireplumber",
            "dbus-run-session": "dbus-daemon"}


def objects(kind):
    """What the daemon has of a kind, as in Node."""
    done = subprocess.run(["pw-dump"], capture_output=True, text=True, timeout=DEADLINE)
    try:
        found = json.loads(done.stdout)
    except ValueError: # the daemon does not listen yet
        return []
    return [item["info"] for item in found if item.get("type") == f"PipeWire:Interface:{kind}" and item.get("info")]


def nodes():
    """Those by their names that can be linked: their ports and formats are known."""
    return [node["props"].get("node.name") for node in objects("Node")
            if node.get("n-output-ports") and node.get("params", {}).get("EnumFormat")]


def manager_is_there():
    return any("WirePlumber" in client["props"].get("application.name", "") for client in objects("Client"))


def pipewiresink(name):
    """Without sync: if upstream has a pool of its own, PipeWire 1.4's clock waits for pictures that wait for it."""
    return ["pipewiresink", "mode=provide", "sync=false",
            f"stream-properties=p,node.name={name},media.class=Video/Source,media.role=Camera"]


def pipewiresrc(name, caps):
    wait_for(f"the node {name}", lambda: name in nodes())
    return ["pipewiresrc", f"target-object={name}", "!", caps, "!"]


def check_chain(form, size):
    pictures = Pictures(form, size)
    with Chain() as chain:
        def start_source():
            return chain.start("source", *LIVE, pictures.caps, "!", "gpudirectsink", "address=a", "sync=false")

        def start_out(name):
            return chain.start(name, "gpudirectsrc", "address=b", "!", "filesink", f"location={name}",
                               "buffer-mode=unbuffered")

        def start_from_ours():
            return chain.start("from-ours", "gpudirectsrc", "address=a", "!", *pipewiresink("ours"))

        def start_to_ours():
            return chain.start("to-ours", *pipewiresrc("ours", pictures.caps), "gpudirectsink", "address=b",
                               "sync=false")

        source, from_ours = start_source(), start_from_ours()
        to_ours = start_to_ours()
        out = start_out(f"{form}.out")
        pictures.wait_for(f"{form}.out", 20)

        # The sender of ours: PipeWire's graph stays, and goes on with the next one.
        kill(source)
        source = start_source()
        pictures.wait_for(f"{form}.out", 20)

        # Our receiver, which is PipeWire's source, and then its sink, which is our sender.
        kill(to_ours)
        kill(from_ours)
        wait_for("the node's end", lambda: "ours" not in nodes())
        start_from_ours()
        start_to_ours()
        pictures.wait_for(f"{form}.out", 20)
        kill(out)
        pictures.check_order(f"{form}.out", starts=2)
        start_out(f"{form}.again")
        pictures.wait_for(f"{form}.again", 20)
        pictures.check_order(f"{form}.again")


def run():
    with folder(), Chain() as daemons:
        os.environ |= {"XDG_CONFIG_HOME": os.getcwd(), "XDG_STATE_HOME": os.getcwd()}
        daemons.start("pipewire", program=["pipewire"])
        wait_for("PipeWire", lambda: os.path.exists("pipewire-0"))
        daemons.start("wireplumber", program=["wireplumber"])
        wait_for("WirePlumber", manager_is_there)
        # PipeWire passes on nothing of less than a page.
        check_chain("RGB", (98, 50))
        check_chain("NV12", (98, 50))


need({"pipewiresink": "gstreamer1.0-pipewire", "gpudirectsink": "not built"})
for program, package in PROGRAMS.items():
    if not shutil.which(program):
        skip(f"{program} is not installed ({package})")
if sys.argv[1:] == ["inside"]:
    run()
else:
    # A bus of its own, which WirePlumber 0.4 does not start without.
    os.execvp("dbus-run-session", ["dbus-run-session", "--", sys.executable, __file__, "inside"])
