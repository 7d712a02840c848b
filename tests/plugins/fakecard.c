/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fakecard.h"

#include "capture/internal.h"
#include "base/plugin.h"
#include "sink/sink.h"
#include "src/src.h"
#include "support/peer.h"

#include <fcntl.h>
#include <unistd.h>

/* --- the card ----------------------------------------------------------------------------- */

static struct gpud_v4l2_system card_system;
static char folder[] = "/tmp/gpudirect-cards-XXXXXX";
gchar *nodes[2];

/* The linker puts it in the place of the core's, which has the kernel behind it. */
enum gpud_status __real_gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error);
enum gpud_status __wrap_gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error);
enum gpud_status __wrap_gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error)
{
    node->system = &card_system;
    return __real_gpud_v4l2_open(node, error);
}

static gpointer run_signal(gpointer data)
{
    struct card *card = data;

    for (guint32 i = 0; !g_atomic_int_get(&card->over); i++) {
        fake_frame(&card->driver, i, (unsigned char)i);
        g_usleep(10000);
    }
    return NULL;
}

static void make_node(const gchar *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);

    CHECK(fd >= 0 && close(fd) == 0, "%s", path);
}

void card_begin(struct card *card)
{
    card->over = FALSE;
    card->driver.node = nodes[0];
    card->driver.place = "PCI:0000:03:00.0";
    card->driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_UNKNOWN;
    fake_install(&card->driver);
    make_node(nodes[0]);
    card->signal = g_thread_new("signal", run_signal, card);
}

void card_end(struct card *card)
{
    g_atomic_int_set(&card->over, TRUE);
    g_thread_join(card->signal);
    fake_remove(&card->driver);
    unlink(nodes[0]);
    unlink(nodes[1]);
}

void card_unplug(struct card *card)
{
    unlink(card->driver.node);
    fake_unplug(&card->driver, true);
}

void card_plug_in(struct card *card)
{
    pthread_mutex_lock(&card->driver.lock);
    card->driver.node = card->driver.node == nodes[0] ? nodes[1] : nodes[0];
    pthread_mutex_unlock(&card->driver.lock);
    fake_unplug(&card->driver, false);
    make_node(card->driver.node);
}

/* --- pipelines ---------------------------------------------------------------------------- */

static void on_picture(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct line *line)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);

    g_mutex_lock(&line->lock);
    gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &line->width);
    line->pictures++;
    if (GST_BUFFER_PTS_IS_VALID(buffer)) {
        line->back += GST_CLOCK_TIME_IS_VALID(line->last) && GST_BUFFER_PTS(buffer) < line->last;
        line->last = GST_BUFFER_PTS(buffer);
    }
    g_cond_broadcast(&line->cond);
    g_mutex_unlock(&line->lock);
}

void await_pictures(struct line *line, guint more)
{
    gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;

    g_mutex_lock(&line->lock);
    guint wanted = line->pictures + more;
    while (line->pictures < wanted)
        CHECK(g_cond_wait_until(&line->cond, &line->lock, end), "%u pictures of %u", line->pictures,
              wanted);
    g_mutex_unlock(&line->lock);
}

void await_width(struct line *line, gint width)
{
    gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;

    g_mutex_lock(&line->lock);
    while (line->width != width)
        CHECK(g_cond_wait_until(&line->cond, &line->lock, end), "%d wide, not %d", line->width,
              width);
    g_mutex_unlock(&line->lock);
}

void line_begin(struct line *line, const gchar *launch)
{
    GError *error = NULL;

    memset(line, 0, sizeof(*line));
    line->last = GST_CLOCK_TIME_NONE;
    g_mutex_init(&line->lock);
    g_cond_init(&line->cond);
    line->pipeline = gst_parse_launch(launch, &error);
    CHECK(line->pipeline && !error, "%s: %s", launch, error ? error->message : "");
    line->src = gst_bin_get_by_name(GST_BIN(line->pipeline), "src");
    line->bus = gst_element_get_bus(line->pipeline);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(line->pipeline), "sink");
    if (sink)
        g_signal_connect(sink, "handoff", G_CALLBACK(on_picture), line);
    gst_element_set_state(line->pipeline, GST_STATE_PLAYING);
}

