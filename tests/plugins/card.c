/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "card.h"

#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void check(gboolean good, const gchar *format, ...)
{
    va_list args;

    if (good)
        return;
    va_start(args, format);
    gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_print("FAILED: %s\n", text);
    exit(1);
}

/* --- the card ----------------------------------------------------------------------------- */

static void call(unsigned long request, void *argument, const gchar *what)
{
    int fd = open(CARD, O_RDWR | O_CLOEXEC);

    check(fd >= 0 && ioctl(fd, request, argument) == 0, "%s: %s", what, g_strerror(errno));
    close(fd);
}

void card_select(enum card_input input)
{
    int number = (int)input;

    call(VIDIOC_S_INPUT, &number, "the input");
}

void card_set_standard(guint64 standard)
{
    v4l2_std_id id = standard;

    call(VIDIOC_S_STD, &id, "the standard");
}

void card_set(const gchar *name, gint value)
{
    int fd = open(CARD, O_RDWR | O_CLOEXEC);
    struct v4l2_queryctrl query = {.id = V4L2_CTRL_FLAG_NEXT_CTRL};

    while (ioctl(fd, VIDIOC_QUERYCTRL, &query) == 0 && strcmp((char *)query.name, name) != 0)
        query.id |= V4L2_CTRL_FLAG_NEXT_CTRL;
    check(strcmp((char *)query.name, name) == 0, "no control \"%s\"", name);
    struct v4l2_control control = {.id = query.id, .value = value};
    check(ioctl(fd, VIDIOC_S_CTRL, &control) == 0, "%s = %d: %s", name, value, g_strerror(errno));
    close(fd);
}

/* --- pipelines ---------------------------------------------------------------------------- */

GstElement *launch(const gchar *format, ...)
{
    g_autoptr(GError) error = NULL;
    va_list args;

    va_start(args, format);
    g_autofree gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    GstElement *pipeline = gst_parse_launch(text, &error);
    check(pipeline && !error, "%s: %s", text, error ? error->message : "");
    return pipeline;
}

GstMessage *await_message(GstElement *pipeline, GstMessageType types)
{
    return gst_bus_timed_pop_filtered(GST_ELEMENT_BUS(pipeline), CARD_WAIT, types);
}

void await_end(GstElement *pipeline, const gchar *what)
{
    g_autoptr(GstMessage) message = await_message(pipeline, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);

    check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "%s", what);
}

/* --- pictures ----------------------------------------------------------------------------- */

struct taking {
    struct picture *next;
    guint skip, left;
};

static void on_picture(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct taking *taking)
{
    GstMapInfo map;

    if (taking->skip > 0) {
        taking->skip--;
        return;
    }
    if (taking->left == 0)
        return;
    struct picture *picture = taking->next++;
    check(gst_buffer_map(buffer, &map, GST_MAP_READ), "a picture cannot be read");
    picture->bytes = g_bytes_new(map.data, map.size);
    gst_buffer_unmap(buffer, &map);
    picture->caps = gst_pad_get_current_caps(pad);
    picture->pts = GST_BUFFER_PTS(buffer);
    picture->offset = GST_BUFFER_OFFSET(buffer);
    picture->flags = GST_BUFFER_FLAGS(buffer);
    if (--taking->left == 0)
        gst_element_post_message(
            sink, gst_message_new_application(GST_OBJECT(sink), gst_structure_new_empty("taken")));
}

gboolean card_take(const gchar *source, const gchar *rest, guint skip, guint count,
                   struct picture *pictures, gchar **text)
{
    g_autoptr(GError) error = NULL;
    struct taking taking = {pictures, skip, count};
    g_autoptr(GstElement) pipeline =
        launch("%s ! %s ! fakesink name=sink signal-handoffs=true sync=false", source, rest);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");

    memset(pictures, 0, count * sizeof(*pictures));
    *text = NULL;
    g_signal_connect(sink, "handoff", G_CALLBACK(on_picture), &taking);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_autoptr(GstMessage) message =
        await_message(pipeline, GST_MESSAGE_APPLICATION | GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
    gboolean taken = message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_APPLICATION;
    if (message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    if (!taken)
        *text = g_strdup(error ? error->message : "nothing came");
    gst_element_set_state(pipeline, GST_STATE_NULL);
    return taken;
}

void picture_clear(struct picture *picture)
{
    gst_clear_caps(&picture->caps);
    g_clear_pointer(&picture->bytes, g_bytes_unref);
}

const gchar *picture_field(const struct picture *picture, const gchar *name)
{
    const gchar *text = gst_structure_get_string(gst_caps_get_structure(picture->caps, 0), name);

    return text ? text : "(none)";
}
