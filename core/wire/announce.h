/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels that other hosts find by name: DNS-SD, by Avahi's daemon.
 *
 *     cam1 on studio-a._gpudirect._tcp.local   SRV  studio-a.local, port 7175
 *                                              TXT  txtvers=1
 *                                                   scheme=tcp
 *                                                   name=cam1
 *                                                   streams=cam1,cam1/audio
 *                                                   encrypted=1
 *                                                   version=0.2.0
 *                                                   media=video/x-raw, format=(string)UYVY, …
 *                                                   media/audio=audio/x-raw, …
 *
 * A channel is one service, with all its streams that this process sends at one port. Two services
 * of one name are renamed ("cam1 on studio-a #2"); the channel is not, because TXT has its name.
 * `media` is as gpud_media_to_string() writes it, without the last fields where it is too long.
 *
 * One client of the daemon and one thread serve a process, from the first announcement or search
 * until nothing needs them. All calls of Avahi, which wait for the daemon, are made in that thread:
 * no function here waits for it beyond its deadline. A child of fork() announces nothing. Any
 * thread may call these functions. */
#ifndef GPUD_WIRE_ANNOUNCE_H
#define GPUD_WIRE_ANNOUNCE_H

#include "wire/network.h"

struct gpud_announcement;

/* Announces that this process listens at a place, on all interfaces if it is a wildcard, else on
 * the one with that address; not at all on loopback. Never fails: while there is no daemon nothing
 * is announced. *announcement is NULL if nothing ever will be. */
void gpud_announce_begin(const struct gpud_scheme *scheme, const struct gpud_place *place,
                         bool encrypted, struct gpud_announcement **announcement);

/* Says what is sent; announcement may be NULL. */
void gpud_announce_update(struct gpud_announcement *announcement, const struct gpud_media *media);

/* *announcement may be NULL. */
void gpud_announce_end(struct gpud_announcement **announcement);

/* A stream that is announced. All of it is the announcing host's word; texts are clean. */
struct gpud_found {
    char scheme[16];
    char host[64];    /* its name, "studio-a.local" */
    char address[64]; /* one of its addresses, "10.79.0.1" */
    uint16_t port;
    char name[GPUD_PLACE_NAME_MAX + 1]; /* "cam1/audio"; "": the channel without a name */
    char media[256];                    /* "": no format yet */
    bool encrypted;
    bool own_host;    /* it is this host */
    char version[32]; /* of the sender's library */
};

/* What a search has left out. */
struct gpud_found_rest {
    /* Beyond a limit: of a host GPUD_CHANNELS_MAX / 8 if others need the room, of all
     * GPUD_CHANNELS_MAX. Or not asked for, or not answered, by the deadline. */
    size_t omitted;
    size_t invalid; /* services whose record is invalid */
};

/* Lists what is announced, in about a second, or at once if another search was made within the last
 * 15 s; at the deadline what is known by then. The caller frees *found. GPUD_UNSUPPORTED,
 * GPUD_NO_DEVICE, GPUD_TIMEOUT: nothing was asked, with why. */
enum gpud_status gpud_announce_search(int64_t deadline, struct gpud_found **found, size_t *count,
                                      struct gpud_found_rest *rest, struct gpud_error *error);

/* Returns the port at which a host ("studio-a", "studio-a.local") announces a channel, and the
 * host's addresses with that port; 0: no announcement is known by the deadline. name "": any
 * channel of that host. addresses, count: may be NULL. */
uint16_t gpud_announce_find_port(const struct gpud_scheme *scheme, const char *host,
                                 const char *name, int64_t deadline,
                                 struct sockaddr_storage addresses[GPUD_LOOKUP_MAX], size_t *count);

#endif
