/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc in a harness, and on its address a scripted sender (see support/raw.h) that breaks
 * the protocol on purpose. */
#ifndef GPUD_TESTS_PLUGINS_HOSTILE_H
#define GPUD_TESTS_PLUGINS_HOSTILE_H

#include "ends.h"
#include "support/raw.h"

struct hostile {
    struct raw_server server;
    GstHarness *src;
    GstBus *bus;
};

/* Opens both ends, with GRAY8 pictures of this size; there is no connection yet. */
void hostile_open(struct hostile *self, const gchar *properties, guint width, guint height);
void hostile_close(struct hostile *self);

/* From now on the ring holds pictures of this size. */
void hostile_reshape(struct hostile *self, guint width, guint height);

/* A message in its place behind what was published. FALSE: it did not go. */
gboolean hostile_say(struct hostile *self, struct gpud_message *message);

/* A user event of the plugin's; FALSE: the receiver takes no more. */
gboolean hostile_event(struct hostile *self, uint32_t kind, const void *bytes, size_t size);

/* A picture whose descriptor says this; slot and sequence are filled in. */
void hostile_publish(struct hostile *self, const struct gpud_descriptor *described);

/* Serves from -1, or the step, to the step. */
void hostile_serve(struct hostile *self, int from, enum raw_server_step to);

/* The next warning or error, within 10 s; g_error_free it. */
GstMessageType hostile_complaint(struct hostile *self, GError **error);

/* Resident memory of this process, in KiB. */
guint64 hostile_resident(void);

#endif
