/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts, devices and memory.
 *
 * A device is a place that memory lives on and that can copy: "host", "cuda:0", "opencl:1"… */
#ifndef GPUDIRECT_DEVICE_H
#define GPUDIRECT_DEVICE_H

#include <gpudirect/types.h>

GPUD_BEGIN_DECLS

struct gpud_context;
struct gpud_device;
struct gpud_memory;

/* --- context: the root of everything; thread-safe ------------------------------------------ */

struct gpud_context_params {
    size_t size;
    gpud_log_fn log; /* NULL: warnings and errors go to stderr */
    void *log_user;
    /* 0: what the environment's GPUDIRECT_LOG says (error, warning, info, debug), else WARNING. */
    enum gpud_log_level log_level;
};

/* params may be NULL. */
GPUD_API enum gpud_status gpud_context_create(const struct gpud_context_params *params,
                                              struct gpud_context **context,
                                              struct gpud_error *error);

/* All objects made from the context must be gone before; waits a moment for frames on their way
 * back. */
GPUD_API void gpud_context_destroy(struct gpud_context **context);

/* --- device: reference-counted inside its context; thread-safe ----------------------------- */

struct gpud_device_info {
    size_t size;
    char name[32];         /* "opencl:0": what gpud_device_open() takes */
    char description[128]; /* the vendor's own name for it */
    char pci[16];          /* "0000:63:00.0"; "" where it is not a PCI device or does not say */
    bool available;
    bool direct_writes; /* others can write its memory without the host (DirectGMA, peer-to-peer) */
    /* If not available or not direct_writes: why, and what would change that. */
    char reason[GPUD_REASON_MAX];
};

/* Opens a device by name; NULL is "host", and so is "auto", for here is no address that a GPU could
 * be near to. The same name gives the same device, once more; it stays open, ready for the next
 * one, until the context is destroyed. */
GPUD_API enum gpud_status gpud_device_open(struct gpud_context *context, const char *name,
                                           struct gpud_device **device, struct gpud_error *error);
GPUD_API void gpud_device_close(struct gpud_device **device);
GPUD_API void gpud_device_get_info(const struct gpud_device *device, struct gpud_device_info *info);

/* The driver's own object, for an application that works on the device itself: the primary
 * CUcontext on "cuda:N", the cl_context on "opencl:N", NULL on "host" and on "hip:N", whose number
 * N is all that hipSetDevice() needs. Borrowed: lives as long as the device is open. */
GPUD_API void *gpud_device_get_native(const struct gpud_device *device);

/* Everything that was looked for, what is absent included (available = false, with the reason). No
 * device is opened for it. Fails only for want of memory.
 *
 * A list outlives the context. Thread-safety: a list is a snapshot, which any threads may read at
 * once. *list is set only on success, and the caller's to destroy; destroying NULL, or a pointer to
 * NULL, does nothing. */
struct gpud_device_list;

GPUD_API enum gpud_status gpud_device_list_create(struct gpud_context *context,
                                                  struct gpud_device_list **list,
                                                  struct gpud_error *error);
GPUD_API void gpud_device_list_destroy(struct gpud_device_list **list);
GPUD_API uint32_t gpud_device_list_count(const struct gpud_device_list *list);

/* The host first, each vendor's in its own order. GPUD_INVALID: the index is the count or more, or
 * info->size is not set. */
GPUD_API enum gpud_status gpud_device_list_get_info(const struct gpud_device_list *list,
                                                    uint32_t index, struct gpud_device_info *info,
                                                    struct gpud_error *error);

/* How far apart two devices are on this machine's buses, in the terms of `nvidia-smi topo -m`. */
enum gpud_distance {
    GPUD_DISTANCE_UNKNOWN, /* one of them does not say where it is */
    GPUD_DISTANCE_SELF,    /* the same device, or both are the host's processors and memory */
    GPUD_DISTANCE_PIX,     /* behind one PCIe bridge or switch */
    GPUD_DISTANCE_PXB,     /* behind several PCIe switches, below one port of the host's */
    GPUD_DISTANCE_PHB,     /* behind one PCIe host bridge */
    GPUD_DISTANCE_NODE,    /* in one NUMA node */
    GPUD_DISTANCE_SYS,     /* across NUMA nodes */
};
GPUD_API enum gpud_distance gpud_device_get_distance(const struct gpud_device *a,
                                                     const struct gpud_device *b);

