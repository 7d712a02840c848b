/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsink: the class, its properties, its sender, its receivers and what it reports. */
#include "sink/sink.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* === policy ================================================================================== */
/* What gpudirectsink may wait for.
 *
 *     upstream      no receiver          a receiver is slow     the application asked for EOS
 *     live          drops frames         it loses the oldest    as before
 *     not live      waits                waits for it           waits for no connection, and for a
 *                                                               slow receiver at most SINK_WAIT
 *
 * Upstream reports whether it is live in the LATENCY query, possibly only once it has caps, or even
 * frames. A gpudirectsrc always says that it is; where it is the source, its sender's word counts,
 * so that a file is a file behind relays, too. The properties override all but the last column. */

static gboolean is_live(GstGpudirectSink *self)
{
    return g_atomic_int_get(&self->live) == TRUE;
}

enum gpud_slow_receiver gst_gpudirect_sink_policy(GstGpudirectSink *self)
{
    enum gpud_slow_receiver policy =
        __atomic_load_n(&self->endpoint.settings.slow_receiver, __ATOMIC_RELAXED);
    if (policy != GPUD_SLOW_DEFAULT)
        return policy;
    return is_live(self) ? GPUD_SLOW_DROP_OLDEST : GPUD_SLOW_BLOCK;
}

gboolean gst_gpudirect_sink_waits(GstGpudirectSink *self)
{
    enum wait_for_connection wait = __atomic_load_n(&self->wait_for_connection, __ATOMIC_RELAXED);
    return wait == WAIT_ALWAYS || (wait == WAIT_AUTO && !is_live(self));
}

/* A reference to the sender, which another thread may close, but not free. NULL: it is closed. */
static struct shared_sender *ref_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = self->sender ? shared_sender_ref(self->sender) : NULL;
    GST_OBJECT_UNLOCK(self);
    return sender;
}

void gst_gpudirect_sink_apply_policy(GstGpudirectSink *self)
{
    struct shared_sender *sender = ref_sender(self);

    if (sender)
        shared_sender_set_slow_receiver(sender, gst_gpudirect_sink_policy(self));
    shared_sender_unref(sender);
}

/* FALSE: there was no answer. */
static gboolean ask_latency(GstPad *pad, gboolean *live)
{
    g_autoptr(GstQuery) query = gst_query_new_latency();
    gboolean answered = gst_pad_query(pad, query);

    if (answered)
        gst_query_parse_latency(query, live, NULL, NULL);
    return answered;
}

/* Elements between a source and the sink, at most; it also ends where pads form a circle. */
#define DEPTH_MAX 64

/* Whether any of the sources behind a source pad is live. Each is asked by itself, because elements
 * with several inputs know nothing of our query. */
static gboolean has_live_source(GstPad *pad, guint depth)
{
    GstIterator *links = gst_pad_iterate_internal_links(pad);
    gboolean live = links == NULL || depth == 0, is_source = TRUE;
    GstIteratorResult result = GST_ITERATOR_DONE;
    GValue link = G_VALUE_INIT;

    while (!live && (result = gst_iterator_next(links, &link)) == GST_ITERATOR_OK) {
        GstPad *peer = gst_pad_get_peer(g_value_get_object(&link));
        is_source = FALSE;
        live = peer && has_live_source(peer, depth - 1);
        gst_clear_object(&peer);
        g_value_reset(&link);
    }
    g_value_unset(&link);
    g_clear_pointer(&links, gst_iterator_free);
    if (result == GST_ITERATOR_RESYNC || result == GST_ITERATOR_ERROR)
        return TRUE; /* the pipeline is being changed */
    if (!is_source || live)
        return live;
    g_autoptr(GstQuery) query = query_new_sender_live();
    live = TRUE;
    if (!gst_pad_query(pad, query) || !query_get_sender_live(query, &live))
        ask_latency(pad, &live);
    return live;
}

gboolean gst_gpudirect_sink_query_live(GstGpudirectSink *self)
{
    GstPad *upstream = gst_pad_get_peer(GST_BASE_SINK_PAD(self));
    gboolean live = FALSE, answered = upstream && ask_latency(upstream, &live);

    live = live && has_live_source(upstream, DEPTH_MAX);
    gst_clear_object(&upstream);
    if (!answered || g_atomic_int_get(&self->live) == !!live)
        return answered;
    g_atomic_int_set(&self->live, !!live);
    enum gpud_slow_receiver policy = gst_gpudirect_sink_policy(self);
    gst_gpudirect_sink_apply_policy(self);
    GST_INFO_OBJECT(self, "upstream is %s: a receiver that is slow %s, the first one is %s",
                    live ? "live" : "not live",
                    policy == GPUD_SLOW_BLOCK ? "is waited for" : "loses frames",
                    gst_gpudirect_sink_waits(self) ? "waited for" : "not waited for");
    return TRUE;
}

void gst_gpudirect_sink_set_ending(GstGpudirectSink *self, gboolean ending)
{
    g_atomic_int_set(&self->ending, ending);
    if (!ending)
        gst_gpudirect_sink_apply_policy(self);
}

