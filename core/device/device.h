/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices, memories, queues and signals as the layers above use them: checked and counted. */
#ifndef GPUD_DEVICE_DEVICE_H
#define GPUD_DEVICE_DEVICE_H

#include "base/log.h"
#include "device/ops.h"
#include "device/worker.h"

/* A record that outlives its owner, because a peer may still write what it names. Embedded in it.
 */
struct gpud_kept {
    struct gpud_kept *next;
    /* The context ends. Called once, after the record has left the list. */
    void (*end)(struct gpud_kept *kept);
};

/* At least as many as device.c has in its table. */
#define GPUD_BACKENDS_MAX 8

struct gpud_context {
    struct gpud_log log;
    uint64_t token; /* random: tells whether a peer lives in this very context */
    /* One for each backend: a device is opened under it, so that no other thread opens it, too. A
     * driver may take seconds, so nothing else is done under it. */
    struct gpud_lock opening[GPUD_BACKENDS_MAX];
    /* Of the lists that follow; no driver is called under it. */
    struct gpud_lock lock;
    struct gpud_device **devices; /* those open, until the context ends */
    size_t device_count;
    struct gpud_memory **local; /* memories shared inside the process; index = local_id - 1 */
    size_t local_count;
    struct gpud_worker watch; /* never calls a driver, so that nothing blocks it */
    struct gpud_worker later; /* tears down what devices may still be using */
    struct gpud_kept *kept;
    atomic_uint ending; /* links on their way from watch to later */
};

/* --- device.c ------------------------------------------------------------------------------ */

struct gpud_device *gpud_device_ref(struct gpud_device *device);

/* Calls fn for each device that is looked for, the absent ones, too, in the order of
 * a list of devices: probed and not opened. The record is gone afterwards. */
void gpud_device_each(struct gpud_context *context,
                      void (*fn)(const struct gpud_device *device, void *arg), void *arg);

/* Whether memory of a device that was probed may have a dma-buf, as far as can be told without any.
 * GPUD_UNSUPPORTED, with the reason. */
enum gpud_status gpud_device_check_dmabuf(const struct gpud_device *device,
                                          struct gpud_error *error);

/* "host", "opencl": the part of the name before the colon. */
const char *gpud_device_kind(const struct gpud_device *device);

/* The device that is open under this name; NULL: none is. */
struct gpud_device *gpud_context_find_device(struct gpud_context *context, const char *name);

/* The open devices of a backend, at most max; they stay open until the context ends. */
size_t gpud_context_list_open(struct gpud_context *context, const struct gpud_device_ops *ops,
                              const struct gpud_device **list, size_t max);

/* Whether the queues of both take the memories of both, without a copy. */
bool gpud_devices_have_common_memory(const struct gpud_device *a, const struct gpud_device *b);

/* What the vendor says of the way between two devices of one kind. */
void gpud_device_ask_link(const struct gpud_device *from, const struct gpud_device *to,
                          struct gpud_device_link *link);

/* The device of a kind at a place on the bus ("0000:63:00.0"), to ask its driver about: probed, not
 * opened, and nothing to close. false: none is available there. */
bool gpud_device_probe_at(struct gpud_context *context, const char *kind, const char *pci,
                          struct gpud_device *probed);

/* Adds a record to what the context keeps, and takes one out for which fits(kept, arg), which is
 * called under the context's lock. NULL: there is none. */
void gpud_context_keep(struct gpud_context *context, struct gpud_kept *kept);
struct gpud_kept *gpud_context_take_kept(struct gpud_context *context,
                                         bool (*fits)(const struct gpud_kept *kept,
                                                      const void *arg),
                                         const void *arg);

/* Waits briefly until deferred teardown is done: after the end of a link nothing of it is left,
 * unless a device is stuck. Not under a lock. */
void gpud_context_drain(struct gpud_context *context);

/* --- memory.c ------------------------------------------------------------------------------ */

enum gpud_status gpud_memory_alloc_for(struct gpud_device *device, uint64_t size,
                                       enum gpud_usage usage, struct gpud_memory **memory,
                                       struct gpud_error *error);

/* Host pages as the device sees them. destroy as in gpud_memory_wrap(). */
enum gpud_status gpud_memory_wrap_host(struct gpud_device *device, void *data, uint64_t size,
                                       bool read_only, void (*destroy)(void *user), void *user,
                                       struct gpud_memory **memory, struct gpud_error *error);

/* Instead of the last unref: the driver keeps the memory until the process ends, because a peer
 * may write it for ever by an address that cannot be taken back. */
void gpud_memory_abandon(struct gpud_memory **memory);

struct gpud_memory *gpud_memory_ref(struct gpud_memory *memory);

/* gpud_memory_wrap() of memory that others are to map or write: exported like our own. */
enum gpud_status gpud_memory_wrap_for(struct gpud_device *device, void *native, uint64_t size,
                                      enum gpud_usage usage, void (*destroy)(void *user),
                                      void *user, struct gpud_memory **memory,
                                      struct gpud_error *error);

