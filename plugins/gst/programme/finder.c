/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The streams of a channel: found, each with a source and a pad, and announced as a collection. */
#include "programme/programme.h"

#include <gpudirect/channel.h>
#include <string.h>

/* === collection ============================================================================== */

#define WAIT_MAX (5 * G_TIME_SPAN_SECOND)

void collection_init(struct collection *collection, GstElement *element)
{
    collection->element = element;
    g_mutex_init(&collection->exposing);
    g_mutex_init(&collection->lock);
    g_cond_init(&collection->published);
    collection->streams = g_ptr_array_new_with_free_func(gst_object_unref);
}

void collection_finish(struct collection *collection)
{
    g_mutex_clear(&collection->lock);
    g_mutex_clear(&collection->exposing);
    g_cond_clear(&collection->published);
    g_ptr_array_unref(collection->streams);
    gst_clear_object(&collection->current);
}

void collection_open(struct collection *collection)
{
    g_mutex_lock(&collection->lock);
    g_ptr_array_set_size(collection->streams, 0);
    collection->version = 0;
    collection->changed = collection->closed = FALSE;
    g_mutex_unlock(&collection->lock);
}

static void collection_close(struct collection *collection)
{
    g_mutex_lock(&collection->lock);
    collection->closed = TRUE;
    g_cond_broadcast(&collection->published);
    g_mutex_unlock(&collection->lock);
}

/* Posts a message about the collection if it has changed. */
static void collection_publish(struct collection *collection)
{
    GstMessage *message = NULL;

    g_mutex_lock(&collection->lock);
    if (collection->changed) {
        gst_clear_object(&collection->current);
        collection->current = gst_stream_collection_new(NULL);
        for (guint i = 0; i < collection->streams->len; i++)
            gst_stream_collection_add_stream(collection->current,
                                             gst_object_ref(collection->streams->pdata[i]));
        collection->version++;
        collection->changed = FALSE;
        g_cond_broadcast(&collection->published);
        message =
            gst_message_new_stream_collection(GST_OBJECT(collection->element), collection->current);
    }
    g_mutex_unlock(&collection->lock);
    if (message)
        gst_element_post_message(collection->element, message);
}

static gboolean collection_is_published(struct collection *collection)
{
    g_mutex_lock(&collection->lock);
    gboolean published = collection->version > 0;
    g_mutex_unlock(&collection->lock);
    return published;
}

/* === stream ================================================================================== */

struct stream {
    const struct stream_programme *programme;
    gchar *name;
    GstElement *source;
    GstPad *pad;         /* the ghost pad */
    gint exposed, ended; /* atomic */
    GMutex lock;
    GstStream *stream; /* set once, under the lock; NULL: not announced yet */
    guint version;     /* the streaming thread's: of the collection that was pushed last */
};

/* --- the pad ------------------------------------------------------------------------------ */

static GstStreamType type_of(const GstCaps *caps)
{
    const gchar *name = gst_structure_get_name(gst_caps_get_structure(caps, 0));

    if (!blocks_are_caps(caps) || blocks_are_coded_pictures(caps))
        return GST_STREAM_TYPE_VIDEO;
    if (g_str_has_prefix(name, "audio/"))
        return GST_STREAM_TYPE_AUDIO;
    return g_str_has_prefix(name, "text/") || g_str_has_prefix(name, "closedcaption/")
               ? GST_STREAM_TYPE_TEXT
               : GST_STREAM_TYPE_UNKNOWN;
}

/* Pushes the current collection, if it is not the one that was pushed last. */
static void push_collection(struct stream *stream)
{
    struct collection *collection = stream->programme->collection;
    GstEvent *event = NULL;

    g_mutex_lock(&collection->lock);
    if (stream->version != collection->version)
        event = gst_event_new_stream_collection(collection->current);
    stream->version = collection->version;
    g_mutex_unlock(&collection->lock);
    if (event)
        gst_pad_push_event(stream->pad, event);
}

/* Adds the stream, or removes it; it takes effect when the collection is published. */
static void change_collection(struct stream *stream, gboolean add)
{
    struct collection *collection = stream->programme->collection;

    g_mutex_lock(&collection->lock);
    if (add)
        g_ptr_array_add(collection->streams, gst_object_ref(stream->stream));
    else
        g_ptr_array_remove(collection->streams, stream->stream);
    collection->changed = TRUE;
    g_mutex_unlock(&collection->lock);
}