/* === standby ================================================================================= */

static gboolean core_stands_by(GstGpudirectSink *self)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    gpud_sender_get_info(shared_sender_core(self->sender), &info);
    return info.stands_by;
}

static void standby_report(GstGpudirectSink *self, gboolean stands_by)
{
    const gchar *address = self->endpoint.running.address;
    gchar *text =
        stands_by ? g_strdup_printf("Another sender has the address \"%s\": standing by, frames "
                                    "are dropped until it ends.",
                                    address)
                  : g_strdup_printf("The address \"%s\" is taken over.", address);

    endpoint_note_stats(&self->endpoint);
    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(
        self, RESOURCE, OPEN_WRITE, ("%s", text), ("%s", text),
        ("address", G_TYPE_STRING, address, "stands-by", G_TYPE_BOOLEAN, stands_by, NULL));
    g_free(text);
}

gboolean gst_gpudirect_sink_stands_by(GstGpudirectSink *self)
{
    if (!self->standby.waits)
        return FALSE;
    if (core_stands_by(self)) {
        __atomic_fetch_add(&self->standby.dropped, 1, __ATOMIC_RELAXED);
        return TRUE;
    }
    self->standby.waits = FALSE;
    standby_report(self, FALSE);
    return FALSE;
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

/* Signals one change to the application, and posts it. */
static void notify_of(struct sink_clients *clients, const struct client_event *event)
{
    GObject *element = G_OBJECT(clients->element);
    const struct gpud_peer_info *peer = &event->peer;
    GstStructure *structure = gst_structure_new(
        event->connected ? "gpudirect-client-connected" : "gpudirect-client-disconnected", "id",
        G_TYPE_UINT64, peer->id, "pid", G_TYPE_INT64, peer->pid, "host", G_TYPE_STRING, peer->host,
        "name", G_TYPE_STRING, peer->name, "path", G_TYPE_STRING, peer->path, "fallback-reason",
        G_TYPE_STRING, peer->fallback_reason, NULL);

    GST_INFO_OBJECT(element, "%" GST_PTR_FORMAT, structure);
    g_signal_emit(element,
                  signals[event->connected ? SIGNAL_CLIENT_CONNECTED : SIGNAL_CLIENT_DISCONNECTED],
                  0, peer->id, structure);
    GstMessage *message = gst_message_new_element(GST_OBJECT(element), structure);
    g_mutex_lock(&clients->post_lock);
    if (clients->may_post)
        gst_element_post_message(clients->element, g_steal_pointer(&message));
    if (clients->may_post && event->connected)
        endpoint_report_route(&GST_GPUDIRECT_SINK(element)->endpoint, peer);
    g_mutex_unlock(&clients->post_lock);
    g_clear_pointer(&message, gst_message_unref);
    g_object_notify(element, "num-clients");
    if (!event->connected)
        return;
    g_object_notify(element, "active-path");
    g_object_notify(element, "fallback-reason");
}

static void notify_all(GstElement *element, gpointer user)
{
    struct sink_clients *clients = user;

    g_mutex_lock(&clients->lock);
    struct client_event *event;
    while ((event = g_queue_pop_head(&clients->changes))) {
        g_mutex_unlock(&clients->lock);
        notify_of(clients, event);
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

    g_atomic_int_add(&clients->count, connected ? 1 : -1);
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

/* The core's callbacks; user is the struct sink_clients. */
static void sink_clients_on_connect(void *user, const struct gpud_peer_info *peer)
{
    clients_enqueue(user, TRUE, peer);
}

static void sink_clients_on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    clients_enqueue(user, FALSE, peer);
}

/* Whether messages about receivers may be posted: from start to stop. */
static void sink_clients_let_post(struct sink_clients *clients, gboolean let)
{
    g_mutex_lock(&clients->post_lock);
    clients->may_post = let;
    g_mutex_unlock(&clients->post_lock);
}

/* The sender is closed: forgets its receivers. */
static void sink_clients_clear(struct sink_clients *clients)
{
    g_mutex_lock(&clients->lock);
    g_queue_clear_full(&clients->changes, g_free);
    g_mutex_unlock(&clients->lock);
    g_atomic_int_set(&clients->count, 0);
}

/* === open ==================================================================================== */
/* Opens gpudirectsink's sender on a device, and closes it. */

static enum gpud_status create_sender(GstGpudirectSink *self, const gchar *device,
                                      struct gpud_sender **replaces, struct gpud_sender **core,
                                      struct gpud_error *error)
{
    const struct settings *settings = &self->endpoint.running;
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_context *context = gpud_gst_context_get(error);

    g_autofree gchar *name = endpoint_find_pipeline_name(GST_ELEMENT(self));
    params.address = settings->address;
    params.name = name;
    params.device = device;
    params.slots = settings->slots_set ? settings->slots : 0;
    params.picture_slots = settings->slots;
    /* Between hosts memory for metas is pinned, beside each frame in flight. */
    params.large_meta_max = self->large_metas.max =
        gst_gpudirect_sink_is_between_hosts(self) ? META_LARGE_DEFAULT : GPUD_LARGE_META_MAX;
    g_clear_pointer(&self->large_metas.data, g_free); /* of another size */
    params.slow_receiver = gst_gpudirect_sink_policy(self);
    params.require_direct = settings->require_direct;
    params.access = settings->access;
    params.psk_file = settings->psk_file;
    params.tls_certificate = settings->tls_certificate;
    params.tls_key = settings->tls_key;
    params.tls_ca = settings->tls_ca;
    params.allow_unauthenticated = settings->allow_unauthenticated;
    params.on_connect = sink_clients_on_connect;
    params.on_disconnect = sink_clients_on_disconnect;
    params.user = &self->clients;
    params.replaces = replaces;
    GST_OBJECT_LOCK(self);
    params.standby = self->standby.wanted;
    params.no_announce = !self->announce;
    GST_OBJECT_UNLOCK(self);
    enum gpud_status status =
        context ? gpud_device_open(context, "host", &self->host, error) : error->status;
    if (status == GPUD_OK)
        status = gpud_device_open(context, device, &self->ring_device, error);
    return status == GPUD_OK ? gpud_sender_create(context, &params, core, error) : status;
}

/* Opens the sender on this device. replaces: one that gives its address to this one; NULL: none.
 * FALSE: an error was posted. */
static gboolean open_sender(GstGpudirectSink *self, const gchar *device,
                            struct gpud_sender **replaces)
{
    struct gpud_sender *core;
    struct gpud_error error;

    if (create_sender(self, device, replaces, &core, &error) != GPUD_OK) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SINK, &error,
                            "Cannot send on the address \"%s\"", self->endpoint.running.address);
        gpud_device_close(&self->ring_device);
        gpud_device_close(&self->host);
        return FALSE;
    }
    struct shared_sender *sender =
        shared_sender_new(core, self->endpoint.running.slots, g_str_equal(device, "host"));
    shared_sender_set_slow_receiver(sender, gst_gpudirect_sink_policy(self));
    g_atomic_int_set(&self->endpoint.device.opened_on, gpu_of_name(device));
    self->reads_buffers = g_str_has_prefix(device, "opencl:");
    g_ptr_array_set_size(self->sticky_names, 0);
    self->failed = FALSE;
    self->reported.refusals = self->reported.drops = 0;
    GST_OBJECT_LOCK(self);
    self->sender = sender;
    GST_OBJECT_UNLOCK(self);
    self->standby.waits = core_stands_by(self);
    if (self->standby.waits)
        standby_report(self, TRUE);
    /* unlock() may have interrupted the previous sender, or none. */
    if (g_atomic_int_get(&self->unlocked))
        shared_sender_interrupt(sender, TRUE);
    return TRUE;
}

