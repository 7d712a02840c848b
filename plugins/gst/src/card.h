/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties input and extra-controls of a capture card. */
#ifndef GPUD_GST_SRC_CARD_H
#define GPUD_GST_SRC_CARD_H

#include "src/feed.h"

struct card_settings {
    gchar *input;           /* NULL: the card's current one */
    GstStructure *controls; /* NULL: none */
    gint input_changed;     /* atomic: the streaming thread has not selected it yet */
};

void card_install(GObjectClass *klass, guint input_id, guint controls_id);

/* Under the object lock. */
void card_take_input(struct card_settings *card, const GValue *value);
void card_take_controls(struct card_settings *card, const GValue *value);

void card_clear(struct card_settings *card);

/* Sets the open card's controls, or posts a warning. From any thread. */
void card_apply_controls(struct card_settings *card, struct feed *feed, GstElement *element);

/* Selects an input requested since the last call, or posts a warning. Streaming thread only,
 * because the buffers are lost with the old input. */
void card_select_input(struct card_settings *card, struct feed *feed, GstElement *element);

#endif
