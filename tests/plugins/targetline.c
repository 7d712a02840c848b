/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "targetline.h"

#include "pipes.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- a pipeline ---------------------------------------------------------------------------- */

static void on_buffer(GstElement *sink, GstBuffer *buffer, GstPad *pad, GAsyncQueue *buffers)
{
    g_async_queue_push(buffers, gst_buffer_ref(buffer));
}

void line_make(struct line *line, const gchar *name, const gchar *caps)
{
    line->pipeline = ends_pipeline(
        "gpudirectsrc name=src address=target:%s slots=4 ! capsfilter name=filter ! "
        "fakesink name=sink sync=false async=false enable-last-sample=false signal-handoffs=true",
        name);
    line->filter = pipe_part(line->pipeline, "filter");
    gst_util_set_object_arg(G_OBJECT(line->filter), "caps", caps);
    line->bus = gst_element_get_bus(line->pipeline);
    line->buffers = g_async_queue_new_full((GDestroyNotify)gst_buffer_unref);
    g_signal_connect(pipe_part(line->pipeline, "sink"), "handoff", G_CALLBACK(on_buffer),
                     line->buffers);
    line->file = g_strdup_printf("%s/gpudirect/%s.target", g_getenv("XDG_RUNTIME_DIR"), name);
}

void line_play(struct line *line)
{
    fail_if(gst_element_set_state(line->pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE);
}

void line_stop(struct line *line)
{
    gst_element_set_state(line->pipeline, GST_STATE_NULL);
    fail_if(g_file_test(line->file, G_FILE_TEST_EXISTS), "%s is still there", line->file);
}

void line_free(struct line *line)
{
    ends_stop(line->pipeline);
    g_async_queue_unref(line->buffers);
    gst_object_unref(line->bus);
    g_free(line->file);
}

void line_expect(struct line *line, const gchar *caps, guint seed)
{
    g_autoptr(GstBuffer) buffer = g_async_queue_timeout_pop(line->buffers, 20 * G_USEC_PER_SEC);

    fail_unless(buffer != NULL, "picture %u does not come", seed);
    fail_unless_equals_int64(GST_BUFFER_OFFSET(buffer), seed);
    ends_check_picture(buffer, caps, seed);
}

/* --- a writer ------------------------------------------------------------------------------ */

static const gchar *find(const gchar *text, const gchar *key)
{
    g_autofree gchar *line = g_strdup_printf("\n%s=", key);
    const gchar *found = strstr(text, line);

    fail_unless(found != NULL, "there is no %s in the file", key);
    return found + strlen(line);
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

void writer_open(struct writer *writer, const gchar *path, int old)
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

void writer_close(struct writer *writer)
{
    munmap(writer->memory, writer->slots * writer->slot_size);
    munmap(writer->words, 4096);
    close(writer->file);
}

void writer_mark(struct writer *writer, guint slot, guint32 value)
{
    atomic_store((_Atomic guint32 *)(void *)(writer->words + writer->marker[slot]), value);
}

void writer_write(struct writer *writer, const gchar *caps)
{
    guint slot = writer->number % writer->slots;
    GstBuffer *picture = ends_picture(caps, writer->number);

    gst_buffer_extract(picture, 0, writer->memory + writer->surface[slot],
                       gst_buffer_get_size(picture));
    gst_buffer_unref(picture);
    writer_mark(writer, slot, ++writer->number);
}
