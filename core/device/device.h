/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices: the contract of a vendor's folder (ops), what vendors' folders share, and the checked
 * calls for all other rooms. */
#ifndef GPUD_DEVICE_DEVICE_H
#define GPUD_DEVICE_DEVICE_H

#include "base/base.h"
#include <gpudirect/device.h>
#include <gpudirect/layout.h>
#include <gpudirect/network.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* === handle ================================================================================== */
/* A memory or a signal as sent to another process. Secret: never logged. */

#define GPUD_HANDLE_WORDS 9

/* The numbers on the wire, assigned here so that none is used twice. The backend that makes a kind
 * of handle declares its parts (gpud_device_ops.handles). */
enum gpud_handle_type {
    GPUD_HANDLE_NONE = 0,
    GPUD_HANDLE_LOCAL = 1,       /* word[0] = the process's token, word[1] = the id in its table */
    GPUD_HANDLE_MEMFD = 2,       /* fd */
    GPUD_HANDLE_BUS_ADDRESS = 3, /* word[0] = surface, word[1] = marker */
    GPUD_HANDLE_CUDA_FD = 4,     /* fd of a physical allocation; word[0] = its size */
    GPUD_HANDLE_CUDA_IPC = 5,    /* word[0] = offset from the base; word[1…8] = the IPC handle */
    GPUD_HANDLE_NETWORK = 6,     /* word[0] = address, word[1] = key: for a network card to write */
    GPUD_HANDLE_HIP_FD = 7,      /* as CUDA_FD */
    GPUD_HANDLE_HIP_IPC = 8,     /* as CUDA_IPC */
    GPUD_HANDLE_VULKAN_FD = 9,   /* fd of an allocation; its words are those of Vulkan below */
    GPUD_HANDLE_TYPES
};

/* The words of GPUD_HANDLE_VULKAN_FD, which CUDA reads as well. */
enum gpud_vulkan_word {
    GPUD_VULKAN_SIZE,  /* of the buffer */
    GPUD_VULKAN_BYTES, /* of the allocation */
    GPUD_VULKAN_TYPE,  /* of memory */
    GPUD_VULKAN_DEVICE_UUID,
    GPUD_VULKAN_DRIVER_UUID = GPUD_VULKAN_DEVICE_UUID + 2,
    GPUD_VULKAN_DEDICATED = GPUD_VULKAN_DRIVER_UUID + 2, /* 1: the allocation is the buffer's own */
    GPUD_VULKAN_WORDS
};

struct gpud_handle {
    uint32_t type; /* enum gpud_handle_type */
    int fd;        /* -1: none */
    bool keep;     /* not sent; the importer keeps a descriptor, for gpud_memory_export_vulkan() */
    uint64_t size; /* in bytes, as the exporter claims */
    uint64_t word[GPUD_HANDLE_WORDS];
};

struct gpud_handle_kind {
    uint32_t type;   /* enum gpud_handle_type */
    uint32_t words;  /* of gpud_handle.word, from the first */
    bool attachment; /* a descriptor is sent with it */
};

/* The kind with this number; NULL: no backend of this build declares it. */
const struct gpud_handle_kind *gpud_handle_find_kind(uint32_t type);

/* === ops ===================================================================================== */
/* The contract of a vendor. A backend is a folder, one line in device/device.h and one in
 * core/meson.build.
 *
 * The wrappers of device.h check arguments and count references; an op trusts its arguments. An op
 * that fails has changed nothing. NULL = unsupported, except where noted. Any thread may call a
 * device's ops, also concurrently on one queue (frames are mapped and released by any thread); one
 * thread at a time calls ops on one memory; for signals see their ops. */

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
     * queues; see is_resting() in queue.c. */
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

/* What a queue posts to a signal, or waits for. */
struct gpud_signal_value {
    struct gpud_signal *signal;
    uint64_t value;
};

/* How many of them one call takes. */
#define GPUD_SIGNALS_AT_ONCE 32

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

/* Their create, and their import of a peer's word. GPUD_INVALID and GPUD_PEER if it leaves its
 * memory. */
