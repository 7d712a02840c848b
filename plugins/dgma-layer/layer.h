/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The software DirectGMA: what its files share. */
#ifndef GPUD_LAYER_H
#define GPUD_LAYER_H

#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === amd ===================================================================================== */
/* The declarations of cl_amd_bus_addressable_memory, which neither Khronos' nor Debian's headers
 * have. The argument orders are those of AMD's header, with which programs were compiled, not those
 * of the specification's text. Guarded, so that AMD's header may be included first. */

#define DGMA_EXTENSION_NAME "cl_amd_bus_addressable_memory"

#ifndef CL_MEM_BUS_ADDRESSABLE_AMD
#define CL_MEM_BUS_ADDRESSABLE_AMD ((cl_mem_flags)1 << 30)
#endif
#ifndef CL_MEM_EXTERNAL_PHYSICAL_AMD
#define CL_MEM_EXTERNAL_PHYSICAL_AMD ((cl_mem_flags)1 << 31)
#endif

#ifndef CL_COMMAND_WAIT_SIGNAL_AMD
#define CL_COMMAND_WAIT_SIGNAL_AMD 0x4080
#define CL_COMMAND_WRITE_SIGNAL_AMD 0x4081
#define CL_COMMAND_MAKE_BUFFERS_RESIDENT_AMD 0x4082

typedef struct _cl_bus_address_amd {
    cl_ulong surface_bus_address;
    cl_ulong marker_bus_address;
} cl_bus_address_amd;
#endif

/* Names of our own, so that AMD's typedefs cannot clash with them. */
typedef cl_int(CL_API_CALL *dgma_wait_signal_fn)(cl_command_queue queue, cl_mem mem, cl_uint value,
                                                 cl_uint num_events, const cl_event *wait_list,
                                                 cl_event *event);
typedef cl_int(CL_API_CALL *dgma_write_signal_fn)(cl_command_queue queue, cl_mem mem, cl_uint value,
                                                  cl_ulong offset, cl_uint num_events,
                                                  const cl_event *wait_list, cl_event *event);
typedef cl_int(CL_API_CALL *dgma_make_resident_fn)(cl_command_queue queue, cl_uint num_mems,
                                                   cl_mem *mems, cl_bool blocking,
                                                   cl_bus_address_amd *addresses,
                                                   cl_uint num_events, const cl_event *wait_list,
                                                   cl_event *event);

/* === layer =================================================================================== */

#define DGMA_PAGE ((size_t)4096)

/* The functions of the driver, or of the next layer. Constant once the loader has called
 * clInitLayer. */
extern cl_icd_dispatch dgma_next;

/* With GPUDIRECT_DGMA_LOG=1 explains refusals on stderr, as OpenCL has only numbers for them. */
void dgma_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns a value in the way of OpenCL's clGet…Info functions. */
cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value,
                 size_t *size_ret);

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
void *dgma_table_get(struct dgma_table *table, const void *key); /* NULL: unknown */

/* Gets and removes the newest record or, where `only` is set, this one. */
void *dgma_table_take(struct dgma_table *table, const void *key, const void *only);

/* === registry ================================================================================ */
/* Bus addresses and the shared memory behind them.
 *
 * A device that does not work in the shared memory has a second version of the buffer's bytes. Only
 * the writers know what they wrote, so they record it:
 *
 *   writer                              shared memory                      owner that keeps a copy
 *   commands that write are followed
 *   (writes.c)
 *   WriteSignal: those bytes  ------->  surface
 *                which bytes  ------->  written map: a bit a byte
 *                value        ------->  marker  ----------------->  WaitSignal: takes the bits,
 *                                                                   copies those bytes (commands.c)
 *
 * Comparing values would miss a writer that writes the old value again. */

struct dgma_written {
    _Atomic uint32_t begun, done; /* counts of WriteSignals; different: one runs, or has died */
    _Atomic uint32_t value;       /* the value that the last one writes */
    uint32_t unused[13];
    _Atomic uint64_t bits[];
};