static struct gpud_sender *take_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = g_steal_pointer(&self->sender);
    GST_OBJECT_UNLOCK(self);
    struct gpud_sender *core = sender ? shared_sender_take(sender) : NULL;
    shared_sender_unref(sender);
    g_atomic_int_set(&self->endpoint.device.opened_on, -1);
    gpud_device_close(&self->ring_device);
    gpud_device_close(&self->host);
    return core;
}

/* === device ================================================================================== */
/* The device of gpudirectsink's ring, and its consequences for caps and contexts.
 *
 * A device that the user names is used. With `auto` the ring lies in host memory, or on upstream's
 * GPU if upstream sends GPU memory. When the sink starts it guesses this from the caps that
 * upstream prefers; if the actual caps prove the guess wrong, a sender on that GPU replaces this
 * one, and receivers reconnect. The address stays with the element: one that stands by for it does
 * not get it. */

/* Moves the sender to another device; it keeps its address. */
static gboolean device_move(GstGpudirectSink *self, const gchar *device)
{
    GST_INFO_OBJECT(self, "the ring moves to %s", device);
    self->sender_is_new = TRUE;
    struct gpud_sender *before = take_sender(self);
    gboolean opened = open_sender(self, device, &before);
    gpud_sender_destroy(&before); /* where the new one could not be made */
    return opened;
}

/* The GPU from which pictures in this vendor's memory are sent. */
static struct gpu *choose_gpu(GstGpudirectSink *self, const struct gpu_vendor *vendor,
                              struct gpud_error *error)
{
    gint number;
    enum gpu_use use = device_choice_get_use(&self->endpoint.device, &number);

    if (use == GPU_USE_ANY) {
        gchar *reason = NULL;
        number = device_choice_find_gpu(&self->endpoint.device, vendor, &reason);
        device_choice_set_reason(&self->endpoint.device, reason);
        return gpu_get(number, error);
    }
    if (use == GPU_USE_NAMED && gpu_get_vendor(number) == vendor)
        return gpu_get(number, error);
    gpud_gst_error_fill(
        error, GPUD_UNSUPPORTED,
        "the property device names no %s GPU: set it to auto or to %sN, or put %s before "
        "gpudirectsink",
        vendor->maker, vendor->prefix, vendor->download);
    return NULL;
}

gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, const struct gpu_vendor *vendor)
{
    struct gpud_error error;

    if (!vendor) {
        /* A ring on a GPU takes what the CPU writes, too. */
        g_autofree gchar *device =
            self->sender ? NULL : device_choice_get_named(&self->endpoint.device);
        return self->sender || device_move(self, device);
    }
    struct gpu *gpu = choose_gpu(self, vendor, &error);
    if (!gpu) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error, "%s cannot be sent",
                            vendor->memory);
        return FALSE;
    }
    g_autofree gchar *device = gpu_get_name(gpu->number);
    if (self->endpoint.device.opened_on == gpu->number || device_move(self, device))
        self->format.gpu = gpu;
    return self->format.gpu != NULL;
}

/* --- caps and contexts -------------------------------------------------------------------- */

/* All caps may be linked. Later those that are known come first, in the order of preference: an
 * element that can make several makes one of these. */
static GstCaps *sink_get_caps(GstBaseSink *base, GstCaps *filter)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    gint number;

    if (!filter && !gst_pad_is_linked(GST_BASE_SINK_PAD(base)))
        return gst_caps_new_any();
    GstCaps *caps = endpoint_known_caps();
    enum gpu_use use = device_choice_get_use(&self->endpoint.device, &number);

    caps = caps_filter_dmabufs(gpu_filter_caps(caps, use, number), filter);
    if (use == GPU_USE_NAMED)
        caps = gpu_put_first(caps, gpu_get_vendor(number));
    return endpoint_filter_caps(caps, filter, TRUE);
}

/* Without a filter all caps would seem to be accepted. */
static gboolean answer_accept_caps(GstBaseSink *base, GstQuery *query)
{
    GstCaps *caps;

    if (GST_QUERY_TYPE(query) != GST_QUERY_ACCEPT_CAPS)
        return FALSE;
    gst_query_parse_accept_caps(query, &caps);
    g_autoptr(GstCaps) accepted = sink_get_caps(base, caps);
    gst_query_set_accept_caps_result(query, gst_caps_is_subset(caps, accepted));
    return TRUE;
}

/* What a pad gives may not be negotiated yet, while its stream is known. */
static gboolean gives_blocks(GstPad *pad)
{
    g_autoptr(GstStream) stream = gst_pad_get_stream(pad);
    g_autoptr(GstCaps) caps = gst_pad_query_caps(pad, NULL);
    gboolean blocks = stream && (gst_stream_get_stream_type(stream) &
                                 (GST_STREAM_TYPE_AUDIO | GST_STREAM_TYPE_TEXT));

    blocks |= blocks_are_caps(caps) && !blocks_are_coded_pictures(caps);
    return blocks;
}

/* Whether a pad that may give pictures can still appear. */
static gboolean may_add_pictures(GstElement *element)
{
    g_autoptr(GstCaps) pictures = gst_caps_from_string(VIDEO_RAW "(ANY)");
    gboolean may = FALSE;

    for (GList *at = gst_element_get_pad_template_list(element); at; at = at->next) {
        GstPadTemplate *template = at->data;
        may |= template->direction == GST_PAD_SRC && template->presence == GST_PAD_SOMETIMES &&
               gst_caps_can_intersect(template->caps, pictures);
    }
    return may;
}

/* Pads of a decoder appear one by one, and the first that fits is linked. On the channel's own
 * address its pictures are meant, even if its sound is there first. */
static GstPadLinkReturn sink_link(GstPad *pad, GstObject *parent, GstPad *peer)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(parent);
    g_autoptr(GstElement) element = gst_pad_get_parent_element(peer);

    GST_OBJECT_LOCK(self);
    g_autofree gchar *address = g_strdup(self->endpoint.settings.address);
    GST_OBJECT_UNLOCK(self);
    gboolean refused =
        element && !blocks_is_stream(address) && gives_blocks(peer) && may_add_pictures(element);
    if (refused) {
        g_autofree gchar *text = g_strdup_printf(
            "\"%s\" waits for pictures of %s, and is not linked to its sound or data: "
            "send those on an address of their own, such as cam1/audio, or, if there "
            "are no pictures, put an identity before gpudirectsink.",
            address ? address : "", GST_OBJECT_NAME(element));
        GST_ELEMENT_INFO(self, RESOURCE, SETTINGS, ("%s", text), ("%s", text));
    }
    return refused ? GST_PAD_LINK_REFUSED : GST_PAD_LINK_OK;
}

static gboolean sink_query(GstBaseSink *base, GstQuery *query)
{
    GstBaseSinkClass *parent = g_type_class_peek(GST_TYPE_BASE_SINK);

    return device_choice_answer_query(&GST_GPUDIRECT_SINK(base)->endpoint.device, query) ||
           answer_accept_caps(base, query) || parent->query(base, query);
}

/* === stats =================================================================================== */
/* The property "stats" of gpudirectsink. */

