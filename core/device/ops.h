/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The contract of a vendor. A backend is a folder, one line in device/backends.h and one in
 * core/meson.build.
 *
 * The wrappers of device.h check arguments and count references; an op trusts what it is given. An
 * op that fails has changed nothing. NULL = unsupported, unless it says otherwise. Ops of one
 * device are called from any thread, also on one queue at once (frames are mapped and released from
 * anywhere); ops on one memory come from one thread at a time; for signals see their ops. */
#ifndef GPUD_DEVICE_OPS_H
#define GPUD_DEVICE_OPS_H

#include "base/error.h"
#include "base/lock.h"
#include "device/handle.h"
#include <gpudirect/device.h>
#include <pthread.h>
#include <stdatomic.h>

struct gpud_device;
struct gpud_queue;
struct gpud_signal;

/* What a memory is for; a backend may refuse what it cannot do (GPUD_UNSUPPORTED, with the reason).
 */
enum gpud_usage {
    GPUD_USAGE_LOCAL,  /* this device writes and reads it; the CPU can map it */
    GPUD_USAGE_SHARE,  /* exported, so that others map it and read it where it is */
    GPUD_USAGE_TARGET, /* exported, so that others write it; has a signal that they post */
    GPUD_USAGE_DMABUF, /* as LOCAL, and has dma-bufs, which a driver of another card writes */
};

/* A range of a memory that the CPU can reach at the moment, however many asked for it. */
struct gpud_mapping {
    struct gpud_mapping *next;
    uint64_t offset, size;
    unsigned access, count;
    void *data;
};

struct gpud_memory {
    struct gpud_device *device;
    atomic_uint references;
    atomic_uint holds; /* what keeps the pages: the memory itself, and each of its views */
    uint64_t size;
    enum gpud_usage usage;
    bool imported; /* another process's: never exported again */
    bool read_only;
    bool unpinned; /* host pages that the device could not pin: the CPU carries what is copied */
    bool synced;   /* the CPU's access to host stands between calls of sync */
    void *native;  /* what gpud_memory_get_native() gives: a host pointer, a cl_mem, an address */
    void *host;    /* the CPU's address, where there is one all the time; else NULL */
    void *backend; /* the backend's own record, or NULL */
    uint64_t local_id; /* in the table of what this process shares with itself; 0: not there */
    struct gpud_lock map_lock;
    struct gpud_mapping *mappings; /* under map_lock */
    struct gpud_memory *views;     /* host memory as other devices see it; under map_lock */
    struct gpud_memory *next_view;
    void (*destroy)(void *user);
    void *user;
};

struct gpud_queue {
    struct gpud_device *device;
    atomic_uint references;
    atomic_uint_fast64_t waits; /* times the CPU waited for it */
    void *native;  /* the driver's own queue, where a handle is all that it is (CUstream) */
    void *backend; /* NULL: the application's own (see gpud_fence_ops.wrap) */
};

/* A point on a time line that only grows. Values have 64 bits in the calls of device.h; this kind
 * is a 32-bit word, and values end at GPUD_SIGNAL_WORD_MAX. It belongs to a memory: DirectGMA waits
 * on the memory object. */
#define GPUD_SIGNAL_WORD_MAX UINT32_MAX

struct gpud_signal {
    struct gpud_device *device;
    struct gpud_memory *memory;
    uint64_t offset;         /* of the word, where the word lies in the memory itself; else 0 */
    _Atomic uint32_t waited; /* the greatest value that a queue was made to wait for */
    void *backend;
};

/* Rows from one place to another. One row is a linear copy. */
struct gpud_copy {
    struct gpud_memory *to, *from;
    uint64_t to_offset, from_offset;
    uint32_t to_stride, from_stride;
    uint64_t row_bytes;
    uint32_t rows;
};

/* Called once, from any thread, possibly before the call that registered it returns. status is
 * GPUD_OK, or the queue failed and what was enqueued may not have happened. Must not block and must
 * not call the queue. */
typedef void (*gpud_complete_fn)(void *arg, enum gpud_status status);

