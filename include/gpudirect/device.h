/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * Contexts, devices and memory.
 *
 * A device is a place that memory lives on and that can copy. Wherever the API takes the name of
 * one, the same rules hold:
 *
 * - "host", "cuda:0", "opencl:1", "hip:0", "vulkan:0": this device. NULL: "host".
 * - "cuda", a kind alone: the device of that kind that is nearest on the buses to the card that the
 *   object's address leads over (a network or capture card); without a card, the first.
 * - "auto": the nearest GPU of any kind whose memory others can write directly; "host" where there
 *   is none, or where the object has no address that leads over a card, as in gpud_device_open(),
 *   gpud_target_params, and a sender with a bare name.
 *
 * gpud_device_get_nearest() answers the same question for any address, and the infos of senders,
 * receivers and captures have the device that was chosen and the reason. In gpud_region_params
 * alone, where the memory exists already, NULL and "auto" mean the device that the memory is on.
 *
 * Thread-safety: all functions may be called from any thread, but a memory is mapped or unmapped by
 * one thread at a time.
 */
#ifndef GPUDIRECT_DEVICE_H
#define GPUDIRECT_DEVICE_H

#include <gpudirect/types.h>

GPUD_BEGIN_DECLS

struct gpud_context;
struct gpud_device;
struct gpud_memory;

/* --- context: the root of everything; thread-safe ------------------------------------------ */

/** How a context is made. */
struct gpud_context_params {
    size_t size;     /**< sizeof(the struct), as the caller knows it */
    gpud_log_fn log; /**< NULL: warnings and errors go to stderr */
    void *log_user;  /**< passed to log */
    /** 0: what the environment's GPUDIRECT_LOG says (error, warning, info, debug), else WARNING. */
    enum gpud_log_level log_level;
};

/** Creates a context. No driver is loaded before a device of its kind is asked for.
 *
 * After fork() the objects stay the parent's: in the child their connections and sockets are
 * closed, so that a peer notices when the parent ends. The child creates a context of its own.
 *
 * @param params  may be NULL: all defaults
 * @param context  set to the context, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory
 */
GPUD_API enum gpud_status gpud_context_create(const struct gpud_context_params *params,
                                              struct gpud_context **context,
                                              struct gpud_error *error);

/** Destroys a context, after waiting a moment for frames on their way back. All objects made from
 * it must be gone before.
 *
 * @param context  set to NULL
 */
GPUD_API void gpud_context_destroy(struct gpud_context **context);

/* --- device: reference-counted inside its context; thread-safe ----------------------------- */

/** What is known of a device. */
struct gpud_device_info {
    size_t size;           /**< sizeof(the struct), as the caller knows it */
    char name[32];         /**< "opencl:0": what gpud_device_open() takes */
    char description[128]; /**< the vendor's own name for it */
    char pci[16];          /**< "0000:63:00.0"; "" where it is not a PCI device or does not say */
    bool available;        /**< it can be opened */
    /** others can write its memory without the host (DirectGMA, peer-to-peer) */
    bool direct_writes;
    /** If not available or not direct_writes: why, and what would change that. */
    char reason[GPUD_REASON_MAX];
};

/** Opens a device. The same name gives the same device with one more reference. After the last
 * one is dropped it stays initialised until the context is destroyed, so opening it again is fast.
 *
 * @param context  must outlive the device
 * @param name  "host", "cuda:0", "opencl:1"…; NULL: "host"; see device.h for kinds and "auto"
 * @param device  set to the device: close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_DEVICE  there is no such device or driver, and why
 * @retval GPUD_INVALID  the name is not a device's
 */
GPUD_API enum gpud_status gpud_device_open(struct gpud_context *context, const char *name,
                                           struct gpud_device **device, struct gpud_error *error);

/** Drops one reference.
 *
 * @param device  set to NULL
 */
GPUD_API void gpud_device_close(struct gpud_device **device);

/** What is known of an open device.
 *
 * @param device  the device
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_device_get_info(const struct gpud_device *device, struct gpud_device_info *info);

/** The driver's own object, for an application that uses the device directly: the primary CUcontext
 * on "cuda:N", the cl_context on "opencl:N", the VkDevice on "vulkan:N".
 *
 * @param device  the device
 * @return borrowed, valid while the device is open; NULL on "host", and on "hip:N", where
 *     hipSetDevice(N) is all that is needed
 */
