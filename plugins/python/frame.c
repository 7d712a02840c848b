/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames, what holds them, and their bytes as arrays: DLPack and buffers. */
#include "python.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === hold ==================================================================================== */

#define SLICE (50 * GPUD_MSEC)

static void *raise_submitted(void)
{
    return error_raise_text(GPUD_INVALID,
                            "the frame was submitted: its bytes are the receivers' now");
}

/* Begins a change of the info, for which it takes `calls` as well. 0, or -1 with an exception if
 * the frame was submitted, and `calls` is not taken. */
static int hold_begin_change(struct hold *hold)
{
    /* A holder of `calls` may wait for the GIL, but never the other way round. */
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (hold->frame)
        return 0;
    pthread_mutex_unlock(&hold->calls);
    raise_submitted();
    return -1;
}

/* Copies the bytes into the info. 0, or -1 with an exception. */
static int hold_set_large_meta(struct hold *hold, const void *bytes, size_t size)
{
    void *copy = size ? malloc(size) : NULL;
    if (size && !copy) {
        PyErr_NoMemory();
        return -1;
    }
    if (size)
        memcpy(copy, bytes, size);
    if (hold_begin_change(hold) < 0) {
        free(copy);
        return -1;
    }
    free(hold->large_meta);
    hold->info.large_meta = hold->large_meta = copy;
    hold->info.large_meta_size = size;
    pthread_mutex_unlock(&hold->calls);
    return 0;
}

static struct hold *hold_ref(struct hold *hold)
{
    atomic_fetch_add_explicit(&hold->refs, 1, memory_order_relaxed);
    return hold;
}

/* A reference of an array's. It is taken before the check that the bytes are there, so that a
 * submission by another thread keeps their memory. */
static struct hold *hold_ref_array(struct hold *hold)
{
    atomic_fetch_add(&hold->arrays, 1);
    return hold_ref(hold);
}

static void hold_unref_array(struct hold *hold)
{
    atomic_fetch_sub(&hold->arrays, 1);
    hold_unref(hold);
}

/* Orders what happens to the frame next after the work that consumers have put on their streams. A
 * stream that its consumer has destroyed is done. */
static void post_streams(struct hold *hold)
{
    struct gpud_frame *second = NULL;
    /* A received frame takes the posts of several streams only as those of several holders. */
    if (hold->stream_count > 1 && !hold->lent)
        second = gpud_frame_ref(hold->frame);
    /* Where the driver refuses to wait for a stream: the default stream waits for most others. */
    for (unsigned i = 0; i < hold->stream_count; i++)
        if (gpud_frame_post(hold->frame, hold->streams[i], NULL) != GPUD_OK)
            gpud_frame_post(hold->frame, NULL, NULL);
    hold->stream_count = 0;
    gpud_frame_release(&second);
}

static void hold_unmap(struct hold *hold)
{
    if (hold->mapped)
        gpud_frame_unmap(hold->frame);
    hold->mapped = NULL;
}

void hold_unref(struct hold *hold)
{
    if (!hold || atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* The slot is the parent's. */
    if (!context_is_foreign(hold->pid)) {
        if (hold->frame) {
            hold_unmap(hold);
            post_streams(hold);
            gpud_frame_release(&hold->frame);
        }
        gpud_frame_release(&hold->keeper);
    }
    pthread_mutex_destroy(&hold->calls);
    media_unref(hold->media);
    free(hold->large_meta);
    free(hold);
}

struct hold *hold_new(struct gpud_frame *frame, struct media *media, bool lent)
{
    static const char *const kinds[] = {[HOLD_CUDA] = "cuda:",
                                        [HOLD_HIP] = "hip:",
                                        [HOLD_OPENCL] = "opencl:",
                                        [HOLD_VULKAN] = "vulkan:"};
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    struct hold *hold = calloc(1, sizeof(*hold));
    if (!hold) {
        gpud_frame_release(&frame);
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&hold->refs, 1);
    hold->media = media_ref(media);
    hold->lent = lent;
    hold->pid = (long)getpid();
    hold->frame = frame;
    hold->info.size = sizeof(hold->info);
    gpud_frame_get_info(frame, &hold->info);
    hold->read_only = hold->info.flags & GPUD_FRAME_READ_ONLY;
    pthread_mutex_init(&hold->calls, NULL);
    gpud_device_get_info(hold->info.device, &info);
    memcpy(hold->device, info.name, sizeof(hold->device));
    for (enum hold_device kind = HOLD_CUDA; kind <= HOLD_VULKAN; kind++)
        if (strncmp(info.name, kinds[kind], strlen(kinds[kind])) == 0) {
            hold->kind = kind;
            hold->number = atoi(info.name + strlen(kinds[kind]));
        }
    hold->native = hold->info.native;
    hold->offset = hold->info.memory_offset;
    if (!hold_is_object(hold)) {
        hold->native += hold->offset;
        hold->offset = 0;
    }
    if (hold_set_large_meta(hold, hold->info.large_meta, hold->info.large_meta_size) == 0)
        return hold;
    hold_unref(hold);
    return NULL;
}

/* --- validity ------------------------------------------------------------------------------ */

struct look {
    bool gone;       /* the frame is submitted */
    bool by_lines;   /* a part of its rows is */
    bool taken_back; /* the bytes are no longer those of the frame */
};

static struct look hold_look(struct hold *hold)
{
    struct gpud_frame_info now;
    struct look look;
    now.size = sizeof(now);
    now.flags = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    look.gone = !hold->frame;
    look.by_lines = hold->by_lines;
    if (hold->frame)
        gpud_frame_get_info(hold->frame, &now);
    /* What arrived with the flag is as its sender sent it. */
    look.taken_back = (now.flags & ~hold->info.flags) & GPUD_FRAME_CORRUPTED;
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    return look;
}

int hold_check(struct hold *hold)
{
    if (context_is_foreign(hold->pid)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the frame belongs to the process that this one was forked from");
        return -1;
    }
    struct look look = hold_look(hold);
    if (look.gone)
        raise_submitted();
    else if (look.taken_back)
        error_raise_taken_back();
    return look.gone || look.taken_back ? -1 : 0;
}

/* --- the bytes ----------------------------------------------------------------------------- */

/* Once, with `calls`: see wait_for(). */
static enum gpud_status wait_once(struct hold *hold, uint32_t lines, int64_t timeout_ns,
                                  struct gpud_error *error)
{
    unsigned access = hold->lent ? GPUD_WRITE : GPUD_READ;
    enum gpud_status status = GPUD_OK;
    void *data;
    if (lines) {
        status = gpud_frame_wait_lines(hold->frame, lines, timeout_ns, error);
        hold->by_lines |= status == GPUD_OK;
    } else if (!hold->mapped && (!hold->by_lines || hold->lent)) {
        if (!hold->lent && !hold->read_only)
            access |= GPUD_WRITE;
        status = gpud_frame_map(hold->frame, access, SLICE, &data, error);
        if (status == GPUD_OK)
            hold->mapped = data;
    }
    return status;
}

/* Waits, without the GIL, for the first rows, after which nothing waits for the others; or with 0
 * until the CPU may use all bytes. 0, or -1 with an exception. */
static int wait_for(struct hold *hold, uint32_t lines, int64_t timeout_ns)
{
    for (;;) {
        struct gpud_error error;
        enum gpud_status status = GPUD_OK;
        bool gone;
        int64_t slice = timeout_ns < SLICE ? timeout_ns : SLICE;
        if (hold_check(hold) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&hold->calls);
        gone = !hold->frame;
        if (!gone)
            status = wait_once(hold, lines, slice, &error);
        pthread_mutex_unlock(&hold->calls);
        Py_END_ALLOW_THREADS
        timeout_ns -= slice;
        if (status == GPUD_OK && !gone)
            return 0;
        if (gone)
            raise_submitted();
        else if (status == GPUD_PEER)
            error_raise_taken_back();
        else if (status != GPUD_TIMEOUT || timeout_ns == 0)
            error_raise(&error);
        else if (PyErr_CheckSignals() == 0)
            continue;
        return -1;
    }
}

/* Waits until the CPU may use the bytes, without the GIL. 0, or -1 with an exception. */
static int hold_map(struct hold *hold)
{
    return wait_for(hold, 0, INT64_MAX);
}

/* Where they are then: of a frame on a GPU, in the library's copy of it. NULL: it cannot be mapped,
 * as its rows are waited for a part at a time. */
static char *hold_mapped(struct hold *hold)
{
    return hold->mapped || hold->kind != HOLD_HOST ? hold->mapped : hold->native;
}

/* Puts a wait for the frame on a stream, and lets the frame's release wait for another, which is
 * often the same. 0, or -1 with an exception. */
static int hold_join(struct hold *hold, bool wait, void *stream, void *release_stream)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    bool gone, room = true;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    gone = !hold->frame;
    if (!gone) {
        unsigned at = 0;
        while (at < hold->stream_count && hold->streams[at] != release_stream)
            at++;
        room = at < HOLD_STREAMS_MAX;
        if (room && at == hold->stream_count)
            hold->streams[hold->stream_count++] = release_stream;
        if (room && wait && !hold->by_lines)
            status = gpud_frame_wait(hold->frame, stream, &error);
    }
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (gone)
        raise_submitted();
    else if (!room)
        PyErr_SetString(PyExc_BufferError,
                        "16 streams use the frame already: use fewer, or copy the frame");
    else if (status != GPUD_OK)
        error_raise(&error);
    return gone || !room || status != GPUD_OK ? -1 : 0;
}

