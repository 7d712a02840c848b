/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * Several receivers as one: cameras whose frames of one instant are handed on together, or a main
 * and a backup sender of one programme, of which each instant is handed on once.
 *
 * @verbatim
 *   gpud_receiver_create (for each member)
 *     → gpud_group_create
 *     → { gpud_group_acquire → use → gpud_frame_release }…
 *     → gpud_group_destroy
 *     → gpud_receiver_destroy (for each member)
 * @endverbatim
 *
 * The members belong to the application and may be of different contexts, devices and hosts. While
 * they are in the group, a thread of the group's acquires from each of them, so that a member that
 * connects, changes its format or fails costs no other a frame. The application then calls only
 * gpud_receiver_get_info(), gpud_receiver_request_key() and gpud_receiver_interrupt() of a member,
 * and their own on_event is not called; their alloc is called in the group's thread. A receiver may
 * be connected already, and stays so when the group ends. gpud_receiver_interrupt() of any member
 * interrupts the group, too.
 *
 * Nothing is copied: a frame stays in its sender's slot until the group and the application have
 * released it.
 *
 * What an instant is depends on the media:
 *
 * - Pictures: a time, within the tolerance.
 * - Sound in mode ANY: a position between samples. Two senders' blocks of any lengths and phases
 *   become one stream: after the gpud_group_instant.skip samples to leave out, each block continues
 *   with the sample after the last one that was handed on. In mode ALL blocks are matched
 *   like pictures, by their times and lengths.
 * - Data: a packet. Packets of one sender are never of one instant, however near their times are;
 *   packets of two senders are, if their times are equal within the tolerance, in their order.
 *
 * A member's times, rate and durations come from another process and are not trusted: they decide
 * how its own frames are matched, and never how long others wait. Frames that are ahead wait for
 * the preferred member, and for the one that was handed on last, as long as that one continues
 * (ALL: for those members that continue, if they are as many). gpud_group_info.warning says whose
 * frames are not used as meant.
 *
 * Thread-safety: acquire comes from one thread at a time; get_info from any thread. Frames may be
 * released from any thread, also after the group was destroyed.
 */
/* clang-format on */
#ifndef GPUDIRECT_GROUP_H
#define GPUDIRECT_GROUP_H

#include <gpudirect/receiver.h>

GPUD_BEGIN_DECLS

struct gpud_group;

/** Most members of a group. */
#define GPUD_GROUP_MEMBERS_MAX 16

/** What a group hands on. */
enum gpud_group_mode {
    /** One frame of each member for one instant. An instant that a connected member is late for
     * waits for it for latency_ns, and is then handed on without it. */
    GPUD_GROUP_ALL = 0,
    /** Each instant once: from the preferred member if its frame comes within latency_ns of the
     * first one for that instant, else from a member that has it. A thread of the group waits for
     * a frame's bytes before it counts, so that one that its sender or a GPU does not finish is
     * late. A frame that is GPUD_FRAME_CORRUPTED is taken only if no other member has that instant
     * in time. */
    GPUD_GROUP_ANY,
};

/** How a group is made. */
struct gpud_group_params {
    size_t size;               /**< sizeof(the struct), as the caller knows it */
    enum gpud_group_mode mode; /**< default: ALL */
    /** Frames of each member that stay readable at their time (GPUD_GROUP_AT) after they were
     * handed on or passed over, at most the receiver's slots - 2: the sender and the application
     * need one each. Default: 0. Frames of an earlier connection or format are not kept. */
    uint32_t history;
    /** Frames whose times differ by this much at most are of one instant. 0: just under half of a
     * frame's duration, by the rate of its media or else by its duration_ns; of two members the
     * shorter one counts. */
    int64_t tolerance_ns;
    /** How long an instant waits for a member, from its first frame on. 0: ALL: two durations of a
     * frame, or 40 ms if that is not known; ANY: half a duration, or 10 ms (of sound: a block and
     * 10 ms, because a longer block is complete later than a shorter one); at most 1 s. A member
     * that was late for three instants in a row is not waited for until a frame of it is in time
     * again. In mode ANY an instant behind missing ones, or one of which there is only a corrupted
     * frame, waits longer for a connected member that may still deliver them: ten durations, at
     * most 1 s, because they would be lost. Pictures of another than the preferred
     * member between those of the one that was handed on last wait until that one is late by more
     * than a frame: members that are out of step are not handed on in turn. */
    int64_t latency_ns;
    /** The instant of a frame in ns, or GPUD_TIME_NONE: it belongs to none, and is dropped and
     * counted (gpud_group_info.untimed). Called from a thread of the group, once for each frame; it
     * must not call the group or the receiver. NULL: gpud_frame_info.pts_ns. */
    uint64_t (*time)(void *user, uint32_t member, const struct gpud_frame_info *info);
    /** Called inside gpud_group_acquire(), before the frame that it applies to is handed on.
     * CONNECTED and FORMAT come before the first frame of a connection and of a format; in mode ANY
     * they also come whenever the frame is of another member than the one before, so that a group
     * looks like one receiver whose sender changes; that member's sticky events follow, as
     * REPEATED. A USER event comes if the first frame after it is handed on. data lives during the
     * call. May be NULL. */
    void (*on_event)(void *user, uint32_t member, enum gpud_event event, const void *data);
    void *user; /**< passed to time and on_event */
    /** ANY: a member whose pictures have not changed for this long, by their times, counts as
     * frozen until they change: another member is preferred, unless its pictures are frozen, too.
     * A part of each row is compared (at most 256 KiB of a picture), by the CPU, which is possible
     * for receivers on the host. 0: never. */
    int64_t freeze_timeout_ns;
};

