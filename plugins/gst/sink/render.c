/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A buffer's way into the ring, the events between buffers, and messages about both. */
#include "sink/sink.h"

#include <errno.h>
#include <gst/allocators/gstdmabuf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* === report ================================================================================== */
/* Messages to the application during streaming: frames that slow receivers lost, an element
 * upstream that writes into buffers mapped for reading, and why receivers are refused. */

/* The core's counters are read once in so many frames. */
#define FRAMES_BETWEEN_CHECKS 32

/* Of a time in the current segment; GPUD_TIME_NONE: it has none. The streaming thread's. */
static guint64 get_running_time(GstGpudirectSink *self, GstClockTime time)
{
    const GstSegment *segment = &GST_BASE_SINK(self)->segment;

    if (!GST_CLOCK_TIME_IS_VALID(time) || segment->format != GST_FORMAT_TIME)
        return GPUD_TIME_NONE;
    return gst_segment_to_running_time(segment, GST_FORMAT_TIME, time);
}

static struct gpud_sender_info sender_info(GstGpudirectSink *self)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    gpud_sender_get_info(shared_sender_core(self->sender), &info);
    return info;
}

static void report_drops(GstGpudirectSink *self, const struct gpud_sender_info *info)
{
    GstBaseSink *base = GST_BASE_SINK(self);
    GstClockTime pts = self->reported.pts;

    if (info->dropped <= self->reported.drops)
        return;
    self->reported.drops = info->dropped;
    GstMessage *message = gst_message_new_qos(
        GST_OBJECT(self), gst_base_sink_get_sync(base), get_running_time(self, pts),
        gst_segment_to_stream_time(&base->segment, base->segment.format, pts), pts,
        self->reported.duration);
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, info->delivered, info->dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

void gst_gpudirect_sink_report_rest(GstGpudirectSink *self)
{
    if (!self->sender)
        return;
    struct gpud_sender_info info = sender_info(self);
    report_drops(self, &info);
}

/* The element that gave the buffers: those that pass them on unchanged do not count, as queues,
 * tees and capsfilters. */
static gchar *name_of_parent(GstPad *pad)
{
    GstElement *element = pad ? gst_pad_get_parent_element(pad) : NULL;
    gchar *name = NULL;

    if (!element)
        return NULL;
    const gchar *klass = gst_element_get_metadata(element, GST_ELEMENT_METADATA_KLASS);
    if (klass && strstr(klass, "Generic")) {
        GstPad *sink = gst_element_get_static_pad(element, "sink");
        GstPad *peer = sink ? gst_pad_get_peer(sink) : NULL;
        name = name_of_parent(peer);
        gst_clear_object(&peer);
        gst_clear_object(&sink);
    } else {
        name = gst_object_get_name(GST_OBJECT(element));
    }
    gst_object_unref(element);
    return name;
}

/* Warns, once per format, if receivers are refused for lack of memory. info: the core's current
 * counters; NULL: they were not read. */
static void report_lack(GstGpudirectSink *self, const struct gpud_sender_info *info)
{
    const gchar *what = NULL;
    struct gpud_error error;
    struct gpud_frame *frame;

    if (info && info->refused > self->reported.refusals) {
        self->reported.refusals = info->refused;
        /* The core reports the reason of a refusal to the receiver only, and a pool notices the
         * lack of slots only when upstream uses it. So the sink tries to get a slot itself, and
         * room for the slots of one more receiver. */
        if (shared_sender_acquire(self->sender, shared_sender_epoch(self->sender), FALSE, &frame) ==
            GPUD_OK)
            gpud_frame_release(&frame);
        gsize size = self->format.slot_info.size * self->endpoint.running.slots;
        void *trial =
            mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (trial != MAP_FAILED) {
            munmap(trial, size);
        } else {
            struct rlimit allowed = {.rlim_cur = RLIM_INFINITY};
            getrlimit(RLIMIT_AS, &allowed);
            what = "A receiver was refused";
            error =
                (struct gpud_error){.status = GPUD_NO_MEMORY, .origin = "errno", .native = ENOMEM};
            g_snprintf(error.reason, sizeof(error.reason),
                       "%" G_GSIZE_FORMAT " MiB of slots for it do not fit into the process's "
                       "address space of %llu MiB: raise its limit (ulimit -v), or set slots to "
                       "less",
                       size >> 20, (unsigned long long)allowed.rlim_cur >> 20);
        }
    }
    if (shared_sender_take_lack(self->sender, &error))
        what = "There are no slots for frames, without which receivers are refused";
    if (!what || self->reported.lack)
        return;
    self->reported.lack = TRUE;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_WRITE, &error, "%s", what);
}

/* Called after each frame, with its buffer. */
static void report_frame(GstGpudirectSink *self, GstBuffer *buffer)
{
    gboolean checks = ++self->frames % FRAMES_BETWEEN_CHECKS == 0;

    if (!self->reported.misuse && counter_read(&self->endpoint.counters->misuses) > 0) {
        self->reported.misuse = TRUE;
        g_autoptr(GstPad) peer = gst_pad_get_peer(GST_BASE_SINK_PAD(self));
        g_autofree gchar *name = name_of_parent(peer);
        GST_ELEMENT_WARNING(
            self, STREAM, FORMAT,
            ("An element upstream, probably \"%s\", writes into buffers that it mapped for "
             "reading. Its changes are still copied to the device, so that pictures are right, at "
             "the cost of a copy from the device for each. The element should map them with "
             "GST_MAP_WRITE.",
             name ? name : "unknown"),
            (NULL));
    }
    self->reported.pts = GST_BUFFER_PTS(buffer);
    self->reported.duration = GST_BUFFER_DURATION(buffer);
    if (!checks) {
        report_lack(self, NULL);
        return;
    }
    struct gpud_sender_info info = sender_info(self);
    report_drops(self, &info);
    report_lack(self, &info);
}

/* === copy ==================================================================================== */
/* Buffers that are not slots cost one copy. On the host, and on a GPU whose slots the CPU sees as
 * pinned memory (which one DMA uploads), prepare() copies into a slot, before the sink waits for
 * the picture's time. For OpenCL devices the core reads the buffer's own memory when the frame is
 * submitted. A dma-buf is read by the ring's device, if its driver imports it. A slot that
 * gpudirectsrc received or captured into a device's memory is copied by that device, without the
 * CPU. */

static void drop_prepared(GstGpudirectSink *self)
{
    gst_clear_buffer(&self->copies.slot);
    gst_clear_buffer(&self->copies.of);
}

/* Copies the buffer into a slot, self->copies.slot. timeout: for the slot. Every status other than
 * GPUD_OK, GPUD_TIMEOUT and GPUD_AGAIN has posted an error. */
static enum gpud_status copy_to_slot(GstGpudirectSink *self, GstBuffer *buffer, gint64 timeout,
                                     struct gpud_error *error)
{
    struct gpud_frame *frame;
    GstBuffer *slot;

    if (self->copies.slot && self->copies.of == buffer)
        return GPUD_OK;
    drop_prepared(self);
    enum gpud_status status =
        gpud_sender_acquire(shared_sender_core(self->sender), timeout, &frame, error);
    if (status != GPUD_OK) {
        if (status != GPUD_TIMEOUT && status != GPUD_AGAIN)
            gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, error, "No slot for a frame");
        return status;
    }
    if (gst_gpudirect_pool_wrap(self->copies.pool, frame, &slot) != GST_FLOW_OK)
        return GPUD_AGAIN;
    switch (picture_copy(&self->format.info, buffer, slot, self->endpoint.counters)) {
    case PICTURE_COPIED:
        break;
    case PICTURE_UNREADABLE:
        GST_ELEMENT_ERROR(
            self, STREAM, FORMAT,
            ("A buffer does not hold a picture of the caps: look at the element upstream."),
            ("%" G_GSIZE_FORMAT " bytes", gst_buffer_get_size(buffer)));
        gst_buffer_unref(slot);
        return GPUD_IO;
    default:
        GST_ELEMENT_ERROR(
            self, RESOURCE, WRITE,
            ("A slot of the ring cannot be written: look at the log of gpudirectcore."), (NULL));
        gst_buffer_unref(slot);
        return GPUD_IO;
    }
    if (dmabuf_is_in_buffer(buffer))
        g_atomic_int_set(&self->copied_dmabufs, TRUE);
    self->copies.slot = slot;
    self->copies.of = gst_buffer_ref(buffer);
    return GPUD_OK;
}

