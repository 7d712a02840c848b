/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events, receivers that come and go, and messages. */
#include "sink/sink.h"

#include "base/plugin.h"
#include "wire/codec.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* === report ================================================================================== */
/* Messages to the application during streaming: frames that slow receivers lost, an element
 * upstream that writes into buffers mapped for reading, and why receivers are refused. */

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

/* === events ================================================================================== */
/* The events that gpudirectsink sends, the head before them and before each frame, and the sticky
 * events for receivers that connect late. The sender keeps the last event of each of its kinds;
 * GStreamer keeps the last sticky event of each name, so each name gets a kind. */

static GstBaseSinkClass *parent_class;

static void fill_clock(GstGpudirectSink *self, struct wire_head *head)
{
    struct clock_name name;

    head->monotonic = endpoint_get_clock(&self->endpoint, &name) == CLOCK_KIND_MONOTONIC;
    head->clock = name.id;
    GstClock *clock = name.id ? gst_element_get_clock(GST_ELEMENT(self)) : NULL;
    head->sent = clock ? gst_clock_get_time(clock) : GST_CLOCK_TIME_NONE;
    gst_clear_object(&clock);
}

/* Fills the head that precedes each frame and event. */
static void gst_gpudirect_sink_fill_head(GstGpudirectSink *self, struct wire_head *head)
{
    head->drops = gst_gpudirect_sink_policy(self) != GPUD_SLOW_BLOCK;
    head->live = g_atomic_int_get(&self->live) == TRUE;
    head->base_time = gst_element_get_base_time(GST_ELEMENT(self));
    fill_clock(self, head);
}

void gst_gpudirect_sink_describe(GstGpudirectSink *self, GstBuffer *buffer,
                                 struct gpud_frame_info *info)
{
    struct meta_loss loss = {self->endpoint.lost_metas, GST_ELEMENT(self)};
    struct wire_head head;

    info->pts_ns = gst_gpudirect_sink_running_time(self, GST_BUFFER_PTS(buffer));
    info->dts_ns = gst_gpudirect_sink_running_time(self, GST_BUFFER_DTS(buffer));
    info->duration_ns =
        event_running_duration(&GST_BASE_SINK(self)->segment, GST_BUFFER_DURATION(buffer));
    info->offset = GST_BUFFER_OFFSET(buffer);
    info->flags = frame_flags_from_buffer(buffer);
    gst_gpudirect_sink_fill_head(self, &head);
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

/* The index of this event among the sticky ones of its kind. FALSE: there are more names than the
 * sender keeps. */
static gboolean find_index(GstGpudirectSink *self, GstEvent *event, enum event_kind kind,
                           guint *index)
{
    if (kind != EVENT_CUSTOM_STICKY) {
        *index = kind == EVENT_TAGS ? event_tag_scope(event) : 0;
        return TRUE;
    }
    const gchar *name = gst_structure_get_name(gst_event_get_structure(event));
    for (*index = 0; *index < self->sticky_names->len; (*index)++)
        if (g_str_equal(g_ptr_array_index(self->sticky_names, *index), name))
            return TRUE;
    if (*index >= EVENT_STICKY_NAMES_MAX)
        return FALSE;
    g_ptr_array_add(self->sticky_names, g_strdup(name));
    return TRUE;
}

static uint32_t wire_kind(GstGpudirectSink *self, GstEvent *event, enum event_kind kind)
{
    guint index;

    if (!event_is_sticky(kind))
        return kind;
    if (find_index(self, event, kind, &index))
        return event_make_kind(kind, index) | GPUD_EVENT_STICKY;
    GST_WARNING_OBJECT(self,
                       "more than %d names of sticky events: late receivers do not get "
                       "%" GST_PTR_FORMAT,
                       EVENT_STICKY_NAMES_MAX, event);
    return kind;
}

/* Events of the moment that precede the first frame of a stream that waits for its first receiver
 * wait with it. Sticky ones are kept by the sender. */
#define UNSENT_MAX 64

static gboolean keep_unsent(GstGpudirectSink *self, GstEvent *event)
{
    if ((GST_EVENT_TYPE(event) != GST_EVENT_CUSTOM_DOWNSTREAM &&
         GST_EVENT_TYPE(event) != GST_EVENT_GAP) ||
        sink_clients_count(&self->clients) > 0 || g_atomic_int_get(&self->ending) ||
        !gst_gpudirect_sink_waits(self))
        return FALSE;
    if (self->unsent.length == UNSENT_MAX) {
        GstEvent *oldest = g_queue_pop_head(&self->unsent);
        GST_WARNING_OBJECT(
            self, "more than %d events before the first receiver: not sent: %" GST_PTR_FORMAT,
            UNSENT_MAX, oldest);
        gst_event_unref(oldest);
    }
    g_queue_push_tail(&self->unsent, gst_event_ref(event));
    return TRUE;
}

static void send_now(GstGpudirectSink *self, GstEvent *event)
{
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];
    struct wire_head head;
    struct gpud_error error;
    enum event_kind kind;
    guint lost = 0;