/* Shared memory with a bus address. */
struct dgma_object {
    cl_ulong base; /* bus address of the first byte */
    size_t total;  /* bytes mapped: the surface, then one marker page */
    uint8_t *map;
    int owner_pid;                /* 0: imported */
    struct dgma_written *written; /* NULL: the owner works in place */
    atomic_uint refs;
    atomic_uint pending_writes; /* WriteSignals of this process enqueued and not yet executed */
    struct dgma_object *next;   /* in the list of owned objects, under its lock */
};

/* Removes all files of this process from /dev/shm. */
void dgma_registry_finish(void);

/* === devices ================================================================================= */
/* The capabilities of the driver's devices, and GPUDIRECT_DGMA_AS=firepro or firepro:N: shows what
 * programs for FirePro cards check before they use DirectGMA. */

enum { DGMA_MAX_CONTEXT_DEVICES = 64 };

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

/* Of a context's devices: `native` if one is, because its driver made the context and knows the
 * flags; `host_memory` if all of them work there. */
struct dgma_device dgma_context_get(cl_context context);

/* Returns the number of the context's devices; 0: the query failed. */
cl_uint dgma_context_devices(cl_context context, cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES]);

/* The driver's device, of a card; any other device is itself. */
cl_device_id dgma_card_device(cl_device_id device);

/* The cards that a context, a queue or a program was made for, as the program named them. */
struct dgma_cards {
    cl_uint count;
    cl_device_id devices[];
};

extern struct dgma_table dgma_queue_cards;

/* Functions of cards that are found only by name, as extensions are; NULL: not one of them. */
void *dgma_disguise_function(const char *name);
void dgma_devices_install(cl_icd_dispatch *table);

/* === memory ================================================================================== */
/* The two kinds of memory object. */

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
    _Atomic uint32_t *marker;           /* start of the marker page */
    size_t marker_room;                 /* bytes of the mapping from there on */
    struct dgma_write *writes;          /* DGMA_EXTERNAL: commands whose bytes are not sent yet */
    bool all_written;                   /* the whole buffer counts as written */
    struct dgma_copy_queue *copy_queue; /* DGMA_BUS that copies */
    uint32_t seen_marker;               /* the last one seen; the poller's alone */
    struct dgma_aperture *aperture;     /* DGMA_BUS; NULL until its device is known */
};

/* The record of this memory object, valid as long as `mem` is; NULL: it is not ours. */
struct dgma_buffer *dgma_buffer_get(cl_mem mem);

/* Places the bus buffer on this device, unless it has one. false: it does not fit, logged. */
bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device);
void dgma_memory_install(cl_icd_dispatch *table);

/* === writes ================================================================================== */
/* What the program's commands write into external buffers. */

/* Rows of bytes, as a command writes them; one row: contiguous. */
struct dgma_box {
    size_t offset, width;
    size_t rows, row_pitch;
    size_t slices, slice_pitch;
};

struct dgma_boxes {
    struct dgma_box *list; /* owned */
    cl_uint count;
};

/* Enqueues what a WriteSignal must send; *gate: its last command. */
cl_int dgma_writes_send(cl_command_queue queue, cl_mem mem, struct dgma_buffer *buffer,
                        cl_uint num_events, const cl_event *wait_list, struct dgma_boxes *boxes,
                        cl_event *gate);
void dgma_writes_free(struct dgma_buffer *buffer);

/* From now on everything counts as written. function: the one that writes, for the log. */
void dgma_unfollowed_note(const char *function);
void dgma_writes_install(cl_icd_dispatch *table);

/* === commands ================================================================================ */
/* The three commands of the extension. */

/* NULL: not one of them. */
void *dgma_command_function(const char *name);

/* For a buffer that ends. */
void dgma_bring_free(struct dgma_buffer *buffer);

/* Command types of the events that the layer hands out. */
void dgma_commands_install(cl_icd_dispatch *table);

/* Ends the thread that completes what queues wait for. */
void dgma_poller_finish(void);

#endif