/* --- the core copies ---------------------------------------------------------------------- */

struct mapped_buffer {
    GstBuffer *buffer;
    GstMapInfo map;
};

static void unmap_buffer(void *user)
{
    struct mapped_buffer *mapped = user;

    gst_buffer_unmap(mapped->buffer, &mapped->map);
    gst_buffer_unref(mapped->buffer);
    g_free(mapped);
}

/* Wraps the buffer's own memory as a frame, from which the core copies. NULL: the buffer consists
 * of several blocks, or its rows run backwards. */
static struct gpud_frame *wrap_buffer(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct mapped_buffer *mapped = g_new0(struct mapped_buffer, 1);
    struct gpud_memory *memory = NULL;
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout;
    struct gpud_error error;

    /* Mapping several blocks as one would already cost a copy. */
    if (gst_buffer_n_memory(buffer) != 1 || !gst_buffer_map(buffer, &mapped->map, GST_MAP_READ)) {
        g_free(mapped);
        return NULL;
    }
    mapped->buffer = gst_buffer_ref(buffer);
    if (!layout_from_buffer(&layout, &self->format.info, buffer, mapped->map.size) ||
        gpud_memory_wrap(self->host, mapped->map.data, mapped->map.size, unmap_buffer, mapped,
                         &memory, &error) != GPUD_OK) {
        unmap_buffer(mapped);
        return NULL;
    }
    if (gpud_frame_wrap(memory, 0, &layout, &frame, &error) != GPUD_OK) {
        GST_WARNING_OBJECT(self, "cannot wrap a buffer: %s", error.reason);
        frame = NULL;
    }
    gpud_memory_unref(&memory);
    return frame;
}

/* --- slots of other rings ----------------------------------------------------------------- */

/* Whether the buffer is a slot of another ring in a device's memory, as gpudirectsrc hands it out,
 * so that the device itself can copy it. A ring on the host takes slots of any device: that device
 * writes into the host's slot. */
static gboolean may_pass(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct slot_memory *slot = slot_memory_of_buffer(buffer);
    struct gpud_frame_info info;

    if (!slot || slot->sender || !slot->frame)
        return FALSE;
    info.size = sizeof(info);
    gpud_frame_get_info(slot->frame, &info);
    return info.device != self->host &&
           (info.device == self->ring_device || self->ring_device == self->host);
}

static void release_passed(void *buffer)
{
    gst_buffer_unref(buffer);
}

/* A frame over the bytes of such a slot, or of one of the sink's own; it holds the buffer. */
static struct gpud_frame *pass_slot(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct slot_memory *slot = slot_memory_of_buffer(buffer);
    struct gpud_layout layout;
    struct gpud_error error;

    if (!layout_from_buffer(&layout, &self->format.info, buffer, gst_buffer_get_size(buffer)))
        return NULL;
    gst_buffer_ref(buffer);
    struct gpud_frame *frame = slot_memory_wrap(slot, &layout, release_passed, buffer, &error);
    if (!frame) {
        GST_WARNING_OBJECT(self, "a slot cannot be passed on: %s", error.reason);
        gst_buffer_unref(buffer);
    }
    return frame;
}

/* --- dma-bufs of other elements ----------------------------------------------------------- */

/* What the ring's device made of a memory, kept with it, as upstream's memories come again. */
struct imported {
    struct gpud_device *device; /* to compare with, not a reference */
    gsize offset, size;
    struct gpud_memory *memory; /* NULL: its driver does not import it */
};

/* clang-format off */
static G_DEFINE_QUARK(GpudirectImported, imported)
    /* clang-format on */

    static void free_imported(gpointer user)
{
    struct imported *imported = user;

    gpud_memory_unref(&imported->memory);
    g_free(imported);
}

/* The buffer as memory of the ring's device, if it is a dma-buf that the device imports, so that it
 * can copy it itself; else NULL. */
static struct gpud_memory *find_imported(GstGpudirectSink *self, GstBuffer *buffer)
{
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;
    struct gpud_error error;
    gsize offset;

    if (!memory || self->ring_device == self->host || !gst_is_dmabuf_memory(memory))
        return NULL;
    gsize size = gst_memory_get_sizes(memory, &offset, NULL);
    struct imported *imported =
        gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), imported_quark());
    if (imported && imported->device == self->ring_device && imported->size == size &&
        imported->offset == offset)
        return imported->memory;
    imported = g_new0(struct imported, 1);
    imported->device = self->ring_device;
    imported->offset = offset;
    imported->size = size;
    if (gpud_memory_import_dmabuf(self->ring_device, gst_dmabuf_memory_get_fd(memory), offset, size,
                                  &imported->memory, &error) != GPUD_OK)
        GST_DEBUG_OBJECT(self, "the CPU copies from a dma-buf: %s", error.reason);
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), imported_quark(), imported,
                              free_imported);
    return imported->memory;
}

struct import {
    GstBuffer *buffer;
    struct gpud_frame *frame; /* over the memory */
};

static void release_import(void *user)
{
    struct import *import = user;

    gpud_frame_release(&import->frame);
    gst_buffer_unref(import->buffer);
    g_free(import);
}

/* A frame over the bytes of such a buffer, which it holds; NULL: it has to be copied otherwise. */
static struct gpud_frame *import_buffer(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct import *import = g_new0(struct import, 1);
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout;
    struct gpud_error error = {.reason = "its planes cannot be described"};

    import->buffer = gst_buffer_ref(buffer);
    if (!layout_from_buffer(&layout, &self->format.info, buffer, gst_buffer_get_size(buffer)) ||
        gpud_frame_wrap(find_imported(self, buffer), 0, &layout, &import->frame, &error) !=
            GPUD_OK ||
        gpud_frame_wrap_frame(import->frame, NULL, release_import, import, &frame, &error) !=
            GPUD_OK) {
        GST_WARNING_OBJECT(self, "a dma-buf is copied by the CPU: %s", error.reason);
        release_import(import);
        return NULL;
    }
    return frame;
}

/* === dmabufs ================================================================================= */
/* Pictures in dma-bufs: the ring's own, which upstream writes, and those that upstream brings.
 *
 * Upstream asks for the ring's by caps of memory:DMABuf, or as a driver that imports them (v4l2src
 * io-mode=dmabuf-import). Such a driver accepts no other memory, but does not say so in the query,
 * so the sink inspects the elements upstream. If the kernel can export the ring's memory as
 * dma-bufs (udmabuf), it is written in place; if not, or while no slot is free, the CPU copies from
 * other dma-bufs, as it does from those that upstream brings. */

/* Bounds the search in a pipeline with a loop. */
#define ELEMENTS_MAX 64

static gboolean has_choice(GstElement *element, const gchar *property)
{
    GParamSpec *spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), property);
    gint value;

    if (!spec || !G_IS_PARAM_SPEC_ENUM(spec))
        return FALSE;
    g_object_get(element, property, &value, NULL);
    const GEnumValue *choice = g_enum_get_value(G_PARAM_SPEC_ENUM(spec)->enum_class, value);
    return choice && g_strcmp0(choice->value_nick, "dmabuf-import") == 0;
}

/* Whether the element behind this pad imports dma-bufs, or one whose buffers it passes on. */
static gboolean imports_behind(GstPad *sink, guint depth)
{
    g_autoptr(GstPad) source = gst_pad_get_peer(sink);
    GstElement *element = source ? gst_pad_get_parent_element(source) : NULL;
    gboolean found = element && !GST_IS_BIN(element) &&
                     (has_choice(element, "io-mode") || has_choice(element, "capture-io-mode"));

    gst_clear_object(&element);
    if (source && !found && depth > 0) {
        g_autoptr(GstIterator) links = gst_pad_iterate_internal_links(source);
        GValue item = G_VALUE_INIT;
        while (!found && links && gst_iterator_next(links, &item) == GST_ITERATOR_OK) {
            found = imports_behind(g_value_get_object(&item), depth - 1);
            g_value_reset(&item);
        }
        g_value_unset(&item);
    }
    return found;
}