/** Which instant is wanted. */
enum gpud_group_select {
    /** The next in order. Frames that wait for it keep their slots: what their senders do
     * meanwhile is up to gpud_receiver_params.slow_receiver. */
    GPUD_GROUP_NEXT = 0,
    /** The newest that is complete, or has waited long enough. Those before it are passed over. */
    GPUD_GROUP_NEWEST,
    /** That at time_ns, if a member still has it or will have it in time. Nothing is passed over,
     * and it may be read again. */
    GPUD_GROUP_AT,
};

/** What gpud_group_acquire() asks for. */
struct gpud_group_request {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** default: NEXT. After NEWEST and AT the group keeps the newest frames of each member, and
     * older ones make room for them. */
    enum gpud_group_select select;
    uint32_t preferred; /**< ANY: the member that is taken if it is in time; default: the first */
    uint64_t time_ns;   /**< AT: the instant */
};

/** Whether a member has a frame for an instant, and why not. */
enum gpud_group_state {
    GPUD_GROUP_PRESENT = 0, /**< it has one */
    GPUD_GROUP_LATE,        /**< connected, and its frame did not come in time */
    GPUD_GROUP_SKIPPED,     /**< its sender has none for this instant, or dropped it */
    GPUD_GROUP_APART,  /**< its times are more than a second off the others': no common clock */
    GPUD_GROUP_ABSENT, /**< not connected: gpud_group_info.reason has the cause */
    GPUD_GROUP_ENDED,  /**< its sender ended the stream (EOS) */
};

/** What gpud_group_acquire() hands on. */
struct gpud_group_instant {
    size_t size;      /**< sizeof(the struct), as the caller knows it */
    uint64_t time_ns; /**< of the instant: the earliest of its frames' */
    /** Instants are missing before this one, or another time line begins with it.
     * In mode ANY the frame's GPUD_FRAME_DISCONTINUITY says the same, whatever its sender said. */
    bool discontinuity;
    uint32_t member;  /**< ANY: whose frame it is; ALL: the first member that has one */
    uint32_t missing; /**< ALL: how many members have no frame for it; ANY: 0 */
    /** The frames by member, to be released by the caller; NULL: none. ANY: one of them is set. */
    struct gpud_frame *frames[GPUD_GROUP_MEMBERS_MAX];
    enum gpud_group_state states[GPUD_GROUP_MEMBERS_MAX]; /**< of each member, at this instant */
    /** ANY, sound: samples of each channel at the beginning of the frame that were handed on
     * before, in another member's block: leave them out. time_ns is that of the first one behind
     * them, and pts_ns and offset of the frame are still those of its first sample. Less than the
     * frame has; 0 for other media, and with GPUD_GROUP_AT. */
    uint32_t skip;
};