enum gpud_status gpud_signal_create_word(struct gpud_signal *signal, struct gpud_error *error);
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
    /* Makes later work wait for word >= value. Only for our own signal, and only after the work
     * that posts it was enqueued. */
    enum gpud_status (*wait_queue)(struct gpud_signal *signal, uint32_t value,
                                   struct gpud_queue *queue, struct gpud_error *error);
    /* Either for several signals of the device, in this order, by one call of the driver; a failure
     * has done none of them. NULL: it has no such call. */
    enum gpud_status (*batch)(const struct gpud_signal_value *values, uint32_t count, bool wait,
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

/* === worker ================================================================================== */
/* Deferred work: functions that are called again until a device or a peer is done. */

/* A function that is called again after as many ns as it returned, until it returns less than 0.
 * The record is embedded in what it works on, so that teardown never allocates; the last call may
 * free it. */
struct gpud_work {
    struct gpud_work *next;
    int64_t (*fn)(void *arg);
    void *arg;
    int64_t due;
};

/* The thread that calls them; it sleeps when there is nothing to do. */
struct gpud_worker {
    struct gpud_lock lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stopping, hurried;
    unsigned outstanding; /* counts those being called, too */
    struct gpud_work *list;
};

void gpud_worker_init(struct gpud_worker *worker);

/* Before anything is added; again does no harm. */
enum gpud_status gpud_worker_start(struct gpud_worker *worker, struct gpud_error *error);

/* Ends the thread; unfinished work is never called again. */
void gpud_worker_finish(struct gpud_worker *worker);

/* Calls fn(arg) soon. In its last call, work may be added to another worker. */
void gpud_worker_add(struct gpud_worker *worker, struct gpud_work *work, int64_t (*fn)(void *arg),
                     void *arg);

/* Makes everything due now. */
void gpud_worker_hurry(struct gpud_worker *worker);

/* Whether everything is finished. */
bool gpud_worker_is_idle(struct gpud_worker *worker);

/* === device ================================================================================== */
/* Devices, memories, queues and signals for the layers above: with checks and reference counts. */

/* A record that outlives its owner, because a peer may still write its memory. Embedded in it. */
struct gpud_kept {
    struct gpud_kept *next;
    /* Called once at the end of the context, after the record was removed from the list. */
    void (*end)(struct gpud_kept *kept);
};

/* At least as many as device.c has in its table. */
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

/* For signals: work was put on the queue. */
void gpud_queue_use(struct gpud_queue *queue);

/* Orders later work on `later` after the current work on `earlier`. Without fences this thread
 * waits for it, for a second at most. */
enum gpud_status gpud_queue_join(struct gpud_queue *later, struct gpud_queue *earlier,
                                 struct gpud_error *error);

/* --- memory.c ------------------------------------------------------------------------------- */

/* See the ops. rows and the modifiers may be a peer's. GPUD_UNSUPPORTED: the device has no such
 * image, and why. */
enum gpud_status gpud_image_describe(struct gpud_device *device, const struct gpud_layout *rows,
                                     const uint64_t *modifiers, uint32_t count,
                                     struct gpud_layout *image, struct gpud_error *error);
enum gpud_status gpud_image_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                 const struct gpud_layout *to, const struct gpud_layout *from,
                                 struct gpud_error *error);

/* --- queue.c ------------------------------------------------------------------------------ */

enum gpud_status gpud_signal_create(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error);

/* A peer's word: at offset, or the word that comes with imported memory. */
enum gpud_status gpud_signal_import(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error);
void gpud_signal_destroy(struct gpud_signal **signal);

/* These take values up to GPUD_SIGNAL_WORD_MAX; else GPUD_INVALID. */
enum gpud_status gpud_signal_post(struct gpud_signal *signal, uint64_t value,
                                  struct gpud_queue *queue, struct gpud_error *error);

enum gpud_status gpud_signal_wait_queue(struct gpud_signal *signal, uint64_t value,
                                        struct gpud_queue *queue, struct gpud_error *error);

/* The same for up to GPUD_SIGNALS_AT_ONCE signals of one device, by one call of the driver; any
 * failure has done none of them. GPUD_UNSUPPORTED: the driver has no such call. */
enum gpud_status gpud_signal_post_all(const struct gpud_signal_value *values, uint32_t count,
                                      struct gpud_queue *queue, struct gpud_error *error);
enum gpud_status gpud_signal_wait_all(const struct gpud_signal_value *values, uint32_t count,
                                      struct gpud_queue *queue, struct gpud_error *error);
enum gpud_status gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value, int64_t deadline,
                                       struct gpud_error *error);

/* *reached: whether the word is at least value; does not wait. */
enum gpud_status gpud_signal_look(struct gpud_signal *signal, uint64_t value, bool *reached,
                                  struct gpud_error *error);
