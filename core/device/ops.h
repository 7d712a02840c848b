/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The contract of a vendor. A backend is a folder, one line in device/backends.h and one in
 * core/meson.build.
 *
 * The wrappers of device.h check arguments and count references; an op trusts its arguments. An op
 * that fails has changed nothing. NULL = unsupported, except where noted. Any thread may call a
 * device's ops, also concurrently on one queue (frames are mapped and released by any thread); one
 * thread at a time calls ops on one memory; for signals see their ops. */
#ifndef GPUD_DEVICE_OPS_H
#define GPUD_DEVICE_OPS_H

#include "base/error.h"
#include "base/lock.h"
#include "device/handle.h"
#include <gpudirect/device.h>
#include <gpudirect/layout.h>
#include <pthread.h>
#include <stdatomic.h>

struct gpud_device;
struct gpud_queue;
struct gpud_signal;

/* The use of a memory; a backend may not support all (GPUD_UNSUPPORTED, with the reason). */
enum gpud_usage {
    GPUD_USAGE_LOCAL,  /* this device writes and reads it; the CPU can map it */
    GPUD_USAGE_SHARE,  /* exported, for peers to map and read in place */
    GPUD_USAGE_TARGET, /* exported, for peers to write; has a signal that they post */
    GPUD_USAGE_DMABUF, /* as LOCAL, and has dma-bufs, which another card's driver writes */
};

/* A currently mapped range of a memory, shared by all its users. */
struct gpud_mapping {
    struct gpud_mapping *next;
    uint64_t offset, size;
    unsigned access, count;
    void *data;
};

struct gpud_memory {
    struct gpud_device *device;
    atomic_uint references;
    atomic_uint holds; /* references on the pages: the memory's own, and one for each view */
    uint64_t size;
    enum gpud_usage usage;
    bool imported;  /* another process's: never exported again */
    bool reexports; /* but as a dma-buf, for other drivers of this process */
    bool read_only;
    bool unpinned;     /* host pages that the device could not pin: the CPU makes the copies */
    bool synced;       /* the CPU's accesses to host need calls of sync around them */
    void *native;      /* for gpud_memory_get_native(): a host pointer, a cl_mem, an address */
    void *host;        /* the CPU's permanent address, or NULL */
    void *backend;     /* the backend's own record, or NULL */
    uint64_t local_id; /* in the table of memories shared inside this process; 0: not there */
    struct gpud_lock map_lock;
    struct gpud_mapping *mappings; /* under map_lock */
    struct gpud_memory *views;     /* other devices' views of host memory; under map_lock */
    struct gpud_memory *next_view;
    void (*destroy)(void *user);
    void *user;
};

struct gpud_queue {
    struct gpud_device *device;
    atomic_uint references;
    atomic_uint_fast64_t waits; /* how often the CPU waited for it */
    void *native;               /* the driver's queue, if it is just a handle (CUstream) */
    void *backend;              /* NULL: the application's own (see gpud_fence_ops.wrap) */
    /* gpud_now() at which work was last enqueued; 0: none since it was seen to be idle. Of our own
     * queues; see gpud_queue_is_resting(). */
    _Atomic int64_t used;
};

/* A point on a time line that only grows. Values have 64 bits in the calls of device.h; this kind
 * is a 32-bit word, and values end at GPUD_SIGNAL_WORD_MAX. It belongs to a memory: DirectGMA waits
 * on the memory object. */
#define GPUD_SIGNAL_WORD_MAX UINT32_MAX

struct gpud_signal {
    struct gpud_device *device;
    struct gpud_memory *memory;
    uint64_t offset;         /* of the word, if it lies in the memory itself; else 0 */
    _Atomic uint32_t waited; /* the greatest value for which a queue waits or waited */
    void *backend;
};

/* A copy of rows. One row is a linear copy. */
struct gpud_copy {
    struct gpud_memory *to, *from;
    uint64_t to_offset, from_offset;
    uint32_t to_stride, from_stride;
    uint64_t row_bytes;
    uint32_t rows;
};

/* Called once, from any thread, possibly before the call that registered it returns. status is
 * GPUD_OK, or the queue failed and the work may not have been done. Must not block and must not
 * call the queue. */
typedef void (*gpud_complete_fn)(void *arg, enum gpud_status status);

