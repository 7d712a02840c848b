/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several receivers that hand on one instant together: what the files of this room share. */
#ifndef GPUD_GROUP_GROUP_H
#define GPUD_GROUP_GROUP_H

#include "base/base.h"
#include "stream/shared/shared.h"
#include <gpudirect/frame.h>
#include <gpudirect/group.h>
#include <stdatomic.h>

/* === freeze ================================================================================== */
/* Notices a frozen picture: one whose contents have been the same for a while, though its times go
 * on. A hash over a part of each row is compared, so that a change in the rest alone is not seen,
 * and a picture of any size costs no more than a small one. */

struct gpud_device;

/* Zeroed: no picture yet. */
struct gpud_freeze {
    bool begun;
    uint64_t hash;
    uint64_t since; /* the time of the first picture with that hash */
};

/* GPUD_UNSUPPORTED: pictures on this device cannot be compared, and why. */
enum gpud_status gpud_freeze_check_device(const struct gpud_device *device,
                                          struct gpud_error *error);

/* Notes the next frame. true: its contents have been the same for so long, by the frames' times.
 * false for what is not a picture, or no longer host memory. */
bool gpud_freeze_note(struct gpud_freeze *freeze, struct gpud_frame *frame, uint64_t time,
                      int64_t timeout);

/* === match =================================================================================== */
/* Which frames of several members belong to one instant, when that instant is to be handed on, and
 * which frames to drop. A state machine: no clock, no thread, no receiver. Times and arrivals go
 * in, decisions come out. Model: group.pml in tests/model.
 *
 * An instant is, by the frames' kind:
 *     PICTURE  a time: one frame of each member, within the tolerance
 *     DATA     one packet of each member; packets of one member are never of one instant, however
 *              near their times are
 *     SOUND    in mode ANY a position between samples: each member's block that has the sample
 *              behind it, of which the samples before it are skipped
 *
 * Words: `last` is the instant that was handed on last; of sound, where its block ended. A frame is
 * *passed* when its instant was handed on or passed over; it stays for the history. Otherwise it is
 * *pending* if it is in reach of `last`, and *apart* if it is not, as after a sender began a new
 * time line.
 *
 * What a member says of its frames' duration widens its own reach and tolerance; two members are
 * matched by what both say, and no third one's word counts. */

/* Instants whose first arrival is remembered, to judge whether a later frame was in time. */
#define GPUD_MATCH_RECORDS 64

enum gpud_match_kind { GPUD_MATCH_PICTURE, GPUD_MATCH_DATA, GPUD_MATCH_SOUND };

struct gpud_match_entry {
    enum gpud_match_kind kind;
    uint64_t time;     /* the instant, in ns */
    uint64_t duration; /* until the next frame; 0: unknown */
    uint32_t rate;     /* SOUND: samples a second */
    bool gap;          /* the sender's frames before it are missing */
    bool delta;        /* it depends on its sender's frames before it */
    int64_t arrival;
    void *what;     /* the caller's */
    bool corrupted; /* taken only if no other member has a good one */
    bool frozen;    /* likewise, but it is better than a corrupted one, and is not waited for */
    bool passed;
    uint32_t generation; /* of the member, when it came */
    uint64_t step;       /* from the frame before it, of this connection; 0: it is the first */
    bool joined;         /* it is the first of this connection */
};

/* Why a member's frames are not used as it means them. */
enum gpud_match_fault {
    GPUD_MATCH_NO_FAULT,
    GPUD_MATCH_ABSURD,     /* its durations are not believed */
    GPUD_MATCH_OTHER_LINE, /* its times are apart */
    GPUD_MATCH_AHEAD, /* its times are far ahead of the preferred member's, which is waited for */
    GPUD_MATCH_OUT_OF_STEP, /* its pictures are between those of the member that is handed on */
};

