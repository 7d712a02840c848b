/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channel: a receiver that never makes its sender wait, and takes the newest frame. */
#ifndef GPUD_VIEW_SOURCE_H
#define GPUD_VIEW_SOURCE_H

#include <gpudirect/gpudirect.h>

struct source_options {
    const char *address, *access, *psk_file; /* the last two may be NULL */
};

struct source {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct gpud_media media; /* of the frames that follow */
    uint32_t formats;        /* changes with media */
    char device[32];         /* where the sender has its frames */
    uint64_t frames;         /* received */
    uint64_t skipped;        /* of these, the ones with a newer one behind them */
};

/* False: error says why not, and there is nothing to close. */
bool source_open(struct source *source, const struct source_options *options,
                 struct gpud_error *error);
void source_close(struct source *source);

/* As gpud_receiver_acquire(), and leaves no newer frame behind. */
enum gpud_status source_acquire(struct source *source, int64_t timeout_ns,
                                struct gpud_frame **frame, struct gpud_error *error);

#endif