struct gpud_memory_ops {
    /* Zeroed memory. Sets native, host, backend. */
    enum gpud_status (*alloc)(struct gpud_memory *memory, struct gpud_error *error);
    /* Memory that the application allocated: memory->native is the vendor's object. Sets host,
     * backend. */
    enum gpud_status (*wrap)(struct gpud_memory *memory, struct gpud_error *error);
    /* Makes host memory (memory->host, memory->size, memory->read_only) accessible to this device;
     * the pages outlive it. */
    enum gpud_status (*wrap_host)(struct gpud_memory *memory, struct gpud_error *error);
    /* Undoes any of the above, and import_handle, when no work on the device uses the memory any
     * more. Does not block: it calls gpud_memory_freed() when done, from any thread. */
    void (*free)(struct gpud_memory *memory);
    /* The caller closes the handle's descriptor, if it has one. */
    enum gpud_status (*export_handle)(struct gpud_memory *memory, struct gpud_handle *handle,
                                      struct gpud_error *error);
    /* The handle is untrusted. memory->size is the required size, memory->usage the use here: SHARE
     * maps it for reading, TARGET for writing. handle->fd stays the caller's. */
    enum gpud_status (*import_handle)(struct gpud_memory *memory, const struct gpud_handle *handle,
                                      struct gpud_error *error);
    /* Prepares the driver for another card's access by address, as export_part does for dma-bufs.
     * NULL: nothing to do. */
    enum gpud_status (*before_dma)(struct gpud_memory *memory, struct gpud_error *error);
    /* Makes bytes that peers have written over the bus, and signalled, visible to all later reads
     * on this device. Called by the memory's owner; waits for no queue. */
    enum gpud_status (*flush_remote)(struct gpud_memory *memory, struct gpud_error *error);
};

/* For devices whose memory can have dma-bufs. */
struct gpud_dmabuf_ops {
    /* Exports a dma-buf with the `size` bytes from `from` on, at *offset in it; the caller closes
     * *fd. */
    enum gpud_status (*export_part)(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                    int *fd, uint64_t *offset, struct gpud_error *error);
    /* Imports the memory of another driver's dma-buf, from offset on. fd stays the caller's. Sets
     * native, host, synced, backend. */
    enum gpud_status (*import)(struct gpud_memory *memory, int fd, uint64_t offset,
                               struct gpud_error *error);
    /* For memory with `synced`: call before and after (end) the CPU's access. */
    enum gpud_status (*sync)(struct gpud_memory *memory, unsigned access, bool end,
                             struct gpud_error *error);
};

/* With GPUD_CAP_IMAGES: shared memory can have images, pictures that lie as the device's driver
 * arranges them. All that a driver has to know of one is in its layout: gpud_layout.modifier is not
 * 0, and each plane has the offset and the stride that the driver gave. */
struct gpud_image_ops {
    /* Describes an image with the format, size and planes of `rows`, of the modifier among these
     * that the driver prefers. *image ends where the next image in the same memory may begin. */
    enum gpud_status (*describe)(struct gpud_device *device, const struct gpud_layout *rows,
                                 const uint64_t *modifiers, uint32_t count,
                                 struct gpud_layout *image, struct gpud_error *error);
    /* Enqueues a copy of a picture. One layout, `to` or `from`, is an image's; both memories are
     * this device's. Of `frames` only memories and offsets count. */
    enum gpud_status (*copy)(struct gpud_queue *queue, const struct gpud_copy *frames,
                             const struct gpud_layout *to, const struct gpud_layout *from,
                             struct gpud_error *error);
};

/* For a backend that has freed a memory: calls destroy, and frees the record. */
void gpud_memory_freed(struct gpud_memory *memory);

struct gpud_queue_ops {
    enum gpud_status (*create)(struct gpud_queue *queue, struct gpud_error *error);
    void (*destroy)(struct gpud_queue *queue);
    /* Enqueues; both memories are this device's. */
    enum gpud_status (*copy)(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error);
    /* Starts the enqueued work. NULL: enqueueing starts it. */
    enum gpud_status (*flush)(struct gpud_queue *queue, struct gpud_error *error);
    /* Calls fn when all work enqueued before is done. A queue's completions are called one at a
     * time, in the order of these calls. On failure fn is not called. */
    enum gpud_status (*on_complete)(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error);
    /* Waits until all enqueued work is done. */
    enum gpud_status (*finish)(struct gpud_queue *queue, int64_t deadline,
                               struct gpud_error *error);
    /* CPU access, after the work enqueued before. GPUD_TIMEOUT leaves nothing mapped. unmap writes
     * changes to the memory, in the order of the queue; on failure the mapping is gone and the
     * changes are lost. */
    enum gpud_status (*map)(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error);
    enum gpud_status (*unmap)(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error);
};