static void stats_get_info(GstGpudirectSink *self, struct gpud_sender_info *info)
{
    struct shared_sender *sender = ref_sender(self);

    *info = (struct gpud_sender_info)GPUD_INFO_INIT(*info);
    g_strlcpy(info->path, "none", sizeof(info->path));
    if (sender)
        shared_sender_get_info(sender, info);
    shared_sender_unref(sender);
}

/* Methods of the endpoint, callable from any thread, also without a sender. */
static void get_route(GstElement *element, struct endpoint_route *route)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gsize room = sizeof(route->fallback_reason);

    stats_get_info(GST_GPUDIRECT_SINK(element), &info);
    g_strlcpy(route->path, info.path, sizeof(route->path));
    g_strlcpy(route->fallback_reason, info.fallback_reason, room);
    if (!g_atomic_int_get(&GST_GPUDIRECT_SINK(element)->copied_dmabufs))
        return;
    if (route->fallback_reason[0])
        g_strlcat(route->fallback_reason, "; ", room);
    g_strlcat(route->fallback_reason,
              "the CPU copies pictures from dma-bufs that are not the ring's", room);
}

/* The field "clients": a structure for each receiver that is connected now; and "latency", of the
 * slowest one, if any is known. */
static void stats_add_clients(GstGpudirectSink *self, GstStructure *stats)
{
    struct gpud_link_info link[GPUD_RECEIVERS_MAX];
    struct shared_sender *sender = ref_sender(self);
    gsize count = sender ? shared_sender_list_links(sender, link) : 0;
    guint64 latency = 0;
    GValue all = G_VALUE_INIT;

    shared_sender_unref(sender);
    g_value_init(&all, GST_TYPE_LIST);
    for (gsize i = 0; i < count; i++) {
        latency = MAX(latency, link[i].latency_ns);
        GValue one = G_VALUE_INIT;
        g_value_init(&one, GST_TYPE_STRUCTURE);
        g_value_take_boxed(&one,
                           gst_structure_new("client", "id", G_TYPE_UINT64, link[i].id, "name",
                                             G_TYPE_STRING, link[i].name, "host", G_TYPE_STRING,
                                             link[i].host, "path", G_TYPE_STRING, link[i].path,
                                             "encrypted", G_TYPE_STRING, link[i].encrypted, NULL));
        gst_value_list_append_and_take_value(&all, &one);
    }
    gst_structure_take_value(stats, "clients", &all);
    if (latency)
        gst_structure_set(stats, "latency", G_TYPE_UINT64, latency, NULL);
}

