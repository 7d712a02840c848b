/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What all elements have. */
#ifndef GPUD_ELEMENT_ENDPOINT_H
#define GPUD_ELEMENT_ENDPOINT_H

#include "base/plugin.h"
#include "memory/memory.h"
#include "wire/codec.h"
#include <gpudirect/sender.h>
#include <gst/gst.h>
#include <gst/video/video.h>

/* === field =================================================================================== */
/* Properties, and the fields of structs that hold their values. A field has its property's type;
 * an enum is as large as an int. Strings are the field's own. What is as large as an int is read
 * and set atomically, for readers without a lock. */

void field_get(gconstpointer field, GValue *value);
void field_set(gpointer field, const GValue *value);

/* Installs properties, each with its index as the id; an entry may be NULL. */
void fields_install(GObjectClass *klass, GParamSpec *const *pspecs, guint count);

/* Registers an enum at the first call, as part of the plugin's API. values: static. */
GType enum_type(const gchar *name, const GEnumValue *values);

/* === settings ================================================================================ */
/* The properties that both elements have. */

/* The first property ids; an element's own begin with SETTING_COUNT. */
enum {
    SETTING_ADDRESS = 1,
    SETTING_DEVICE,
    SETTING_SLOTS,
    SETTING_SLOW_RECEIVER,
    SETTING_REQUIRE_DIRECT,
    SETTING_ACCESS,
    SETTING_PSK_FILE,
    SETTING_TLS_CERTIFICATE,
    SETTING_TLS_KEY,
    SETTING_TLS_CA,
    SETTING_ALLOW_UNAUTHENTICATED,
    SETTING_COMMON_CLOCK,
    SETTING_TRUST_URI,
    SETTING_COUNT,
};

/* A sink without a queue delays pictures by 20 ms: 5 of them at 240 a second. One more absorbs
 * their jitter. */
#define SLOTS_DEFAULT 6

/* Each element has two: the values of its properties, under its object lock, and a copy taken at
 * start, which is constant until stop and therefore read without a lock. */
struct settings {
    gchar *address, *device, *access, *psk_file, *tls_certificate, *tls_key, *tls_ca, *common_clock;
    guint slots;
    gboolean slots_set; /* by the application; else the default of sound and data is another one */
    enum gpud_slow_receiver slow_receiver; /* relaxed atomic: the sink reads it for each frame */
    gboolean require_direct;
    gboolean allow_unauthenticated; /* the end that listens */
    gboolean trust_uri;
};

/* The properties' descriptions, which differ between the two ends. */
struct setting_texts {
    const gchar *address, *device, *slots, *slow_receiver, *require_direct, *access, *psk_file;
    const gchar *allow_unauthenticated; /* NULL: the element has no such property */
    GParamFlags slow_receiver_when;     /* GST_PARAM_MUTABLE_… */
    GParamFlags address_when;           /* of the address, keys and certificates; likewise */
    const gchar *active_path, *stats;   /* of the reports, see endpoint.h */
    const gchar *pad;                   /* its name and direction */
    GstPadDirection direction;
};

void settings_init(struct settings *settings);
void settings_clear(struct settings *settings);
void settings_copy(struct settings *to, const struct settings *from);
void settings_copy_keys(struct settings *to, const struct settings *from); /* and certificates */
void settings_install(GObjectClass *klass, const struct setting_texts *texts);

/* Whether an element can start with these. FALSE: an error was posted. */
gboolean settings_check(GstElement *element, const struct settings *settings);

/* Whether a property may change now; started: the element runs, or is about to. If not, call
 * settings_refuse() outside the object lock, which warns the application. */
static inline gboolean settings_may_set(const GParamSpec *pspec, gboolean started)
{
    return !started || (pspec->flags & GST_PARAM_MUTABLE_PLAYING);
}

void settings_refuse(GstElement *element, const GParamSpec *pspec);

/* The field of a property, and setting it. NULL, FALSE: another property's id. Under the object
 * lock. */
gpointer settings_field(const struct settings *settings, guint id);
gboolean settings_set(struct settings *settings, guint id, const GValue *value);

/* === devicechoice ============================================================================ */
/* The device that an element works on: the one that the user names or, with `auto`, the GPU whose
 * memory its neighbours prefer. All functions take the element's object lock. */

struct device_choice {
    GstElement *element;
    GstPad *pad;                     /* towards the neighbours that `auto` queries */
    const struct settings *settings; /* the properties; under the object lock */
    GstDebugCategory *category;
    gint opened_on;               /* atomic: the GPU in use, or -1 */
    struct gpu_contexts contexts; /* under the object lock */
    gchar *reason;                /* what `auto` chose, and why, or NULL; under the object lock */
};

/* What the property `device` asks for; see gpu_use_of_device(). */
enum gpu_use device_choice_get_use(struct device_choice *choice, gint *number);

/* The device that the user named; "host", with a reason noted, for `auto`. g_free it. */
gchar *device_choice_get_named(struct device_choice *choice);

/* The vendor's GPU that the pipeline works on. g_free *reason. */
gint device_choice_find_gpu(struct device_choice *choice, const struct gpu_vendor *vendor,
                            gchar **reason);

/* Chooses a device before the stream starts; g_free it. *number: that of its GPU, or -1.
 * *undecided (may be NULL): the device is `auto`, and the neighbours prefer no GPU's memory. */
gchar *device_choice_choose(struct device_choice *choice, gint *number, gboolean *undecided);

/* Sets the reason for the choice of `auto`, which it takes; NULL: the user named the device. */
void device_choice_set_reason(struct device_choice *choice, gchar *reason);

/* Adds the field "device-reason", unless the user named the device. */
void device_choice_tell(struct device_choice *choice, GstStructure *stats);

/* Answers a query for a GPU's context. FALSE: the query is about something else. */
gboolean device_choice_answer_query(struct device_choice *choice, GstQuery *query);

/* === endpoint ================================================================================ */
/* One end of a link: the code that gpudirectsink and gpudirectsrc share. Each embeds an endpoint,
 * which handles the shared properties, the device, the clock's name and the statistics. */

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
    /* Gets and sets the element's own properties; set_property is called under the object lock.
     * FALSE: not its id. */
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
    gboolean degraded_reported; /* since the start; for the thread that is told of peers */
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

/* Posts a warning if the route to a peer that has connected is worse than the devices allow; once
 * from start to stop. */
void endpoint_report_route(struct endpoint *endpoint, const struct gpud_peer_info *peer);

/* What the peers and lists of channels show: the name of the pipeline, if the application gave it
 * one. NULL: it is GStreamer's own ("pipeline0"), and the program's name says more. To be freed
 * with g_free(). */
gchar *endpoint_find_pipeline_name(GstElement *element);

/* The caps of all that is known: pictures, sound and types of data, which are not all. The caller
 * unrefs them. */
GstCaps *endpoint_known_caps(void);

/* Intersects caps with the filter, in the filter's order; NULL: no filter. any_data: the filter's
 * caps of data follow. Takes the caps. */
GstCaps *endpoint_filter_caps(GstCaps *caps, GstCaps *filter, gboolean any_data);

/* === picture ================================================================================= */

enum picture_copied {
    PICTURE_COPIED,
    PICTURE_UNREADABLE, /* `from` holds no picture of these caps */
    PICTURE_UNWRITABLE,
};

/* Copies a picture by the CPU, and counts that as copies_cpu. */
enum picture_copied picture_copy(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to,
                                 struct counters *counters);

#endif