/* Makes the stream part of the collection before its source has caps. */
static void stream_announce(struct stream *stream, GstCaps *caps)
{
    g_mutex_lock(&stream->lock);
    gboolean first = !stream->stream;
    if (first) {
        GstStreamType type = type_of(caps);
        stream->stream = gst_stream_new(NULL, caps, type,
                                        type & (GST_STREAM_TYPE_VIDEO | GST_STREAM_TYPE_AUDIO)
                                            ? GST_STREAM_FLAG_NONE
                                            : GST_STREAM_FLAG_SPARSE);
        if (stream->name) {
            g_autoptr(GstTagList) tags = gst_tag_list_new(GST_TAG_TITLE, stream->name, NULL);
            gst_stream_set_tags(stream->stream, tags);
        }
    }
    g_mutex_unlock(&stream->lock);
    if (first)
        change_collection(stream, TRUE);
}

/* The source has caps: now elements and applications see the pad with what they choose by. */
static void expose(struct stream *stream, GstCaps *caps)
{
    struct collection *collection = stream->programme->collection;
    GstElement *bin = GST_ELEMENT(stream->programme->bin);

    stream_announce(stream, caps);
    stream->programme->changed(stream->programme->user);
    /* Pads appear once the first collection is published, or after a few seconds. */
    gint64 deadline = g_get_monotonic_time() + WAIT_MAX;
    gboolean in_time = TRUE;
    g_mutex_lock(&collection->lock);
    while (collection->version == 0 && !collection->closed && in_time)
        in_time = g_cond_wait_until(&collection->published, &collection->lock, deadline);
    g_mutex_unlock(&collection->lock);
    collection_publish(collection);
    gst_stream_set_caps(stream->stream, caps);
    GstEvent *start = gst_event_new_stream_start(gst_stream_get_stream_id(stream->stream));
    gst_event_set_group_id(start, stream->programme->group_id);
    gst_event_set_stream(start, stream->stream);
    gst_event_set_stream_flags(start, gst_stream_get_stream_flags(stream->stream));
    gst_pad_push_event(stream->pad, start);
    push_collection(stream);
    GstEvent *event = gst_event_new_caps(caps);
    gst_pad_store_sticky_event(stream->pad, event); /* seen when the pad is added */
    gst_event_unref(event);
    g_autofree gchar *name =
        stream->name ? g_strdup_printf(PAD_OTHERS, stream->name) : g_strdup(PAD_MAIN);
    gst_object_set_name(GST_OBJECT(stream->pad), name);
    g_object_set(stream->pad, "template",
                 gst_element_get_pad_template(bin, stream->name ? PAD_OTHERS : PAD_MAIN), NULL);
    g_mutex_lock(&collection->exposing);
    gst_element_add_pad(bin, stream->pad);
    g_mutex_unlock(&collection->exposing);
    g_atomic_int_set(&stream->exposed, TRUE);
    stream->programme->changed(stream->programme->user);
}

/* Before the source's caps only the start of its stream comes, or its end. */
static gboolean stream_on_event(GstPad *inner, GstObject *parent, GstEvent *event)
{
    struct stream *stream = gst_pad_get_element_private(inner);
    gboolean ends = GST_EVENT_TYPE(event) == GST_EVENT_EOS, taken = TRUE;
    GstCaps *caps;

    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_STREAM_START: /* its own follows with the caps */
        break;
    case GST_EVENT_CAPS:
        gst_event_parse_caps(event, &caps);
        if (g_atomic_int_get(&stream->exposed))
            gst_stream_set_caps(stream->stream, caps);
        else
            expose(stream, caps);
        taken = gst_pad_push_event(stream->pad, gst_event_ref(event));
        break;
    default:
        if (event_is_opened(event))
            stream->programme->changed(stream->programme->user);
        else if (g_atomic_int_get(&stream->exposed))
            taken = gst_pad_push_event(stream->pad, gst_event_ref(event));
        break;
    }
    gst_event_unref(event);
    if (ends) {
        g_atomic_int_set(&stream->ended, TRUE);
        stream->programme->changed(stream->programme->user);
    }
    return taken;
}

