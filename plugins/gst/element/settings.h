/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties that both elements have. */
#ifndef GPUD_GST_BASE_SETTINGS_H
#define GPUD_GST_BASE_SETTINGS_H

#include <gpudirect/sender.h>
#include <gst/gst.h>

/* The first property ids; an element's own begin with SETTING_COUNT. */
enum {
    SETTING_ADDRESS = 1,
    SETTING_DEVICE,
    SETTING_SLOTS,
    SETTING_SLOW_RECEIVER,
    SETTING_REQUIRE_DIRECT,
    SETTING_ACCESS,
    SETTING_PSK_FILE,
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
    gchar *address, *device, *access, *psk_file, *common_clock;
    guint slots;
    gboolean slots_set; /* by the application; else the default of sound and data is another one */
    enum gpud_slow_receiver slow_receiver;
    gboolean require_direct;
    gboolean allow_unauthenticated; /* the end that listens */
    gboolean trust_uri;
};

/* The properties' descriptions, which differ between the two ends. */
struct setting_texts {
    const gchar *address, *device, *slots, *slow_receiver, *require_direct, *access, *psk_file;
    const gchar *allow_unauthenticated; /* NULL: the element has no such property */
    GParamFlags slow_receiver_when;     /* GST_PARAM_MUTABLE_… */
    const gchar *active_path, *stats;   /* of the reports, see endpoint.h */
    const gchar *pad;                   /* its name and direction */
    GstPadDirection direction;
};

void settings_init(struct settings *settings);
void settings_clear(struct settings *settings);
void settings_copy(struct settings *to, const struct settings *from);

void settings_install(GObjectClass *klass, const struct setting_texts *texts);

/* Whether an element can start with these. FALSE: an error was posted. */
gboolean settings_check(GstElement *element, const struct settings *settings);

/* Whether a property may change now; started: the element runs, or is about to. If not, call
 * settings_refuse() outside the object lock, which warns the application. */
gboolean settings_may_set(const GParamSpec *pspec, gboolean started);
void settings_refuse(GstElement *element, const GParamSpec *pspec);

/* FALSE: another property's id. */
gboolean settings_get(const struct settings *settings, guint id, GValue *value);
gboolean settings_set(struct settings *settings, guint id, const GValue *value);

#endif
