/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "dlpack.h"

#include "error.h"

#include <stdlib.h>

/* --- the ABI ------------------------------------------------------------------------------- */

enum {
    DL_CPU = 1,
    DL_CUDA = 2,
    DL_OPENCL = 4,
    DL_VULKAN = 7,
    DL_ROCM = 10,
};

#define DL_FLAG_READ_ONLY UINT64_C(1)

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
    struct hold *hold;
    int64_t shape[ARRAY_DIMENSIONS_MAX];
    int64_t strides[ARRAY_DIMENSIONS_MAX];
};

/* Consumers call these on any thread, with or without the GIL. */
static void free_export(struct export *export)
{
    hold_unref_array(export->hold);
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
    for (int i = 0; i < 2; i++) {
        const char *name = i ? VERSIONED : OLD;
        if (PyCapsule_IsValid(capsule, name)) {
            struct export *export = PyCapsule_GetPointer(capsule, name);
            free_export(export);
        }
    }
}

static int32_t device_type(const struct hold *hold)
{
    switch (hold->kind) {
    case HOLD_HOST:
        return DL_CPU;
    case HOLD_CUDA:
        return DL_CUDA;
    case HOLD_HIP:
        return DL_ROCM;
    case HOLD_OPENCL:
        return DL_OPENCL;
    default:
        return DL_VULKAN;
    }
}

static void fill_tensor(struct export *export, struct dl_tensor *tensor, const struct array *array)
{
    for (int i = 0; i < array->dimensions; i++) {
        export->shape[i] = array->shape[i];
        export->strides[i] = array->strides[i] / (int64_t)array->bytes;
    }
    tensor->data = export->hold->native + array->offset;
    tensor->device = (struct dl_device){device_type(export->hold), export->hold->number};
    tensor->dimensions = array->dimensions;
    tensor->type = (struct dl_type){(uint8_t)array->kind, (uint8_t)(8 * array->bytes), 1};
    tensor->shape = export->shape;
    tensor->strides = export->strides;
}

static PyObject *make_capsule(struct hold *hold, const struct array *array, bool versioned)
{
    struct export *export = calloc(1, sizeof(*export));
    if (!export)
        return PyErr_NoMemory();
    export->hold = hold_ref_array(hold);
    if (versioned) {
        export->versioned.major = 1;
        export->versioned.manager = export;
        export->versioned.deleter = delete_versioned;
        export->versioned.flags = hold->read_only ? DL_FLAG_READ_ONLY : 0;
        fill_tensor(export, &export->versioned.tensor, array);
    } else {
        export->old.manager = export;
        export->old.deleter = delete_old;
        fill_tensor(export, &export->old.tensor, array);
    }
    PyObject *capsule = PyCapsule_New(export, versioned ? VERSIONED : OLD, destroy_capsule);
    if (!capsule)
        free_export(export);
    return capsule;
}

/* --- __dlpack__ ---------------------------------------------------------------------------- */

PyObject *dlpack_device(const struct hold *hold)
{
    return Py_BuildValue("(ii)", (int)device_type(hold), hold->number);
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
static int join(struct hold *hold, PyObject *object)
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
    if (type == device_type(hold) && number == hold->number)
        return 0;
    PyErr_Format(PyExc_BufferError,
                 "the frame is on %s and is not copied to another device: ask for it there by "
                 "Receiver(device=)",
                 hold->device);
    return -1;
}

static int read_major(PyObject *version, int *major)
{
    int minor;
    *major = 0;
    if (version == Py_None)
        return 0;
    if (!PyTuple_Check(version)) {
        PyErr_SetString(PyExc_TypeError, "max_version is a tuple of two numbers");
        return -1;
    }
    return PyArg_ParseTuple(version, "ii;max_version is a tuple of two numbers", major, &minor)
               ? 0
               : -1;
}

PyObject *dlpack_export(struct hold *hold, const struct array *array, PyObject *args,
                        PyObject *names)
{
    static char *keywords[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|$OOOO:__dlpack__", keywords, &stream, &version,
                                     &device, &copy) ||
        read_major(version, &major) < 0 || check_device(hold, device) < 0)
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
    if (copied) {
        PyErr_SetString(PyExc_BufferError, "a frame is never copied here: copy the tensor");
        return NULL;
    }
    if (hold->read_only && !hold->allow_old_dlpack && major < 1) {
        PyErr_SetString(PyExc_BufferError,
                        "the frame is shared with others and DLPack before 1.0 cannot say that it "
                        "may not be written: use a consumer that asks for version 1, the buffer "
                        "protocol (numpy.asarray), or Receiver(allow_old_dlpack=True)");
        return NULL;
    }
    hold_ref_array(hold); /* from before the check to the capsule's own */
    PyObject *capsule = NULL;
    if (hold_check(hold) == 0 && join(hold, stream) == 0)
        capsule = make_capsule(hold, array, major >= 1);
    hold_unref_array(hold);
    return capsule;
}
