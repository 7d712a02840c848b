/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the stream is: the device and the caps of the frames, and what the sender says between them.
 */
#include "src/src.h"

#include <gst/allocators/gstfdmemory.h>
#include <gst/base/gstbasesink.h>

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === updates ================================================================================= */
/* Events of the link other than frames: noted inside acquire, applied after it; see src.h. */

/* The most events that wait, and their size as serialised; a decoded byte takes about ten. A merged
 * list of tags counts once, as it has one event's values for each tag that GStreamer knows. */
#define EVENTS_MAX 512
#define EVENT_BYTES_MAX (512 * 1024)

/* An event that waits for a frame. */
struct update_event {
    struct wire_event event;
    gsize size; /* as serialised */
};

static void update_event_free(struct update_event *waiting)
{
    wire_event_clear(&waiting->event);
    g_free(waiting);
}

static void clear_waiting(struct updates *updates)
{
    g_queue_clear_full(&updates->events, (GDestroyNotify)update_event_free);
    updates->event_bytes = 0;
}

void updates_clear(struct updates *updates)
{
    clear_waiting(updates);
    g_clear_pointer(&updates->format, g_free);
    g_clear_pointer(&updates->peer, g_free);
    g_clear_pointer(&updates->unusable, g_free);
    g_clear_pointer(&updates->switched, g_free);
    updates->flooded = updates->yielding = FALSE;
}

/* --- inside acquire ----------------------------------------------------------------------- */

/* Makes acquire return, to be called again after feed_resume(). */
static void updates_yield(struct updates *updates, struct input *input)
{
    updates->yielding = TRUE;
    input->ops->interrupt(input, TRUE);
}

/* The waiting event that a later one replaces, or is merged into; NULL: none. */
static struct update_event *find_replaced(struct updates *updates, const struct wire_event *event)
{
    for (GList *at = updates->events.head; at; at = at->next) {
        struct update_event *waiting = at->data;
        const struct wire_event *before = &waiting->event;
        if (before->kind != event->kind)
            continue;
        switch (event->kind) {
        case EVENT_TAGS:
            if (before->scope == event->scope)
                return waiting;
            break;
        case EVENT_CUSTOM_STICKY:
            if (gst_structure_has_name(before->structure, gst_structure_get_name(event->structure)))
                return waiting;
            break;
        case EVENT_SEGMENT:
        case EVENT_FLUSH:
            return waiting;
        default:
            return NULL;
        }
    }
    return NULL;
}

static void add_waiting(struct updates *updates, struct update_event *waiting, gboolean begun)
{
    struct wire_event *event = &waiting->event;
    struct update_event *old = find_replaced(updates, event);

    if (event->kind == EVENT_GAP && !begun) {
        update_event_free(waiting);
        return;
    }
    if (old && event->kind == EVENT_TAGS) {
        gst_tag_list_insert(old->event.tags, event->tags, GST_TAG_MERGE_REPLACE);
        old->event.head = event->head;
        if (waiting->size > old->size) {
            updates->event_bytes += waiting->size - old->size;
            old->size = waiting->size;
        }
        update_event_free(waiting);
        return;
    }
    if (old) {
        g_queue_remove(&updates->events, old);
        updates->event_bytes -= old->size;
        update_event_free(old);
    }
    g_queue_push_tail(&updates->events, waiting);
    updates->event_bytes += waiting->size;
}

/* Whether the caps of the last format are whole. */
static gboolean updates_have_caps(const struct updates *updates)
{
    return caps_rest_is_whole(&updates->rest);
}

/* begun: frames flow. TRUE: enough events wait, and the caller must updates_yield(). */
static gboolean updates_note_event(struct updates *updates, GstElement *element,
                                   const struct gpud_user_event *said, struct names *names,
                                   gboolean begun)
{
    uint32_t kind = said->kind & ~GPUD_EVENT_STICKY;

    if (event_take_caps(kind, said->data, said->size, &updates->rest))
        return FALSE;
    struct update_event *waiting = g_new0(struct update_event, 1);
    waiting->size = said->size;
    if (updates->flooded || !event_decode(kind, said->data, said->size, names, &waiting->event)) {
        GST_INFO_OBJECT(element, "an event of kind %u from the sender is empty", said->kind);
        update_event_free(waiting);
        return FALSE;
    }
    add_waiting(updates, waiting, begun);
    if (updates->events.length < EVENTS_MAX && updates->event_bytes < EVENT_BYTES_MAX)
        return FALSE;
    updates->flooded = !begun;
    if (updates->flooded)
        clear_waiting(updates);
    return TRUE;
}

void updates_take_reason(struct updates *updates, struct gpud_error *why)
{
    if (updates->unusable)
        gpud_gst_error_fill(why, GPUD_UNSUPPORTED,
                            "the sender's format cannot be used: %s: its link is cut",
                            updates->unusable);
    else
        gpud_gst_error_fill(
            why, GPUD_PEER,
            "the sender sent %d events, or %d bytes of them, before a frame: its link is cut",
            EVENTS_MAX, EVENT_BYTES_MAX);
    updates->flooded = FALSE;
    g_clear_pointer(&updates->unusable, g_free);
}

