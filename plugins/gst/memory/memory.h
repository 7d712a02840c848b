/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slots of a ring as GStreamer's memory, and pools of them. */
#ifndef GPUD_MEMORY_MEMORY_H
#define GPUD_MEMORY_MEMORY_H

#include "base/plugin.h"
#include "wire/codec.h"
#include <glib.h>
#include <gpudirect/device.h>
#include <gpudirect/frame.h>
#include <gpudirect/sender.h>
#include <gst/gst.h>
#include <gst/video/video.h>

/* === outstanding ============================================================================= */
/* Counts the slots of one ring that buffers hold, with a way to wait until some are returned.
 * Shared by the pool and by every memory that may outlive it. */

struct outstanding;

struct outstanding *outstanding_new(void);
void outstanding_unref(struct outstanding *outstanding);
gint outstanding_count(struct outstanding *outstanding);

/* Waits until buffers hold fewer than `limit` slots, at most this long. FALSE: it timed out. */
gboolean outstanding_wait_below(struct outstanding *outstanding, gint limit, gint64 microseconds);

/* === slot ==================================================================================== */
/* A GstMemory that is a slot: it owns a gpud_frame, maps it for users, and releases it with the
 * last reference to the memory (not to a buffer: think of tee).
 *
 * Each slot's GstMemory is kept and reused for the next frame in that slot, so that anything
 * downstream caches about a memory stays valid, and nothing is allocated while frames flow.
 *
 * There are several kinds: memory that the CPU maps (memory.c), and one for each vendor of
 * GPUs (in its folder). */

struct gpu;
struct shared_sender;
struct slot_memory;
struct slot_store;

/* The longest that a map waits for a picture that has not arrived yet. */
#define SLOT_MAP_TIMEOUT (2 * GPUD_SEC)

/* The operations of a kind of memory; all but the last are required. */
struct slot_kind {
    /* The class of the allocator, and the methods that ours has instead of the class's. */
    GType (*get_allocator_type)(void);
    void (*init_allocator)(GstAllocator *allocator);

    /* A GstMemory for the frame's bytes, of the store's allocator. NULL: it cannot be made, and the
     * log says why. */
    GstMemory *(*new_memory)(struct slot_store *store, struct gpud_frame *frame,
                             const struct gpud_layout *layout, const struct video_planes *planes);

    /* A frame was put into the slot. */
    void (*arrived)(struct slot_memory *slot);

    /* The slot's frame is about to be submitted or released. */
    void (*leaving)(struct slot_memory *slot);

    /* Whether no driver works any more on memory whose last reference is gone. NULL: it orders
     * its users itself. */
    gboolean (*is_unused)(struct slot_memory *slot);
};

/* The state that the memories of one pool share. */
struct slot_store {
    gatomicrefcount references;
    const struct slot_kind *kind;
    GstAllocator *allocator;
    GstVideoInfo info;
    struct gpu *gpu; /* the GPU of the slots' memory; NULL: the CPU maps them */
    gpointer stream; /* the vendor's, for all memories, if it has one; freed by stream_free() */
    GDestroyNotify stream_free;
    struct shared_sender *sender; /* to compare with, not a reference */
    guint epoch;
    gboolean host;
    struct outstanding *outstanding;
    struct counters *counters;
    gint misused; /* atomic: an element writes into maps for reading, see memory.c */

    GMutex lock;
    gboolean closed;
    GPtrArray *idle; /* GstMemory by slot, or NULL */
    GQueue extras;   /* idle GstMemory that is not a slot */
};

struct slot_memory {
    GstMemory *memory; /* the memory that this describes */
    struct slot_store *store;
    struct gpud_frame *frame; /* NULL while idle */
    uint32_t slot;
    gboolean extra; /* memory outside the ring, which replaces a slot */
    gsize size;     /* the total size in GStreamer's terms */
    struct video_planes planes;
    void *host;  /* the slot's bytes if the CPU may always access them; else NULL */
    guint epoch; /* the sender's when the frame was acquired */
    struct shared_sender *sender; /* to compare with, not a reference */
    gboolean on_device;           /* the CPU can access it only through maps */

    GMutex lock;               /* of the rest; not held during calls that wait */
    GCond idle;                /* no longer busy */
    gboolean busy;             /* a thread makes the first map, or ends the last one */
    guint waits_for_idle;      /* threads that wait for `idle` */
    guint maps;                /* by the CPU */
    struct gpud_frame *mapped; /* the frame that is mapped, while there are maps or it is busy */
    struct gpud_frame *reader; /* a second frame over the bytes, for readers; or NULL */
    void *data;                /* the core's mapping of it */
    gboolean copies_back;      /* the last unmap copies it to the device */
    gboolean filled;           /* the frame has content that must be kept */
    guint checks;              /* how often read maps were checked for writes */
    gboolean checking;         /* while it is mapped: `checksum` is that of the bytes before */
    guint64 checksum;

