/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc ! gpudirectsink: the cost of a relay, and that receivers behind it do not block the
 * first sender. What lies in a device's memory is never copied by the CPU, nor shown to it. */
#include "pipes.h"

#include <gpudirect/device.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES 30

static gboolean opencl, cuda; /* there is such a device */

static gboolean opens(const gchar *name)
{
    struct gpud_context *context;
    struct gpud_device *device;
    struct gpud_error error;

    return gpud_context_create(NULL, &context, &error) == GPUD_OK &&
           gpud_device_open(context, name, &device, &error) == GPUD_OK;
}

/* Looks in a child: what a driver started does not survive gst-check's fork for each test. */
static gboolean have_device(const gchar *name)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(opens(name) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* --- a relay between two harnesses -------------------------------------------------------- */

static struct {
    GstHarness *first, *last;
    GstElement *pipeline, *in, *out;
} relay;

static gint cpu_maps; /* atomic: of slots that the relay received */
static GstMemoryMapFullFunction map_of_slots;

static gpointer count_map(GstMemory *memory, GstMapInfo *info, gsize size)
{
    if (!(info->flags & (GST_MAP_FLAG_LAST << 1))) /* GST_MAP_CUDA */
        g_atomic_int_inc(&cpu_maps);
    return map_of_slots(memory, info, size);
}

/* From the first buffer on, all slots are counted: they have one allocator. */
static GstPadProbeReturn watch_maps(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstAllocator *allocator = gst_buffer_peek_memory(GST_PAD_PROBE_INFO_BUFFER(info), 0)->allocator;

    if (allocator->mem_map_full != count_map) {
        map_of_slots = allocator->mem_map_full;
        allocator->mem_map_full = count_map;
    }
    return GST_PAD_PROBE_OK;
}

/* `between` is a launch line with a gpudirectsrc named in and a gpudirectsink named out. */
static void open_relay(const gchar *first, const gchar *in, const gchar *between, const gchar *out,
                       const gchar *last)
{
    g_autofree gchar *from = ends_address(), *to = ends_address();

    relay.last = ends_src_at(to, last);
    relay.pipeline = ends_pipeline("gpudirectsrc name=in address=%s %s ! %s gpudirectsink name=out "
                                   "sync=false wait-for-connection=true address=%s %s",
                                   from, in, between, to, out);
    relay.in = pipe_part(relay.pipeline, "in");
    relay.out = pipe_part(relay.pipeline, "out");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(relay.in, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, watch_maps, NULL, NULL);
    g_atomic_int_set(&cpu_maps, 0);
    gst_element_set_state(relay.pipeline, GST_STATE_PLAYING);
    relay.first = ends_sink_at(from, first);
    ends_start(relay.first, CAPS_SMALL);
}

static void close_relay(void)
{
    ends_close(relay.first);
    ends_stop(relay.pipeline);
    ends_close(relay.last);
}

static void exchange(guint from, guint to)
{
    for (guint i = from; i < to; i++)
        pass(relay.first, relay.last, i);
}

/* The relay's own copies: each frame one, of this kind. */
static void expect_costs(const gchar *first, const gchar *in, const gchar *out, const gchar *last,
                         gboolean by_cpu)
{
    open_relay(first, in, "", out, last);
    exchange(0, FRAMES);
    fail_unless_equals_uint64(ends_stat_of(relay.in, "copies-cpu"), 0);
    fail_unless_equals_uint64(ends_stat_of(relay.out, "copies-cpu"), by_cpu ? FRAMES : 0);
    /* And one more, where the link was tried. */
    guint64 copies = ends_stat_of(relay.out, "copies-gpu");
    fail_unless(by_cpu ? copies == 0 : copies == FRAMES || copies == FRAMES + 1,
                "%" G_GUINT64_FORMAT " copies by the GPU", copies);
    if (!by_cpu)
        fail_unless_equals_int(g_atomic_int_get(&cpu_maps), 0);
    close_relay();
}

TEST(test_host)
{
    expect_costs("", "", "", "", TRUE);
}

TEST(test_opencl, .only_if = &opencl)
{
    expect_costs("device=opencl:0", "device=opencl:0", "device=opencl:0", "device=opencl:0", FALSE);
    expect_costs("device=opencl:0", "device=opencl:0", "device=host", "", FALSE);
    expect_costs("", "device=opencl:0", "device=opencl:0", "device=opencl:0", FALSE);
    expect_costs("", "device=opencl:0", "device=host", "", FALSE);
}

TEST(test_cuda, .only_if = &cuda)
{
    expect_costs("device=cuda:0", "", "", "device=cuda:0", FALSE);
    expect_costs("device=cuda:0", "device=cuda:0", "device=host", "", FALSE);
    /* Over two GPUs: the one copy is that into the next ring. */
    expect_costs("device=cuda:0", "device=cuda:1", "", "device=cuda:1", FALSE);
    expect_costs("device=cuda:0", "device=cuda:1", "", "device=cuda:0", FALSE);
    expect_costs("device=cuda:0", "device=cuda:1", "device=host", "", FALSE);
}

/* All three drop frames of slow receivers, and nothing is lost. */
TEST(test_live_changes_of_caps)
{
    open_relay("slow-receiver=drop-oldest", "start=oldest", "", "slow-receiver=drop-oldest",
               "start=oldest");
    for (guint change = 0; change < 100; change++) {
        g_autofree gchar *caps = g_strdup_printf(
            "video/x-raw,format=UYVY,width=%u,height=16,framerate=25/1", 64 + change % 3 * 2);

        gst_harness_set_src_caps_str(relay.first, caps);
        for (guint i = 0; i < 2; i++)
            ends_push(relay.first, caps, 2 * change + i);
        for (guint i = 0; i < 2; i++)
            ends_take(relay.last, caps, 2 * change + i);
    }
    fail_unless_equals_uint64(ends_stat(relay.first, "dropped-slow-receiver"), 0);
    fail_unless_equals_uint64(ends_stat_of(relay.out, "dropped-slow-receiver"), 0);
    close_relay();
}

/* The first sender waits for its receivers; the relay does not for its own, and so it takes every
 * frame though its one receiver stands still. */
static void outrun(const gchar *device, const gchar *out_device)
{
    g_autofree gchar *out =
        g_strdup_printf("slots=2 slow-receiver=drop-oldest device=%s", out_device);
    g_autofree gchar *in = g_strdup_printf("slots=2 device=%s", device);
    open_relay(in, in, "", out, "slots=2");
    exchange(0, 1);
    gulong holding = hold(relay.last);
    for (guint i = 1; i < FRAMES; i++) {
        GstBuffer *picture = ends_picture(CAPS_SMALL, i);
        GST_BUFFER_OFFSET(picture) = i;
        fail_unless_equals_int(gst_harness_push(relay.first, picture), GST_FLOW_OK);
    }
    ENDS_UNTIL(5, ends_stat_of(relay.out, "frames") >= FRAMES);
    fail_unless_equals_uint64(ends_stat_of(relay.out, "frames"), FRAMES);
    fail_unless_equals_uint64(ends_stat_of(relay.in, "dropped"), 0);
    fail_unless(ends_stat_of(relay.out, "dropped-slow-receiver") > 0);

    /* What it gets then is whole, whichever it had taken by then: it was not written again. */
    release(relay.last, holding);
    g_autoptr(GstBuffer) got = ends_pull(relay.last);
    fail_unless(GST_BUFFER_OFFSET(got) > 0 && GST_BUFFER_OFFSET(got) < FRAMES);
    ends_check_picture(got, CAPS_SMALL, (guint)GST_BUFFER_OFFSET(got));
    close_relay();
}

TEST(test_slow_receiver_behind_host)
{
    outrun("host", "host");
}

TEST(test_slow_receiver_behind_opencl, .only_if = &opencl)
{
    outrun("opencl:0", "opencl:0");
    outrun("opencl:0", "host");
}

TEST(test_slow_receiver_behind_cuda, .only_if = &cuda)
{
    outrun("cuda:0", "cuda:0");
    outrun("cuda:0", "host");
}

/* Two sinks send the same received slots on, at the same time. */
static void share(const gchar *device, const gchar *one, const gchar *other)
{
    g_autofree gchar *address = ends_address(),
                     *given = g_strdup_printf("slots=3 device=%s", device);
    g_autofree gchar *between =
        g_strdup_printf("tee name=t ! queue ! gpudirectsink sync=false address=%s "
                        "device=%s wait-for-connection=true t. ! queue !",
                        address, one);
    g_autofree gchar *out = g_strdup_printf("device=%s", other);
    g_autoptr(GstHarness) second = ends_src_at(address, NULL);
    open_relay(given, given, between, out, "");
    for (guint i = 0; i < FRAMES; i++) {
        exchange(i, i + 1);
        ends_take(second, CAPS_SMALL, i);
    }
    fail_unless_equals_int(g_atomic_int_get(&cpu_maps), 0);
    fail_unless_equals_uint64(ends_stat_of(relay.in, "copies-cpu"), 0);
    close_relay();
}

TEST(test_tee_opencl, .only_if = &opencl)
{
    share("opencl:0", "opencl:0", "host");
    share("opencl:0", "host", "host");
}

TEST(test_tee_cuda, .only_if = &cuda)
{
    share("cuda:0", "host", "host");
}

#define SENT 100

/* Between the relay's two ends. */
static const gchar *const ways[] = {"", "queue !", "tee ! identity !"};

/* A file's stream waits for receivers behind a relay, too: for the first one, which comes late, and
 * for one that is slow. A live sender that follows does not. */
TEST(test_a_file_is_no_live_stream, .times = G_N_ELEMENTS(ways))
{
    g_autofree gchar *from = ends_address(), *to = ends_address();
    g_autoptr(EndsPipeline) middle = pipe_play("gpudirectsrc name=in address=%s on-eos=wait ! %s "
                                               "gpudirectsink name=out sync=false address=%s",
                                               from, ways[__i__], to);
    g_autoptr(EndsPipeline) last = ends_pipeline("gpudirectsrc name=src address=%s ! identity "
                                                 "sleep-time=10000 ! fakesink sync=false",
                                                 to);
    GstElement *file = pipe_play("videotestsrc num-buffers=%d ! " CAPS_SMALL
                                 " ! gpudirectsink sync=false address=%s",
                                 SENT, from);
    GstElement *out = pipe_part(middle, "out");

    ENDS_UNTIL(ENDS_WAIT, pipe_stat(middle, "in", "frames") > 0);
    g_usleep(G_USEC_PER_SEC / 2); /* the relay could lose all in that time */
    fail_if(stats_flag(out, "live"));
    gst_element_set_state(last, GST_STATE_PLAYING);
    ENDS_UNTIL(ENDS_WAIT, pipe_stat(last, "src", "frames") == SENT);
    fail_unless_equals_uint64(pipe_stat(last, "src", "dropped"), 0);
    expect_end(file);
    ends_stop(file);

    g_autoptr(EndsPipeline) camera = pipe_play(
        "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink async=false address=%s", from);
    ENDS_UNTIL(ENDS_WAIT, stats_flag(out, "live"));
}

int main(int argc, char **argv)
{
    ends_init_environment();
    opencl = have_device("opencl:0");
    cuda = have_device("cuda:1");
    gst_check_init(&argc, &argv);
    return ends_run_tests(60);
}