struct gpud_memory_ops {
    /* Zeroed memory. Sets native, host, backend. */
    enum gpud_status (*alloc)(struct gpud_memory *memory, struct gpud_error *error);
    /* Memory that the application allocated: memory->native is the vendor's object. Sets host,
     * backend. */
    enum gpud_status (*wrap)(struct gpud_memory *memory, struct gpud_error *error);
    /* Host memory (memory->host, memory->size, memory->read_only) as this device sees it; the pages
     * outlive it. */
    enum gpud_status (*wrap_host)(struct gpud_memory *memory, struct gpud_error *error);
    /* Undoes any of the above, and import_handle, once no work on the device uses the memory any
     * more. Does not block: it calls gpud_memory_freed() when it is done, from any thread. */
    void (*free)(struct gpud_memory *memory);
    /* The handle's descriptor, if it has one, is the caller's to close. */
    enum gpud_status (*export_handle)(struct gpud_memory *memory, struct gpud_handle *handle,
                                      struct gpud_error *error);
    /* The handle is a peer's word: nothing in it is believed. memory->size is what must be there,
     * memory->usage what the memory is for here: SHARE maps it for reading, TARGET for writing.
     * handle->fd stays the caller's. */
    enum gpud_status (*import_handle)(struct gpud_memory *memory, const struct gpud_handle *handle,
                                      struct gpud_error *error);
    /* Another card is about to be given the memory by its address, as gpud_dmabuf_ops.export_part
     * gives it: what the driver has to know of that. NULL: nothing. */
    enum gpud_status (*before_dma)(struct gpud_memory *memory, struct gpud_error *error);
    /* What others wrote into the memory over the bus, and have said so, is seen by all that reads
     * it on this device from now on. By the owner of the memory; waits for no queue. */
    enum gpud_status (*flush_remote)(struct gpud_memory *memory, struct gpud_error *error);
};

/* dma-bufs, where the memory of a device has any. */
struct gpud_dmabuf_ops {
    /* A dma-buf that has the `size` bytes from `from` on, at *offset in it; *fd is the caller's to
     * close. */
    enum gpud_status (*export_part)(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                    int *fd, uint64_t *offset, struct gpud_error *error);
    /* Memory that is behind another driver's dma-buf, from offset on. fd stays the caller's. Sets
     * native, host, synced, backend. */
    enum gpud_status (*import)(struct gpud_memory *memory, int fd, uint64_t offset,
                               struct gpud_error *error);
    /* For memory that is synced: the CPU is about to access it, or has done so (end). */
    enum gpud_status (*sync)(struct gpud_memory *memory, unsigned access, bool end,
                             struct gpud_error *error);
};

/* For a backend that is done with a memory: calls destroy, and frees the record. */
void gpud_memory_freed(struct gpud_memory *memory);

struct gpud_queue_ops {
    enum gpud_status (*create)(struct gpud_queue *queue, struct gpud_error *error);
    void (*destroy)(struct gpud_queue *queue);
    /* Enqueues; both memories are this device's. */
    enum gpud_status (*copy)(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error);
    /* Starts what was enqueued. NULL: enqueueing starts it. */
    enum gpud_status (*flush)(struct gpud_queue *queue, struct gpud_error *error);
    /* Calls fn when all that was enqueued before is done. A queue's completions are called one at a
     * time, in the order in which they were asked for. On failure fn is not called. */
    enum gpud_status (*on_complete)(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error);
    /* Waits until all that was enqueued is done. */
    enum gpud_status (*finish)(struct gpud_queue *queue, int64_t deadline,
                               struct gpud_error *error);
    /* CPU access, after what was enqueued before it. GPUD_TIMEOUT leaves nothing mapped. unmap:
     * what was written goes to the memory, in the order of the queue; on failure nothing is mapped
     * any more, and it is lost. */
    enum gpud_status (*map)(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error);
    enum gpud_status (*unmap)(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error);
};

/* With GPUD_CAP_FENCES: points in a queue's work that other queues of the device, and the
 * application's own, can wait for. */