struct gpud_match_member {
    struct gpud_match_entry entries[GPUD_SLOTS_MAX]; /* in the order of arrival */
    uint32_t count;
    uint32_t room;       /* entries that it may have, less than GPUD_SLOTS_MAX */
    uint32_t generation; /* counts connections and formats */
    bool alive;          /* connected */
    bool delivers;       /* and a frame came on this connection */
    bool in_line;        /* and its last one was on the time line that was handed on */
    bool known;          /* newest and newest_at are: a frame came once */
    bool quiet;  /* a wait for it, lest an instant be lost, was in vain, and nothing came since */
    bool ended;  /* not alive because of EOS */
    bool frozen; /* its last frame was */
    uint64_t newest;   /* time of its last frame (of sound: the end), also of a connection before */
    int64_t newest_at; /* its arrival */
    int64_t
        advanced_at; /* arrival of its last frame that was new, and later than those before it */
    enum gpud_match_kind kind; /* of its last frame */
    uint64_t duration;         /* likewise, as far as it is believed; 0: unknown, or not alive */
    uint64_t spacing;     /* DATA: the least between two times of this connection; 0: not known */
    uint32_t out_of_step; /* pictures in a row that were */
    enum gpud_match_fault fault;
    uint64_t ignored; /* frames that were dropped because they were apart */
    uint64_t late;    /* DATA: packets that were dropped because later ones had been handed on */
    uint32_t misses;  /* instants in a row that waited for it in vain */
    uint64_t missed;  /* in all */
    int64_t behind, offset;
};

struct gpud_match {
    enum gpud_group_mode mode;
    uint32_t count, history;
    int64_t wanted_tolerance, wanted_latency; /* 0: by the duration */
    bool keeps_newest; /* a full member drops its oldest pending frame for a new one */
    struct gpud_match_member members[GPUD_GROUP_MEMBERS_MAX];

    bool begun; /* last is set */
    uint64_t last, last_duration;
    uint32_t last_member; /* ANY */
    uint32_t preferred;   /* of the last request */
    uint32_t sharers;     /* bits: members that have delivered frames of last's time line */
    bool at_end;          /* a member ended, and no frame of a further instant came since */
    struct {
        uint64_t time, duration;
        int64_t arrival; /* of its first frame */
        uint32_t takers; /* DATA: bits of the members whose packet was of this instant */
    } records[GPUD_MATCH_RECORDS];
    uint32_t recorded;
    bool lost; /* DATA: a packet was late, which the next one has to say */
    /* ANY: frames that depend on others have come. Then the frames of one member are handed on, up
     * to one of another that does not: two encoders' frames do not fit together. */
    bool keyed;
    uint32_t chain; /* one more than the member whose next frame fits the last one; 0: none */
    bool key_asked; /* by gpud_match_skip(), since the last frame that depends on no other */
};

struct gpud_match_request {
    enum gpud_group_select select;
    uint32_t preferred;
    uint64_t time;
};

struct gpud_match_decision {
    enum {
        GPUD_MATCH_WAIT,  /* nothing before `until`, unless something arrives */
        GPUD_MATCH_TAKE,  /* the entries */
        GPUD_MATCH_SKIP,  /* they are of no use: gpud_match_skip(), and decide again */
        GPUD_MATCH_GONE,  /* AT: no member has that instant, and none is to deliver it */
        GPUD_MATCH_CLOSED /* the last stream ended; the caller clears at_end */
    } verdict;
    int64_t until; /* INT64_MAX: none */
    uint64_t time;
    uint32_t skip; /* SOUND: samples at the beginning of the member's block that are not new */
    bool gap;      /* instants are missing before it */
    bool new_line; /* its time line is another than the last instant's */
    uint32_t member, missing;
    struct gpud_match_entry *entries[GPUD_GROUP_MEMBERS_MAX]; /* NULL: none; until the next call */
    enum gpud_group_state states[GPUD_GROUP_MEMBERS_MAX];
};

/* The caller sets mode, count, history, wanted_tolerance and wanted_latency, and each member's
 * room; everything else begins as 0. */
void gpud_match_add(struct gpud_match *match, uint32_t member, struct gpud_match_entry entry);

/* The member connects: from here on it may deliver any instant. Called before its sender can
 * publish the first one, so that an instant of another member behind a gap waits for it. */
void gpud_match_join(struct gpud_match *match, uint32_t member);

/* Whether gpud_match_add() may be called: else the member's frames wait at its sender. */
bool gpud_match_has_room(const struct gpud_match *match, uint32_t member, int64_t now);

/* The member is gone, or ended its stream. Its pending frames stay. */
void gpud_match_leave(struct gpud_match *match, uint32_t member, bool ended);

/* A new format or connection of the member: frames of the one before are no history. */
void gpud_match_renew(struct gpud_match *match, uint32_t member);

/* Changes nothing but keeps_newest and preferred. */
void gpud_match_decide(struct gpud_match *match, const struct gpud_match_request *request,
                       int64_t now, struct gpud_match_decision *decision);