/* Whether upstream wants dma-bufs to write into, and this system can provide them. */
static gboolean wants_dmabufs(GstGpudirectSink *self)
{
    struct gpud_error error;

    g_atomic_int_set(&self->lends_dmabufs, FALSE);
    g_atomic_int_set(&self->copied_dmabufs, FALSE);
    if (self->format.gpu || self->ring_device != self->host)
        return FALSE;
    gboolean imports =
        !self->format.in_dmabufs && imports_behind(GST_BASE_SINK_PAD(self), ELEMENTS_MAX);
    if (!imports && !self->format.in_dmabufs)
        return FALSE;
    if (dmabuf_can_be_made(&error))
        return TRUE;
    GST_INFO_OBJECT(self, "no dma-bufs for upstream: %s", error.reason);
    if (imports)
        GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                            ("The driver upstream is to write into dma-bufs, and there are none "
                             "for it: set its io-mode to userptr, or to auto."),
                            ("%s", error.reason));
    return FALSE;
}

/* Warns the application if pictures have to be copied from these. */
static void tell_dmabufs(GstGpudirectSink *self)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error;

    if (!self->format.dmabufs)
        return;
    enum gpud_status status =
        gpud_sender_acquire(shared_sender_core(self->sender), 0, &frame, &error);
    if (status == GPUD_OK && !dmabuf_is_in_frame(frame, &error))
        status = error.status;
    gpud_frame_release(&frame);
    g_atomic_int_set(&self->lends_dmabufs, status == GPUD_OK);
    if (status == GPUD_OK)
        GST_INFO_OBJECT(self, "upstream may write straight into slots");
    else if (self->format.in_dmabufs) /* it may have some of its own */
        GST_INFO_OBJECT(self, "upstream cannot write into slots: %s", error.reason);
    else if (status == GPUD_UNSUPPORTED)
        GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                            ("The driver upstream cannot write into the ring, so each picture is "
                             "copied once: with io-mode=userptr none is."),
                            ("%s", error.reason));
}

/* === wait ==================================================================================== */
/* Waits for receivers, for the first one and for slow ones, and for writers of dma-bufs. */

/* The longest wait inside the core, after which the element checks for other work. */
#define SINK_WAIT (200 * GPUD_MSEC)

/* After about a second without a receiver, or five with one that takes no frame, an INFO message
 * says so. */
#define WAITS_UNTIL_REPORTED 5
#define HELD_UNTIL_REPORTED (5 * G_TIME_SPAN_SECOND)

/* How long an EOS of the application's waits behind frames for a receiver that takes none of them.
 */
#define END_PATIENCE 5

/* GstBaseSink holds its lock while it renders, and needs it to go to PLAYING. With async=false the
 * two meet: render() must not wait under it for what may never come. */
#define YIELD 1000 /* µs */

/* What was submitted before the EOS goes out first, as long as receivers take it. */
static void wait_at_end(GstGpudirectSink *self)
{
    struct sink_end *end = &self->end;
    struct gpud_sender_info info = sender_info(self);
    gint64 now = g_get_monotonic_time();

    if (end->since == 0 || info.delivered != end->delivered) {
        end->since = now;
        end->delivered = info.delivered;
    } else if (!end->given_up && now - end->since >= END_PATIENCE * G_TIME_SPAN_SECOND) {
        end->given_up = TRUE;
        end->dropped = info.dropped;
        shared_sender_set_slow_receiver(self->sender, GPUD_SLOW_DROP_NEWEST);
    }
}

/* With the EOS: warns if frames before it were given up, because a receiver took none. */
static void report_end(GstGpudirectSink *self)
{
    guint64 lost = self->sender ? sender_info(self).dropped - self->end.dropped : 0;

    if (self->end.given_up && lost > 0)
        GST_ELEMENT_WARNING(self, RESOURCE, WRITE,
                            ("%" G_GUINT64_FORMAT
                             " frames before the end of the stream are lost: a "
                             "receiver took none for %d s after EOS was asked for.",
                             lost, END_PATIENCE),
                            (NULL));
    self->end = (struct sink_end){0};
}

/* Shows the user why a file stands still: once for a buffer. why: the core's reason. */
static void check_held(GstGpudirectSink *self, const gchar *why)
{
    gint64 now = g_get_monotonic_time();

    if (self->held_since == 0)
        self->held_since = now;
    if (self->held_told || now - self->held_since < HELD_UNTIL_REPORTED)
        return;
    self->held_told = TRUE;
    g_autofree gchar *text = g_strdup_printf(
        "A frame has waited for 5 s, and no receiver gets one meanwhile: %s. Is a receiver "
        "paused or stopped? With slow-receiver=drop-oldest this sink goes on without it.",
        why);

    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO(self, RESOURCE, BUSY, ("%s", text), ("%s", text));
}

/* After a call into the core that timed out, was interrupted or failed. GST_FLOW_OK: it may be
 * repeated. After an interruption this waits for PLAYING, as GstBaseSink requires. error: what the
 * core said of a receiver; NULL: it is not one that is waited for. */
static GstFlowReturn may_retry(GstGpudirectSink *self, enum gpud_status status,
                               const struct gpud_error *error)
{
    GstBaseSink *base = GST_BASE_SINK(self);

    if (status != GPUD_AGAIN && status != GPUD_TIMEOUT)
        return GST_FLOW_ERROR;
    if (status == GPUD_AGAIN || shared_sender_is_interrupted(self->sender)) {
        self->held_since = 0; /* a pause is not the receiver's */
        return gst_base_sink_wait_preroll(base);
    }
    if (g_atomic_int_get(&self->ending))
        wait_at_end(self);
    else if (error)
        check_held(self, error->reason);
    GST_BASE_SINK_PREROLL_UNLOCK(self);
    g_usleep(YIELD); /* the lock is not fair */
    GST_BASE_SINK_PREROLL_LOCK(self);
    /* A change of state that took the lock meanwhile may have left these. The one to PLAYING finds
     * no preroll, asks for one, and never signals its end: only a commit of the state tells that
     * there is nothing to wait for. No object: this class has no preroll(). */
    if (base->flushing)
        return GST_FLOW_FLUSHING;
    return gst_base_sink_do_preroll(base, NULL);
}

/* Shows the user why a file does not play. */
static void report_waiting(GstGpudirectSink *self)
{
    g_autofree gchar *text =
        g_strdup_printf("Waiting for the first receiver on \"%s\", so that it gets "
                        "every frame: start gpudirectsrc with this address, or set "
                        "wait-for-connection=false.",
                        self->endpoint.running.address);

    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(self, RESOURCE, OPEN_WRITE, ("%s", text), ("%s", text),
                                  ("address", G_TYPE_STRING, self->endpoint.running.address, NULL));
}

/* Waits for a receiver, if the policy requires one. */
static GstFlowReturn wait_for_client(GstGpudirectSink *self)
{
    GstFlowReturn flow = GST_FLOW_OK;
    guint waits = 0;

    while (flow == GST_FLOW_OK && gst_gpudirect_sink_waits(self) &&
           !g_atomic_int_get(&self->ending) && sink_clients_count(&self->clients) == 0) {
        struct gpud_error error;
        enum gpud_status status =
            gpud_sender_wait(shared_sender_core(self->sender), 1, SINK_WAIT, &error);
        if (status == GPUD_OK)
            break;
        if (status == GPUD_TIMEOUT) {
            struct gpud_sender_info info = sender_info(self);
            report_lack(self, &info);
            if (++waits == WAITS_UNTIL_REPORTED)
                report_waiting(self);
        }
        flow = may_retry(self, status, NULL);
        if (flow == GST_FLOW_ERROR)
            gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error,
                                "Cannot wait for a receiver");
    }
    return flow;
}

/* --- writers of dma-bufs ------------------------------------------------------------------ */

/* Longer than any picture takes to be made. */
#define WRITES_TIMEOUT (2 * GPUD_SEC)
#define WRITES_SLICE (20 * GPUD_MSEC) /* after which the element checks for a state change */

/* Waits until other drivers have finished their writes to a buffer's dma-bufs. GST_FLOW_OK with
 * *written FALSE: they do not, and the picture is dropped. */