/* --- submission ---------------------------------------------------------------------------- */

struct gpud_frame *hold_take(struct hold *hold)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    struct gpud_frame *frame;
    bool shared, in_use;
    if (hold_check(hold) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    frame = hold->frame;
    shared = atomic_load(&hold->arrays) > 0;
    in_use = frame && shared && !hold->lent;
    if (frame && !in_use) {
        hold_unmap(hold);
        if (hold->lent)
            status = gpud_frame_set_info(frame, &hold->info, &error);
        /* Arrays that are still there keep the memory, but not the slot. */
        if (status == GPUD_OK && shared)
            status = gpud_frame_wrap(hold->info.memory, hold->info.memory_offset,
                                     &hold->info.layout, &hold->keeper, &error);
        if (status == GPUD_OK) {
            post_streams(hold);
            hold->frame = NULL;
        }
    }
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (!frame)
        return raise_submitted();
    if (in_use)
        return error_raise_text(GPUD_INVALID, "arrays of the frame are still in use: drop them "
                                              "before it is sent on, or copy them");
    return status == GPUD_OK ? frame : error_raise(&error);
}

void hold_put_back(struct hold *hold, struct gpud_frame *frame)
{
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    gpud_frame_release(&hold->keeper);
    hold->frame = frame;
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
}

enum gpud_status hold_submit_lines(struct hold *hold, struct gpud_sender *sender, uint32_t lines,
                                   int64_t timeout_ns, struct gpud_error *error)
{
    enum gpud_status status = GPUD_CLOSED;
    pthread_mutex_lock(&hold->calls);
    if (hold->frame && !hold->by_lines)
        status = gpud_frame_set_info(hold->frame, &hold->info, error);
    else if (hold->frame)
        status = GPUD_OK;
    if (status == GPUD_OK) {
        post_streams(hold);
        status = gpud_sender_submit_lines(sender, hold->frame, lines, timeout_ns, error);
    } else if (!hold->frame) {
        *error = (struct gpud_error){.status = status, .reason = "another thread has submitted it"};
    }
    if (status == GPUD_OK)
        hold->by_lines = true;
    pthread_mutex_unlock(&hold->calls);
    return status;
}

/* === dlpack ================================================================================== */
/* DLPack: the structs of its ABI (0.8 and 1.0, github.com/dmlc/dlpack), and capsules of them. */

/* --- the ABI ------------------------------------------------------------------------------- */

enum {
    DL_CPU = 1,
    DL_CUDA = 2,
    DL_OPENCL = 4,
    DL_VULKAN = 7,
    DL_ROCM = 10,
};

#define DL_FLAG_READ_ONLY UINT64_C(1)
#define DL_FLAG_COPIED UINT64_C(2)
#define DL_ALIGNMENT 256 /* of the data that a producer allocates */

struct dl_device {
    int32_t type;
    int32_t number;
};

struct dl_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t dimensions;
    struct dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *self);
};

struct dl_managed_versioned {
    uint32_t major;
    uint32_t minor;
    void *manager;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

/* --- tensors ------------------------------------------------------------------------------- */

/* What a capsule of either kind points to. */
struct export
{
    union {
        struct dl_managed old;
        struct dl_managed_versioned versioned;
    };
    struct hold *hold; /* NULL: the tensor is a copy */
    char *copy;
    int64_t shape[ARRAY_DIMENSIONS_MAX];
    int64_t strides[ARRAY_DIMENSIONS_MAX];
};

/* Consumers call these on any thread, with or without the GIL. */
static void free_export(struct export *export)
{
    if (export->hold)
        hold_unref_array(export->hold);
    free(export->copy);
    free(export);
}

static void delete_old(struct dl_managed *self)
{
    free_export(self->manager);
}

static void delete_versioned(struct dl_managed_versioned *self)
{
    free_export(self->manager);
}

#define OLD "dltensor"
#define VERSIONED "dltensor_versioned"

/* A capsule that was consumed has another name, and its tensor is the consumer's. */
static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, OLD))
        free_export(PyCapsule_GetPointer(capsule, OLD));
    if (PyCapsule_IsValid(capsule, VERSIONED))
        free_export(PyCapsule_GetPointer(capsule, VERSIONED));
}

static const int32_t device_types[] = {[HOLD_HOST] = DL_CPU,
                                       [HOLD_CUDA] = DL_CUDA,
                                       [HOLD_HIP] = DL_ROCM,
                                       [HOLD_OPENCL] = DL_OPENCL,
                                       [HOLD_VULKAN] = DL_VULKAN};

/* Copies an array's outer dimensions, from one on, in runs of bytes. Returns where the copy ends.
 */
static char *copy_runs(char *to, const char *from, const struct array *array, int dimension,
                       int outer, size_t run)
{
    if (dimension == outer) {
        memcpy(to, from, run);
        return to + run;
    }
    for (int64_t i = 0; i < array->shape[dimension]; i++)
        to = copy_runs(to, from + i * array->strides[dimension], array, dimension + 1, outer, run);
    return to;
}

