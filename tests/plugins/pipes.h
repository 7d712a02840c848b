/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pipelines beside the harnesses of ends.h, and what elements, pads and buses say of themselves. */
#ifndef GPUD_TESTS_PLUGINS_PIPES_H
#define GPUD_TESTS_PLUGINS_PIPES_H

#include "ends.h"

#include <string.h>

/* A pipeline from a launch line, which plays. */
G_GNUC_PRINTF(1, 2) static inline GstElement *pipe_play(const gchar *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree gchar *launch = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    GstElement *pipeline = ends_pipeline("%s", launch);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

/* A launch line with the test's own address for ADDRESS, and the key between hosts for KEY; and the
 * pipeline of one, which plays. */
static inline gchar *pipe_line(const gchar *format)
{
    const gchar *file = g_getenv("GPUD_TEST_KEY");
    g_autofree gchar *key = file ? g_strconcat("psk-file=", file, NULL) : g_strdup("");
    GString *line = g_string_new(format);

    g_string_replace(line, "ADDRESS", ends_own(), 0);
    g_string_replace(line, "KEY", key, 0);
    return g_string_free(line, FALSE);
}

static inline GstElement *pipe_play_line(const gchar *format)
{
    g_autofree gchar *line = pipe_line(format);

    return pipe_play("%s", line);
}

/* The element of that name, which lives as long as its pipeline. */
static inline GstElement *pipe_part(GstElement *pipeline, const gchar *name)
{
    g_autoptr(GstElement) part = gst_bin_get_by_name(GST_BIN(pipeline), name);

    fail_unless(part != NULL, "no element \"%s\"", name);
    return part;
}

/* A number of the stats of the pipeline's element of that name. A fakesink says how many buffers
 * were "rendered". */
static inline guint64 pipe_stat(GstElement *pipeline, const gchar *name, const gchar *field)
{
    return ends_stat_of(pipe_part(pipeline, name), field);
}

/* The system's clock, monotonic or one that is foreign to this: of real time. */
static inline void pipe_use_clock(GstElement *pipeline, gboolean foreign)
{
    g_autoptr(GstClock) clock =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type",
                     foreign ? GST_CLOCK_TYPE_REALTIME : GST_CLOCK_TYPE_MONOTONIC, NULL);

    gst_pipeline_use_clock(GST_PIPELINE(pipeline), clock);
}

/* A flag and a text of the element's stats; free the text. */
static inline gboolean stats_flag(GstElement *element, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL;
    gboolean flag = FALSE;

    g_object_get(element, "stats", &stats, NULL);
    fail_unless(gst_structure_get_boolean(stats, field, &flag), "no \"%s\" in the stats", field);
    return flag;
}

static inline gchar *stats_text(GstElement *element, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(element, "stats", &stats, NULL);
    return g_strdup(gst_structure_get_string(stats, field));
}

/* The element's property is this text. */
static inline void expect_text(GstElement *element, const gchar *property, const gchar *wanted)
{
    g_autofree gchar *text = NULL;

    g_object_get(element, property, &text, NULL);
    fail_unless_equals_string(text, wanted);
}

/* --- messages ----------------------------------------------------------------------------- */

/* What an error, a warning or an info says. */
static inline gchar *text_of(GstMessage *message)
{
    g_autoptr(GError) error = NULL;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    else if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING)
        gst_message_parse_warning(message, &error, NULL);
    else if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_INFO)
        gst_message_parse_info(message, &error, NULL);
    return g_strdup(error ? error->message : GST_MESSAGE_TYPE_NAME(message));
}

/* The next one of these types on the bus must come, and say that. */
static inline void expect_told(GstBus *bus, GstMessageType types, const gchar *says)
{
    g_autoptr(GstMessage) message = ends_wait_message(bus, types, ENDS_WAIT);

    fail_unless(message != NULL, "nothing says \"%s\" within %d s", says, ENDS_WAIT);
    g_autofree gchar *text = text_of(message);
    fail_unless(strstr(text, says) != NULL, "\"%s\" does not say \"%s\"", text, says);
}

/* There is no warning and no error on the bus. */
static inline void expect_no_complaint(GstBus *bus)
{
    g_autoptr(GstMessage) message =
        gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    g_autofree gchar *text = message ? text_of(message) : NULL;

    fail_unless(message == NULL, "another complaint: %s", text);
}

/* The end of the stream comes, and no error before it. */
static inline void expect_end_on(GstBus *bus)
{
    g_autoptr(GstMessage) message =
        ends_wait_message(bus, GST_MESSAGE_EOS | GST_MESSAGE_ERROR, ENDS_WAIT);

    g_autofree gchar *text = message ? text_of(message) : g_strdup("nothing");
    fail_unless_equals_string(text, "eos");
}

static inline void expect_end(GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);

    expect_end_on(bus);
}

/* --- pictures ----------------------------------------------------------------------------- */

/* Sends one of CAPS_SMALL that must arrive; and takes so many buffers, whatever they are. */
static inline void pass(GstHarness *sink, GstHarness *src, guint seed)
{
    ends_push(sink, CAPS_SMALL, seed);
    ends_take(src, CAPS_SMALL, seed);
}

static inline void drop(GstHarness *src, guint count)
{
    for (guint i = 0; i < count; i++)
        gst_buffer_unref(ends_pull(src));
}

/* Sends picture 1 of CAPS_SMALL from a thread, which returns the flow. */
static inline gpointer push_first(gpointer sink)
{
    return GINT_TO_POINTER(gst_harness_push(sink, ends_picture(CAPS_SMALL, 1)));
}

static inline GThread *push_aside(GstHarness *sink)
{
    return g_thread_new("push", push_first, sink);
}

/* The stream has these caps. */
static inline void expect_caps(GstHarness *src, const gchar *text)
{
    g_autoptr(GstCaps) wanted = gst_caps_from_string(text);
    g_autoptr(GstCaps) got = gst_pad_get_current_caps(src->sinkpad);
    g_autofree gchar *became = gst_caps_to_string(got);

    fail_unless(gst_caps_is_equal(got, wanted), "%s became %s", text, became);
}

/* --- downstream that stands still --------------------------------------------------------- */

/* From the next buffer on the source's pad stays blocked, until it is released. */
static inline gulong hold(GstHarness *src)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(src), "src");

    return gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER, NULL, NULL,
                             NULL);
}

static inline gboolean is_holding(GstHarness *src)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(src), "src");

    return gst_pad_is_blocking(pad);
}

static inline void release(GstHarness *src, gulong held)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(src), "src");

    gst_pad_remove_probe(pad, held);
}

#endif
