/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-monitor: what its files share. */
#ifndef GPUD_TOOLS_MONITOR_MONITOR_H
#define GPUD_TOOLS_MONITOR_MONITOR_H

#include "channels/channels.h"
#include <glib.h>
#include <gpudirect/gpudirect.h>

/* === content ================================================================================= */
/* What is in a stream, as pictures.c has seen it. */

/* Times by g_get_monotonic_time(); 0: not yet. All zeros: nothing was seen. */
struct monitor_content {
    gint64 seen;       /* the newest frame */
    gint64 moved, lit; /* of a picture: when it last was another one, and not black */
    gint64 loud;       /* of sound: when it was last above -60 dBFS */
    guint64 digest;    /* of the newest picture */
};

/* For how long it has been so, in seconds. NAN: it is no such stream, or not known now. */
struct monitor_content_ages {
    double frozen_s, black_s, silent_s;
};

/* === model =================================================================================== */
/* What the monitor knows: channels and receivers as they are now, the last ten minutes of each, and
 * what happened. Built from one answer to the next; for the main thread. */

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
    bool degraded;                /* an event has told so */
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

/* "studio1 (gst-launch-1.0)": what it calls itself, and its program where that is another word. */
char *monitor_name(const char *name, const char *program);

/* NULL: none. */
struct monitor_channel *monitor_model_find(const struct monitor_model *model, const char *address);

/* Sample 0 is the oldest. */
const struct monitor_sample *monitor_series_get(const struct monitor_series *series, unsigned at);

/* === expect ================================================================================== */
/* The channels that are expected: files with an address a line. */

/* paths: files, and folders of such files, up to a NULL. Returns a set of addresses; NULL: *error
 * says what is wrong, and on which line. To be freed with g_hash_table_unref(). */
GHashTable *monitor_expect_read(char *const *paths, GError **error);

/* === poll ==================================================================================== */
/* A thread that asks the channels once a second, so that one that hangs holds up no page. */

struct monitor_poll;

/* What a question finds out. */
struct monitor_answer {
    gint64 asked;         /* when, by g_get_monotonic_time() */
    GPtrArray *folders;   /* of channels_ask(); NULL: `error` says why */
    GHashTable *expected; /* of monitor_expect_read(); NULL: nothing is, or `expect_error` */
    struct gpud_error error;
    char *expect_error; /* NULL: none */
};

/* Called in the main thread, which may take folders and expected, and sets them to NULL then. */
typedef void (*monitor_poll_done)(void *user, struct monitor_answer *answer);

/* scope, expect (files and folders of expected channels, up to a NULL; NULL: none): must outlive
 * it. What is expected and does not lie in the scope is asked, too. */
struct monitor_poll *monitor_poll_start(const struct channels_scope *scope, char *const *expect,
                                        monitor_poll_done done, void *user);

/* Waits for the question under way: a second at most. */
void monitor_poll_stop(struct monitor_poll *poll);

/* === picture ================================================================================= */
/* What is in a channel as a small image: a frame as JPEG, the levels of sound as SVG. */

/* media: of the frame's stream. content: looks at the picture. The frame stays the caller's. NULL:
 * *error says why. */
GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_media *media,
                               struct monitor_content *content, struct gpud_error *error);

/* === thumbnails ============================================================================== */
/* An image a second of each channel that a page shows: its picture, or the levels of its sound; and
 * what is in those that are watched. */

struct monitor_thumbnails;

/* Files for channels over a network; NULL: not given. */
struct monitor_keys {
    char *psk_file, *tls_certificate, *tls_key, *tls_ca;
};

/* keys: outlives the thumbnails. NULL: *error says why. */
struct monitor_thumbnails *monitor_thumbnails_new(const struct monitor_keys *keys,
                                                  struct gpud_error *error);
void monitor_thumbnails_free(struct monitor_thumbnails *thumbnails);

/* The newest image of a channel, and its media type (IANA). NULL without an image: *reason is then
 * a sentence, to be freed with g_free(). The first call connects a receiver, which leaves some
 * seconds after the last one. Main thread. */
GBytes *monitor_thumbnails_get(struct monitor_thumbnails *thumbnails, const char *address,
                               const char **type, char **reason);

/* What is in a channel, which is looked at like one that a page shows. false: not known yet. */
bool monitor_thumbnails_watch(struct monitor_thumbnails *thumbnails, const char *address,
                              struct monitor_content *content);

/* === server ================================================================================== */
/* The page, its data and /metrics, over HTTP. Nothing can be changed over it, by GET and HEAD; but
 * POST /api/dismiss?channel=ADDRESS forgets a channel that is gone, or without one, all of them.
 * That needs the header "X-Gpudirect: dismiss", which no page of another site can send.
 *
 * On a loopback address any process of this host may ask. A browser's pages of other sites cannot:
 * the header Host has to name this host, so that no foreign name that resolves to it (DNS
 * rebinding) gets an answer, and no answer allows another origin. On any other address data needs
 * the token, as "Authorization: Bearer TOKEN". */

struct monitor_server;

/* listen: "ADDRESS:PORT"; NULL: 127.0.0.1:8477. Port 0: any free one. token: NULL: none; it is
 * required for what is not loopback. thumbnails: NULL: none are shown. NULL: *error says why. */
struct monitor_server *monitor_server_new(const char *listen, const char *token,
                                          struct monitor_model *model,
                                          struct monitor_thumbnails *thumbnails, GError **error);
void monitor_server_free(struct monitor_server *server);

/* "http://127.0.0.1:8477/" */
const char *monitor_server_url(const struct monitor_server *server);

/* === tui ===================================================================================== */
/* The model on a terminal. */

struct monitor_tui;

/* quit: called in the main thread at "q". NULL: this is not a terminal. */
struct monitor_tui *monitor_tui_new(struct monitor_model *model, void (*quit)(void *user),
                                    void *user);
/* Leaves the terminal as it was. */
void monitor_tui_free(struct monitor_tui *tui);

/* After a change of the model. */
void monitor_tui_draw(struct monitor_tui *tui);

#endif
