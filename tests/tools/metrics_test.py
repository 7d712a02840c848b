# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info --metrics: what promtool accepts, also of programs with names that need escaping; drops by cause and
latencies as they happen; and the rules and the board in pipelines/monitoring use nothing else."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from tool import DEADLINE, INFO, check, run, skip, wait_for

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "pipelines" / "monitoring"
CAPS = "video/x-raw,format=UYVY,width=320,height=180,framerate=50/1"
NAME = 'a"b\\c'  # of a receiver
ESCAPED = 'a\\"b\\\\c'
SAMPLE = re.compile(r'^(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")
if not shutil.which("promtool"):
    skip("promtool is not installed (./tools/setup check installs it with prometheus)")


def promtool(*args, text=None):
    done = subprocess.run(["promtool", *args], input=text, capture_output=True, text=True, timeout=DEADLINE)
    check(done.returncode == 0 and not done.stderr.strip(),
          f"promtool {' '.join(map(str, args))}: {done.stdout}{done.stderr}")


def read(*args):
    """The samples, as (name, labels, value); each name and labels once."""
    text = run(INFO, "--metrics", *args)[0]
    promtool("check", "metrics", text=text)
    samples = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        check(match, f"not a sample: {line!r}")
        samples.append((match[1], dict(LABEL.findall(match[2] or "")), float(match[3])))
    keys = [(name, tuple(sorted(labels.items()))) for name, labels, _ in samples]
    check(len(keys) == len(set(keys)), "a sample is there twice")
    return samples, text


def value(samples, metric, /, **labels):
    """The sum of those with these labels; None: there are none."""
    found = [number for one, own, number in samples if one == metric and labels.items() <= own.items()]
    return sum(found) if found else None


runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
started = []


def launch(*words, program="gst-launch-1.0"):
    process = subprocess.Popen([program, "-q", *words], stdout=subprocess.DEVNULL)
    started.append(process)
    return process


def end(process):
    """SIGINT again and again: gst-launch-1.0 may not have its handler yet."""
    def ended():
        process.send_signal(signal.SIGINT)
        return process.poll() is not None
    wait_for("the end of a pipeline", ended)


def check_nothing():
    samples, text = read()
    check({name for name, _, _ in samples} == {"gpudirect_build_info"}, f"without a channel: {text}")
    for args, says in ((["--metrics", "--json"], "do not go with --metrics"),
                       (["--metrics", "--watch"], "do not go with --metrics"),
                       (["--metrics", "--plot", "x.svg"], "do not go")):
        check(says in run(INFO, *args, status=2)[1], f"{args} is taken")


def check_streams():
    strange = pathlib.Path(runtime.name) / NAME
    strange.symlink_to(shutil.which("gst-launch-1.0"))
    senders = [launch("videotestsrc", "is-live=true", "!", CAPS, "!", "gpudirectsink", f"address=cam-{policy}",
                      f"slow-receiver=drop-{policy}") for policy in ("oldest", "newest")]
    receivers = [launch("gpudirectsrc", f"address=cam-{policy}", "!", "fakesink", "sync=false", program=strange)
                 for policy in ("oldest", "newest")]
    for policy in ("oldest", "newest"):
        own = {"channel": f"cam-{policy}", "name": ESCAPED}
        wait_for("frames", lambda: (value(read()[0], "gpudirect_receiver_latency_seconds_count", **own) or 0) > 25)
        samples = read()[0]
        buckets = [number for name, labels, number in samples
                   if name == "gpudirect_receiver_latency_seconds_bucket" and own.items() <= labels.items()]
        check(len(buckets) == 16 and buckets == sorted(buckets) and
              buckets[-1] == value(samples, "gpudirect_receiver_latency_seconds_count", **own), f"buckets {buckets}")
        check(0 < value(samples, "gpudirect_receiver_latency_max_seconds", **own) < 30, "the longest latency")
        check(value(samples, "gpudirect_receiver_copies_total", **own) == 0, "copies where nothing is copied")
        check(value(samples, "gpudirect_channel_info", channel=f"cam-{policy}", format="UYVY", width="320",
                    slow_receiver=f"drop-{policy}") == 1, "what the channel sends")
    # A receiver that is stopped loses frames by its sender's policy, and by no other cause.
    for process in receivers:
        process.send_signal(signal.SIGSTOP)
    for policy, other in (("oldest", "newest"), ("newest", "oldest")):
        drops = lambda cause: value(read()[0], "gpudirect_receiver_dropped_frames_total", channel=f"cam-{policy}",
                                    cause=cause)
        wait_for("drops", lambda: drops(policy) > 20)
        check(drops(other) == 0 and drops("failed") == 0, f"cam-{policy} drops by {other}")
    for process in receivers:
        process.send_signal(signal.SIGCONT)
    # A sender that is stopped does not answer, and says nothing else.
    senders[0].send_signal(signal.SIGSTOP)
    wait_for("an answer of the other sender", lambda: value(read()[0], "gpudirect_channel_up", channel="cam-newest"))
    samples = read()[0]
    check(value(samples, "gpudirect_channel_up", channel="cam-oldest") == 0, "a stopped sender is up")
    check(value(samples, "gpudirect_channel_frames_total", channel="cam-oldest") is None, "frames of a stopped sender")
    check({labels.get("channel") for _, labels, _ in read("cam-newest")[0]} == {None, "cam-newest"}, "one address")
    senders[0].send_signal(signal.SIGCONT)
    end(receivers[0])
    wait_for("the goodbye", lambda: value(read()[0], "gpudirect_receiver_info", channel="cam-oldest") is None)
    check(value(read()[0], "gpudirect_channel_disconnects_total", channel="cam-oldest") == 1, "a receiver that left")
    return read()[1]


def check_rules(text):
    promtool("check", "rules", str(MONITORING / "alerts.yml"))
    promtool("check", "config", str(MONITORING / "prometheus.yml"))
    families = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    for name in ("alerts.yml", "grafana.json"):
        used = set(re.findall(r"\bgpudirect_\w+", (MONITORING / name).read_text()))
        unknown = {one for one in used if re.sub(r"_(bucket|sum|count)$", "", one) not in families}
        check(used and not unknown, f"{name} uses {unknown}, which --metrics does not have")
    # Each alert at what it is for, and none at a stream that is well.
    own = 'channel="cam1",receiver="1",name="viewer",instance="here"'
    own_up = 'gpudirect_channel_up{channel="cam1",instance="here"}'
    cases = {
        # A stream that is well, beside one whose sender ended with a goodbye, and one whose frames leave a GPU.
        None: [('up{job="gpudirect",instance="here"}', "1x40"),
               (own_up, "1x40"),
               ('gpudirect_channel_black_seconds{channel="cam1",instance="here"}', "1x40"),
               ('gpudirect_channel_frozen_seconds{channel="cam1",instance="here"}', "1x40"),
               ('gpudirect_channel_silent_seconds{channel="cam1/audio",instance="here"}', "0.5x40"),
               ('gpudirect_receivers_waiting{channel="cam1",instance="here"}', "0x40"),
               ('gpudirect_channel_up{channel="cam2",instance="here"}', "1x10 0x30"),
               ('gpudirect_channel_gone_seconds{channel="cam2",instance="here",how="ended"}', "_x10 0+5x30"),
               (f'gpudirect_receiver_info{{{own},device="host",route="staged",reason="map: another device"}}', "1x40"),
               (f'gpudirect_route_degraded{{{own},kind=""}}', "0x40"),
               ('gpudirect_channel_info{channel="cam1",instance="here",device="cuda:0"}', "1x40"),
               ('gpudirect_channel_frame_age_seconds{channel="cam1",instance="here"}', "0.01x40"),
               ('gpudirect_channel_ended{channel="cam1",instance="here"}', "0x40"),
               (f'gpudirect_receiver_dropped_frames_total{{{own},cause="oldest"}}', "7x40"),
               (f'gpudirect_receiver_latency_seconds_bucket{{{own},le="0.001"}}', "0+250x40"),
               (f'gpudirect_receiver_latency_seconds_bucket{{{own},le="+Inf"}}', "0+250x40"),
               ('gpudirect_receiver_dropped_frames_total{channel="cam1",receiver="2",name="gpudirect-monitor"}',
                "0+245x40")],
        "GpudirectFrameLoss": [(f'gpudirect_receiver_dropped_frames_total{{{own},cause="oldest"}}', "0+5x40")],
        "GpudirectNoSignal": [('gpudirect_channel_frame_age_seconds{channel="cam1",instance="here"}', "0+5x40"),
                              ('gpudirect_channel_ended{channel="cam1",instance="here"}', "0x40")],
        "GpudirectSenderSilent": [('gpudirect_channel_up{channel="cam1",instance="here"}', "0x40")],
        "GpudirectSenderDied": [(own_up, "1x10 0x30"),
                                ('gpudirect_channel_gone_seconds{channel="cam1",instance="here",how="died"}',
                                 "_x10 0+5x30")],
        "GpudirectSenderGone": [(own_up, "1x10 0x30"),
                                ('gpudirect_channel_gone_seconds{channel="cam1",instance="here",how="unknown"}',
                                 "_x10 0+5x30")],
        "GpudirectChannelMissing": [('gpudirect_channel_up{channel="cam1",instance="here",expected="yes"}', "0x40"),
                                    ('gpudirect_channel_gone_seconds{channel="cam1",instance="here",expected="yes",'
                                     'how="never"}', "0+5x40")],
        "GpudirectReceiversWaiting": [('gpudirect_receivers_waiting{channel="cam1",instance="here"}', "0x10 1x30")],
        "GpudirectRouteDegraded": [(f'gpudirect_receiver_info{{{own},device="cuda:1",route="staged",'
                                    'reason="peer: no link"}', "1x40"),
                                   (f'gpudirect_route_degraded{{{own},kind="peer-access"}}', "1x40")],
        "GpudirectPictureBlack": [('gpudirect_channel_black_seconds{channel="cam1",instance="here"}', "0+5x40"),
                                  ('gpudirect_channel_frozen_seconds{channel="cam1",instance="here"}', "0+5x40")],
        "GpudirectPictureFrozen": [('gpudirect_channel_black_seconds{channel="cam1",instance="here"}', "1x40"),
                                   ('gpudirect_channel_frozen_seconds{channel="cam1",instance="here"}', "0+5x40")],
        "GpudirectSoundSilent": [('gpudirect_channel_silent_seconds{channel="cam1",instance="here"}', "0+5x40")],
        "GpudirectMonitorDown": [('up{job="gpudirect",instance="here"}', "0x40")],
        "GpudirectLatency": [(f'gpudirect_receiver_latency_seconds_bucket{{{own},le="0.001"}}', "0+100x40"),
                             (f'gpudirect_receiver_latency_seconds_bucket{{{own},le="0.05"}}', "0+250x40"),
                             (f'gpudirect_receiver_latency_seconds_bucket{{{own},le="+Inf"}}', "0+250x40")],
    }
    names = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    check(set(names) == {name for name in cases if name}, f"the alerts are {names}")
    lines = [f"rule_files: [{MONITORING / 'alerts.yml'}]", "tests:"]
    for fires, series in cases.items():
        lines += ["  - interval: 5s", "    input_series:"]
        for labels, values in series:
            lines += [f"      - series: '{labels}'", f"        values: '{values}'"]
        lines += ["    promql_expr_test:"]
        for name in names:
            lines += [f"      - expr: count(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}})",
                      "        eval_time: 3m"]
            if name == fires:
                lines += ["        exp_samples: [{labels: '{}', value: 1}]"]
    path = pathlib.Path(runtime.name) / "rules_test.yml"
    path.write_text("\n".join(lines) + "\n")
    promtool("test", "rules", str(path))


try:
    check_nothing()
    check_rules(check_streams())
finally:
    for process in started:
        process.kill()
        process.wait()