/* === device ================================================================================== */
/* The device on which gpudirectsrc's frames arrive, and its consequences for caps and contexts.
 *
 * A device that the user names is used. With `auto`, frames arrive on downstream's GPU if
 * downstream prefers GPU memory. If not, they arrive on the sender's device: its GPU, if that
 * belongs to this machine, its driver is available and downstream accepts such memory (as fakesink,
 * tee, and appsink without caps do); otherwise in host memory. The sender names its device while
 * the link is being made; a receiver on that device then replaces this one before the sender relies
 * on it. Frames of a card or a third-party writer have no device yet: they arrive on the GPU that
 * downstream prefers (of several, the one nearest to the card), or on the host. Frames on a GPU are
 * pushed as its memory if downstream accepts it, otherwise as memory that maps to the CPU on
 * demand, or, if downstream accepts nothing else, as dma-bufs. */

/* Reduces the pad's caps to those that the device can provide. Takes the caps. */
static GstCaps *offer_link(GstGpudirectSrc *self, GstCaps *caps)
{
    gint number;
    enum gpu_use use = device_choice_get_use(&self->endpoint.device, &number);

    g_mutex_lock(&self->feed.lock);
    if (self->feed.input) {
        number = g_atomic_int_get(&self->endpoint.device.opened_on);
        use = number >= 0 ? GPU_USE_NAMED : GPU_USE_NONE;
    }
    g_mutex_unlock(&self->feed.lock);
    return gpu_filter_caps(caps, use, number);
}

/* Without a GPU that GStreamer can use, the core still maps frames for the CPU. */
static struct gpu *get_gpu(GstGpudirectSrc *self)
{
    gint number = g_atomic_int_get(&self->endpoint.device.opened_on);
    struct gpud_error error;

    if (number < 0)
        return NULL;
    struct gpu *gpu = gpu_get(number, &error);
    if (!gpu)
        GST_WARNING_OBJECT(self, "no %s: %s", gpu_get_vendor(number)->memory, error.reason);
    return gpu;
}

/* The caps of a card or a third-party writer, those in memory of the GPU first, those in dma-bufs
 * last. Takes the caps. */
static GstCaps *offer_card(GstGpudirectSrc *self, GstCaps *caps)
{
    struct gpu *gpu = get_gpu(self);
    GstCaps *both = gst_caps_new_empty(), *in_dmabufs = caps_into_dmabufs(caps);

    for (guint i = 0; gpu && i < gst_caps_get_size(caps); i++) {
        g_autoptr(GstCaps) one = gst_caps_copy_nth(caps, i);
        GstCaps *on_gpu = gpu_caps_in_memory(one, gpu->vendor);
        if (on_gpu)
            gst_caps_append(both, on_gpu);
    }
    gst_caps_append(both, caps);
    gst_caps_append(both, in_dmabufs);
    return both;
}

/* Elements that pass memory through accept any caps; the CAPS query also reaches those behind them.
 */
static gboolean downstream_takes(GstGpudirectSrc *self, GstCaps *caps)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);

    if (!gst_pad_peer_query_accept_caps(pad, caps))
        return FALSE;
    g_autoptr(GstCaps) possible = gst_pad_peer_query_caps(pad, caps);
    return gst_caps_can_intersect(possible, caps);
}

/* Whether an answered allocation query asks for memory of an allocator that makes files, which
 * downstream shares with other processes by their descriptors. */
static gboolean fills_files(GstQuery *query)
{
    g_autoptr(GstAllocator) allocator = NULL;

    if (gst_query_get_n_allocation_params(query) > 0)
        gst_query_parse_nth_allocation_param(query, 0, &allocator, NULL);
    return allocator && GST_IS_FD_ALLOCATOR(allocator) && GST_ALLOCATOR_GET_CLASS(allocator)->alloc;
}

/* unixfdsink accepts any caps, and then only memory of its allocator. */
static gboolean downstream_takes_gpu(GstGpudirectSrc *self, GstCaps *caps)
{
    if (!downstream_takes(self, caps))
        return FALSE;
    g_autoptr(GstQuery) query = gst_query_new_allocation(caps, FALSE);
    return !gst_pad_peer_query(GST_BASE_SRC_PAD(self), query) || !fills_files(query);
}

/* NULL: downstream does not accept dma-bufs of this format. */
static GstCaps *find_dmabufs(GstGpudirectSrc *self, const GstCaps *caps)
{
    g_autoptr(GstCaps) all = caps_into_dmabufs(caps);
    GstCaps *found = NULL;

    for (guint i = 0; i < gst_caps_get_size(all) && !found; i++) {
        found = gst_caps_copy_nth(all, i);
        if (!downstream_takes(self, found))
            gst_clear_caps(&found);
    }
    return found;
}

/* The caps of the sender or the signal in the form that downstream accepts: with a GPU's memory
 * (*gpu is set), unchanged, or with dma-bufs. Takes the caps. NULL: downstream accepts none of
 * these. */
static GstCaps *agree_on_caps(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu)
{
    struct gpu *found = get_gpu(self);
    GstCaps *on_gpu = found ? gpu_caps_in_memory(caps, found->vendor) : NULL;
    struct gpud_error error;

    *gpu = NULL;
    if (on_gpu && downstream_takes_gpu(self, on_gpu)) {
        gst_caps_unref(caps);
        *gpu = found;
        return on_gpu;
    }
    gst_clear_caps(&on_gpu);
    if (gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), caps))
        return caps;
    GstCaps *in_dmabufs = find_dmabufs(self, caps);
    if (in_dmabufs && !dmabuf_can_be_made(&error))
        gst_clear_caps(&in_dmabufs);
    gst_caps_unref(caps);
    return in_dmabufs;
}

/* --- the sender's device ------------------------------------------------------------------ */

/* Bounds the moves for a sender that names another GPU each time. */
#define MOVES_MAX 2