/* With GPUD_CAP_FENCES: points in a queue's work for which other queues of the device, and the
 * application's own, can wait. */
struct gpud_fence_ops {
    /* mark: makes a fence after the queue's current work; await: orders a queue's later work after
     * it, for any queue of the device and any number of times; is_passed: whether the work before
     * it has ended, without waiting; drop: at any time. */
    enum gpud_status (*mark)(struct gpud_queue *queue, void **fence, struct gpud_error *error);
    enum gpud_status (*await)(struct gpud_queue *queue, void *fence, struct gpud_error *error);
    bool (*is_passed)(struct gpud_device *device, void *fence);
    void (*drop)(struct gpud_device *device, void *fence);
    /* Whether all work enqueued before has ended, without waiting. NULL, or false: not known. */
    bool (*is_idle)(struct gpud_queue *queue);
    /* Wraps the application's own queue (a CUstream), for signals and joins; the application keeps
     * ownership. Fills a record of the caller's, which needs no destroy. */
    enum gpud_status (*wrap)(struct gpud_queue *queue, void *native, struct gpud_error *error);
};

/* For backends whose signals are words in memory with a host address. */
_Atomic uint32_t *gpud_signal_word(const struct gpud_signal *signal);

/* GPUD_INVALID if the word leaves its memory. */
enum gpud_status gpud_signal_check_word(const struct gpud_signal *signal, struct gpud_error *error);

/* Their import, of a peer's word. GPUD_PEER if it leaves its memory. */
enum gpud_status gpud_signal_import_word(struct gpud_signal *signal, struct gpud_error *error);

/* Never lowers it. */
void gpud_signal_raise_word(struct gpud_signal *signal, uint32_t value);

/* With GPUD_CAP_SIGNALS. Without it the host publishes frames when the queue reports completion.
 *
 * create, import and destroy are exclusive: the caller makes sure that no other op is running.
 * wait_queue, wait_host, look and poison may run concurrently, in any number of threads and for any
 * values: one waits for a frame while another finds that its writer has died. post may run beside
 * those, in one thread at a time, because values grow. */
