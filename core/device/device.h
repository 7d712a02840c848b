/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices, memories, queues and signals for the layers above: with checks and reference counts. */
#ifndef GPUD_DEVICE_DEVICE_H
#define GPUD_DEVICE_DEVICE_H

#include "base/log.h"
#include "device/ops.h"
#include "device/worker.h"

/* A record that outlives its owner, because a peer may still write its memory. Embedded in it. */
struct gpud_kept {
    struct gpud_kept *next;
    /* Called once at the end of the context, after the record was removed from the list. */
    void (*end)(struct gpud_kept *kept);
};

/* At least as many as open.c has in its table. */
#define GPUD_BACKENDS_MAX 8

struct gpud_context {
    struct gpud_log log;
    uint64_t token;   /* random: identifies a peer in this same context */
    uint8_t host[16]; /* gpud_host_read_id(), read while there are descriptors */
    /* One for each backend, held while opening a device, so that no other thread opens it, too. A
     * driver may take seconds, so the lock is used for nothing else. */
    struct gpud_lock opening[GPUD_BACKENDS_MAX];
    /* For the lists below; no driver is called under it. */
    struct gpud_lock lock;
    struct gpud_device **devices; /* open until the context ends */
    size_t device_count;
    struct gpud_memory **local; /* memories shared inside the process; index = local_id - 1 */
    size_t local_count;
    struct gpud_worker watch; /* never calls a driver, so that nothing blocks it */
    struct gpud_worker later; /* deferred teardown, of what devices may still be using */
    struct gpud_kept *kept;
    atomic_uint ending; /* links being passed from watch to later */
};

/* --- device.c ------------------------------------------------------------------------------ */

struct gpud_device *gpud_device_ref(struct gpud_device *device);

/* Calls fn for each device, including absent ones, in the order of gpud_device_list_create():
 * probed, not opened. The record is valid only during the call. */
void gpud_device_each(struct gpud_context *context,
                      void (*fn)(const struct gpud_device *device, void *arg), void *arg);

/* Whether memory of a probed device may have a dma-buf, as far as is known without any memory.
 * GPUD_UNSUPPORTED, with the reason. */
enum gpud_status gpud_device_check_dmabuf(const struct gpud_device *device,
                                          struct gpud_error *error);

/* "host", "opencl": the part of the name before the colon. */
const char *gpud_device_kind(const struct gpud_device *device);

/* The open device of this name, or NULL. */
struct gpud_device *gpud_context_find_device(struct gpud_context *context, const char *name);

/* The open devices of a backend, at most max; they stay open until the context ends. */
size_t gpud_context_list_open(struct gpud_context *context, const struct gpud_device_ops *ops,
                              const struct gpud_device **list, size_t max);

/* Whether the queues of both accept the memories of both, without a copy. */
bool gpud_devices_have_common_memory(const struct gpud_device *a, const struct gpud_device *b);

/* The vendor's information about the link between two devices of one kind. */
void gpud_device_ask_link(const struct gpud_device *from, const struct gpud_device *to,
                          struct gpud_device_link *link);

/* Probes the device of a kind at a PCI address ("0000:63:00.0"), to query its driver; it is not
 * opened and needs no close. false: none is available there. */
bool gpud_device_probe_at(struct gpud_context *context, const char *kind, const char *pci,
                          struct gpud_device *probed);

/* Adds a kept record to the context; and removes one for which fits(kept, arg) is true, which is
 * called under the context's lock. NULL: none. */
void gpud_context_keep(struct gpud_context *context, struct gpud_kept *kept);
struct gpud_kept *gpud_context_take_kept(struct gpud_context *context,
                                         bool (*fits)(const struct gpud_kept *kept,
                                                      const void *arg),
                                         const void *arg);

/* Waits briefly for deferred teardown, so that nothing is left of an ended link unless a device is
 * stuck. Not under a lock. */
void gpud_context_drain(struct gpud_context *context);

