/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages to the application during streaming: frames that slow receivers lost, an element
 * upstream that writes into buffers mapped for reading, and why receivers are refused. */
#include "sink/report.h"

#include "base/errors.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* The core's counters are read once in so many frames. */
#define FRAMES_BETWEEN_CHECKS 32

/* --- drops -------------------------------------------------------------------------------- */

static void report_drops(GstGpudirectSink *self, const struct gpud_sender_info *info)
{
    GstBaseSink *base = GST_BASE_SINK(self);
    GstClockTime pts = self->reported.pts;

    if (info->dropped <= self->reported.drops)
        return;
    self->reported.drops = info->dropped;
    GstMessage *message = gst_message_new_qos(
        GST_OBJECT(self), gst_base_sink_get_sync(base), gst_gpudirect_sink_running_time(self, pts),
        gst_segment_to_stream_time(&base->segment, base->segment.format, pts), pts,
        self->reported.duration);
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, info->delivered, info->dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

void gst_gpudirect_sink_report_rest(GstGpudirectSink *self)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    if (!self->sender)
        return;
    gpud_sender_get_info(shared_sender_core(self->sender), &info);
    report_drops(self, &info);
}

/* --- an element upstream ------------------------------------------------------------------ */

/* Elements that pass buffers on unchanged: queues, tees, capsfilters. */
static gboolean is_generic(GstElement *element)
{
    const gchar *klass = gst_element_get_metadata(element, GST_ELEMENT_METADATA_KLASS);

    return klass && strstr(klass, "Generic");
}

static gchar *name_of_parent(GstPad *pad)
{
    GstElement *element = pad ? gst_pad_get_parent_element(pad) : NULL;
    gchar *name = NULL;

    if (element && is_generic(element)) {
        GstPad *sink = gst_element_get_static_pad(element, "sink");
        GstPad *peer = sink ? gst_pad_get_peer(sink) : NULL;
        name = name_of_parent(peer);
        gst_clear_object(&peer);
        gst_clear_object(&sink);
    } else if (element) {
        name = gst_object_get_name(GST_OBJECT(element));
    }
    gst_clear_object(&element);
    return name;
}

static void report_misuse(GstGpudirectSink *self)
{
    if (self->reported.misuse || counter_read(&self->endpoint.counters->misuses) == 0)
        return;
    self->reported.misuse = TRUE;
    GstPad *peer = gst_pad_get_peer(GST_BASE_SINK_PAD(self));
    gchar *name = name_of_parent(peer);
    GST_ELEMENT_WARNING(
        self, STREAM, FORMAT,
        ("An element upstream, probably \"%s\", writes into buffers that it mapped for reading. "
         "Its changes are still copied to the device, so that pictures are right, at the cost of "
         "a copy from the device for each. The element should map them with "
         "GST_MAP_WRITE.",
         name ? name : "unknown"),
        (NULL));
    g_free(name);
    gst_clear_object(&peer);
}

/* --- no memory for receivers -------------------------------------------------------------- */

/* Whether the ring can grow by the slots of one more receiver. FALSE: *error says why not. */
static gboolean has_address_space(GstGpudirectSink *self, struct gpud_error *error)
{
    gsize size = self->format.slot_info.size * self->endpoint.running.slots;
    void *trial = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct rlimit allowed = {.rlim_cur = RLIM_INFINITY};

    if (trial != MAP_FAILED) {
        munmap(trial, size);
        return TRUE;
    }
    getrlimit(RLIMIT_AS, &allowed);
    *error = (struct gpud_error){.status = GPUD_NO_MEMORY, .origin = "errno", .native = ENOMEM};
    g_snprintf(error->reason, sizeof(error->reason),
               "%" G_GSIZE_FORMAT " MiB of slots for it do not fit into the process's address "
               "space of %llu MiB: raise its limit (ulimit -v), or set slots to less",
               size >> 20, (unsigned long long)allowed.rlim_cur >> 20);
    return FALSE;
}

/* The core reports the reason of a refusal to the receiver only, and a pool notices the lack of
 * slots only when upstream uses it. So after a refusal the sink tries to get a slot itself. */
static void check_for_slots(GstGpudirectSink *self, struct gpud_error *error, const gchar **what)
{
    struct gpud_frame *frame;
    enum gpud_status status =
        shared_sender_acquire(self->sender, shared_sender_epoch(self->sender), FALSE, &frame);

    if (status == GPUD_OK)
        gpud_frame_release(&frame);
    if (!has_address_space(self, error))
        *what = "A receiver was refused";
}

void gst_gpudirect_sink_report_lack(GstGpudirectSink *self, const struct gpud_sender_info *info)
{
    const gchar *what = NULL;
    struct gpud_error error;

    if (info && info->refused > self->reported.refusals) {
        self->reported.refusals = info->refused;
        check_for_slots(self, &error, &what);
    }
    if (shared_sender_take_lack(self->sender, &error))
        what = "There are no slots for frames, without which receivers are refused";
    if (!what || self->reported.lack)
        return;
    self->reported.lack = TRUE;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_WRITE, &error, what);
}

/* --- after each frame --------------------------------------------------------------------- */

void gst_gpudirect_sink_report(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gboolean checks = ++self->frames % FRAMES_BETWEEN_CHECKS == 0;

    report_misuse(self);
    self->reported.pts = GST_BUFFER_PTS(buffer);
    self->reported.duration = GST_BUFFER_DURATION(buffer);
    if (checks) {
        gpud_sender_get_info(shared_sender_core(self->sender), &info);
        report_drops(self, &info);
    }
    gst_gpudirect_sink_report_lack(self, checks ? &info : NULL);
}