GPUD_API void *gpud_device_get_native(const struct gpud_device *device);

/** A list of devices: a snapshot, which any threads may read at once. */
struct gpud_device_list;

/** Lists every device that was looked for, those that are absent included (available is false, with
 * the reason). No device is opened for it. A list outlives the context.
 *
 * @param context  a context
 * @param list  set to the snapshot, which the caller destroys
 * @param count  set to the number of entries; may be NULL
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory; nothing else fails
 */
GPUD_API enum gpud_status gpud_device_list_create(struct gpud_context *context,
                                                  struct gpud_device_list **list, uint32_t *count,
                                                  struct gpud_error *error);

/** Destroys a list.
 *
 * @param list  set to NULL; NULL or a pointer to NULL: nothing happens
 */
GPUD_API void gpud_device_list_destroy(struct gpud_device_list **list);

/** One entry of a list. The host comes first; each vendor's devices are in its own order.
 *
 * @param list  the list
 * @param index  0 to the count - 1
 * @param info  filled as far as its size goes
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  there is no such entry, or the size is not set
 */
GPUD_API enum gpud_status gpud_device_list_get_info(const struct gpud_device_list *list,
                                                    uint32_t index, struct gpud_device_info *info,
                                                    struct gpud_error *error);

/** How far apart two devices are on this machine's buses, in the terms of `nvidia-smi topo -m`. */
enum gpud_distance {
    GPUD_DISTANCE_UNKNOWN, /**< one of them does not say where it is */
    GPUD_DISTANCE_SELF,    /**< the same device, or both are the host's processors and memory */
    GPUD_DISTANCE_PIX,     /**< behind one PCIe bridge or switch */
    GPUD_DISTANCE_PXB,     /**< behind several PCIe switches, below one port of the host's */
    GPUD_DISTANCE_PHB,     /**< behind one PCIe host bridge */
    GPUD_DISTANCE_NODE,    /**< in one NUMA node */
    GPUD_DISTANCE_SYS,     /**< across NUMA nodes */
};

/** Where a device is attached. */
struct gpud_device_locality {
    size_t size;   /**< sizeof(the struct), as the caller knows it */
    int numa_node; /**< the NUMA node next to it; -1: unknown, or all of them (the host) */
    /** The processors next to it, of those that this process may use, as in "0-15,32-47": a thread
     * that feeds the device runs best there. "": unknown, or all of them (the host). */
    char cpus[256];
};

/** Where a device is attached. The first call in a process reads the machine, which takes some
 * milliseconds.
 *
 * @param device  the device
 * @param locality  filled as far as locality->size goes
 */
GPUD_API void gpud_device_get_locality(const struct gpud_device *device,
                                       struct gpud_device_locality *locality);

/** Of the devices of a kind, the one nearest to the card that an address leads over: behind the
 * same switch, below the same host bridge, in the same NUMA node, or across nodes. Of equals, and
 * where there is no card, it is the first. This is what a kind alone, or "auto", means as the
 * device of a sender, receiver or capture with that address.
 *
 * @param context  a context
 * @param kind  "cuda", "opencl", "hip", "vulkan"; or "auto": see device.h
 * @param address  "tcp://10.0.0.2", "v4l2:///dev/video0", or the card's own address on the bus,
 *     "0000:63:00.0"
 * @param found  filled as far as found->size goes
 * @param reason  set to why it is that one; "": there was no choice
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_DEVICE  this machine has no device of that kind
 */
GPUD_API enum gpud_status gpud_device_get_nearest(struct gpud_context *context, const char *kind,
                                                  const char *address,
                                                  struct gpud_device_info *found,
                                                  char reason[GPUD_REASON_MAX],
                                                  struct gpud_error *error);

/** What is known of the way from one device's copy engine into another's memory. */
struct gpud_device_link {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** As `nvidia-smi topo -m` has it: "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"; "XGMI": AMD's
     * link between GPUs, "XGMI2" over two hops; "X": one device; "?": unknown. */
    char name[16];
    bool direct;      /**< `from` writes into the memory of `to` without the host */
    bool atomics;     /**< and atomic operations work across */
    int rank;         /**< the vendor's order of preference, 0 the fastest; -1: it does not say */
    double bandwidth; /**< bytes per second, one way, as attributed by the vendor; 0: unknown */
    char reason[GPUD_REASON_MAX]; /**< if not direct: why, and what would change that */
    unsigned hops;                /**< over xGMI; 0: another link, or unknown */
    unsigned weight; /**< amdkfd's figure for it, as in rocm-smi --showtopoweight; 0: none */
    enum gpud_distance distance; /**< over the buses, also where another link joins them */
};