/* The elements of an array of the host, without gaps. NULL with an exception. */
static char *copy_array(const struct hold *hold, const struct array *array)
{
    size_t run = array->bytes;
    int outer = array->dimensions;
    while (outer > 0 && array->strides[outer - 1] == (int64_t)run)
        run *= (size_t)array->shape[--outer];
    size_t size = run;
    for (int i = 0; i < outer; i++)
        size *= (size_t)array->shape[i];
    char *copy = aligned_alloc(DL_ALIGNMENT, (size / DL_ALIGNMENT + 1) * DL_ALIGNMENT);
    if (!copy) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    copy_runs(copy, hold->native + array->offset, array, 0, outer, run);
    Py_END_ALLOW_THREADS
    return copy;
}

static void fill_tensor(struct export *export, struct dl_tensor *tensor, const struct hold *hold,
                        const struct array *array)
{
    int64_t packed = 1;
    for (int i = array->dimensions - 1; i >= 0; i--) {
        export->shape[i] = array->shape[i];
        export->strides[i] = export->copy ? packed : array->strides[i] / (int64_t)array->bytes;
        packed *= array->shape[i];
    }
    tensor->data = export->copy ? export->copy : hold->native + array->offset;
    tensor->device = (struct dl_device){device_types[hold->kind], hold->number};
    tensor->dimensions = array->dimensions;
    tensor->type = (struct dl_type){(uint8_t)array->kind, (uint8_t)(8 * array->bytes), 1};
    tensor->shape = export->shape;
    tensor->strides = export->strides;
}

static PyObject *make_capsule(struct hold *hold, const struct array *array, bool versioned,
                              bool copied)
{
    struct export *export = calloc(1, sizeof(*export));
    if (!export)
        return PyErr_NoMemory();
    if (copied) {
        export->copy = copy_array(hold, array);
        if (!export->copy) {
            free(export);
            return NULL;
        }
    } else {
        export->hold = hold_ref_array(hold);
    }
    if (versioned) {
        export->versioned.major = 1;
        export->versioned.manager = export;
        export->versioned.deleter = delete_versioned;
        export->versioned.flags = copied ? DL_FLAG_COPIED : hold->read_only ? DL_FLAG_READ_ONLY : 0;
        fill_tensor(export, &export->versioned.tensor, hold, array);
    } else {
        export->old.manager = export;
        export->old.deleter = delete_old;
        fill_tensor(export, &export->old.tensor, hold, array);
    }
    PyObject *capsule = PyCapsule_New(export, versioned ? VERSIONED : OLD, destroy_capsule);
    if (!capsule)
        free_export(export);
    return capsule;
}

/* --- __dlpack__ ---------------------------------------------------------------------------- */

/* (device type, number), as __dlpack_device__() returns it. */
static PyObject *dlpack_device(const struct hold *hold)
{
    return Py_BuildValue("(ii)", (int)device_types[hold->kind], hold->number);
}

static int join_cuda(struct hold *hold, long long stream)
{
    void *legacy = NULL, *handle = (void *)(uintptr_t)stream;
    switch (stream) {
    case -1: /* the consumer orders its work itself, which may be on any stream */
        return hold_join(hold, false, NULL, legacy);
    case 0:
        PyErr_SetString(PyExc_BufferError, "stream 0 is ambiguous on CUDA: 1 is the legacy default "
                                           "stream, 2 the one of the thread");
        return -1;
    case 1:
        return hold_join(hold, true, legacy, legacy);
    case 2: /* another one in the thread that drops the tensor; the legacy stream waits for all */
        return hold_join(hold, true, handle, legacy);
    default:
        return hold_join(hold, true, handle, handle);
    }
}

static int join_hip(struct hold *hold, long long stream)
{
    if (stream == 1 || stream == 2) {
        PyErr_SetString(PyExc_BufferError, "streams 1 and 2 do not exist on ROCm: 0 is the default "
                                           "stream");
        return -1;
    }
    void *handle = stream > 2 ? (void *)(uintptr_t)stream : NULL;
    return hold_join(hold, stream != -1, handle, handle);
}

/* Lets the consumer's stream, or the CPU, wait for the frame. */
static int dlpack_join(struct hold *hold, PyObject *object)
{
    long long stream = hold->kind == HOLD_CUDA ? 1 : 0;
    if (object != Py_None) {
        stream = PyLong_AsLongLong(object);
        if (stream == -1 && PyErr_Occurred())
            return -1;
        if (stream < -1) {
            PyErr_Format(PyExc_ValueError, "there is no stream %lld", stream);
            return -1;
        }
    }
    switch (hold->kind) {
    case HOLD_CUDA:
        return join_cuda(hold, stream);
    case HOLD_HIP:
        return join_hip(hold, stream);
    default:
        if (object != Py_None && stream != -1) {
            PyErr_Format(PyExc_ValueError,
                         "there is no stream %lld: frames on the host have none, stream is None",
                         stream);
            return -1;
        }
        return hold_map(hold);
    }
}

static int check_device(const struct hold *hold, PyObject *device)
{
    int type, number;
    if (device == Py_None)
        return 0;
    if (!PyTuple_Check(device)) {
        PyErr_SetString(PyExc_TypeError, "dl_device is a tuple of a device type and a number");
        return -1;
    }
    if (!PyArg_ParseTuple(device, "ii;dl_device is a device type and a number", &type, &number))
        return -1;
    if (type == device_types[hold->kind] && number == hold->number)
        return 0;
    PyErr_Format(PyExc_BufferError,
                 "the frame is on %s and is not copied to another device: ask for it there by "
                 "Receiver(device=)",
                 hold->device);
    return -1;
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) of an array in a frame.
 */
static PyObject *dlpack_export(struct hold *hold, const struct array *array, PyObject *args,
                               PyObject *names)
{
    static char *keywords[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|$OOOO:__dlpack__", keywords, &stream, &version,
                                     &device, &copy))
        return NULL;
    if (version != Py_None && !PyTuple_Check(version)) {
        PyErr_SetString(PyExc_TypeError, "max_version is a tuple of two numbers");
        return NULL;
    }
    if ((version != Py_None &&
         !PyArg_ParseTuple(version, "ii;max_version is a tuple of two numbers", &major, &minor)) ||
        check_device(hold, device) < 0)
        return NULL;
    if (hold_is_object(hold)) {
        PyErr_Format(PyExc_BufferError,
                     "frames on %s are exchanged by their native object: use frame.native, and "
                     "frame.join() where the device has queues",
                     hold->device);
        return NULL;
    }
    if (array->big_endian) {
        PyErr_SetString(
            PyExc_BufferError,
            "the numbers are big-endian, which DLPack cannot say: use numpy.asarray, or "
            "convert them ahead of the sender, as by videoconvert or audioconvert");
        return NULL;
    }
    int copied = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (copied < 0)
        return NULL;
    if (copied && hold->kind != HOLD_HOST) {
        PyErr_SetString(PyExc_BufferError, "a frame on a GPU is not copied here: copy the tensor");
        return NULL;
    }
    if (hold->read_only && !hold->allow_old_dlpack && major < 1 && !copied) {
        PyErr_SetString(PyExc_BufferError,
                        "the frame is shared with others and DLPack before 1.0 cannot say that it "
                        "may not be written: use a consumer that asks for version 1, the buffer "
                        "protocol (numpy.asarray), or Receiver(allow_old_dlpack=True)");
        return NULL;
    }
    hold_ref_array(hold); /* from before the check to the capsule's own */
    PyObject *capsule = NULL;
    if (hold_check(hold) == 0 && dlpack_join(hold, stream) == 0)
        capsule = make_capsule(hold, array, major >= 1, copied);
    hold_unref_array(hold);
    return capsule;
}

