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
 * stall the others. Memory is a buffer over an exported allocation, on which images may lie. */
#ifndef GPUD_DEVICE_VULKAN_VULKAN_H
#define GPUD_DEVICE_VULKAN_VULKAN_H

#include "base/base.h"
#include "device/device.h"
#include <stdbool.h>
#include <stdint.h>

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

/* === api ===================================================================================== */
/* The Vulkan loader: its calls, one instance for the process, and errors. Nothing is loaded before
 * a device of this backend is asked for. */

/* clang-format off */

/* CALL(name), without its "vk" */
#define VULKAN_INSTANCE_CALLS(CALL)               \
    CALL(CreateDevice)                            \
    CALL(EnumerateDeviceExtensionProperties)      \
    CALL(EnumeratePhysicalDevices)                \
    CALL(GetDeviceProcAddr)                       \
    CALL(GetPhysicalDeviceExternalBufferProperties) \
    CALL(GetPhysicalDeviceFeatures2)              \
    CALL(GetPhysicalDeviceFormatProperties2)      \
    CALL(GetPhysicalDeviceImageFormatProperties2) \
    CALL(GetPhysicalDeviceMemoryProperties)       \
    CALL(GetPhysicalDeviceProperties2)            \
    CALL(GetPhysicalDeviceQueueFamilyProperties)
#define VULKAN_DEVICE_CALLS(CALL)                 \
    CALL(AllocateCommandBuffers)                  \
    CALL(AllocateMemory)                          \
    CALL(BeginCommandBuffer)                      \
    CALL(BindBufferMemory)                        \
    CALL(BindImageMemory)                         \
    CALL(CmdCopyBuffer)                           \
    CALL(CmdCopyBufferToImage)                    \
    CALL(CmdCopyImageToBuffer)                    \
    CALL(CmdFillBuffer)                           \
    CALL(CmdPipelineBarrier)                      \
    CALL(CreateBuffer)                            \
    CALL(CreateCommandPool)                       \
    CALL(CreateImage)                             \
    CALL(CreateSemaphore)                         \
    CALL(DestroyBuffer)                           \
    CALL(DestroyCommandPool)                      \
    CALL(DestroyDevice)                           \
    CALL(DestroyImage)                            \
    CALL(DestroySemaphore)                        \
    CALL(EndCommandBuffer)                        \
    CALL(FreeMemory)                              \
    CALL(GetBufferMemoryRequirements)             \
    CALL(GetDeviceQueue)                          \
    CALL(GetImageMemoryRequirements)              \
    CALL(GetImageMemoryRequirements2)             \
    CALL(GetImageSubresourceLayout)               \
    CALL(GetSemaphoreCounterValueKHR)             \
    CALL(MapMemory)                               \
    CALL(QueueSubmit)

/* Those of extensions that a device may lack: NULL. */
#define VULKAN_EXTENSION_CALLS(CALL)              \
    CALL(GetImageDrmFormatModifierPropertiesEXT)  \
    CALL(GetMemoryFdKHR)                          \
    CALL(GetMemoryFdPropertiesKHR)                \
    CALL(GetMemoryHostPointerPropertiesEXT)

/* clang-format on */

#define VULKAN_MEMBER(name) PFN_vk##name name;

struct vulkan_instance_calls {
    VULKAN_INSTANCE_CALLS(VULKAN_MEMBER)
};

struct vulkan_device_calls {
    VULKAN_DEVICE_CALLS(VULKAN_MEMBER)
    VULKAN_EXTENSION_CALLS(VULKAN_MEMBER)
};

#undef VULKAN_MEMBER

/* Filled once a device of this backend is asked for, and constant from then on. */
extern struct vulkan_instance_calls gpud_vk;

/* Fills *error with the text and the name of the result. The status follows from the result. */
enum gpud_status gpud_vulkan_fail(struct gpud_error *error, VkResult result, const char *format,
                                  ...) GPUD_PRINTF(3, 4);

/* The same with a given status: for errors that a peer's data caused. */
enum gpud_status gpud_vulkan_fail_as(struct gpud_error *error, enum gpud_status status,
                                     VkResult result, const char *format, ...) GPUD_PRINTF(4, 5);

/* === vulkan ================================================================================== */

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
    bool images;                            /* shared memory can have them */
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

