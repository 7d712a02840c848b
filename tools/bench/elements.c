/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "elements.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "shmsrc ! video/x-raw,format=UYVY": the parser does not take caps at the end, so they become a
 * capsfilter. */
static char *spell_out_caps(const char *description)
{
    const char *last = strrchr(description, '!');
    const char *slash = last ? strchr(last, '/') : NULL;
    GstCaps *caps =
        slash && slash < last + strcspn(last, "=") ? gst_caps_from_string(last + 1) : NULL;
    if (!caps)
        return g_strdup(description);
    char *text = gst_caps_to_string(caps);
    char *spelt = g_strdup_printf("%.*s! capsfilter caps=\"%s\"", (int)(last - description),
                                  description, text);
    g_free(text);
    gst_caps_unref(caps);
    return spelt;
}

GstElement *bench_elements_parse(int control, const char *description, GstPad *ours)
{
    GError *error = NULL;
    char *spelt = spell_out_caps(description);
    GstElement *bin =
        gst_parse_bin_from_description_full(spelt, TRUE, NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    g_free(spelt);
    if (!bin)
        bench_child_fail(control, GPUD_INVALID, "\"%s\": %s", description, error->message);
    gboolean sending = GST_PAD_IS_SRC(ours);
    GstPad *theirs = gst_element_get_static_pad(bin, sending ? "sink" : "src");
    if (!theirs)
        bench_child_fail(control, GPUD_INVALID, "\"%s\" has no open %s pad", description,
                         sending ? "sink" : "src");
    GstElement *pipeline = gst_pipeline_new(NULL);
    gst_bin_add(GST_BIN(pipeline), bin);
    gst_pad_set_active(ours, TRUE);
    GstPadLinkReturn linked = sending ? gst_pad_link(ours, theirs) : gst_pad_link(theirs, ours);
    if (GST_PAD_LINK_FAILED(linked))
        bench_child_fail(control, GPUD_INVALID, "\"%s\" cannot be linked: %s", description,
                         gst_pad_link_get_name(linked));
    gst_object_unref(theirs);
    return pipeline;
}

void bench_elements_fail(int control, GstElement *pipeline, const char *otherwise)
{
    struct bench_failure failure = {.status = GPUD_IO};
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    GError *error = NULL;
    if (message)
        gst_message_parse_error(message, &error, NULL);
    g_snprintf(failure.reason, sizeof(failure.reason), "%s%s%s",
               message ? GST_MESSAGE_SRC_NAME(message) : "", message ? ": " : "",
               message ? error->message : otherwise);
    bench_send(control, BENCH_FAILED, &failure, sizeof(failure));
    bench_elements_quit(pipeline, NULL);
}

void bench_elements_quit(GstElement *pipeline, GstBufferPool *pool)
{
    if (pool)
        gst_buffer_pool_set_active(pool, FALSE);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    /* Buffers keep the sink's memory, and its file, alive. A thread that was in a push releases its
     * own now. */
    g_usleep(20000);
    _exit(EXIT_FAILURE);
}

/* --- counters --------------------------------------------------------------------------------- */

static void read_counter(const GstStructure *stats, const char *name, int64_t *counter)
{
    guint64 value;
    if (gst_structure_get_uint64(stats, name, &value))
        *counter = (int64_t)value;
}

static void read_element(const GValue *item, gpointer user)
{
    struct bench_result *result = user;
    GstElement *element = g_value_get_object(item);
    GObjectClass *klass = G_OBJECT_GET_CLASS(element);
    gchar *path = NULL, *reason = NULL;
    GstStructure *stats = NULL;
    if (!g_object_class_find_property(klass, "active-path") ||
        !g_object_class_find_property(klass, "stats"))
        return;
    g_object_get(element, "active-path", &path, "fallback-reason", &reason, "stats", &stats, NULL);
    g_strlcpy(result->route, path ? path : "", sizeof(result->route));
    g_strlcpy(result->fallback_reason, reason ? reason : "", sizeof(result->fallback_reason));
    if (stats) {
        read_counter(stats, "copies-cpu", &result->copies_cpu);
        read_counter(stats, "copies-gpu", &result->copies_gpu);
        read_counter(stats, "kicks", &result->kicks);
        read_counter(stats, "cpu-waits", &result->waits);
        read_counter(stats, "device-waits", &result->waits_device);
        read_counter(stats, "dropped-slow-receiver", &result->dropped);
        gst_structure_free(stats);
    }
    g_free(path);
    g_free(reason);
}

void bench_elements_count(GstElement *pipeline, struct bench_result *result)
{
    GstIterator *all = gst_bin_iterate_recurse(GST_BIN(pipeline));
    result->copies_cpu = result->copies_gpu = result->kicks = result->waits = BENCH_UNKNOWN;
    result->waits_device = BENCH_UNKNOWN;
    result->dropped = 0;
    result->route[0] = '\0';
    gst_iterator_foreach(all, read_element, result);
    gst_iterator_free(all);
}
