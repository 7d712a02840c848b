/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "help.h"

#include <gpudirect/gpudirect.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char bench_help_summary[] =
    "Sends frames from one process to others and measures throughput, latency, the processors'\n"
    "time, copies and wakes a frame, and whether every frame arrives whole. The same run\n"
    "measures what the machine can do at best, and reports the ratio to it.";

const char bench_help_description[] =
    "Without --fps the sender goes as fast as its receivers allow, and throughput is compared\n"
    "with memcpy of the same frame in one thread. With --fps latency is compared with waking a\n"
    "process through an eventfd.\n"
    "\n"
    "Latency is from submit to acquire if both ends are the host, from submit to mapped and\n"
    "readable if a device takes part, and from the push into the sink to the mapped buffer for\n"
    "elements. If a CUDA or HIP device receives, latency ends when work begins that its stream\n"
    "does after waiting for the frame, which needs --fps; latency_cpu is until the CPU had the\n"
    "frame. With CUDA and HIP devices the same run measures what the driver itself reaches (the\n"
    "sender's driver if there are two), and work on a stream marks the frames: in four lines\n"
    "each, and eight frames to the last byte. Elements support this with CUDA only. Frames on\n"
    "OpenCL devices are written and read through mappings: their figures include the driver's\n"
    "copies to and from the host.\n"
    "Jitter is the mean difference from one frame to the next. Frames carry a number and a\n"
    "checksum in their first and last bytes and in eight places between. Lost frames are missing\n"
    "without being reported as dropped; torn frames have a wrong checksum.\n"
    "\n"
    "With --join, the times from one frame to the next show whether a connecting receiver delays\n"
    "the others' frames: between returns of submit, and between hand-overs to each of\n"
    "--receivers. Frames of the joining receivers are checked, too.\n"
    "\n"
    "Several receivers may be on several devices: --receivers 3 --to cuda:1,cuda:2,cuda:3.\n"
    "\n"
    "With --migrate both ends are in one process. It compares, by OpenCL alone, how long the\n"
    "first use of a frame takes on its destination device: once if the move began as soon as the\n"
    "frame was filled, once if the driver moves it on use. The ratio is about 1 if the devices\n"
    "share their memory. Then it measures frames a second by the routes migrate and staged.\n"
    "\n"
    "With --lines both ends are in one process, too, on the devices of --from and --to (that of\n"
    "--from). A writer takes the time of a picture to write one, in so many stripes, into a lent\n"
    "frame and, on one device that an external writer can reach, into a target. It compares\n"
    "frames that are handed over when they are whole with those whose lines are read as they\n"
    "come: by a reader that reads at once, and by one that takes as long for a picture as the\n"
    "writer, like an output at the picture's rate.\n"
    "\n"
    "Over a network card: --to is an address of this host, and the receivers connect to it over\n"
    "the card; their device is --device. The same run measures what the card reaches by plain\n"
    "RDMA writes of the same frame, with as many at once as there are slots. With --remote the\n"
    "receivers are on other hosts: as many as --receivers says, each started by\n"
    "gpudirect-bench --receive with the same address, in any order. The benches use TCP on the\n"
    "port after the address's, and each prints the whole report. Latency is known if both ends\n"
    "have one clock. Both need --psk-file, or the sending one --allow-unauthenticated; on one\n"
    "host a key is made for the run.\n"
    "\n"
    "With --channels all senders are in one process and all receivers in another, each with one\n"
    "thread that takes turns, as in an event loop; with --apart each channel has two processes.\n"
    "CPU time is that of all processes of a side, in percent of one processor and for a frame;\n"
    "late are frames for which no slot was free at their time. Then no frame is sent, and the\n"
    "wake-ups of all threads within a second are counted.\n"
    "\n"
    "With --failover two senders send the same instants at the same times, and the main one is\n"
    "killed halfway, with a slot in its hand. Missing are instants that the receiver did not get\n"
    "between its first and its last. The gap is from the main's last frame to the backup's first.\n"
    "\n"
    "With --start gst-launch-1.0 starts gpudirectsink while a gpudirectsrc waits for it, and then\n"
    "a gpudirectsrc beside it. Stages end with lines of their logs; a stage that ended before the\n"
    "one above it is 0. The wait for the next frame includes the time in which the test source\n"
    "draws it, and its pace. The receiver skips frames that were taken before its own start.\n"
    "\n"
    "A capture card: --capture receives its frames on the device of --to, and sends nothing.\n"
    "Latency is until a frame is mapped and readable: by the driver's stamps, and by the time in\n"
    "the picture if the card draws one, like the kernel's vivid (as root: modprobe vivid). Size\n"
    "and rate are the signal's, or the card's fastest.\n"
    "\n"
    "Elements: --sink and --src are gst-launch descriptions. Frames are pushed into the sink,\n"
    "in memory of the pool or allocator that it proposes, or with --source foreign in plain\n"
    "memory. In descriptions and in --compare\n"
    "  {dir}     is a private directory for sockets\n"
    "  {caps}    is the format, as in video/x-raw,format=UYVY,width=3840,…\n"
    "            with --from or --to cuda:N in CUDA memory: video/x-raw(memory:CUDAMemory),…\n"
    "  {device}  in a source: the receiver's own device\n"
    "  {bytes}   is the size of twice as many frames as there are slots\n"
    "\n"
    "With --report a set of these runs is measured, which takes about six minutes, and written "
    "into\n"
    "a folder: index.html shows the figures, each with its numbers and what it means, and\n"
    "report.json has everything. Nothing else should run on the machine meanwhile. Without\n"
    "matplotlib there is report.json alone, of which --draw makes the page on any machine.\n"
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
    "  gpudirect-bench --channels 1,16,64 --width 1920 --height 1080\n"
    "  gpudirect-bench --migrate --from opencl:0 --to opencl:1\n"
    "  gpudirect-bench --failover group --fps 60\n"
    "  gpudirect-bench --start --from cuda:0 --to cuda:0\n"
    "  gpudirect-bench --lines 18 --width 1920 --height 1080\n"
    "  gpudirect-bench --lines 18 --width 1920 --height 1080 --from cuda:0 --to cuda:1\n"
    "  gpudirect-bench --report results\n"
    "  gpudirect-bench --to rdma://10.0.0.1:7174\n"
    "  gpudirect-bench --to rdma://10.0.0.1:7174 --remote --psk-file ~/.gpudirect-key\n"
    "  gpudirect-bench --receive rdma://10.0.0.1:7174 --device cuda:0 --psk-file ~/.gpudirect-key\n"
    "  gpudirect-bench --capture v4l2:///dev/video0 --to cuda:0\n"
    "  gpudirect-bench --elements --compare 'shmsink socket-path={dir}/shm shm-size={bytes} |\n"
    "    shmsrc socket-path={dir}/shm is-live=true ! {caps}'";