/* === view ==================================================================================== */
/* gpudirect.Plane: an array in a frame, by DLPack and by the buffer protocol. */

struct view {
    PyObject_HEAD struct hold *hold;
    struct array array;
    Py_ssize_t shape[ARRAY_DIMENSIONS_MAX]; /* where buffers point to */
    Py_ssize_t strides[ARRAY_DIMENSIONS_MAX];
};

static PyObject *view_new(struct hold *hold, const struct array *array)
{
    struct view *view = PyObject_New(struct view, types[TYPE_PLANE]);
    if (!view)
        return NULL;
    view->hold = hold_ref_array(hold);
    view->array = *array;
    for (int i = 0; i < array->dimensions; i++) {
        view->shape[i] = (Py_ssize_t)array->shape[i];
        view->strides[i] = (Py_ssize_t)array->strides[i];
    }
    return (PyObject *)view;
}

static void view_free(PyObject *self)
{
    PyTypeObject *own = Py_TYPE(self);
    hold_unref_array(((struct view *)self)->hold);
    PyObject_Free(self);
    Py_DECREF(own);
}

/* --- the buffer protocol ------------------------------------------------------------------- */

/* The format of module struct, which NULL says that there is not, or the name of numpy's type. */
static const char *view_describe(const struct array *array, bool for_struct)
{
    static const struct {
        enum gpud_tensor_code kind;
        unsigned bytes;
        const char *format, *name;
    } all[] = {
        {GPUD_TENSOR_INT, 1, "b", "int8"},
        {GPUD_TENSOR_INT, 2, "h", "int16"},
        {GPUD_TENSOR_INT, 4, "i", "int32"},
        {GPUD_TENSOR_INT, 8, "q", "int64"},
        {GPUD_TENSOR_UINT, 1, "B", "uint8"},
        {GPUD_TENSOR_UINT, 2, "H", "uint16"},
        {GPUD_TENSOR_UINT, 4, "I", "uint32"},
        {GPUD_TENSOR_UINT, 8, "Q", "uint64"},
        {GPUD_TENSOR_FLOAT, 2, "e", "float16"},
        {GPUD_TENSOR_FLOAT, 4, "f", "float32"},
        {GPUD_TENSOR_FLOAT, 8, "d", "float64"},
        {GPUD_TENSOR_BFLOAT, 2, NULL, "bfloat16"},
        {GPUD_TENSOR_COMPLEX, 8, "Zf", "complex64"},
        {GPUD_TENSOR_COMPLEX, 16, "Zd", "complex128"},
        {GPUD_TENSOR_BOOL, 1, "?", "bool"},
        {GPUD_TENSOR_FLOAT8_E3M4, 1, NULL, "float8_e3m4"},
        {GPUD_TENSOR_FLOAT8_E4M3, 1, NULL, "float8_e4m3"},
        {GPUD_TENSOR_FLOAT8_E4M3B11FNUZ, 1, NULL, "float8_e4m3b11fnuz"},
        {GPUD_TENSOR_FLOAT8_E4M3FN, 1, NULL, "float8_e4m3fn"},
        {GPUD_TENSOR_FLOAT8_E4M3FNUZ, 1, NULL, "float8_e4m3fnuz"},
        {GPUD_TENSOR_FLOAT8_E5M2, 1, NULL, "float8_e5m2"},
        {GPUD_TENSOR_FLOAT8_E5M2FNUZ, 1, NULL, "float8_e5m2fnuz"},
        {GPUD_TENSOR_FLOAT8_E8M0FNU, 1, NULL, "float8_e8m0fnu"},
    };
    static const char *const big_names[3][3][2] = {
        [GPUD_TENSOR_INT] = {{">h", ">i2"}, {">i", ">i4"}, {">q", ">i8"}},
        [GPUD_TENSOR_UINT] = {{">H", ">u2"}, {">I", ">u4"}, {">Q", ">u8"}},
        [GPUD_TENSOR_FLOAT] = {{">e", ">f2"}, {">f", ">f4"}, {">d", ">f8"}},
    };
    if (array->big_endian)
        return big_names[array->kind][array->bytes == 2   ? 0
                                      : array->bytes == 4 ? 1
                                                          : 2][for_struct ? 0 : 1];
    unsigned i = 0;
    while (all[i].kind != array->kind || all[i].bytes != array->bytes)
        i++;
    return for_struct ? all[i].format : all[i].name;
}

/* Whether the elements lie one behind the other. */
static bool array_is_contiguous(const struct array *array)
{
    int64_t stride = array->bytes;
    for (int i = array->dimensions - 1; i >= 0; i--) {
        if (array->shape[i] != 1 && array->strides[i] != stride)
            return false;
        stride *= array->shape[i];
    }
    return true;
}

static int refuse_buffer(Py_buffer *buffer, const char *text)
{
    buffer->obj = NULL;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_BufferError, text);
    return -1;
}

static int view_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct view *view = (struct view *)self;
    struct hold *hold = view->hold;
    buffer->obj = NULL;
    if (hold->kind != HOLD_HOST) {
        PyErr_Format(PyExc_BufferError,
                     "the frame is on %s: use DLPack (torch.from_dlpack), or "
                     "receive it on the host by Receiver(device=\"host\")",
                     hold->device);
        return -1;
    }
    if (!view_describe(&view->array, true))
        return refuse_buffer(buffer, "numbers of this type are of no buffer: use DLPack "
                                     "(torch.from_dlpack), or frame.raw");
    if ((flags & PyBUF_WRITABLE) && hold->read_only)
        return refuse_buffer(buffer, "the frame is shared with others: copy it to change it");
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !array_is_contiguous(&view->array))
        return refuse_buffer(buffer, "the rows of the frame have gaps: ask for strides");
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !array_is_contiguous(&view->array))
        return refuse_buffer(buffer, "the rows of the frame have gaps: it is not C-contiguous");
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS)
        return refuse_buffer(buffer, "frames have rows: they are not in Fortran's order");
    if (hold_map(hold) < 0)
        return -1;
    buffer->buf = hold->native + view->array.offset;
    buffer->obj = Py_NewRef(self);
    buffer->len = (Py_ssize_t)view->array.length;
    buffer->readonly = hold->read_only;
    buffer->itemsize = view->array.bytes;
    buffer->format = flags & PyBUF_FORMAT ? (char *)view_describe(&view->array, true) : NULL;
    buffer->ndim = flags & PyBUF_ND ? view->array.dimensions : 1;
    buffer->shape = flags & PyBUF_ND ? view->shape : NULL;
    buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? view->strides : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = NULL;
    return 0;
}

/* --- attributes ---------------------------------------------------------------------------- */