/* Whether the sender's device is one of this machine's GPUs, of a vendor known here. */
static gboolean is_on_gpu(const struct gpud_format_event *format)
{
    return gpu_of_name(format->device) >= 0 && format->pci[0];
}

/* Whether downstream works on this GPU. Elements that name a vendor's memory do; those that accept
 * any memory have no GPU. */
static gboolean downstream_works_on(GstGpudirectSrc *self, gint number)
{
    const struct gpu_vendor *vendor = gpu_get_vendor(number);
    g_autoptr(GstCaps) caps = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(self), NULL);
    g_autofree gchar *reason = NULL;
    gboolean names_it = FALSE;

    for (guint i = 0; !gst_caps_is_any(caps) && i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);
        names_it |= !gst_caps_features_is_any(features) &&
                    gst_caps_features_contains(features, vendor->feature);
    }
    return !names_it || device_choice_find_gpu(&self->endpoint.device, vendor, &reason) == number;
}

/* The GPU that the sender has its frames on, if downstream takes them there; else -1. */
static gint find_sender_gpu(GstGpudirectSrc *self, const struct gpud_format_event *format)
{
    g_autofree gchar *reason = NULL;
    gint number = is_on_gpu(format) ? gpu_of_pci(format->pci) : -1;
    GstVideoInfo info;

    g_autoptr(GstCaps) caps = number >= 0 && gpu_get_vendor(number)->is_available()
                                  ? media_to_caps(&format->media, self->names, &info, &reason)
                                  : NULL;
    g_autoptr(GstCaps) on_gpu = caps ? gpu_caps_in_memory(caps, gpu_get_vendor(number)) : NULL;
    if (!on_gpu || !downstream_takes_gpu(self, on_gpu) || !downstream_works_on(self, number))
        number = -1;
    return number;
}

static gboolean device_move(GstGpudirectSrc *self, gint number)
{
    g_autofree gchar *device = number < 0 ? g_strdup("host") : gpu_get_name(number);
    struct gpud_error error;
    gboolean moved = feed_replace(&self->feed, device, &error);

    self->follow.moves++;
    if (moved) {
        updates_clear(&self->updates);
        device_choice_set_reason(&self->endpoint.device,
                                 g_strdup_printf("%s: the sender has its frames there", device));
        g_atomic_int_set(&self->endpoint.device.opened_on, number);
        link_state_renew(&self->link);
    } else {
        GST_WARNING_OBJECT(self, "frames cannot arrive on %s, where the sender has them: %s",
                           device, error.reason);
        self->follow.enabled = FALSE;
    }
    return moved;
}

/* Moves the input to the device that the sender has its frames on. FALSE: it stays. */
static gboolean follow_sender(GstGpudirectSrc *self, const struct gpud_format_event *format)
{
    if (!self->follow.enabled || self->follow.moves >= MOVES_MAX)
        return FALSE;
    gint number = find_sender_gpu(self, format);
    return number != g_atomic_int_get(&self->endpoint.device.opened_on) &&
           device_move(self, number);
}

gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self)
{
    return self->follow.enabled && self->follow.moves < MOVES_MAX &&
           g_atomic_int_get(&self->endpoint.device.opened_on) >= 0 && device_move(self, -1);
}

/* Why downstream may have refused these caps, and what to do; g_free it. */
static gchar *find_advice(GstGpudirectSrc *self, const GstCaps *caps)
{
    for (guint i = 0; gpu_vendors[i]; i++) {
        GstCaps *on_gpu = gpu_caps_in_memory(caps, gpu_vendors[i]);
        gboolean wanted = on_gpu && gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), on_gpu);
        gst_clear_caps(&on_gpu);
        if (wanted)
            return g_strdup_printf("they want %s: set gpudirectsrc's property device to %sN",
                                   gpu_vendors[i]->memory, gpu_vendors[i]->prefix);
    }
    GstCaps *in_dmabufs = find_dmabufs(self, caps);
    struct gpud_error error = {0};
    gboolean lacks = in_dmabufs && !dmabuf_can_be_made(&error);
    gst_clear_caps(&in_dmabufs);
    if (lacks)
        return g_strdup_printf("they want dma-bufs, and %s", error.reason);
    if (blocks_are_caps(caps))
        return g_strdup(
            "put an audioconvert and an audioresample after gpudirectsrc, if it is sound");
    return g_strdup("put a videoconvert after gpudirectsrc");
}

/* === format ================================================================================== */
/* gpudirectsrc's caps, pool and allocation. */

static GstBaseSrcClass *parent_class;

static gboolean set_format(GstGpudirectSrc *self, GstCaps *caps, const struct gpud_media *media)
{
    struct blocks *blocks = &self->blocks;

    blocks->expected = media->kind != GPUD_MEDIA_PICTURE;
    blocks->are_sound = blocks_are_sound(media);
    blocks->are_coded = blocks->expected && blocks_are_coded_pictures(caps);
    blocks->tensors = media->kind == GPUD_MEDIA_TENSOR ? media->tensors : (struct gpud_tensors){0};
    self->times.by_dts = media->kind == GPUD_MEDIA_DATA;
    self->times.reorders = FALSE;
    gboolean known = !blocks->are_sound || gst_audio_info_from_caps(&blocks->info, caps);
    self->signal.may_be_silent = blocks->expected && !blocks->are_sound;
    if (!blocks->expected)
        return gst_gpudirect_src_set_format(self, caps, &media->picture.layout);
    if (!known)
        return FALSE;
    pictures_reset(&self->pictures);
    src_signal_forget(&self->signal);
    latency_replace(&self->latency, &self->latency.figures, GST_CLOCK_TIME_NONE);
    return TRUE;
}

