/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The page, its data and /metrics, over HTTP. Nothing can be changed over it, by GET and HEAD; but
 * POST /api/dismiss?channel=ADDRESS forgets a channel that is gone, or without one, all of them.
 * That needs the header "X-Gpudirect: dismiss", which no page of another site can send.
 *
 * On a loopback address any process of this host may ask. A browser's pages of other sites cannot:
 * the header Host has to name this host, so that no foreign name that resolves to it (DNS
 * rebinding) gets an answer, and no answer allows another origin. On any other address data needs
 * the token, as "Authorization: Bearer TOKEN". */
#ifndef GPUD_TOOLS_MONITOR_SERVER_H
#define GPUD_TOOLS_MONITOR_SERVER_H

#include "monitor/model.h"
#include "monitor/thumbnails.h"

struct monitor_server;

struct monitor_server_options {
    const char *listen; /* "ADDRESS:PORT"; NULL: 127.0.0.1:8477. Port 0: any free one */
    const char *token;  /* NULL: none; required for what is not loopback */
    struct monitor_model *model;
    struct monitor_thumbnails *thumbnails; /* NULL: none are shown */
};

/* NULL: *error says why. */
struct monitor_server *monitor_server_new(const struct monitor_server_options *options,
                                          GError **error);
void monitor_server_free(struct monitor_server *server);

/* "http://127.0.0.1:8477/" */
const char *monitor_server_url(const struct monitor_server *server);

#endif