static PyObject *to_tuple(const Py_ssize_t *numbers, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromSsize_t(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    return to_tuple(view->shape, view->array.dimensions);
}

static PyObject *get_strides(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    return to_tuple(view->strides, view->array.dimensions);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    return PyUnicode_FromString(view_describe(&((struct view *)self)->array, false));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(((struct view *)self)->array.length);
}

static PyObject *view_get_readonly(PyObject *self, void *closure)
{
    return PyBool_FromLong(((struct view *)self)->hold->read_only);
}

static PyObject *get_offset(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(((struct view *)self)->array.offset);
}

static PyObject *view_represent(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL);
    PyObject *text = shape
                         ? PyUnicode_FromFormat("<Plane %S %s, %s>", shape,
                                                view_describe(&((struct view *)self)->array, false),
                                                ((struct view *)self)->hold->device)
                         : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyObject *view_get_native(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    if (hold_check(view->hold) < 0)
        return NULL;
    bool offset_apart = hold_is_object(view->hold);
    return PyLong_FromVoidPtr(view->hold->native + (offset_apart ? 0 : view->array.offset));
}

static PyObject *view_export_dlpack(PyObject *self, PyObject *args, PyObject *names)
{
    struct view *view = (struct view *)self;
    return dlpack_export(view->hold, &view->array, args, names);
}

static PyObject *view_export_device(PyObject *self, PyObject *unused)
{
    return dlpack_device(((struct view *)self)->hold);
}

static PyMethodDef view_methods[] = {
    {"__array__", (PyCFunction)(void (*)(void))convert_to_numpy, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, /, *args, **names)\n--\n\n"
     "Lets numpy say why the bytes cannot be an array."},
    {"__dlpack__", (PyCFunction)(void (*)(void))view_export_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule for a consumer's from_dlpack(). The consumer's stream waits for the bytes."},
    {"__dlpack_device__", view_export_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's type of the device, and its number."},
    {0},
};

static PyGetSetDef view_attributes[] = {
    {"shape", get_shape, NULL, "Lengths of the dimensions, as in (1080, 1920, 4).", NULL},
    {"strides", get_strides, NULL, "Bytes from one entry of each dimension to the next.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements by numpy's name, as in 'uint8' or '>u2'.",
     NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"offset", get_offset, NULL, "Bytes from the first one of the frame to the first element.",
     NULL},
    {"readonly", view_get_readonly, NULL, "Whether others share the bytes.", NULL},
    {"native", view_get_native, NULL,
     "The address of the first element, on the frame's device; on OpenCL, the cl_mem.", NULL},
    {0},
};

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, view_free},
    {Py_tp_repr, view_represent},
    {Py_tp_methods, view_methods},
    {Py_tp_getset, view_attributes},
    {Py_bf_getbuffer, view_get_buffer},
    {Py_tp_doc, "An array in a frame, without a copy: by DLPack, and on the host by the buffer\n"
                "protocol (numpy.asarray, memoryview). While it lives, the frame is held."},
    {0},
};

