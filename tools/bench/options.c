/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command line. */
#include "bench.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === help ==================================================================================== */

static const char help_summary[] =
    "Sends frames from one process to others and measures throughput, latency, the processors'\n"
    "time, copies and wakes a frame, and whether every frame arrives whole. The same run\n"
    "measures what the machine can do at best, and reports the ratio to it.";

static const char help_description[] =
    "Without --fps the sender goes as fast as its receivers allow, and throughput is compared\n"
    "with memcpy of the same frame in one thread. With --fps latency is compared with waking a\n"
    "process through an eventfd.\n"
    "\n"
    "Latency is from submit to acquire if both ends are the host, from submit to mapped and\n"
    "readable if a device takes part, and from the push into the sink to the mapped buffer for\n"
    "elements. If a CUDA or HIP device receives, latency ends when work begins that its stream\n"
    "does after waiting for the frame, which needs --fps; latency_cpu is until the CPU had the\n"
    "frame. With CUDA and HIP devices the same run measures what the driver itself reaches (the\n"
    "sender's driver if there are two), and work on a stream marks the frames, eight of them to\n"
    "the last byte if they have 256 MiB at most. Elements support this with CUDA only. Frames on\n"
    "OpenCL devices are written and read through mappings: their figures include the driver's\n"
    "copies to and from the host.\n"
    "Jitter is the mean difference from one frame to the next. Frames carry their number in eight\n"
    "lines of each plane that has as many, from the first to about the last. Lost frames are\n"
    "missing without being reported as dropped; torn frames have the marks of several frames, or\n"
    "none. --verify full fills frames with a byte that depends on their number, and where only\n"
    "CPUs take part on plane and line as well, so that swapped lines are seen.\n"
    "\n"
    "Several receivers may be on several devices: --receivers 3 --to cuda:1,cuda:2,cuda:3.\n"
    "\n"
    "Over a network: --to is an address of this host, and the receivers connect to it; their\n"
    "device is --device. The same run measures what the network reaches without gpudirect: with\n"
    "rdma:// by plain RDMA writes of the same frame, as many at once as there are slots, with\n"
    "tcp:// by plain send and recv over one connection, with AES-128-GCM if the link has TLS.\n"
    "With --remote the receivers are on other hosts: as many as --receivers says, each started\n"
    "by gpudirect-bench --receive with the same address, in any order. The benches use TCP on\n"
    "the port after the address's, and each prints the whole report. Latency is known if both\n"
    "ends have one clock. Both need --psk-file, or the sending one --allow-unauthenticated; on\n"
    "one host a key is made for the run.\n"
    "\n"
    "With --net-namespaces the sender is in a network namespace that has the address of --to, and\n"
    "the receivers in another one, whose address differs in the last bit; a veth pair joins them.\n"
    "A veth copies as loopback does: no card takes part, but packets have an Ethernet's size.\n"
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
    "Elements: --sink and --src are gst-launch descriptions. Frames are pushed into the sink,\n"
    "in memory of the pool or allocator that it proposes, or with --source foreign in plain\n"
    "memory. In descriptions and in --compare\n"
    "  {dir}     is a private directory for sockets\n"
    "  {caps}    is the format, as in video/x-raw,format=UYVY,width=3840,…\n"
    "            with --from or --to cuda:N in CUDA memory: video/x-raw(memory:CUDAMemory),…\n"
    "  {device}  in a source: the receiver's own device\n"
    "  {bytes}   is the size of twice as many frames as there are slots\n"
    "  {host}    with an address in --to: the sender's host; {peer}: the receivers'\n"
    "  {port}    is the port after the address's\n"
    "\n"
    "With --report a set of these runs is measured, which takes about twelve minutes, and written\n"
    "into a folder: first gpudirect beside GStreamer's other elements, PipeWire, torch, UCX,\n"
    "libfabric, iperf3 and openssl, as far as they are installed, with 1, 4 and 16 receivers\n"
    "(--beside: that alone), then sizes, channels and failover. README.md shows the first and\n"
    "index.html all figures, each with its numbers and what it means; report.json has\n"
    "everything. Nothing else should run on the machine meanwhile. Without matplotlib there is\n"
    "no index.html, which --draw makes of report.json on any machine.\n"
    "\n"
    "Exit status: 0 all frames arrived; 1 the measurement failed; 2 wrong usage; 3 frames were\n"
    "lost or torn.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-bench --receivers 4\n"
    "  gpudirect-bench --fps 60 --json\n"
    "  gpudirect-bench --from cuda:0 --to cuda:1 --runs 5\n"
    "  gpudirect-bench --from cuda:0 --to cuda:0 --media tensor --bytes 2GiB --fps 60\n"
    "  gpudirect-bench --from opencl:0 --to opencl:0 --route staged --source foreign\n"
    "  gpudirect-bench --channels 1,16,64 --width 1920 --height 1080\n"
    "  gpudirect-bench --failover group --fps 60\n"
    "  gpudirect-bench --report results\n"
    "  gpudirect-bench --to rdma://10.0.0.1:7174\n"
    "  gpudirect-bench --to rdma://10.0.0.1:7174 --remote --psk-file ~/.gpudirect-key\n"
    "  gpudirect-bench --to tcp://10.0.0.2:7175 --net-namespaces\n"
    "  gpudirect-bench --receive rdma://10.0.0.1:7174 --device cuda:0 --psk-file ~/.gpudirect-key\n"
    "  gpudirect-bench --elements --compare 'shmsink socket-path={dir}/shm shm-size={bytes} |\n"
    "    shmsrc socket-path={dir}/shm is-live=true ! {caps}'";

