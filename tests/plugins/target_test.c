/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc address=target:NAME: pictures of a third-party writer that reads only the file, in a
 * pipeline that starts, stops and changes its format. */
#include "ends.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPS_LARGE "video/x-raw,format=UYVY,width=128,height=32,framerate=25/1"

/* --- a pipeline ---------------------------------------------------------------------------- */

struct line {
    GstElement *pipeline, *filter;
    GstBus *bus;
    GAsyncQueue *buffers;
    gchar *file;
};

static void on_buffer(GstElement *sink, GstBuffer *buffer, GstPad *pad, GAsyncQueue *buffers)
{
    g_async_queue_push(buffers, gst_buffer_ref(buffer));
}

static void line_make(struct line *line, const gchar *name, const gchar *caps)
{
    line->pipeline = ends_pipeline(
        "gpudirectsrc name=src address=target:%s slots=4 ! capsfilter name=filter ! "
        "fakesink name=sink sync=false async=false enable-last-sample=false signal-handoffs=true",
        name);
    fail_unless(line->pipeline != NULL);
    line->filter = gst_bin_get_by_name(GST_BIN(line->pipeline), "filter");
    gst_util_set_object_arg(G_OBJECT(line->filter), "caps", caps);
    line->bus = gst_element_get_bus(line->pipeline);
    line->buffers = g_async_queue_new_full((GDestroyNotify)gst_buffer_unref);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(line->pipeline), "sink");
    g_signal_connect(sink, "handoff", G_CALLBACK(on_buffer), line->buffers);
    line->file = g_strdup_printf("%s/gpudirect/%s.target", g_getenv("XDG_RUNTIME_DIR"), name);
}