static GstStructure *make_stats(GstElement *element)
{
    static const gchar *const policies[] = {
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(element);
    GstStructure *stats = gst_base_sink_get_stats(GST_BASE_SINK(self));
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    struct clock_name name;
    const gchar *clock = endpoint_name_clock(&self->endpoint, &name);
    gboolean live = g_atomic_int_get(&self->live) == TRUE, waits = gst_gpudirect_sink_waits(self);

    stats_get_info(self, &info);
    gst_structure_set(
        stats, "frames", G_TYPE_UINT64, info.frames, "delivered", G_TYPE_UINT64, info.delivered,
        "dropped-slow-receiver", G_TYPE_UINT64, info.dropped, "num-clients", G_TYPE_UINT,
        info.receivers, "connects", G_TYPE_UINT64, info.connects, "disconnects", G_TYPE_UINT64,
        info.disconnects, "refused", G_TYPE_UINT64, info.refused, "copies-cpu", G_TYPE_UINT64,
        info.copies_cpu + counter_read(&self->endpoint.counters->copies_cpu), "copies-gpu",
        G_TYPE_UINT64, info.copies_gpu + counter_read(&self->endpoint.counters->copies_gpu),
        "cpu-waits", G_TYPE_UINT64, info.waits_cpu, "device-waits", G_TYPE_UINT64,
        info.waits_device + counter_read(&self->endpoint.counters->waits_device), "kicks",
        G_TYPE_UINT64, info.kicks, "dropped-malformed", G_TYPE_UINT64,
        __atomic_load_n(&self->malformed, __ATOMIC_RELAXED), "live", G_TYPE_BOOLEAN, live,
        "slow-receiver", G_TYPE_STRING, policies[gst_gpudirect_sink_policy(self)],
        "wait-for-connection", G_TYPE_BOOLEAN, waits, "clock", G_TYPE_STRING, clock,
        "lends-dmabufs", G_TYPE_BOOLEAN, g_atomic_int_get(&self->lends_dmabufs) == TRUE, NULL);
    gst_structure_set(stats, "device", G_TYPE_STRING, info.device[0] ? info.device : "none", NULL);
    device_choice_tell(&self->endpoint.device, stats);
    stats_add_clients(self, stats);
    gst_structure_set(stats, "stands-by", G_TYPE_BOOLEAN, info.stands_by, "dropped-standby",
                      G_TYPE_UINT64, __atomic_load_n(&self->standby.dropped, __ATOMIC_RELAXED),
                      NULL);
    lost_metas_tell(self->endpoint.lost_metas, stats);
    return stats;
}

/* === element ================================================================================= */
/**
 * SECTION:element-gpudirectsink
 * @title: gpudirectsink
 * @short_description: Sends raw video, sound or anything else straight into another process's, or
 * another device's, memory
 * @see_also: gpudirectsrc
 *
 * gpudirectsink listens on an address; any number of gpudirectsrc elements (or applications that
 * use the gpudirect library) connect to it, in either start order, and may reconnect. Each gets the
 * frames by the best route that both ends support: the property #gpudirectsink:active-path names
 * it, and #gpudirectsink:fallback-reason says why it is no better one.
 *
 * A live pipeline never stalls: if upstream is live (by its answer to a LATENCY query), frames are
 * dropped while no receiver is connected, and a receiver that is slow or stopped loses the oldest
 * frames that it has not taken. With other upstreams the sink waits for the first receiver, and for
 * slow ones. #gpudirectsink:wait-for-connection and #gpudirectsink:slow-receiver override this, and
 * #gpudirectsink:stats says what is in effect.
 *
 * The buffer pool that the sink proposes lends the slots of its ring: pictures that upstream writes
 * into them are sent without a copy. Any other buffer costs one copy. The property
 * #gpudirectsink:stats counts both.
 *
 * CUDA memory is sent in place: GStreamer's CUDA elements (cudaupload, nvh264dec…) write into the
 * slots themselves, in the GPU's primary context, which the sink shares with them. Elements with
 * their own context, or memory of another GPU, cost one copy by the GPU. With device=auto the ring
 * follows the memory of the caps.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=1920,height=1080 ! gpudirectsink
 * address=cam1
 * ]|
 * Sends a test picture on the address cam1.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! videoconvert ! autovideosink
 * ]|
 * Shows it.
 * |[
 * gst-launch-1.0 filesrc location=a.mp4 ! qtdemux ! h264parse ! nvh264dec ! gpudirectsink
 * address=cam1
 * ]|
 * Decodes into the memory that receivers on the same GPU read.
 * |[
 * gst-launch-1.0 audiotestsrc is-live=true ! gpudirectsink address=radio
 * ]|
 * Sends sound alone. The sound of a channel of pictures is a stream of its own: cam1/audio.
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! vp8enc deadline=1 ! gpudirectsink address=coded
 * ]|
 * Sends an encoded stream, and asks the encoder for a key frame whenever a receiver needs one.
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! gpudirectsink address=cam1 standby=true
 * ]|
 * Waits while another sender has the address cam1, and takes it over when that one ends.
 *
 * Since: 0.1
 */

G_DEFINE_TYPE_WITH_CODE(GstGpudirectSink, gst_gpudirect_sink, GST_TYPE_BASE_SINK,
                        GST_DEBUG_CATEGORY_INIT(gst_gpudirect_sink_debug, "gpudirectsink", 0,
                                                "gpudirect sink");
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init))

GST_ELEMENT_REGISTER_DEFINE(gpudirectsink, "gpudirectsink", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SINK)

enum {
    PROP_WAIT_FOR_CONNECTION = SETTING_COUNT,
    PROP_NUM_CLIENTS,
    PROP_STANDBY,
    PROP_ANNOUNCE,
};

/* --- properties --------------------------------------------------------------------------- */

static gpointer find_field(GstElement *element, guint id)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(element);

    if (id == PROP_WAIT_FOR_CONNECTION)
        return &self->wait_for_connection;
    if (id == PROP_ANNOUNCE)
        return &self->announce;
    return id == PROP_STANDBY ? &self->standby.wanted : NULL;
}

static gboolean sink_get_property(GstElement *element, guint id, GValue *value)
{
    gconstpointer field = find_field(element, id);

    if (id == PROP_NUM_CLIENTS)
        g_value_set_uint(value, sink_clients_count(&GST_GPUDIRECT_SINK(element)->clients));
    GST_OBJECT_LOCK(element);
    if (field)
        field_get(field, value);
    GST_OBJECT_UNLOCK(element);
    return id == PROP_NUM_CLIENTS || field;
}

static gboolean sink_set_property(GstElement *element, guint id, const GValue *value)
{
    gpointer field = find_field(element, id);

    if (field)
        field_set(field, value);
    return field != NULL;
}

static void property_changed(GstElement *element, guint id)
{
    if (id == SETTING_SLOW_RECEIVER)
        gst_gpudirect_sink_apply_policy(GST_GPUDIRECT_SINK(element));
}

static const struct endpoint_ops endpoint_ops = {
    .get_property = sink_get_property,
    .set_property = sink_set_property,
    .changed = property_changed,
    .get_route = get_route,
    .make_stats = make_stats,
};

/* --- states ------------------------------------------------------------------------------- */

/* FALSE: an error was posted. */
static gboolean check_address(GstGpudirectSink *self)
{
    const gchar *address = self->endpoint.running.address ? self->endpoint.running.address : "";
    const gchar *what = NULL;

    if (g_str_has_prefix(address, "target:"))
        what = "a ring for a third-party writer";
    else if (g_str_has_prefix(address, "v4l2:"))
        what = "a capture card, a source of frames";
    if (what)
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                          ("\"%s\" is %s: that is an address for gpudirectsrc. Set this one to a "
                           "name such as cam1.",
                           address, what),
                          (NULL));
    else if (!address[0])
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to send on: set the property address, to a name such as cam1."), (NULL));
    return address[0] && !what;
}

