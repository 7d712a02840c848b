/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the rooms of the layer share. Each block names the file that it belongs to. */

#ifndef DGMA_LAYER_DGMA_H
#define DGMA_LAYER_DGMA_H

#include <CL/cl_icd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amd.h"

#define DGMA_PAGE ((size_t)4096)

/* ---- layer.c: the loader's side ---- */

/* What lies below us: the driver, or the next layer. Constant once the loader has called
 * clInitLayer. */
extern cl_icd_dispatch dgma_next;

/* OpenCL gives a refusal a number only; with GPUDIRECT_DGMA_LOG=1 its sentence goes to stderr. */
void dgma_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- table.c: pointers to what we know about them ---- */

struct dgma_table;
extern struct dgma_table dgma_buffers, dgma_events, dgma_devices, dgma_kernels, dgma_card_table;

/* A newer record hides an older one with the same key. false: no memory */
bool dgma_table_put(struct dgma_table *table, const void *key, void *value);
void *dgma_table_get(struct dgma_table *table, const void *key);  /* NULL: unknown */
void *dgma_table_take(struct dgma_table *table, const void *key); /* get and forget */
/* Forgets that record, not another one that has the same key by now. */
void dgma_table_drop(struct dgma_table *table, const void *key, const void *value);

/* ---- device.c: what the driver's devices can do ---- */

struct dgma_device {
    bool native;              /* has the extension itself: leave it alone */
    bool host_memory;         /* works on the host's memory in place: no copies around signals */
    bool runs_host_functions; /* clEnqueueNativeKernel works */
    dgma_wait_signal_fn wait_signal; /* the driver's own, where native */
    dgma_write_signal_fn write_signal;
    dgma_make_resident_fn make_resident;
};

/* Never NULL for a valid device: an unknown or failing one reads as one that can do nothing. */
const struct dgma_device *dgma_device_get(cl_device_id device);
bool dgma_context_is_native(cl_context context);
bool dgma_context_is_host_memory(cl_context context);
enum { DGMA_MAX_CONTEXT_DEVICES = 64 };
/* Returns how many the context has; 0: not to be found out. */
cl_uint dgma_context_devices(cl_context context, cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES]);
/* Does the blank-separated list hold this very name? */
bool dgma_list_has(const char *list, const char *name);

/* ---- aperture.c: how much may be on the bus at a time ---- */

struct dgma_aperture;

/* Has one of the devices room for a buffer of `size` that takes `bytes`? If not, logs why. */
bool dgma_aperture_has_room(const cl_device_id *devices, cl_uint count, size_t size, size_t bytes);
/* Books that on the device and puts it into `*booked`, unless something is there already. false: no
 * room, logged. */
bool dgma_aperture_book(struct dgma_aperture **booked, cl_device_id device, size_t size,
                        size_t bytes);
void dgma_aperture_give(struct dgma_aperture *aperture, size_t bytes);

/* ---- registry.c: bus addresses and the shared memory behind them ---- */

struct dgma_object {
    cl_ulong base; /* bus address of the first byte */
    size_t total;  /* bytes mapped: the surface, then one marker page */
    uint8_t *map;
    int owner_pid;                /* 0: imported */
    struct dgma_written *written; /* NULL: the owner works in place */
    atomic_uint refs;
    atomic_uint pending_writes; /* WriteSignals of this process enqueued and not yet executed */
    struct dgma_object *next;   /* list of the owned, under the registry's lock */
};

/* A surface of `surface` bytes (a multiple of a page) under a fresh address; `keeps_copy`: with a
 * map of what was written (written.h). NULL: logged why. */
struct dgma_object *dgma_object_create(size_t surface, bool keeps_copy);
/* The object that `address` lies in, this process's or another's, and where. NULL: logged why. */
struct dgma_object *dgma_object_find(cl_ulong address, size_t *offset);
void dgma_object_unref(struct dgma_object *object); /* NULL is fine */
/* Nobody can import it from now on; mappings that exist stay. */
void dgma_object_unpublish(struct dgma_object *object);
/* Takes the names of all that this process owns out of /dev/shm. */
void dgma_registry_finish(void);

/* ---- buffer.c: the two kinds of memory object ---- */

enum dgma_kind { DGMA_BUS, DGMA_EXTERNAL };