static void line_play(struct line *line)
{
    fail_if(gst_element_set_state(line->pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE);
}

static void line_stop(struct line *line)
{
    gst_element_set_state(line->pipeline, GST_STATE_NULL);
    fail_if(g_file_test(line->file, G_FILE_TEST_EXISTS), "%s is still there", line->file);
}

static void line_free(struct line *line)
{
    gst_element_set_state(line->pipeline, GST_STATE_NULL);
    g_async_queue_unref(line->buffers);
    gst_object_unref(line->bus);
    gst_object_unref(line->filter);
    gst_object_unref(line->pipeline);
    g_free(line->file);
}

static void line_expect(struct line *line, const gchar *caps, guint seed)
{
    g_autoptr(GstBuffer) buffer = g_async_queue_timeout_pop(line->buffers, 20 * G_USEC_PER_SEC);

    fail_unless(buffer != NULL, "picture %u does not come", seed);
    fail_unless_equals_int64(GST_BUFFER_OFFSET(buffer), seed);
    ends_check_picture(buffer, caps, seed);
}

/* The text of the next message of this type. */
static gchar *line_message(struct line *line, GstMessageType type)
{
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(line->bus, 20 * GST_SECOND, type);
    GError *error = NULL;

    fail_unless(message != NULL, "no message comes");
    if (type == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    else
        gst_message_parse_warning(message, &error, NULL);
    gchar *text = g_strdup(error->message);
    g_error_free(error);
    return text;
}

/* --- a writer ------------------------------------------------------------------------------ */

struct writer {
    int file;
    guint slots, number;
    guint64 surface[32], marker[32];
    gsize slot_size;
    guint8 *memory, *words;
};

static const gchar *find(const gchar *text, const gchar *key)
{
    g_autofree gchar *line = g_strdup_printf("\n%s=", key);
    const gchar *found = strstr(text, line);

    fail_unless(found != NULL, "there is no %s in the file", key);
    found += strlen(line);
    return found;
}

static guint64 number(const gchar *text, const gchar *key)
{
    return g_ascii_strtoull(find(text, key), NULL, 0);
}

static guint8 *map(const gchar *text, const gchar *key, gsize size)
{
    g_auto(GStrv) path = g_strsplit(find(text, key), "\n", 2);
    int fd = open(path[0], O_RDWR | O_CLOEXEC);

    fail_unless(fd >= 0, "%s cannot be opened", path[0]);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fail_unless(data != MAP_FAILED);
    close(fd);
    return data;
}

/* Waits for the file; old: a file that it must not be. */
static void writer_open(struct writer *writer, const gchar *path, int old)
{
    gint64 until = g_get_monotonic_time() + 20 * G_USEC_PER_SEC;
    struct stat is, was = {0};
    gchar text[8192];

    for (;; g_usleep(1000)) {
        fail_unless(g_get_monotonic_time() < until, "%s does not come", path);
        writer->file = open(path, O_RDONLY | O_CLOEXEC);
        if (writer->file < 0)
            continue;
        fail_unless(fstat(writer->file, &is) == 0 && (old < 0 || fstat(old, &was) == 0));
        if (old < 0 || is.st_ino != was.st_ino)
            break;
        close(writer->file);
    }
    fail_unless_equals_int(is.st_mode & 0777, 0600);
    gssize got = read(writer->file, text + 1, sizeof(text) - 2);
    fail_unless(got > 0);
    text[0] = '\n';
    text[got + 1] = '\0';
    writer->slots = (guint)number(text, "slots");
    writer->slot_size = number(text, "slot_size");
    writer->words = map(text, "words", number(text, "words_size"));
    writer->memory = map(text, "memory", writer->slots * writer->slot_size);
    writer->number = *(_Atomic guint32 *)(void *)(writer->words + number(text, "next"));
    for (guint i = 0; i < writer->slots; i++) {
        g_autofree gchar *surface = g_strdup_printf("slot%u.surface", i);
        g_autofree gchar *marker = g_strdup_printf("slot%u.marker", i);
        writer->surface[i] = number(text, surface);
        writer->marker[i] = number(text, marker);
    }
}

static void writer_close(struct writer *writer)
{
    munmap(writer->memory, writer->slots * writer->slot_size);
    munmap(writer->words, 4096);
    close(writer->file);
}

static void writer_mark(struct writer *writer, guint slot, guint32 value)
{
    atomic_store((_Atomic guint32 *)(void *)(writer->words + writer->marker[slot]), value);
}

/* The next picture. */
static void writer_write(struct writer *writer, const gchar *caps)
{
    guint slot = writer->number % writer->slots;
    GstBuffer *picture = ends_picture(caps, writer->number);

    gst_buffer_extract(picture, 0, writer->memory + writer->surface[slot],
                       gst_buffer_get_size(picture));
    gst_buffer_unref(picture);
    writer_mark(writer, slot, ++writer->number);
}

/* --- tests --------------------------------------------------------------------------------- */

TEST(test_start_and_stop)
{
    struct line line;
    struct writer writer;
    GstStructure *stats;
    guint64 frames = 0;

    line_make(&line, "start-stop", CAPS_SMALL);
    for (guint i = 0; i < 20; i++) {
        line_play(&line);
        writer_open(&writer, line.file, -1);
        for (guint k = 0; k < 10; k++) {
            writer_write(&writer, CAPS_SMALL);
            line_expect(&line, CAPS_SMALL, k);
        }
        g_autoptr(GstElement) src = gst_bin_get_by_name(GST_BIN(line.pipeline), "src");
        g_object_get(src, "stats", &stats, NULL);
        fail_unless(gst_structure_get_uint64(stats, "frames", &frames));
        fail_unless_equals_uint64(frames, 10);
        fail_unless_equals_string(gst_structure_get_string(stats, "active-path"), "target-host");
        gst_structure_free(stats);
        line_stop(&line);
        writer_write(&writer, CAPS_SMALL); /* which is not received */
        writer_close(&writer);
    }
    line_free(&line);
}

TEST(test_caps_change)
{
    struct line line;
    struct writer small, large;

    line_make(&line, "caps", CAPS_SMALL);
    line_play(&line);
    writer_open(&small, line.file, -1);
    writer_write(&small, CAPS_SMALL);
    line_expect(&line, CAPS_SMALL, 0);
    gst_util_set_object_arg(G_OBJECT(line.filter), "caps", CAPS_LARGE);
    writer_write(&small, CAPS_SMALL); /* between two frames the source asks downstream */
    writer_open(&large, line.file, small.file);
    GstBuffer *last = g_async_queue_try_pop(line.buffers);
    gst_clear_buffer(&last);
    for (guint k = 0; k < 5; k++) {
        writer_write(&small, CAPS_SMALL); /* it does not know yet */
        writer_write(&large, CAPS_LARGE);
        line_expect(&line, CAPS_LARGE, k);
    }
    line_stop(&line);
    writer_close(&small);
    writer_close(&large);
    line_free(&line);
}

TEST(test_lies)
{
    struct line line;
    struct writer writer, honest;

    line_make(&line, "lies", CAPS_SMALL);
    line_play(&line);
    writer_open(&writer, line.file, -1);
    writer_write(&writer, CAPS_SMALL);
    line_expect(&line, CAPS_SMALL, 0);
    writer_mark(&writer, 1, 4711);
    g_autofree gchar *text = line_message(&line, GST_MESSAGE_WARNING);
    fail_unless(strstr(text, "belongs to slot") != NULL, "%s", text);
    writer_open(&honest, line.file, writer.file);
    for (guint k = 0; k < 5; k++) {
        writer_write(&honest, CAPS_SMALL);
        line_expect(&line, CAPS_SMALL, k);
    }
    line_stop(&line);
    writer_close(&writer);
    writer_close(&honest);
    line_free(&line);
}

static void expect_error(const gchar *name, const gchar *caps, const gchar *wanted)
{
    struct line line;

    line_make(&line, name, caps);
    gst_element_set_state(line.pipeline, GST_STATE_PLAYING);
    g_autofree gchar *text = line_message(&line, GST_MESSAGE_ERROR);
    fail_unless(strstr(text, wanted) != NULL, "%s: \"%s\" does not say \"%s\"", name, text, wanted);
    line_free(&line);
}

TEST(test_refusals)
{
    static const gchar *const names[] = {"", "..", ".a", "a/b", "../x", "a=b", "%2e"};
    struct line line;

    for (guint i = 0; i < G_N_ELEMENTS(names); i++)
        expect_error(names[i], CAPS_SMALL, "is no name of a target");
    expect_error("open", "ANY", "put a capsfilter");
    expect_error("open", "video/x-raw,format=UYVY", "put a capsfilter");
    line_make(&line, "taken", CAPS_SMALL);
    line_play(&line);
    struct writer writer;
    writer_open(&writer, line.file, -1);
    expect_error("taken", CAPS_SMALL, "another target has the name");
    writer_write(&writer, CAPS_SMALL);
    line_expect(&line, CAPS_SMALL, 0);
    line_stop(&line);
    writer_close(&writer);
    line_free(&line);

    g_autoptr(EndsPipeline) sink = gst_element_factory_make("gpudirectsink", NULL);
    g_autoptr(GstBus) bus = gst_bus_new();
    gst_element_set_bus(sink, bus);
    g_object_set(sink, "address", "target:cam1", NULL);
    fail_unless(gst_element_set_state(sink, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE);
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    fail_unless(message != NULL);
}

ENDS_MAIN(60)
