/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What sender and receivers share if they are made of GStreamer elements. */
#include "bench.h"

#include <dlfcn.h>
#include <gst/video/video.h>
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

GstElement *bench_elements_parse(const char *description, GstPad *ours)
{
    GError *error = NULL;
    char *spelt = spell_out_caps(description);
    GstElement *bin =
        gst_parse_bin_from_description_full(spelt, TRUE, NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    g_free(spelt);
    if (!bin)
        bench_die(GPUD_INVALID, "\"%s\": %s", description, error->message);
    gboolean sending = GST_PAD_IS_SRC(ours);
    GstPad *theirs = gst_element_get_static_pad(bin, sending ? "sink" : "src");
    if (!theirs)
        bench_die(GPUD_INVALID, "\"%s\" has no open %s pad", description, sending ? "sink" : "src");
    GstElement *pipeline = gst_pipeline_new(NULL);
    gst_bin_add(GST_BIN(pipeline), bin);
    gst_pad_set_active(ours, TRUE);
    GstPadLinkReturn linked = sending ? gst_pad_link(ours, theirs) : gst_pad_link(theirs, ours);
    if (GST_PAD_LINK_FAILED(linked))
        bench_die(GPUD_INVALID, "\"%s\" cannot be linked: %s", description,
                  gst_pad_link_get_name(linked));
    gst_object_unref(theirs);
    return pipeline;
}

void bench_elements_fail(GstElement *pipeline, const char *otherwise)
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
    bench_send(bench_control, BENCH_FAILED, &failure, sizeof(failure));
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

static void read_element(const GValue *item, gpointer user)
{
    struct bench_result *result = user;
    const struct {
        const char *name;
        int64_t *counter;
    } counters[] = {
        {"copies-cpu", &result->copies_cpu},
        {"copies-gpu", &result->copies_gpu},
        {"kicks", &result->kicks},
        {"cpu-waits", &result->waits},
        {"device-waits", &result->waits_device},
        {"dropped-slow-receiver", &result->dropped},
    };
    GstElement *element = g_value_get_object(item);
    GObjectClass *klass = G_OBJECT_GET_CLASS(element);
    gchar *path = NULL, *reason = NULL;
    GstStructure *stats = NULL;
    guint64 value;
    if (!g_object_class_find_property(klass, "active-path") ||
        !g_object_class_find_property(klass, "stats"))
        return;
    g_object_get(element, "active-path", &path, "fallback-reason", &reason, "stats", &stats, NULL);
    g_strlcpy(result->route, path ? path : "", sizeof(result->route));
    g_strlcpy(result->fallback_reason, reason ? reason : "", sizeof(result->fallback_reason));
    for (size_t i = 0; stats && i < G_N_ELEMENTS(counters); i++)
        if (gst_structure_get_uint64(stats, counters[i].name, &value))
            *counters[i].counter = (int64_t)value;
    if (stats)
        gst_structure_free(stats);
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

/* === GStreamer's CUDA memory ================================================================= */

#define MAP_CUDA ((GstMapFlags)(GST_MAP_FLAG_LAST << 1))
#define FLAG_NEED_SYNC (GST_MEMORY_FLAG_LAST << 2) /* 1.24 and later */

/* The beginning of GstCudaMemory, the same in all series. */
struct cuda_memory {
    GstMemory memory;
    GstObject *context;
};

static struct library {
    gboolean (*load)(void);
    gboolean (*is_memory)(GstMemory *memory);
    GstObject *(*context_new)(guint ordinal);
    gpointer (*context_handle)(GstObject *context);
    GstBufferPool *(*pool_new)(GstObject *context);
    /* Since 1.24; before that, all elements use the legacy default stream. */
    gpointer (*memory_stream)(GstMemory *memory);
    raw_stream (*stream_handle)(gpointer stream);
} lib;
static bool opened;
static void *latest; /* context */

void bench_gst_cuda_open(void)
{
    char reason[GPUD_REASON_MAX];
    if (opened)
        return;
    bool driver = raw_open(&raw_cuda, reason, sizeof(reason));
    void *library = dlopen("libgstcuda-1.0.so.0", RTLD_NOW | RTLD_GLOBAL);
    if (!driver || !library)
        bench_die(GPUD_UNSUPPORTED, "no CUDA memory in GStreamer: %s", driver ? dlerror() : reason);
    *(void **)&lib.load = dlsym(library, "gst_cuda_load_library");
    *(void **)&lib.is_memory = dlsym(library, "gst_is_cuda_memory");
    *(void **)&lib.context_new = dlsym(library, "gst_cuda_context_new");
    *(void **)&lib.context_handle = dlsym(library, "gst_cuda_context_get_handle");
    *(void **)&lib.pool_new = dlsym(library, "gst_cuda_buffer_pool_new");
    *(void **)&lib.memory_stream = dlsym(library, "gst_cuda_memory_get_stream");
    *(void **)&lib.stream_handle = dlsym(library, "gst_cuda_stream_get_handle");
    if (!lib.load || !lib.is_memory || !lib.context_new || !lib.context_handle || !lib.pool_new)
        bench_die(GPUD_UNSUPPORTED,
                  "this GStreamer's libgstcuda lacks what is needed: 1.22 or later is");
    if (!lib.load())
        bench_die(GPUD_UNSUPPORTED,
                  "GStreamer's libgstcuda does not find what it needs in the CUDA driver");
    opened = true;
}

GstBufferPool *bench_gst_cuda_pool(unsigned ordinal)
{
    GstObject *context = lib.context_new(ordinal);
    GstBufferPool *pool = context ? lib.pool_new(context) : NULL;
    if (!pool)
        bench_die(GPUD_NO_DEVICE, "GStreamer has no CUDA memory on cuda:%u", ordinal);
    gst_object_unref(context);
    return pool;
}

bool bench_gst_cuda_is(GstBuffer *buffer)
{
    return opened && gst_buffer_n_memory(buffer) > 0 &&
           lib.is_memory(gst_buffer_peek_memory(buffer, 0));
}

/* Uses the buffer's own strides: pools of CUDA memory align them as the driver demands. */
static void find_layout(GstBuffer *buffer, struct gpud_layout *layout)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    *layout = bench_layout_of(&bench_job);
    for (guint i = 0; meta && i < meta->n_planes && i < layout->planes; i++) {
        struct gpud_plane *plane = &layout->plane[i];
        plane->offset = meta->offset[i];
        plane->stride = (uint32_t)meta->stride[i];
        layout->size =
            MAX(layout->size,
                plane->offset + (uint64_t)plane->stride * (plane->rows - 1) + plane->row_bytes);
    }
}

bool bench_gst_cuda_map(GstBuffer *buffer, GstMapFlags flags, struct bench_gpu_map *map)
{
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    void *context = lib.context_handle(((struct cuda_memory *)(void *)memory)->context);
    if (raw_cuda_push(context) != 0)
        return false;
    if (!gst_buffer_map(buffer, &map->info, flags | MAP_CUDA)) {
        raw_leave(&raw_cuda);
        return false;
    }
    latest = context;
    map->address = (raw_address)(uintptr_t)map->info.data;
    gpointer stream = lib.memory_stream ? lib.memory_stream(memory) : NULL;
    map->stream = stream ? lib.stream_handle(stream) : NULL;
    map->ordered = stream || !lib.memory_stream;
    if (stream && (flags & GST_MAP_WRITE))
        GST_MINI_OBJECT_FLAG_SET(memory, FLAG_NEED_SYNC);
    find_layout(buffer, &map->layout);
    return map->layout.size <= map->info.size;
}

void bench_gst_cuda_unmap(GstBuffer *buffer, struct bench_gpu_map *map)
{
    gst_buffer_unmap(buffer, &map->info);
    raw_leave(&raw_cuda);
}

bool bench_gst_cuda_enter(void)
{
    return latest && raw_cuda_push(latest) == 0;
}