/* What --route accepts, best first, from the library's own list; to be freed with g_free(). */
static gchar *help_route(void)
{
    struct gpud_context *context = NULL;
    struct gpud_device *host = NULL;
    GString *text = g_string_new(NULL);
    if (gpud_context_create(NULL, &context, NULL) == GPUD_OK &&
        gpud_device_open(context, "host", &host, NULL) == GPUD_OK) {
        size_t count = gpud_route_explain(host, host, false, NULL, 0);
        struct gpud_route_info *routes = g_new0(struct gpud_route_info, count + 1);
        routes[0].size = sizeof(routes[0]);
        gpud_route_explain(host, host, false, routes, count);
        for (size_t i = 0; i < count; i++)
            g_string_append_printf(text, "%s%s",
                                   i == 0          ? ""
                                   : i + 1 < count ? ", "
                                                   : " or ",
                                   routes[i].name);
        g_free(routes);
    }
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    g_string_append(text, " (the best)");
    return g_string_free(text, FALSE);
}

/* Prints the mistake in the command line and returns false. */
static bool usage_error(const char *format, ...) G_GNUC_PRINTF(1, 2);

static bool usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("gpudirect-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see --help)\n", stderr);
    va_end(args);
    return false;
}

/* Copies an option's value; false: it is too long. */
static bool copy_text(char *field, size_t size, const char *option, const char *value)
{
    return g_strlcpy(field, value ? value : "", size) < size ||
           usage_error("%s \"%.40s…\" is too long", option, value);
}

/* === descriptions ============================================================================ */

void bench_describe_caps(struct bench_job *job)
{
    g_snprintf(job->caps, sizeof(job->caps),
               "video/x-raw,format=%s,width=%u,height=%u,framerate=%u/%u", job->format, job->width,
               job->height, job->fps_num ? job->fps_num : 60, job->fps_num ? job->fps_den : 1);
}

/* Fills in the braces of the gst-launch descriptions of sink and source, except {dir} and
 * {device}. */
static bool describe(struct bench_job *job, const char *sink, const char *src)
{
    char bytes[32], host[256], port[16];
    char *fields[] = {job->sink, job->src};
    const char *texts[] = {sink, src}, *names[] = {"the sink", "the source"};
    g_snprintf(bytes, sizeof(bytes), "%llu",
               (unsigned long long)(bench_layout_of(job).size + 4096) * 2 * job->slots);
    if (job->network[0]) {
        bench_network_host(job->network, host, sizeof(host));
        g_snprintf(port, sizeof(port), "%u", bench_network_control_port(job->network));
    }
    for (int i = 0; i < 2; i++) {
        GString *text = g_string_new(texts[i]);
        g_strstrip(text->str);
        text->len = strlen(text->str);
        /* The sink takes the sender's memory, the source delivers the receivers'. */
        bool cuda = g_str_has_prefix(i == 0 ? job->from : job->to, "cuda");
        char *caps = g_strdup_printf("video/x-raw%s%s", cuda ? "(memory:CUDAMemory)" : "",
                                     job->caps + strlen("video/x-raw"));
        g_string_replace(text, "{caps}", caps, 0);
        g_free(caps);
        g_string_replace(text, "{bytes}", bytes, 0);
        if (job->network[0]) {
            g_string_replace(text, "{host}", host, 0);
            g_string_replace(text, "{peer}", job->peer_host, 0);
            g_string_replace(text, "{port}", port, 0);
        }
        bool fits = copy_text(fields[i], sizeof(job->sink), names[i], text->str);
        if (fits && !fields[i][0])
            fits = usage_error("%s is empty", names[i]);
        g_string_free(text, TRUE);
        if (!fits)
            return false;
    }
    job->elements = true;
    return true;
}

/* Quotes a value for the parser of descriptions. */
static void add_quoted(GString *text, const char *value)
{
    g_string_append_c(text, '"');
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            g_string_append_c(text, '\\');
        g_string_append_c(text, *value);
    }
    g_string_append_c(text, '"');
}