struct gpud_fence_ops {
    /* A fence behind what is on the queue now; await: what is enqueued from now on runs after it,
     * on any queue of the device, as often as one likes; is_passed: whether the work before it has
     * ended, without waiting; drop: at any time. */
    enum gpud_status (*mark)(struct gpud_queue *queue, void **fence, struct gpud_error *error);
    enum gpud_status (*await)(struct gpud_queue *queue, void *fence, struct gpud_error *error);
    bool (*is_passed)(struct gpud_device *device, void *fence);
    void (*drop)(struct gpud_device *device, void *fence);
    /* The application's own queue (a CUstream) as one of ours, for signals and joins; it stays the
     * application's. Fills a record of the caller's, which needs no destroy. */
    enum gpud_status (*wrap)(struct gpud_queue *queue, void *native, struct gpud_error *error);
};

/* For backends whose signals are words in memory with a host address. */
_Atomic uint32_t *gpud_signal_word(const struct gpud_signal *signal);

/* GPUD_INVALID if the word leaves its memory. */
enum gpud_status gpud_signal_check_word(const struct gpud_signal *signal, struct gpud_error *error);

/* import for them: the word is one that others share. GPUD_PEER if it leaves its memory. */
enum gpud_status gpud_signal_import_word(struct gpud_signal *signal, struct gpud_error *error);

/* Never lowers it. */
void gpud_signal_raise_word(struct gpud_signal *signal, uint32_t value);

/* With GPUD_CAP_SIGNALS. Without it, hand-overs are posted by the host when the queue says that it
 * is done.
 *
 * create, import and destroy have a signal to themselves: the caller makes sure that no
 * other op is under way. wait_queue, wait_host, look and poison may run at once, in any number of
 * threads and for any values: one waits for a frame while another finds that its writer has died.
 * post may run beside those, by one thread at a time, for values grow. */
