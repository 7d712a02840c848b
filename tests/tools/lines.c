/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is gained where pictures are handed over while they are written: a writer and a reader in
 * this process, on a device each. The writer takes the time of a picture to write one, in so many
 * stripes, into a lent frame and, on one device that an external writer can reach, into a target.
 * Frames that are handed over when they are whole are compared with those whose lines are read as
 * they come: by a reader that reads at once, and by one that takes as long for a picture as the
 * writer, like an output at the picture's rate. Every stripe is checked. */
#include "ceilings/ceilings.h"
#include "clock.h"
#include "folder.h"
#include "stats.h"

#include <glib.h>
#include <gpudirect/gpudirect.h>
#include <gpudirect/layout.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GPUD_WITH_OPENCL
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#endif

#define PATIENCE (10 * GPUD_SEC)

struct job {
    gchar *from, *to, *route; /* route: NULL: the best */
    const char *address;
    gint width, height, lines, frames, warmup, slots;
    gdouble fps;
    int64_t period; /* ns for a picture */
};

/* Microseconds. */
struct figures {
    double first;          /* p50, from the first stripe written to the same one read */
    double last, last_p99; /* from the last stripe written to all of them read */
};

/* === stripes ================================================================================= */

struct stripes {
    uint8_t *data;
    uint8_t **lent;            /* where the caller has the same */
    struct raw_driver *driver; /* NULL: not a GPU of CUDA or HIP */
    raw_stream stream;
    raw_address address; /* of data */
#ifdef GPUD_WITH_OPENCL
    cl_context context; /* a writer's own; NULL: none yet */
    cl_command_queue queue;
    cl_mem slot[GPUD_TARGET_SLOTS_MAX];
#endif
};

static void stripes_works(const struct stripes *stripes, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(stripes->driver, reason, sizeof(reason), what, result);
    die("%s", reason);
}

static void open_driver(struct stripes *stripes, unsigned gpu, uint64_t size)
{
    char reason[GPUD_REASON_MAX];
    void *host;
    if (!raw_open(stripes->driver, reason, sizeof(reason)) ||
        !raw_enter(stripes->driver, gpu, reason, sizeof(reason)))
        die("%s", reason);
    stripes_works(stripes, "a stream", raw_stream_create(stripes->driver, &stripes->stream));
    stripes_works(stripes, "pinned memory", raw_host_alloc(stripes->driver, &host, size));
    stripes_works(stripes, "its address",
                  raw_host_address(stripes->driver, &stripes->address, host));
    stripes->data = host;
}

/* data: a picture's bytes in host memory, from which parts are written and into which they are
 * read; set to NULL by stripes_close(). */
static struct stripes *stripes_open(const char *device, uint64_t size, uint8_t **data)
{
    struct stripes *stripes = g_new0(struct stripes, 1);
    unsigned gpu;
    stripes->driver = raw_driver_of(device, &gpu);
    if (stripes->driver)
        open_driver(stripes, gpu, size);
    else
        stripes->data = g_malloc(size);
    memset(stripes->data, 0, size);
    stripes->lent = data;
    *data = stripes->data;
    return stripes;
}

/* A frame that may be written, and that another stream may still read. */
static void stripes_begin(struct stripes *stripes, struct gpud_frame *frame)
{
    struct gpud_error error;
    if (stripes->driver && gpud_frame_wait(frame, stripes->stream, &error) != GPUD_OK)
        die("a frame to write: %s", error.reason);
}

static void stripes_copy(struct stripes *stripes, raw_address to, raw_address from, uint64_t size)
{
    int result;
    stripes_works(stripes, "a copy", raw_copy(stripes->driver, to, from, size, stripes->stream));
    if (!raw_finish(stripes->driver, stripes->stream, clock_now() + PATIENCE, &result))
        stripes_works(stripes, "a copy", result);
}

/* Returns when the bytes are there. */
static void stripes_write(struct stripes *stripes, const struct gpud_frame_info *info,
                          uint64_t offset, uint64_t size)
{
    uint8_t *to = (uint8_t *)info->native + info->memory_offset + offset;
    if (stripes->driver)
        stripes_copy(stripes, (raw_address)(uintptr_t)to, stripes->address + offset, size);
    else
        memcpy(to, stripes->data + offset, size);
}

#ifdef GPUD_WITH_OPENCL