/* --- memory.c ------------------------------------------------------------------------------ */

enum gpud_status gpud_memory_alloc_for(struct gpud_device *device, uint64_t size,
                                       enum gpud_usage usage, struct gpud_memory **memory,
                                       struct gpud_error *error);

/* Makes host pages accessible to the device. destroy as in gpud_memory_wrap(). */
enum gpud_status gpud_memory_wrap_host(struct gpud_device *device, void *data, uint64_t size,
                                       bool read_only, void (*destroy)(void *user), void *user,
                                       struct gpud_memory **memory, struct gpud_error *error);

/* Replaces the last unref: the driver keeps the memory until the process ends, because a peer may
 * write it at any time through an address that cannot be revoked. */
void gpud_memory_abandon(struct gpud_memory **memory);

struct gpud_memory *gpud_memory_ref(struct gpud_memory *memory);

/* gpud_memory_wrap() for memory that peers are to map or write: exported like our own. */
enum gpud_status gpud_memory_wrap_for(struct gpud_device *device, void *native, uint64_t size,
                                      enum gpud_usage usage, void (*destroy)(void *user),
                                      void *user, struct gpud_memory **memory,
                                      struct gpud_error *error);

/* A view for another device of host memory, or of a device's memory that it has in common, which
 * the view may only read. Created by the first call and kept as long as the memory, because pinning
 * pages costs more than a copy. Borrowed. */
enum gpud_status gpud_memory_view(struct gpud_memory *memory, struct gpud_device *device,
                                  struct gpud_memory **view, struct gpud_error *error);

/* A handle for this process and context only: the pointer. Always possible. */
void gpud_memory_export_local(struct gpud_memory *memory, struct gpud_handle *handle);
enum gpud_status gpud_memory_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                    struct gpud_error *error);
enum gpud_status gpud_memory_import(struct gpud_device *device, const struct gpud_handle *handle,
                                    uint64_t size, enum gpud_usage usage,
                                    struct gpud_memory **memory, struct gpud_error *error);

/* Call before registering a memory with another card by its address (peermem). */
enum gpud_status gpud_memory_before_dma(struct gpud_memory *memory, struct gpud_error *error);

/* Enclose the CPU's access to memory->host. Free of cost if the memory needs no synchronisation. */
enum gpud_status gpud_memory_begin_access(struct gpud_memory *memory, unsigned access,
                                          struct gpud_error *error);
void gpud_memory_end_access(struct gpud_memory *memory, unsigned access);

/* Call before reading what a card or a peer wrote into our own memory: a device may see the
 * signalling word before the bytes. Free of cost if the device preserves the order. */
enum gpud_status gpud_memory_flush_remote(struct gpud_memory *memory, struct gpud_error *error);

/* --- queue.c ------------------------------------------------------------------------------- */

enum gpud_status gpud_queue_create(struct gpud_device *device, struct gpud_queue **queue,
                                   struct gpud_error *error);
struct gpud_queue *gpud_queue_ref(struct gpud_queue *queue);
void gpud_queue_unref(struct gpud_queue **queue);
enum gpud_status gpud_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                 struct gpud_error *error);
/* Counts a frame's copy as the device's or the CPU's; as both if the CPU carries pages that the
 * device cannot pin. */
void gpud_queue_count_copy(const struct gpud_queue *queue, const struct gpud_memory *from,
                           atomic_uint_fast64_t *by_cpu, atomic_uint_fast64_t *by_gpu);
enum gpud_status gpud_queue_flush(struct gpud_queue *queue, struct gpud_error *error);
enum gpud_status gpud_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                        struct gpud_error *error);
enum gpud_status gpud_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                   struct gpud_error *error);
enum gpud_status gpud_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                uint64_t offset, uint64_t size, unsigned access, int64_t deadline,
                                void **data, struct gpud_error *error);
enum gpud_status gpud_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                                  struct gpud_error *error);