/* After TAKE of NEXT or NEWEST: the instant is handed on. */
void gpud_match_commit(struct gpud_match *match, const struct gpud_match_request *request,
                       const struct gpud_match_decision *decision);

/* After SKIP. true: a key frame of decision->member is needed. */
bool gpud_match_skip(struct gpud_match *match, const struct gpud_match_decision *decision);

/* The next entry that is to be dropped, which leaves the machine; NULL: none. Call it until then
 * after every function above that changes something. */
void *gpud_match_drop(struct gpud_match *match);

/* For a person; "": no fault. */
const char *gpud_match_describe(enum gpud_match_fault fault);
int64_t gpud_match_tolerance(const struct gpud_match *match);
int64_t gpud_match_latency(const struct gpud_match *match);

/* === state =================================================================================== */
/* The state that a group's files share. A thread for each member acquires from its receiver and
 * puts the frames into the match; the application's thread decides and takes them out.
 *
 *     match.c  which frames are of one instant, and when: a state machine; and pictures that stand
 *              still
 *     group.c  the members' threads, their frames and events; the public object, waiting */

/* USER events that wait for a member's next frame; more than these are lost. */
#define GPUD_GROUP_EVENTS_MAX 64

/* Kinds of sticky events that are kept of a member; others are not repeated. */
#define GPUD_GROUP_STICKY_MAX 32

/* Frames in the match, those that the member's thread releases, and those that the application's
 * does. */
#define GPUD_GROUP_ITEMS (2 * GPUD_SLOTS_MAX)

/* What frames of one connection and format have in common. */
struct gpud_group_link {
    atomic_uint references;
    uint64_t connection; /* counts the member's */
    struct gpud_peer_info peer;
    struct gpud_format_event format;
};

struct gpud_group_event {
    struct gpud_group_event *next;
    struct gpud_user_event said;
    uint8_t data[];
};

/* A frame in the group: gpud_match_entry.what. */
struct gpud_group_item {
    atomic_bool used;
    struct gpud_frame *frame;
    struct gpud_group_link *link;
    struct gpud_group_event *events; /* before the frame */
    struct gpud_group_item *next;    /* in a list of those to be released */
};

struct gpud_group_member {
    struct gpud_group *group;
    uint32_t index;
    struct gpud_receiver *receiver;
    pthread_t thread;
    bool runs;
    bool was_interrupted; /* the receiver, before the group ended */
    void (*on_event)(void *user, enum gpud_event event, const void *data); /* the receiver's own */
    void *user;

    /* In its thread. */
    bool renewed; /* `connection`, `peer` or `format` is newer than `link` */
    uint64_t connection;
    struct gpud_peer_info peer;
    struct gpud_format_event format;
    struct gpud_group_link *link;
    uint32_t faults; /* bits of enum gpud_match_fault that were logged since the last connection */
    struct gpud_group_event *events, **events_end;
    uint32_t events_count;
    struct gpud_freeze freeze;

    struct gpud_group_item items[GPUD_GROUP_ITEMS]; /* `used` is set in its thread only */
    /* Under the group's lock. */
    struct gpud_group_event *sticky; /* ANY: the last one of each kind, of this connection */
    char reason[GPUD_REASON_MAX];    /* why its last acquire gave no frame */
    uint64_t frames, handed_on, untimed;
};

struct gpud_group {
    struct gpud_context *context;
    uint64_t (*time)(void *user, uint32_t member, const struct gpud_frame_info *info);
    void (*on_event)(void *user, uint32_t member, enum gpud_event event, const void *data);
    void *user;
    uint32_t count;
    int64_t freeze_timeout; /* 0: frozen pictures count like others */
    struct gpud_group_member members[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_group_link
        *reported[GPUD_GROUP_MEMBERS_MAX]; /* ANY: [0]; the application's thread */
    uint32_t reported_member;

    struct gpud_lock lock;
    pthread_cond_t due;  /* for the application's thread */
    pthread_cond_t room; /* for members' threads */
    bool stopping;
    struct gpud_match match;
    struct gpud_match_request request; /* of the last acquire */
    bool waits;                        /* the application's thread, on `due` until `waits_until` */
    bool armed;                        /* its loop, likewise */
    int64_t waits_until;
    struct gpud_loop loop;
    uint32_t last_member;
    uint64_t instants, incomplete, discontinuities, switches;
};

#endif