struct gpud_signal_ops {
    /* The word starts at 0. memory is TARGET memory of this device, or wrapped host memory with a
     * word at offset. */
    enum gpud_status (*create)(struct gpud_signal *signal, struct gpud_error *error);
    /* A word that another process made, and that is not set to 0. memory is imported TARGET memory,
     * or wrapped host memory with a word at offset, which may be a peer's word. */
    enum gpud_status (*import)(struct gpud_signal *signal, struct gpud_error *error);
    /* Releases queues that still wait (up to signal->waited): later nothing could. */
    void (*destroy)(struct gpud_signal *signal);
    /* word = value, after what was enqueued before it. Only an imported signal, or one on host
     * memory. */
    enum gpud_status (*post)(struct gpud_signal *signal, uint32_t value, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* What is enqueued later waits for word >= value. Only one's own signal. Never on a promise:
     * the work that posts it must have been enqueued. */
    enum gpud_status (*wait_queue)(struct gpud_signal *signal, uint32_t value,
                                   struct gpud_queue *queue, struct gpud_error *error);
    /* The calling thread waits for word >= value. */
    enum gpud_status (*wait_host)(struct gpud_signal *signal, uint32_t value, int64_t deadline,
                                  struct gpud_error *error);
    /* Whether word >= value, without waiting. NULL: wait_host with a deadline that is over tells.
     * Where only the device can look at the word, the answer is what it has seen since it was first
     * asked about this value. */
    enum gpud_status (*look)(struct gpud_signal *signal, uint32_t value, bool *reached,
                             struct gpud_error *error);
    /* Raises one's own word from the CPU, to release waits for a writer that died. value is
     * one that is waited for: a writer that turns out to live posts no less. */
    enum gpud_status (*poison)(struct gpud_signal *signal, uint32_t value,
                               struct gpud_error *error);
};

/* What a device can do; each bit says one thing. They go over the wire: a value never changes its
 * meaning. What no bit says, every backend does. */
enum gpud_device_caps {
    GPUD_CAP_HOST = 1 << 0,            /* it is the host: its memory is the host's own */
    GPUD_CAP_SHARE = 1 << 1,           /* can export memory for others of its kind to map */
    GPUD_CAP_BUS_ADDRESSABLE = 1 << 2, /* cl_amd_bus_addressable_memory, proved */
    GPUD_CAP_SIGNALS = 1 << 3,         /* its queues wait for words, and post them */
    GPUD_CAP_PAGE_SIGNALS = 1 << 4,    /* the words lie in host pages that several devices see */
    GPUD_CAP_CPU_ADDRESSABLE = 1 << 5, /* all its memory has a CPU address, all the time */
    GPUD_CAP_SYNCHRONOUS = 1 << 6,     /* the CPU copies: done when the call returns */
    GPUD_CAP_FENCES = 1 << 7,          /* its queues can wait for one another */
    GPUD_CAP_IMPORT = 1 << 8,          /* takes memory that another driver of the same GPU exports
                                          by descriptor, to read and to write */
    GPUD_CAP_PINS_WRITABLE = 1 << 9,   /* a restriction: pins only host pages that this process may
                                          write; what it may only read the CPU has to carry */
};

/* Devices whose memory a device can write by itself, by their uuid. */
#define GPUD_REACH_MAX 16

struct gpud_device {
    const struct gpud_device_ops *ops;
    struct gpud_context *context;
    unsigned index;
    atomic_uint references;
    uint32_t caps;    /* enum gpud_device_caps */
    uint8_t uuid[16]; /* the same piece of hardware has the same one in every process; zero: none */
    uint64_t aperture; /* bytes of TARGET memory that it can have at once; 0: no limit known */
    char no_direct[GPUD_REASON_MAX]; /* why GPUD_CAP_BUS_ADDRESSABLE (or the vendor's like) is
                            missing; "" if it is there */
    uint32_t reach_count;
    uint8_t reach[GPUD_REACH_MAX][16]; /* filled by open; the device itself is among them */
    char no_dmabuf[GPUD_REASON_MAX];   /* why none of its memory has a dma-buf, as far as probe can
                                          tell; "": it may */
    /* What its memories lie in: where two devices of one gpud_context have the same here, the
     * queues of each take the other's memory. Filled by open; NULL: it has nothing in common. */
    const void *common;
    bool dmabuf_pci_only; /* its dma-bufs are for drivers of PCI devices alone: its exporter takes
                             every other device for one */
    uint32_t host_rate;   /* MB/s to and from the host's memory, by the vendor's figures; filled by
                             open; 0: unknown */
    struct gpud_device_info info;
    void *backend;
};

struct gpud_device_ops {
    const char *name; /* "host", "opencl": the part before the colon */
    bool single;      /* there is only one, and its name has no index */
    /* How many there are; at least 1, so that probe can say why there is none. Loads the driver. */
    unsigned (*count)(void);
    /* Fills caps, uuid, aperture, no_direct, no_dmabuf and info's description, available,
     * direct_writes and reason. Never fails: an absent device is available = false with the reason.
     */
    void (*probe)(struct gpud_device *device);
    enum gpud_status (*open)(struct gpud_device *device, struct gpud_error *error);
    void (*close)(struct gpud_device *device);
    /* What gpud_device_get_native() gives. NULL: nothing. */
    void *(*native)(const struct gpud_device *device);
    /* Refines what the buses say of two devices of this backend. */
    void (*link)(const struct gpud_device *from, const struct gpud_device *to,
                 struct gpud_device_link *link);
    /* Whose memory a pointer is; false: this driver does not know it. */
    bool (*identify)(const void *pointer, struct gpud_pointer_info *info);
    /* With gpud_device.common. NULL elsewhere. Starts to move a memory of a device that has its own
     * in common with this queue's to this queue's device, after what is on `after` now, a queue of
     * such a device (NULL: after nothing else). discard: what the memory holds need not come along.
     */
    enum gpud_status (*migrate)(struct gpud_queue *queue, struct gpud_memory *memory,
                                struct gpud_queue *after, bool discard, struct gpud_error *error);
    /* The kinds of handles that its memories are exported as, or that it imports. */
    const struct gpud_handle_kind *handles;
    unsigned handle_count;
    /* Files, as patterns, that show that a kernel module gives network cards' drivers the pages
     * behind this driver's addresses; NULL at the end. NULL: no module does. */
    const char *const *peermem;
    const char *no_peermem; /* what to say where none of them is there */
    /* hwloc's plugins that would load the driver, beside one of the backend's name; NULL at the
     * end. NULL: none. */
    const char *const *hwloc_plugins;
    const struct gpud_memory_ops *memory;
    const struct gpud_dmabuf_ops *dmabuf; /* NULL: none of its memory has a dma-buf */
    const struct gpud_queue_ops *queue;
    const struct gpud_fence_ops *fence; /* NULL without GPUD_CAP_FENCES */
    const struct gpud_signal_ops *signal;
};

#endif