#define EXTERNAL_PHYSICAL ((cl_mem_flags)1 << 31) /* CL_MEM_EXTERNAL_PHYSICAL_AMD */
#define PAGE UINT64_C(4096)

typedef cl_int(CL_API_CALL *write_signal_fn)(cl_command_queue, cl_mem, cl_uint, cl_ulong, cl_uint,
                                             const cl_event *, cl_event *);

static void cl_works(const struct stripes *stripes, const char *what, cl_int code)
{
    if (code != CL_SUCCESS)
        die("OpenCL, %s: %d", what, code);
}

static void stripes_open_queue(struct stripes *stripes, cl_context context)
{
    cl_device_id device;
    cl_int code;
    cl_works(stripes, "the device",
             clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(device), &device, NULL));
    stripes->queue = clCreateCommandQueue(context, device, 0, &code);
    cl_works(stripes, "a queue", code);
}

static void read_opencl(struct stripes *stripes, const struct gpud_frame_info *info,
                        uint64_t offset, uint64_t size)
{
    cl_context context;
    if (!stripes->queue) {
        cl_works(
            stripes, "the context",
            clGetMemObjectInfo(info->native, CL_MEM_CONTEXT, sizeof(cl_context), &context, NULL));
        stripes_open_queue(stripes, context);
    }
    cl_works(stripes, "a read",
             clEnqueueReadBuffer(stripes->queue, info->native, CL_TRUE,
                                 (size_t)(info->memory_offset + offset), (size_t)size,
                                 stripes->data + offset, 0, NULL, NULL));
}