/** What is known of the way from one device's copy engine into another's memory.
 *
 * @param from  the device that copies
 * @param to  the device whose memory is written
 * @param link  filled as far as link->size goes
 */
GPUD_API void gpud_device_get_link(const struct gpud_device *from, const struct gpud_device *to,
                                   struct gpud_device_link *link);

/* --- memory: reference-counted; one thread at a time may map or unmap it ------------------- */

/** What a map is for; both may be combined. */
enum gpud_access {
    GPUD_READ = 1,
    GPUD_WRITE = 2,
};

/** What memory is allocated for. */
enum gpud_memory_usage {
    GPUD_MEMORY_PLAIN = 0, /**< the device and, where it is mapped, the CPU use it */
    /** Drivers of other cards write it, too: gpud_memory_export_dmabuf(). On "host" it comes from
     * udmabuf, a dma-buf heap, or a DRM node that is not a PCI card, whichever exists. */
    GPUD_MEMORY_DMABUF,
};

/** Allocates zeroed memory on a device.
 *
 * @param device  where; the memory holds a reference
 * @param size  bytes
 * @param usage  what it is for
 * @param memory  set to the memory: unref it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  the device has too little free memory
 * @retval GPUD_UNSUPPORTED  the device or its driver makes no dma-bufs, and why
 * @retval GPUD_INVALID  there is no such usage
 */
GPUD_API enum gpud_status gpud_memory_alloc(struct gpud_device *device, uint64_t size,
                                            enum gpud_memory_usage usage,
                                            struct gpud_memory **memory, struct gpud_error *error);

/** Uses memory that the application allocated.
 *
 * @param device  the device that the memory is of
 * @param native  a host pointer on "host", a cl_mem of the device's context on "opencl:N", a device
 *     address on "cuda:N" and "hip:N"; on "vulkan:N" a VkBuffer of the device's VkDevice, with
 *     the usages TRANSFER_SRC and TRANSFER_DST, which Vulkan gives no way to check
 * @param size  bytes
 * @param destroy  called from any thread when the library no longer uses the memory; may be NULL;
 *     not called if this function fails
 * @param user  passed to destroy
 * @param memory  set to the memory: unref it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  native is not memory of that device
 */
GPUD_API enum gpud_status gpud_memory_wrap(struct gpud_device *device, void *native, uint64_t size,
                                           void (*destroy)(void *user), void *user,
                                           struct gpud_memory **memory, struct gpud_error *error);

/** What kind of memory a pointer points to. */
enum gpud_pointer_kind {
    GPUD_POINTER_HOST,    /**< ordinary host memory, or nothing that a driver knows */
    GPUD_POINTER_PINNED,  /**< host memory that a device has registered: copied at full speed */
    GPUD_POINTER_DEVICE,  /**< memory of a device, from its plain allocator */
    GPUD_POINTER_MAPPED,  /**< memory of a device, mapped from a handle (VMM) */
    GPUD_POINTER_POOL,    /**< memory of a device, from a pool or a stream-ordered allocator */
    GPUD_POINTER_MANAGED, /**< moves between host and device by itself: copied, never shared */
};

/** What is known of a pointer. */
struct gpud_pointer_info {
    size_t size;                 /**< sizeof(the struct), as the caller knows it */
    enum gpud_pointer_kind kind; /**< what kind of memory it is */
    char device[32];             /**< "cuda:0"; "host" for host memory */
    void *base;                  /**< of the allocation that it lies in; NULL: unknown */
    uint64_t length;             /**< bytes of that allocation; 0: unknown */
};

/** Which device's memory a pointer points to, by asking the drivers that are loaded. Any thread.
 *
 * @param pointer  any address; it is not read
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_pointer_get_info(const void *pointer, struct gpud_pointer_info *info);

/** The vendor's own object for a memory.
 *
 * @param memory  the memory
 * @return a host pointer, a cl_mem, a VkBuffer, or an address on the GPU; borrowed, valid as long
 * as the memory
 */