static GstFlowReturn await_writes(GstGpudirectSink *self, GstBuffer *buffer, gboolean *written)
{
    GstFlowReturn flow = GST_FLOW_OK;

    if ((*written = dmabuf_wait_for_buffer(buffer, 0)))
        return GST_FLOW_OK;
    gint64 until = g_get_monotonic_time() + WRITES_TIMEOUT / 1000;
    while (flow == GST_FLOW_OK && !(*written = dmabuf_wait_for_buffer(buffer, WRITES_SLICE))) {
        flow = may_retry(self, GPUD_TIMEOUT, NULL);
        if (flow != GST_FLOW_OK || g_get_monotonic_time() < until)
            continue;
        if (__atomic_fetch_add(&self->malformed, 1, __ATOMIC_RELAXED) == 0)
            GST_ELEMENT_WARNING(
                self, STREAM, FAILED,
                ("A picture in a dma-buf is not finished after two seconds, and is dropped: has "
                 "the device that writes it stopped? The stats count those that follow "
                 "(dropped-malformed)."),
                (NULL));
        return GST_FLOW_OK;
    }
    return flow;
}

/* === events ================================================================================== */
/* The events that gpudirectsink sends, the head before them and before each frame, and the sticky
 * events for receivers that connect late. The sender keeps the last event of each of its kinds;
 * GStreamer keeps the last sticky event of each name, so each name gets a kind. */

static GstBaseSinkClass *parent_class;

/* Fills the head that precedes each frame and event. */
static void fill_head(GstGpudirectSink *self, struct wire_head *head)
{
    struct clock_name name;

    head->drops = gst_gpudirect_sink_policy(self) != GPUD_SLOW_BLOCK;
    head->live = g_atomic_int_get(&self->live) == TRUE;
    head->base_time = gst_element_get_base_time(GST_ELEMENT(self));
    enum clock_kind kind = endpoint_get_clock(&self->endpoint, &name);
    head->monotonic = kind == CLOCK_KIND_MONOTONIC ? clock_monotonic_id() : 0;
    head->clock = name.id;
    g_autoptr(GstClock) clock = name.id ? gst_element_get_clock(GST_ELEMENT(self)) : NULL;
    head->sent = clock ? gst_clock_get_time(clock) : GST_CLOCK_TIME_NONE;
}

/* Data may be a codec's, whose buffers depend on each other. */
static gboolean sends_data(const GstGpudirectSink *self)
{
    return self->format.media.kind == GPUD_MEDIA_DATA;
}

/* Fills in what is sent of a buffer besides its bytes. */
static void describe_buffer(GstGpudirectSink *self, GstBuffer *buffer, struct gpud_frame_info *info)
{
    struct meta_loss loss = {self->endpoint.lost_metas, GST_ELEMENT(self)};
    struct wire_head head;

    info->pts_ns = get_running_time(self, GST_BUFFER_PTS(buffer));
    info->dts_ns = get_running_time(self, GST_BUFFER_DTS(buffer));
    info->duration_ns =
        event_running_duration(&GST_BASE_SINK(self)->segment, GST_BUFFER_DURATION(buffer));
    info->offset = GST_BUFFER_OFFSET(buffer);
    info->flags = frame_flags_from_buffer(buffer);
    if (sends_data(self) && GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT))
        info->flags |= GPUD_FRAME_DELTA;
    fill_head(self, &head);
    info->meta_size = meta_encode(buffer, &head, info->meta, &self->large_metas, &loss);
    info->large_meta = self->large_metas.data;
    info->large_meta_size = self->large_metas.used;
    if (self->large_metas.overflown && !self->reported.large_metas) {
        self->reported.large_metas = TRUE;
        GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                            ("The metas of a buffer have more than %u KiB: some are not sent. The "
                             "stats count them by type (lost-meta-types).",
                             self->large_metas.max / 1024),
                            ("%" GST_PTR_FORMAT, buffer));
    }
}

/* The kind as which an event is sent: a sticky one's has its index among those of its kind. */
static uint32_t wire_kind(GstGpudirectSink *self, GstEvent *event, enum event_kind kind)
{
    GPtrArray *names = self->sticky_names;
    guint index = 0;

    if (!event_is_sticky(kind))
        return kind;
    if (kind == EVENT_CUSTOM_STICKY) {
        const gchar *name = gst_structure_get_name(gst_event_get_structure(event));
        while (index < names->len && !g_str_equal(names->pdata[index], name))
            index++;
        if (index == names->len && index >= EVENT_STICKY_NAMES_MAX) {
            GST_WARNING_OBJECT(self,
                               "more than %d names of sticky events: late receivers do not get "
                               "%" GST_PTR_FORMAT,
                               EVENT_STICKY_NAMES_MAX, event);
            return kind;
        }
        if (index == names->len)
            g_ptr_array_add(names, g_strdup(name));
    } else if (kind == EVENT_TAGS) {
        index = event_tag_scope(event);
    }
    return event_make_kind(kind, index) | GPUD_EVENT_STICKY;
}

/* Events of the moment that precede the first frame of a stream that waits for its first receiver
 * wait with it. Sticky ones are kept by the sender. */
#define UNSENT_MAX 64

static void send_now(GstGpudirectSink *self, GstEvent *event)
{
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];
    struct wire_head head;
    struct gpud_error error;
    enum event_kind kind;
    guint lost = 0;

    fill_head(self, &head);
    size_t size = event_encode(event, &GST_BASE_SINK(self)->segment, &head, bytes, &kind, &lost);
    if (lost)
        GST_DEBUG_OBJECT(self, "%u parts are not sent of %" GST_PTR_FORMAT, lost, event);
    if (size == 0)
        return;
    if (gpud_sender_send_event(shared_sender_core(self->sender), wire_kind(self, event, kind),
                               bytes, size, &error) != GPUD_OK)
        GST_WARNING_OBJECT(self, "%s cannot be sent: %s", GST_EVENT_TYPE_NAME(event), error.reason);
}

/* What the media has no place for of the caps. */
static void send_caps(GstGpudirectSink *self)
{
    const struct caps_rest *rest = self->format.rest;
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];
    struct wire_head head;
    struct gpud_error error;

    fill_head(self, &head);
    for (guint i = 0; rest && rest->hash && i < caps_rest_parts(rest); i++) {
        size_t size = event_encode_caps(rest, i, &head, bytes);
        if (gpud_sender_send_event(shared_sender_core(self->sender),
                                   event_make_kind(EVENT_CAPS, i) | GPUD_EVENT_STICKY, bytes, size,
                                   &error) != GPUD_OK)
            GST_WARNING_OBJECT(self, "a part of the caps cannot be sent: %s", error.reason);
    }
}

static void send_event(GstGpudirectSink *self, GstEvent *event)
{
    if (!self->sender)
        return;
    if ((GST_EVENT_TYPE(event) != GST_EVENT_CUSTOM_DOWNSTREAM &&
         GST_EVENT_TYPE(event) != GST_EVENT_GAP) ||
        sink_clients_count(&self->clients) > 0 || g_atomic_int_get(&self->ending) ||
        !gst_gpudirect_sink_waits(self)) {
        send_now(self, event);
        return;
    }
    if (self->unsent.length == UNSENT_MAX) {
        g_autoptr(GstEvent) oldest = g_queue_pop_head(&self->unsent);
        GST_WARNING_OBJECT(
            self, "more than %d events before the first receiver: not sent: %" GST_PTR_FORMAT,
            UNSENT_MAX, oldest);
    }
    g_queue_push_tail(&self->unsent, gst_event_ref(event));
}

/* The first receiver may not be among the clients yet, because its connection is reported later. */
static void send_unsent(GstGpudirectSink *self)
{
    GstEvent *event;

    while (self->sender && (event = g_queue_pop_head(&self->unsent))) {
        send_now(self, event);
        gst_event_unref(event);
    }
}

static void drop_unsent(GstGpudirectSink *self)
{
    g_queue_clear_full(&self->unsent, (GDestroyNotify)gst_event_unref);
}

/* Repeats to a new sender the sticky events that the previous one got. */
static void repeat_events(GstGpudirectSink *self)
{
    static const GstEventType types[] = {GST_EVENT_SEGMENT, GST_EVENT_TAG,
                                         GST_EVENT_CUSTOM_DOWNSTREAM_STICKY};

    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        GstEvent *event;
        for (guint n = 0; (event = gst_pad_get_sticky_event(GST_BASE_SINK_PAD(self), types[i], n));
             n++) {
            send_event(self, event);
            gst_event_unref(event);
        }
    }
}

