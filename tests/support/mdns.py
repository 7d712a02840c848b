# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Avahi's daemon, and the D-Bus that it needs, on a host of netns.py: both its own, beside those of the machine.

    with netns.Cable() as cable, mdns.Avahi(cable.a, "studio-a") as daemon:
        cable.a.run("gpudirect-info", "--channels", "--network")     # finds the daemon by the host's environment
        daemon.kill()
"""

import os
import shutil
import signal
import tempfile

from verdict import check, skip, wait_for

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow receive_sender="*"/>
  </policy>
  <limit name="max_match_rules_per_connection">4096</limit>
</busconfig>
"""

DAEMON = """[server]
host-name={name}
allow-interfaces={interface}
use-ipv4=yes
use-ipv6={ipv6}
ratelimit-interval-usec=0

[publish]
publish-workstation=no
publish-hinfo=no
"""


class Avahi:
    """One per host. `daemon` is its process, or None."""

    def __init__(self, host, name, daemon=True):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        for program, package in (("dbus-daemon", "dbus-daemon"), ("avahi-daemon", "avahi-daemon")):
            if not shutil.which(program):
                skip(f"{program} is not installed ({package})")
        self.host, self.name = host, name
        self._folder = tempfile.TemporaryDirectory(prefix="gpud-bus-")
        folder = self._folder.name
        with open(f"{folder}/bus.conf", "w") as file:
            file.write(BUS.format(folder=folder))
        with open(f"{folder}/avahi.conf", "w") as file:
            file.write(DAEMON.format(name=name, interface=host.interface, ipv6="yes" if host.has_ipv6 else "no"))
        # The daemon's files and its socket are the machine's own otherwise.
        os.mkdir(f"{folder}/run")
        host.output("sh", "-c", f"mkdir -p /run/avahi-daemon && mount --bind {folder}/run /run/avahi-daemon")
        host.env["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={folder}/bus"
        self._log = open(f"{folder}/log", "w")
        self.bus = self.start_bus()
        self.daemon = None
        if daemon:
            self.start()

    def start_bus(self):
        bus = self.host.start("dbus-daemon", f"--config-file={self._folder.name}/bus.conf", "--nofork", "--nopidfile",
                              stdout=self._log, stderr=self._log)
        wait_for("D-Bus", lambda: os.path.exists(f"{self._folder.name}/bus") or bus.poll() is not None)
        check(bus.poll() is None, f"dbus-daemon does not start: {self.log()}")
        return bus

    def start(self):
        self.daemon = self.host.start("avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits", "-f",
                                      f"{self._folder.name}/avahi.conf", stdout=self._log, stderr=self._log)
        wait_for(f"avahi-daemon: {self.log()}", lambda: self.daemon.poll() is not None or "startup complete" in
                 self.log().rsplit("starting up", 1)[-1])
        check(self.daemon.poll() is None, f"avahi-daemon does not start: {self.log()}")

    def kill(self):
        """As a crash."""
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()
        self.daemon = None
        os.remove(f"{self._folder.name}/run/pid")

    def log(self):
        with open(f"{self._folder.name}/log") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.daemon, self.bus):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        self._log.close()
        self.host.run("umount", "/run/avahi-daemon")
        self._folder.cleanup()