/* Applies the format that the sender announced. */
static GstFlowReturn take_format(GstGpudirectSrc *self, const struct gpud_format_event *format)
{
    GstVideoInfo info;
    gchar *reason = NULL;
    g_autoptr(GstCaps) caps = media_to_caps(&format->media, self->names, &info, &reason);

    if (caps && !caps_add_rest(caps, &self->updates.rest, self->names)) {
        gst_clear_caps(&caps);
        reason = g_strdup("the headers in its caps are malformed, or missing");
    }
    if (!caps && src_options_wait_for_senders(&self->options)) {
        g_free(self->updates.unusable); /* so that the link is cut, and another sender waited for */
        self->updates.unusable = reason;
        return GST_FLOW_OK;
    }
    if (!caps) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("The sender's format cannot be used: %s.", reason),
                          (NULL));
        g_free(reason);
        return GST_FLOW_ERROR;
    }
    /* Queries downstream now, because a refused CAPS event would show only with the next buffer. */
    g_autoptr(GstCaps) agreed = agree_on_caps(self, gst_caps_ref(caps), &self->pictures.gpu);
    if (agreed)
        gst_caps_replace(&caps, agreed);
    GST_DEBUG_OBJECT(self, "the sender's format: %" GST_PTR_FORMAT, caps);
    gboolean taken = agreed && set_format(self, caps, &format->media) &&
                     gst_base_src_set_caps(GST_BASE_SRC(self), caps) &&
                     gst_base_src_negotiate(GST_BASE_SRC(self));
    if (!taken && !feed_is_flushing(&self->feed)) {
        g_autofree gchar *advice = find_advice(self, caps);
        GST_ELEMENT_ERROR(
            self, CORE, NEGOTIATION,
            ("The elements downstream do not accept the sender's format: %s.", advice),
            ("%" GST_PTR_FORMAT, caps));
    }
    return taken                           ? GST_FLOW_OK
           : feed_is_flushing(&self->feed) ? GST_FLOW_FLUSHING
                                           : GST_FLOW_NOT_NEGOTIATED;
}

/* --- slots -------------------------------------------------------------------------------- */

/* Elements between the source and a sink, at most; it also ends where pads form a circle. */
#define DEPTH_MAX 64

/* How much later than by the pipeline's latency the sinks behind a pad show pictures: their
 * ts-offset, which no query tells. */
static GstClockTime offset_behind(GstPad *pad, guint depth)
{
    g_autoptr(GstPad) peer = depth < DEPTH_MAX ? gst_pad_get_peer(pad) : NULL;
    g_autoptr(GstObject) parent = peer ? gst_pad_get_parent(peer) : NULL;
    GstClockTime offset = 0;

    if (GST_IS_BASE_SINK(parent)) {
        GstBaseSink *sink = GST_BASE_SINK(parent);
        gint64 later = gst_base_sink_get_sync(sink) ? gst_base_sink_get_ts_offset(sink) : 0;
        offset = later > 0 ? (GstClockTime)later : 0;
    } else if (peer) {
        g_autoptr(GstIterator) links = gst_pad_iterate_internal_links(peer);
        GValue link = G_VALUE_INIT;
        while (links && gst_iterator_next(links, &link) == GST_ITERATOR_OK) {
            offset = MAX(offset, offset_behind(g_value_get_object(&link), depth + 1));
            g_value_reset(&link);
        }
        g_value_unset(&link);
    }
    return offset;
}

/* Asks the sender for the slots that pictures at this interval need until they are shown. From any
 * thread. */
static void want_slots(GstGpudirectSrc *self, GstClockTime interval)
{
    guint slots = latency_slots(&self->latency, interval, offset_behind(GST_BASE_SRC_PAD(self), 0));

    /* A number that the user has raised is asked of the sender, too. */
    if (self->endpoint.running.slots > SLOTS_DEFAULT)
        slots = MAX(slots, self->endpoint.running.slots);
    GST_DEBUG_OBJECT(self, "the ring needs %u slots", slots);
    if (slots)
        feed_want_slots(&self->feed, slots);
}

void gst_gpudirect_src_note_latency(GstGpudirectSrc *self, GstClockTime latency)
{
    GST_OBJECT_LOCK(self);
    self->latency.pipeline = latency;
    GstClockTime interval = self->latency.interval;
    GST_OBJECT_UNLOCK(self);
    want_slots(self, interval);
}

/* --- caps and allocation ------------------------------------------------------------------ */

gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout)
{
    struct input *input = self->feed.input;
    struct latency *latency = &self->latency;
    GstClockTime late_max;
    struct input_info info;

    if (!pictures_have_format(&self->pictures, caps))
        src_signal_forget_pictures(&self->signal);
    if (!pictures_set_format(&self->pictures, caps, layout))
        return FALSE;
    latency_replace(latency, &latency->figures, layout_interval(&self->pictures.info));
    if (input->ops->kind != INPUT_CARD)
        return TRUE;
    input->ops->get_info(input, &info);
    if (!info.stamps_start || latency->lateness.measured ||
        !GST_CLOCK_TIME_IS_VALID(latency->interval))
        return TRUE;
    /* Pictures stamped at the start of exposure arrive at least a picture later; knowing that, the
     * first ones are on time, too. */
    struct latency_figures figures = latency->figures;
    late_max = (GstClockTime)timeline_late_max(&self->times.line);
    lateness_begin(&latency->lateness, MIN(latency->interval, late_max));
    figures.least = figures.most = latency->lateness.most;
    latency_replace(latency, &figures, latency->interval);
    return TRUE;
}