    gst_gpudirect_sink_fill_head(self, &head);
    size_t size = event_encode(event, &GST_BASE_SINK(self)->segment, &head, bytes, &kind, &lost);
    if (lost)
        GST_DEBUG_OBJECT(self, "%u parts are not sent of %" GST_PTR_FORMAT, lost, event);
    if (size == 0)
        return;
    if (gpud_sender_send_event(shared_sender_core(self->sender), wire_kind(self, event, kind),
                               bytes, size, &error) != GPUD_OK)
        GST_WARNING_OBJECT(self, "%s cannot be sent: %s", GST_EVENT_TYPE_NAME(event), error.reason);
}

static void send_event(GstGpudirectSink *self, GstEvent *event)
{
    if (self->sender && !keep_unsent(self, event))
        send_now(self, event);
}

/* The first receiver may not be among the clients yet, because its connection is reported later. */
void gst_gpudirect_sink_send_unsent(GstGpudirectSink *self)
{
    GstEvent *event;

    while (self->sender && (event = g_queue_pop_head(&self->unsent))) {
        send_now(self, event);
        gst_event_unref(event);
    }
}

void gst_gpudirect_sink_drop_unsent(GstGpudirectSink *self)
{
    g_queue_clear_full(&self->unsent, (GDestroyNotify)gst_event_unref);
}

void gst_gpudirect_sink_send_gap(GstGpudirectSink *self, GstBuffer *buffer)
{
    GstEvent *event = gst_event_new_gap(GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer));

    send_event(self, event);
    gst_event_unref(event);
}

void gst_gpudirect_sink_repeat_events(GstGpudirectSink *self)
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

gboolean gst_gpudirect_sink_is_between_hosts(GstGpudirectSink *self)
{
    return g_str_has_prefix(self->endpoint.running.address, "rdma://");
}

void gst_gpudirect_sink_note_opened(GstGpudirectSink *self)
{
    if (gst_gpudirect_sink_is_between_hosts(self))
        g_atomic_int_inc(&opened_count);
    self->opened = (guint)g_atomic_int_get(&opened_count);
}

void gst_gpudirect_sink_tell_opened(GstGpudirectSink *self)
{
    guint opened = (guint)g_atomic_int_get(&opened_count);

    if (opened == self->opened)
        return;
    self->opened = opened;
    if (!gst_gpudirect_sink_is_between_hosts(self))
        return;
    GstEvent *event = event_new_opened();
    send_event(self, event);
    gst_event_unref(event);
}

static gboolean sink_event(GstBaseSink *base, GstEvent *event)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_EOS:
        gst_gpudirect_sink_report_rest(self);
        endpoint_post_stats(&self->endpoint);
        gst_gpudirect_sink_send_unsent(self);
        if (self->sender && !self->failed)
            gpud_sender_send_eos(shared_sender_core(self->sender), NULL);
        gst_gpudirect_sink_report_end(self);
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
        gst_gpudirect_sink_drop_prepared(self);
        gst_gpudirect_sink_drop_unsent(self);
        send_event(self, event);
        break;
    default:
        send_event(self, event);
    }
    return parent_class->event(base, event);
}

void gst_gpudirect_sink_class_init_events(GstBaseSinkClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->event = sink_event;
}

/* === clients ================================================================================= */
/* Receivers that connect and disconnect. The core calls back on its own thread, where a callback
 * must neither block nor call the core; an application's signal handler may do both. So each change
 * goes through a queue, which a thread of GStreamer's pool empties in order.
 *
 * State changes do not wait for that thread. A handler may still run after the element has left its
 * bin, whose bus would still deliver messages, so none are posted after stop(). Stopping waits for
 * a message that is being posted, as it does in streaming threads, but never for a handler. */

enum { SIGNAL_CLIENT_CONNECTED, SIGNAL_CLIENT_DISCONNECTED, SIGNAL_COUNT };

static guint signals[SIGNAL_COUNT];

struct client_event {
    gboolean connected;
    struct gpud_peer_info peer;
};

static GstStructure *peer_structure(const char *name, const struct gpud_peer_info *peer)
{
    return gst_structure_new(name, "id", G_TYPE_UINT64, peer->id, "pid", G_TYPE_INT64, peer->pid,
                             "host", G_TYPE_STRING, peer->host, "name", G_TYPE_STRING, peer->name,
                             "path", G_TYPE_STRING, peer->path, "fallback-reason", G_TYPE_STRING,
                             peer->fallback_reason, NULL);
}