/* Adds the address and its options. */
static void add_address(GString *text, const struct bench_job *job, bool sink)
{
    if (!job->network[0]) {
        g_string_append(text, " address=unix:{dir}/link");
        return;
    }
    g_string_append(text, " address=");
    add_quoted(text, job->network);
    if (job->allow_unauthenticated)
        g_string_append(text, sink ? " allow-unauthenticated=true" : "");
    const char *own = job->remote || job->allow_unauthenticated ? "" : "{dir}/" BENCH_KEY_FILE;
    const char *key = job->psk_file[0] ? job->psk_file : own;
    if (!key[0])
        return;
    g_string_append(text, " psk-file=");
    add_quoted(text, key);
}

bool bench_describe_ours(struct bench_job *job)
{
    GString *sink = g_string_new("gpudirectsink"), *src = g_string_new("gpudirectsrc");
    add_address(sink, job, true);
    g_string_append_printf(sink, " device=%s slots=%u sync=false", job->from, job->slots);
    add_address(src, job, false);
    g_string_append_printf(src, " device={device} slots=%u%s", job->slots,
                           strstr(job->to, "cuda") ? " ! {caps}" : "");
    bool filled = describe(job, sink->str, src->str);
    g_string_free(sink, TRUE);
    g_string_free(src, TRUE);
    return filled;
}

/* === options ================================================================================= */

/* Enough for stable figures, whether a frame takes a microsecond or a millisecond. */
#define FRAMES_LENT 10000
#define FRAMES_FOREIGN 1000
#define FRAMES_PACED 300
#define RUNS_COMPARED 3

#define ELEMENT_SLOTS_MIN 2 /* the least that the elements' property `slots` allows */
#define NOT_GIVEN G_MININT

/* The values that GOption parsed: NULL, NOT_GIVEN and FALSE if they were not given. */
static struct {
    gchar *channels, *from, *to, *receive, *device, *psk_file, *route, *format, *fps,
        *slow_receiver, *source, *verify, *media, *bytes, *sink, *src, *compare, *failover, *report;
    gint width, height, frames, warmup, receivers, slots, runs, timeout;
    gboolean apart, json, elements, remote, allow_unauthenticated, isolated, separate, floor,
        only_ceilings, no_ceilings, distribution, quick, draw, beside, version;
} args;

static bool is_given(const GOptionEntry *entry)
{
    return entry->arg == G_OPTION_ARG_INT    ? *(const gint *)entry->arg_data != NOT_GIVEN
           : entry->arg == G_OPTION_ARG_NONE ? *(const gboolean *)entry->arg_data
                                             : *(gchar *const *)entry->arg_data != NULL;
}

/* Whether nothing was given but this option and others. */
static bool goes_with(const GOptionEntry *entries, const char *option, const char *const *others)
{
    for (const GOptionEntry *entry = entries; entry->long_name; entry++)
        if (is_given(entry) && strcmp(entry->long_name, option) != 0 &&
            !g_strv_contains(others, entry->long_name))
            return false;
    return true;
}

/* --- one option ------------------------------------------------------------------------------- */

static bool parse_number(uint32_t *field, const char *option, gint value, gint usual, gint min,
                         gint max)
{
    if (value == NOT_GIVEN)
        value = usual;
    if (value < min || value > max)
        return usage_error("%s %d: %d to %d are possible", option, value, min, max);
    *field = (uint32_t)value;
    return true;
}

/* *index: which of the words it is; the first if none was given. */
static bool parse_word(uint32_t *index, const char *option, const char *value,
                       const char *const *words)
{
    for (*index = 0; words[*index]; (*index)++)
        if (!value || strcmp(words[*index], value) == 0)
            return true;
    char *all = g_strjoinv(", ", (char **)words);
    usage_error("%s \"%s\": one of %s is possible", option, value, all);
    g_free(all);
    return false;
}

/* "60", "59.94", "60000/1001". */
static bool parse_rate(struct bench_job *job, const char *value)
{
    char *end;
    job->fps_num = 0;
    job->fps_den = 1;
    if (!value)
        return true;
    double num = g_ascii_strtod(value, &end), den = 1;
    if (end != value && *end == '/') {
        const char *rest = end + 1;
        den = g_ascii_strtod(rest, &end);
        if (end == rest)
            den = 0;
    }
    if (end == value || *end || !isfinite(num) || !(den >= 1 && den <= 1e6) || !(num > 0) ||
        num / den > BENCH_RATE_MAX || num / den < BENCH_RATE_MIN)
        return usage_error(
            "--fps \"%s\": a number such as 60, 59.94 or 60000/1001 is needed, from 0.1 to 100000",
            value);
    bool whole = num == floor(num) && den == floor(den);
    job->fps_num = (uint32_t)lround(whole ? num : num / den * 1000);
    job->fps_den = whole ? (uint32_t)den : 1000;
    return true;
}