    /* On a GPU. */
    gboolean visible; /* the GPU's queue waits for the bytes, or they have arrived */
    gboolean used;    /* mapped for the GPU since the frame was submitted or attached */
    gboolean written; /* by the GPU, since the CPU last waited for it */
};

/* The slot of a memory, or of the memory of which it is a part; NULL: it is not this plugin's. */
struct slot_memory *slot_memory_of(GstMemory *memory);

/* The slot of a buffer that contains exactly one, whole and unchanged; else NULL. */
struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer);

/* === dmabuf ================================================================================== */

/* GstMemory with a dma-buf, which other drivers write or read. */
extern const struct slot_kind dmabuf_slot_kind;

/* Whether a frame's memory has a dma-buf that begins with the frame; *error says why not. */
gboolean dmabuf_is_in_frame(struct gpud_frame *frame, struct gpud_error *error);

/* Whether a dma-buf can be made of the host's memory; *error says why not. */
gboolean dmabuf_can_be_made(struct gpud_error *error);

gboolean dmabuf_is_in_buffer(GstBuffer *buffer);

/* Waits for other drivers' writes to all of the buffer's dma-bufs. FALSE: it took longer. */
gboolean dmabuf_wait_for_buffer(GstBuffer *buffer, gint64 timeout_ns);

/* === gpuvendor =============================================================================== */
/* One GPU, and the operations of its vendor's memory in GStreamer. */

/* One GPU; lives until the process ends, as the core's context does. */
struct gpu {
    const struct gpu_vendor *vendor;
    gint number;  /* see gpu_of_name() */
    gint ordinal; /* among the vendor's */
    struct gpud_device *device;
    GstObject
        *context; /* identifies the GPU to the vendor's elements; wraps the core's own context */
};

/* So many bytes of each of so many rows, from one place on a GPU to another. */
struct gpu_rows {
    gpointer from, to;
    gsize from_stride, to_stride, bytes, rows;
};

/* A vendor fills all of it. */
struct gpu_vendor {
    const gchar *feature;      /* of caps: "memory:CUDAMemory" */
    const gchar *prefix;       /* of the core's names of devices: "cuda:" */
    const gchar *context_type; /* of the GstContext that the vendor's elements share */

    /* For messages: the memory, the GPUs' maker, the driver that may be missing, and the elements
     * that copy a picture to the GPU and to the CPU. */
    const gchar *memory, *maker, *driver, *upload, *download;

    /* Its library of GStreamer, which is_available() opens; NULL: it is linked. And where the
     * kernel shows its driver. */
    struct gpud_library *library;
    const gchar *const *nodes;

    const struct slot_kind *slot_kind; /* a slot as such memory: two ops of its own, see memory.h */

    /* Whether the driver is available, which it loads; called often. */
    gboolean (*is_available)(void);

    /* For struct gpu, whose other members are filled. NULL: *error says why not. */
    GstObject *(*wrap_context)(const struct gpu *gpu, struct gpud_error *error);

    /* The vendor's contexts: the object in a GstContext, or NULL if it is another vendor's; its
     * GPU; the answer to a GST_QUERY_CONTEXT. */
    GstObject *(*read_context)(GstElement *element, GstContext *context);
    gint (*get_ordinal)(GstObject *context);
    gboolean (*answer_query)(GstElement *element, GstQuery *query, GstObject *context);

    /* Strides that are multiples of this need no copy by the vendor's elements. */
    gint (*get_stride_align)(const struct gpu *gpu);

    /* Pools: the class that the vendor's elements insist on; the name of ours, which is derived
     * from it; sets what elements compare; takes what its user asks for in the configuration. */
    GType (*get_pool_type)(void);
    const gchar *pool_name;
    void (*init_pool)(GstBufferPool *pool, const struct gpu *gpu);
    void (*configure_pool)(struct slot_store *store, GstStructure *config);

    GstMapFlags map_flag; /* the vendor's flag to map memory for the GPU */

    /* Whether a frame must be ordered as soon as it is attached to a memory, because elements use
     * the memory's stream without mapping it; if not, it is ordered when an element maps it. */
    gboolean orders_early;