PyType_Spec view_spec = {
    .name = "gpudirect.Plane",
    .basicsize = sizeof(struct view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = view_slots,
};

/* === frame =================================================================================== */

struct frame {
    PyObject_HEAD struct hold *hold; /* NULL: released */
    PyObject *lender;
};

PyObject *frame_new(struct hold *hold, PyObject *lender)
{
    struct frame *frame = PyObject_New(struct frame, types[TYPE_FRAME]);
    if (!frame) {
        hold_unref(hold);
        return NULL;
    }
    frame->hold = hold;
    frame->lender = Py_XNewRef(lender);
    return (PyObject *)frame;
}

/* A reference for a variable that is HELD; NULL with an exception. */
static struct hold *frame_get_hold(PyObject *object)
{
    struct hold *hold = ((struct frame *)object)->hold;
    return hold ? hold_ref(hold) : error_raise_text(GPUD_INVALID, "the frame was released");
}

struct hold *frame_find_hold(PyObject *object)
{
    if (Py_TYPE(object) == types[TYPE_FRAME])
        return frame_get_hold(object);
    PyErr_SetString(PyExc_TypeError, "this takes a gpudirect.Frame: write into one of acquire()");
    return NULL;
}

static void frame_free(PyObject *self)
{
    struct frame *frame = (struct frame *)self;
    PyTypeObject *own = Py_TYPE(self);
    hold_unref(frame->hold);
    Py_XDECREF(frame->lender);
    PyObject_Free(self);
    Py_DECREF(own);
}

/* The hold of a frame that may still be changed, which the caller drops. */
static struct hold *settable(PyObject *self, PyObject *value, const char *name)
{
    HELD hold = frame_get_hold(self);
    if (!hold || hold_check(hold) < 0)
        return NULL;
    if (hold->lent && value)
        return hold_ref(hold);
    PyErr_Format(PyExc_AttributeError, "%s can only be set on a frame of Sender.acquire()", name);
    return NULL;
}

/* --- arrays -------------------------------------------------------------------------------- */

/* The array of a tensor. False with an exception. */
static bool find_tensor(struct hold *hold, uint32_t at, struct array *array,
                        char name[ARRAY_NAME_MAX])
{
    struct gpud_error error;
    if (array_of_tensor(array, name, &hold->media->media.tensors, at, hold->info.bytes, &error))
        return true;
    PyErr_SetString(PyExc_BufferError, error.reason);
    return false;
}

/* False with an exception of that class. */
static bool find_array(struct hold *hold, struct array *array, PyObject *class)
{
    struct gpud_error error;
    if (array_of_frame(array, &hold->media->media, &hold->info.layout, hold->info.bytes, &error))
        return true;
    PyErr_SetString(class, error.reason);
    return false;
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct array array;
    HELD hold = frame_get_hold(self);
    buffer->obj = NULL;
    PyObject *view =
        hold && find_array(hold, &array, PyExc_BufferError) ? view_new(hold, &array) : NULL;
    if (!view)
        return -1;
    int result = PyObject_GetBuffer(view, buffer, flags);
    Py_DECREF(view);
    return result;
}

static PyObject *export_dlpack(PyObject *self, PyObject *args, PyObject *names)
{
    struct array array;
    HELD hold = frame_get_hold(self);
    return hold && find_array(hold, &array, PyExc_BufferError)
               ? dlpack_export(hold, &array, args, names)
               : NULL;
}

static PyObject *export_device(PyObject *self, PyObject *unused)
{
    HELD hold = frame_get_hold(self);
    return hold ? dlpack_device(hold) : NULL;
}

/* An attribute of that array, which closure names. */
static PyObject *get_of_array(PyObject *self, void *closure)
{
    struct array array;
    HELD hold = frame_get_hold(self);
    PyObject *view =
        hold && find_array(hold, &array, PyExc_AttributeError) ? view_new(hold, &array) : NULL;
    PyObject *value = view ? PyObject_GetAttrString(view, closure) : NULL;
    Py_XDECREF(view);
    return value;
}

/* Copies a buffer of the shape and type of the frame, or of a tensor of it, which the caller has
 * compared, into a lent frame: on any device, since the CPU may map it. */
static PyObject *frame_fill(PyObject *self, PyObject *args)
{
    struct array array;
    int64_t strides[ARRAY_DIMENSIONS_MAX];
    Py_buffer buffer;
    PyObject *object, *target = NULL;
    if (!PyArg_ParseTuple(args, "O|O!:_fill", &object, types[TYPE_PLANE], &target))
        return NULL;
    HELD hold = settable(self, object, "the content");
    if (target)
        array = ((struct view *)target)->array;
    if (!hold || (!target && !find_array(hold, &array, PyExc_BufferError)) ||
        PyObject_GetBuffer(object, &buffer, PyBUF_STRIDED_RO) < 0)
        return NULL;
    char *to = NULL;
    int64_t shape[ARRAY_DIMENSIONS_MAX];
    for (int i = 0; i < buffer.ndim && i < ARRAY_DIMENSIONS_MAX; i++) {
        shape[i] = buffer.shape[i];
        strides[i] = buffer.strides[i];
    }
    if ((size_t)buffer.itemsize != array.bytes || buffer.ndim != array.dimensions ||
        memcmp(shape, array.shape, (size_t)array.dimensions * sizeof(*shape)) != 0)
        PyErr_SetString(PyExc_BufferError, "the array has not the frame's shape");
    else if (hold_map(hold) == 0)
        to = hold_mapped(hold);
    if (to) {
        Py_BEGIN_ALLOW_THREADS
        array_copy(&array, to, buffer.buf, strides);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&buffer);
    return to ? Py_NewRef(Py_None) : NULL;
}

/* All bytes of a received frame, on any device; None if they cannot be had. */
static PyObject *frame_download(PyObject *self, PyObject *unused)
{
    HELD hold = frame_get_hold(self);
    if (!hold || hold->lent)
        return hold ? Py_NewRef(Py_None) : NULL;
    hold_ref_array(hold); /* so that no other thread sends it on */
    PyObject *bytes = NULL;
    if (hold_map(hold) == 0) {
        const char *from = hold_mapped(hold);
        bytes = from ? PyBytes_FromStringAndSize(from, (Py_ssize_t)hold->info.bytes)
                     : Py_NewRef(Py_None);
    }
    hold_unref_array(hold);
    return bytes;
}

static PyObject *get_raw(PyObject *self, void *closure)
{
    struct array array;
    HELD hold = frame_get_hold(self);
    if (!hold || hold_check(hold) < 0)
        return NULL;
    array_raw(&array, hold->info.bytes);
    return view_new(hold, &array);
}

static PyObject *get_planes(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    if (!hold || hold_check(hold) < 0)
        return NULL;
    bool is_picture = hold->media->media.kind == GPUD_MEDIA_PICTURE;
    PyObject *planes = PyDict_New();
    for (uint32_t i = 0; planes && is_picture && i < hold->info.layout.planes; i++) {
        struct array array;
        struct gpud_error error;
        char name[ARRAY_NAME_MAX];
        PyObject *view = NULL;
        if (array_of_plane(&array, name, &hold->info.layout, i, &error))
            view = view_new(hold, &array);
        else
            PyErr_SetString(PyExc_BufferError, error.reason);
        if (!view || PyDict_SetItemString(planes, name, view) < 0)
            Py_CLEAR(planes);
        Py_XDECREF(view);
    }
    return planes;
}

static PyObject *get_tensors(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    if (!hold || hold_check(hold) < 0)
        return NULL;
    const struct gpud_media *media = &hold->media->media;
    uint32_t count = media->kind == GPUD_MEDIA_TENSOR ? media->tensors.count : 0;
    PyObject *tensors = PyDict_New();
    for (uint32_t i = 0; tensors && i < count; i++) {
        struct array array;
        char name[ARRAY_NAME_MAX];
        PyObject *view = find_tensor(hold, i, &array, name) ? view_new(hold, &array) : NULL;
        if (!view || PyDict_SetItemString(tensors, name, view) < 0)
            Py_CLEAR(tensors);
        Py_XDECREF(view);
    }
    return tensors;
}

/* --- what is known of it ------------------------------------------------------------------- */

static PyObject *get_valid(PyObject *self, void *closure)
{
    struct hold *own = ((struct frame *)self)->hold;
    HELD hold = own ? hold_ref(own) : NULL;
    if (!hold)
        return Py_NewRef(Py_False);
    struct look look = hold_look(hold);
    return PyBool_FromLong(!look.gone && !look.taken_back &&
                           !(hold->info.flags & GPUD_FRAME_CORRUPTED));
}

static PyObject *get_media(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    return hold ? PyUnicode_FromString(hold->media->text) : NULL;
}

static PyObject *get_route(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    if (!hold)
        return NULL;
    return hold->route[0] ? PyUnicode_FromString(hold->route) : Py_NewRef(Py_None);
}

static PyObject *get_device(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    return hold ? PyUnicode_FromString(hold->device) : NULL;
}

static PyObject *get_readonly(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    return hold ? PyBool_FromLong(hold->read_only) : NULL;
}

static PyObject *get_format(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    if (!hold)
        return NULL;
    const struct gpud_media *media = &hold->media->media;
    if (media->kind == GPUD_MEDIA_PICTURE)
        return PyUnicode_FromString(media->picture.layout.format);
    if (media->kind == GPUD_MEDIA_TENSOR)
        return PyUnicode_FromString("tensors");
    return PyUnicode_FromString(media->kind == GPUD_MEDIA_AUDIO ? media->audio.format
                                                                : media->data.type);
}

static PyObject *get_native(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    return hold && hold_check(hold) == 0 ? PyLong_FromVoidPtr(hold->native) : NULL;
}

static PyObject *get_native_offset(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    return hold ? PyLong_FromUnsignedLongLong(hold->offset) : NULL;
}

/* Numbers of gpud_frame_info: their offset and width, whether the largest value means None, and
 * whether a sender may set them. */
struct number {
    const char *name;
    size_t offset;
    unsigned bytes;
    bool has_none, settable;
    uint64_t max;
};

#define NUMBER(name, field, has_none, settable)                               \
    {                                                                         \
        name, offsetof(struct gpud_frame_info, field),                        \
            sizeof(((struct gpud_frame_info *)0)->field), has_none, settable, \
            has_none ? UINT64_MAX - 1 : UINT32_MAX                            \
    }

static struct number numbers[] = {
    NUMBER("pts", pts_ns, true, true),
    NUMBER("dts", dts_ns, true, true),
    NUMBER("duration", duration_ns, true, true),
    NUMBER("offset", offset, true, true),
    NUMBER("flags", flags, false, true),
    NUMBER("number", sequence, false, false),
    NUMBER("dropped", dropped, false, false),
    NUMBER("submitted", submitted_ns, false, false),
    NUMBER("epoch", epoch, false, false),
    NUMBER("width", layout.width, false, false),
    NUMBER("height", layout.height, false, false),
    NUMBER("slot", slot, true, false),
};

static PyObject *get_number(PyObject *self, void *closure)
{
    const struct number *number = closure;
    HELD hold = frame_get_hold(self);
    if (!hold)
        return NULL;
    const char *field = (const char *)&hold->info + number->offset;
    uint64_t value = number->bytes == 8 ? *(const uint64_t *)(const void *)field
                                        : *(const uint32_t *)(const void *)field;
    if (number->has_none && value == UINT64_MAX)
        return Py_NewRef(Py_None);
    return PyLong_FromUnsignedLongLong(value);
}

static int set_number(PyObject *self, PyObject *value, void *closure)
{
    const struct number *number = closure;
    HELD hold = settable(self, value, number->name);
    uint64_t read = UINT64_MAX;
    if (!hold)
        return -1;
    if (!number->has_none || value != Py_None) {
        if (!PyLong_Check(value)) {
            PyErr_Format(PyExc_TypeError, "%s is a whole number%s", number->name,
                         number->has_none ? ", or None" : "");
            return -1;
        }
        read = PyLong_AsUnsignedLongLong(value);
        if ((read == UINT64_MAX && PyErr_Occurred()) || read > number->max) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "%s is 0 to %llu", number->name,
                         (unsigned long long)number->max);
            return -1;
        }
    }
    if (hold_begin_change(hold) < 0)
        return -1;
    char *field = (char *)&hold->info + number->offset;
    if (number->bytes == 8)
        *(uint64_t *)(void *)field = read;
    else
        *(uint32_t *)(void *)field = (uint32_t)read;
    pthread_mutex_unlock(&hold->calls);
    return 0;
}

