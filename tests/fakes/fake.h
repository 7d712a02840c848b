/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A CUDA driver in host memory, under the driver's real soname: the whole CUDA path of the core and
 * of GStreamer's elements runs on it without a GPU, through LD_LIBRARY_PATH. It shows logic, never
 * speed, and is stricter than the driver: what the driver only documents as forbidden is an error
 * here, and what breaks memory there is a line on stderr.
 *
 *   GPUD_FAKE_CUDA_DEVICES=2       how many devices there are; CUDA_VISIBLE_DEVICES chooses
 *   GPUD_FAKE_CUDA_MEMORY=1G       bytes of memory that each has (k, M, G)
 *   GPUD_FAKE_CUDA_ARENA=512G      address space for device addresses, which are never used twice:
 *                                  less for what keeps a table of it, as valgrind and qemu-user do
 *   GPUD_FAKE_CUDA_PEERS=0         no device reaches another
 *   GPUD_FAKE_CUDA_INTEGRATED=1    one GPU that shares the processor's memory, as Jetson's: it says
 *                                  so, and has no IPC handles; memory travels by descriptor alone
 *   GPUD_FAKE_CUDA_ACCOUNT=name    processes that name the same file in /dev/shm share the memory,
 *                                  and cuMemGetInfo tells what all hold; the dead hold nothing
 *   GPUD_FAKE_CUDA_FAIL=f:3=801    the third call of f fails with 801; f:3+ from the third on;
 *                                  without a result, OUT_OF_MEMORY; more, separated by commas
 *   GPUD_FAKE_CUDA_DELAY_US=n      each operation of a stream takes so much longer
 *   GPUD_FAKE_CUDA_PEER_MBPS=n     a copy from one device to another gets no faster than that
 *   GPUD_FAKE_CUDA_UNORDERED=1     writes over the bus have to be flushed; 2: and cannot be
 *   GPUD_FAKE_CUDA_READ_ONLY=0     pages that may only be read cannot be pinned
 *   GPUD_FAKE_CUDA_STRICT=abort    abort() where a rule is broken; exit: leave with 86 at the end
 *   GPUD_FAKE_CUDA_VERBOSE=1       say why a call is refused
 *
 * Stricter where, and not the driver's answer: a context other than the memory's device's or the
 * stream's or event's own; pinned pages have another address for the device (attribute 91 is 0);
 * small allocations do not begin at a page; a second open of an IPC handle, or one of another PID
 * namespace; IPC handles of addresses within an allocation; dma-bufs of parts of one, or of one of
 * cuMemAlloc without CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
 *
 * fakeCudaHold() makes the copies of a stream, or of all, late until it lets them go.
 *
 * One lock guards all that is declared here. It is dropped only while a stream works. */
#ifndef FAKE_CUDA_FAKE_H
#define FAKE_CUDA_FAKE_H

#include "functions.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define MAX_DEVICES 16
#define PAGE ((size_t)4096)
#define GRANULARITY ((size_t)2 << 20)

/* Results that the core never asks for by name. */
#define ERROR_CONTEXT_IS_DESTROYED ((CUresult)709)
#define ERROR_ALREADY_MAPPED ((CUresult)208)
#define ERROR_NOT_FOUND ((CUresult)500)
#define ERROR_CAPTURE_UNSUPPORTED ((CUresult)900)
#define ERROR_CAPTURE_INVALIDATED ((CUresult)901)
#define ERROR_ILLEGAL_ADDRESS ((CUresult)700)
#define ERROR_PEER_ACCESS_NOT_ENABLED ((CUresult)705)

/* What a handle points to. Handles are never reused, so that a use after the end is always seen:
 * objects stay until the process ends. */
enum object_kind { CONTEXT = 1, STREAM, EVENT, ALLOCATION, EXTERNAL };
struct object {
    enum object_kind kind;
    bool alive;
};

