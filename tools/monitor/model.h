/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the monitor knows: channels and receivers as they are now, the last ten minutes of each, and
 * what happened. Built from one answer to the next; for the main thread. */
#ifndef GPUD_TOOLS_MONITOR_MODEL_H
#define GPUD_TOOLS_MONITOR_MODEL_H

#include "channels/ask.h"
#include "monitor/content.h"

/* The name of the monitor's own receivers, which take thumbnails. */
#define MONITOR_NAME "gpudirect-monitor"

#define MONITOR_HISTORY 600 /* samples: one a second */
#define MONITOR_WINDOW 10   /* seconds over which rates and latencies are taken */
#define MONITOR_EVENTS 500  /* the channel with the most loses its oldest one first */
#define MONITOR_GONE 256    /* channels that are remembered, for a day; the oldest one goes first */

/* Numbers that only grow, as of one moment. */
struct monitor_counts {
    gint64 time; /* when they were asked for, by g_get_monotonic_time() */
    uint64_t frames, dropped;
    uint64_t latency_bucket[GPUD_LATENCY_BUCKETS];
};

struct monitor_sample {
    float rate_hz, latency_p99_s; /* NAN: unknown */
    uint32_t dropped;             /* in this second */
};

/* The newest `count` samples; `next` is where the following one goes. */
struct monitor_series {
    struct monitor_counts window[MONITOR_WINDOW + 1]; /* newest last */
    unsigned in_window;
    struct monitor_sample sample[MONITOR_HISTORY];
    unsigned next, count;
};

/* Over the window; NAN: unknown. A latency is the bound of its bucket, so that it is "at most";
 * INFINITY: beyond the last bound. */
struct monitor_figures {
    double rate_hz, latency_p50_s, latency_p99_s, dropped_hz;
};

struct monitor_receiver {
    struct gpud_link_info info;
    struct monitor_series series;
    struct monitor_figures figures;
    bool is_own;                  /* takes this monitor's thumbnails */
    bool seen;                    /* in the newest answer */
    gint64 loss_since, loss_last; /* 0: it loses nothing */
    uint64_t lost;                /* since loss_since */
};

enum monitor_presence {
    MONITOR_THERE,
    MONITOR_GONE_SINCE, /* it was there, and is remembered */
    MONITOR_NEVER,      /* it is expected, or receivers wait for it */
};

/* How much of a trouble a channel is. */
enum monitor_severity { MONITOR_OFF, MONITOR_GOOD, MONITOR_WARNING, MONITOR_BAD };

struct monitor_channel {
    struct gpud_channel_info info; /* without `link`; of one that is not there, as it was last */
    enum monitor_presence presence;
    enum channels_end end; /* of one that is gone */
    gint64 absent_since;   /* g_get_real_time(); of one that is not there */
    bool expected;         /* the monitor's list has it */
    GPtrArray *waiting;    /* struct channels_waiter, of the newest answer */
    enum monitor_severity severity;
    char state[32];                  /* in a word or two, for people */
    char media[GPUD_MEDIA_TEXT_MAX]; /* as caps */
    char brief[128];                 /* "UYVY 1920×1080 at 50", "48 kHz, 2 channels, S16LE" */
    struct monitor_series series;
    struct monitor_figures figures;
    GPtrArray *receivers;             /* struct monitor_receiver, by id */
    bool has_signal;                  /* frames come, or its stream has ended */
    struct monitor_content content;   /* where it is watched */
    struct monitor_content_ages ages; /* as of the newest answer */
    bool seen;
};

struct monitor_event {
    uint64_t number; /* from 1 on */
    gint64 time;     /* g_get_real_time() */
    const char *kind;
    char *channel; /* its address; "": none */
    char *text;
};

struct monitor_model {
    GPtrArray *channels; /* struct monitor_channel, by address */
    GQueue events;       /* struct monitor_event, newest last */
    uint64_t event_count;
    GPtrArray *notes;     /* char *: what the list lacks */
    GHashTable *expected; /* addresses; NULL: none */
    GPtrArray *folders;   /* the newest answer, as channels_ask() gives it; NULL: none */
    gint64 updated;       /* g_get_real_time(); 0: never */
};

struct monitor_model *monitor_model_new(void);
void monitor_model_free(struct monitor_model *model);

/* Takes an answer of channels_ask(); NULL: none, and `reason` says why. asked: when, by
 * g_get_monotonic_time(). Rates are over the time between questions: an answer may be taken much
 * later than it was given. */
void monitor_model_update(struct monitor_model *model, gint64 asked, GPtrArray *folders,
                          const char *reason);

/* The addresses that are to be there, from the next update on; a set, which it takes. NULL: none.
 */
void monitor_model_expect(struct monitor_model *model, GHashTable *expected);

/* Something that the newest answer lacks. */
void monitor_model_note(struct monitor_model *model, const char *note);

/* Forgets a channel that is gone; NULL: all of them. One that is expected stays. Returns how many
 * are forgotten. */
guint monitor_model_dismiss(struct monitor_model *model, const char *address);

/* Channels that are a trouble. */
guint monitor_model_count_troubles(const struct monitor_model *model);

/* "studio1 (gst-launch-1.0)": what it calls itself, and its program where that is another word. */
char *monitor_name(const char *name, const char *program);

/* NULL: none. */
struct monitor_channel *monitor_model_find(const struct monitor_model *model, const char *address);

/* Sample 0 is the oldest. */
const struct monitor_sample *monitor_series_get(const struct monitor_series *series, unsigned at);

#endif
