/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The software DirectGMA: what its files share. */
#ifndef GPUD_LAYER_H
#define GPUD_LAYER_H

#include "amd.h"
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === alias =================================================================================== */

void dgma_alias_install(cl_icd_dispatch *table);

/* Functions that are found only by name, as extensions are; NULL: not one of the layer's. */
void *dgma_alias_function(const char *name);

struct dgma_aperture;

/* === next ==================================================================================== */
/* The functions below the layer, and its log. */

#define DGMA_PAGE ((size_t)4096)

/* The functions of the driver, or of the next layer. Constant once the loader has called
 * clInitLayer. */
extern cl_icd_dispatch dgma_next;

/* With GPUDIRECT_DGMA_LOG=1 explains refusals on stderr, as OpenCL has only numbers for them. */
void dgma_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* === object ================================================================================== */
/* Shared memory with a bus address. */

struct dgma_object {
    cl_ulong base; /* bus address of the first byte */
    size_t total;  /* bytes mapped: the surface, then one marker page */
    uint8_t *map;
    int owner_pid;                /* 0: imported */
    struct dgma_written *written; /* NULL: the owner works in place */
    atomic_uint refs;
    atomic_uint pending_writes; /* WriteSignals of this process enqueued and not yet executed */
    struct dgma_object *next;   /* in the list of owned objects, under the registry's lock */
};

/* === table =================================================================================== */
/* A hash table from handles to records. Each frame's events create and release handles, so the
 * locks are striped, and held for a few instructions only, never during a call of the driver. */

struct dgma_table_entry;

enum { DGMA_TABLE_STRIPES = 64 };

struct dgma_table_stripe {
    pthread_mutex_t lock;
    struct dgma_table_entry *entries;
};

struct dgma_table {
    atomic_uint count; /* 0, the common case, saves the lock */
    struct dgma_table_stripe stripes[DGMA_TABLE_STRIPES];
};

/* For a static one. */
#define DGMA_TABLE_INIT                                                                   \
    {                                                                                     \
        .stripes = { [0 ... DGMA_TABLE_STRIPES - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL} } \
    }

/* A newer record hides an older one with the same key. false: no memory */
bool dgma_table_put(struct dgma_table *table, const void *key, void *value);
void *dgma_table_get(struct dgma_table *table, const void *key);  /* NULL: unknown */
void *dgma_table_take(struct dgma_table *table, const void *key); /* get and remove */

/* Removes that record, but not a newer one with the same key. */
void dgma_table_drop(struct dgma_table *table, const void *key, const void *value);

/* === buffer ================================================================================== */
/* The records of the two kinds of memory object. */

enum dgma_kind { DGMA_BUS, DGMA_EXTERNAL };

struct dgma_buffer {
    enum dgma_kind kind;
    atomic_uint refs;   /* the program's; at 0 the handle is no longer ours */
    cl_mem_flags flags; /* as the program passed them */
    cl_context context;
    size_t size; /* rounded up to a page, as with AMD's driver */
    bool copies; /* the driver keeps its own copy: move the bytes at each signal */
    struct dgma_object *surface_object, *marker_object; /* one reference each; often the same */
    uint8_t *surface;
    _Atomic uint32_t *marker; /* start of the marker page */
    size_t marker_room;       /* bytes of the mapping from there on */
    struct dgma_write
        *writes;      /* DGMA_EXTERNAL: commands whose bytes are not sent yet, commands.c */
    bool all_written; /* the whole buffer counts as written */
    struct dgma_copy_queue *copy_queue; /* DGMA_BUS that copies, commands.c */
    uint32_t seen_marker;               /* the last one seen; the poller's alone: commands.c */
    struct dgma_aperture *aperture;     /* DGMA_BUS; NULL until its device is known */
};

/* The record of this memory object, valid as long as `mem` is; NULL: it is not ours. */
struct dgma_buffer *dgma_buffer_get(cl_mem mem);

/* Places the bus buffer on this device, unless it has one. false: it does not fit, logged. */
bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device);

/* === bring =================================================================================== */
/* Updates an owner's copy with what writers wrote. */

void dgma_bring_free(struct dgma_buffer *buffer);

/* `*gate`: the last of its commands; NULL: nothing was written. */
cl_int dgma_bring_in(struct dgma_buffer *buffer, cl_mem mem, cl_command_queue queue,
                     cl_event *gate);

/* === card ==================================================================================== */
/* Devices that are shown as cards, and the objects that were made for them. */

enum { DGMA_MAX_CONTEXT_DEVICES = 64 };

/* The driver's device, of a card; any other device is itself. */
cl_device_id dgma_card_device(cl_device_id device);