    /* The ordinal of the GPU of such a memory (ours or another element's), and the layout of its
     * planes. FALSE: it is other memory. */
    gboolean (*look_into)(GstMemory *memory, gint *ordinal, const GstVideoInfo **info);

    /* The stream on which all users of a slot's memory are ordered, as the core's handle. */
    gpointer (*get_stream)(GstMemory *memory);

    /* Called after work that writes to a slot's memory was enqueued on that stream. */
    void (*set_pending)(GstMemory *memory);

    /* Orders *stream (of our context) after another element's writes to its memory. TRUE: the CPU
     * had to wait for them. */
    gboolean (*await_writes)(GstMemory *memory, const struct gpu *gpu, gpointer *stream);

    /* Makes the GPU current in the calling thread, and restores the previous one. */
    gboolean (*enter)(const struct gpu *gpu);
    void (*leave)(const struct gpu *gpu);

    /* Between these: waits on the CPU for the stream; enqueues a copy on it. */
    void (*finish)(const struct gpu *gpu, gpointer stream);
    gboolean (*copy_rows)(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows);
};

/* === vendors ================================================================================= */

#define GPU_VENDORS_MAX 4

extern const struct gpu_vendor *const gpu_vendors[GPU_VENDORS_MAX + 1]; /* NULL behind the last */

/* === gpu ===================================================================================== */
/* GPUs as the elements see them: caps whose memory is a GPU's, contexts that the elements of a
 * pipeline share, pools of such memory.
 *
 * The code for a vendor's memory is in its own folder, behind a struct gpu_vendor. A vendor whose
 * GStreamer library was missing when the plugin was built is not in the list; its devices still
 * work through the core, with memory of the CPU.
 *
 * The core works in one context of a GPU, the vendor's primary one. The elements share it with all
 * elements that query for the vendor's context, so that the pipeline needs no synchronisation
 * between contexts. If an application or another element uses its own context, pointers are still
 * valid (the process has one address space), but such an element accepts no pool of ours: each
 * picture then costs one copy by the GPU. */

/* --- caps --------------------------------------------------------------------------------- */

/* The vendor of the memory in the first of these caps; NULL: the CPU's. */
const struct gpu_vendor *gpu_vendor_of_caps(const GstCaps *caps);

/* Any video in memory of the CPU, of a vendor in the list, or, last, in dma-bufs. */
GstCaps *gpu_template_caps(void);

/* The caps in this vendor's memory. NULL: they are of single fields, which GStreamer does not
 * support in GPU memory. */
GstCaps *gpu_caps_in_memory(const GstCaps *caps, const struct gpu_vendor *vendor);

/* Which GPUs an element may use, by its property `device`. */
enum gpu_use {
    GPU_USE_NONE,  /* another device was named, or there is no GPU that GStreamer can use */
    GPU_USE_NAMED, /* the one that was named */
    GPU_USE_ANY,   /* whichever the neighbours use */
};

/* *number: that of a named, usable GPU, else -1. */
enum gpu_use gpu_use_of_device(const gchar *device, gint *number);

/* filter: drops caps in memory that cannot be used. prefer: puts this vendor's memory first. Both
 * take the caps. */
GstCaps *gpu_filter_caps(GstCaps *caps, enum gpu_use use, gint number);
GstCaps *gpu_put_first(GstCaps *caps, const struct gpu_vendor *vendor);

/* --- GPUs --------------------------------------------------------------------------------- */

/* A number for each GPU of all vendors, by the core's name of it; -1: another device. */
gint gpu_of_name(const gchar *device);

/* The other way round; g_free it. */
gchar *gpu_get_name(gint number);
const struct gpu_vendor *gpu_get_vendor(gint number); /* NULL for -1 */
struct gpu *gpu_get(gint number, struct gpud_error *error);

/* A GPU's PCI address, which means the same to every process, however it counts GPUs; g_free it.
 * NULL: it is not known. And the other way round: the number of the GPU there, or -1. */
gint gpu_of_pci(const gchar *pci);

/* Strides and offsets that the GPU's elements can use without a copy: one aligned stride for all
 * planes. */
void gpu_align_info(const struct gpu *gpu, GstVideoInfo *info);

/* --- contexts ----------------------------------------------------------------------------- */

/* The contexts set on an element, by vendor; under its object lock. */
struct gpu_contexts {
    GstObject *given[GPU_VENDORS_MAX];
};

void gpu_contexts_clear(struct gpu_contexts *contexts);

/* For GstElement's set_context. */
void gpu_take_context(GstElement *element, GstContext *context, struct gpu_contexts *contexts);