struct gpud_signal_ops {
    /* The word starts at 0. memory is TARGET memory of this device, or wrapped host memory with a
     * word at offset. */
    enum gpud_status (*create)(struct gpud_signal *signal, struct gpud_error *error);
    /* Another process's word, which is not reset to 0. memory is imported TARGET memory, or wrapped
     * host memory with a word at offset, which is untrusted. */
    enum gpud_status (*import)(struct gpud_signal *signal, struct gpud_error *error);
    /* Releases queues that still wait (up to signal->waited), because nothing could later. */
    void (*destroy)(struct gpud_signal *signal);
    /* word = value, after the work enqueued before. Only for an imported signal, or one in host
     * memory. */
    enum gpud_status (*post)(struct gpud_signal *signal, uint32_t value, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* The same for two signals, by one call of the driver; a failure has posted neither. NULL: it
     * has no such call. */
    enum gpud_status (*post_both)(struct gpud_signal *first, struct gpud_signal *second,
                                  uint32_t value, struct gpud_queue *queue,
                                  struct gpud_error *error);
    /* Makes later work wait for word >= value. Only for our own signal, and only after the work
     * that posts it was enqueued. */
    enum gpud_status (*wait_queue)(struct gpud_signal *signal, uint32_t value,
                                   struct gpud_queue *queue, struct gpud_error *error);
    /* The calling thread waits for word >= value. */
    enum gpud_status (*wait_host)(struct gpud_signal *signal, uint32_t value, int64_t deadline,
                                  struct gpud_error *error);
    /* Whether word >= value, without waiting. NULL: wait_host with a past deadline serves. If only
     * the device can read the word, the answer is what it has seen since the first call for this
     * value. */
    enum gpud_status (*look)(struct gpud_signal *signal, uint32_t value, bool *reached,
                             struct gpud_error *error);
    /* Raises our own word from the CPU, to release waits for a dead writer. value is one that is
     * being waited for, so a writer that is alive after all will not post less. */
    enum gpud_status (*poison)(struct gpud_signal *signal, uint32_t value,
                               struct gpud_error *error);
};

/* A device's capabilities, one for each bit. They are sent to peers, so a value never changes its
 * meaning. Every backend supports what has no bit. */
enum gpud_device_caps {
    GPUD_CAP_HOST = 1 << 0,            /* it is the host, with host memory */
    GPUD_CAP_SHARE = 1 << 1,           /* can export memory for others of its kind to map */
    GPUD_CAP_BUS_ADDRESSABLE = 1 << 2, /* cl_amd_bus_addressable_memory, proved */
    GPUD_CAP_SIGNALS = 1 << 3,         /* its queues wait for words, and post them */
    GPUD_CAP_PAGE_SIGNALS = 1 << 4,    /* the words lie in host pages that several devices map */
    GPUD_CAP_CPU_ADDRESSABLE = 1 << 5, /* all its memory has a permanent CPU address */
    GPUD_CAP_SYNCHRONOUS = 1 << 6,     /* the CPU copies, before the call returns */
    GPUD_CAP_FENCES = 1 << 7,          /* its queues can wait for one another */
    GPUD_CAP_IMPORT = 1 << 8,          /* imports memory that another driver of the same GPU exports
                                          by descriptor, to read and to write */
    GPUD_CAP_PINS_WRITABLE = 1 << 9,   /* a restriction: pins only host pages that this process may
                                          write; the CPU has to copy read-only ones */
    GPUD_CAP_GRAPHICS = 1 << 10,       /* its shared memory is a graphics driver's */
    GPUD_CAP_OF_GRAPHICS = 1 << 11,    /* imports such memory of the same GPU, as GPUD_CAP_IMPORT */
    GPUD_CAP_IMAGES = 1 << 12, /* has gpud_image_ops; of a peer: its slots are images now, or
                                  it takes slots that are */
};

/* Whether a device with these capabilities imports the memory of one with those. */
static inline bool gpud_caps_import(uint32_t importer, uint32_t exporter)
{
    return exporter & GPUD_CAP_SHARE &&
           (importer & GPUD_CAP_IMPORT ||
            (importer & GPUD_CAP_OF_GRAPHICS && exporter & GPUD_CAP_GRAPHICS));
}

/* The number of devices, by uuid, whose memory a device can write directly. */
#define GPUD_REACH_MAX 16

struct gpud_device {
    const struct gpud_device_ops *ops;
    struct gpud_context *context;
    unsigned index;
    atomic_uint references;
    uint32_t caps;     /* enum gpud_device_caps */
    uint8_t uuid[16];  /* of the hardware, the same in every process; zero: none */
    uint64_t aperture; /* bytes of TARGET memory that it can have at once; 0: no known limit */
    char no_direct[GPUD_REASON_MAX]; /* why GPUD_CAP_BUS_ADDRESSABLE (or the vendor's like) is
                            missing; "" if it is there */
    uint32_t reach_count;
    uint8_t reach[GPUD_REACH_MAX][16]; /* filled by open; includes the device itself */
    char no_dmabuf[GPUD_REASON_MAX];   /* why its memory cannot have a dma-buf, as far as probe
                                          knows; "": it may */
    /* The container of its memories: if two devices of one gpud_context have the same here, the
     * queues of each accept the other's memory. Filled by open; NULL: none. */
    const void *common;
    bool dmabuf_pci_only; /* only drivers of PCI devices may import its dma-bufs: its exporter takes
                             every importer for one */
    uint32_t host_rate;   /* MB/s to and from the host's memory, by the vendor's figures; filled by
                             open; 0: unknown */
    struct gpud_device_info info;
    void *backend;
};

struct gpud_device_ops {
    const char *name; /* "host", "opencl": the part before the colon */
    bool single;      /* there is only one, and its name has no index */
    /* How many there are; at least 1, so that probe can say why there is no device. Loads the
     * driver. */
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
    /* Identifies a pointer's memory; false: this driver does not know it. */
    bool (*identify)(const void *pointer, struct gpud_pointer_info *info);
    /* With gpud_device.common; else NULL. Starts moving a memory to this queue's device from one
     * with the same `common`, after the current work on `after`, a queue of such a device (may be
     * NULL). discard: the contents may be lost. */
    enum gpud_status (*migrate)(struct gpud_queue *queue, struct gpud_memory *memory,
                                struct gpud_queue *after, bool discard, struct gpud_error *error);
    /* The kinds of handles that it exports or imports. */
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
    const struct gpud_image_ops *image;   /* NULL without GPUD_CAP_IMAGES */
    const struct gpud_queue_ops *queue;
    const struct gpud_fence_ops *fence; /* NULL without GPUD_CAP_FENCES */
    const struct gpud_signal_ops *signal;
};

#endif