static guint opened_count; /* atomic: of this process's sinks, ever */

void gst_gpudirect_sink_note_opened(GstGpudirectSink *self)
{
    if (gst_gpudirect_sink_is_between_hosts(self))
        g_atomic_int_inc(&opened_count);
    self->opened = (guint)g_atomic_int_get(&opened_count);
}

static void tell_opened(GstGpudirectSink *self)
{
    guint opened = (guint)g_atomic_int_get(&opened_count);

    if (opened == self->opened)
        return;
    self->opened = opened;
    if (!gst_gpudirect_sink_is_between_hosts(self))
        return;
    g_autoptr(GstEvent) event = event_new_opened();
    send_event(self, event);
}

static gboolean sink_event(GstBaseSink *base, GstEvent *event)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_EOS:
        gst_gpudirect_sink_report_rest(self);
        endpoint_post_stats(&self->endpoint);
        send_unsent(self);
        if (self->sender && !self->failed)
            gpud_sender_send_eos(shared_sender_core(self->sender), NULL);
        report_end(self);
        gst_gpudirect_sink_set_ending(self, FALSE);
        break;
    case GST_EVENT_STREAM_START:
        endpoint_note_stats(&self->endpoint);
        self->failed = FALSE;
        break;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
        if (event_is_broken_off(event))
            self->failed = TRUE;
        else if (event_is_sender_live(event))
            gst_gpudirect_sink_query_live(self);
        else
            send_event(self, event);
        break;
    case GST_EVENT_FLUSH_STOP:
        self->failed = FALSE;
        self->end = (struct sink_end){0};
        gst_gpudirect_sink_set_ending(self, FALSE);
        drop_prepared(self);
        drop_unsent(self);
        send_event(self, event);
        break;
    default:
        send_event(self, event);
    }
    return parent_class->event(base, event);
}

/* === blocks ================================================================================== */
/* Sound and data. A buffer is copied into a slot, of which only that much is sent. Sound that is
 * longer than a slot is split between samples. Larger data gets a ring of larger slots. */

/* The slots of data: at first, and at most. They grow to this many times what is needed, because
 * each time is a new ring for all receivers. */
#define DATA_FIRST (UINT64_C(64) << 10)
#define DATA_LARGEST (UINT64_C(16) << 20)
#define DATA_GROWTH 4

/* After a receiver was waited for in vain, there is no waiting for so many times as long, and twice
 * that the next time, up to a limit. */
#define IMPATIENCE 10
#define IMPATIENCE_DOUBLINGS 5

/* A part of a buffer, at the same offset in each plane. */
struct part {
    GstBuffer *buffer;
    guint planes;
    gsize offsets[GPUD_AUDIO_CHANNELS_MAX];
    gsize bytes; /* of a plane */
};

/* Gives the media of new caps the size of its slots: that of 100 ms of sound; of data, what the
 * last buffers needed; tensors have their own. FALSE: these are no caps of blocks. */
static gboolean size_blocks(GstGpudirectSink *self, const GstCaps *caps, struct gpud_media *media)
{
    const struct gpud_media *last = &self->format.media;
    struct gpud_layout layout;
    struct gpud_error error;

    if (!blocks_are_caps(caps))
        return FALSE;
    if (media->kind == GPUD_MEDIA_TENSOR) {
        gboolean valid = gpud_media_get_layout(media, &layout, &error) == GPUD_OK;
        if (!valid)
            GST_WARNING_OBJECT(self, "%s", error.reason);
        return valid;
    }
    if (blocks_are_sound(media)) {
        media->audio.block = CLAMP(media->audio.rate / 10, 1, GPUD_AUDIO_BLOCK_MAX);
        return gst_audio_info_from_caps(&self->format.audio, caps);
    }
    media->data.max_size = CLAMP(media->data.max_size, DATA_FIRST, DATA_LARGEST);
    if (self->format.configured && last->kind == media->kind &&
        g_str_equal(last->data.type, media->data.type))
        media->data.max_size = MAX(media->data.max_size, last->data.max_size);
    return TRUE;
}

/* Upstream's encoder gets one request in so many µs, however many receivers ask. */
#define KEYS_INTERVAL (100 * G_TIME_SPAN_MILLISECOND)

/* Called after each buffer of data. What comes too early waits for a later one. */
static void pass_key_requests(GstGpudirectSink *self)
{
    struct gpud_key_request *all = &self->keys.request, more = {.size = sizeof(more)};
    gint64 now = g_get_monotonic_time();

    if (gpud_sender_take_key_request(shared_sender_core(self->sender), &more)) {
        more.at_once |= all->at_once; /* zeroed without a request */
        more.all_headers |= all->all_headers;
        if (all->size)
            more.time_ns = MIN(more.time_ns, all->time_ns); /* NONE is later than all */
        *all = more;
    }
    if (!all->size || (self->keys.passed_at && now - self->keys.passed_at < KEYS_INTERVAL))
        return;
    GstClockTime times[] = {GST_CLOCK_TIME_NONE, wire_time(all->time_ns)};
    gboolean wanted[] = {all->at_once, GST_CLOCK_TIME_IS_VALID(times[1])};
    for (guint i = 0; i < G_N_ELEMENTS(times); i++)
        if (wanted[i])
            gst_pad_push_event(GST_BASE_SINK_PAD(self), gst_video_event_new_upstream_force_key_unit(
                                                            times[i], all->all_headers, 0));
    GST_DEBUG_OBJECT(self, "a key unit is asked for");
    *all = (struct gpud_key_request){0};
    self->keys.passed_at = now;
}

static void blocks_refuse(GstGpudirectSink *self, GstBuffer *buffer, const gchar *reason)
{
    if (__atomic_fetch_add(&self->malformed, 1, __ATOMIC_RELAXED) == 0)
        GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                            ("A buffer of %" G_GSIZE_FORMAT " bytes is dropped: %s. The stats "
                             "count those that follow (dropped-malformed).",
                             gst_buffer_get_size(buffer), reason),
                            (NULL));
    else
        GST_WARNING_OBJECT(self, "%s: %" GST_PTR_FORMAT, reason, buffer);
}

static GstFlowReturn blocks_fail(GstGpudirectSink *self, const struct gpud_error *error)
{
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, error, "A block cannot be sent");
    return GST_FLOW_ERROR;
}

/* A live stream drops what a receiver does not take in time. The parts of one buffer, which come at
 * once, are not late, and wait for it: for a limited time, so that a receiver that has stopped
 * holds up the others for a fraction of theirs at most. */
static void begin_patience(GstGpudirectSink *self, GstClockTime most)
{
    gint64 now = g_get_monotonic_time();

    if (gst_gpudirect_sink_policy(self) == GPUD_SLOW_BLOCK || now < self->patience.none_until)
        return;
    self->patience.since = now;
    self->patience.until = now + (gint64)GST_TIME_AS_USECONDS(most);
    shared_sender_set_slow_receiver(self->sender, GPUD_SLOW_BLOCK);
}

static void end_patience(GstGpudirectSink *self)
{
    if (!self->patience.until)
        return;
    gst_gpudirect_sink_apply_policy(self);
    self->patience.until = 0;
    self->patience.in_vain = 0;
}

/* For how long packets of one time wait, if it is not known how soon the next ones come. */
#define BURST_DEFAULT (40 * GST_MSECOND)
#define BURST_MAX (100 * GST_MSECOND)

/* Packets of one time, as those of a picture by RTP, come at once, and may be more than the ring
 * has slots: they wait like the parts of a buffer, as long as it was from the time before. */
static void wait_for_bursts(GstGpudirectSink *self, GstBuffer *buffer)
{
    GstClockTime time = GST_BUFFER_DTS_OR_PTS(buffer), before = self->patience.burst;
    gboolean both = GST_CLOCK_TIME_IS_VALID(time) && GST_CLOCK_TIME_IS_VALID(before);

    if (both && time == before) {
        if (!self->patience.until)
            begin_patience(self, self->patience.spacing);
        return;
    }
    end_patience(self);
    self->patience.spacing = both && time > before ? MIN(time - before, BURST_MAX) : BURST_DEFAULT;
    self->patience.burst = time;
}