/* The GPU that the pipeline works on: that of the context set on the element, of the neighbour on
 * this pad, or of the application; else the core's choice among the vendor's for the element's
 * address (which may be NULL): the nearest, or the first. *reason says why (g_free it). */
gint gpu_find(const struct gpu_vendor *vendor, GstElement *element, GstPad *pad,
              struct gpu_contexts *contexts, const gchar *address, gchar **reason);

/* Answers a GST_QUERY_CONTEXT for a vendor's context. use, number: from gpu_use_of_device();
 * opened_on: the GPU that the element works on, or -1. FALSE: it asks for something else. */
gboolean gpu_answer_query(GstElement *element, GstQuery *query, enum gpu_use use, gint number,
                          gint opened_on, struct gpu_contexts *contexts);

/* === gpuframe ================================================================================ */

/* Wraps a buffer's own memory, allocated by another of the vendor's elements, as a frame from which
 * the core copies. The frame holds the buffer until the copy is done, and is ordered after the
 * GPU's pending work on it. NULL: *error says why not. */
struct gpud_frame *gpu_wrap_buffer(const struct gpu_vendor *vendor, GstBuffer *buffer,
                                   struct counters *counters, struct gpud_error *error);

/* === gpuslot ================================================================================= */
/* A slot as memory of a GPU: the code that all vendors' kinds of memory share.
 *
 * A map with the vendor's flag returns the device pointer, after making the users' stream wait for
 * the bytes; the CPU does not wait. A map without it goes through the core to the CPU. When the
 * frame is passed on, its next owner waits for that stream. A buffer that is never mapped costs
 * nothing. */

/* Of struct slot_kind; a vendor adds the other two, and its own free() where that of its class of
 * allocators is not the right one. */
void gpu_slot_init_allocator(GstAllocator *allocator);
void gpu_slot_arrived(struct slot_memory *slot);
void gpu_slot_leaving(struct slot_memory *slot);

/* For new_memory(): the frame's bytes on the device, and their layout. */
gpointer gpu_slot_pointer(struct gpud_frame *frame);
GstVideoInfo gpu_slot_info(const struct slot_store *store, const struct gpud_layout *layout,
                           const struct video_planes *planes);

/* Enqueues a copy of a picture, from one slot or extra memory to another, on the GPU. */
gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to);

/* === map ===================================================================================== */

/* Maps the frame for the CPU. NULL: it cannot, and the log says why. */
void *slot_memory_map(struct slot_memory *slot, GstMapFlags flags);

/* TRUE: what was written is being copied to the device. */
gboolean slot_memory_unmap(struct slot_memory *slot);

/* Of struct slot_kind: for allocators of any class whose slots the CPU maps. */
void slot_init_allocator(GstAllocator *allocator);

enum slot_use {
    SLOT_FREE,    /* it can be submitted */
    SLOT_READ,    /* a branch of a tee has it mapped: the device copies it, by slot_memory_wrap() */
    SLOT_WRITTEN, /* it is mapped for writing: the mapped bytes are copied */
};

/* Before the slot's frame is submitted, with this info. SLOT_FREE: the memory is read-only from now
 * on, and may be mapped during the submit, too. shared: others may have the memory. Does not wait.
 */
enum slot_use slot_memory_begin_submit(struct slot_memory *slot, gboolean shared,
                                       const struct gpud_frame_info *info);

/* gpud_frame_wrap_frame() over the slot's frame; NULL: *error says why not. */
struct gpud_frame *slot_memory_wrap(struct slot_memory *slot, const struct gpud_layout *layout,
                                    void (*released)(void *user), void *user,
                                    struct gpud_error *error);

/* === memory ================================================================================== */
/* The slots of one pool as GstMemory objects, reused for the next frame in the same slot. */

extern const struct slot_kind plain_slot_kind;

/* info describes the frames; sender is NULL for frames of a receiver, whose memory is read-only.
 * host: the sender's slots are in host memory. */
struct slot_store_params {
    const struct slot_kind *kind;
    const GstVideoInfo *info;
    struct gpu *gpu;
    struct shared_sender *sender;
    guint epoch;
    gboolean host;
    struct outstanding *outstanding;
    struct counters *counters;
};

struct slot_store *slot_store_new(const struct slot_store_params *params);
void slot_store_unref(struct slot_store *store);

/* From now on (until it is opened again) memories are freed with their last reference. */
void slot_store_close(struct slot_store *store);