static gboolean sink_start(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    gboolean opened = FALSE;
    gint number;

    endpoint_start(&self->endpoint);
    if (settings_check(GST_ELEMENT(self), &self->endpoint.running) && check_address(self)) {
        g_atomic_int_set(&self->unlocked, FALSE);
        g_atomic_int_set(&self->live, -1);
        g_atomic_int_set(&self->ending, FALSE);
        self->end = (struct sink_end){0};
        sink_clients_let_post(&self->clients, TRUE);
        __atomic_store_n(&self->standby.dropped, 0, __ATOMIC_RELAXED);
        g_autofree gchar *device = device_choice_choose(&self->endpoint.device, &number, NULL);
        opened = open_sender(self, device, NULL);
    }
    if (!opened) {
        endpoint_stop(&self->endpoint);
        return FALSE;
    }
    gst_gpudirect_sink_note_opened(self);
    endpoint_note_stats(&self->endpoint);
    return TRUE;
}

static gboolean sink_stop(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    gst_gpudirect_sink_report_rest(self);
    endpoint_post_stats(&self->endpoint);
    gst_gpudirect_sink_end_stream(self);
    struct gpud_sender *core = take_sender(self);
    gpud_sender_destroy(&core);
    sink_clients_clear(&self->clients);
    sink_clients_let_post(&self->clients, FALSE);
    endpoint_stop(&self->endpoint);
    return TRUE;
}

static void set_unlocked(GstBaseSink *base, gboolean unlocked)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    g_atomic_int_set(&self->unlocked, unlocked);
    struct shared_sender *sender = ref_sender(self);
    if (sender)
        shared_sender_interrupt(sender, unlocked);
    shared_sender_unref(sender);
}

static gboolean sink_unlock(GstBaseSink *base)
{
    set_unlocked(base, TRUE);
    return TRUE;
}

static gboolean sink_unlock_stop(GstBaseSink *base)
{
    set_unlocked(base, FALSE);
    return TRUE;
}

static GstStateChangeReturn sink_change_state(GstElement *element, GstStateChange transition)
{
    /* Every element upstream knows now whether it is live. */
    if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING)
        gst_gpudirect_sink_query_live(GST_GPUDIRECT_SINK(element));
    return GST_ELEMENT_CLASS(gst_gpudirect_sink_parent_class)->change_state(element, transition);
}

/* An application's EOS is sent to elements flagged as sources. This sink has the flag to learn of
 * it early: the EOS event itself arrives behind the buffer that may be waiting here. */
static gboolean sink_send_event(GstElement *element, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        gst_gpudirect_sink_set_ending(GST_GPUDIRECT_SINK(element), TRUE);
    return GST_ELEMENT_CLASS(gst_gpudirect_sink_parent_class)->send_event(element, event);
}

/* --- class -------------------------------------------------------------------------------- */

static void enum_from_boolean(const GValue *from, GValue *to)
{
    to->data[0].v_long = g_value_get_boolean(from) ? WAIT_ALWAYS : WAIT_NEVER;
}

static const GEnumValue wait_values[] = {
    {WAIT_NEVER, "Drop frames while no receiver is connected", "false"},
    {WAIT_ALWAYS, "Block the stream while no receiver is connected", "true"},
    {WAIT_AUTO, "False if upstream is live, otherwise true", "auto"},
    {0, NULL, NULL},
};

