/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

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
#ifndef GPUD_GROUP_MATCH_H
#define GPUD_GROUP_MATCH_H

#include <gpudirect/group.h>

/* Instants whose first arrival is remembered, to judge whether a later frame was in time. */
#define GPUD_MATCH_RECORDS 64

enum gpud_match_kind { GPUD_MATCH_PICTURE, GPUD_MATCH_DATA, GPUD_MATCH_SOUND };

struct gpud_match_entry {
    enum gpud_match_kind kind;
    uint64_t time;     /* the instant, in ns */
    uint64_t duration; /* until the next frame; 0: unknown */
    uint32_t rate;     /* SOUND: samples a second */
    bool gap;          /* the sender's frames before it are missing */
    int64_t arrival;
    void *what;     /* the caller's */
    bool corrupted; /* taken only if no other member has a good one */
    bool frozen;    /* likewise, but it is better than a corrupted one, and is not waited for */
    bool passed;
    uint32_t generation; /* of the member, when it came */
    uint64_t step;       /* from the frame before it, of this connection; 0: it is the first */
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

/* The next entry that is to be dropped, which leaves the machine; NULL: none. Call it until then
 * after every function above that changes something. */
void *gpud_match_drop(struct gpud_match *match);

/* For a person; "": no fault. */
const char *gpud_match_describe(enum gpud_match_fault fault);

int64_t gpud_match_tolerance(const struct gpud_match *match);
int64_t gpud_match_latency(const struct gpud_match *match);

#endif