struct CUctx_st {
    struct object object;
    CUdevice device;
    bool primary;
    unsigned retained;
    bool peers[MAX_DEVICES]; /* whose contexts' memory it may touch */
    CUresult sticky;         /* what broke it; every later call answers this */
    struct CUstream_st *null_stream;
    struct CUctx_st *next;
};

struct CUstream_st {
    struct object object;
    CUcontext context;
    unsigned flags;
    bool has_worker, quit, held;
    bool captures;                           /* a graph, in the global mode */
    unsigned long long submitted, completed; /* serial numbers of operations */
    struct operation *first, *last;
    pthread_cond_t work;
    struct CUstream_st *next;
};

struct CUevent_st {
    struct object object;
    CUcontext context;
    unsigned flags;
    CUstream stream; /* of the last record, NULL: none */
    unsigned long long serial;
    struct timespec when;
};

/* Pages of a device. They lie in a memfd, so that other processes can have them too. */
struct backing {
    int fd;
    unsigned char *cpu;
    size_t size;
    CUdevice device;
    unsigned references;
    unsigned long long key; /* the same in every process */
};

/* A cuMemCreate handle. */
struct allocation {
    struct object object;
    struct backing *backing;
    CUmemAllocationProp prop;
    unsigned handles;    /* not released yet */
    unsigned references; /* and mappings */
};

enum range_kind {
    RANGE_ALLOC,
    RANGE_POOL,
    RANGE_MANAGED,
    RANGE_VMM,
    RANGE_IPC,
    RANGE_HOST,
    RANGE_EXTERNAL
};

/* Addresses of a device that have memory behind them. */
struct range {
    enum range_kind kind;
    CUdeviceptr start;
    size_t size;
    unsigned char *cpu; /* of its first byte, for the workers */
    struct backing *backing;
    CUcontext context; /* that made it; NULL: of none, as VMM and pools */
    CUdevice device;
    unsigned char access[MAX_DEVICES]; /* VMM: CUmemAccess_flags of each device */
    struct allocation *allocation;     /* VMM */
    unsigned char *host;               /* RANGE_HOST: what the program sees */
    bool host_allocated, device_map, portable, read_only;
    unsigned sync_memops;
    unsigned long long id;
    unsigned queued, running, references;
    bool dead;
    struct range *next;
};

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* an operation ended */
    bool initialised, exiting, forked;
    int devices;
    int physical[MAX_DEVICES]; /* of a visible one */
    bool unordered, no_flush;  /* writes over the bus */
    bool no_peers, no_read_only, integrated, verbose, abort_on_report, exit_on_report;
    size_t memory;
    long delay_us, peer_mbps;
    unsigned reports, failures, flushes;
    unsigned writes, waits; /* calls for words of streams; one may be for several */
    bool hold_copies;       /* of all streams */
    unsigned captures;      /* of graphs, in the global mode */
    bool spoiled;           /* they are invalid */
    struct CUctx_st *contexts;
    struct CUstream_st *streams;
    struct CUctx_st *primary[MAX_DEVICES];
    struct range *ranges;
};
extern struct fake fake;

/* init.c. Every function of the driver begins with ENTER, which takes the lock unless it
 * refuses, and ends with leave. */
enum need { NEED_NOTHING, NEED_INIT, NEED_CONTEXT };
CUresult enter(const char *function, enum need need);
CUresult leave(CUresult result);
#define ENTER(need)                                  \
    do {                                             \
        CUresult entered_ = enter(__func__, (need)); \
        if (entered_ != CUDA_SUCCESS)                \
            return entered_;                         \
    } while (0)

/* inject.c. refuse: the driver would refuse too. report: a rule is broken that programs must not
 * break, whatever the driver says to it; counted. */
void inject_read(const char *text);
CUresult inject_ask(const char *function);
CUresult refuse(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));
CUresult report(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));
void set_entered(const char *function);

