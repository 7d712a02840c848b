/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a sender and a receiver share. */
#ifndef GPUD_STREAM_SHARED_SHARED_H
#define GPUD_STREAM_SHARED_SHARED_H

#include "base/base.h"
#include "device/device.h"
#include "wire/wire.h"
#include <stdbool.h>
#include <stdint.h>

/* === device ================================================================================== */

/* gpud_device_open(), but a bare kind, "cuda", means its device nearest to the network card that
 * the address uses; "auto" the nearest GPU of any kind, or the host if the address uses no card.
 * reason explains the choice; "": the device was named. */
enum gpud_status gpud_address_open_device(struct gpud_context *context, const char *name,
                                          const struct gpud_address *address,
                                          struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                          struct gpud_error *error);

/* === image =================================================================================== */
/* Frames that are images of a DRM format modifier: which modifiers the applications at both ends
 * take, and how the driver arranges them. */

/* The modifiers that an application gives. */
enum gpud_status gpud_modifiers_check(const uint64_t *modifiers, uint32_t count,
                                      struct gpud_error *error);

/* gpud_image_describe(), whose result is a valid layout. */
enum gpud_status gpud_image_find(struct gpud_device *device, const struct gpud_layout *rows,
                                 const uint64_t *modifiers, uint32_t count,
                                 struct gpud_layout *image, struct gpud_error *error);

/* Proves that the queue's device turns rows into such an image and the image into the same rows.
 * Takes as long as two copies, and room for one frame. */
enum gpud_status gpud_image_prove(struct gpud_queue *queue, struct gpud_device *host,
                                  const struct gpud_layout *rows, const struct gpud_layout *image,
                                  struct gpud_error *error);

/* Whether a peer's images, in slots of so many bytes (0: its ring is ours), lie as the device's
 * driver arranges them, and the application takes them. GPUD_PEER: the peer says nonsense. */
enum gpud_status gpud_image_check(struct gpud_device *device, const struct gpud_layout *image,
                                  uint64_t slot_size, const uint64_t *modifiers, uint32_t count,
                                  struct gpud_error *error);

/* === loop ==================================================================================== */
/* A descriptor for an application's event loop, on both sides: readable when a call can make
 * progress, and created on first use. */

struct gpud_loop {
    int fd;    /* an epoll of the two below and of descriptors its side adds; -1: not open */
    int event; /* an eventfd: call now */
    int timer; /* a timerfd: call then */
};

#define GPUD_LOOP_NONE ((struct gpud_loop){-1, -1, -1})

/* Opens it readable, because pending work is not known yet. */
enum gpud_status gpud_loop_open(struct gpud_loop *loop, struct gpud_error *error);
void gpud_loop_close(struct gpud_loop *loop);
enum gpud_status gpud_loop_watch(const struct gpud_loop *loop, int fd, struct gpud_error *error);
void gpud_loop_unwatch(const struct gpud_loop *loop, int fd);

/* INT64_MAX: never. */
void gpud_loop_set_timer(const struct gpud_loop *loop, int64_t at);

/* Makes the event and the timer unreadable; false: neither was readable. */
bool gpud_loop_drain(const struct gpud_loop *loop);

/* === pattern ================================================================================= */
/* The canary: a pattern that is sent over a new link and read back at its destination before the
 * link is trusted. A route may connect without an error and still lose every write (an IOMMU, a bus
 * that drops them). */

/* Covers the frame's first and last bytes, so that a short or shifted copy is detected too. */
void gpud_pattern_write(void *bytes, uint64_t size, uint64_t nonce);
bool gpud_pattern_check(const void *bytes, uint64_t size, uint64_t nonce);

/* The same of a frame that is not mapped. Only what the pattern covers is mapped: of a device's
 * frame all of it might take seconds. */
enum gpud_status gpud_pattern_send(struct gpud_frame *frame, uint64_t nonce, int64_t timeout_ns,
                                   struct gpud_error *error);
enum gpud_status gpud_pattern_receive(struct gpud_frame *frame, uint64_t nonce, int64_t timeout_ns,
                                      bool *whole, struct gpud_error *error);

/* === encryption ============================================================================== */

/* Warns if the connection is not encrypted and leaves this machine, with what to set; once, by
 * *warned. */
void gpud_warn_unencrypted(const struct gpud_log *log, const char *area,
                           const struct gpud_channel *channel, bool *warned);