static void install_properties(GstElementClass *sink_class)
{
    static const struct setting_texts texts = {
        .pad = "sink",
        .direction = GST_PAD_SINK,
        .address =
            "Where receivers connect: a name (cam1: a socket in the user's runtime directory), "
            "unix:/absolute/path, or, from other hosts, tcp://address:port or rdma://address:port",
        .device = "Where the ring and the copies live: auto (the host, or the GPU of the incoming "
                  "CUDA memory), host, opencl:N, cuda:N, hip:N or vulkan:N",
        .slots = "Frames in flight per receiver (unless set, sound and data have up to 60)",
        .slow_receiver = "What happens to a frame for a receiver whose ring is full (auto: a live "
                         "upstream drops the oldest, so that nothing stalls; others block, so "
                         "that nothing is lost)",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_PLAYING,
        .address_when = (GParamFlags)GST_PARAM_MUTABLE_READY,
        .require_direct = "Refuse a receiver that only a copy through host memory can reach",
        .access = "Users that may receive, besides root: user (this user only), group:NAME (and "
                  "that group's members) or all; the latter two with address=unix:/path in a "
                  "folder that the others can enter",
        .psk_file = "Between hosts: a file with the key that both ends have, readable by its owner "
                    "only (16 to 1024 bytes); unset or empty: no key",
        .allow_unauthenticated = "Between hosts: any host that reaches the address may receive, "
                                 "without a psk-file or certificates",
        .active_path = "The route to the receiver that connected last, or none",
        .stats =
            "Frames, drops by reason, copies, waits, the clock's name, what every sink counts, "
            "and a list of the receivers with how each one's connection is encrypted",
    };

    GObjectClass *klass = G_OBJECT_CLASS(sink_class);
    GParamSpec *const pspecs[] = {
        [PROP_WAIT_FOR_CONNECTION] = g_param_spec_enum(
            "wait-for-connection", "Wait for connection",
            "Block the stream while no receiver is connected (auto: unless upstream "
            "is live)",
            enum_type("GstGpudirectWaitForConnection", wait_values), WAIT_AUTO,
            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING),
        [PROP_STANDBY] = g_param_spec_boolean(
            "standby", "Standby",
            "While another sender has the address, drop frames instead of "
            "failing, and take the address over when that sender ends",
            FALSE, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY),
        [PROP_ANNOUNCE] = g_param_spec_boolean(
            "announce", "Announce",
            "Between hosts: announce the channel and its format by DNS-SD, unless the address is "
            "one of this host alone",
            TRUE, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY),
        [PROP_NUM_CLIENTS] =
            g_param_spec_uint("num-clients", "Number of clients", "Receivers that are connected", 0,
                              G_MAXUINT, 0, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS),
    };

    endpoint_class_init(sink_class, &texts);
    /* Applications that set the property as a boolean still work. */
    g_value_register_transform_func(
        G_TYPE_BOOLEAN, enum_type("GstGpudirectWaitForConnection", wait_values), enum_from_boolean);
    fields_install(klass, pspecs, G_N_ELEMENTS(pspecs));
}

static void sink_finalize(GObject *object)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(object);

    sink_clients_clear(&self->clients);
    g_mutex_clear(&self->clients.lock);
    g_mutex_clear(&self->clients.post_lock);
    endpoint_clear(&self->endpoint);
    g_ptr_array_unref(self->sticky_names);
    g_free(self->large_metas.data);
    g_free(self->format.rest);
    G_OBJECT_CLASS(gst_gpudirect_sink_parent_class)->finalize(object);
}

static void gst_gpudirect_sink_class_init(GstGpudirectSinkClass *klass)
{
    static const gchar *const names[SIGNAL_COUNT] = {
        [SIGNAL_CLIENT_CONNECTED] = "client-connected",
        [SIGNAL_CLIENT_DISCONNECTED] = "client-disconnected",
    };
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *sink_class = GST_ELEMENT_CLASS(klass);
    GstBaseSinkClass *base_class = GST_BASE_SINK_CLASS(klass);

    object_class->finalize = sink_finalize;
    install_properties(sink_class);
    /**
     * GstGpudirectSink::client-connected:
     * @id: counts the connections from 1
     * @peer: id, pid, host, name, path and fallback-reason
     *
     * A receiver is connected and streams. Emitted from a thread that may call anything. */
    for (guint i = 0; i < SIGNAL_COUNT; i++)
        signals[i] = g_signal_new(names[i], G_OBJECT_CLASS_TYPE(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 2, G_TYPE_UINT64,
                                  GST_TYPE_STRUCTURE | G_SIGNAL_TYPE_STATIC_SCOPE);

    sink_class->change_state = sink_change_state;
    sink_class->send_event = sink_send_event;
    gst_element_class_set_static_metadata(sink_class, "GPU-direct sink", "Sink/Video/Hardware",
                                          "Sends video, sound, tensors or other data directly into "
                                          "the memory of other processes or GPUs",
                                          "gpudirect authors");

    base_class->get_caps = sink_get_caps;
    base_class->query = sink_query;
    base_class->start = sink_start;
    base_class->stop = sink_stop;
    base_class->unlock = sink_unlock;
    base_class->unlock_stop = sink_unlock_stop;
    gst_gpudirect_sink_class_init_render(base_class);
}

static void gst_gpudirect_sink_init(GstGpudirectSink *self)
{
    endpoint_init(&self->endpoint, GST_ELEMENT(self), GST_BASE_SINK_PAD(self),
                  gst_gpudirect_sink_debug, &endpoint_ops);
    gst_pad_set_link_function(GST_BASE_SINK_PAD(self), sink_link);
    self->clients.element = GST_ELEMENT(self);
    g_mutex_init(&self->clients.lock);
    g_mutex_init(&self->clients.post_lock);
    g_queue_init(&self->clients.changes);
    self->wait_for_connection = WAIT_AUTO;
    self->announce = TRUE;
    GST_OBJECT_FLAG_SET(self, GST_ELEMENT_FLAG_SOURCE); /* see sink_send_event() */
    self->live = -1;
    g_queue_init(&self->unsent);
    self->sticky_names = g_ptr_array_new_with_free_func(g_free);
    /* The last sample would hold a slot permanently. */
    gst_base_sink_set_last_sample_enabled(GST_BASE_SINK(self), FALSE);
}

/* === debug =================================================================================== */

GST_DEBUG_CATEGORY(gst_gpudirect_sink_debug);
