# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench refuses what cannot be, with a sentence and an exit status, and prints no numbers."""

import os

from tool import BENCH, SMALL, check, refused, run

refused(2, "is not a device", "--from", "nowhere")
refused(2, "is not a device", "--to", "nowhere")
err = run(BENCH, "--from", "cuda", status=1, env={"LD_LIBRARY_PATH": ""})[1]
check("sender: no NVIDIA driver" in err or os.path.exists("/dev/nvidia0"),
      f"without a driver: {err!r}")
err = run(BENCH, "--from", "cuda:7", status=1, env={"LD_LIBRARY_PATH": ""})[1]
check("no NVIDIA driver" in err or os.path.exists("/dev/nvidia0"), f"a device of no driver: {err!r}")
refused(1, "there is no opencl:99: the last one here is opencl:", "--from", "opencl:99")
refused(2, 'no route "warp"', "--route", "warp")
refused(1, "only between OpenCL devices", "--route", "directgma", *SMALL)
refused(2, '--format "XYZ": not known; UYVY', "--format", "XYZ")
refused(2, "--width 4 --height 4: a frame of 32 bytes is too small", "--width", "4", "--height", "4")
refused(2, "--width 32000 --height 32000: a frame of 3.8 GiB", "--width", "32000", "--height", "32000", "--format",
        "RGBA")
refused(2, "--width 0", "--width", "0")
refused(2, "1 to 32", "--receivers", "33")
refused(2, "1 to 64", "--slots", "65")
refused(2, "--slots 0: 1 to 64", "--slots", "0")
refused(2, "--slots 1: with --elements 2 to 64", "--slots", "1", "--elements")
for frames in ("-1", "0", "1"):
    refused(2, f"--frames {frames}: 2 to", "--frames", frames)
for runs in ("-1", "0", "1001"):
    refused(2, f"--runs {runs}: 1 to 1000", "--runs", runs)
for rate in ("fast", "0", "-5", "60/0", "60/", "nan", "1e9"):
    refused(2, "--fps", "--fps", rate)
refused(2, "drop-newest", "--slow-receiver", "never")
refused(2, "foreign", "--source", "borrowed")
refused(2, "full", "--verify", "half")
refused(2, "--nonsense", "--nonsense")
refused(2, "cam1", "cam1")
refused(2, "belong together", "--sink", "fakesink")
refused(2, "SINK | SOURCE", "--compare", "fakesink")
refused(2, "nosuchsink", "--sink", "nosuchsink", "--src", "fakesrc")
refused(2, "open sink pad", "--sink", "fakesrc", "--src", "fakesrc")
refused(2, "--route", "--elements", "--route", "map")
# Over a network card.
refused(2, "--device goes with --to rdma://", "--device", "host")
refused(2, "--psk-file goes with --to rdma://", "--psk-file", "/etc/hostname")
refused(2, "--allow-unauthenticated goes with", "--allow-unauthenticated", "--to", "host")
refused(2, "have the address among", "--to", "rdma://127.0.0.1", "--sink", "fakesink", "--src", "fakesrc")
refused(2, "--remote goes with --to rdma://", "--remote")
refused(2, "an option of the other host's --receive", "--to", "rdma://127.0.0.1", "--remote", "--device", "host")
refused(2, "--compare is for one host", "--to", "rdma://127.0.0.1", "--remote", "--compare", "a | b")
for port in ("0", "65535", "70000", "x"):
    refused(2, "a port from 1 to 65534", "--to", f"rdma://127.0.0.1:{port}", "--remote")
refused(2, "a port from 1 to 65534", "--receive", "rdma://[::1]:65535")
refused(2, "the sending host's address is needed", "--receive", "127.0.0.1")
refused(2, "there is one", "--receive", "rdma://127.0.0.1", "--device", "host,host")
for address in ("tcp://127.0.0.1:65535", "tcp://127.0.0.1:0"):
    refused(2, "a port from 1 to 65534", "--receive", address)
refused(2, "--receive \"udp://127.0.0.1\": the sending host's address is needed", "--receive", "udp://127.0.0.1")
refused(2, "--net-namespaces goes with --to tcp://", "--net-namespaces")
refused(2, "--net-namespaces goes with --to tcp://", "--net-namespaces", "--to", "rdma://127.0.0.1")
refused(2, "are for one host", "--net-namespaces", "--to", "tcp://127.0.0.1", "--remote")
refused(2, "are for one host", "--ceilings", "--to", "tcp://127.0.0.1", "--remote")
refused(2, "--ceilings does not go with --compare", "--ceilings", "--compare", "a | b")
for host in ("localhost", "[::1]"):
    refused(2, "an IPv4 address in digits is needed", "--to", f"tcp://{host}", "--net-namespaces")
refused(2, "by {host}, {peer} and {port}", "--to", "tcp://127.0.0.1", "--sink", "fakesink", "--src", "fakesrc")
refused(1, 'the host "nowhere.invalid"', "--ceilings", "--to", "tcp://nowhere.invalid")
for more in (["--from", "host"], ["--to", "host"], ["--frames", "10"], ["--runs", "2"], ["--elements"],
             ["--remote"], ["--allow-unauthenticated"], ["--fps", "50"], ["--verify", "full"]):
    refused(2, "the sending gpudirect-bench takes all other options", "--receive", "rdma://127.0.0.1", *more)
refused(1, 'the host "nowhere.invalid"', "--receive", "rdma://nowhere.invalid")
if os.environ["GPUDIRECT_RDMA"] == "yes":
    refused(2, "an IPv6 address needs brackets", "--to", "rdma://1:2:3")
else:
    refused(1, "built without rdma", "--to", "rdma://127.0.0.1")
if os.environ["GPUDIRECT_RDMA"] == "yes" and not os.path.exists("/sys/class/infiniband"):
    for more in ([], ["--remote", "--allow-unauthenticated"], ["--elements"], ["--fps", "50"]):
        refused(1, "no RDMA device", "--to", "rdma://127.0.0.1:7174", *SMALL, *more)
refused(1, "took too long", "--timeout", "1", "--frames", "10000000", "--source", "foreign")