static GstFlowReturn on_buffer(GstPad *inner, GstObject *parent, GstBuffer *buffer)
{
    struct stream *stream = gst_pad_get_element_private(inner);

    push_collection(stream);
    GstFlowReturn flow = gst_proxy_pad_chain_default(inner, parent, buffer);
    return flow == GST_FLOW_NOT_LINKED ? GST_FLOW_OK : flow;
}

/* Adds the source, which is taken, to the bin, and starts it as the bin is. name: of the stream;
 * NULL: it is that of the channel itself. */
static struct stream *stream_new(const struct stream_programme *programme, GstElement *source,
                                 const gchar *name)
{
    struct stream *stream = g_new0(struct stream, 1);

    stream->programme = programme;
    g_mutex_init(&stream->lock);
    stream->name = g_strdup(name);
    stream->source = gst_object_ref_sink(source);
    gst_bin_add(programme->bin, source); /* which unlinks its pads */
    GstPad *src = gst_element_get_static_pad(source, "src");
    stream->pad = gst_object_ref_sink(gst_ghost_pad_new(NULL, src));
    GstPad *inner = GST_PAD(gst_proxy_pad_get_internal(GST_PROXY_PAD(stream->pad)));
    gst_pad_set_element_private(inner, stream);
    gst_pad_set_event_function(inner, stream_on_event);
    gst_pad_set_chain_function(inner, on_buffer);
    gst_pad_set_active(stream->pad, TRUE);
    gst_object_unref(inner);
    gst_object_unref(src);
    gst_element_sync_state_with_parent(source);
    return stream;
}

/* Stops the source, and removes it and the pad. Never from the source's own thread. */
static void stream_free(struct stream *stream)
{
    /* The bin's own changes of state leave it alone from here on. */
    gst_element_set_locked_state(stream->source, TRUE);
    gst_element_set_state(stream->source, GST_STATE_NULL);
    if (stream->stream)
        change_collection(stream, FALSE);
    gst_pad_set_active(stream->pad, FALSE);
    if (g_atomic_int_get(&stream->exposed))
        gst_element_remove_pad(GST_ELEMENT(stream->programme->bin), stream->pad);
    gst_bin_remove(stream->programme->bin, stream->source);
    gst_clear_object(&stream->stream);
    gst_object_unref(stream->pad);
    gst_object_unref(stream->source);
    g_mutex_clear(&stream->lock);
    g_free(stream->name);
    g_free(stream);
}

/* === finder ================================================================================== */

/* A sender that has not answered by then, or is on another host, is asked again after PERIOD. While
 * nothing changes at another host, the time doubles from one question to the next, up to
 * PERIOD_MAX. */
#define ANSWER_TIMEOUT (GST_SECOND / 4)
#define ANSWER_TIMEOUT_NETWORK GST_SECOND
#define PERIOD 1000     /* ms */
#define PERIOD_MAX 8000 /* ms */

/* A sender opens its streams one after the other. Pads appear, and no-more-pads is emitted, once
 * none has been found for SETTLED, or FORMAT_MAX after the first one at the latest, if one of them
 * has no format or no connection. In µs. */
#define SETTLED (G_USEC_PER_SEC / 5)
#define FORMAT_MAX (2 * G_TIME_SPAN_SECOND)

/* Each stream has a thread; where others may make sockets beside the channel's, one of them must
 * not have as many as it likes. */
#define STREAMS_MAX 32
#define UNIX_PREFIX "unix:"

struct found {
    struct stream *stream; /* NULL: it has ended, and its sender is still there */
    gchar *address;
    gint64 pid;          /* of the sender; 0: not known */
    gint64 seen_at;      /* when a search last found the sender, as finder.searched_at */
    gboolean announced;  /* its format is known */
    gboolean seen_ended; /* the sender was seen without a stream since this one has ended */
};