/* device.c */
bool devices_read(void);
bool valid_device(CUdevice device);
bool peers_reach(CUdevice from, CUdevice to);
CUdevice visible_device(int physical);

/* context.c */
void object_add(struct object *object, enum object_kind kind);
/* NULL: never one of this kind; may be dead. */
void *object_find(const void *handle, enum object_kind kind);
/* May be destroyed: the driver leaves it on the stack. */
CUcontext current_context(void);

/* account.c: how much of each physical device each process holds. */
void account_open(void);
void account_add(const struct backing *backing);
void account_remove(const struct backing *backing);
size_t account_used(CUdevice device);

/* backing.c. kind: 'a' cuMemAlloc, 'v' cuMemCreate; an import of the other kind fails. */
CUresult backing_create(char kind, CUdevice device, size_t size, struct backing **out);
/* Takes the fd, also when it fails. */
CUresult backing_import(char kind, int fd, struct backing **out);
CUresult backing_import_named(const char *maker, char kind, int fd, struct backing **out);
void backing_unref(struct backing *backing);

/* range.c */
void arena_open(size_t size);
CUdeviceptr arena_take(size_t size, size_t alignment);
bool in_arena(CUdeviceptr address);
struct range *range_add(enum range_kind kind, CUdeviceptr start, size_t size);
struct range *range_at(CUdeviceptr address);
struct range *host_range_at(const void *host, size_t size);
/* Takes the range out of the table, waits until no stream is inside it, lets go of its memory. The
 * word is for the report in case that work is queued for it. */
CUresult range_retire(struct range *range, const char *word);
void range_unref(struct range *range);

/* vmm.c */
/* False where nothing is reserved. */
bool reservation_at(CUdeviceptr address, CUdeviceptr *start, size_t *size);
void allocation_unref(struct allocation *allocation);

/* stream.c. For calls that a capture in the global mode forbids other threads, as measured of a
 * driver (580): true: this one is refused, and the capture invalid. */
bool spoils_capture(void);

/* One side of an operation: memory that a stream will touch. */
struct use {
    struct range *range; /* NULL: pageable memory or nothing */
    CUcontext context;   /* whose right to it is meant */
    unsigned char *cpu;
    bool write;
};

enum operation_kind { COPY, FILL, WAIT_VALUE, WRITE_VALUE, RECORD, CALL, FREE };

struct operation {
    enum operation_kind kind;
    unsigned long long serial;
    struct use to, from;
    size_t width, rows, to_pitch, from_pitch;
    unsigned value, flags, element;
    unsigned char *staging; /* what a pageable source held when the call was made */
    CUevent event;
    fake_host_function function;
    void *data;
    struct dependency {
        CUstream stream;
        unsigned long long serial;
    } * waits;
    unsigned num_waits;
    struct operation *next;
};

/* access.c. May this context's streams touch these bytes? Fills the use. */
CUresult use_device(CUcontext context, CUdeviceptr address, size_t size, bool write,
                    struct use *use);
/* The same for memory of the host; one that is not pinned has no range. */
CUresult use_host(CUcontext context, const void *host, size_t size, bool write, struct use *use);
bool use_valid(const struct use *use);

/* stream.c */
CUresult stream_new(CUcontext context, unsigned flags, CUstream *out);
/* NULL is the current context's own. */
CUresult stream_find(CUstream handle, CUstream *stream);
struct operation *operation_new(enum operation_kind kind);
void operation_wait_for(struct operation *operation, CUstream stream, unsigned long long serial);
/* Consumes the operation. */
CUresult submit(CUstream stream, struct operation *operation);
CUresult wait_for(CUstream stream, unsigned long long serial);
/* Ends the context's streams, whatever they wait for. */
void streams_stop(CUcontext context);

/* work.c. The thread of a stream. */
void *stream_work(void *stream);
void operation_free(struct operation *operation);
bool in_host_function(void);

#endif