static GstCaps *src_get_caps(GstBaseSrc *base, GstCaps *filter)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    GstCaps *caps = NULL;

    GST_OBJECT_LOCK(self);
    gboolean known = self->endpoint.started || gst_gpudirect_src_keeps_card(self);
    GST_OBJECT_UNLOCK(self);
    g_mutex_lock(&self->feed.lock);
    if (known && self->feed.input && !input_is_of_sender(self->feed.input->ops))
        caps = self->feed.input->ops->get_caps(self->feed.input,
                                               caps_are_dmabufs(filter) ? NULL : filter);
    g_mutex_unlock(&self->feed.lock);
    /* A pad that appears with sound, as in a programme, is not linked to what shows pictures. */
    g_autoptr(GstCaps) current = gst_pad_get_current_caps(GST_BASE_SRC_PAD(base));
    gboolean of_sender = !caps;
    if (caps)
        caps = offer_card(self, caps);
    else if (!filter && !current && !gst_pad_is_linked(GST_BASE_SRC_PAD(base)))
        return gst_caps_new_any(); /* what a sender sends is known when it is connected */
    else
        caps = offer_link(self, endpoint_known_caps());
    if (current)
        caps = blocks_keep_like(caps, current);
    if (current && blocks_are_caps(current)) {
        GstStructure *any =
            gst_structure_new_empty(gst_structure_get_name(gst_caps_get_structure(current, 0)));
        caps = gst_caps_merge_structure(caps, any);
    }
    return endpoint_filter_caps(caps_filter_dmabufs(caps, filter), filter, of_sender && !current);
}

/* A third-party writer cannot be asked for its format, so the caps must state it. */
static GstCaps *check_stated(GstGpudirectSrc *self, GstCaps *caps)
{
    GstStructure *structure = NULL;

    caps = gst_caps_truncate(gst_caps_make_writable(caps));
    if (!gst_caps_is_empty(caps))
        structure = gst_caps_get_structure(caps, 0);
    if (!structure || !gst_structure_has_field_typed(structure, "format", G_TYPE_STRING) ||
        !gst_structure_has_field_typed(structure, "width", G_TYPE_INT) ||
        !gst_structure_has_field_typed(structure, "height", G_TYPE_INT)) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("The format of \"%s\" is unknown: put a capsfilter behind "
                           "this element, as in video/x-raw,format=UYVY,width=1920,height=1080,"
                           "framerate=50/1.",
                           self->endpoint.running.address),
                          ("%" GST_PTR_FORMAT, caps));
        gst_caps_unref(caps);
        return gst_caps_new_empty();
    }
    gst_structure_fixate_field_nearest_fraction(structure, "framerate", 0, 1);
    return gst_caps_fixate(caps);
}

static GstCaps *src_fixate(GstBaseSrc *base, GstCaps *caps)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    if (self->feed.input && self->feed.input->ops->kind == INPUT_TARGET)
        return check_stated(self, caps);
    struct capture_wish wish = {0};
    g_mutex_lock(&self->feed.lock);
    if (self->feed.input && self->feed.input->ops->kind == INPUT_CARD)
        self->feed.input->ops->get_wish(self->feed.input, &wish);
    g_mutex_unlock(&self->feed.lock);
    return capture_choose(caps, &wish);
}

/* The best caps that both sides support, fixated; NULL: there are none, and an error was posted. */
static GstCaps *choose_caps(GstGpudirectSrc *self)
{
    GstBaseSrc *base = GST_BASE_SRC(self);
    GstPad *pad = GST_BASE_SRC_PAD(base);
    GstCaps *wanted = gst_pad_peer_query_caps(pad, NULL);
    GstCaps *common = gst_pad_query_caps(pad, wanted);

    if (gst_caps_is_empty(common)) {
        GstCaps *has = gst_pad_query_caps(pad, NULL);
        gchar *reason = capture_explain_refusal(has, wanted);
        GST_ELEMENT_ERROR(
            self, STREAM, FORMAT,
            ("The elements downstream accept no format of %s: %s.", self->feed.input->ops->what,
             reason),
            ("there is %" GST_PTR_FORMAT ", and wanted is %" GST_PTR_FORMAT, has, wanted));
        gst_caps_unref(has);
        g_free(reason);
    } else {
        common = src_fixate(base, gst_caps_make_writable(common));
    }
    gst_caps_unref(wanted);
    if (gst_caps_is_empty(common)) /* an error was posted */
        gst_clear_caps(&common);
    return common;
}

/* The driver may adjust the negotiated caps, which it knows as those of plain memory. */
static enum gpud_status configure_card(GstGpudirectSrc *self, GstCaps **caps,
                                       struct gpud_layout *layout, struct gpud_error *error)
{
    struct input *input = self->feed.input;

    if (!caps_are_dmabufs(*caps))
        return input->ops->configure(input, caps, layout, error);
    if (!dmabuf_can_be_made(error))
        return error->status;
    GstCaps *plain = caps_out_of_dmabufs(*caps);
    enum gpud_status status = input->ops->configure(input, &plain, layout, error);
    GstCaps *adjusted = status == GPUD_OK ? caps_into_dmabufs_like(plain, *caps) : NULL;
    if (adjusted)
        gst_caps_take(caps, adjusted);
    gst_caps_unref(plain);
    return status;
}