/* Host memory, or memory of a device that has it in common, as another device sees it, which only
 * reads the latter: made at the first call, then kept as long as the memory
 * itself, because pinning pages costs more than a copy. Borrowed. */
enum gpud_status gpud_memory_view(struct gpud_memory *memory, struct gpud_device *device,
                                  struct gpud_memory **view, struct gpud_error *error);

/* A handle for this process and context only: the pointer. Always possible. */
void gpud_memory_export_local(struct gpud_memory *memory, struct gpud_handle *handle);
enum gpud_status gpud_memory_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                    struct gpud_error *error);
enum gpud_status gpud_memory_import(struct gpud_device *device, const struct gpud_handle *handle,
                                    uint64_t size, enum gpud_usage usage,
                                    struct gpud_memory **memory, struct gpud_error *error);

/* To be called before a memory is registered with another card by its address (peermem). */
enum gpud_status gpud_memory_before_dma(struct gpud_memory *memory, struct gpud_error *error);

/* A dma-buf of a part of a memory: gpud_memory_export_dmabuf() is one of all of it. */
enum gpud_status gpud_memory_export_dmabuf_part(struct gpud_memory *memory, uint64_t from,
                                                uint64_t size, int *fd, uint64_t *offset,
                                                struct gpud_error *error);

/* Around the CPU's access to memory->host. Costs nothing where the memory needs nothing. */
enum gpud_status gpud_memory_begin_access(struct gpud_memory *memory, unsigned access,
                                          struct gpud_error *error);
void gpud_memory_end_access(struct gpud_memory *memory, unsigned access);

/* Before what a card or a peer wrote into one's own memory is read: a device may see the word that
 * says so earlier than the bytes. Costs nothing where the device keeps the order by itself. */
enum gpud_status gpud_memory_flush_remote(struct gpud_memory *memory, struct gpud_error *error);

/* --- queue.c ------------------------------------------------------------------------------- */

enum gpud_status gpud_queue_create(struct gpud_device *device, struct gpud_queue **queue,
                                   struct gpud_error *error);
struct gpud_queue *gpud_queue_ref(struct gpud_queue *queue);
void gpud_queue_unref(struct gpud_queue **queue);
enum gpud_status gpud_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                 struct gpud_error *error);
/* Counts a frame's copy, by whom it was made: by both, where the CPU carries what the device cannot
 * pin. */
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

/* Moves a memory that the queue's device has in common with the memory's, see the op. */
enum gpud_status gpud_queue_migrate(struct gpud_queue *queue, struct gpud_memory *memory,
                                    struct gpud_queue *after, bool discard,
                                    struct gpud_error *error);

/* The application's own queue as one of ours, in a record of the caller's that needs no destroy. */
enum gpud_status gpud_queue_wrap(struct gpud_device *device, void *native, struct gpud_queue *queue,
                                 struct gpud_error *error);
/* A point in a queue's work that others of the device can wait for. */
struct gpud_fence {
    struct gpud_device *device; /* NULL: there is none */
    void *native;
};
/* Whether the device's queues wait for each other's fences by themselves. */
bool gpud_device_has_fences(const struct gpud_device *device);

enum gpud_status gpud_queue_mark(struct gpud_queue *queue, struct gpud_fence *fence,
                                 struct gpud_error *error);
enum gpud_status gpud_queue_await(struct gpud_queue *queue, const struct gpud_fence *fence,
                                  struct gpud_error *error);
/* Whether what was on the queue has ended, done or failed. */
bool gpud_fence_is_passed(const struct gpud_fence *fence);
void gpud_fence_drop(struct gpud_fence *fence);

/* What is enqueued on `later` from now on runs after what is on `earlier`. Where devices have no
 * fences this thread waits for that, for a second at most. */
enum gpud_status gpud_queue_join(struct gpud_queue *later, struct gpud_queue *earlier,
                                 struct gpud_error *error);

/* --- signal.c ------------------------------------------------------------------------------ */

enum gpud_status gpud_signal_create(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error);
/* A word that others made: at offset, or the one of imported memory that has its own. */
enum gpud_status gpud_signal_import(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error);
void gpud_signal_destroy(struct gpud_signal **signal);

/* What follows takes values up to GPUD_SIGNAL_WORD_MAX; else GPUD_INVALID. */
enum gpud_status gpud_signal_post(struct gpud_signal *signal, uint64_t value,
                                  struct gpud_queue *queue, struct gpud_error *error);
enum gpud_status gpud_signal_wait_queue(struct gpud_signal *signal, uint64_t value,
                                        struct gpud_queue *queue, struct gpud_error *error);
enum gpud_status gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value, int64_t deadline,
                                       struct gpud_error *error);
/* *reached: whether the word stands at value or above; waits for nothing. */
enum gpud_status gpud_signal_look(struct gpud_signal *signal, uint64_t value, bool *reached,
                                  struct gpud_error *error);
enum gpud_status gpud_signal_poison(struct gpud_signal *signal, uint64_t value,
                                    struct gpud_error *error);

#endif