/* The slot as this writer sees it, in a context that shares nothing with the library's. */
static cl_mem slot_of(struct stripes *stripes, const struct gpud_target_slot *slot, uint32_t index)
{
    struct {
        cl_ulong surface, marker;
    } bus = {slot->surface_address, slot->marker_address & ~(PAGE - 1)};
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    if (!stripes->context) {
        cl_works(stripes, "the platform", clGetPlatformIDs(1, &platform, NULL));
        cl_works(stripes, "the device",
                 clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
        stripes->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
        cl_works(stripes, "a context", code);
        stripes_open_queue(stripes, stripes->context);
    }
    if (stripes->slot[index])
        return stripes->slot[index];
    cl_mem made = clCreateBuffer(stripes->context, EXTERNAL_PHYSICAL | CL_MEM_WRITE_ONLY,
                                 (size_t)slot->bytes, &bus, &code);
    cl_works(stripes, "memory on the bus", code);
    cl_works(stripes, "memory on the bus",
             clEnqueueMigrateMemObjects(stripes->queue, 1, &made, 0, 0, NULL, NULL));
    stripes->slot[index] = made;
    return made;
}

static void write_bus(struct stripes *stripes, const struct gpud_target_slot *slot, uint32_t index,
                      uint64_t offset, uint64_t size)
{
    cl_works(stripes, "a write",
             clEnqueueWriteBuffer(stripes->queue, slot_of(stripes, slot, index), CL_TRUE,
                                  (size_t)offset, (size_t)size, stripes->data + offset, 0, NULL,
                                  NULL));
}

static void mark_bus(struct stripes *stripes, const struct gpud_target_slot *slot, uint32_t index,
                     uint32_t value)
{
    cl_mem memory = slot_of(stripes, slot, index);
    cl_platform_id platform;
    cl_works(stripes, "the platform", clGetPlatformIDs(1, &platform, NULL));
    write_signal_fn write = (write_signal_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWriteSignalAMD");
    cl_works(stripes, "a marker",
             write ? write(stripes->queue, memory, value, slot->marker_address & (PAGE - 1), 0,
                           NULL, NULL)
                   : CL_INVALID_OPERATION);
    cl_works(stripes, "a marker", clFlush(stripes->queue));
}

static void close_opencl(struct stripes *stripes)
{
    for (uint32_t i = 0; i < GPUD_TARGET_SLOTS_MAX; i++)
        if (stripes->slot[i])
            clReleaseMemObject(stripes->slot[i]);
    if (stripes->queue)
        clReleaseCommandQueue(stripes->queue);
    if (stripes->context)
        clReleaseContext(stripes->context);
}

#endif

static void stripes_read(struct stripes *stripes, const struct gpud_frame_info *info,
                         uint64_t offset, uint64_t size)
{
    const uint8_t *from = (const uint8_t *)info->native + info->memory_offset + offset;
#ifdef GPUD_WITH_OPENCL
    struct gpud_device_info device = GPUD_INFO_INIT(device);
    gpud_device_get_info(info->device, &device);
    if (g_str_has_prefix(device.name, "opencl:")) {
        read_opencl(stripes, info, offset, size);
        return;
    }
#endif
    if (stripes->driver)
        stripes_copy(stripes, stripes->address + offset, (raw_address)(uintptr_t)from, size);
    else
        memcpy(stripes->data + offset, from, size);
}

/* The same for a target's slot, as an external writer: the bytes, and its marker. */
static void stripes_write_slot(struct stripes *stripes, const struct gpud_target_slot *slot,
                               uint32_t index, uint64_t offset, uint64_t size)
{
#ifdef GPUD_WITH_OPENCL
    if (slot->kind == GPUD_TARGET_BUS_ADDRESS) {
        write_bus(stripes, slot, index, offset, size);
        return;
    }
#endif
    memcpy((uint8_t *)slot->surface + offset, stripes->data + offset, size);
}

static void stripes_mark_slot(struct stripes *stripes, const struct gpud_target_slot *slot,
                              uint32_t index, uint32_t value)
{
#ifdef GPUD_WITH_OPENCL
    if (slot->kind == GPUD_TARGET_BUS_ADDRESS) {
        mark_bus(stripes, slot, index, value);
        return;
    }
#endif
    atomic_store_explicit((_Atomic uint32_t *)slot->marker, value, memory_order_release);
}

static void stripes_close(struct stripes *stripes)
{
#ifdef GPUD_WITH_OPENCL
    close_opencl(stripes);
#endif
    *stripes->lent = NULL;
    if (stripes->driver) {
        stripes->driver->mem_free_host(stripes->data);
        raw_stream_destroy(stripes->driver, stripes->stream);
        raw_leave(stripes->driver);
    } else {
        g_free(stripes->data);
    }
    g_free(stripes);
}

/* === lines =================================================================================== */

/* --- the child: a writer and a reader --------------------------------------------------------- */

#define TIMES 64 /* more than frames can be in flight */

struct scene {
    const struct job *job;
    bool target, by_lines;
    bool paced;     /* the reader takes nearly as long for a picture as the writer */
    int64_t period; /* ns for a picture */
    uint32_t frames;
    struct gpud_layout layout;
    struct gpud_context *context, *other; /* the writer's, and the reader's */
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_target *ring;
    const struct gpud_target_slot *const *slot;
    uint32_t slots;
    char route[32];              /* of the link */
    atomic_uint_least32_t taken; /* frames that the reader is done with */
    /* When a frame's first stripe and its last one were written. */
    _Atomic int64_t first[TIMES], last[TIMES];
    int64_t *first_latency, *last_latency; /* of each frame */
};

/* The rows before a stripe. */
static uint32_t rows_before(const struct scene *scene, uint32_t stripe)
{
    return (uint32_t)((uint64_t)scene->layout.height * stripe / scene->job->lines);
}

static uint64_t bytes_before(const struct scene *scene, uint32_t stripe)
{
    return (uint64_t)rows_before(scene, stripe) * scene->layout.plane[0].stride;
}

static uint8_t filler(uint32_t number, uint32_t stripe)
{
    return (uint8_t)(number * 31 + stripe * 7 + 1);
}

/* Tells the reader what was written, or keeps it until the frame is whole. */
static void lines_announce(struct scene *scene, struct stripes *stripes, struct gpud_frame *frame,
                           uint32_t number, uint32_t rows)
{
    struct gpud_error error = {.reason = ""};
    bool whole = rows == scene->layout.height;
    if (!scene->target) {
        if (scene->by_lines)
            must("submitting lines",
                 gpud_sender_submit_lines(scene->sender, frame, rows, PATIENCE, &error), &error);
        else if (whole)
            must("submitting", gpud_sender_submit_keep(scene->sender, frame, PATIENCE, &error),
                 &error);
        return;
    }
    uint32_t index = number % scene->slots;
    const struct gpud_target_slot *slot = scene->slot[index];
    if (scene->by_lines)
        atomic_store_explicit((_Atomic uint64_t *)slot->lines, (uint64_t)number << 32 | rows,
                              memory_order_release);
    if (whole)
        stripes_mark_slot(stripes, slot, index, number + 1);
}

static struct gpud_frame *next_slot(struct scene *scene, struct stripes *stripes, uint32_t number,
                                    struct gpud_frame_info *info)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_frame *frame = NULL;
    if (scene->target) {
        while (number - atomic_load(&scene->taken) >= scene->slots)
            clock_sleep_until(clock_now() + GPUD_MSEC);
        return NULL;
    }
    must("a slot", gpud_sender_acquire(scene->sender, PATIENCE, &frame, &error), &error);
    stripes_begin(stripes, frame);
    gpud_frame_get_info(frame, info);
    info->offset = number;
    must("a slot", gpud_frame_set_info(frame, info, &error), &error);
    return frame;
}

static void *write_all(void *arg)
{
    struct scene *scene = arg;
    const struct job *job = scene->job;
    uint8_t *data;
    struct stripes *stripes = stripes_open(job->from, scene->layout.size, &data);
    int64_t start = clock_now();
    for (uint32_t number = 0; number < scene->frames; number++, start += scene->period) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        struct gpud_frame *frame = next_slot(scene, stripes, number, &info);
        if (clock_now() > start + scene->period) /* the machine was late */
            start = clock_now();
        for (uint32_t i = 0; i < (uint32_t)job->lines; i++) {
            uint64_t from = bytes_before(scene, i), size = bytes_before(scene, i + 1) - from;
            memset(data + from, filler(number, i), size);
            clock_sleep_until(start + scene->period * (i + 1) / job->lines);
            if (scene->target)
                stripes_write_slot(stripes, scene->slot[number % scene->slots],
                                   number % scene->slots, from, size);
            else
                stripes_write(stripes, &info, from, size);
            int64_t now = clock_now();
            if (i == 0)
                atomic_store(&scene->first[number % TIMES], now);
            if (i == (uint32_t)job->lines - 1)
                atomic_store(&scene->last[number % TIMES], now);
            lines_announce(scene, stripes, frame, number, rows_before(scene, i + 1));
        }
        gpud_frame_release(&frame);
    }
    while (atomic_load(&scene->taken) < scene->frames)
        clock_sleep_until(clock_now() + GPUD_MSEC);
    stripes_close(stripes);
    return NULL;
}

