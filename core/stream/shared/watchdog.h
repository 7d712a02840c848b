/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A ring page whose words devices write and wait for by themselves, and the watchdog over it.
 *
 *     ready[entry]    posted by the sender's queue when the frame is in its slot; the receiver's
 *                     queue waits for it
 *     release[entry]  posted by the receiver's queue when it has read the frame; the sender's queue
 *                     waits for it before it writes the slot again
 *
 * A queue that waits cannot be called back: if the peer dies, or never posts what it announced,
 * the watchdog writes the word itself (poison) and the queue goes on. It runs in a thread that
 * never calls a driver, because a driver may be waiting for that very queue.
 *
 * Thread-safe, but for the end; one entry belongs to one thread at a time. */
#ifndef GPUD_STREAM_SHARED_WATCHDOG_H
#define GPUD_STREAM_SHARED_WATCHDOG_H

#include "device/device.h"
#include "wire/channel.h"
#include "wire/page.h"

/* So long may a device need for what was announced as under way. */
#define GPUD_WATCHDOG_TIMEOUT (3 * GPUD_SEC)

enum gpud_side { GPUD_SIDE_SENDER, GPUD_SIDE_RECEIVER };

struct gpud_watchdog;

/* Pins the page for the device. page: the mapping, which is the watchdog's from now on and goes
 * with it, on failure at once. channel: tells whether the peer lives; it is kept. */
enum gpud_status gpud_watchdog_create(struct gpud_device *device, struct gpud_page *page,
                                      uint32_t entries, struct gpud_channel *channel,
                                      enum gpud_side side, struct gpud_watchdog **watchdog,
                                      struct gpud_error *error);

/* Whether the peer's word for the entry is at the value already. */
bool gpud_watchdog_reached(const struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value);

/* The queue waits for the peer's word; nothing is done if it is there already. */
enum gpud_status gpud_watchdog_wait(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value,
                                    struct gpud_queue *queue, struct gpud_error *error);

/* Whether no queue of ours still waits for the entry's word. */
bool gpud_watchdog_is_free(const struct gpud_watchdog *watchdog, uint32_t entry);

/* The calling thread waits for the peer's word. GPUD_PEER: it was poisoned. */
enum gpud_status gpud_watchdog_wait_host(struct gpud_watchdog *watchdog, uint32_t entry,
                                         uint32_t value, int64_t deadline,
                                         struct gpud_error *error);

/* Whether the peer's word came from the watchdog instead of the peer. */
bool gpud_watchdog_is_poisoned(const struct gpud_watchdog *watchdog, uint32_t entry,
                               uint32_t value);

/* Posts our own word, in the order of the queue, or at once; either behind what other queues have
 * yet to post for the entry: a frame may be given back unread while the one that was in its place
 * before is still being read. On failure nothing was put on the queue that writes the word. A
 * driver that takes the word and refuses the second operation, by which this side knows how far
 * the queue is, costs the caller a wait for the queue, for a second at most. */
enum gpud_status gpud_watchdog_post(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value,
                                    struct gpud_queue *queue, struct gpud_error *error);
void gpud_watchdog_post_now(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value);

/* The peer announced work and did not finish it in time: the link is not to be trusted any more. */
bool gpud_watchdog_is_broken(const struct gpud_watchdog *watchdog);

/* Lets everything go that still waits. What our own queues have yet to post is waited for, some
 * seconds at most; then done(arg) is called from the context's `later` worker, and the page goes.
 * done may be NULL. */
void gpud_watchdog_end(struct gpud_watchdog **watchdog, void (*done)(void *arg), void *arg);

#endif