/* "65536", "64KiB", "2GiB". */
static bool parse_bytes(uint64_t *bytes, const char *value)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    const guint64 most = BENCH_FRAME_MAX;
    char *end;
    guint64 number = g_ascii_strtoull(value, &end, 10);
    for (unsigned i = 0; i < G_N_ELEMENTS(units); i++)
        if (g_ascii_isdigit(*value) && strcmp(end, units[i]) == 0 && number <= most >> (10 * i) &&
            (number << (10 * i)) % BENCH_TENSOR_STEP == 0 &&
            number << (10 * i) >= BENCH_FRAME_MIN) {
            *bytes = number << (10 * i);
            return true;
        }
    return usage_error(
        "--bytes \"%s\": a multiple of %d is needed, from %d to 2GiB, as in 64KiB or "
        "16MiB",
        value, BENCH_TENSOR_STEP, BENCH_FRAME_MIN);
}

/* --- several options together ----------------------------------------------------------------- */

static bool parse_media(struct bench_job *job)
{
    static const char *const kinds[] = {"picture", "tensor", NULL};
    struct gpud_layout layout;
    struct gpud_error error;
    uint32_t kind;
    if (!parse_word(&kind, "--media", args.media, kinds))
        return false;
    if (kind == 0 && args.bytes)
        return usage_error("--bytes goes with --media tensor");
    if (kind == 1 && (args.format || args.width != NOT_GIVEN || args.height != NOT_GIVEN ||
                      args.elements || args.sink || args.compare))
        return usage_error(
            "--media tensor goes with --bytes, and with the core's own link: neither "
            "a picture's options nor elements go with it");
    if (kind == 1 && !parse_bytes(&job->tensor_bytes, args.bytes ? args.bytes : "16MiB"))
        return false;
    if (!copy_text(job->format, sizeof(job->format), "--format",
                   args.format ? args.format : "UYVY") ||
        !parse_number(&job->width, "--width", args.width, 3840, 1, GPUD_DIMENSION_MAX) ||
        !parse_number(&job->height, "--height", args.height, 2160, 1, GPUD_DIMENSION_MAX))
        return false;
    enum gpud_status status =
        gpud_layout_init(&layout, job->format, job->width, job->height, 0, &error);
    if (status == GPUD_UNSUPPORTED)
        return usage_error("--format \"%s\": not known; UYVY, v210, NV12, P010_10LE, I420, BGRx, "
                           "RGBA and others that GStreamer names are possible",
                           job->format);
    if (status != GPUD_OK)
        return usage_error("--format %s --width %u --height %u: %s", job->format, job->width,
                           job->height, error.reason);
    layout = bench_layout_of(job);
    if (layout.size < BENCH_FRAME_MIN)
        return usage_error("--width %u --height %u: a frame of %u bytes is too small to be marked: "
                           "give it %d at least",
                           job->width, job->height, (unsigned)layout.size, BENCH_FRAME_MIN);
    if (layout.size > BENCH_FRAME_MAX)
        return usage_error("--width %u --height %u: a frame of %.1f GiB is too large to be "
                           "measured: 2 GiB is the most",
                           job->width, job->height, (double)layout.size / (UINT64_C(1) << 30));
    if (!bench_is_marked(&layout.plane[0]))
        return usage_error(BENCH_UNMARKED, job->width, job->height);
    job->foreign_buffers = bench_buffers_of(layout.size);
    bench_describe_caps(job);
    return true;
}

/* The benches use the port after the link's. */
static bool check_port(const char *address)
{
    return bench_network_control_port(address) != 0 ||
           usage_error("%s: a port from 1 to 65534 is needed, since the benches of two hosts speak "
                       "on the one after it",
                       address);
}

/* Where the receivers are: as the sender, or in a network namespace of the neighbouring address. */
static bool describe_hosts(struct bench_job *job)
{
    struct in_addr address;
    char host[256];
    bench_network_host(job->network, host, sizeof(host));
    if (!args.separate)
        return copy_text(job->peer_host, sizeof(job->peer_host), "--to", host);
    if (inet_pton(AF_INET, host, &address) != 1)
        return usage_error("--net-namespaces: --to %s: an IPv4 address in digits is needed, which "
                           "the namespace gets",
                           job->network);
    address.s_addr ^= htonl(1);
    inet_ntop(AF_INET, &address, job->peer_host, sizeof(job->peer_host));
    return true;
}

