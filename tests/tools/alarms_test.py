# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The shipped alert rules in a real Prometheus that asks gpudirect-monitor: none rings where all is well; each rings at
a sender that is stopped, killed or was never there, at one that is expected and has ended, at receivers that wait, and
at a receiver that loses frames; and they end when the sender is back, or is dismissed."""

import os
import pathlib
import shutil
import signal
import tempfile

from monitors import MONITORING, Monitor, Pipelines, Prometheus, wait_for_frames
from tool import check, skip, wait_for

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")
if Prometheus.missing:
    skip(Prometheus.missing)

runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
folder = pathlib.Path(runtime.name)


def state_of(prometheus, name, channel):
    """Of an alert; "": it is not there; None: there is no answer."""
    alerts = prometheus.alerts()
    return None if alerts is None else alerts.get((name, channel), "")


def wait_for_alert(prometheus, name, channel, states=("pending", "firing")):
    wait_for(f"{name} of {channel}, {' or '.join(states)}", lambda: state_of(prometheus, name, channel) in states)


def wait_for_quiet(prometheus, name, channel):
    wait_for(f"the end of {name} of {channel}", lambda: state_of(prometheus, name, channel) == "")


def check_alarms(monitor, prometheus, pipelines):
    cam1, cam2 = pipelines.send("cam1"), pipelines.send("cam2")
    cam3 = pipelines.send("cam3")
    receiver = pipelines.receive("cam1")
    for address in ("cam1", "cam2", "cam3"):
        wait_for_frames(monitor, address, int(address == "cam1"))
    # What is expected and was never there, beside what is well.
    wait_for_alert(prometheus, "GpudirectChannelMissing", "cam9")
    up = 'gpudirect_channel_up{channel="cam1"}'
    wait_for("the scrape", lambda: (prometheus.query(up) or [{"value": (0, "0")}])[0]["value"][1] == "1")
    check(set(prometheus.alerts()) == {("GpudirectChannelMissing", "cam9")}, f"there are {prometheus.alerts()}")

    cam3.send_signal(signal.SIGSTOP)
    wait_for_alert(prometheus, "GpudirectSenderSilent", "cam3")
    cam3.send_signal(signal.SIGCONT)
    wait_for_quiet(prometheus, "GpudirectSenderSilent", "cam3")

    # A receiver takes nothing.
    receiver.send_signal(signal.SIGSTOP)
    wait_for_alert(prometheus, "GpudirectFrameLoss", "cam1")
    receiver.send_signal(signal.SIGCONT)

    # Its sender is killed: it waits.
    cam1.kill()
    cam1.wait()
    wait_for_alert(prometheus, "GpudirectSenderDied", "cam1")
    wait_for_alert(prometheus, "GpudirectReceiversWaiting", "cam1")
    wait_for_alert(prometheus, "GpudirectSenderDied", "cam1", ("firing",))
    check(state_of(prometheus, "GpudirectSenderSilent", "cam1") == "", "one that is gone is silent, too")
    pipelines.send("cam1")
    for name in ("GpudirectSenderDied", "GpudirectReceiversWaiting"):
        wait_for_quiet(prometheus, name, "cam1")

    # An end with a goodbye is an alarm where the channel is expected alone.
    for process in (cam2, cam3):
        process.send_signal(signal.SIGINT)
        process.wait()
    wait_for_alert(prometheus, "GpudirectChannelMissing", "cam2")
    wait_for("cam3 is known to be gone", lambda: prometheus.query('gpudirect_channel_gone_seconds{channel="cam3"}'))
    check(not {key for key in prometheus.alerts() if key[1] == "cam3"}, f"a goodbye is an alarm: {prometheus.alerts()}")

    # What died and will not come back is dismissed.
    cam4 = pipelines.send("cam4")
    wait_for_frames(monitor, "cam4", 0)
    cam4.kill()
    cam4.wait()
    wait_for_alert(prometheus, "GpudirectSenderDied", "cam4")
    check(monitor.dismiss("cam4") == 200, "it cannot be dismissed")
    wait_for_quiet(prometheus, "GpudirectSenderDied", "cam4")

    check_content(monitor, prometheus, pipelines)
    monitor.kill()
    wait_for_alert(prometheus, "GpudirectMonitorDown", None)


def check_content(monitor, prometheus, pipelines):
    """Pictures that stand still or are black, silent sound; and each beside one that is well."""
    caps = "audio/x-raw,format={},rate=48000,channels=2,layout=interleaved"
    for address, pattern in (("still", "smpte100"), ("black", "black"), ("moves", "ball")):
        pipelines.send(address, pattern=pattern)
    for address, wave, form in (("quiet/audio", "silence", "S24LE"), ("loud/audio", "sine", "S16LE"),
                                ("loud2/audio", "sine", "F32LE")):
        pipelines.launch("audiotestsrc", "is-live=true", f"wave={wave}", "!", caps.format(form), "!", "gpudirectsink",
                         f"address={address}")
    for name, address, state in (("GpudirectPictureFrozen", "still", "Frozen"),
                                 ("GpudirectPictureBlack", "black", "Black"),
                                 ("GpudirectSoundSilent", "quiet/audio", "Silent")):
        wait_for_alert(prometheus, name, address)
        channel = monitor.channel(address)
        check(channel["state"] == state and channel["severity"] == "warning", f"{channel}")
    for family, address in (("frozen", "moves"), ("black", "moves"), ("silent", "loud/audio"),
                            ("silent", "loud2/audio")):
        found = prometheus.query(f'gpudirect_channel_{family}_seconds{{channel="{address}"}}')
        check(found, f"nothing is known of {family} of {address}")
    wrong = {("GpudirectPictureFrozen", "still"), ("GpudirectPictureBlack", "black"),
             ("GpudirectSoundSilent", "quiet/audio")}
    wait_for("alarms of what is wrong alone", lambda: {
        one for one in prometheus.alerts() if one[0].startswith(("GpudirectPicture", "GpudirectSound"))} == wrong)


expected = folder / "expected"
expected.write_text("# of this studio\ncam2\ncam9  # comes later\n")
monitor = Monitor("--expect", str(expected), "--watch-content")
prometheus = Prometheus(monitor, folder, MONITORING / "prometheus.yml", MONITORING / "alerts.yml")
with Pipelines() as pipelines:
    try:
        check_alarms(monitor, prometheus, pipelines)
    finally:
        monitor.kill()
        prometheus.close()