/* The same, to what is at "0000:63:00.0" on the PCI bus: a network card, say. */
GPUD_API enum gpud_distance gpud_device_get_distance_to_pci(const struct gpud_device *device,
                                                            const char *pci);

/* The NUMA node that a device is attached to; -1: unknown, or all of them (the host). */
GPUD_API int gpud_device_get_numa_node(const struct gpud_device *device);

/* The processors next to a device, of those that this process may use, as in "0-15,32-47": whoever
 * feeds it runs best there. "": unknown, or all of them (the host). */
GPUD_API void gpud_device_get_cpus(const struct gpud_device *device, char *list, size_t size);

/* Of the devices of a kind, "cuda", the one that is nearest to the card that an address leads over
 * ("rdma://10.0.0.2", "v4l2:///dev/video0", or the card's own on the bus, "0000:63:00.0"), by the
 * buses: behind the same switch, below the same
 * host bridge, in the same NUMA node, across them; of equals, and where there is no card, the
 * first. Of "auto" the nearest GPU of any kind, if others write it directly (direct_writes); "host"
 * where there is no such GPU, or no card that it could be near to. It is what the kind alone, or
 * "auto", means as the device of a sender, receiver or capture with that address. found: as
 * gpud_device_list_get_info() has it. reason says why that one; "": there was nothing to choose.
 * GPUD_NO_DEVICE: this machine has none of that kind. */
GPUD_API enum gpud_status gpud_device_get_nearest(struct gpud_context *context, const char *kind,
                                                  const char *address,
                                                  struct gpud_device_info *found,
                                                  char reason[GPUD_REASON_MAX],
                                                  struct gpud_error *error);

/* Cards on the machine's buses that are no devices of this library, and may be beside one. */
struct gpud_card_info {
    size_t size;
    char name[32]; /* the system's, "mlx5_0" or "eth0"; else vendor and model, "bdbd:a138" */
    char kind[16]; /* "network", "capture" */
    char pci[16];
    enum gpud_distance distance; /* from the device */
};

/* Writes up to max entries and returns how many there are. cards[0].size is that of each. */
GPUD_API size_t gpud_device_list_cards(const struct gpud_device *device,
                                       struct gpud_card_info *cards, size_t max);

/* What is known of the way from one device's copy engine into another's memory. */
struct gpud_device_link {
    size_t size;
    /* As `nvidia-smi topo -m` has it: "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"; "XGMI": AMD's
     * link between GPUs, "XGMI2" over two hops; "X": one device; "?": unknown. */
    char name[16];
    bool direct;      /* `from` writes into the memory of `to` without the host */
    bool atomics;     /* and atomic operations work across */
    int rank;         /* the vendor's order of preference, 0 the fastest; -1: it does not say */
    double bandwidth; /* bytes per second, one way, as attributed by the vendor; 0: unknown */
    char reason[GPUD_REASON_MAX]; /* if not direct: why, and what would change that */
    unsigned hops;                /* over xGMI; 0: another link, or unknown */
    unsigned weight; /* amdkfd's figure for it, as in rocm-smi --showtopoweight; 0: none */
};
GPUD_API void gpud_device_get_link(const struct gpud_device *from, const struct gpud_device *to,
                                   struct gpud_device_link *link);

/* --- memory: reference-counted; one thread at a time may map or unmap it ------------------- */

enum gpud_access { GPUD_READ = 1, GPUD_WRITE = 2 };

/* Memory of a device, zeroed. */
GPUD_API enum gpud_status gpud_memory_alloc(struct gpud_device *device, uint64_t size,
                                            struct gpud_memory **memory, struct gpud_error *error);