static gboolean set_up_card(GstGpudirectSrc *self)
{
    struct gpud_layout layout;
    struct gpud_error error;
    GstCaps *caps = choose_caps(self);

    if (!caps)
        return FALSE;
    gboolean done = FALSE;
    if (configure_card(self, &caps, &layout, &error) != GPUD_OK) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                            "Cannot get frames of %s", self->feed.input->ops->what);
    } else {
        self->pictures.gpu = gpu_vendor_of_caps(caps) ? get_gpu(self) : NULL;
        done = gst_gpudirect_src_set_format(self, caps, &layout) &&
               gst_base_src_set_caps(GST_BASE_SRC(self), caps);
    }
    gst_caps_unref(caps);
    return done;
}

static gboolean take_signal(GstGpudirectSrc *self, GstCaps *caps, const struct gpud_layout *layout)
{
    g_autoptr(GstCaps) agreed = agree_on_caps(self, gst_caps_ref(caps), &self->pictures.gpu);

    GST_INFO_OBJECT(self, "the signal is now %" GST_PTR_FORMAT, caps);
    if (!agreed) {
        if (!feed_is_flushing(&self->feed))
            GST_ELEMENT_ERROR(
                self, CORE, NEGOTIATION,
                ("The signal changed, and the elements downstream do not accept its new format: "
                 "put a videoscale and a videoconvert after gpudirectsrc."),
                ("%" GST_PTR_FORMAT, caps));
        return FALSE;
    }
    self->follows_signal = TRUE;
    gboolean taken = gst_gpudirect_src_set_format(self, agreed, layout) &&
                     gst_base_src_set_caps(GST_BASE_SRC(self), agreed) &&
                     gst_base_src_negotiate(GST_BASE_SRC(self));
    self->follows_signal = FALSE;
    return taken;
}

/* Whether downstream has the signal's caps already, in any kind of memory. */
static gboolean format_is_current(GstGpudirectSrc *self, const GstCaps *before, const GstCaps *now)
{
    GstCaps *on_gpu =
        self->pictures.gpu ? gpu_caps_in_memory(now, self->pictures.gpu->vendor) : NULL;
    g_autoptr(GstCaps) plain = caps_are_dmabufs(before) ? caps_out_of_dmabufs(before) : NULL;
    gboolean same = before && gst_caps_is_subset(plain ? plain : before, on_gpu ? on_gpu : now);

    gst_clear_caps(&on_gpu);
    return same;
}

gboolean gst_gpudirect_src_follow_signal(GstGpudirectSrc *self)
{
    struct gpud_layout layout;
    gchar *reason = NULL;
    GstCaps *now = self->feed.input->ops->get_current(self->feed.input, &layout, &reason);

    if (!now) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("The signal changed: %s.", reason), (NULL));
        g_free(reason);
        return FALSE;
    }
    g_autoptr(GstCaps) before = gst_pad_get_current_caps(GST_BASE_SRC_PAD(self));
    /* The same signal in other buffers does not concern downstream. */
    gboolean taken = format_is_current(self, before, now)
                         ? gst_gpudirect_src_set_format(self, before, &layout)
                         : take_signal(self, now, &layout);
    gst_caps_unref(now);
    return taken;
}

/* A card's caps are negotiated; a link's arrive in band. */
static gboolean src_negotiate(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    return !self->feed.input || input_is_of_sender(self->feed.input->ops) || self->follows_signal ||
           set_up_card(self);
}

static gboolean src_decide_allocation(GstBaseSrc *base, GstQuery *query)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    gboolean files = fills_files(query);
    GstVideoInfo info;
    GstCaps *caps;

    self->pictures.reads_strides =
        gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    /* Buffers are slots: a pool from downstream would serve only if each frame had to be copied. */
    if (self->pictures.gpu || self->pictures.dmabufs || self->pictures.reads_strides ||
        self->pictures.is_default || files)
        while (gst_query_get_n_allocation_pools(query) > 0)
            gst_query_remove_nth_allocation_pool(query, 0);
    if (files) {
        /* Memory that is shared by its descriptor, such as unixfdsink's, is reused. */
        g_autoptr(GstBufferPool) pool = gst_video_buffer_pool_new();
        gst_query_parse_allocation(query, &caps, NULL);
        if (caps && video_info_from_caps(&info, caps))
            gst_query_add_allocation_pool(query, pool, (guint)info.size, 0, 0);
    }
    GST_DEBUG_OBJECT(self, "downstream %s strides: %" GST_PTR_FORMAT,
                     self->pictures.reads_strides ? "reads" : "does not read", query);
    if (g_atomic_int_get(&self->pictures.fills_files) != files) {
        g_atomic_int_set(&self->pictures.fills_files, files);
        g_object_notify(G_OBJECT(self), "fallback-reason");
    }
    return parent_class->decide_allocation(base, query);
}

void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->get_caps = src_get_caps;
    klass->fixate = src_fixate;
    klass->negotiate = src_negotiate;
    klass->decide_allocation = src_decide_allocation;
}

/* === apply =================================================================================== */