void line_begin_card(struct line *line, const gchar *properties, const gchar *rest)
{
    g_autofree gchar *launch = g_strdup_printf(
        "gpudirectsrc name=src address=v4l2://%s %s ! " CAPS " ! %s", nodes[0], properties, rest);

    line_begin(line, launch);
}

void line_finish(struct line *line)
{
    gst_element_set_state(line->pipeline, GST_STATE_NULL);
    gst_object_unref(line->bus);
    gst_object_unref(line->src);
    gst_object_unref(line->pipeline);
    g_mutex_clear(&line->lock);
    g_cond_clear(&line->cond);
}

GstMessage *await_message(struct line *line, GstMessageType type, const gchar *name)
{
    for (;;) {
        GstMessage *message =
            gst_bus_timed_pop_filtered(line->bus, WAIT, GST_MESSAGE_ERROR | GST_MESSAGE_EOS | type);
        CHECK(message, "no %s", name ? name : gst_message_type_get_name(type));
        if (GST_MESSAGE_TYPE(message) == type && (!name || gst_message_has_name(message, name)))
            return message;
        CHECK(GST_MESSAGE_TYPE(message) == type, "%s comes, and not %s",
              GST_MESSAGE_TYPE_NAME(message), name ? name : gst_message_type_get_name(type));
        gst_message_unref(message);
    }
}

void expect_message(struct line *line, const gchar *name)
{
    gst_message_unref(await_message(line, GST_MESSAGE_ELEMENT, name));
}

void expect_signal(struct line *line, gboolean wanted, const gchar *why)
{
    g_autoptr(GstMessage) message = await_message(line, GST_MESSAGE_ELEMENT, "gpudirect-signal");
    const GstStructure *said = gst_message_get_structure(message);
    gboolean signal = !wanted;

    gst_structure_get_boolean(said, "signal", &signal);
    CHECK(signal == wanted && strstr(gst_structure_get_string(said, "reason"), why),
          "the signal is %d: %s", signal, gst_structure_get_string(said, "reason"));
}

guint64 line_stat(struct line *line, const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL;
    guint64 value = G_MAXUINT64;

    g_object_get(line->src, "stats", &stats, NULL);
    CHECK(gst_structure_get_uint64(stats, name, &value), "no %s", name);
    return value;
}

void nothing_ended(struct line *line)
{
    GstMessage *message = gst_bus_pop_filtered(line->bus, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);

    CHECK(!message, "%s", GST_MESSAGE_TYPE_NAME(message));
}

void expect_warning(struct line *line, const gchar *text)
{
    g_autoptr(GstMessage) message = await_message(line, GST_MESSAGE_WARNING, NULL);
    g_autoptr(GError) error = NULL;

    gst_message_parse_warning(message, &error, NULL);
    CHECK(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS) &&
              strstr(error->message, text),
          "%s", error->message);
}

void expect_refusal(const gchar *properties, const gchar *text)
{
    struct line line;

    line_begin_card(&line, properties, SHOWN);
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(line.bus, WAIT, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;
    CHECK(message, "no error");
    gst_message_parse_error(message, &error, NULL);
    CHECK(strstr(error->message, text), "%s", error->message);
    line_finish(&line);
}

/* --- the program -------------------------------------------------------------------------- */

void cards_init(int *argc, char ***argv)
{
    alarm(170);
    runtime_make();
    CHECK(mkdtemp(folder), "no folder");
    gst_init(argc, argv);
    gpud_gst_context_init();
    CHECK(GST_ELEMENT_REGISTER(gpudirectsrc, NULL) && GST_ELEMENT_REGISTER(gpudirectsink, NULL),
          "the elements are not registered");
    card_system = fake_system;
    card_system.folder = folder;
    for (guint i = 0; i < 2; i++)
        nodes[i] = g_strdup_printf("%s/video%u", folder, i);
}

int cards_done(void)
{
    CHECK(rmdir(folder) == 0, "%s is not empty", folder);
    runtime_done();
    puts("ok");
    return 0;
}
