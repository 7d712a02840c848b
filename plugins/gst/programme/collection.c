/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "programme/collection.h"

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

void collection_close(struct collection *collection)
{
    g_mutex_lock(&collection->lock);
    collection->closed = TRUE;
    g_cond_broadcast(&collection->published);
    g_mutex_unlock(&collection->lock);
}

void collection_add(struct collection *collection, GstStream *stream)
{
    g_mutex_lock(&collection->lock);
    g_ptr_array_add(collection->streams, gst_object_ref(stream));
    collection->changed = TRUE;
    g_mutex_unlock(&collection->lock);
}

void collection_remove(struct collection *collection, GstStream *stream)
{
    g_mutex_lock(&collection->lock);
    g_ptr_array_remove(collection->streams, stream);
    collection->changed = TRUE;
    g_mutex_unlock(&collection->lock);
}

/* Under the lock. */
static void renew(struct collection *collection)
{
    gst_clear_object(&collection->current);
    collection->current = gst_stream_collection_new(NULL);
    for (guint i = 0; i < collection->streams->len; i++)
        gst_stream_collection_add_stream(collection->current,
                                         gst_object_ref(collection->streams->pdata[i]));
    collection->version++;
    collection->changed = FALSE;
    g_cond_broadcast(&collection->published);
}

void collection_publish(struct collection *collection)
{
    GstMessage *message = NULL;

    g_mutex_lock(&collection->lock);
    if (collection->changed) {
        renew(collection);
        message =
            gst_message_new_stream_collection(GST_OBJECT(collection->element), collection->current);
    }
    g_mutex_unlock(&collection->lock);
    if (message)
        gst_element_post_message(collection->element, message);
}

gboolean collection_is_published(struct collection *collection)
{
    g_mutex_lock(&collection->lock);
    gboolean published = collection->version > 0;
    g_mutex_unlock(&collection->lock);
    return published;
}

void collection_wait(struct collection *collection)
{
    gint64 deadline = g_get_monotonic_time() + WAIT_MAX;
    gboolean in_time = TRUE;

    g_mutex_lock(&collection->lock);
    while (collection->version == 0 && !collection->closed && in_time)
        in_time = g_cond_wait_until(&collection->published, &collection->lock, deadline);
    g_mutex_unlock(&collection->lock);
}

GstEvent *collection_event(struct collection *collection, guint *version)
{
    GstEvent *event = NULL;

    g_mutex_lock(&collection->lock);
    if (*version != collection->version)
        event = gst_event_new_stream_collection(collection->current);
    *version = collection->version;
    g_mutex_unlock(&collection->lock);
    return event;
}