/** The state and counters of a group and of one member. */
struct gpud_group_info {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** For epoll, GMainLoop or io_uring, for an application that acquires with a timeout of 0. It
     * is readable when that call may succeed, and sometimes without need: acquire until
     * GPUD_TIMEOUT, which arms it again. It is the group's: do not read or close it. */
    int fd;
    uint32_t members;         /**< how many */
    int64_t tolerance_ns;     /**< in effect; 0 before the first frame where it follows a rate */
    int64_t latency_ns;       /**< in effect */
    uint64_t instants;        /**< handed on, but for GPUD_GROUP_AT */
    uint64_t incomplete;      /**< ALL: of these, with a member missing */
    uint64_t discontinuities; /**< of these, with discontinuity set */
    uint64_t switches;        /**< ANY: of these, from another member than the one before */

    bool connected;  /**< the member delivers frames; this and all that follows is the member's */
    uint32_t held;   /**< frames that the group holds */
    uint32_t room;   /**< how many it may hold: the smaller of both sides' slots - 2, at least 1 */
    uint64_t frames; /**< taken from the receiver */
    uint64_t handed_on; /**< of these, but for GPUD_GROUP_AT */
    uint64_t untimed;   /**< dropped, because they have no time */
    /** instants that were handed on without it while it was connected; ANY: that waited for it */
    uint64_t missed;
    /** how much later than the first one for its instant its last frame came */
    int64_t behind_ns;
    /** time of its last frame, minus that of the first one for the same instant */
    int64_t offset_ns;
    char reason[GPUD_REASON_MAX]; /**< why it is not connected; "" while it is */
    bool frozen;      /**< its pictures do not change: gpud_group_params.freeze_timeout_ns */
    uint64_t ignored; /**< frames dropped because their times are on a time line of their own */
    /** why its frames are not used by their times: an implausible duration, another time line,
     * times ahead of the preferred member's, or pictures between the other member's; "": they are
     */
    char warning[GPUD_REASON_MAX];
    /** ANY, data: packets dropped because they came after later ones of the other member. The next
     * instant is a discontinuity. */
    uint64_t late;
};

/** Makes a group. Its members connect in threads of the group's, from now on.
 *
 * @param context  used for its log; must outlive the group
 * @param params  copied
 * @param receivers  1 to GPUD_GROUP_MEMBERS_MAX; they stay the caller's, and must outlive the group
 * @param count  how many
 * @param group  set to the group, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure that leaves the receivers as they were:
 * @retval GPUD_INVALID  a parameter is wrong, a receiver is in a group already, or has too few
 *     slots for the history
 * @retval GPUD_UNSUPPORTED  a freeze timeout, and pictures of a receiver cannot be compared
 * @retval GPUD_NO_MEMORY  there is no memory or no thread for it
 * @retval GPUD_IO  no descriptor could be made
 */
GPUD_API enum gpud_status gpud_group_create(struct gpud_context *context,
                                            const struct gpud_group_params *params,
                                            struct gpud_receiver *const *receivers, uint32_t count,
                                            struct gpud_group **group, struct gpud_error *error);

/** Ends a group. Its receivers may be used by themselves again, and still have to be destroyed. No
 * other thread may call gpud_receiver_interrupt() of a member meanwhile.
 *
 * @param group  set to NULL
 */
GPUD_API void gpud_group_destroy(struct gpud_group **group);

/** Waits for an instant and hands on its frames. Instants of NEXT and NEWEST come in the order of
 * their times, each once, until a time line ends: if more members go over to times that are more
 * than a second off than stay, or no other delivers frames, they are followed, with discontinuity.
 * In mode ANY the preferred member is followed, too, if it has not been on the time line that is
 * handed on.
 *
 * A call that fails hands on nothing, and passes nothing over.
 *
 * @param group  the group
 * @param request  NULL: the next in order, member 0 preferred
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param instant  filled; its size must cover all fields of this version
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no instant in time: error says for each member why
 * @retval GPUD_AGAIN  gpud_receiver_interrupt() of a member is in effect
 * @retval GPUD_CLOSED  the last member that delivered frames ended its stream (EOS); the next call
 *     waits for the next stream
 * @retval GPUD_INVALID  a parameter is wrong, or AT asks for a time that no member has or will
 *     still deliver
 */
GPUD_API enum gpud_status gpud_group_acquire(struct gpud_group *group,
                                             const struct gpud_group_request *request,
                                             int64_t timeout_ns, struct gpud_group_instant *instant,
                                             struct gpud_error *error);

/** The state and counters of a group and of one of its members. Any thread.
 *
 * @param group  the group
 * @param member  which member; one that the group does not have: only the group's fields are set
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_group_get_info(struct gpud_group *group, uint32_t member,
                                  struct gpud_group_info *info);

GPUD_END_DECLS

#endif
