/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where gpudirectsrc's frames come from: a link to a sender (link.c), a capture card
 * (capture.c), or a writer outside (target.c). */
#ifndef GPUD_GST_SRC_INPUT_H
#define GPUD_GST_SRC_INPUT_H

#include "src/capturechoice.h"

#include <gpudirect/receiver.h>
#include <gst/gst.h>

struct input_params {
    const gchar *address, *device;
    const gchar *access, *psk_file; /* of senders; a capture card has none */
    guint slots;
    enum gpud_slow_receiver slow_receiver;
    gboolean require_direct;
    const gchar *method;               /* a capture card's; NULL: the best that works */
    const gchar *card_input;           /* NULL: the one that it is set to */
    const GstStructure *card_controls; /* NULL: none */
    guint busy_poll;                   /* µs; waiting for a capture card's frames always sleeps */
    /* Events of a link, called inside acquire; a capture card has none. */
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void *user;
};

struct input_info {
    gboolean connected;
    gchar path[32];
    gchar device[32]; /* that frames arrive on; filled by the element */
    gchar fallback_reason[GPUD_REASON_MAX];
    guint64 frames, dropped, corrupted, connects, disconnects;
    guint64 copies_cpu, copies_gpu, waits_cpu, waits_device, kicks;
    guint64 latency_p50, latency_p99, latency_max;
    gboolean no_signal; /* at a card's input, and why */
    gchar signal_reason[160];
    gchar card_input[32];  /* a card's, by its name; "": it has none */
    const gchar *stamps;   /* what a card's driver says to when each frame was captured; NULL: none
                              has a driver */
    gboolean stamps_start; /* that is when its exposure began */
    guint slots;           /* of a link's ring; 0: not connected yet */
};

struct input {
    const struct input_ops *ops;
};

struct input_ops {
    const gchar *what; /* "the sender", "the capture card": for messages */

    enum gpud_status (*open)(const struct input_params *params, struct input **input,
                             struct gpud_error *error);
    void (*close)(struct input *input); /* frames that are held stay valid */

    enum gpud_status (*acquire)(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                struct gpud_error *error);
    guint (*count_frames)(struct input *input); /* that wait; NULL: it cannot tell */
    /* Reports the latency of the last acquired frame to the other side; NULL: there is none. */
    void (*set_latency)(struct input *input, guint64 latency);
    void (*interrupt)(struct input *input, gboolean interrupted); /* from any thread */
    /* A card's, while it captures; the controls from any thread. */
    enum gpud_status (*set_input)(struct input *input, const gchar *name, struct gpud_error *error);
    enum gpud_status (*set_controls)(struct input *input, const GstStructure *controls,
                                     struct gpud_error *error);
    void (*get_info)(struct input *input, struct input_info *info); /* from any thread */

    /* The formats that it offers (filter: only what it has in common with these matters; NULL), and
     * the choice of one, *caps, to which it adds what is known of
     * the frames that will come, whose layout is *layout. NULL: the other side decides, and says so
     * by GPUD_EVENT_FORMAT. */
    GstCaps *(*get_caps)(struct input *input, const GstCaps *filter);
    enum gpud_status (*configure)(struct input *input, GstCaps **caps, struct gpud_layout *layout,
                                  struct gpud_error *error);
    /* It offers nothing by itself: downstream has to say which format and size it shall be. */
    gboolean is_told_format;
    /* A card: the signal may be lost, or become another one, by another frame's epoch. */
    gboolean has_signal;
    /* A card's: it is opened in READY, where its formats are known, and stops capturing there. */
    void (*stop)(struct input *input);
    /* After an acquire that gave GPUD_NO_DEVICE, until GPUD_OK: waits for the card that was
     * unplugged. */
    enum gpud_status (*wait)(struct input *input, gint64 timeout, struct gpud_error *error);
    /* The caps, and layout, of frames of the signal as it is now; NULL: *reason says why GStreamer
     * has none (g_free it). */
    GstCaps *(*get_current)(struct input *input, struct gpud_layout *layout, gchar **reason);
    /* By what one of the formats is chosen. */
    void (*get_wish)(struct input *input, struct capture_wish *wish);
};

extern const struct input_ops link_input_ops, capture_input_ops, target_input_ops;

/* Before the name of a ring that a writer outside fills. */
#define TARGET_SCHEME "target:"

/* By the address's scheme. */
const struct input_ops *input_ops_for(const gchar *address);

#endif
