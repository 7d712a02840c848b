/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the Vulkan backend.
 *
 * A VkQueue cannot wait for a word in memory, and a timeline semaphore that another process stops
 * signalling would stall it for good. Nor can a timeline be lent to be waited for only: a process
 * that has it may signal it as well, after which a smaller value of the owner's is undefined
 * behaviour (VUID-VkSubmitInfo-pSignalSemaphores-03242), so a receiver could break its sender. So
 * no queue waits for a peer: the host publishes a frame when the queue that wrote it is done.
 * Several of the library's queues share one VkQueue, because a device has few; none of them can
 * stall the others. Memory is a buffer over an exported allocation, on which images may lie
 * (image.h). */
#ifndef GPUD_VULKAN_VULKAN_H
#define GPUD_VULKAN_VULKAN_H

#include "base/clock.h"
#include "device/free_after.h"
#include "device/vulkan/api.h"

/* VkQueues that a device uses at most; more bring nothing to a copy engine. */
#define VULKAN_LANES_MAX 4

/* What the driver says of a device, before it is opened. */
struct vulkan_facts {
    VkPhysicalDevice physical;
    uint8_t device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
    uint32_t vendor;        /* by its PCI number */
    uint32_t family, lanes; /* of the queues that copy */
    /* NVIDIA's driver (580) refuses pages that this process may only read, and then gives no more
     * memory of the host: it must not even be tried. */
    bool pins_writable_only;
    /* Mesa's driver for processors reads a descriptor to see what it is, believes what it finds in
     * a memfd, and closes what it refuses, which the specification leaves to the caller. */
    bool is_lavapipe;
    bool opaque_fd;                         /* buffers can be exported and imported by descriptor */
    bool dedicated;                         /* only as an allocation of their own */
    bool dmabuf;                            /* the same as dma-bufs */
    bool dmabuf_dedicated;                  /* only as an allocation of their own */
    bool reexports;                         /* what is imported by descriptor can have a dma-buf */
    bool foreign;                           /* the queue family of other drivers is known */
    bool of_cuda, of_hip;                   /* memory of this driver is imported, too */
    bool images;                            /* shared memory can have them: see image.h */
    bool modifiers;                         /* also those of DRM format modifiers */
    VkExternalMemoryHandleTypeFlags shared; /* the kinds of handles of shared memory */
    bool host_pointer;                      /* host pages can be imported */
    VkDeviceSize host_align;                /* which then begin and end at a multiple of this */
    VkPhysicalDeviceMemoryProperties memory;
};

/* A VkQueue, and the command pools of the queues that use it. */
struct vulkan_lane {
    struct gpud_lock lock; /* held while a command is recorded and submitted; never in a wait */
    VkQueue queue;
};

/* A timeline semaphore, kept as long as a command or a fence refers to it. */
struct vulkan_timeline {
    atomic_uint references;
    VkSemaphore semaphore;
};

struct vulkan_command;

struct vulkan_queue {
    struct gpud_async_queue async;
    struct vulkan_lane *lane;
    struct vulkan_timeline *timeline;
    atomic_uint_fast64_t submitted; /* the value that the latest command gives the timeline */
    VkCommandPool pool;             /* this and the list: under the lane's lock */
    struct vulkan_command *oldest, **newest;
};

/* Pages through which the CPU accesses memory that it cannot map; see bounce.h. */
struct vulkan_bounces {
    struct gpud_lock lock;
    struct vulkan_bounce *idle, *used;
};

struct vulkan_device {
    struct vulkan_facts facts;
    VkDevice device;
    struct vulkan_device_calls calls;
    struct vulkan_lane lanes[VULKAN_LANES_MAX];
    atomic_uint next_lane;
    struct vulkan_queue *service; /* for work that depends on no peer */
    struct gpud_async async;      /* all other queues */
    struct gpud_completion_thread completions;
    struct vulkan_bounces bounces;
    atomic_uint stuck; /* memories that the driver has not cleared in time; blocks further ones */
};

/* A buffer over an allocation. */
struct vulkan_block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceSize size;  /* of the buffer */
    VkDeviceSize bytes; /* of the allocation */
    VkDeviceSize start; /* of the buffer in it, other than 0 in dma-bufs alone */
    uint32_t type;
    VkExternalMemoryHandleTypeFlags handles; /* by which others may use it, too; 0: none do */
    uint32_t others;                         /* the queue family that stands for those */
    void *mapped;                            /* NULL: the CPU accesses it by copies */
};

struct vulkan_image;

struct vulkan_memory {
    struct vulkan_block block; /* all 0: host memory that the driver cannot import */
    bool wrapped;              /* the buffer is the application's */
    int fd; /* a peer's descriptor, for other instances of Vulkan in this process; 0: none */
    struct vulkan_image *_Atomic images; /* on the memory, latest first; see image.h */
    struct gpud_free_after after;
    struct gpud_device *device; /* kept open until its driver has cleared the memory */
};

static inline struct vulkan_device *gpud_vulkan_device(const struct gpud_device *device)
{
    return device->backend;
}

static inline struct vulkan_memory *gpud_vulkan_record(const struct gpud_memory *memory)
{
    return memory->backend;
}

extern const struct gpud_memory_ops gpud_vulkan_memory_ops;
extern const struct gpud_dmabuf_ops gpud_vulkan_dmabuf_ops;
extern const struct gpud_image_ops gpud_vulkan_image_ops;
extern const struct gpud_queue_ops gpud_vulkan_queue_ops;
extern const struct gpud_fence_ops gpud_vulkan_fence_ops;

#endif