struct dgma_buffer {
    enum dgma_kind kind;
    atomic_uint refs;   /* the program's; at 0 the handle stands for nothing of ours any more */
    cl_mem_flags flags; /* as the program passed them */
    cl_context context;
    size_t size; /* rounded up to a page, as on AMD's */
    bool copies; /* the driver keeps its own copy: move the bytes at each signal */
    struct dgma_object *surface_object, *marker_object; /* one reference each; often the same */
    uint8_t *surface;
    _Atomic uint32_t *marker;  /* start of the marker page */
    size_t marker_room;        /* bytes of the mapping from there on */
    struct dgma_write *writes; /* DGMA_EXTERNAL: commands whose bytes are not sent yet, writes.c */
    bool all_written;          /* more than those */
    struct dgma_copy_queue *copy_queue; /* DGMA_BUS that copies, bring.c */
    uint32_t seen_marker;               /* the poller's, bring.c */
    struct dgma_aperture *aperture; /* DGMA_BUS, NULL until it is known on which device it lies */
};

/* What we know about this memory object; NULL: none of ours. Valid as long as `mem` is. */
struct dgma_buffer *dgma_buffer_get(cl_mem mem);
static inline bool dgma_flags_are_ours(cl_mem_flags flags)
{
    /* AMD's header sign-extends bit 31, so nothing above it may be looked at. */
    return (flags & (CL_MEM_BUS_ADDRESSABLE_AMD | CL_MEM_EXTERNAL_PHYSICAL_AMD)) != 0;
}

/* The bus buffer lies on this device from now on, if it lies on none yet. false: no room, logged.
 */
bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device);
void dgma_buffer_install(cl_icd_dispatch *table);

/* ---- image.c: no images on the bus ---- */

void dgma_image_install(cl_icd_dispatch *table);

/* ---- event.c: command types of the events that we hand out ---- */

void dgma_event_track(cl_event event, cl_command_type type); /* the program holds one reference */
void dgma_event_install(cl_icd_dispatch *table);

/* ---- info.c: extension strings, flags and sizes ---- */

/* OpenCL's way of giving a value back. */
cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value,
                 size_t *size_ret);

void dgma_info_install(cl_icd_dispatch *table);

/* ---- signal.c: the three commands ---- */

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

/* ---- poller.c: the one thread that completes what a queue waits for ---- */

enum dgma_op_kind { DGMA_OP_WAIT, DGMA_OP_WRITE, DGMA_OP_RESIDENT };

/* Something to be done once `gate` has completed (NULL: at once), after which `done` completes. */
struct dgma_op {
    struct dgma_op *next;
    enum dgma_op_kind kind;
    cl_event gate;      /* owned */
    cl_event done;      /* a user event, owned */
    cl_event behind[2]; /* what `done` holds back, owned: PoCL aborts if a command fails whose
                         * event nobody holds */
    cl_mem mem;         /* WAIT, WRITE: retained, keeps `marker` and `object` alive */
    struct dgma_object *object; /* WRITE: whose pending_writes goes down */
    _Atomic uint32_t *marker;
    uint32_t value;           /* WAIT: complete at marker >= value; WRITE: what to store */
    uint32_t seen;            /* WAIT: the marker when last looked at */
    struct dgma_buffer *copy; /* WAIT: its copy gets what was written; WRITE: whose writer it is */
    cl_command_queue copy_queue; /* WAIT, through this, owned */
    cl_event before_copy;        /* WAIT: nothing is brought in before this one, owned */
    bool brought;                /* WAIT: it has, or will have once `gate` is complete */
    struct dgma_box *boxes;      /* WRITE: what was written, owned */
    cl_uint num_boxes;
    cl_uint count;           /* RESIDENT */
    cl_bus_address_amd *out; /* the program's */
    cl_bus_address_amd addresses[];
};

bool dgma_poller_start(void); /* false: the thread could not be started, logged */
/* Takes the operation over, whatever happens. The poller runs. */
void dgma_poller_submit(struct dgma_op *op);
/* Completes `done` and frees the operation, also one that never reached the poller. */
void dgma_op_finish(struct dgma_op *op, cl_int status);
/* Not if it has failed: that shows before PoCL is through with it, and then it aborts. Such an
 * event is left to the system. */
void dgma_gate_release(cl_event gate);
/* The poller looks at gates by itself too; this makes it quick. */
void dgma_poller_watch(cl_event gate);
/* The poller looks at everything again: a gate has completed. */
void dgma_poller_ring(void);
void dgma_poller_finish(void);
/* A release store, then whoever sleeps on that word, in any process, wakes. */
void dgma_marker_write(_Atomic uint32_t *marker, uint32_t value);

#endif