/* The cards that a context, a queue or a program was made for, as the program named them. */
struct dgma_cards {
    cl_uint count;
    cl_device_id devices[];
};

extern struct dgma_table dgma_context_cards, dgma_queue_cards, dgma_program_cards;

/* count 0: forgets. */
void dgma_cards_remember(struct dgma_table *table, const void *key, cl_uint count,
                         const cl_device_id *devices);

/* === commands ================================================================================ */
/* The three commands of the extension. */

cl_int CL_API_CALL dgma_enqueue_wait_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                            cl_uint num_events, const cl_event *wait_list,
                                            cl_event *event);
cl_int CL_API_CALL dgma_enqueue_write_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                             cl_ulong offset, cl_uint num_events,
                                             const cl_event *wait_list, cl_event *event);
cl_int CL_API_CALL dgma_enqueue_make_resident(cl_command_queue queue, cl_uint num_mems,
                                              cl_mem *mems, cl_bool blocking,
                                              cl_bus_address_amd *addresses, cl_uint num_events,
                                              const cl_event *wait_list, cl_event *event);

/* === device ================================================================================== */
/* The capabilities of the driver's devices. */

struct dgma_device {
    bool native;              /* has the extension itself: leave it alone */
    bool host_memory;         /* works on the host's memory in place: no copies around signals */
    bool runs_host_functions; /* clEnqueueNativeKernel works */
    dgma_wait_signal_fn wait_signal; /* the driver's own, where native */
    dgma_write_signal_fn write_signal;
    dgma_make_resident_fn make_resident;
};

/* Never NULL for a valid device: an unknown or failing one has no capabilities. */
const struct dgma_device *dgma_device_get(cl_device_id device);
bool dgma_context_is_native(cl_context context);
bool dgma_context_is_host_memory(cl_context context);

/* Returns the number of the context's devices; 0: the query failed. */
cl_uint dgma_context_devices(cl_context context, cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES]);

/* === disguise ================================================================================ */
/* GPUDIRECT_DGMA_AS=firepro or firepro:N: shows what programs for FirePro cards check before they
 * use DirectGMA. device.c makes the devices, device.c answers queries about them. */

/* Reads the variable. If it is unset or invalid, nothing is installed, and no platform disguised.
 */
void dgma_disguise_install(cl_icd_dispatch *table);

/* Functions that are found only by name, as extensions are; NULL: not one of the layer's. */
void *dgma_disguise_function(const char *name);

/* === event =================================================================================== */
/* Command types of the events that the layer hands out. */

void dgma_event_track(cl_event event, cl_command_type type); /* the program holds one reference */
void dgma_event_install(cl_icd_dispatch *table);

/* === give ==================================================================================== */

/* Returns a value in the way of OpenCL's clGet…Info functions. */
cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value,
                 size_t *size_ret);

/* === image =================================================================================== */
/* No images on the bus. */

void dgma_image_install(cl_icd_dispatch *table);

/* === info ==================================================================================== */
/* Extension strings, flags and sizes. */

void dgma_info_install(cl_icd_dispatch *table);

/* === memobject =============================================================================== */
/* The memory objects of the extension: created, shared and released. */

void dgma_memobject_install(cl_icd_dispatch *table);

/* === written ================================================================================= */
/* Merges copies. A device that does not work in the shared memory has a second version of the
 * buffer's bytes. Only the writers know what they wrote, so they record it:
 *
 *   writer                              shared memory                      owner that keeps a copy
 *   commands that write are followed
 *   (commands.c)
 *   WriteSignal: those bytes  ------->  surface
 *                which bytes  ------->  written map: a bit a byte
 *                value        ------->  marker  ----------------->  WaitSignal: takes the bits,
 *                                                                   copies those bytes (commands.c)
 *
 * Comparing values would miss a writer that writes the old value again. */

/* Rows of bytes, as a command writes them; one row: contiguous. */
struct dgma_box {
    size_t offset, width;
    size_t rows, row_pitch;
    size_t slices, slice_pitch;
};

/* Returns 0 or an errno. `path`: that of the object, whose slot this process owns. */
int dgma_written_create(struct dgma_object *object, const char *path);

/* If there is none, the owner works in place. */
void dgma_written_open(struct dgma_object *object, const char *path);
void dgma_written_unlink(const char *path);
void dgma_written_close(struct dgma_object *object);

/* These bytes of the object were written. */
void dgma_written_add(struct dgma_object *object, size_t at, const struct dgma_box *box);

/* Called before and after the store of the marker. */
void dgma_written_begin_signal(struct dgma_object *object, uint32_t value);
void dgma_written_end_signal(struct dgma_object *object);

