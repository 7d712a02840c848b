/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What --help says before and after the options. */
#include "options.h"

const char bench_help_summary[] =
    "Sends frames from one process to others and measures it: throughput, latency, the\n"
    "processors' time, copies and wakes a frame, and whether every frame arrives whole. What the\n"
    "machine can do at best is measured in the same run, and the ratio to it is given.";

const char bench_help_description[] =
    "Without --fps the sender goes as fast as its receivers let it, and throughput is compared\n"
    "with memcpy of the same frame in one thread. With --fps latency is compared with waking a\n"
    "process through an eventfd.\n"
    "\n"
    "Latency is from submit to acquire where both ends are the host, from submit to mapped and\n"
    "readable where a device takes part, and from the push into the sink to the mapped buffer\n"
    "for elements. Where a CUDA device receives, it ends when work that its stream does after\n"
    "the frame was waited for begins, which needs --fps; latency_cpu is until the CPU had it.\n"
    "With CUDA devices what the driver itself reaches is measured in the same run, and frames\n"
    "are marked by work on a stream: in four lines each, and eight frames to the last byte.\n"
    " Jitter is the mean difference from one frame to the next. Frames carry a\n"
    "number and a checksum in their first and last bytes and in eight places between; lost are\n"
    "those that nobody reported as dropped, torn those that do not check.\n"
    "\n"
    "With --join, the times from one frame to the next show whether a receiver that connects\n"
    "delays the others' frames: between returns of submit, and between hand-overs to each of\n"
    "--receivers. Frames of the receivers that join are checked, too.\n"
    "\n"
    "Several receivers may be on several devices: --receivers 3 --to cuda:1,cuda:2,cuda:3.\n"
    "\n"
    "Elements: --sink and --src take gst-launch descriptions. Frames are pushed into the sink,\n"
    "in memory of the pool or allocator that it proposes, or with --source foreign in plain\n"
    "memory. In descriptions and in --compare\n"
    "  {dir}     is a private directory for sockets\n"
    "  {caps}    is the format, as in video/x-raw,format=UYVY,width=3840,…\n"
    "            with --from or --to cuda:N in CUDA memory: video/x-raw(memory:CUDAMemory),…\n"
    "  {device}  in a source: the receiver's own device\n"
    "  {bytes}   is the size of twice as many frames as there are slots\n"
    "\n"
    "Exit status: 0 all frames arrived; 1 the measurement failed; 2 wrong usage; 3 frames were\n"
    "lost or torn.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-bench --receivers 4\n"
    "  gpudirect-bench --fps 60 --json\n"
    "  gpudirect-bench --fps 1000 --join 50\n"
    "  gpudirect-bench --from cuda:0 --to cuda:1 --runs 5\n"
    "  gpudirect-bench --from opencl:0 --to opencl:0 --route staged --source foreign\n"
    "  gpudirect-bench --elements --compare 'shmsink socket-path={dir}/shm shm-size={bytes} |\n"
    "    shmsrc socket-path={dir}/shm is-live=true ! {caps}'";