/* The same, of which gpud_memory_export_dmabuf() gives a dma-buf for other drivers to write. On
 * "host" it comes from udmabuf, a dma-buf heap or a DRM node that is on no PCI card, whichever
 * there is. GPUD_UNSUPPORTED, with the reason, where device or driver cannot. */
GPUD_API enum gpud_status gpud_memory_alloc_dmabuf(struct gpud_device *device, uint64_t size,
                                                   struct gpud_memory **memory,
                                                   struct gpud_error *error);

/* Memory that somebody else allocated. native: a host pointer on "host", a cl_mem of the device's
 * context on "opencl:N", an address of the device on "cuda:N" and "hip:N". On success the
 * library keeps using it until it calls destroy(user) (may be NULL), from any thread; on failure
 * destroy is not called and nothing is kept. */
GPUD_API enum gpud_status gpud_memory_wrap(struct gpud_device *device, void *native, uint64_t size,
                                           void (*destroy)(void *user), void *user,
                                           struct gpud_memory **memory, struct gpud_error *error);

/* Whose memory a pointer is. */
enum gpud_pointer_kind {
    GPUD_POINTER_HOST,    /* ordinary host memory, or nothing that a driver knows */
    GPUD_POINTER_PINNED,  /* host memory that a device has registered: copied at full speed */
    GPUD_POINTER_DEVICE,  /* memory of a device, from its plain allocator */
    GPUD_POINTER_MAPPED,  /* memory of a device, mapped from a handle (VMM) */
    GPUD_POINTER_POOL,    /* memory of a device, from a pool or a stream-ordered allocator */
    GPUD_POINTER_MANAGED, /* moves between host and device by itself: copied, never shared */
};

struct gpud_pointer_info {
    size_t size;
    enum gpud_pointer_kind kind;
    char device[32]; /* "cuda:0"; "host" for host memory */
    void *base;      /* of the allocation that it lies in; NULL where nobody says */
    uint64_t length; /* of that; 0: unknown */
};

GPUD_API void gpud_pointer_get_info(const void *pointer, struct gpud_pointer_info *info);

/* The vendor's own object for a memory: a host pointer, a cl_mem, an address of the GPU. Borrowed:
 * lives as long as the memory. */
GPUD_API void *gpud_memory_get_native(const struct gpud_memory *memory);

/* Where a memory lies. Borrowed: lives as long as the memory. Devices of one context are the same
 * where their pointers are. */
GPUD_API struct gpud_device *gpud_memory_get_device(const struct gpud_memory *memory);

/* A dma-buf of a memory, for a driver that imports such (a network or capture card). On success *fd
 * is the caller's to close, and the memory begins at *offset in it. GPUD_UNSUPPORTED, with the
 * reason, where device or driver cannot. Those of "cuda:N" are for drivers of PCI devices alone:
 * NVIDIA's exporter takes whoever attaches for one. */
GPUD_API enum gpud_status gpud_memory_export_dmabuf(struct gpud_memory *memory, int *fd,
                                                    uint64_t *offset, struct gpud_error *error);

/* The memory behind a dma-buf that somebody else made, from its byte `offset` on: on "host", for
 * the CPU. fd stays the caller's. A frame in it is mapped by gpud_frame_map(), which keeps the
 * caches right (DMA_BUF_IOCTL_SYNC); who uses the pointer of gpud_memory_get_native() does so by
 * itself. GPUD_INVALID: fd is no dma-buf, or ends before; GPUD_UNSUPPORTED, with the reason, where
 * the device cannot. */
GPUD_API enum gpud_status gpud_memory_import_dmabuf(struct gpud_device *device, int fd,
                                                    uint64_t offset, uint64_t size,
                                                    struct gpud_memory **memory,
                                                    struct gpud_error *error);

GPUD_API void gpud_memory_unref(struct gpud_memory **memory);

GPUD_END_DECLS

#endif