/* --to may be a network address; then --device says where frames arrive. */
static bool parse_ends(struct bench_job *job)
{
    bool network = args.to && bench_is_network(args.to);
    const char *to = network ? args.device : args.to;
    if (!network && args.device)
        return usage_error(
            "--device goes with --to rdma://… or tcp://…: else --to is the receivers' device");
    if (!network && (args.psk_file || args.allow_unauthenticated))
        return usage_error("%s goes with --to rdma://… or tcp://…",
                           args.psk_file ? "--psk-file" : "--allow-unauthenticated");
    if (network && (args.sink || args.src) &&
        !(args.sink && args.src && strstr(args.sink, "{port}") && strstr(args.src, "{port}")))
        return usage_error("--to %s: --sink and --src have the address among their properties: "
                           "name it there by {host}, {peer} and {port}",
                           args.to);
    job->allow_unauthenticated = args.allow_unauthenticated;
    job->encrypted = network && bench_is_tcp(args.to) && !args.allow_unauthenticated && !args.sink;
    job->remote = args.remote;
    if (!copy_text(job->from, sizeof(job->from), "--from", args.from ? args.from : "host") ||
        !copy_text(job->to, sizeof(job->to), network ? "--device" : "--to", to ? to : "host") ||
        !copy_text(job->network, sizeof(job->network), "--to", network ? args.to : "") ||
        !copy_text(job->psk_file, sizeof(job->psk_file), "--psk-file", args.psk_file))
        return false;
    job->only_ceilings = args.only_ceilings;
    job->no_ceilings = args.no_ceilings;
    job->floor = args.floor;
    if (args.separate && !(network && bench_is_tcp(args.to)))
        return usage_error("--net-namespaces goes with --to tcp://…");
    if (args.remote && (args.separate || args.only_ceilings))
        return usage_error("--net-namespaces and --ceilings are for one host: they do not go with "
                           "--remote");
    if (args.no_ceilings && (args.only_ceilings || args.remote))
        return usage_error("--no-ceilings does not go with %s",
                           args.remote ? "--remote" : "--ceilings");
    if (args.floor && (strcmp(job->from, "host") != 0 || strcmp(job->to, "host") != 0 || network ||
                       args.sink || args.src || args.elements || args.compare || args.route ||
                       args.source || args.only_ceilings))
        return usage_error("--floor is for frames between processes of the host, without the "
                           "library: it does not go with other devices, networks, routes, "
                           "sources or elements");
    if (network && !describe_hosts(job))
        return false;
    if (!args.remote)
        return true;
    if (!network)
        return usage_error("--remote goes with --to rdma://… or tcp://…");
    if (args.device)
        return usage_error("--device with --remote: it is an option of the other host's --receive");
    if (args.compare)
        return usage_error("--compare is for one host: it does not go with --remote");
    return check_port(job->network);
}

static bool parse_elements(struct bench_options *options)
{
    struct bench_job *ours = &options->ours;
    options->peer = *ours;
    options->peer.encrypted = false;
    if (args.elements && (args.sink || args.src))
        return usage_error("--elements replaces --sink and --src: give one or the other");
    if (!args.sink != !args.src)
        return usage_error("--sink and --src belong together");
    if (args.sink && !describe(ours, args.sink, args.src))
        return false;
    if (args.elements && ours->slots < ELEMENT_SLOTS_MIN)
        return usage_error("--slots %u: with --elements %d to %d are possible", ours->slots,
                           ELEMENT_SLOTS_MIN, GPUD_SLOTS_MAX);
    if (args.elements && !bench_describe_ours(ours))
        return false;
    if (ours->elements && ours->route[0])
        return usage_error("--route is for the core's own link: elements choose by themselves");
    options->compare = args.compare != NULL;
    if (options->compare && args.only_ceilings)
        return usage_error("--ceilings does not go with --compare");
    if (!options->compare)
        return true;
    char **parts = g_strsplit(args.compare, "|", 2);
    bool filled = parts[0] && parts[1] ? describe(&options->peer, parts[0], parts[1])
                                       : usage_error("--compare needs \"SINK | SOURCE\"");
    g_strfreev(parts);
    return filled;
}

/* --- the modes -------------------------------------------------------------------------------- */

/* One link; what --channels and --failover have in common with it, too. rate: where --fps is not
 * given; NULL: as fast as possible. */
