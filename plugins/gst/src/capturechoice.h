/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which of a capture card's modes is chosen, and the message when none can be. */
#ifndef GPUD_GST_SRC_CAPTURECHOICE_H
#define GPUD_GST_SRC_CAPTURECHOICE_H

#include <gst/gst.h>

struct capture_wish {
    gint width, height; /* the signal's own size; 0: it has none */
    gchar format[16];   /* that the card is set to; "": none that GStreamer knows */
};

/* The best of these modes, fixated. Takes caps; empty ones stay empty. In this order: samples that
 * can be shown before a sensor's mosaic, the signal's own size, the format that the card is set to,
 * a rate of 30 or the nearest below, a size near 1920x1080, the card's own order. The rate is the
 * highest of the mode's. */
GstCaps *capture_choose(GstCaps *caps, const struct capture_wish *wish);

/* Why no mode of the card (has) is one that downstream takes (wanted), and what there is instead:
 * one sentence without a full stop (g_free it). */
gchar *capture_explain_refusal(const GstCaps *has, const GstCaps *wanted);

#endif