struct finder {
    struct finder_params params;
    gchar *address, *prefix; /* prefix: of the addresses of its streams; NULL: there are none */
    gchar *folder;           /* of its channels, or their port on another host; NULL: bare names */
    gboolean remote;         /* only names are known, and formats from the connections */
    struct device_watch *watch; /* replaced under the lock, by the thread */
    GThread *thread;            /* NULL: there is one stream */
    GMutex lock;
    gchar *wanted; /* under the lock: another channel that is to be searched; NULL: none */
    gint stopping; /* atomic */
    gint changed;  /* atomic: a stream has changed, or there may be another one */
    /* The thread's, while it runs. */
    GPtrArray *found;
    gboolean polls;
    gint period;          /* in ms, while it polls */
    gint64 searched_at;   /* by g_get_monotonic_time() */
    gchar *names;         /* the names at another host, as they were last */
    gboolean unformatted; /* a stream of the channel has no format yet */
    gboolean complete;    /* no-more-pads was emitted */
    gboolean said_full;   /* that there are too many streams */
    gint64 begun_at;      /* when the first stream was found, and */
    gint64 changed_at;    /* the last one; by g_get_monotonic_time(); 0: none */
};

/* --- streams ------------------------------------------------------------------------------ */

static void found_free(gpointer data)
{
    struct found *found = data;

    if (found->stream)
        stream_free(found->stream);
    g_free(found->address);
    g_free(found);
}

/* A stream beside the channel's own whose sender was not found by the last search. */
static gboolean has_vanished(const struct finder *finder, const struct found *found)
{
    return found->seen_at < finder->searched_at && !g_str_equal(found->address, finder->address);
}

static struct found *add_stream(struct finder *finder, const gchar *address, const GstCaps *caps)
{
    gboolean main = g_str_equal(address, finder->address);
    GstElement *source = finder->params.make_source(finder->params.user, address, caps, main);
    struct found *found = g_new0(struct found, 1);

    found->address = g_strdup(address);
    found->seen_at = finder->searched_at;
    found->stream = stream_new(finder->params.programme, source,
                               main ? NULL : address + strlen(finder->prefix));
    g_ptr_array_add(finder->found, found);
    /* The channel has a sender, if not one of pictures. */
    for (guint i = 0; !main && i < finder->found->len; i++) {
        const struct found *other = finder->found->pdata[i];
        if (other->stream && g_str_equal(other->address, finder->address))
            g_object_set(other->stream->source, "connection-timeout", 0, NULL);
    }
    return found;
}

static const struct channel *finder_find_channel(const GPtrArray *channels, const gchar *address)
{
    for (guint i = 0; i < channels->len; i++) {
        const struct channel *channel = channels->pdata[i];
        if (g_str_equal(channel->address, address))
            return channel;
    }
    return NULL;
}

static struct found *find_stream(const struct finder *finder, const gchar *address)
{
    for (guint i = 0; i < finder->found->len; i++) {
        struct found *found = finder->found->pdata[i];
        if (g_str_equal(found->address, address))
            return found;
    }
    return NULL;
}

/* A stream that has ended may return when its sender is another one, or begins anew. FALSE: forget
 * it. */
static gboolean finder_keep(struct found *found, const struct channel *channel)
{
    if (found->stream && !g_atomic_int_get(&found->stream->ended))
        return TRUE;
    g_clear_pointer(&found->stream, stream_free);
    if (!channel || channel->pid != found->pid || (found->seen_ended && !channel->ended))
        return FALSE;
    found->seen_ended |= channel->ended;
    return TRUE;
}

/* A stream whose sender has vanished waits for the next one, but gives its place to a stream that
 * has a sender: that of the one that vanished first. */
static gboolean finder_has_room(struct finder *finder)
{
    guint count = 0;
    struct found *oldest = NULL;

    for (guint i = 0; i < finder->found->len; i++) {
        struct found *found = finder->found->pdata[i];
        count += found->stream != NULL;
        if (found->stream && has_vanished(finder, found) &&
            (!oldest || found->seen_at < oldest->seen_at))
            oldest = found;
    }
    if (count < STREAMS_MAX || (oldest && g_ptr_array_remove(finder->found, oldest)))
        return TRUE;
    if (!finder->said_full)
        GST_ELEMENT_WARNING(finder->params.programme->bin, RESOURCE, NO_SPACE_LEFT,
                            ("\"%s\" has more than %d streams: the others are left out.",
                             finder->address, STREAMS_MAX),
                            (NULL));
    finder->said_full = TRUE;
    return FALSE;
}

