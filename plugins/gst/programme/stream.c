/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "programme/stream.h"

#include "memory/gpu.h"
#include "wire/blocks.h"
#include "wire/event.h"

#include <string.h>

#define PAD_MAIN "src"
#define PAD_OTHERS "src_%s"

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

    if (!blocks_are_caps(caps))
        return GST_STREAM_TYPE_VIDEO;
    if (g_str_has_prefix(name, "audio/"))
        return GST_STREAM_TYPE_AUDIO;
    return g_str_has_prefix(name, "text/") || g_str_has_prefix(name, "closedcaption/")
               ? GST_STREAM_TYPE_TEXT
               : GST_STREAM_TYPE_UNKNOWN;
}

static void push_collection(struct stream *stream)
{
    GstEvent *event = collection_event(stream->programme->collection, &stream->version);

    if (event)
        gst_pad_push_event(stream->pad, event);
}

static void set_name(struct stream *stream)
{
    GstElement *bin = GST_ELEMENT(stream->programme->bin);
    gchar *name = stream->name ? g_strdup_printf(PAD_OTHERS, stream->name) : g_strdup(PAD_MAIN);

    gst_object_set_name(GST_OBJECT(stream->pad), name);
    g_object_set(stream->pad, "template",
                 gst_element_get_pad_template(bin, stream->name ? PAD_OTHERS : PAD_MAIN), NULL);
    g_free(name);
}

void stream_announce(struct stream *stream, GstCaps *caps)
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
            GstTagList *tags = gst_tag_list_new(GST_TAG_TITLE, stream->name, NULL);
            gst_stream_set_tags(stream->stream, tags);
            gst_tag_list_unref(tags);
        }
    }
    g_mutex_unlock(&stream->lock);
    if (first)
        collection_add(stream->programme->collection, stream->stream);
}

gboolean stream_is_announced(struct stream *stream)
{
    g_mutex_lock(&stream->lock);
    gboolean announced = stream->stream != NULL;
    g_mutex_unlock(&stream->lock);
    return announced;
}

/* The source has caps: now elements and applications see the pad with what they choose by. */
static void expose(struct stream *stream, GstCaps *caps)
{
    struct collection *collection = stream->programme->collection;

    stream_announce(stream, caps);
    stream->programme->changed(stream->programme->user);
    collection_wait(collection);
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
    set_name(stream);
    g_mutex_lock(&collection->exposing);
    gst_element_add_pad(GST_ELEMENT(stream->programme->bin), stream->pad);
    g_mutex_unlock(&collection->exposing);
    g_atomic_int_set(&stream->exposed, TRUE);
    stream->programme->changed(stream->programme->user);
}

static gboolean take_caps(struct stream *stream, GstEvent *event)
{
    GstCaps *caps;

    gst_event_parse_caps(event, &caps);
    if (stream_has_pad(stream))
        gst_stream_set_caps(stream->stream, caps);
    else
        expose(stream, caps);
    return gst_pad_push_event(stream->pad, gst_event_ref(event));
}

/* Before the source's caps only the start of its stream comes, or its end. */
static gboolean on_event(GstPad *inner, GstObject *parent, GstEvent *event)
{
    struct stream *stream = gst_pad_get_element_private(inner);
    gboolean ends = GST_EVENT_TYPE(event) == GST_EVENT_EOS, taken = TRUE;

    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_STREAM_START: /* its own follows with the caps */
        break;
    case GST_EVENT_CAPS:
        taken = take_caps(stream, event);
        break;
    default:
        if (event_is_opened(event))
            stream->programme->changed(stream->programme->user);
        else if (stream_has_pad(stream))
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

static GstPad *make_pad(struct stream *stream)
{
    GstPad *src = gst_element_get_static_pad(stream->source, "src");
    GstPad *pad = gst_object_ref_sink(gst_ghost_pad_new(NULL, src));
    GstPad *inner = GST_PAD(gst_proxy_pad_get_internal(GST_PROXY_PAD(pad)));

    gst_pad_set_element_private(inner, stream);
    gst_pad_set_event_function(inner, on_event);
    gst_pad_set_chain_function(inner, on_buffer);
    gst_pad_set_active(pad, TRUE);
    gst_object_unref(inner);
    gst_object_unref(src);
    return pad;
}

/* --- its life ----------------------------------------------------------------------------- */

struct stream *stream_new(const struct stream_programme *programme, GstElement *source,
                          const gchar *name)
{
    struct stream *stream = g_new0(struct stream, 1);

    stream->programme = programme;
    g_mutex_init(&stream->lock);
    stream->name = g_strdup(name);
    stream->source = gst_object_ref_sink(source);
    gst_bin_add(programme->bin, source); /* which unlinks its pads */
    stream->pad = make_pad(stream);
    gst_element_sync_state_with_parent(source);
    return stream;
}

void stream_free(struct stream *stream)
{
    /* The bin's own changes of state leave it alone from here on. */
    gst_element_set_locked_state(stream->source, TRUE);
    gst_element_set_state(stream->source, GST_STATE_NULL);
    if (stream->stream)
        collection_remove(stream->programme->collection, stream->stream);
    gst_pad_set_active(stream->pad, FALSE);
    if (stream_has_pad(stream))
        gst_element_remove_pad(GST_ELEMENT(stream->programme->bin), stream->pad);
    gst_bin_remove(stream->programme->bin, stream->source);
    gst_clear_object(&stream->stream);
    gst_object_unref(stream->pad);
    gst_object_unref(stream->source);
    g_mutex_clear(&stream->lock);
    g_free(stream->name);
    g_free(stream);
}

GstElement *stream_source(const struct stream *stream)
{
    return stream->source;
}

gboolean stream_has_pad(const struct stream *stream)
{
    return g_atomic_int_get(&stream->exposed);
}

gboolean stream_has_ended(const struct stream *stream)
{
    return g_atomic_int_get(&stream->ended);
}

void stream_install_templates(GstElementClass *klass)
{
    static const gchar *const names[] = {PAD_MAIN, PAD_OTHERS};
    GstCaps *caps = gpu_template_caps();

    gst_caps_append(caps, blocks_template_caps());
    for (guint i = 0; i < G_N_ELEMENTS(names); i++)
        gst_element_class_add_pad_template(
            klass, gst_pad_template_new(names[i], GST_PAD_SRC, GST_PAD_SOMETIMES, caps));
    gst_caps_unref(caps);
}
