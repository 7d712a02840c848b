/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sources of gpudirectsrc's frames: a link to a sender (link.c), links to a main and a backup
 * sender (pair.c), a capture card (capture.c), or a third-party writer (target.c). */
#ifndef GPUD_GST_SRC_INPUT_H
#define GPUD_GST_SRC_INPUT_H

#include "src/capturechoice.h"
#include "wire/timing.h"

#include <gpudirect/receiver.h>
#include <gst/gst.h>

struct input_params {
    const gchar *address, *device;
    const gchar *name;           /* for the sender; NULL: the program's */
    const gchar *backup_address; /* of a pair */
    GstClockTime freeze_timeout; /* of a pair; 0: none */
    const gint *preferred; /* of a pair: atomic, lives as long as the input; 0: main, 1: backup */
    const gchar *access, *psk_file; /* of senders; a capture card has none */
    guint slots;
    gboolean slots_set; /* else a sender's number counts */
    enum gpud_slow_receiver slow_receiver;
    gboolean require_direct;
    const gchar *method;               /* a capture card's; NULL: the best that works */
    const gchar *card_input;           /* NULL: the card's current one */
    const GstStructure *card_controls; /* NULL: none */
    guint64 max_frame_size;
    guint busy_poll; /* µs; waiting for a capture card's frames always sleeps */
    /* Events of a link, called inside acquire; a capture card has none. */
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    /* The application is to be warned; called inside acquire. */
    void (*on_notice)(void *user, const gchar *text);
    void *user;
};

struct input_info {
    gboolean connected;
    gchar path[32];
    gchar device[32]; /* the device that frames arrive on; filled by the element */
    gchar fallback_reason[GPUD_REASON_MAX];
    guint64 frames, dropped, corrupted, connects, disconnects;
    guint64 copies_cpu, copies_gpu, waits_cpu, waits_device, kicks;
    guint64 latency_p50, latency_p99, latency_max;
    gboolean no_signal; /* at a card's input, and why */
    gchar signal_reason[160];
    gchar card_input[32];  /* the name of a card's input; "": it has none */
    const gchar *stamps;   /* the moment of a card driver's timestamps, as text; NULL: no card */
    gboolean stamps_start; /* it is the start of exposure */
    guint slots;           /* of a link's ring; 0: not connected yet */
    guint slots_max;       /* the most that the sender gives; 0: not known, or it cannot be asked */
    guint64 hold;          /* how long a pair may hold a frame, ns */
};

struct input {
    const struct input_ops *ops;
    guint skip; /* of the acquired block of sound: samples that were passed on before */
};

struct input_ops {
    const gchar *what; /* "the sender", "the capture card": for messages */

    enum gpud_status (*open)(const struct input_params *params, struct input **input,
                             struct gpud_error *error);
    void (*close)(struct input *input); /* frames that are held stay valid */

    enum gpud_status (*acquire)(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                struct gpud_error *error);
    guint (*count_frames)(struct input *input); /* that wait; NULL: it cannot tell */
    /* Reports the latency of the last acquired frame to the other side; NULL: none. */
    void (*set_latency)(struct input *input, guint64 latency);
    void (*interrupt)(struct input *input, gboolean interrupted); /* from any thread */
    /* Asks the sender for so many slots; from any thread. NULL: their number is fixed. */
    void (*want_slots)(struct input *input, guint slots);
    /* For a card that captures; the controls from any thread. */
    enum gpud_status (*set_input)(struct input *input, const gchar *name, struct gpud_error *error);
    enum gpud_status (*set_controls)(struct input *input, const GstStructure *controls,
                                     struct gpud_error *error);
    void (*get_info)(struct input *input, struct input_info *info); /* from any thread */

    /* get_caps: the formats that the input offers; filter (or NULL) says which of them matter.
     * configure: sets one of them, adds what the driver knows to *caps, and returns the frames'
     * *layout. NULL: the sender decides, and announces it by GPUD_EVENT_FORMAT. */
    GstCaps *(*get_caps)(struct input *input, const GstCaps *filter);
    enum gpud_status (*configure)(struct input *input, GstCaps **caps, struct gpud_layout *layout,
                                  struct gpud_error *error);
    /* The input has no format of its own: downstream has to state format and size. */
    gboolean needs_stated_format;
    /* A card: the signal may be lost, or change with a frame's epoch. */
    gboolean has_signal;
    /* Stops a card's capture in READY, where it stays open because its formats are queried. */
    void (*stop)(struct input *input);
    /* After an acquire has returned GPUD_NO_DEVICE, until this returns GPUD_OK: waits for the
     * unplugged card. */
    enum gpud_status (*wait)(struct input *input, gint64 timeout, struct gpud_error *error);
    /* The caps and layout of the current signal's frames; NULL: *reason says why GStreamer has no
     * caps for it (g_free it). */
    GstCaps *(*get_current)(struct input *input, struct gpud_layout *layout, gchar **reason);
    /* Of a pair, which looks like one sender that stays: place puts a frame on the time line that
     * both senders share; get_active: "main", "backup", or "none" yet. NULL: it is no pair. */
    void (*place)(struct input *input, struct gpud_frame_info *info, struct wire_head *head);
    void (*add_stats)(struct input *input, GstStructure *stats);
    const gchar *(*get_active)(struct input *input);
    /* The preferences by which one of the formats is chosen. */
    void (*get_wish)(struct input *input, struct capture_wish *wish);
};

extern const struct input_ops link_input_ops, pair_input_ops, capture_input_ops, target_input_ops;

/* The scheme of addresses of rings for third-party writers. */
#define TARGET_SCHEME "target:"

/* By the address's scheme. */
const struct input_ops *input_ops_for(const gchar *address);

#endif