static void see_channel(struct finder *finder, const struct channel *channel)
{
    struct found *found = find_stream(finder, channel->address);

    if (!found && (channel->caps || finder->remote) && !channel->ended && finder_has_room(finder))
        found = add_stream(finder, channel->address, channel->caps);
    gboolean received = found && found->stream;
    if (received)
        found->pid = channel->pid;
    if (received && !found->announced) {
        if (channel->caps)
            stream_announce(found->stream, channel->caps);
        g_mutex_lock(&found->stream->lock);
        found->announced = found->stream->stream != NULL; /* by that, or its source has caps */
        g_mutex_unlock(&found->stream->lock);
        if (found->announced)
            finder->changed_at = g_get_monotonic_time();
        if (found->announced && !finder->begun_at)
            finder->begun_at = finder->changed_at;
    }
    if (finder->remote ? received && !found->announced
                       : channel->answered && !channel->ended && !channel->caps)
        finder->unformatted = TRUE;
}

static void finder_compare(struct finder *finder, const GPtrArray *channels)
{
    for (guint i = finder->found->len; i-- > 0;) {
        struct found *found = finder->found->pdata[i];
        const struct channel *channel = finder_find_channel(channels, found->address);
        if (channel)
            found->seen_at = finder->searched_at;
        if (!finder_keep(found, channel))
            g_ptr_array_remove_index(finder->found, i);
    }
    finder->unformatted = FALSE;
    for (guint i = 0; i < channels->len; i++)
        see_channel(finder, channels->pdata[i]);
}

/* --- the thread --------------------------------------------------------------------------- */

/* Whether all that the other host has is received, and is the same as last time. */
static gboolean is_settled(struct finder *finder, const GPtrArray *channels)
{
    gboolean settled = finder->complete && channels->len > 0;
    GString *names = g_string_new(NULL);

    for (guint i = 0; i < channels->len; i++)
        g_string_append_printf(names, "%s ", ((struct channel *)channels->pdata[i])->address);
    settled &= g_strcmp0(names->str, finder->names) == 0;
    g_free(finder->names);
    finder->names = g_string_free(names, FALSE);
    for (guint i = 0; i < finder->found->len; i++) {
        const struct found *found = finder->found->pdata[i];
        settled &= has_vanished(finder, found) ||
                   (found->stream && found->announced && !g_atomic_int_get(&found->stream->ended));
    }
    return settled;
}

static void search(struct finder *finder)
{
    gboolean changed = g_atomic_int_compare_and_exchange(&finder->changed, TRUE, FALSE);
    GPtrArray *own = g_ptr_array_new(); /* the channel, and its streams */

    finder->searched_at = g_get_monotonic_time();
    g_autoptr(GPtrArray) channels = channels_ask(
        finder->folder, finder->remote ? ANSWER_TIMEOUT_NETWORK : ANSWER_TIMEOUT, NULL);

    for (guint i = 0; i < channels->len; i++) {
        const gchar *address = ((struct channel *)channels->pdata[i])->address;
        if (g_str_equal(address, finder->address) || g_str_has_prefix(address, finder->prefix))
            g_ptr_array_add(own, channels->pdata[i]);
    }
    finder->polls = !device_watch_senders(finder->watch, own) || finder->remote;
    finder_compare(finder, own);
    g_ptr_array_unref(own);
    if (finder->remote && is_settled(finder, channels) && !changed)
        finder->period = MIN(2 * finder->period, PERIOD_MAX);
    else
        finder->period = PERIOD;
}

/* Whether it is time for what waits for all streams that begin together; otherwise sets *wait, in
 * ms. met: all that it waits for is there. */
static gboolean is_time(const struct finder *finder, gboolean met, gboolean at_once, gint *wait)
{
    gint64 now = g_get_monotonic_time();
    gint64 due = met ? finder->changed_at + SETTLED : finder->begun_at + FORMAT_MAX;

    if ((met && at_once) || now >= due)
        return TRUE;
    *wait = (gint)((due - now) / G_TIME_SPAN_MILLISECOND) + 1;
    return FALSE;
}

