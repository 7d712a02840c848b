/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which of a capture card's modes is chosen, and the message when none can be. */
#ifndef GPUD_GST_SRC_CAPTURECHOICE_H
#define GPUD_GST_SRC_CAPTURECHOICE_H

#include <gst/gst.h>

struct capture_wish {
    gint width, height; /* the signal's own size; 0: it has none */
    gchar format[16];   /* the card's current format; "": none that GStreamer knows */
};

/* The best of these modes, fixated. Takes caps; empty ones stay empty. The criteria, in this order:
 * raw video before Bayer, the signal's own size, the card's current format, a rate of 30 or the
 * nearest below, a size near 1920x1080, the card's own order. The rate is the mode's highest. */
GstCaps *capture_choose(GstCaps *caps, const struct capture_wish *wish);

/* Why downstream accepts (wanted) none of the card's modes (has), and what the card offers instead:
 * one sentence without a full stop (g_free it). */
gchar *capture_explain_refusal(const GstCaps *has, const GstCaps *wanted);

#endif
