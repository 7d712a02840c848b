/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * The channels of this user: which senders there are, what they send, and to whom. Each is asked on
 * its own socket; asking does not use up one of its receivers' places, and costs no frame.
 *
 * @verbatim
 *   gpud_channel_list_create
 *     → { gpud_channel_list_get_info }…
 *     → gpud_channel_list_destroy
 * @endverbatim
 *
 * Thread-safety: a list is a snapshot, which any threads may read at once. *list is set only on
 * success, and the caller's to destroy; destroying NULL, or a pointer to NULL, does nothing.
 */
/* clang-format on */
#ifndef GPUDIRECT_CHANNEL_H
#define GPUDIRECT_CHANNEL_H

#include <gpudirect/sender.h>

GPUD_BEGIN_DECLS

struct gpud_channel_list;

/** Most channels in a list. */
#define GPUD_CHANNELS_MAX 256

/** The address of a list of what is announced on the network. */
#define GPUD_CHANNELS_NETWORK "dns-sd:"

/** A channel. Strings are valid UTF-8 without control characters; numbers are what the sender says,
 * and are not checked. */
struct gpud_channel_info {
    size_t size;       /**< sizeof(the struct), as the caller knows it */
    char address[120]; /**< what a receiver gives */
    int64_t pid;       /**< of the sender's process; 0: not known (another container) */
    char program[64];  /**< the name of that process; "" where it is not known */
    /** false: `reason` says why not, and nothing of what follows it is known, except `configured`
     * and `media` of a channel that is `announced` */
    bool answered;
    char reason[GPUD_REASON_MAX];          /**< why it did not answer */
    char name[64];                         /**< of the application */
    char device[32];                       /**< where its ring lies */
    bool configured;                       /**< it has a format: epoch and media */
    bool ended;                            /**< its stream is over, and it may begin another */
    uint32_t epoch;                        /**< changes with the format */
    struct gpud_media media;               /**< what it sends */
    uint32_t slots;                        /**< of its ring */
    enum gpud_slow_receiver slow_receiver; /**< its policy */
    uint32_t links;                        /**< receivers: entries of link */
    uint64_t frames;                       /**< submitted */
    /** frames that receivers took, summed over them, those that are gone included */
    uint64_t delivered;
    uint64_t dropped;  /**< frames that receivers lost: see gpud_sender_info.dropped */
    uint64_t connects; /**< receivers that have connected so far */
    /** frames in a second, over the last one or two; 0: none came, or not known yet */
    double rate;
    uint64_t age_ns; /**< ns since the last frame; GPUD_TIME_NONE: there was none */
    int64_t user;    /**< that the process runs as; -1: not known */
    /** The process of this host that receives the channel from another one, which cannot be asked:
     * `reason` says so. 0: the channel's sender is on this host. */
    int64_t receiver_pid;
    /** the receivers, each with its path, its losses and its latency */
    const struct gpud_link_info *const *link;
    uint64_t disconnects;  /**< receivers that have left */
    uint64_t refused;      /**< connections that were refused */
    uint64_t copies_cpu;   /**< as in gpud_sender_info, as all that follow */
    uint64_t copies_gpu;   /**< copies of whole frames by a GPU */
    uint64_t waits_cpu;    /**< times a call slept until a receiver gave a credit back */
    uint64_t waits_device; /**< times the CPU waited for a device */
    /** Its host announces it on the network. Announcements are not authenticated: only connecting
     * shows whether they are true. */
    bool announced;
    bool encrypted;        /**< announced: frames are encrypted on their way */
    bool own_host;         /**< announced: by this host */
    char host[64];         /**< announced: the host's name, "studio-a.local" */
    char host_address[64]; /**< announced: one of its addresses, "10.0.0.1" */
    char version[32];      /**< announced: of the sender's gpudirect */
};

/** What a list covers. */
struct gpud_channel_search_info {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** Where bare names, or the folder's channels, were looked for. Entries of this directory
     * appear, vanish and change their attributes (inotify) as channels come, go and change their
     * format, but not when a process is killed: watch its pid for that (pidfd_open). */
    char directory[120];
    /** how many channels there are beyond those that are listed; 0: all are listed. One process
     * that listens on very many addresses takes no other's place */
    size_t omitted;
    /** What is missing from the list: how many channels were left out, or why nothing may listen at
     * the address that was asked for; "": nothing */
    char note[GPUD_REASON_MAX];
};

/** Where the host begins in an address between hosts: "10.0.0.1:7175/cam1" of
 * "tcp://10.0.0.1:7175/cam1". What follows is not checked.
 *
 * @param address  may be NULL
 * @return a part of the address; NULL: it is one of this host
 */
GPUD_API const char *gpud_address_get_host(const char *address);

/** Asks all channels of this user at once: those in its runtime directory, and those that listen on
 * a path elsewhere and have this user's runtime directory, too. It returns when all have answered,
 * at the latest timeout_ns after the last was asked (some 20 µs each); a sender that has not
 * answered by then, because it is stopped for example, is listed with a reason. An address where
 * nothing listens is not a channel.
 *
 * @param address  NULL: all of this user. An address: that channel alone. "unix:/folder/": those in
 *     that folder, of any user (the sender's `access` decides whether it answers).
 *     "tcp://host:port/" or "rdma://host:port/": those at that port; the other host tells only
 *     their names, and asks for no key. GPUD_CHANNELS_NETWORK: those that hosts of the network
 *     announce by DNS-SD, which takes about a second unless this process has asked within the last
 *     15 s; search.note says why if Avahi's daemon could not be asked
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param list  set to the snapshot, which the caller destroys
 * @param count  set to the number of entries; may be NULL
 * @param search  filled as far as search->size goes; may be NULL
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the address is not one, or the timeout is negative
 * @retval GPUD_IO  there is no such folder
 * @retval GPUD_NO_ACCESS  this user may not read the folder
 * @retval GPUD_UNSUPPORTED  this build cannot ask such an address
 * @retval GPUD_NO_MEMORY  out of memory or descriptors
 */
GPUD_API enum gpud_status gpud_channel_list_create(const char *address, int64_t timeout_ns,
                                                   struct gpud_channel_list **list, uint32_t *count,
                                                   struct gpud_channel_search_info *search,
                                                   struct gpud_error *error);

/** Destroys a list.
 *
 * @param list  set to NULL; NULL or a pointer to NULL: nothing happens
 */
GPUD_API void gpud_channel_list_destroy(struct gpud_channel_list **list);

/** One entry of a list. They are in the order of their addresses.
 *
 * @param list  the list, which owns the receivers that info leads to
 * @param index  0 to the count - 1
 * @param info  filled as far as its size goes
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  there is no such entry, or the size is not set
 */
GPUD_API enum gpud_status gpud_channel_list_get_info(const struct gpud_channel_list *list,
                                                     uint32_t index, struct gpud_channel_info *info,
                                                     struct gpud_error *error);

GPUD_END_DECLS

#endif