struct vulkan_device {
    struct vulkan_facts facts;
    VkDevice device;
    struct vulkan_device_calls calls;
    struct vulkan_lane lanes[VULKAN_LANES_MAX];
    atomic_uint next_lane;
    struct vulkan_queue *service; /* for work that depends on no peer */
    struct gpud_async async;      /* all other queues */
    struct gpud_completion_thread completions;
    struct gpud_bounces bounces;
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
    struct vulkan_image *_Atomic images; /* on the memory, latest first */
    struct gpud_free_after after;
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
extern const struct gpud_bounce_ops gpud_vulkan_bounce_ops;
extern const struct gpud_fence_ops gpud_vulkan_fence_ops;

/* === block =================================================================================== */
/* Buffers, each with an allocation of its own. */

/* Buffers are a multiple of this, as the pages that are imported from the host are. */
#define VULKAN_PAGE UINT64_C(4096)

/* Whether memory with such handles is an allocation of its own. */
bool gpud_vulkan_is_dedicated(const struct vulkan_facts *facts,
                              VkExternalMemoryHandleTypeFlags handles);

/* Memory of the device, or (staging) pages of the host for its copies, mapped. handles: the kinds
 * that it is to be exported by; 0: none. */
VkResult gpud_vulkan_block_make(const struct vulkan_device *vulkan, uint64_t size,
                                VkExternalMemoryHandleTypeFlags handles,
                                struct vulkan_block *block);
VkResult gpud_vulkan_block_stage(const struct vulkan_device *vulkan, uint64_t size,
                                 struct vulkan_block *block);

/* Host pages, which outlive the block. VK_ERROR_INVALID_EXTERNAL_HANDLE: the driver cannot. */
VkResult gpud_vulkan_block_pin(const struct vulkan_device *vulkan, void *pages, uint64_t size,
                               struct vulkan_block *block);

/* The type of memory that gpud_vulkan_block_make() takes for such handles. */
VkResult gpud_vulkan_block_type(const struct vulkan_device *vulkan,
                                VkExternalMemoryHandleTypeFlags handles, uint32_t *type);

enum vulkan_origin {
    VULKAN_OF_PEER,   /* another instance of Vulkan: block has the type that it claims */
    VULKAN_OF_DRIVER, /* another driver of this GPU, by an opaque descriptor */
    VULKAN_OF_DMABUF, /* any driver, by a dma-buf */
};

/* Another one's memory. block has the size, and the bytes of the allocation. *fd becomes -1 once it
 * is the driver's, which it may be on failure, too. */
VkResult gpud_vulkan_block_import(const struct vulkan_device *vulkan, int *fd,
                                  enum vulkan_origin origin, struct vulkan_block *block);
void gpud_vulkan_block_free(const struct vulkan_device *vulkan, struct vulkan_block *block);

/* === command ================================================================================= */
/* A queue as the backend uses it: commands in order, each of which raises the queue's timeline. */

extern const struct gpud_async_ops gpud_vulkan_async_ops;

/* Not in the device's list yet. thread: calls its completions; NULL: it gets none. */
enum gpud_status gpud_vulkan_queue_new(struct gpud_device *device,
                                       struct gpud_completion_thread *thread,
                                       struct vulkan_queue **queue, struct gpud_error *error);

/* For one that is idle and in no list. */
void gpud_vulkan_queue_free(struct vulkan_device *vulkan, struct vulkan_queue *queue);

/* Records commands between the acquire of blocks and their release. */
typedef void (*vulkan_record_fn)(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                                 const void *what);

/* Puts what fn records on the queue. blocks: the buffers that it uses; NULL: none. */
VkResult gpud_vulkan_queue_record(struct gpud_device *device, struct vulkan_queue *queue,
                                  const struct vulkan_block *const blocks[2], vulkan_record_fn fn,
                                  const void *what);

/* Clears all of a block. */
enum gpud_status gpud_vulkan_queue_clear(struct gpud_device *device, struct vulkan_queue *queue,
                                         const struct vulkan_block *block,
                                         struct gpud_error *error);

/* GPUD_TIMEOUT: the queue is still busy. */
enum gpud_status gpud_vulkan_queue_wait(struct gpud_device *device, struct vulkan_queue *queue,
                                        int64_t deadline, struct gpud_error *error);

/* A point on a timeline. As an event of gpud_async_ops, it is one of these on the heap. */
struct vulkan_event {
    struct vulkan_timeline *timeline;
    uint64_t value;
};

/* Makes later work of the queue wait for the event. */
enum gpud_status gpud_vulkan_queue_await(struct gpud_device *device, struct vulkan_queue *queue,
                                         const struct vulkan_event *event,
                                         struct gpud_error *error);
enum gpud_status gpud_vulkan_timeline_create(struct gpud_device *device,
                                             struct vulkan_timeline **timeline,
                                             struct gpud_error *error);
void gpud_vulkan_timeline_unref(struct vulkan_device *vulkan, struct vulkan_timeline *timeline);

/* === image =================================================================================== */
/* Images in shared memory: of a DRM format modifier (VK_EXT_image_drm_format_modifier), or as the
 * driver arranges them for itself (VK_IMAGE_TILING_OPTIMAL), which only the same driver of the same
 * GPU reads.
 *
 * The memory is the same as that of buffers, an exported allocation with a buffer over it, so every
 * route moves it as bytes. An image is put on a part of it where pictures are copied between their
 * rows and the image, and kept as long as the memory. Between two uses each image belongs to the
 * queue family of other instances, and its layout is VK_IMAGE_LAYOUT_GENERAL. */

/* Destroys the images on a memory that no queue uses any more. */
void gpud_vulkan_images_free(const struct vulkan_device *vulkan, struct vulkan_memory *record);

/* === share =================================================================================== */
/* Memory that crosses processes, as an opaque descriptor. Only the driver that made one can read
 * it: the same GPU and the same build of the driver, which both ends compare by UUID. */

/* The ops of that name. */
enum gpud_status gpud_vulkan_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                    struct gpud_error *error);
enum gpud_status gpud_vulkan_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                    struct gpud_error *error);

/* === types =================================================================================== */
/* Which of a device's types of memory is taken. */

enum vulkan_purpose {
    VULKAN_FOR_DEVICE, /* the device works on it */
    VULKAN_FOR_HOST,   /* the CPU does */
};

/* The best of the allowed types, one for each bit. false: none will do. */
bool gpud_vulkan_choose_type(const VkPhysicalDeviceMemoryProperties *all, uint32_t allowed,
                             enum vulkan_purpose purpose, uint32_t *type);

/* Whether the CPU accesses memory with these properties best in place: memory that it shares with
 * the GPU, and caches. A card's memory is read over the bus at a few MB/s. */
bool gpud_vulkan_is_unified(VkMemoryPropertyFlags flags);

#endif