enum gpud_status gpud_signal_poison(struct gpud_signal *signal, uint64_t value,
                                    struct gpud_error *error);

/* === progress ================================================================================ */
/* The progress of work on asynchronous queues, as the parts shared by vendors query it.
 *
 * A queue may wait for a word that a peer writes, so it may stall until the peer's death is
 * detected. So no shared part waits for a queue without a deadline, and memory that drivers free
 * only after waiting for all queues is freed by the context's `later` worker, when every queue of
 * the device has passed the point at which the memory was released. */

enum gpud_progress {
    GPUD_PROGRESS_BUSY,
    GPUD_PROGRESS_DONE,
    GPUD_PROGRESS_FAILED,
};

struct gpud_async_queue;

/* A driver's side of these queries. `queue` is the backend's handle of a queue, *result the
 * driver's error. None of them may wait, because some are called under a lock. */
struct gpud_async_ops {
    /* Bracket every call of the driver from its own threads or the worker's. */
    void (*enter)(struct gpud_device *device);
    void (*leave)(struct gpud_device *device);
    /* BUSY: *event comes after the queue's current work. DONE: no work on it can still use memory.
     * FAILED: unknown, try again. */
    enum gpud_progress (*mark)(struct gpud_device *device, void *queue, void **event);
    /* How far the work before an event is. */
    enum gpud_progress (*query)(struct gpud_device *device, void *event, long *result);
    void (*drop)(struct gpud_device *device, void *event);
    /* How far all work on a queue is. */
    enum gpud_progress (*state)(struct gpud_device *device, void *queue, long *result);
    /* Frees an idle queue, and its record. */
    void (*release)(struct gpud_async_queue *queue);
};

/* A pause in a polling loop that began at `start`: short at first, for work that is nearly done. */
void gpud_pause(int64_t start);

/* === completion ============================================================================== */
/* Completions of a queue, in its order, for vendors with asynchronous queues. */

/* One queue's completions, called in the order of the queue, one at a time and without a lock.
 * Reference counted: a driver may call back after the queue is gone. */
struct gpud_completions;
struct gpud_completion;

/* Polls the events of a device's queues if the driver does not call back. It sleeps while there are
 * no completions. */
struct gpud_completion_thread {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_lock lock; /* for the fields below, and for all its queues' completions */
    pthread_cond_t wanted;
    pthread_t thread;
    bool started, stopping;
    unsigned outstanding; /* completions, including those being called */
    struct gpud_completions *busy, **last_busy;
};

void gpud_completion_thread_init(struct gpud_completion_thread *thread,
                                 const struct gpud_async_ops *ops, struct gpud_device *device);

/* Ends the thread; false: after a second some completions are still pending, so the rest of the
 * device has to stay. */
bool gpud_completion_thread_finish(struct gpud_completion_thread *thread);

/* thread: of the queue's device, or NULL if the driver calls back. NULL: out of memory. */
struct gpud_completions *gpud_completions_create(const struct gpud_async_ops *ops,
                                                 struct gpud_device *device,
                                                 struct gpud_completion_thread *thread);
void gpud_completions_unref(struct gpud_completions *completions);

/* Whether all completions have been called. */
bool gpud_completions_are_called(const struct gpud_completions *completions);

/* The driver's error that ended the queue; 0: none. */
long gpud_completions_failure(const struct gpud_completions *completions);

/* Calls fn when the work before the event is done, after all earlier completions. Takes the event
 * on GPUD_OK. If the driver calls back, *completion is to be passed to _done() or, if the driver
 * refuses the callback, to _withdraw(); else it is NULL. */
enum gpud_status gpud_completions_add(struct gpud_completions *completions, void *event,
                                      gpud_complete_fn fn, void *arg,
                                      struct gpud_completion **completion,
                                      struct gpud_error *error);

/* For the driver's callback, from any thread: this completion and all before it are done. */
void gpud_completion_done(struct gpud_completion *completion, bool failed);

/* Removes a completion for which the driver will not call back. false: fn was called anyway, or is
 * about to be. */
bool gpud_completion_withdraw(struct gpud_completion *completion);

/* The queue has failed, which some drivers do not report: all pending completions are called. */
void gpud_completions_fail(struct gpud_completions *completions);

/* === async =================================================================================== */
/* The list of a device's queues, for vendors with asynchronous queues: their lifetimes, and waiting
 * for one with a deadline. */

