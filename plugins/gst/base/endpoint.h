/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One end of a link: what gpudirectsink and gpudirectsrc have in common. Each embeds an endpoint,
 * which does their common properties, the device, the clock's name and the statistics. */
#ifndef GPUD_GST_BASE_ENDPOINT_H
#define GPUD_GST_BASE_ENDPOINT_H

#include "base/devicechoice.h"
#include "base/settings.h"
#include "counters.h"
#include "wire/clock.h"
#include "wire/lostmetas.h"

/* The ids of the read-only properties that both have; an element's own ones of that kind lie
 * between these, from ENDPOINT_REPORT on. */
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

/* What an element adds; every function is there. */
struct endpoint_ops {
    /* A read-only property of its own. Without a lock; FALSE: the id is none. */
    gboolean (*get_report)(GstElement *element, guint id, GValue *value);

    /* Another property of its own. Under the object lock; FALSE: the id is none. */
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
    struct settings running;  /* a copy, which does not change from start to stop */
    gboolean started;         /* under the object lock: from the beginning of start to stop */

    struct device_choice device;
    gint clock_kind; /* atomic: enum clock_kind of the pipeline's clock */
    gint stats_due;  /* atomic: something happened that the statistics at the end are to show */
    struct counters *counters;
    struct lost_metas *lost_metas;
};

/* In the class's init: properties, pad template, and GstElement's methods set_clock, set_context
 * and post_message. */
void endpoint_class_init(GstElementClass *klass, const struct setting_texts *texts);

/* In the instance's init and finalize. */
void endpoint_init(struct endpoint *endpoint, GstElement *element, GstPad *pad,
                   GstDebugCategory *category, const struct endpoint_ops *ops);
void endpoint_clear(struct endpoint *endpoint);

/* From now on only those properties change that may do so while the element runs; and: all. */
void endpoint_start(struct endpoint *endpoint);
void endpoint_stop(struct endpoint *endpoint);

/* The name of the pipeline's clock as it is now. Takes the object lock. */
const gchar *endpoint_name_clock(struct endpoint *endpoint, struct clock_name *name);

/* The same by the settings that the element runs by; for the streaming thread. */
enum clock_kind endpoint_get_clock(struct endpoint *endpoint, struct clock_name *name);

/* Something happened that the statistics count. */
static inline void endpoint_note_stats(struct endpoint *endpoint)
{
    __atomic_store_n(&endpoint->stats_due, TRUE, __ATOMIC_RELAXED);
}

/* Posts and logs the statistics, once until the next endpoint_note_stats(). Done by itself before
 * an error is posted. From any thread. */
void endpoint_post_stats(struct endpoint *endpoint);

/* Also before an EOS leaves through the endpoint's pad. */
void endpoint_post_stats_at_eos(struct endpoint *endpoint);

/* Caps in the filter's order, or as they are without one. Takes the caps. */
GstCaps *endpoint_filter_caps(GstCaps *caps, GstCaps *filter);

#endif