/* Whether there is nothing to update. */
bool dgma_written_is_empty(const struct dgma_object *object, const _Atomic uint32_t *marker,
                           uint32_t seen);

/* === poller ================================================================================== */
/* The thread that completes the operations that queues wait for. */

enum dgma_op_kind { DGMA_OP_WAIT, DGMA_OP_WRITE, DGMA_OP_RESIDENT };

/* An operation that runs once `gate` has completed (NULL: at once), and then completes `done`. */
struct dgma_op {
    struct dgma_op *next;
    enum dgma_op_kind kind;
    cl_event gate;      /* owned */
    cl_event done;      /* a user event, owned */
    cl_event behind[2]; /* the events that `done` blocks, owned: PoCL aborts if a command fails
                         * whose event has no reference */
    cl_mem mem;         /* WAIT, WRITE: retained, keeps `marker` and `object` alive */
    struct dgma_object *object; /* WRITE: the object whose pending_writes it decrements */
    _Atomic uint32_t *marker;
    uint32_t value;           /* WAIT: complete at marker >= value; WRITE: what to store */
    uint32_t seen;            /* WAIT: the marker when last polled */
    struct dgma_buffer *copy; /* WAIT: the buffer whose copy is updated; WRITE: the written one */
    cl_command_queue copy_queue; /* WAIT: the queue for the update, owned */
    cl_event before_copy;        /* WAIT: the update waits for this event, owned */
    bool brought;                /* WAIT: the update is done, or will be once `gate` completes */
    struct dgma_box *boxes;      /* WRITE: the written ranges, owned */
    cl_uint num_boxes;
    cl_uint count;           /* RESIDENT */
    cl_bus_address_amd *out; /* the program's */
    cl_bus_address_amd addresses[];
};

bool dgma_poller_start(void); /* false: the thread could not be started, logged */

/* Takes ownership of the operation in any case. The poller must have been started. */
void dgma_poller_submit(struct dgma_op *op);

/* Completes `done` and frees the operation, also one that never reached the poller. */
void dgma_op_finish(struct dgma_op *op, cl_int status);

/* Releases a gate, unless it has failed: PoCL reports a failure before it has finished with the
 * event, and would abort. Such an event is leaked. */
void dgma_gate_release(cl_event gate);

/* Registers a callback, so that the poller notices the gate's completion without polling. */
void dgma_poller_watch(cl_event gate);
void dgma_poller_finish(void);

/* A release store, which then wakes all sleepers on that word, in any process. */
void dgma_marker_write(_Atomic uint32_t *marker, uint32_t value);

/* === registry ================================================================================ */
/* Bus addresses and the shared memory behind them. */

/* A surface of `surface` bytes (a multiple of a page) with a new address; `keeps_copy`: with a map
 * of written bytes (layer.h). NULL: logged why. */
struct dgma_object *dgma_object_create(size_t surface, bool keeps_copy);

/* The object that contains `address`, of any process, and the offset. NULL: logged why. */
struct dgma_object *dgma_object_find(cl_ulong address, size_t *offset);
void dgma_object_unref(struct dgma_object *object); /* NULL is fine */

/* Prevents new imports; existing mappings stay. */
void dgma_object_unpublish(struct dgma_object *object);

/* Removes all files of this process from /dev/shm. */
void dgma_registry_finish(void);

/* === slot ==================================================================================== */
/* Tracks which slots of the bus address space have a live owner. registry.c calls these, one at a
 * time, under its lock. */

/* false, errno: locks are not available, which is logged. */
bool dgma_slot_ready(void);

/* Takes the slot for this process, until it gives it back or ends. false, errno: it cannot; EAGAIN
 * or EACCES: another process has it. */
bool dgma_slot_own(uint32_t slot);

/* Claims a slot without an owner exclusively, until it is given back. Not for a slot that this
 * process owns: the call would succeed, and lose it. */
bool dgma_slot_claim_dead(uint32_t slot);
void dgma_slot_give(uint32_t slot);

/* Whether another process owns it. */
bool dgma_slot_is_owned(uint32_t slot);

/* === unfollowed ============================================================================== */
/* Writes by the program that the layer cannot track. */

/* From now on everything counts as written. function: the one that writes, for the log. */
void dgma_unfollowed_note(const char *function);
bool dgma_unfollowed_any(void);

/* === writes ================================================================================== */
/* Tracks what the program's commands write into external buffers. */

void dgma_writes_free(struct dgma_buffer *buffer);
void dgma_writes_install(cl_icd_dispatch *table);

#endif