/* Of a link that has handed over a frame. */
static void check_route(struct scene *scene)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(scene->receiver, &info);
    if (scene->by_lines && info.whole_reason[0])
        die("by %s frames come as a whole: %s", info.path, info.whole_reason);
    g_strlcpy(scene->route, info.path, sizeof(scene->route));
}

static void read_one(struct scene *scene, struct stripes *stripes, const uint8_t *data,
                     struct gpud_frame *frame, uint32_t number)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    int64_t start = clock_now();
    uint32_t stripe_count = scene->job->lines;
    gpud_frame_get_info(frame, &info);
    if (info.offset != number)
        die("frame %u came where %u is due", (unsigned)info.offset, number);
    for (uint32_t i = 0; i < stripe_count; i++) {
        uint64_t from = bytes_before(scene, i), size = bytes_before(scene, i + 1) - from;
        if (scene->paced) /* a little faster than the writer, to catch up after a delay */
            clock_sleep_until(start + scene->period * i * 9 / 10 / stripe_count);
        must("waiting for lines",
             gpud_frame_wait_lines(frame, rows_before(scene, i + 1), PATIENCE, &error), &error);
        stripes_read(stripes, &info, from, size);
        if (i == 0)
            scene->first_latency[number] = clock_now() - atomic_load(&scene->first[number % TIMES]);
        if (data[from] != filler(number, i) || data[from + size - 1] != filler(number, i))
            die("stripe %u of frame %u is torn", i, number);
    }
    scene->last_latency[number] = clock_now() - atomic_load(&scene->last[number % TIMES]);
}