GPUD_API void *gpud_memory_get_native(const struct gpud_memory *memory);

/** A dma-buf of a range of a memory, for a driver that reads it or writes it. Those of "cuda:N" are
 * for drivers of PCI devices alone: NVIDIA's exporter takes any importer for one. For a frame it is
 * the range of gpud_frame_info.layout.size bytes at memory_offset, which later frames in the same
 * slot have, too; see gpud_sender_set_dmabufs().
 *
 * @param memory  the memory
 * @param from  the first byte of the range in the memory
 * @param size  bytes of the range
 * @param fd  set to a descriptor that the caller closes; it stays valid without the memory
 * @param offset  set to the range's first byte in the dma-buf
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_UNSUPPORTED  the device or its driver cannot, and why
 * @retval GPUD_INVALID  the range leaves the memory, or the memory is another process's
 */
GPUD_API enum gpud_status gpud_memory_export_dmabuf(struct gpud_memory *memory, uint64_t from,
                                                    uint64_t size, int *fd, uint64_t *offset,
                                                    struct gpud_error *error);

/** What an application's own VkDevice needs to import a memory of "vulkan:N". */
struct gpud_vulkan_memory_info {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** a descriptor of the kind VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT. vkAllocateMemory()
     * takes it over, else the caller closes it */
    int fd;
    uint32_t memory_type;     /**< VkMemoryAllocateInfo.memoryTypeIndex */
    uint64_t allocation_size; /**< VkMemoryAllocateInfo.allocationSize */
    uint64_t buffer_size;     /**< of the VkBuffer that lies over all of it, from offset 0 on */
    /** the import has a VkMemoryDedicatedAllocateInfo with such a buffer, which copies may read and
     * write; images cannot lie there then */
    bool dedicated;
    uint8_t device_uuid[16]; /**< VkPhysicalDeviceIDProperties.deviceUUID: must be the same */
    uint8_t driver_uuid[16]; /**< likewise driverUUID */
};

/** Gives an application's own VkDevice a sender's or a receiver's memory of "vulkan:N". It is
 * imported once for each memory and kept: gpud_frame_info.memory and memory_offset say where a
 * frame lies. A VkImage there has VkExternalMemoryImageCreateInfo with OPAQUE_FD alone, the
 * layout's size, one level, layer and sample, and of gpud_layout.modifier
 *
 * - another than GPUD_MODIFIER_IMPLICIT: VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT, with the
 * modifier, offsets and strides of the layout;
 * - GPUD_MODIFIER_IMPLICIT: VK_IMAGE_TILING_OPTIMAL, no flags, and just the usage TRANSFER_SRC,
 *   TRANSFER_DST and SAMPLED, because the driver may arrange any other image otherwise.
 *
 * VkFormat: R8G8B8A8_UNORM is "RGBA", G8_B8R8_2PLANE_420_UNORM is "NV12", and so on.
 *
 * @param memory  of a lent frame, or of a received image
 * @param info  filled as far as info->size goes, which must cover fd
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_UNSUPPORTED  the memory is not shared memory of a Vulkan device, or a peer's without
 *     images
 * @retval GPUD_INVALID  info->size is too small
 */
GPUD_API enum gpud_status gpud_memory_export_vulkan(struct gpud_memory *memory,
                                                    struct gpud_vulkan_memory_info *info,
                                                    struct gpud_error *error);

/** Uses a dma-buf of another origin as host memory. gpud_frame_map() on a frame in it keeps the
 * caches right (DMA_BUF_IOCTL_SYNC); code that uses the pointer of gpud_memory_get_native() must do
 * that itself.
 *
 * @param device  "host"
 * @param fd  the dma-buf; stays the caller's
 * @param offset  first byte to use
 * @param size  bytes to use
 * @param memory  set to the memory: unref it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  fd is not a dma-buf, or is too short
 * @retval GPUD_UNSUPPORTED  the device cannot, and why
 */
GPUD_API enum gpud_status gpud_memory_import_dmabuf(struct gpud_device *device, int fd,
                                                    uint64_t offset, uint64_t size,
                                                    struct gpud_memory **memory,
                                                    struct gpud_error *error);

/** Drops a reference; the last one frees the memory once no queue uses it.
 *
 * @param memory  set to NULL
 */
GPUD_API void gpud_memory_unref(struct gpud_memory **memory);

GPUD_END_DECLS

#endif