void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data)
{
    GstGpudirectSrc *self = user;
    struct updates *updates = &self->updates;
    const struct gpud_format_event *format;
    const struct gpud_switch_event *over;
    const struct gpud_fraction *rate;
    const struct gpud_user_event *said;

    switch (event) {
    case GPUD_EVENT_FORMAT:
        format = data;
        rate = &format->media.picture.rate;
        /* The sender hears of it before its first frame. */
        if (format->media.kind == GPUD_MEDIA_PICTURE && rate->num > 0 && rate->den > 0)
            want_slots(self, gst_util_uint64_scale(GST_SECOND, rate->den, rate->num));
        g_free(updates->format);
        updates->format = g_memdup2(format, sizeof(*format));
        /* Its parts follow, before the first frame. */
        if (updates->rest.hash != media_rest_hash(&format->media))
            updates->rest = (struct caps_rest){.hash = media_rest_hash(&format->media)};
        /* Before the sender relies on this link: a frame would be lost with it. */
        if (self->follow.enabled && self->follow.moves < MOVES_MAX &&
            (is_on_gpu(format) || g_atomic_int_get(&self->endpoint.device.opened_on) >= 0))
            updates_yield(updates, self->feed.input);
        break;
    case GPUD_EVENT_CONNECTED:
        clear_waiting(updates); /* the previous sender's events, whose frame will not arrive */
        g_free(updates->peer);
        updates->peer = g_memdup2(data, sizeof(struct gpud_peer_info));
        break;
    case GPUD_EVENT_USER:
        if (updates_note_event(updates, GST_ELEMENT(self), data, self->names, self->frames > 0))
            updates_yield(updates, self->feed.input);
        break;
    case GPUD_EVENT_REPEATED: /* of tags and others what is in force goes on */
        said = data;
        event_take_caps(said->kind & ~GPUD_EVENT_STICKY, said->data, said->size, &updates->rest);
        break;
    case GPUD_EVENT_SWITCHED:
        over = data;
        g_free(updates->switched);
        updates->switched = g_strdup(over->address);
        if (over->status == GPUD_OK)
            updates->not_switched.status = GPUD_OK;
        else
            gpud_gst_error_fill(&updates->not_switched, over->status, "%s", over->reason);
        break;
    }
}

static enum gpud_status admit_media(GstGpudirectSrc *self, const struct gpud_media *media,
                                    struct gpud_error *error)
{
    GstVideoInfo info;
    struct gpu *gpu;
    g_autofree gchar *reason = NULL;
    GstCaps *caps = media_to_caps(media, self->names, &info, &reason);
    g_autofree gchar *text = caps ? gst_caps_to_string(caps) : NULL;

    if (!caps)
        return gpud_gst_error_fill(error, GPUD_UNSUPPORTED, "its format cannot be used: %s",
                                   reason);
    g_autoptr(GstCaps) agreed = agree_on_caps(self, caps, &gpu);
    return agreed ? GPUD_OK
                  : gpud_gst_error_fill(error, GPUD_UNSUPPORTED,
                                        "the elements downstream do not accept %s", text);
}

enum gpud_status gst_gpudirect_src_admit(void *user, const struct gpud_media *media,
                                         struct gpud_error *error)
{
    GstGpudirectSrc *self = user;
    struct gate *gate = gst_gpudirect_src_get_gate(self);
    enum gate_state state = GATE_OPEN;
    enum gpud_status status = GPUD_OK;

    /* Asked once a millisecond while it waits at the gate. */
    if (!gate || gate != self->arrived)
        status = admit_media(self, media, error);
    if (status == GPUD_OK && gate && gate != self->arrived) {
        gate_unref(self->arrived);
        self->arrived = gate_ref(gate);
        gate_arrive(gate, self->is_main);
    }
    if (gate)
        state = gate_get_state(gate);
    gate_unref(gate);
    if (status != GPUD_OK || state == GATE_OPEN)
        return status;
    return gpud_gst_error_fill(error, state == GATE_WAITS ? GPUD_AGAIN : GPUD_PEER,
                               "the channel's own stream was not changed");
}

void gst_gpudirect_src_note_slots(GstGpudirectSrc *self, const struct input_info *info)
{
    struct latency_figures figures = self->latency.figures;

    if (info->slots)
        self->pictures.slots = info->slots;
    figures.slots = info->slots;
    figures.slots_max = info->slots_max;
    figures.hold = info->hold;
    latency_replace(&self->latency, &figures, self->latency.interval);
}

/* on_pair: the frames of a pair are another sender's from here on, which is not a break. */
static void take_connection(GstGpudirectSrc *self, const struct gpud_peer_info *peer,
                            gboolean on_pair)
{
    struct input *input = self->feed.input;
    struct input_info info;

    feed_get_info(&self->feed, &info);
    gboolean switched = self->beginning.switched;
    GstStructure *structure = gst_structure_new_empty(
        on_pair || switched ? "gpudirect-switched" : "gpudirect-sender-connected");
    if (on_pair)
        gst_structure_set(structure, "active", G_TYPE_STRING, input->ops->get_active(input), NULL);
    else
        gst_structure_set(structure, "device", G_TYPE_STRING, info.device, NULL);
    if (switched)
        gst_structure_set(structure, "address", G_TYPE_STRING, info.address, NULL);
    gst_structure_set(structure, "id", G_TYPE_UINT64, peer->id, "pid", G_TYPE_INT64, peer->pid,
                      "host", G_TYPE_STRING, peer->host, "name", G_TYPE_STRING, peer->name, "path",
                      G_TYPE_STRING, peer->path, NULL);
    if (!on_pair)
        gst_structure_set(structure, "fallback-reason", G_TYPE_STRING, peer->fallback_reason, NULL);
    GST_INFO_OBJECT(self, "%" GST_PTR_FORMAT, structure);
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    endpoint_report_route(&self->endpoint, peer);
    g_object_notify(G_OBJECT(self), "active-path");
    g_object_notify(G_OBJECT(self), "fallback-reason");
    if (!on_pair) {
        self->link.linked = TRUE;
        self->link.ended = FALSE;
        self->link.refusal_cause = 0;
        self->link.wait_reported = FALSE;
        self->beginning.pending = TRUE;
        self->discont = TRUE;
        gst_gpudirect_src_break_stream(self);
    }
    times_meet_sender(&self->times, peer, on_pair);
    gst_gpudirect_src_note_slots(self, &info);
}

