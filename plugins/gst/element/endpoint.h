/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One end of a link: the code that gpudirectsink and gpudirectsrc share. Each embeds an endpoint,
 * which handles the shared properties, the device, the clock's name and the statistics. */
#ifndef GPUD_GST_BASE_ENDPOINT_H
#define GPUD_GST_BASE_ENDPOINT_H

#include "element/devicechoice.h"
#include "element/settings.h"
#include "base/counters.h"
#include "wire/clock.h"
#include "wire/lostmetas.h"

/* The ids of the shared read-only properties; an element's own ones begin with ENDPOINT_REPORT. */
enum {
    ENDPOINT_ACTIVE_PATH = 100,
    ENDPOINT_FALLBACK_REASON,
    ENDPOINT_REPORT,
    ENDPOINT_STATS = 200,
};

struct endpoint_route {
    gchar path[32]; /* "none" without a link */
    gchar fallback_reason[GPUD_REASON_MAX];
};

/* The functions that an element adds; all of them are required. */
struct endpoint_ops {
    /* Gets one of the element's read-only properties. Without a lock; FALSE: not its id. */
    gboolean (*get_report)(GstElement *element, guint id, GValue *value);

    /* Gets and sets the element's other properties. Under the object lock; FALSE: not its id. */
    gboolean (*get_property)(GstElement *element, guint id, GValue *value);
    gboolean (*set_property)(GstElement *element, guint id, const GValue *value);

    /* A property was set. Without a lock. */
    void (*changed)(GstElement *element, guint id);

    void (*get_route)(GstElement *element, struct endpoint_route *route);
    GstStructure *(*make_stats)(GstElement *element);
};

struct endpoint {
    GstElement *element;
    GstDebugCategory *category;
    const struct endpoint_ops *ops;

    struct settings settings; /* the properties; under the object lock */
    struct settings running;  /* a copy that is constant from start to stop */
    gboolean started;         /* under the object lock: from the beginning of start to stop */

    struct device_choice device;
    gint clock_kind; /* atomic: enum clock_kind of the pipeline's clock */
    gint stats_due;  /* atomic: the statistics have changed since they were last posted */
    struct counters *counters;
    struct lost_metas *lost_metas;
};

/* For class_init: installs properties, the pad template, and GstElement's methods set_clock,
 * set_context and post_message. */
void endpoint_class_init(GstElementClass *klass, const struct setting_texts *texts);

/* For the instance's init and finalize. */
void endpoint_init(struct endpoint *endpoint, GstElement *element, GstPad *pad,
                   GstDebugCategory *category, const struct endpoint_ops *ops);
void endpoint_clear(struct endpoint *endpoint);

/* After start only properties that are mutable while the element runs can change; after stop all.
 */
void endpoint_start(struct endpoint *endpoint);
void endpoint_stop(struct endpoint *endpoint);

/* The name of the pipeline's clock as it is now. Takes the object lock. */
const gchar *endpoint_name_clock(struct endpoint *endpoint, struct clock_name *name);

/* The same from the running settings, without a lock; for the streaming thread. */
enum clock_kind endpoint_get_clock(struct endpoint *endpoint, struct clock_name *name);

/* Something happened that the statistics count. */
static inline void endpoint_note_stats(struct endpoint *endpoint)
{
    __atomic_store_n(&endpoint->stats_due, TRUE, __ATOMIC_RELAXED);
}

/* Posts and logs the statistics, once until the next endpoint_note_stats(). Errors do so
 * automatically before they are posted. From any thread. */
void endpoint_post_stats(struct endpoint *endpoint);

/* From now on, posts them before an EOS passes the endpoint's pad, too. */
void endpoint_post_stats_at_eos(struct endpoint *endpoint);

/* What the peers and lists of channels show: the name of the pipeline, if the application gave it
 * one. NULL: it is GStreamer's own ("pipeline0"), and the program's name says more. To be freed
 * with g_free(). */
gchar *endpoint_find_pipeline_name(GstElement *element);

/* Intersects caps with the filter, in the filter's order; NULL: no filter. Takes the caps. */
GstCaps *endpoint_filter_caps(GstCaps *caps, GstCaps *filter);

#endif