/* Attaches the frame to its slot's idle memory, or to a new one. Takes the frame, and releases it
 * on failure (NULL), which is logged. */
GstMemory *slot_store_wrap(struct slot_store *store, struct gpud_frame *frame);

/* Memory of the store's kind and format, on its GPU, that is not a slot. After its last reference
 * it is kept for the next call, so that GPU memory is not allocated per frame. NULL: out of memory,
 * which is logged. */
GstMemory *slot_store_get_extra(struct slot_store *store);

/* === sender ================================================================================== */
/* The core's sender, shared by gpudirectsink and the buffer pools that it proposed: upstream's
 * threads acquire slots while the sink submits, and may still do so after the sink has stopped. */

struct shared_sender;

/* Takes the core's sender. slots: its ring's; host: its slots are host memory. */
struct shared_sender *shared_sender_new(struct gpud_sender *core, guint slots, gboolean host);
struct shared_sender *shared_sender_ref(struct shared_sender *sender);
void shared_sender_unref(struct shared_sender *sender);

/* The core's sender, which is the caller's from now on, to be replaced or destroyed. Slots that
 * buffers still hold stay valid. */
struct gpud_sender *shared_sender_take(struct shared_sender *sender);

/* The core's sender, for the sink's streaming thread and for thread-safe calls. NULL after take.
 */
struct gpud_sender *shared_sender_core(struct shared_sender *sender);

/* Sets the sender's policy, from any thread. If it blocks, upstream also waits briefly for a slot.
 */
void shared_sender_set_slow_receiver(struct shared_sender *sender, enum gpud_slow_receiver policy);

/* From any thread; after take *info is left unchanged. */
void shared_sender_get_info(struct shared_sender *sender, struct gpud_sender_info *info);

/* Its receivers; returns how many there are. From any thread. */
gsize shared_sender_list_links(struct shared_sender *sender,
                               struct gpud_link_info link[GPUD_RECEIVERS_MAX]);

/* Starts a new epoch; slots of older ones can only be released. dmabufs: slots shall have them. */
enum gpud_status shared_sender_configure(struct shared_sender *sender,
                                         const struct gpud_media *media, gboolean dmabufs,
                                         struct gpud_error *error);

/* Counts the epochs from 1; 0 before the first. */
guint shared_sender_epoch(struct shared_sender *sender);

/* Makes waiting calls return GPUD_AGAIN, until FALSE is set. */
void shared_sender_interrupt(struct shared_sender *sender, gboolean interrupted);
gboolean shared_sender_is_interrupted(struct shared_sender *sender);

/* Takes a slot for upstream. Upstream never gets the last one: copies need it.
 * GPUD_TIMEOUT: none is free; GPUD_CLOSED: the epoch has ended. */
enum gpud_status shared_sender_acquire(struct shared_sender *sender, guint epoch, gboolean may_wait,
                                       struct gpud_frame **frame);

/* TRUE, once per epoch: there are no slots at all, and *error says why. From any thread. */
gboolean shared_sender_take_lack(struct shared_sender *sender, struct gpud_error *error);

/* === pool ==================================================================================== */
/* Buffers that are slots, for both ends:
 *
 *     sending     gpudirectsink proposes the pool to upstream: acquiring a buffer takes a slot from
 *                 the sender. When none is free, a stand-in of the same shape costs a copy later
 *     receiving   gpudirectsrc owns the pool: each frame that arrives is wrapped in a buffer
 *
 * The buffer, its GstMemory and its GstVideoMeta are kept for each slot and reused.
 *
 * A vendor's elements accept only pools of their own class, so a pool of slots on a GPU is one of a
 * class that is derived from that. */

struct slot_pool_params {
    const GstVideoInfo *info;
    struct gpu *gpu;                 /* NULL: memory that the CPU maps */
    gboolean dmabufs;                /* and that has dma-bufs */
    struct shared_sender *sender;    /* NULL: a receiving pool */
    struct outstanding *outstanding; /* of that: counts the slots that its buffers hold */
    struct counters *counters;
};

/* A configured pool for these caps, or NULL. */
GstBufferPool *gst_gpudirect_pool_new(const struct slot_pool_params *params, GstCaps *caps);

/* A buffer around the frame, which is consumed. The pool must be active. */
GstFlowReturn gst_gpudirect_pool_wrap(GstBufferPool *pool, struct gpud_frame *frame,
                                      GstBuffer **buffer);

/* A buffer of the same format, in memory that is not a slot. */
GstBuffer *gst_gpudirect_pool_stand_in(GstBufferPool *pool);

#endif