/* How long the core may wait. */
static gint64 get_timeout(const GstGpudirectSink *self)
{
    gint64 left = (self->patience.until - g_get_monotonic_time()) * GPUD_USEC;

    return self->patience.until ? CLAMP(left, 0, SINK_WAIT) : SINK_WAIT;
}

static GstFlowReturn block_may_retry(GstGpudirectSink *self, enum gpud_status status,
                                     const struct gpud_error *error)
{
    gint64 now = g_get_monotonic_time();

    if (status == GPUD_TIMEOUT && self->patience.until && now >= self->patience.until) {
        GST_INFO_OBJECT(self, "a receiver does not take the parts of a buffer in time");
        self->patience.none_until =
            now + (IMPATIENCE << self->patience.in_vain) * (now - self->patience.since);
        self->patience.in_vain = MIN(self->patience.in_vain + 1, IMPATIENCE_DOUBLINGS);
        gst_gpudirect_sink_apply_policy(self);
        self->patience.until = 0;
    }
    return may_retry(self, status, error);
}

static GstFlowReturn blocks_submit(GstGpudirectSink *self, const struct part *part,
                                   const struct gpud_frame_info *info)
{
    struct gpud_sender *core = shared_sender_core(self->sender);
    struct gpud_frame *frame = NULL;
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_error error;
    enum gpud_status status;
    void *data;

    while ((status = gpud_sender_acquire(core, get_timeout(self), &frame, &error)) != GPUD_OK)
        if ((flow = block_may_retry(self, status, &error)) != GST_FLOW_OK)
            return flow == GST_FLOW_ERROR ? blocks_fail(self, &error) : flow;
    status = gpud_frame_set_size(frame, part->bytes * part->planes, &error);
    if (status == GPUD_OK)
        status = gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, &error);
    if (status == GPUD_OK) {
        for (guint i = 0; i < part->planes; i++)
            gst_buffer_extract(part->buffer, part->offsets[i], (gchar *)data + i * part->bytes,
                               part->bytes);
        gpud_frame_unmap(frame);
        status = gpud_frame_set_info(frame, info, &error);
    }
    if (status != GPUD_OK)
        flow = GST_FLOW_ERROR;
    while (flow == GST_FLOW_OK &&
           (status = gpud_sender_submit(core, &frame, get_timeout(self), &error)) != GPUD_OK)
        flow = block_may_retry(self, status, &error);
    gpud_frame_release(&frame);
    return flow == GST_FLOW_ERROR ? blocks_fail(self, &error) : flow;
}

/* --- sound -------------------------------------------------------------------------------- */

static GstClockTime running_time_of(GstGpudirectSink *self, gsize samples)
{
    guint64 rate = (guint64)self->format.audio.rate;

    return event_running_duration(&GST_BASE_SINK(self)->segment,
                                  gst_util_uint64_scale(samples, GST_SECOND, rate));
}

/* The times of the samples from `first` on; metas, and what applies to the first sample alone, go
 * with the first part. */
static void shift(GstGpudirectSink *self, GstBuffer *buffer, struct gpud_frame_info *info,
                  gsize first, gsize samples)
{
    if (first > 0) {
        GstBuffer *rest = gst_buffer_new();
        gst_buffer_copy_into(rest, buffer, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS, 0,
                             0);
        GST_BUFFER_FLAG_UNSET(rest, GST_BUFFER_FLAG_DISCONT | GST_BUFFER_FLAG_RESYNC);
        describe_buffer(self, rest, info);
        gst_buffer_unref(rest);
        if (info->pts_ns != GPUD_TIME_NONE)
            info->pts_ns += running_time_of(self, first);
        if (info->offset != GST_BUFFER_OFFSET_NONE)
            info->offset += first;
    }
    info->duration_ns = running_time_of(self, first + samples) - running_time_of(self, first);
}

static GstFlowReturn submit_sound(GstGpudirectSink *self, GstBuffer *buffer,
                                  struct gpud_frame_info *info)
{
    gboolean planar = self->format.audio.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    gsize frame = (gsize)self->format.audio.bpf, total, offsets[GPUD_AUDIO_CHANNELS_MAX];
    struct part part = {.buffer = buffer,
                        .planes = planar ? (guint)self->format.audio.channels : 1};
    GstFlowReturn flow = GST_FLOW_OK;

    if (!blocks_find_samples(&self->format.audio, buffer, &total, offsets)) {
        blocks_refuse(self, buffer, "it does not hold whole samples of its caps");
        return GST_FLOW_OK;
    }
    frame /= part.planes;
    for (gsize first = 0; first < total && flow == GST_FLOW_OK;) {
        gsize samples = MIN(total - first, (gsize)self->format.media.audio.block);
        for (guint i = 0; i < part.planes; i++)
            part.offsets[i] = offsets[i] + first * frame;
        part.bytes = samples * frame;
        if (samples < total)
            shift(self, buffer, info, first, samples);
        flow = blocks_submit(self, &part, info);
        if (first == 0 && samples < total)
            begin_patience(self, running_time_of(self, total));
        first += samples;
    }
    end_patience(self);
    return flow;
}

static GstFlowReturn submit_data(GstGpudirectSink *self, GstBuffer *buffer,
                                 const struct gpud_frame_info *info)
{
    struct part part = {.buffer = buffer, .planes = 1, .bytes = gst_buffer_get_size(buffer)};
    struct gpud_media *media = &self->format.media;
    struct gpud_error error;

    wait_for_bursts(self, buffer);
    if (part.bytes > DATA_LARGEST) {
        blocks_refuse(self, buffer, "a block of data can have 16 MiB");
        return GST_FLOW_OK;
    }
    if (part.bytes > media->data.max_size) {
        while (media->data.max_size < MIN(DATA_GROWTH * part.bytes, DATA_LARGEST))
            media->data.max_size *= 2;
        self->format.slot_info.size = (gsize)media->data.max_size;
        GST_DEBUG_OBJECT(self, "slots of %" G_GSIZE_FORMAT " bytes", self->format.slot_info.size);
        self->format.configured =
            shared_sender_configure(self->sender, media, FALSE, &error) == GPUD_OK;
        if (!self->format.configured)
            return blocks_fail(self, &error);
    }
    return blocks_submit(self, &part, info);
}

/* A buffer that ends with a part of a batch, or before its tensors do, would be taken for another
 * one's tensors. */
static GstFlowReturn submit_tensors(GstGpudirectSink *self, GstBuffer *buffer,
                                    const struct gpud_frame_info *info)
{
    struct part part = {.buffer = buffer, .planes = 1, .bytes = gst_buffer_get_size(buffer)};
    const struct gpud_tensors *tensors = &self->format.media.tensors;
    guint32 batch = gpud_tensors_get_batch(tensors, part.bytes);

    if (gpud_tensors_get_bytes(tensors, batch) == part.bytes)
        return blocks_submit(self, &part, info);
    blocks_refuse(self, buffer, "it does not hold the tensors of its caps");
    return GST_FLOW_OK;
}

/* Copies a buffer into slots, and sends them. */
static GstFlowReturn submit_blocks(GstGpudirectSink *self, GstBuffer *buffer)
{
    gboolean are_sound = blocks_are_sound(&self->format.media);
    struct gpud_frame_info info;
    gpointer state = NULL;
    GstMeta *meta;

    if (gst_buffer_get_size(buffer) > 0) {
        info.size = sizeof(info);
        describe_buffer(self, buffer, &info);
        return are_sound                                      ? submit_sound(self, buffer, &info)
               : self->format.media.kind == GPUD_MEDIA_TENSOR ? submit_tensors(self, buffer, &info)
                                                              : submit_data(self, buffer, &info);
    }
    if (are_sound)
        return GST_FLOW_OK;
    /* No data at a time are data, too: a picture without a caption. A block has a byte at least, so
     * they become a gap. */
    if (!GST_BUFFER_PTS_IS_VALID(buffer)) {
        blocks_refuse(self, buffer, "it is empty, and has no time that a gap could have");
        return GST_FLOW_OK;
    }
    while ((meta = gst_buffer_iterate_meta(buffer, &state)))
        lost_metas_note(self->endpoint.lost_metas, GST_ELEMENT(self), g_type_name(meta->info->type),
                        "its buffer is empty, and becomes a gap");
    g_autoptr(GstEvent) gap =
        gst_event_new_gap(GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer));
    send_event(self, gap);
    return GST_FLOW_OK;
}