static bool parse_link(struct bench_options *options, const char *rate)
{
    static const char *const sources[] = {"lent", "foreign", NULL};
    static const char *const policies[] = {"block", "drop-newest", "drop-oldest", NULL};
    static const char *const verifies[] = {"marks", "full", NULL};
    struct bench_job *job = &options->ours;
    uint32_t seconds = 0;
    if (!parse_ends(job) || !copy_text(job->route, sizeof(job->route), "--route", args.route) ||
        !parse_rate(job, args.fps ? args.fps : rate) || !parse_media(job) ||
        !parse_number(&job->warmup, "--warmup", args.warmup, 32, 0, BENCH_WARMUP_MAX) ||
        !parse_number(&job->receivers, "--receivers", args.receivers, 1, 1, GPUD_RECEIVERS_MAX) ||
        !parse_word(&job->foreign, "--source", args.source, sources))
        return false;
    gint usual = job->fps_num ? FRAMES_PACED : job->foreign ? FRAMES_FOREIGN : FRAMES_LENT;
    if (!parse_number(&job->frames, "--frames", args.frames, usual, BENCH_FRAMES_MIN,
                      BENCH_FRAMES_MAX) ||
        !parse_number(&job->slots, "--slots", args.slots, 4, 1, GPUD_SLOTS_MAX) ||
        !parse_number(&job->runs, "--runs", args.runs, args.compare ? RUNS_COMPARED : 1, 1,
                      BENCH_RUNS_MAX) ||
        !parse_number(&seconds, "--timeout", args.timeout, 60, 1, 86400) ||
        !parse_word(&job->slow_receiver, "--slow-receiver", args.slow_receiver, policies) ||
        !parse_word(&job->full, "--verify", args.verify, verifies))
        return false;
    job->slow_receiver += GPUD_SLOW_BLOCK;
    job->distribution = args.distribution;
    job->patience = MAX(seconds * GPUD_SEC, 2 * BENCH_STEP_TIMEOUT);
    options->timeout = seconds * GPUD_SEC;
    if (job->fps_num)
        options->timeout += bench_paced_time(job, (double)job->warmup + job->frames);
    return parse_elements(options);
}

/* The receiving one of two benches: the sending one decides what it receives. */
static bool parse_receiving(struct bench_options *options, const GOptionEntry *entries)
{
    static const char *const others[] = {"device", "psk-file",       "timeout",
                                         "json",   "pid-namespaces", NULL};
    struct bench_job *job = &options->ours;
    uint32_t seconds = 0;
    const char *device = args.device ? args.device : "host";
    if (!goes_with(entries, "receive", others))
        return usage_error("--receive goes with --device, --psk-file, --timeout and --json only: "
                           "the sending gpudirect-bench takes all other options");
    if (!bench_is_network(args.receive))
        return usage_error(
            "--receive \"%s\": the sending host's address is needed, rdma://ADDRESS:PORT or "
            "tcp://ADDRESS:PORT",
            args.receive);
    if (strchr(device, ','))
        return usage_error("--device %s: with --receive there is one", device);
    options->receive = job->remote = true;
    if (!check_port(args.receive) ||
        !parse_number(&seconds, "--timeout", args.timeout, 60, 1, 86400) ||
        !copy_text(job->network, sizeof(job->network), "--receive", args.receive) ||
        !copy_text(job->to, 32, "--device", device) ||
        !copy_text(job->psk_file, sizeof(job->psk_file), "--psk-file", args.psk_file))
        return false;
    memcpy(job->address, job->network, sizeof(job->address));
    options->timeout = seconds * GPUD_SEC;
    return true;
}

/* What --channels and --failover go with: they have a pace, and nothing that is about one link. */
static bool is_paced_alone(const GOptionEntry *entries, const char *option)
{
    static const char *const others[] = {
        "from",   "to",     "format", "width",   "height", "media", "bytes",          "fps",
        "frames", "warmup", "slots",  "timeout", "json",   "apart", "pid-namespaces", NULL};
    return goes_with(entries, option, others) &&
           !(args.to && (strchr(args.to, ',') || bench_is_network(args.to)));
}

/* Numbers of channels. */
static bool parse_channels(struct bench_options *options, const GOptionEntry *entries)
{
    gchar **list = g_strsplit(args.channels, ",", -1);
    bool good = g_strv_length(list) <= BENCH_CHANNEL_ROWS;
    for (guint i = 0; good && list[i]; i++) {
        guint64 number = 0;
        good = g_ascii_string_to_unsigned(list[i], 10, 1, BENCH_CHANNELS_MAX, &number, NULL);
        options->channels[options->channel_rows++] = (uint32_t)number;
    }
    g_strfreev(list);
    if (!good || !options->channel_rows)
        return usage_error("--channels %s: up to %d numbers from 1 to %d, such as 1,16,64",
                           args.channels, BENCH_CHANNEL_ROWS, BENCH_CHANNELS_MAX);
    options->apart = args.apart;
    if (!is_paced_alone(entries, "channels"))
        return usage_error("--channels goes with --apart, --from, --to (one device), --format, "
                           "--width, --height, --media, --bytes, --fps, --frames, --warmup, "
                           "--slots, --timeout and "
                           "--json alone");
    return parse_link(options, "60");
}

/* Two senders of one programme, and one receiver. */
static bool parse_failover(struct bench_options *options, const GOptionEntry *entries)
{
    static const char *const shapes[] = {"group", "standby", NULL};
    uint32_t shape;
    if (!parse_word(&shape, "--failover", args.failover, shapes))
        return false;
    if (!is_paced_alone(entries, "failover") || args.apart)
        return usage_error(
            "--failover goes with --from, --to (one device), --format, --width, "
            "--height, --media, --bytes, --fps, --frames, --warmup, --slots, --timeout and --json "
            "alone");
    options->failover = true;
    options->ours.failover_standby = shape == 1;
    if (!parse_link(options, "50"))
        return false;
    options->ours.slow_receiver = GPUD_SLOW_DROP_OLDEST;
    return true;
}