static void clients_post(struct sink_clients *clients, GstStructure *structure)
{
    GstMessage *message = gst_message_new_element(GST_OBJECT(clients->element), structure);

    g_mutex_lock(&clients->post_lock);
    if (clients->may_post)
        gst_element_post_message(clients->element, g_steal_pointer(&message));
    g_mutex_unlock(&clients->post_lock);
    g_clear_pointer(&message, gst_message_unref);
}

void sink_clients_let_post(struct sink_clients *clients, gboolean let)
{
    g_mutex_lock(&clients->post_lock);
    clients->may_post = let;
    g_mutex_unlock(&clients->post_lock);
}

static void notify(struct sink_clients *clients, const struct client_event *event)
{
    static const char *const names[] = {"gpudirect-client-disconnected",
                                        "gpudirect-client-connected"};
    GstStructure *structure = peer_structure(names[event->connected], &event->peer);

    GST_INFO_OBJECT(clients->element, "%" GST_PTR_FORMAT, structure);
    g_signal_emit(clients->element,
                  signals[event->connected ? SIGNAL_CLIENT_CONNECTED : SIGNAL_CLIENT_DISCONNECTED],
                  0, event->peer.id, structure);
    clients_post(clients, structure);
    g_object_notify(G_OBJECT(clients->element), "num-clients");
    if (!event->connected)
        return;
    g_object_notify(G_OBJECT(clients->element), "active-path");
    g_object_notify(G_OBJECT(clients->element), "fallback-reason");
}

static void notify_all(GstElement *element, gpointer user)
{
    struct sink_clients *clients = user;

    g_mutex_lock(&clients->lock);
    struct client_event *event;
    while ((event = g_queue_pop_head(&clients->changes))) {
        g_mutex_unlock(&clients->lock);
        notify(clients, event);
        g_free(event);
        g_mutex_lock(&clients->lock);
    }
    clients->notifying = FALSE;
    g_mutex_unlock(&clients->lock);
}

static void clients_enqueue(struct sink_clients *clients, gboolean connected,
                            const struct gpud_peer_info *peer)
{
    struct client_event *event = g_new(struct client_event, 1);

    event->connected = connected;
    event->peer = *peer;
    g_mutex_lock(&clients->lock);
    g_queue_push_tail(&clients->changes, event);
    gboolean start = !clients->notifying;
    clients->notifying = TRUE;
    g_mutex_unlock(&clients->lock);
    if (start)
        gst_element_call_async(clients->element, notify_all, clients, NULL);
}

void sink_clients_on_connect(void *user, const struct gpud_peer_info *peer)
{
    struct sink_clients *clients = user;

    g_atomic_int_inc(&clients->count);
    clients_enqueue(clients, TRUE, peer);
}

void sink_clients_on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    struct sink_clients *clients = user;

    g_atomic_int_add(&clients->count, -1);
    clients_enqueue(clients, FALSE, peer);
}

void sink_clients_clear(struct sink_clients *clients)
{
    g_mutex_lock(&clients->lock);
    g_queue_clear_full(&clients->changes, g_free);
    g_mutex_unlock(&clients->lock);
    g_atomic_int_set(&clients->count, 0);
}

void sink_clients_init(struct sink_clients *clients, GstElement *element)
{
    clients->element = element;
    g_mutex_init(&clients->lock);
    g_mutex_init(&clients->post_lock);
    g_queue_init(&clients->changes);
}

void sink_clients_finish(struct sink_clients *clients)
{
    sink_clients_clear(clients);
    g_mutex_clear(&clients->lock);
    g_mutex_clear(&clients->post_lock);
}

/**
 * GstGpudirectSink::client-connected:
 * @id: counts the connections from 1
 * @peer: id, pid, host, name, path and fallback-reason
 *
 * A receiver is connected and streams. Emitted from a thread that may call anything. */
void sink_clients_install_signals(GObjectClass *klass)
{
    static const gchar *const names[SIGNAL_COUNT] = {
        [SIGNAL_CLIENT_CONNECTED] = "client-connected",
        [SIGNAL_CLIENT_DISCONNECTED] = "client-disconnected",
    };

    for (guint i = 0; i < SIGNAL_COUNT; i++)
        signals[i] = g_signal_new(names[i], G_OBJECT_CLASS_TYPE(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 2, G_TYPE_UINT64,
                                  GST_TYPE_STRUCTURE | G_SIGNAL_TYPE_STATIC_SCOPE);
}