/* === watchdog ================================================================================ */
/* A ring page whose words devices write and wait for, and its watchdog.
 *
 *     ready[entry]    posted by the sender's queue when the frame is in its slot; the receiver's
 *                     queue waits for it
 *     release[entry]  posted by the receiver's queue when it has read the frame; the sender's queue
 *                     waits for it before it writes the slot again
 *
 * A wait on a queue cannot be cancelled: if the peer dies, or never posts what it announced, the
 * watchdog writes the word itself (poison) and the queue goes on. It runs in a thread that never
 * calls a driver, because a driver may be waiting for that very queue.
 *
 * Thread-safe except for gpud_watchdog_end(); one thread at a time uses an entry. */

/* How long a device may take for work that was announced as under way. A receiver gives its sender
 * more time: that one's queue may be waiting for the device of another receiver, which the sender
 * gives up on first. */
#define GPUD_WATCHDOG_TIMEOUT (3 * GPUD_SEC)
#define GPUD_WATCHDOG_TIMEOUT_SENDER (GPUD_WATCHDOG_TIMEOUT + GPUD_SEC)

enum gpud_side { GPUD_SIDE_SENDER, GPUD_SIDE_RECEIVER };

struct gpud_watchdog;

/* Pins the page for the device. page: the mapping, which the watchdog owns from now on, and unmaps
 * on failure. channel: shows whether the peer lives; referenced. */
enum gpud_status gpud_watchdog_create(struct gpud_device *device, struct gpud_page *page,
                                      uint32_t entries, struct gpud_channel *channel,
                                      enum gpud_side side, struct gpud_watchdog **watchdog,
                                      struct gpud_error *error);

/* Whether the peer's word for the entry has reached the value. */
bool gpud_watchdog_reached(const struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value);

/* Makes the queue wait for the peer's word, unless it has reached the value already. */
enum gpud_status gpud_watchdog_wait(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value,
                                    struct gpud_queue *queue, struct gpud_error *error);

/* The words of several links, GPUD_SIGNALS_AT_ONCE at most, for a queue that serves all of them:
 * one call of the driver, if it has such a call. Each link keeps its own watchdog, so that only the
 * word of a receiver that fails is poisoned. */
struct gpud_watchdog_word {
    struct gpud_watchdog *watchdog;
    uint32_t entry, value;
};

enum gpud_status gpud_watchdog_wait_all(const struct gpud_watchdog_word *words, uint32_t count,
                                        struct gpud_queue *queue, struct gpud_error *error);

/* Whether what our queues were to post for the entry, and all work before it, is done. */
bool gpud_watchdog_is_posted(const struct gpud_watchdog *watchdog, uint32_t entry);

/* Whether no queue of this side waits for the entry's word. */
bool gpud_watchdog_is_free(const struct gpud_watchdog *watchdog, uint32_t entry);

/* The calling thread waits for the peer's word. GPUD_PEER: it was poisoned. */
enum gpud_status gpud_watchdog_wait_host(struct gpud_watchdog *watchdog, uint32_t entry,
                                         uint32_t value, int64_t deadline,
                                         struct gpud_error *error);

/* Whether the watchdog wrote the peer's word instead of the peer. */
bool gpud_watchdog_is_poisoned(const struct gpud_watchdog *watchdog, uint32_t entry,
                               uint32_t value);

/* Posts our own word, in the order of the queue or at once, but after other queues' pending posts
 * for the entry: a frame may be given back unread while the entry's previous frame is still being
 * read. On failure the queue does not write the word. If the driver takes the word and refuses the
 * second operation, which records how far the queue is, the call waits for the queue, for a second
 * at most. */
enum gpud_status gpud_watchdog_post(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value,
                                    struct gpud_queue *queue, struct gpud_error *error);
void gpud_watchdog_post_now(struct gpud_watchdog *watchdog, uint32_t entry, uint32_t value);

/* gpud_watchdog_post() of a sender for several links, as gpud_watchdog_wait_all(). */
enum gpud_status gpud_watchdog_post_all(const struct gpud_watchdog_word *words, uint32_t count,
                                        struct gpud_queue *queue, struct gpud_error *error);

/* Whether no queue of this side waits for the peer, and no word is to be written. */
bool gpud_watchdog_is_idle(const struct gpud_watchdog *watchdog);

/* Whether the peer announced work and did not finish it in time: the link can no longer be trusted.
 */
bool gpud_watchdog_is_broken(const struct gpud_watchdog *watchdog);

/* Releases all waits. Waits some seconds at most for our own queues' posts, then calls done(arg),
 * which may be NULL, from the context's `later` worker and unmaps the page. */
void gpud_watchdog_end(struct gpud_watchdog **watchdog, void (*done)(void *arg), void *arg);

#endif