/* Nothing else: what is measured is the same on every machine. */
static bool parse_report(struct bench_options *options, const GOptionEntry *entries)
{
    static const char *const others[] = {"quick", "draw", "beside", NULL};
    options->quick = args.quick;
    options->draw = args.draw;
    options->beside = args.beside;
    if (!args.report || !args.report[0])
        return usage_error("--report needs a folder, and --quick, --draw and --beside go with it");
    if ((args.draw && (args.quick || args.beside)) || !goes_with(entries, "report", others))
        return usage_error("--report goes with --quick and --beside, or with --draw, alone");
    return copy_text(options->report, sizeof(options->report), "--report", args.report);
}

bool bench_options_parse(int argc, char **argv, struct bench_options *options, int *status)
{
    gchar *route_help = help_route();
    const GOptionEntry entries[] = {
        {"from", 0, 0, G_OPTION_ARG_STRING, &args.from, "The sender's device (host)", "DEVICE"},
        {"to", 0, 0, G_OPTION_ARG_STRING, &args.to,
         "The receivers' device, or a list that they use in turn; or an address of this host, "
         "rdma://ADDRESS:PORT or tcp://ADDRESS:PORT: over its network (host)",
         "DEVICE[,…]"},
        {"remote", 0, 0, G_OPTION_ARG_NONE, &args.remote,
         "With an address in --to: other hosts receive, by gpudirect-bench --receive", NULL},
        {"receive", 0, 0, G_OPTION_ARG_STRING, &args.receive,
         "Receive what gpudirect-bench --to ADDRESS --remote sends on another host", "ADDRESS"},
        {"device", 0, 0, G_OPTION_ARG_STRING, &args.device,
         "The receivers' device, with --receive or an address in --to (host)", "DEVICE[,…]"},
        {"psk-file", 0, 0, G_OPTION_ARG_FILENAME, &args.psk_file,
         "The key of both ends, with --receive or an address in --to (on one host made for the "
         "run)",
         "FILE"},
        {"allow-unauthenticated", 0, 0, G_OPTION_ARG_NONE, &args.allow_unauthenticated,
         "With an address in --to: let any program that reaches it receive, over tcp:// "
         "unencrypted",
         NULL},
        {"route", 0, 0, G_OPTION_ARG_STRING, &args.route, route_help, "ROUTE"},
        {"width", 0, 0, G_OPTION_ARG_INT, &args.width, "Of the picture, in pixels (3840)",
         "PIXELS"},
        {"height", 0, 0, G_OPTION_ARG_INT, &args.height, "Of the picture, in pixels (2160)",
         "PIXELS"},
        {"media", 0, 0, G_OPTION_ARG_STRING, &args.media,
         "picture, or tensor: one of bytes, without elements (picture)", "KIND"},
        {"bytes", 0, 0, G_OPTION_ARG_STRING, &args.bytes, "Of a tensor: 64KiB, 16MiB, 2GiB (16MiB)",
         "SIZE"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &args.format,
         "GStreamer's name of the pixel format (UYVY)", "FORMAT"},
        {"frames", 0, 0, G_OPTION_ARG_INT, &args.frames,
         "Frames to measure (lent 10000, foreign 1000, with --fps 300)", "N"},
        {"warmup", 0, 0, G_OPTION_ARG_INT, &args.warmup, "Frames before those, not measured (32)",
         "N"},
        {"fps", 0, 0, G_OPTION_ARG_STRING, &args.fps, "Frames a second (as fast as possible)",
         "RATE"},
        {"receivers", 0, 0, G_OPTION_ARG_INT, &args.receivers, "Number of receiving processes (1)",
         "N"},
        {"slots", 0, 0, G_OPTION_ARG_INT, &args.slots, "Frames in flight per receiver (4)", "N"},
        {"slow-receiver", 0, 0, G_OPTION_ARG_STRING, &args.slow_receiver,
         "block, drop-newest or drop-oldest (block)", "POLICY"},
        {"source", 0, 0, G_OPTION_ARG_STRING, &args.source,
         "lent: frames are written where they are sent from; foreign: in plain memory (lent)",
         "KIND"},
        {"verify", 0, 0, G_OPTION_ARG_STRING, &args.verify, "marks, or full: every byte (marks)",
         "KIND"},
        {"channels", 0, 0, G_OPTION_ARG_STRING, &args.channels,
         "What so many channels cost at --fps (60), all senders in one process and all receivers "
         "in another",
         "N[,…]"},
        {"failover", 0, 0, G_OPTION_ARG_STRING, &args.failover,
         "What the death of the main of two senders costs at --fps (50): group, if a receiver has "
         "both; standby, if the backup takes over the address",
         "SHAPE"},
        {"apart", 0, 0, G_OPTION_ARG_NONE, &args.apart,
         "With --channels: each channel in two processes of its own", NULL},
        {"elements", 0, 0, G_OPTION_ARG_NONE, &args.elements,
         "Through gpudirectsink and gpudirectsrc", NULL},
        {"sink", 0, 0, G_OPTION_ARG_STRING, &args.sink, "Through this GStreamer sink", "ELEMENTS"},
        {"src", 0, 0, G_OPTION_ARG_STRING, &args.src, "Through this GStreamer source", "ELEMENTS"},
        {"compare", 0, 0, G_OPTION_ARG_STRING, &args.compare,
         "Alternate with these elements, and compare", "SINK|SOURCE"},
        {"runs", 0, 0, G_OPTION_ARG_INT, &args.runs,
         "Number of runs; several are reported as medians (1; with --compare 3)", "N"},
        {"timeout", 0, 0, G_OPTION_ARG_INT, &args.timeout,
         "Longest time for one run, in addition to its pace (60)", "SECONDS"},
        {"pid-namespaces", 0, 0, G_OPTION_ARG_NONE, &args.isolated,
         "Each process in a PID namespace of its own, as in containers (needs root)", NULL},
        {"net-namespaces", 0, 0, G_OPTION_ARG_NONE, &args.separate,
         "With --to tcp://: sender and receivers in two network namespaces, joined by a veth pair "
         "(needs root)",
         NULL},
        {"floor", 0, 0, G_OPTION_ARG_NONE, &args.floor,
         "Through shared memory and futexes alone, without gpudirect: what a hand-over costs at "
         "least",
         NULL},
        {"ceilings", 0, 0, G_OPTION_ARG_NONE, &args.only_ceilings,
         "Measure only what the machine can do without gpudirect", NULL},
        {"no-ceilings", 0, 0, G_OPTION_ARG_NONE, &args.no_ceilings,
         "Do not measure what the machine can do without gpudirect", NULL},
        {"report", 0, 0, G_OPTION_ARG_FILENAME, &args.report,
         "Measure a set of all this, and write it into FOLDER as a page (which needs matplotlib)",
         "FOLDER"},
        {"quick", 0, 0, G_OPTION_ARG_NONE, &args.quick,
         "With --report: a short run, to see whether it works", NULL},
        {"beside", 0, 0, G_OPTION_ARG_NONE, &args.beside,
         "With --report: only gpudirect beside other elements and programs", NULL},
        {"draw", 0, 0, G_OPTION_ARG_NONE, &args.draw,
         "With --report: measure nothing, and make the page of the report.json in FOLDER", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &args.json, "Print JSON", NULL},
        {"distribution", 0, 0, G_OPTION_ARG_NONE, &args.distribution,
         "With --json: also the cumulative distribution of latencies", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &args.version, "Print the version and exit", NULL},
        {NULL},
    };
    gint *const numbers[] = {&args.width,     &args.height, &args.frames, &args.warmup,
                             &args.receivers, &args.slots,  &args.runs,   &args.timeout};
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        *numbers[i] = NOT_GIVEN;
    GOptionContext *context = g_option_context_new("— measures frames between processes");
    g_option_context_set_summary(context, help_summary);
    g_option_context_set_description(context, help_description);
    g_option_context_add_main_entries(context, entries, NULL);
    GError *error = NULL;
    bool good = g_option_context_parse(context, &argc, &argv, &error);
    g_option_context_free(context);
    g_free(route_help);
    if (!good)
        usage_error("%s", error->message);
    g_clear_error(&error);
    if (good && argc > 1)
        good = usage_error("\"%s\": there are no arguments, only options", argv[1]);
    options->json = args.json;
    options->isolated = args.isolated;
    options->separate = args.separate;
    options->ours.ping = options->ours.pong = options->ours.page = -1;
    if (good && args.version)
        printf("gpudirect-bench %s\n", gpud_version_string());
    else if (good)
        good = args.report || args.quick || args.draw || args.beside
                   ? parse_report(options, entries)
               : args.receive  ? parse_receiving(options, entries)
               : args.channels ? parse_channels(options, entries)
               : args.failover ? parse_failover(options, entries)
                               : parse_link(options, NULL);
    *status = good ? EXIT_SUCCESS : BENCH_EXIT_USAGE;
    for (const GOptionEntry *entry = entries; entry->long_name; entry++)
        if (entry->arg == G_OPTION_ARG_STRING || entry->arg == G_OPTION_ARG_FILENAME)
            g_free(*(gchar **)entry->arg_data);
    return good && !args.version;
}