/* === render ================================================================================== */
/* The path of a buffer through gpudirectsink.
 *
 * A buffer of the proposed pool is already a slot, and is submitted without a copy. The sink keeps
 * the frame, because other elements may still hold the buffer (tee), or push it again (imagefreeze,
 * videorate); the frame is released with the last reference to its memory. Receivers hold the slot
 * independently of that. */

/* The longest interval, in frames, between queries whether upstream is live. */
#define FRAMES_BETWEEN_QUERIES 64

static void reset_stream(GstGpudirectSink *self)
{
    drop_prepared(self);
    if (self->copies.pool)
        gst_buffer_pool_set_active(self->copies.pool, FALSE);
    gst_clear_object(&self->copies.pool);
    self->format.configured = FALSE;
    self->format.gpu = NULL;
    self->patience.burst = GST_CLOCK_TIME_NONE;
    self->reported.lack = FALSE;
    self->frames = 0;
}

/* --- caps and allocation ------------------------------------------------------------------ */

/* lent: to upstream. */
static GstBufferPool *new_pool(GstGpudirectSink *self, GstCaps *caps, gboolean lent)
{
    struct slot_pool_params params = {
        .info = &self->format.slot_info,
        .gpu = self->format.gpu,
        .dmabufs = self->format.dmabufs && lent,
        .sender = self->sender,
        .counters = self->endpoint.counters,
    };
    return gst_gpudirect_pool_new(&params, caps);
}

static gboolean refuse_caps(GstGpudirectSink *self, GstCaps *caps, guint left_out)
{
    if (left_out > 0) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("These caps have more than %u bytes of headers and other fields, which "
                           "is what can be sent of them.",
                           CAPS_REST_MAX),
                          ("%" GST_PTR_FORMAT, caps));
        return FALSE;
    }
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("These caps describe no frame that can be sent."),
                      ("%" GST_PTR_FORMAT, caps));
    return FALSE;
}

static const struct gpu_vendor *gpu_vendor(const GstGpudirectSink *self)
{
    return self->format.gpu ? self->format.gpu->vendor : NULL;
}

static gboolean render_configure(GstGpudirectSink *self, const struct gpud_media *media)
{
    struct gpud_error error;

    self->format.dmabufs = wants_dmabufs(self);
    if (shared_sender_configure(self->sender, media, self->format.dmabufs, &error) == GPUD_OK) {
        tell_dmabufs(self);
        send_caps(self);
        if (self->sender_is_new)
            repeat_events(self);
        self->sender_is_new = FALSE;
        self->live_known = gst_gpudirect_sink_query_live(self);
        return TRUE;
    }
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error, "The new format cannot be sent");
    return FALSE;
}

static gboolean sends_blocks(const GstGpudirectSink *self)
{
    return self->format.media.kind != GPUD_MEDIA_PICTURE;
}

static gboolean sink_set_caps(GstBaseSink *base, GstCaps *caps)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    const struct gpu_vendor *vendor = gpu_vendor_of_caps(caps);
    struct gpud_media media;
    struct gpud_layout layout;
    GstVideoInfo info;
    guint left_out;

    if (!self->format.rest)
        self->format.rest = g_new0(struct caps_rest, 1);
    if (!media_from_caps(&media, caps, self->format.rest, &left_out))
        return refuse_caps(self, caps, left_out);
    if (!(media.kind == GPUD_MEDIA_PICTURE ? video_info_from_caps(&info, caps)
                                           : size_blocks(self, caps, &media)))
        return refuse_caps(self, caps, 0);
    if (left_out > 0)
        GST_WARNING_OBJECT(self, "not all fields can be sent: %" GST_PTR_FORMAT, caps);
    gboolean in_dmabufs = caps_are_dmabufs(caps);
    if (self->format.configured && vendor == gpu_vendor(self) &&
        in_dmabufs == self->format.in_dmabufs && gpud_media_equal(&media, &self->format.media))
        return TRUE;

    reset_stream(self);
    if (!gst_gpudirect_sink_follow(self, vendor))
        return FALSE;
    self->format.media = media;
    self->format.in_dmabufs = in_dmabufs;
    if (media.kind != GPUD_MEDIA_PICTURE) {
        gst_video_info_init(&self->format.info);
        self->format.slot_info = self->format.info;
        if (gpud_media_get_layout(&media, &layout, NULL) == GPUD_OK)
            self->format.slot_info.size = (gsize)layout.size;
        self->format.configured = render_configure(self, &media);
        return self->format.configured;
    }
    self->format.info = self->format.slot_info = info;
    if (self->format.gpu)
        gpu_align_info(self->format.gpu, &self->format.slot_info);
    if (!layout_from_info(&media.picture.layout, &self->format.slot_info))
        return refuse_caps(self, caps, 0);
    if (!render_configure(self, &media))
        return FALSE;
    GST_DEBUG_OBJECT(self, "slots of %" G_GSIZE_FORMAT " bytes on %s for %" GST_PTR_FORMAT,
                     self->format.slot_info.size, self->format.gpu ? "a GPU" : "the host", caps);
    GstCaps *slot_caps = in_dmabufs ? caps_out_of_dmabufs(caps) : gst_caps_ref(caps);
    self->copies.pool = new_pool(self, slot_caps, FALSE);
    gst_caps_unref(slot_caps);
    self->format.configured =
        self->copies.pool && gst_buffer_pool_set_active(self->copies.pool, TRUE);
    return self->format.configured;
}

static gboolean sink_propose_allocation(GstBaseSink *base, GstQuery *query)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    GstVideoInfo info;
    GstCaps *caps;
    gboolean need_pool;

    gst_query_parse_allocation(query, &caps, &need_pool);
    if (caps && blocks_are_caps(caps)) {
        gst_query_add_allocation_meta(query, GST_AUDIO_META_API_TYPE, NULL);
        return TRUE;
    }
    if (!caps || !video_info_from_caps(&info, caps))
        return FALSE;
    if (need_pool) {
        /* Slots exist for the current caps only; upstream may query with other ones first. */
        gboolean current = self->format.configured &&
                           gst_video_info_is_equal(&info, &self->format.info) &&
                           gpu_vendor_of_caps(caps) == gpu_vendor(self) &&
                           caps_are_dmabufs(caps) == self->format.in_dmabufs;
        gboolean has_slots = current && (self->format.dmabufs || !self->format.in_dmabufs);
        g_autoptr(GstBufferPool) pool = has_slots ? new_pool(self, caps, TRUE) : NULL;
        gsize size = current ? self->format.slot_info.size : info.size;
        gst_query_add_allocation_pool(query, pool, (guint)size, 0, 0);
    }
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    GST_DEBUG_OBJECT(self, "upstream may use this: %" GST_PTR_FORMAT, query);
    return TRUE;
}

/* --- one frame ---------------------------------------------------------------------------- */

static GstFlowReturn not_submitted(GstGpudirectSink *self, const struct gpud_error *error)
{
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, error, "A frame cannot be sent");
    return GST_FLOW_ERROR;
}

/* Ordering queues through a GPU's driver takes as long as waking a receiver, so both overlap. On
 * the host, a receiver that wakes early would only compete for the CPU. */
static void wake_receivers_early(GstGpudirectSink *self)
{
    if (self->format.gpu)
        gpud_sender_announce(shared_sender_core(self->sender));
}

/* The buffer's slot, if it is one of the current epoch; else NULL. */
static struct slot_memory *own_slot(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct slot_memory *slot = slot_memory_of_buffer(buffer);

    if (!slot || slot->sender != self->sender || slot->epoch != shared_sender_epoch(self->sender) ||
        !slot->frame)
        return NULL;
    return slot;
}

/* buffer: its times and metas describe the picture in the slot. If *use is not SLOT_FREE, nothing
 * was sent, and the caller must copy. */