/* A stream of a programme does not stay alone with the channel that the others leave: the gate says
 * whether they do. */
static gboolean may_leave_with_others(GstGpudirectSrc *self)
{
    GST_OBJECT_LOCK(self);
    gboolean may = self->gate && !self->is_main;
    GST_OBJECT_UNLOCK(self);
    return may;
}

GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean has_frame,
                                             gboolean *yielded, gboolean *moved)
{
    /* Behind the first frame of a link no part of its caps can come: take_format() says what is
     * wrong with them. A pair's frame may be the other sender's. */
    gboolean complete = updates_have_caps(&self->updates) ||
                        (has_frame && self->feed.input->ops->kind != INPUT_PAIR);
    struct gpud_format_event *format = complete ? g_steal_pointer(&self->updates.format) : NULL;
    struct gpud_peer_info *peer = g_steal_pointer(&self->updates.peer);
    g_autofree gchar *switched = g_steal_pointer(&self->updates.switched);
    GstFlowReturn flow = GST_FLOW_OK;

    if (switched && self->updates.not_switched.status == GPUD_OK) {
        gst_gpudirect_src_take_address(self, switched);
        self->beginning.switched = TRUE;
    } else if (switched) {
        g_clear_pointer(&self->arrived, gate_unref);
        if (!may_leave_with_others(self))
            gst_gpudirect_src_keep_sender(self, switched, &self->updates.not_switched);
    }
    *yielded = self->updates.yielding;
    if (*yielded)
        feed_resume(&self->feed);
    self->updates.yielding = FALSE;
    *moved = format && !self->updates.flooded && follow_sender(self, format);
    if (*moved)
        gst_gpudirect_src_follow_address(self, TRUE);
    if (format && !*moved && !self->updates.flooded)
        flow = take_format(self, format);
    if (peer && !*moved && flow == GST_FLOW_OK && !self->updates.unusable)
        take_connection(self, peer, self->link.linked && self->feed.input->ops->kind == INPUT_PAIR);
    g_free(format);
    g_free(peer);
    return flow;
}

/* === events ================================================================================== */
/* Pushes the sender's events downstream. */

/* The pad keeps the last one of each name until the element stops. */
#define STICKY_NAMES_MAX 64

static void push_event(GstGpudirectSrc *self, struct wire_event *event, gboolean with_frame)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);
    GstSegment segment;
    GstEvent *sticky;
    GstClockTime time;
    gpointer name;
    gboolean known;

    switch (event->kind) {
    case EVENT_SEGMENT:
        /* With do-timestamp the sender's times mean nothing here. */
        if (gst_base_src_get_do_timestamp(GST_BASE_SRC(self)))
            break;
        timeline_segment(&self->times.line, time_map_apply(&self->times.map, event->time),
                         event->stream_time, event->rate, &segment);
        gst_base_src_new_segment(GST_BASE_SRC(self), &segment);
        break;
    case EVENT_TAGS:
        gst_pad_push_event(pad, gst_event_new_tag(g_steal_pointer(&event->tags)));
        break;
    case EVENT_GAP:
        sticky = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
        if (!sticky) /* no gap precedes the first frame */
            break;
        gst_event_unref(sticky);
        time = times_stamp_gap(&self->times, event, with_frame);
        gst_pad_push_event(pad, gst_event_new_gap(time, event->duration));
        break;
    case EVENT_FLUSH:
        self->discont = TRUE;
        gst_gpudirect_src_break_stream(self);
        break;
    case EVENT_CUSTOM:
        gst_pad_push_event(pad, gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
                                                     g_steal_pointer(&event->structure)));
        break;
    case EVENT_CAPS: /* event_take_caps() has them */
        break;
    case EVENT_CUSTOM_STICKY:
        name = (gpointer)g_intern_string(gst_structure_get_name(event->structure));
        known = g_ptr_array_find(self->sticky_names, name, NULL);
        if (!known && self->sticky_names->len >= STICKY_NAMES_MAX) {
            GST_WARNING_OBJECT(self,
                               "more than %d names of sticky events: left out %" GST_PTR_FORMAT,
                               STICKY_NAMES_MAX, event->structure);
            break;
        }
        if (!known)
            g_ptr_array_add(self->sticky_names, name);
        gst_pad_push_event(pad, gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY,
                                                     g_steal_pointer(&event->structure)));
        break;
    }
}

/* A segment waits for its first frame, which determines its start here. Other events need not wait
 * for it: all times are running times. */
void gst_gpudirect_src_push_events(GstGpudirectSrc *self, gboolean with_frame)
{
    GQueue *events = &self->updates.events;

    for (GList *at = events->head; at;) {
        struct update_event *waiting = at->data;
        if (waiting->event.kind == EVENT_SEGMENT && !with_frame) {
            at = at->next;
            continue;
        }
        g_queue_delete_link(events, at);
        self->updates.event_bytes -= waiting->size;
        push_event(self, &waiting->event, with_frame);
        update_event_free(waiting);
        at = events->head; /* a push may have changed the queue */
    }
}