/* The names of all routes, best first; to be freed with g_strfreev(). */
static gchar **list_routes(void)
{
    GPtrArray *names = g_ptr_array_new();
    struct gpud_context *context = NULL;
    struct gpud_device *host = NULL;
    if (gpud_context_create(NULL, &context, NULL) == GPUD_OK &&
        gpud_device_open(context, "host", &host, NULL) == GPUD_OK) {
        size_t count = gpud_route_explain(host, host, false, NULL, 0);
        struct gpud_route_info *routes = g_new0(struct gpud_route_info, count + 1);
        routes[0].size = sizeof(routes[0]);
        gpud_route_explain(host, host, false, routes, count);
        for (size_t i = 0; i < count; i++)
            g_ptr_array_add(names, g_strdup(routes[i].name));
        g_free(routes);
    }
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    g_ptr_array_add(names, NULL);
    return (gchar **)g_ptr_array_free(names, FALSE);
}

gchar *bench_help_route(void)
{
    gchar **routes = list_routes();
    gchar *names = g_strjoinv(", ", routes);
    gchar *last = strrchr(names, ',');
    gchar *text = g_strdup_printf("%.*s or%s; with --capture dmabuf, userptr or mmap (the best)",
                                  last ? (int)(last - names) : 0, names, last ? last + 1 : "");
    g_free(names);
    g_strfreev(routes);
    return text;
}

bool bench_usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("gpudirect-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see --help)\n", stderr);
    va_end(args);
    return false;
}

bool bench_usage_text(char *field, size_t size, const char *option, const char *value)
{
    if (g_strlcpy(field, value ? value : "", size) < size)
        return true;
    return bench_usage_error("%s \"%.40s…\" is too long", option, value);
}