static GstFlowReturn submit_slot(GstGpudirectSink *self, struct slot_memory *slot,
                                 GstBuffer *buffer, enum slot_use *use)
{
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_frame_info info;
    struct gpud_error error;
    enum gpud_status status;

    info.size = sizeof(info);
    wake_receivers_early(self);
    describe_buffer(self, buffer, &info);
    slot->store->kind->leaving(slot);
    /* Other elements may hold the slot: branches of a tee, say. A copy is the sink's alone. */
    gboolean shared = gst_buffer_peek_memory(buffer, 0) == slot->memory &&
                      (GST_MINI_OBJECT_REFCOUNT_VALUE(buffer) > 1 ||
                       GST_MINI_OBJECT_REFCOUNT_VALUE(slot->memory) > 1);
    *use = slot_memory_begin_submit(slot, shared, &info);
    if (*use != SLOT_FREE)
        return GST_FLOW_OK;
    do {
        status = gpud_sender_submit_keep(shared_sender_core(self->sender), slot->frame, SINK_WAIT,
                                         &error);
        if (status != GPUD_OK)
            flow = may_retry(self, status, &error);
    } while (status != GPUD_OK && flow == GST_FLOW_OK);
    return flow == GST_FLOW_ERROR ? not_submitted(self, &error) : flow;
}

static GstFlowReturn submit_wrapped(GstGpudirectSink *self, struct gpud_frame *frame,
                                    GstBuffer *buffer)
{
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_frame_info info;
    struct gpud_error error;
    enum gpud_status status;

    info.size = sizeof(info);
    wake_receivers_early(self);
    describe_buffer(self, buffer, &info);
    gpud_frame_set_info(frame, &info, NULL);
    do {
        status = gpud_sender_submit(shared_sender_core(self->sender), &frame, SINK_WAIT, &error);
        if (status != GPUD_OK)
            flow = may_retry(self, status, &error);
    } while (status != GPUD_OK && flow == GST_FLOW_OK);
    gpud_frame_release(&frame);
    return flow == GST_FLOW_ERROR ? not_submitted(self, &error) : flow;
}

/* Whether the CPU copies host buffers into slots: it does if the slot is host memory, or the device
 * maps it as pinned memory, since pinning the buffer would take longer. OpenCL devices read the
 * buffer themselves. */
static gboolean copies_itself(GstGpudirectSink *self)
{
    return !self->format.gpu && !self->reads_buffers;
}

/* use: that of the buffer's slot; SLOT_FREE: the buffer is not a slot that can be sent as it is. */
static GstFlowReturn submit_foreign(GstGpudirectSink *self, GstBuffer *buffer, enum slot_use use)
{
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_frame *frame = NULL;
    struct gpud_error error;
    enum gpud_status status;

    if (self->format.gpu) {
        frame = gpu_wrap_buffer(self->format.gpu->vendor, buffer, self->endpoint.counters, &error);
        return frame ? submit_wrapped(self, frame, buffer) : not_submitted(self, &error);
    }
    if ((use == SLOT_READ || may_pass(self, buffer)) && (frame = pass_slot(self, buffer)))
        return submit_wrapped(self, frame, buffer);
    if (find_imported(self, buffer) && (frame = import_buffer(self, buffer)))
        return submit_wrapped(self, frame, buffer);
    if (!copies_itself(self) && (frame = wrap_buffer(self, buffer)))
        return submit_wrapped(self, frame, buffer);
    while ((status = copy_to_slot(self, buffer, SINK_WAIT, &error)) != GPUD_OK)
        if ((flow = may_retry(self, status, &error)) != GST_FLOW_OK)
            return flow;
    flow = submit_slot(self, slot_memory_of(gst_buffer_peek_memory(self->copies.slot, 0)), buffer,
                       &use);
    drop_prepared(self);
    return flow;
}

/* --- before and after a frame ------------------------------------------------------------- */

static GstFlowReturn sink_prepare(GstBaseSink *base, GstBuffer *buffer)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    if (!self->format.configured || sends_blocks(self) || own_slot(self, buffer) ||
        !copies_itself(self) || may_pass(self, buffer) || find_imported(self, buffer) ||
        sink_clients_count(&self->clients) == 0 || !dmabuf_wait_for_buffer(buffer, 0) ||
        !layout_buffer_holds_picture(&self->format.info, buffer))
        return GST_FLOW_OK;
    /* If no slot is free, render() waits for one. */
    struct gpud_error error;
    enum gpud_status status = copy_to_slot(self, buffer, 0, &error);
    return status == GPUD_OK || status == GPUD_TIMEOUT || status == GPUD_AGAIN ? GST_FLOW_OK
                                                                               : GST_FLOW_ERROR;
}

static GstFlowReturn sink_render(GstBaseSink *base, GstBuffer *buffer)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    if (!self->format.configured)
        return GST_FLOW_NOT_NEGOTIATED;
    if (!sends_blocks(self) && !layout_buffer_holds_picture(&self->format.info, buffer)) {
        if (__atomic_fetch_add(&self->malformed, 1, __ATOMIC_RELAXED) == 0)
            GST_ELEMENT_WARNING(
                self, STREAM, FORMAT,
                ("A buffer does not hold a picture of the caps, and is dropped: look at the "
                 "element upstream. The stats count those that follow (dropped-malformed)."),
                ("%" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " are expected",
                 gst_buffer_get_size(buffer), GST_VIDEO_INFO_SIZE(&self->format.info)));
        else
            GST_WARNING_OBJECT(self, "no picture of the caps: %" GST_PTR_FORMAT, buffer);
        return GST_FLOW_OK;
    }
    /* Upstream may learn whether it is live only with its first frames, and some elements never
     * answer. A query costs more than everything else that the sink does for a frame, so it backs
     * off. */
    if (!self->live_known &&
        (self->frames < FRAMES_BETWEEN_QUERIES ? (self->frames & (self->frames - 1)) == 0
                                               : self->frames % FRAMES_BETWEEN_QUERIES == 0))
        self->live_known = gst_gpudirect_sink_query_live(self);
    if (gst_gpudirect_sink_stands_by(self))
        return GST_FLOW_OK;
    GstFlowReturn flow = wait_for_client(self);
    if (flow != GST_FLOW_OK)
        return flow;
    self->held_since = 0;
    self->held_told = FALSE;
    send_unsent(self);
    tell_opened(self);
    gboolean written;
    flow = await_writes(self, buffer, &written);
    if (flow != GST_FLOW_OK || !written)
        return flow;
    /* Without a receiver a copy is not worth making. */
    gboolean copies = gst_gpudirect_sink_waits(self) || sink_clients_count(&self->clients) > 0;
    if (sends_blocks(self)) {
        flow = copies ? submit_blocks(self, buffer) : GST_FLOW_OK;
        if (sends_data(self))
            pass_key_requests(self);
        report_frame(self, buffer);
        return flow;
    }
    struct slot_memory *slot = own_slot(self, buffer);
    enum slot_use use = SLOT_FREE;
    GST_LOG_OBJECT(self, "%s %" GST_PTR_FORMAT, slot ? "a slot:" : "no slot:", buffer);
    if (slot)
        flow = submit_slot(self, slot, buffer, &use);
    if ((!slot || use != SLOT_FREE) && flow == GST_FLOW_OK && copies)
        flow = submit_foreign(self, buffer, use);
    report_frame(self, buffer);
    return flow;
}

void gst_gpudirect_sink_end_stream(GstGpudirectSink *self)
{
    drop_unsent(self);
    reset_stream(self);
    self->keys = (struct sink_keys){0};
}

static void sink_get_times(GstBaseSink *base, GstBuffer *buffer, GstClockTime *start,
                           GstClockTime *end)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    const GstVideoInfo *info = &self->format.info;

    /* Pictures of a codec come in the order in which they are decoded. */
    gboolean by_dts = sends_data(self) && GST_BUFFER_DTS_IS_VALID(buffer);
    *start = by_dts || !GST_BUFFER_PTS_IS_VALID(buffer) ? GST_BUFFER_DTS(buffer)
                                                        : GST_BUFFER_PTS(buffer);
    if (!GST_CLOCK_TIME_IS_VALID(*start))
        return;
    if (GST_BUFFER_DURATION_IS_VALID(buffer))
        *end = *start + GST_BUFFER_DURATION(buffer);
    else if (self->format.configured && info->fps_n > 0)
        *end = *start + layout_interval(info);
}

void gst_gpudirect_sink_class_init_render(GstBaseSinkClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->event = sink_event;
    klass->set_caps = sink_set_caps;
    klass->propose_allocation = sink_propose_allocation;
    klass->prepare = sink_prepare;
    klass->render = sink_render;
    klass->get_times = sink_get_times;
}