static PyObject *get_size(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    return hold ? PyLong_FromUnsignedLongLong(hold->info.bytes) : NULL;
}

/* 0, or -1 with an exception. */
static int resize(struct hold *hold, uint64_t bytes)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    if (hold_begin_change(hold) < 0)
        return -1;
    bool in_use = atomic_load(&hold->arrays) > 0;
    if (!in_use) {
        hold_unmap(hold);
        status = gpud_frame_set_size(hold->frame, bytes, &error);
    }
    if (!in_use && status == GPUD_OK)
        hold->info.bytes = bytes;
    pthread_mutex_unlock(&hold->calls);
    if (in_use)
        error_raise_text(GPUD_INVALID, "the frame has arrays: set its size before it has any");
    else if (status != GPUD_OK)
        error_raise(&error);
    return in_use || status != GPUD_OK ? -1 : 0;
}

static int set_size(PyObject *self, PyObject *value, void *closure)
{
    HELD hold = settable(self, value, "size");
    unsigned long long bytes = hold ? PyLong_AsUnsignedLongLong(value) : 0;
    return !hold || PyErr_Occurred() ? -1 : resize(hold, bytes);
}

/* The tensors of a frame of which some have a batch; else NULL. */
static const struct gpud_tensors *find_batch(const struct hold *hold)
{
    const struct gpud_media *media = &hold->media->media;
    return media->kind == GPUD_MEDIA_TENSOR && media->tensors.batch ? &media->tensors : NULL;
}

static PyObject *get_batch(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    const struct gpud_tensors *tensors = hold ? find_batch(hold) : NULL;
    if (!tensors)
        return hold ? Py_NewRef(Py_None) : NULL;
    return PyLong_FromUnsignedLong(gpud_tensors_get_batch(tensors, hold->info.bytes));
}

static int set_batch(PyObject *self, PyObject *value, void *closure)
{
    HELD hold = settable(self, value, "batch");
    const struct gpud_tensors *tensors = hold ? find_batch(hold) : NULL;
    unsigned long batch = hold ? PyLong_AsUnsignedLong(value) : 0;
    if (!hold || PyErr_Occurred())
        return -1;
    uint64_t bytes =
        tensors && batch <= UINT32_MAX ? gpud_tensors_get_bytes(tensors, (uint32_t)batch) : 0;
    if (bytes)
        return resize(hold, bytes);
    PyErr_Format(PyExc_ValueError, "the frame has no batch of %lu: its sender's media is %s", batch,
                 hold->media->text);
    return -1;
}

static PyObject *get_meta(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    if (!hold)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)hold->info.meta, hold->info.meta_size);
}

static int set_meta(PyObject *self, PyObject *value, void *closure)
{
    Py_buffer buffer;
    HELD hold = settable(self, value, "meta");
    if (!hold || PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE) < 0)
        return -1;
    int status = -1;
    if (buffer.len > GPUD_FRAME_META_MAX)
        PyErr_Format(PyExc_ValueError,
                     "%zd bytes of meta do not fit into the %d that a frame "
                     "carries",
                     buffer.len, GPUD_FRAME_META_MAX);
    else if ((status = hold_begin_change(hold)) == 0) {
        memcpy(hold->info.meta, buffer.buf, (size_t)buffer.len);
        hold->info.meta_size = (uint32_t)buffer.len;
        pthread_mutex_unlock(&hold->calls);
    }
    PyBuffer_Release(&buffer);
    return status;
}

static PyObject *get_large_meta(PyObject *self, void *closure)
{
    HELD hold = frame_get_hold(self);
    if (!hold)
        return NULL;
    return PyBytes_FromStringAndSize(hold->info.large_meta, (Py_ssize_t)hold->info.large_meta_size);
}

static int set_large_meta(PyObject *self, PyObject *value, void *closure)
{
    Py_buffer buffer;
    HELD hold = settable(self, value, "large_meta");
    if (!hold || PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE) < 0)
        return -1;
    bool fits = buffer.len <= GPUD_LARGE_META_MAX;
    int status = -1;
    if (fits)
        status = hold_set_large_meta(hold, buffer.buf, (size_t)buffer.len);
    else
        PyErr_Format(PyExc_ValueError, "a large meta of %zd bytes: at most %d are possible",
                     buffer.len, GPUD_LARGE_META_MAX);
    PyBuffer_Release(&buffer);
    return status;
}

static PyObject *represent(PyObject *self)
{
    struct hold *own = ((struct frame *)self)->hold;
    HELD hold = own ? hold_ref(own) : NULL;
    char what[96], time[32] = "";
    if (!hold)
        return PyUnicode_FromString("<Frame, released>");
    const struct gpud_media *media = &hold->media->media;
    if (media->kind == GPUD_MEDIA_PICTURE)
        PyOS_snprintf(what, sizeof(what), "%ux%u %s", hold->info.layout.width,
                      hold->info.layout.height, media->picture.layout.format);
    else if (media->kind == GPUD_MEDIA_AUDIO)
        PyOS_snprintf(what, sizeof(what), "%u channels of %s at %u Hz, %llu bytes",
                      media->audio.channels, media->audio.format, media->audio.rate,
                      (unsigned long long)hold->info.bytes);
    else if (media->kind == GPUD_MEDIA_TENSOR)
        gpud_tensors_to_string(&media->tensors, what, sizeof(what));
    else
        PyOS_snprintf(what, sizeof(what), "%llu bytes of %s", (unsigned long long)hold->info.bytes,
                      media->data.type);
    if (hold->info.pts_ns != GPUD_TIME_NONE)
        PyOS_snprintf(time, sizeof(time), ", pts %.3f s", (double)hold->info.pts_ns / 1e9);
    return PyUnicode_FromFormat("<Frame %s, %s%s%s>", what, hold->device, time,
                                hold_look(hold).gone ? ", submitted" : "");
}

/* --- a queue of the application's ----------------------------------------------------------- */

static PyObject *frame_join(PyObject *self, PyObject *object)
{
    HELD hold = frame_get_hold(self);
    void *queue = hold ? PyLong_AsVoidPtr(object) : NULL;
    if (PyErr_Occurred() || hold_check(hold) < 0)
        return NULL;
    return hold_join(hold, true, queue, queue) == 0 ? Py_NewRef(Py_None) : NULL;
}

/* --- while it is being written --------------------------------------------------------------- */

static PyObject *frame_wait_lines(PyObject *self, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"lines", "timeout", NULL};
    HELD hold = frame_get_hold(self);
    int64_t timeout_ns = INT64_MAX;
    uint32_t lines;
    if (!hold || !PyArg_ParseTupleAndKeywords(args, names, "I|O&:wait_lines", keywords, &lines,
                                              guard_parse_timeout, &timeout_ns))
        return NULL;
    return wait_for(hold, lines, timeout_ns) == 0 ? Py_NewRef(Py_None) : NULL;
}

/* --- its end ------------------------------------------------------------------------------- */