static void read_all(struct scene *scene)
{
    struct gpud_error error = {.reason = ""};
    uint8_t *data;
    struct stripes *stripes = stripes_open(scene->job->to, scene->layout.size, &data);
    for (uint32_t number = 0; number < scene->frames; number++) {
        struct gpud_frame *frame = NULL;
        enum gpud_status status =
            scene->target ? gpud_target_acquire(scene->ring, PATIENCE, &frame, &error)
                          : gpud_receiver_acquire(scene->receiver, PATIENCE, &frame, &error);
        must("a frame", status, &error);
        if (!scene->target && number == 0)
            check_route(scene);
        read_one(scene, stripes, data, frame, number);
        gpud_frame_release(&frame);
        atomic_store(&scene->taken, number + 1);
    }
    stripes_close(stripes);
}

static void open_target(struct scene *scene)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_target_params params = GPUD_PARAMS_INIT(params);
    struct gpud_target_info info = GPUD_INFO_INIT(info);
    params.layout = &scene->layout;
    params.device = scene->job->from;
    params.slots = MAX(scene->job->slots, 2);
    params.pace = GPUD_TARGET_PACED;
    params.by_lines = scene->by_lines;
    must("the target", gpud_target_create(scene->context, &params, &scene->ring, &error), &error);
    gpud_target_get_info(scene->ring, &info);
    scene->slot = info.slot;
    scene->slots = info.slots;
}

static void *wait_for_one(void *arg)
{
    struct scene *scene = arg;
    struct gpud_error error = {.reason = ""};
    must("connecting", gpud_sender_wait(scene->sender, 1, PATIENCE, &error), &error);
    return write_all(scene);
}

static void open_link(struct scene *scene)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE, .picture.layout = scene->layout};
    struct gpud_sender_params to = GPUD_PARAMS_INIT(to);
    struct gpud_receiver_params from = GPUD_PARAMS_INIT(from);
    to.address = from.address = scene->job->address;
    to.device = scene->job->from;
    from.device = scene->job->to;
    to.slots = from.slots = scene->job->slots;
    if (scene->job->route)
        to.route = from.route = scene->job->route;
    from.by_lines = scene->by_lines;
    must("the sender", gpud_sender_create(scene->context, &to, &scene->sender, &error), &error);
    must("the format", gpud_sender_configure(scene->sender, &media, &error), &error);
    must("the receiver", gpud_receiver_create(scene->other, &from, &scene->receiver, &error),
         &error);
}

/* p50, microseconds. route: set to a link's. */
static struct figures run_scene(const struct job *job, bool target, bool by_lines, bool paced,
                                char route[32])
{
    struct scene *scene = g_new0(struct scene, 1);
    struct gpud_error error = {.reason = ""};
    scene->job = job;
    scene->target = target;
    scene->by_lines = by_lines;
    scene->paced = paced;
    scene->period = job->period;
    scene->frames = (uint32_t)(job->warmup + job->frames);
    scene->first_latency = g_new0(int64_t, scene->frames);
    scene->last_latency = g_new0(int64_t, scene->frames);
    must("a context", gpud_context_create(NULL, &scene->context, &error), &error);
    must("a context", gpud_context_create(NULL, &scene->other, &error), &error);
    must("the format",
         gpud_layout_init(&scene->layout, "UYVY", (uint32_t)job->width, (uint32_t)job->height, 0,
                          &error),
         &error);
    if (target)
        open_target(scene);
    else
        open_link(scene);
    GThread *writer = g_thread_new("writer", target ? write_all : wait_for_one, scene);
    read_all(scene);
    g_thread_join(writer);
    if (target) { /* so that the ring can be freed */
        struct gpud_target_info info = GPUD_INFO_INIT(info);
        gpud_target_get_info(scene->ring, &info);
        atomic_store((_Atomic uint32_t *)(void *)((char *)info.words + info.stopped_offset), 1);
    }
    struct figures figures = {
        .first = stats_latency_of(scene->first_latency + job->warmup, job->frames).p50,
        .last = stats_latency_of(scene->last_latency + job->warmup, job->frames).p50,
        .last_p99 = stats_latency_of(scene->last_latency + job->warmup, job->frames).p99,
    };
    if (!target)
        g_strlcpy(route, scene->route, sizeof(scene->route));
    gpud_target_destroy(&scene->ring);
    gpud_receiver_destroy(&scene->receiver);
    gpud_sender_destroy(&scene->sender);
    gpud_context_destroy(&scene->other);
    gpud_context_destroy(&scene->context);
    g_free(scene->first_latency);
    g_free(scene->last_latency);
    g_free(scene);
    return figures;
}