struct gpud_async {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_lock lock;           /* for the list; never held where the driver may wait */
    struct gpud_async_queue *queues; /* including destroyed ones that are still busy */
    atomic_uint stuck;               /* memories that the driver has not cleared in time */
};

/* Part of the backend's record of a queue. */
struct gpud_async_queue {
    struct gpud_async_queue *next;
    struct gpud_async *async;
    void *handle;
    struct gpud_completions *completions;
    struct gpud_work end;       /* its release after it is destroyed */
    struct gpud_device *device; /* kept open until then */
};

/* Starts the context's `later` worker. */
enum gpud_status gpud_async_init(struct gpud_async *async, const struct gpud_async_ops *ops,
                                 struct gpud_device *device, struct gpud_error *error);
void gpud_async_finish(struct gpud_async *async);
void gpud_async_add(struct gpud_async *async, struct gpud_async_queue *queue);

/* Releases a queue once it is idle and all its completions were called; until then it stays on the
 * list, so that no memory it uses is freed. here: this thread may do so at once. */
void gpud_async_retire(struct gpud_async_queue *queue, bool here);

/* How many queues there are, including destroyed ones that are still busy. */
unsigned gpud_async_count(struct gpud_async *async);

/* Polls until the queue's current work is done. FAILED: *result. BUSY: the deadline has passed. */
enum gpud_progress gpud_async_wait(struct gpud_async *async, void *queue, int64_t deadline,
                                   long *result);

/* === backends ================================================================================ */
/* Every backend, in the order of "auto" and of listings: if two know one card, the first names it.
 *
 * A vendor is a folder here with its gpud_NAME_ops, its line in this table, and its line in
 * core/meson.build. */

/* clang-format off */

/* BACKEND(name, whether this build has it: 0 or 1) */
#define GPUD_BACKENDS(BACKEND)          \
    BACKEND(host, GPUD_WITH_HOST)       \
    BACKEND(cuda, GPUD_WITH_CUDA)       \
    BACKEND(hip, GPUD_WITH_HIP)         \
    BACKEND(opencl, GPUD_WITH_OPENCL)   \
    BACKEND(vulkan, GPUD_WITH_VULKAN)   \
    GPUD_TEST_BACKENDS(BACKEND)

/* Rows of a test's own, given on the compiler's command line. */
#ifndef GPUD_TEST_BACKENDS
#define GPUD_TEST_BACKENDS(BACKEND)
#endif

/* clang-format on */

#define GPUD_DECLARE_BACKEND(name, built) extern const struct gpud_device_ops gpud_##name##_ops;

GPUD_BACKENDS(GPUD_DECLARE_BACKEND)

#undef GPUD_DECLARE_BACKEND

struct gpud_backend {
    const char *name;
    const struct gpud_device_ops *ops; /* NULL: this build was configured without it */
};

/* Ends with a name that is NULL. */
extern const struct gpud_backend gpud_backends[];

/* === free_after ============================================================================== */
/* Frees memory only after the work that uses it. */

/* Part of the backend's record of a memory. */
struct gpud_free_after {
    struct gpud_async *async;
    struct gpud_memory *memory; /* NULL: it was not cleared in time */
    void *record;               /* the backend's */
    void (*give_back)(struct gpud_device *device, void *record);
    void *queue;                /* on which it is cleared */
    struct gpud_device *device; /* kept open until then */
    int64_t not_before;
    bool fenced; /* every busy queue has an event here, or had one that has passed */
    void **fences;
    unsigned count;
    void *few[8]; /* storage for a few fences, without an allocation */
    struct gpud_work work;
};

/* Calls give_back(), which frees the backend's record, and gpud_memory_freed(), when all
 * current work on the device's queues is done, and not before the given time. here: at once, on
 * this thread, if there is no such work; else always from the worker, because drivers block when
 * they free. */
void gpud_free_after(struct gpud_async *async, struct gpud_free_after *after,
                     struct gpud_memory *memory,
                     void (*give_back)(struct gpud_device *device, void *record),
                     int64_t not_before, bool here);

/* How long a driver may clear new memory, which depends on no peer. */
#define GPUD_CLEAR_TIMEOUT (5 * GPUD_SEC)

/* GPUD_IO while it has not cleared some in that time: each try would leave one more memory stuck in
 * the driver. */
enum gpud_status gpud_check_clearing(struct gpud_async *async, struct gpud_error *error);

/* For such memory, which no caller has seen yet: gives its record back once `queue`, on which it is
 * cleared, is at rest, because before that the driver may still write into it. Returns
 * GPUD_IO, with the words of gpud_check_clearing(). */