static PyObject *frame_release(PyObject *self, PyObject *unused)
{
    struct frame *frame = (struct frame *)self;
    struct hold *hold = frame->hold;
    frame->hold = NULL;
    hold_unref(hold);
    return Py_NewRef(Py_None);
}

static PyObject *frame_enter(PyObject *self, PyObject *unused)
{
    HELD hold = frame_get_hold(self);
    return hold ? Py_NewRef(self) : NULL;
}

static PyObject *frame_leave(PyObject *self, PyObject *args)
{
    struct frame *frame = (struct frame *)self;
    PyObject *exception, *value, *traceback;
    if (!PyArg_ParseTuple(args, "OOO:__exit__", &exception, &value, &traceback))
        return NULL;
    /* What was submitted or released inside the block is done. */
    PyObject *done = Py_None;
    HELD hold = frame->hold ? hold_ref(frame->hold) : NULL;
    struct look look = {.gone = true};
    if (hold && frame->lender && exception == Py_None)
        look = hold_look(hold);
    if (!look.gone)
        done = look.by_lines ? PyObject_CallMethod(frame->lender, "submit_lines", "OI", self,
                                                   (unsigned)hold->info.layout.height)
                             : PyObject_CallMethod(frame->lender, "submit", "O", self);
    else
        Py_INCREF(done);
    /* It could not be submitted: it is dropped. */
    Py_XDECREF(frame_release(self, NULL));
    Py_XDECREF(done);
    return done ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef methods[] = {
    {"__array__", (PyCFunction)(void (*)(void))convert_to_numpy, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, /, *args, **names)\n--\n\n"
     "Lets numpy say why the bytes cannot be an array."},
    {"__dlpack__", (PyCFunction)(void (*)(void))export_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule for a consumer's from_dlpack(). The consumer's stream waits for the bytes, and "
     "the\n"
     "frame's release for the stream; on the host this call waits. Nothing is copied."},
    {"__dlpack_device__", export_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's type of the device, and its number."},
    {"join", frame_join, METH_O,
     "join($self, queue, /)\n--\n\n"
     "Lets a queue of yours wait for the bytes, and the frame's release or submission for the "
     "queue.\n"
     "The number of a CUstream, hipStream_t or cl_command_queue, which lives until then; the last\n"
     "in the context of the cl_mem. For code that has no DLPack, as pyopencl."},
    {"wait_lines", (PyCFunction)(void (*)(void))frame_wait_lines, METH_VARARGS | METH_KEYWORDS,
     "wait_lines($self, /, lines, timeout=None)\n--\n\n"
     "Waits for the first rows of a picture that its sender still writes, of a receiver with\n"
     "by_lines. Arrays that are made after it do not wait for the others. Raises Timeout."},
    {"_fill", frame_fill, METH_VARARGS,
     "Copies a buffer of the same shape and type into it, or into a tensor of it."},
    {"_download", frame_download, METH_NOARGS, "A copy of all bytes, on any device, or None."},
    {"release", frame_release, METH_NOARGS,
     "release($self, /)\n--\n\nGives the frame back, once its arrays are gone, too. A lent frame "
     "is dropped."},
    {"__enter__", frame_enter, METH_NOARGS, NULL},
    {"__exit__", frame_leave, METH_VARARGS, NULL},
    {0},
};

static PyGetSetDef attributes[] = {
    {"pts", get_number, set_number, "Presentation time in ns, or None.", &numbers[0]},
    {"dts", get_number, set_number, "Decoding time in ns, or None.", &numbers[1]},
    {"duration", get_number, set_number, "Duration in ns, or None.", &numbers[2]},
    {"offset", get_number, set_number,
     "The application's number of the frame, or None; travels as it is.", &numbers[3]},
    {"flags", get_number, set_number,
     "Bits of gpud_frame_flags; those from 1 << 16 up are the application's.", &numbers[4]},
    {"number", get_number, NULL, "The sender's frames, from 1; a gap: dropped for this receiver.",
     &numbers[5]},
    {"dropped", get_number, NULL, "Frames dropped for this receiver since it connected.",
     &numbers[6]},
    {"submitted", get_number, NULL,
     "When it was submitted, in ns of CLOCK_MONOTONIC; 0: not known.", &numbers[7]},
    {"epoch", get_number, NULL,
     "Changes with every connection, switch and change of format; no number comes twice.",
     &numbers[8]},
    {"width", get_number, NULL, "Pixels of a row.", &numbers[9]},
    {"height", get_number, NULL, "Rows.", &numbers[10]},
    {"slot", get_number, NULL,
     "Which memory of the ring it lies in, 0 and up, the same for an epoch.", &numbers[11]},
    {"media", get_media, NULL, "What the frame is, in the syntax of caps.", NULL},
    {"format", get_format, NULL, "The name of the format: 'NV12', 'S16LE'.", NULL},
    {"route", get_route, NULL, "How it came, as in 'map'; None for captured and lent frames.",
     NULL},
    {"device", get_device, NULL, "Where its bytes are, as in 'cuda:0'.", NULL},
    {"readonly", get_readonly, NULL, "Whether others share the bytes.", NULL},
    {"valid", get_valid, NULL,
     "Whether the bytes are still those of the frame; False once it was taken back, submitted or\n"
     "released.",
     NULL},
    {"meta", get_meta, set_meta, "The application's own bytes, up to 704; travel as they are.",
     NULL},
    {"large_meta", get_large_meta, set_large_meta,
     "More of them, up to the sender's large_meta_max; travel beside meta.", NULL},
    {"size", get_size, set_size,
     "Bytes in use, from the first one on. Set it to fewer on a lent block of sound or data, "
     "before\n"
     "its first array; of tensors, set batch.",
     NULL},
    {"batch", get_batch, set_batch,
     "How many parts the batch of its tensors has, or None. Set it on a lent frame, before its\n"
     "first array; until then the batch is full.",
     NULL},
    {"shape", get_of_array, NULL,
     "Lengths of its array's dimensions, as in (1080, 1920, 4). A frame of several unlike planes\n"
     "has none: use those of planes.",
     "shape"},
    {"dtype", get_of_array, NULL,
     "The type of the elements by numpy's name, as in 'uint8' or '>u2'.", "dtype"},
    {"planes", get_planes, NULL, "The planes of a picture by name, as in frame.planes['Y'].", NULL},
    {"tensors", get_tensors, NULL,
     "The tensors of a frame by name, or by number ('0') where they have none.", NULL},
    {"raw", get_raw, NULL, "All bytes of the frame, as an array of one dimension.", NULL},
    {"native", get_native, NULL, "The address on its device; on OpenCL, the cl_mem.", NULL},
    {"native_offset", get_native_offset, NULL, "Bytes from native to the frame; of a cl_mem.",
     NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, frame_free},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, get_buffer},
    {Py_tp_doc,
     "A frame. It is an array by DLPack (torch.from_dlpack) and, on the host, by the buffer\n"
     "protocol (numpy.asarray), without a copy: of packed formats H x W x C, of planes of one\n"
     "size C x H x W, of sound samples x channels, of data bytes, of one tensor its own. The "
     "frame\n"
     "is given back when it\n"
     "and its arrays are gone.\n"
     "\n"
     "As a context manager, a frame of Sender.acquire() is submitted at the end of the block and\n"
     "dropped at an exception; any other one is released."},
    {0},
};

PyType_Spec frame_spec = {
    .name = "gpudirect.Frame",
    .basicsize = sizeof(struct frame),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