static bool has_link(const struct job *job)
{
    return !g_str_has_prefix(job->from, "opencl:");
}

static bool has_target(const struct job *job)
{
    return !raw_driver_of(job->from, NULL) && strcmp(job->from, job->to) == 0 && !job->route;
}

static const struct {
    const char *what;
    bool paced;
    size_t offset;
} rows[] = {
    {"first lines written, to read", false, offsetof(struct figures, first)},
    {"reader done after the last line", false, offsetof(struct figures, last)},
    {"the same, p99", false, offsetof(struct figures, last_p99)},
    {"the same, by a reader as slow as the writer", true, offsetof(struct figures, last)},
    {"the same, p99", true, offsetof(struct figures, last_p99)},
};

static double value_of(const struct figures *figures, size_t row)
{
    return *(const double *)(const void *)((const char *)figures + rows[row].offset) / 1e3;
}

int main(int argc, char **argv)
{
    struct job job = {.width = 1920,
                      .height = 1080,
                      .lines = 18,
                      .frames = 100,
                      .warmup = 32,
                      .slots = 4,
                      .fps = 50};
    const GOptionEntry entries[] = {
        {"from", 0, 0, G_OPTION_ARG_STRING, &job.from, "The writer's device (host)", "DEVICE"},
        {"to", 0, 0, G_OPTION_ARG_STRING, &job.to, "The reader's device (the writer's)", "DEVICE"},
        {"route", 0, 0, G_OPTION_ARG_STRING, &job.route, "From one to the other (the best)",
         "ROUTE"},
        {"lines", 0, 0, G_OPTION_ARG_INT, &job.lines, "Stripes of a picture (18)", "N"},
        {"width", 0, 0, G_OPTION_ARG_INT, &job.width, "(1920)", "PIXELS"},
        {"height", 0, 0, G_OPTION_ARG_INT, &job.height, "(1080)", "PIXELS"},
        {"fps", 0, 0, G_OPTION_ARG_DOUBLE, &job.fps, "Pictures a second (50)", "RATE"},
        {"frames", 0, 0, G_OPTION_ARG_INT, &job.frames, "Pictures to measure (100)", "N"},
        {"warmup", 0, 0, G_OPTION_ARG_INT, &job.warmup, "Pictures before those (32)", "N"},
        {NULL},
    };
    GError *error = NULL;
    GOptionContext *context =
        g_option_context_new("— pictures that are read while they are written");
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error))
        die("%s", error->message);
    g_option_context_free(context);
    if (!job.from)
        job.from = g_strdup("host");
    if (!job.to)
        job.to = g_strdup(job.from);
    if (job.lines < 1 || job.lines > job.height || job.frames < 1 || job.warmup < 0 ||
        !(job.fps > 0))
        die("--lines %d: 1 to %d are possible, of pictures that there are", job.lines, job.height);
    if (!has_link(&job) && !has_target(&job))
        die("--from %s: this writer takes a target alone there, without --to and --route",
            job.from);
    job.period = (int64_t)(1e9 / job.fps);
    job.address = folder_open();
    char route[32] = "";
    struct figures figures[2][2]
                          [2]; /* by a link and by a target; whole and by lines; a slow reader */
    for (int by_lines = 0; by_lines < 2; by_lines++)
        for (int paced = 0; paced < 2; paced++) {
            if (has_link(&job))
                figures[0][by_lines][paced] = run_scene(&job, false, by_lines, paced, route);
            if (has_target(&job))
                figures[1][by_lines][paced] = run_scene(&job, true, by_lines, paced, NULL);
        }
    folder_remove();
    printf("%s to %s%s%s, %dx%d UYVY, written in %.1f ms, in %d stripes\n", job.from, job.to,
           route[0] ? " by " : "", route, job.width, job.height, (double)job.period / 1e6,
           job.lines);
    for (size_t way = 0; way < 2; way++) {
        if (way == 0 ? !has_link(&job) : !has_target(&job))
            continue;
        printf("  %-46s%12s%14s\n", way == 0 ? "link" : "target", "whole", "by lines");
        for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
            printf("    %-44s%9.4f ms%11.4f ms\n", rows[i].what,
                   value_of(&figures[way][0][rows[i].paced], i),
                   value_of(&figures[way][1][rows[i].paced], i));
    }
    return EXIT_SUCCESS;
}