/* Moves a memory to the queue's device, which has it in common; see the op. */
enum gpud_status gpud_queue_migrate(struct gpud_queue *queue, struct gpud_memory *memory,
                                    struct gpud_queue *after, bool discard,
                                    struct gpud_error *error);

/* Wraps the application's own queue, in a record of the caller's that needs no destroy. */
enum gpud_status gpud_queue_wrap(struct gpud_device *device, void *native, struct gpud_queue *queue,
                                 struct gpud_error *error);
/* A point in a queue's work for which other queues of the device can wait. */
struct gpud_fence {
    struct gpud_device *device; /* NULL: none */
    void *native;
};
/* Whether the device's queues can wait for each other's fences. */
bool gpud_device_has_fences(const struct gpud_device *device);

enum gpud_status gpud_queue_mark(struct gpud_queue *queue, struct gpud_fence *fence,
                                 struct gpud_error *error);
enum gpud_status gpud_queue_await(struct gpud_queue *queue, const struct gpud_fence *fence,
                                  struct gpud_error *error);
/* Whether the work before the fence has ended, in success or failure. */
bool gpud_fence_is_passed(const struct gpud_fence *fence);
void gpud_fence_drop(struct gpud_fence *fence);

/* Whether one of our own queues has nothing to do: all its work has ended, and none was enqueued of
 * late. The first call of a driver after a pause costs many times what the next one costs, so for a
 * frame that comes alone one question replaces a mark, a wait and a post: there is nothing to wait
 * for, and the CPU writes the word. */
bool gpud_queue_is_resting(struct gpud_queue *queue);
/* For signals: work was put on the queue. */
void gpud_queue_use(struct gpud_queue *queue);

/* Orders later work on `later` after the current work on `earlier`. Without fences this thread
 * waits for it, for a second at most. */
enum gpud_status gpud_queue_join(struct gpud_queue *later, struct gpud_queue *earlier,
                                 struct gpud_error *error);

/* --- image.c ------------------------------------------------------------------------------- */

/* See the ops. rows and the modifiers may be a peer's. GPUD_UNSUPPORTED: the device has no such
 * image, and why. */
enum gpud_status gpud_image_describe(struct gpud_device *device, const struct gpud_layout *rows,
                                     const uint64_t *modifiers, uint32_t count,
                                     struct gpud_layout *image, struct gpud_error *error);
enum gpud_status gpud_image_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                 const struct gpud_layout *to, const struct gpud_layout *from,
                                 struct gpud_error *error);

/* --- signal.c ------------------------------------------------------------------------------ */

enum gpud_status gpud_signal_create(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error);
/* A peer's word: at offset, or the word that comes with imported memory. */
enum gpud_status gpud_signal_import(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error);
void gpud_signal_destroy(struct gpud_signal **signal);

/* These take values up to GPUD_SIGNAL_WORD_MAX; else GPUD_INVALID. */
enum gpud_status gpud_signal_post(struct gpud_signal *signal, uint64_t value,
                                  struct gpud_queue *queue, struct gpud_error *error);
/* Both by one call of the driver; any failure has posted neither. GPUD_UNSUPPORTED: it has none. */
enum gpud_status gpud_signal_post_both(struct gpud_signal *first, struct gpud_signal *second,
                                       uint64_t value, struct gpud_queue *queue,
                                       struct gpud_error *error);
enum gpud_status gpud_signal_wait_queue(struct gpud_signal *signal, uint64_t value,
                                        struct gpud_queue *queue, struct gpud_error *error);
enum gpud_status gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value, int64_t deadline,
                                       struct gpud_error *error);
/* *reached: whether the word is at least value; does not wait. */
enum gpud_status gpud_signal_look(struct gpud_signal *signal, uint64_t value, bool *reached,
                                  struct gpud_error *error);
enum gpud_status gpud_signal_poison(struct gpud_signal *signal, uint64_t value,
                                    struct gpud_error *error);

#endif
