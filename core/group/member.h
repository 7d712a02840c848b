/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A member of a group: the thread that acquires from its receiver. */
#ifndef GPUD_GROUP_MEMBER_H
#define GPUD_GROUP_MEMBER_H

#include "group/state.h"

/* Takes the receiver over. GPUD_INVALID: it is in a group already. */
enum gpud_status gpud_group_member_join(struct gpud_group_member *member,
                                        struct gpud_receiver *receiver, struct gpud_error *error);

enum gpud_status gpud_group_member_start(struct gpud_group_member *member,
                                         struct gpud_error *error);

/* Makes its thread end; group->stopping is set. Does not wait. */
void gpud_group_member_stop(struct gpud_group_member *member);

/* Waits for its thread, and gives the receiver back. */
void gpud_group_member_leave(struct gpud_group_member *member);

/* Wakes the application's thread if it has something to do now. Under the lock. */
void gpud_group_wake(struct gpud_group *group);

/* Takes what the match has dropped. Under the lock; the list is released without it. */
struct gpud_group_item *gpud_group_take_dropped(struct gpud_group *group);
void gpud_group_release(struct gpud_group_item *list);

void gpud_group_link_unref(struct gpud_group_link **link);

#endif