enum gpud_status gpud_free_when_cleared(struct gpud_async *async, struct gpud_free_after *after,
                                        void *record,
                                        void (*give_back)(struct gpud_device *device, void *record),
                                        void *queue, struct gpud_error *error);

/* === bounce ================================================================================== */
/* CPU access to memory that the CPU does not map, for vendors with asynchronous queues: pages of
 * the host beside it. What is read is copied down before the map returns; what was written goes up
 * in the order of the queue, without a wait. All calls but map and unmap are made between enter and
 * leave. */

/* Begins the vendor's record of the pages. */
struct gpud_bounce {
    struct gpud_bounce *next;
    void *pages;
    uint64_t size;
    void *busy; /* the event behind a copy that still uses them; NULL: none */
    unsigned access;
    uint64_t offset, length; /* what is mapped */
};

struct gpud_bounce_ops {
    enum gpud_status (*make)(struct gpud_device *device, uint64_t size, struct gpud_bounce **bounce,
                             struct gpud_error *error);
    void (*free)(struct gpud_device *device, struct gpud_bounce *bounce);
    /* An event behind the queue's current work; NULL: the driver makes none. */
    void *(*mark)(struct gpud_device *device, void *queue);
    /* Copy what is mapped: into the pages, which waits for the copy, and back, which does not. */
    enum gpud_status (*download)(const struct gpud_memory *memory, void *queue,
                                 struct gpud_bounce *bounce, int64_t deadline,
                                 struct gpud_error *error);
    enum gpud_status (*upload)(const struct gpud_memory *memory, void *queue,
                               struct gpud_bounce *bounce, struct gpud_error *error);
};

/* The pages of a device. */
struct gpud_bounces {
    const struct gpud_bounce_ops *ops;
    const struct gpud_async *async;
    struct gpud_lock lock;
    struct gpud_bounce *idle, *used;
};

void gpud_bounces_init(struct gpud_bounces *bounces, const struct gpud_bounce_ops *ops,
                       const struct gpud_async *async);
void gpud_bounces_finish(struct gpud_bounces *bounces);

/* The ops of that name for a queue with this handle. */
enum gpud_status gpud_bounce_map(struct gpud_bounces *bounces, void *queue,
                                 struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                 unsigned access, int64_t deadline, void **data,
                                 struct gpud_error *error);
enum gpud_status gpud_bounce_unmap(struct gpud_bounces *bounces, void *queue,
                                   struct gpud_memory *memory, void *data,
                                   struct gpud_error *error);

/* For copies of host memory that the driver cannot reach: takes pages, and puts them back among the
 * idle ones. put_busy: a copy on the queue still uses them. If the driver cannot mark its end
 * (false), they stay in use until the device is closed. */
enum gpud_status gpud_bounce_take(struct gpud_bounces *bounces, uint64_t size,
                                  struct gpud_bounce **bounce, struct gpud_error *error);
void gpud_bounce_put(struct gpud_bounces *bounces, struct gpud_bounce *bounce);
bool gpud_bounce_put_busy(struct gpud_bounces *bounces, void *queue, struct gpud_bounce *bounce);

/* Fills the pages with the rows of copy->from, one behind the other. */
void gpud_bounce_pack(struct gpud_bounce *bounce, const struct gpud_copy *copy);

/* === network_cards =========================================================================== */
/* Lists network cards for <gpudirect/network.h>. */

struct gpud_network_port {
    struct gpud_network_port_info info;
    struct gpud_network_gid_info *gids;
    size_t gid_count;
    void *gid; /* pointers to them, for info */
};

struct gpud_network_card {
    struct gpud_network_card_info info;
    struct gpud_network_port *ports;
    size_t port_count;
    void *port; /* pointers to their infos, for info */
};

struct gpud_network_card_list {
    struct gpud_network_host_info host;
    struct gpud_list list; /* struct gpud_network_card */
};

static inline struct gpud_network_card *gpud_network_card_at(
    const struct gpud_network_card_list *list, uint32_t index)
{
    return index < list->list.count ? gpud_list_entry(&list->list, index) : NULL;
}

/* Adds the cards to a list that has none, and describes the host. The caller destroys the list,
 * also on failure. In rdma/cards.c; without RDMA in device.c. */
enum gpud_status gpud_rdma_find_cards(struct gpud_network_card_list *cards,
                                      struct gpud_error *error);

#endif