static gboolean all_have_pads(const struct finder *finder)
{
    for (guint i = 0; i < finder->found->len; i++) {
        const struct found *found = finder->found->pdata[i];
        if (found->stream && found->announced && !g_atomic_int_get(&found->stream->exposed))
            return FALSE;
    }
    return TRUE;
}

/* Publishes what was found, and emits no-more-pads, each when it is time. at_once: the streams were
 * there from the beginning. Returns when to come back, in ms; -1: at the next event. */
static gint finder_publish(struct finder *finder, gboolean at_once)
{
    struct collection *collection = finder->params.programme->collection;
    gint wait = -1;

    if (!finder->begun_at)
        return wait;
    if (collection_is_published(collection) ||
        is_time(finder, !finder->unformatted, at_once, &wait))
        collection_publish(collection);
    if (!finder->complete && collection_is_published(collection) &&
        is_time(finder, all_have_pads(finder), TRUE, &wait)) {
        finder->complete = TRUE;
        gst_element_no_more_pads(GST_ELEMENT(finder->params.programme->bin));
    }
    return wait;
}

static gint sooner(gint a, gint b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* In ms. Another host is not asked more often, whatever ends a wait. */
static gint until_next_search(const struct finder *finder)
{
    if (!finder->remote)
        return 0;
    gint64 passed = (g_get_monotonic_time() - finder->searched_at) / G_TIME_SPAN_MILLISECOND;

    return (gint)MAX(PERIOD - passed, 0);
}

/* What follows the address of another host, "/cam1"; NULL: nothing, or it is of this host. */
static const gchar *find_remote_name(const gchar *address)
{
    const gchar *host = gpud_address_get_host(address);
    const gchar *name = host ? strchr(host, '/') : NULL;

    return name && name[1] ? name : NULL;
}

/* A channel with a name may have streams. */
static gboolean may_have_streams(const gchar *address)
{
    return address[0] && !blocks_is_stream(address) &&
           (g_str_has_prefix(address, UNIX_PREFIX) || !strchr(address, ':') ||
            find_remote_name(address));
}

/* NULL: there is no descriptor for it. */
static struct device_watch *set_channel(struct finder *finder, const gchar *address)
{
    gboolean is_path = g_str_has_prefix(address, UNIX_PREFIX);
    const gchar *name = find_remote_name(address);
    g_autofree gchar *directory = NULL;

    g_free(finder->address);
    g_free(finder->prefix);
    g_clear_pointer(&finder->folder, g_free);
    finder->address = g_strdup(address);
    finder->prefix = g_strconcat(address, is_path ? "!" : "/", NULL);
    finder->remote = name != NULL;
    if (finder->remote) {
        finder->folder = g_strndup(address, (gsize)(name + 1 - address));
    } else if (is_path) {
        g_autofree gchar *folder = g_path_get_dirname(address + strlen(UNIX_PREFIX));
        finder->folder = g_strconcat(UNIX_PREFIX, folder, "/", NULL);
    }
    /* The watch comes first, so that changes during the search are events. */
    g_ptr_array_unref(channels_ask(finder->folder, 0, &directory));
    return device_watch_new(directory, FALSE);
}

gchar *finder_move_address(const gchar *address, const gchar *from, const gchar *to)
{
    const gchar *name = strlen(address) > strlen(from) ? address + strlen(from) + 1 : NULL;

    return g_strconcat(to, name ? (g_str_has_prefix(to, UNIX_PREFIX) ? "!" : "/") : "", name, NULL);
}

/* Goes on with the channel that is wanted, whose streams those that are there are, or are to be. */
static void take_wanted(struct finder *finder)
{
    g_mutex_lock(&finder->lock);
    g_autofree gchar *wanted = g_steal_pointer(&finder->wanted);
    g_mutex_unlock(&finder->lock);
    if (!wanted || g_str_equal(wanted, finder->address))
        return;
    for (guint i = finder->found->len; i-- > 0;) {
        struct found *found = finder->found->pdata[i];
        gchar *moved = finder_move_address(found->address, finder->address, wanted);
        g_free(found->address);
        found->address = moved;
        found->pid = 0;
        if (!found->stream) /* it is the old channel's that had ended */
            g_ptr_array_remove_index(finder->found, i);
    }
    struct device_watch *watch = set_channel(finder, wanted);
    g_mutex_lock(&finder->lock);
    struct device_watch *before = watch ? finder->watch : NULL;
    finder->watch = watch ? watch : finder->watch;
    g_mutex_unlock(&finder->lock);
    g_clear_pointer(&before, device_watch_free);
    finder->period = PERIOD;
    finder->searched_at = 0;
}

gboolean finder_follow(struct finder *finder, const gchar *address)
{
    if (!finder->watch || !may_have_streams(address))
        return FALSE;
    g_mutex_lock(&finder->lock);
    g_free(finder->wanted);
    finder->wanted = g_strdup(address);
    g_mutex_unlock(&finder->lock);
    finder_wake(finder);
    return TRUE;
}

static gpointer finder_run(gpointer data)
{
    struct finder *finder = data;
    g_autoptr(GPtrArray) gone = g_ptr_array_new_with_free_func(g_free);

    for (gboolean first = TRUE; !g_atomic_int_get(&finder->stopping); first = FALSE) {
        take_wanted(finder);
        if (first || until_next_search(finder) == 0)
            search(finder);
        gint wait = sooner(finder_publish(finder, first), finder->polls ? finder->period : -1);
        if (g_atomic_int_get(&finder->changed))
            wait = sooner(wait, until_next_search(finder));
        device_watch_wait(finder->watch, wait, gone);
    }
    return NULL;
}

/* --- beginning and end -------------------------------------------------------------------- */

/* FALSE: an error was posted. */
static gboolean start_search(struct finder *finder)
{
    finder->watch = set_channel(finder, finder->params.address);
    if (!finder->watch) {
        GST_ELEMENT_ERROR(finder->params.programme->bin, RESOURCE, FAILED,
                          ("Streams cannot be noticed as they appear: raise "
                           "fs.inotify.max_user_instances, or use gpudirectsrc for one stream."),
                          (NULL));
        return FALSE;
    }
    finder->thread = g_thread_new("gpudirect-streams", finder_run, finder);
    return TRUE;
}

struct finder *finder_start(const struct finder_params *params)
{
    struct finder *finder = g_new0(struct finder, 1);
    const gchar *address = params->address;

    finder->params = *params;
    finder->period = PERIOD;
    finder->address = g_strdup(address);
    finder->found = g_ptr_array_new_with_free_func(found_free);
    g_mutex_init(&finder->lock);
    add_stream(finder, finder->address, NULL);
    if (!may_have_streams(address))
        collection_close(params->programme->collection); /* there is nothing to wait for */
    else if (!start_search(finder))
        g_clear_pointer(&finder, finder_free);
    return finder;
}

void finder_wake(struct finder *finder)
{
    g_atomic_int_set(&finder->changed, TRUE);
    g_mutex_lock(&finder->lock);
    struct device_watch *watch = finder->watch;
    if (watch)
        device_watch_wake(watch);
    g_mutex_unlock(&finder->lock);
    if (watch)
        return;
    /* Without a thread there is one stream, which stays. */
    struct found *only = finder->found->pdata[0];
    if (!finder->complete && g_atomic_int_get(&only->stream->exposed) &&
        !g_atomic_int_get(&only->stream->ended)) {
        finder->complete = TRUE;
        gst_element_no_more_pads(GST_ELEMENT(finder->params.programme->bin));
    }
}

void finder_stop(struct finder *finder)
{
    g_atomic_int_set(&finder->stopping, TRUE);
    collection_close(finder->params.programme->collection);
    if (!finder->thread)
        return;
    finder_wake(finder);
    g_thread_join(g_steal_pointer(&finder->thread));
}

void finder_free(struct finder *finder)
{
    finder_stop(finder);
    g_ptr_array_unref(finder->found);
    g_clear_pointer(&finder->watch, device_watch_free);
    g_free(finder->folder);
    g_free(finder->names);
    g_free(finder->prefix);
    g_free(finder->address);
    g_free(finder->wanted);
    g_mutex_clear(&finder->lock);
    g_free(finder);
}
