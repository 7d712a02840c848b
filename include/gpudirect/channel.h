/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The channels of this user: which senders there are, what they send, and to whom. Each is asked on
 * its own socket; a question takes no place of a receiver's and costs no frame.
 *
 *   gpud_channel_list_create
 *     → gpud_channel_list_count, { gpud_channel_list_get_info, gpud_channel_list_get_links }…
 *     → gpud_channel_list_destroy
 *
 * Thread-safety: a list is a snapshot, which any threads may read at once. *list is set only on
 * success, and the caller's to destroy; destroying NULL, or a pointer to NULL, does nothing. */
/* clang-format on */
#ifndef GPUDIRECT_CHANNEL_H
#define GPUDIRECT_CHANNEL_H

#include <gpudirect/sender.h>

GPUD_BEGIN_DECLS

struct gpud_channel_list;

/* At most so many are listed. */
#define GPUD_CHANNELS_MAX 256

/* Texts are clean UTF-8; numbers are the sender's word. */
struct gpud_channel_info {
    size_t size;
    char address[120]; /* what a receiver gives */
    int64_t pid;       /* of the sender's process; 0: not known (another container) */
    char program[64];  /* the name of that process; "" where it is not known */
    bool answered;     /* false: `reason` says why not, and nothing of what follows it is known */
    char reason[GPUD_REASON_MAX];
    char name[64];   /* of the application */
    char device[32]; /* where its ring lies */
    bool configured; /* it has a format: epoch and media */
    bool ended;      /* its stream is over, and it may begin another */
    uint32_t epoch;  /* changes with the format */
    struct gpud_media media;
    uint32_t slots;
    enum gpud_slow_receiver slow_receiver;
    uint32_t links;              /* receivers; gpud_channel_list_get_links() has them */
    uint64_t frames;             /* submitted */
    uint64_t delivered, dropped; /* summed over receivers, those that are gone included */
    uint64_t connects;
    double rate;  /* frames in a second, over the last one or two; 0: none came, or not known yet */
    uint64_t age_ns; /* ns since the last frame; GPUD_TIME_NONE: there was none */
    int64_t user; /* that the process runs as; -1: not known */
    /* The process of this host that receives the channel from another one, which cannot be asked:
     * `reason` says so. 0: the channel is sent here. */
    int64_t receiver_pid;
};

/* Asks all channels of this user at once: those in its runtime directory, and those that listen on
 * a path elsewhere and have this user's runtime directory, too. With an address, that channel
 * alone; with "unix:/folder/", those in that folder. These are asked whoever sends there; it is the
 * sender's `access` that says whether they answer. Returns when all have answered, and no later
 * than the timeout after the last was called (some 20 µs each): who has not answered by then
 * (because it is stopped, say) is listed with a reason. Where nobody listens there is no channel.
 *
 * GPUD_IO, GPUD_NO_ACCESS: there is no such folder, or this user cannot read it. */
GPUD_API enum gpud_status gpud_channel_list_create(const char *address, int64_t timeout_ns,
                                                   struct gpud_channel_list **list,
                                                   struct gpud_error *error);
GPUD_API void gpud_channel_list_destroy(struct gpud_channel_list **list);

GPUD_API uint32_t gpud_channel_list_count(const struct gpud_channel_list *list);

/* How many are there beyond those that are listed. One process that listens on very many addresses
 * takes no other's place. */
GPUD_API size_t gpud_channel_list_get_omitted(const struct gpud_channel_list *list);

/* A sentence on what is missing: how many were left out, or why there may be nobody behind the
 * address that was asked for; "": there is nothing to say. */
GPUD_API const char *gpud_channel_list_get_note(const struct gpud_channel_list *list);

/* Where bare names were looked for, or the folder. Entries of this directory come, go and change
 * their attributes (inotify) as channels come, go and change their format; not where a process is
 * killed, whose end its pid tells of (pidfd_open). */
GPUD_API const char *gpud_channel_list_get_directory(const struct gpud_channel_list *list);

/* In the order of their addresses. GPUD_INVALID: the index is the count or more, or info->size is
 * not set. */
GPUD_API enum gpud_status gpud_channel_list_get_info(const struct gpud_channel_list *list,
                                                     uint32_t index, struct gpud_channel_info *info,
                                                     struct gpud_error *error);

/* The receivers of a channel, each with its path, what it lost and its latency; none where the
 * channel did not answer. Borrowed: lives as long as the list of channels, and is not destroyed.
 * NULL: the index is the count or more. */
GPUD_API const struct gpud_link_list *gpud_channel_list_get_links(
    const struct gpud_channel_list *list, uint32_t index);

GPUD_END_DECLS

#endif
