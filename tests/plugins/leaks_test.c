/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* No leaks: GStreamer's leaks tracer checks pipelines that ran, changed caps, lost
 * their peer, and were thrown away. With the argument `cuda` or `hip`, at pictures in that memory.
 */
#include <glib/gstdio.h>
#include <gst/gst.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static GstElement *launch(const gchar *description)
{
    GError *error = NULL;
    GstElement *pipeline = gst_parse_launch(description, &error);

    if (!pipeline || error)
        g_error("%s: %s", description, error ? error->message : "?");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

static void wait_for_end(GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);

    if (!message || GST_MESSAGE_TYPE(message) != GST_MESSAGE_EOS)
        g_error("a pipeline did not end in order");
}

/* A thread of GStreamer's that says the last word about a receiver holds the sink: waits for it. */
static void finish(GstElement *pipeline)
{
    GstElement *end = gst_bin_get_by_name(GST_BIN(pipeline), "end");
    GWeakRef gone;
    gpointer still = NULL;

    g_weak_ref_init(&gone, end);
    gst_object_unref(end);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    for (int i = 0; i < 100 && (still = g_weak_ref_get(&gone)); i++) {
        gst_object_unref(still);
        g_usleep(10000);
    }
    g_weak_ref_clear(&gone);
}

static const gchar *device = "auto";

/* Lent buffers, foreign ones, a queue and a tee; the receiver holds some back. */
static void run(const gchar *between, const gchar *after)
{
    g_autofree gchar *send = g_strdup_printf(
        "videotestsrc num-buffers=30 ! video/x-raw,format=UYVY,width=64,height=16 %s "
        "! gpudirectsink name=end address=leaks-%d sync=false device=%s",
        between, getpid(), device);
    g_autofree gchar *receive =
        g_strdup_printf("gpudirectsrc name=end address=leaks-%d device=%s %s ! fakesink sync=false",
                        getpid(), device, after);
    GstElement *receiver = launch(receive);
    GstElement *sender = launch(send);

    wait_for_end(receiver);
    finish(sender);
    finish(receiver);
}

/* A GPU's device stays until the process ends, as the core's does, and with it what GStreamer's HIP
 * library keeps there: its stream, and as many events as were ever in use at once. Leaked ones
 * would be one for each of the pictures, of which there are twice as many as this. */
#define KEPT_MAX 90

/* Asks once and keeps the answer: each answer gives away a reference on what it lists. */
static guint count_live(void)
{
    static const gchar *const kinds[] = {"GstHipStream", "GstHipEventPool", "GstHipEvent", NULL};
    GList *tracers = gst_tracing_get_active_tracers(), *at = tracers;
    GstStructure *live = NULL;
    guint left = 0, kept = 0;

    while (at && !strstr(G_OBJECT_TYPE_NAME(at->data), "Leaks"))
        at = at->next;
    if (!at) {
        g_print("skipped: this GStreamer has no leaks tracer\n");
        exit(77);
    }
    g_signal_emit_by_name(at->data, "get-live-objects", &live);
    const GValue *list = gst_structure_get_value(live, "live-objects-list");
    for (guint i = 0; i < gst_value_list_get_size(list); i++) {
        const GstStructure *entry = gst_value_get_structure(gst_value_list_get_value(list, i));
        const GValue *object = gst_structure_get_value(entry, "object");
        const gchar *type = object ? G_VALUE_TYPE_NAME(object) : "?";
        if (g_strv_contains(kinds, type) && ++kept <= KEPT_MAX)
            continue;
        g_print("left: a %s\n", type);
        left++;
    }
    g_list_free_full(tracers, gst_object_unref);
    return left;
}

/* A vendor's elements of GStreamer, by the argument. */
static const struct vendor {
    const gchar *name, *uploader, *downloader, *feature, *device;
} vendors[] = {
    {"cuda", "cudaupload", "cudadownload", "memory:CUDAMemory", "cuda:0"},
    {"hip", "hipupload", "hipdownload", "memory:HIPMemory", "hip:0"},
};

static void run_on_gpu(const struct vendor *vendor)
{
    g_autofree gchar *only = g_strdup_printf("! video/x-raw(%s)", vendor->feature);
    g_autofree gchar *up = g_strdup_printf("! %s %s ", vendor->uploader, only);
    g_autofree gchar *down = g_strdup_printf("! %s ! video/x-raw", vendor->downloader);
    g_autofree gchar *queued_up = g_strdup_printf("%s ! queue", up);
    g_autofree gchar *queued_down = g_strdup_printf("! queue %s", down);
    g_autofree gchar *foreign = g_strdup_printf("%s ! identity drop-allocation=true", up);
    g_autofree gchar *shared =
        g_strdup_printf("! tee name=t ! queue ! fakesink t. ! queue %s", down);

    device = vendor->device;
    run(up, "");
    run(queued_up, queued_down);
    run(foreign, shared);
    run("", down);
    device = "auto";
    run(up, "");
    run(up, only);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/gpudirect-test-XXXXXX";

    if (!mkdtemp(directory))
        return 1;
    g_setenv("XDG_RUNTIME_DIR", directory, TRUE);
    g_setenv("GST_TRACERS", "leaks", TRUE);
    gst_init(&argc, &argv);
    const struct vendor *vendor = NULL;
    for (guint i = 0; argc > 1 && i < G_N_ELEMENTS(vendors); i++)
        if (g_str_equal(argv[1], vendors[i].name))
            vendor = &vendors[i];
    if (argc > 1 && !vendor)
        g_error("there is no vendor \"%s\"", argv[1]);

    if (vendor) {
        g_autoptr(GstElementFactory) factory = gst_element_factory_find(vendor->uploader);
        if (!factory) {
            g_print("skipped: GStreamer has no %s here (no driver, or no plugin)\n",
                    vendor->uploader);
            return 77;
        }
        run_on_gpu(vendor);
    } else {
        run("", "");
        run("! queue", "! queue");
        run("! tee name=t ! queue ! fakesink t. ! queue",
            "! tee name=t ! queue ! fakesink t. ! queue");
        run("! videobalance", "! videoconvert ! video/x-raw,format=BGRx");
    }
    finish(launch("gpudirectsrc name=end address=nobody ! fakesink"));
    finish(launch("videotestsrc ! gpudirectsink name=end address=nobody"));
    gst_task_cleanup_all(); /* a thread lets go of its task after the task was joined */
    guint left = count_live();
    g_autofree gchar *inside = g_build_filename(directory, "gpudirect", NULL);
    g_rmdir(inside);
    g_rmdir(directory);
    return left == 0 ? 0 : 1;
}
