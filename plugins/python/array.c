/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames' bytes as arrays: DLPack, the array interface, buffers, an application's memory. */
#include "python.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === array =================================================================================== */

/* A plane of a format: elements of so many bytes, so many for a pixel, at every so many columns. */
struct form {
    char name[ARRAY_NAME_MAX]; /* "": that of the format */
    unsigned bytes, channels, columns;
    bool big_endian;
};

/* A name that ends in "_10LE" and the like is that of the format without it, in elements of two
 * bytes: see find_form(). */
/* clang-format off */
static const struct format {
    const char *names;
    struct form plane[GPUD_PLANES_MAX];
} formats[] = {
    {"UYVY YUY2 YVYU VYUY", {{"", 1, 2, 1}}},
    {"v216", {{"UYVY", 2, 2, 1}}},
    {"Y210 Y212_LE Y216_LE", {{"YUY2", 2, 2, 1}}},
    {"NV12 NV16", {{"Y", 1, 1, 1}, {"UV", 1, 2, 2}}},
    {"NV21 NV61", {{"Y", 1, 1, 1}, {"VU", 1, 2, 2}}},
    {"NV24", {{"Y", 1, 1, 1}, {"UV", 1, 2, 1}}},
    {"NV42", {{"Y", 1, 1, 1}, {"VU", 1, 2, 1}}},
    {"P010_10LE P012_LE P016_LE", {{"Y", 2, 1, 1}, {"UV", 2, 2, 2}}},
    {"I420 Y42B", {{"Y", 1, 1, 1}, {"U", 1, 1, 2}, {"V", 1, 1, 2}}},
    {"I422", {{"Y", 1, 1, 1}, {"U", 1, 1, 2}, {"V", 1, 1, 2}}}, /* only of 10 bits and more */
    {"YV12", {{"Y", 1, 1, 1}, {"V", 1, 1, 2}, {"U", 1, 1, 2}}},
    {"Y444", {{"Y", 1, 1, 1}, {"U", 1, 1, 1}, {"V", 1, 1, 1}}},
    {"Y41B YUV9", {{"Y", 1, 1, 1}, {"U", 1, 1, 4}, {"V", 1, 1, 4}}},
    {"YVU9", {{"Y", 1, 1, 1}, {"V", 1, 1, 4}, {"U", 1, 1, 4}}},
    {"A420 A422", {{"Y", 1, 1, 1}, {"U", 1, 1, 2}, {"V", 1, 1, 2}, {"A", 1, 1, 1}}},
    {"A444", {{"Y", 1, 1, 1}, {"U", 1, 1, 1}, {"V", 1, 1, 1}, {"A", 1, 1, 1}}},
    {"AV12", {{"Y", 1, 1, 1}, {"UV", 1, 2, 2}, {"A", 1, 1, 1}}},
    {"GBR", {{"G", 1, 1, 1}, {"B", 1, 1, 1}, {"R", 1, 1, 1}}},
    {"GBRA", {{"G", 1, 1, 1}, {"B", 1, 1, 1}, {"R", 1, 1, 1}, {"A", 1, 1, 1}}},
    {"RGBP", {{"R", 1, 1, 1}, {"G", 1, 1, 1}, {"B", 1, 1, 1}}},
    {"BGRP", {{"B", 1, 1, 1}, {"G", 1, 1, 1}, {"R", 1, 1, 1}}},
    {"BGRx BGRA RGBx RGBA xRGB ARGB xBGR ABGR RBGA AYUV VUYA", {{"", 1, 4, 1}}},
    {"v308", {{"YUV", 1, 3, 1}}},
    {"IYU2", {{"UYV", 1, 3, 1}}},
    {"Y412_LE Y416_LE", {{"UYVA", 2, 4, 1}}},
    {"AYUV64", {{"AYUV", 2, 4, 1}}},
    {"ARGB64 ARGB64_LE", {{"ARGB", 2, 4, 1}}},
    {"RGBA64_LE", {{"RGBA", 2, 4, 1}}},
    {"BGRA64_LE", {{"BGRA", 2, 4, 1}}},
    {"ABGR64_LE", {{"ABGR", 2, 4, 1}}},
    {"RGB BGR", {{"", 1, 3, 1}}},
    {"GRAY8", {{"Y", 1, 1, 1}}},
    {"GRAY16_LE GRAY10_LE16", {{"Y", 2, 1, 1}}},
    {"bggr gbrg grbg rggb", {{"", 1, 1, 1}}},
};

static const struct {
    const char *name;
    enum array_kind kind;
    unsigned bytes;
} samples[] = {
    {"S8", ARRAY_INT, 1},    {"U8", ARRAY_UINT, 1},
    {"S16LE", ARRAY_INT, 2}, {"U16LE", ARRAY_UINT, 2},
    {"S32LE", ARRAY_INT, 4}, {"U32LE", ARRAY_UINT, 4},
    {"S24_32LE", ARRAY_INT, 4},
    {"F32LE", ARRAY_FLOAT, 4}, {"F64LE", ARRAY_FLOAT, 8},
};

/* clang-format on */

__attribute__((format(printf, 2, 3))) static bool refuse(struct gpud_error *error,
                                                         const char *format, ...)
{
    va_list list;
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    va_start(list, format);
    vsnprintf(error->reason, sizeof(error->reason), format, list);
    va_end(list);
    return false;
}

/* Lengths of the dimensions from the last on, each stride the product of those behind it. */
static void lay_out(struct array *array, enum array_kind kind, unsigned bytes, int dimensions,
                    const int64_t *shape)
{
    int64_t stride = bytes;
    array->kind = kind;
    array->bytes = bytes;
    array->big_endian = false;
    array->dimensions = dimensions;
    array->offset = 0;
    for (int i = dimensions - 1; i >= 0; i--) {
        array->shape[i] = shape[i];
        array->strides[i] = stride;
        stride *= shape[i];
    }
    array->length = (uint64_t)stride;
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

bool array_has_shape(const struct array *array, int dimensions, const int64_t *shape)
{
    return dimensions == array->dimensions &&
           memcmp(shape, array->shape, (size_t)dimensions * sizeof(*shape)) == 0;
}

/* From one dimension on. */
static void copy(const struct array *array, int dimension, char *to, const char *from,
                 const int64_t *strides)
{
    int64_t run = array->bytes;
    bool packed = true;
    for (int i = array->dimensions - 1; i >= dimension && i < ARRAY_DIMENSIONS_MAX; i--) {
        packed = packed && array->strides[i] == run && strides[i] == run;
        run *= array->shape[i];
    }
    if (packed) {
        memcpy(to, from, (size_t)run);
        return;
    }
    for (int64_t i = 0; i < array->shape[dimension]; i++)
        copy(array, dimension + 1, to + i * array->strides[dimension],
             from + i * strides[dimension], strides);
}

void array_copy(const struct array *array, char *to, const char *from, const int64_t *strides)
{
    copy(array, 0, to + array->offset, from, strides);
}

void array_raw(struct array *array, uint64_t size)
{
    lay_out(array, ARRAY_UINT, 1, 1, (const int64_t[]){(int64_t)size});
}

/* Copies a format's name, with "LE" for "BE" at its end: whether it is big-endian. */
static bool split_order(const char *name, char little[16])
{
    snprintf(little, 16, "%s", name);
    size_t length = strlen(little);
    if (length < 2 || strcmp(little + length - 2, "BE") != 0)
        return false;
    little[length - 2] = 'L';
    return true;
}

/* The format of that name, of so many letters. */
static const struct format *find_format(const char *name, size_t length)
{
    for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        for (const char *at = formats[i].names; *at; at += strspn(at, " ")) {
            size_t word = strcspn(at, " ");
            if (word == length && strncmp(at, name, length) == 0)
                return &formats[i];
            at += word;
        }
    return NULL;
}

/* Whether a name ends, behind its first letters, with a depth above 8: its elements have two bytes.
 */
static bool is_wide(const char *depth)
{
    static const char *const depths[] = {"_10LE", "_12LE", "_16LE"};
    for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        if (strcmp(depth, depths[i]) == 0)
            return true;
    return false;
}

/* Bayer of 10 to 16 bits: "rggb10le". */
static bool is_wide_bayer(const char *name)
{
    static const char *const orders[] = {"bggr", "gbrg", "grbg", "rggb"};
    static const char *const depths[] = {"10le", "12le", "14le", "16le"};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned j = 0; j < 4; j++)
            if (strncmp(name, orders[i], 4) == 0 && strcmp(name + 4, depths[j]) == 0)
                return true;
    return false;
}

/* False: the format is not known, or its pixels are not numbers of whole bytes. */
static bool find_form(const struct gpud_layout *layout, uint32_t plane, struct form *form)
{
    char name[16];
    bool big = split_order(layout->format, name);
    size_t length = strlen(name);
    if (plane == 0 && !big && is_wide_bayer(name)) {
        *form = (struct form){"bayer", 2, 1, 1};
        return true;
    }
    const struct format *found = find_format(name, length);
    bool wide = !found && length > 5 && is_wide(name + length - 5);
    if (wide) {
        length -= 5;
        found = find_format(name, length);
    }
    if (!found || !found->plane[plane].bytes)
        return false;
    *form = found->plane[plane];
    if (!form->name[0])
        memcpy(form->name, name, length);
    if (wide)
        form->bytes = 2;
    form->big_endian = big;
    return true;
}

static bool is_row_by_row(const struct gpud_layout *layout, struct gpud_error *error)
{
    if (layout->modifier == 0)
        return true;
    return refuse(error,
                  "a GPU's driver arranged the pixels of the frame (modifier 0x%llx): they lie in "
                  "no array; use frame.raw",
                  (unsigned long long)layout->modifier);
}

static bool lay_out_plane(struct array *array, const struct form *form,
                          const struct gpud_layout *layout, uint32_t at, struct gpud_error *error)
{
    const struct gpud_plane *plane = &layout->plane[at];
    int64_t width = (layout->width + form->columns - 1) / form->columns;
    unsigned pixel = form->bytes * form->channels;
    if (plane->row_bytes != width * pixel)
        return refuse(error,
                      "rows of %u bytes do not hold %lld pixels of %s each as %u numbers of %u "
                      "bytes: use frame.raw",
                      plane->row_bytes, (long long)width, layout->format, form->channels,
                      form->bytes);
    if (plane->stride % form->bytes || plane->offset % form->bytes)
        return refuse(error,
                      "the rows of %s begin in mid-number (stride %u, offset %llu): use frame.raw",
                      layout->format, plane->stride, (unsigned long long)plane->offset);
    lay_out(array, ARRAY_UINT, form->bytes, form->channels > 1 ? 3 : 2,
            (const int64_t[]){plane->rows, width, form->channels});
    array->big_endian = form->big_endian;
    array->strides[0] = plane->stride;
    array->offset = plane->offset;
    return true;
}

bool array_of_plane(struct array *array, char name[ARRAY_NAME_MAX],
                    const struct gpud_layout *layout, uint32_t plane, struct gpud_error *error)
{
    struct form form;
    if (!is_row_by_row(layout, error))
        return false;
    if (find_form(layout, plane, &form)) {
        snprintf(name, ARRAY_NAME_MAX, "%s", form.name);
        return lay_out_plane(array, &form, layout, plane, error);
    }
    snprintf(name, ARRAY_NAME_MAX, "%u", plane);
    lay_out(array, ARRAY_UINT, 1, 2,
            (const int64_t[]){layout->plane[plane].rows, layout->plane[plane].row_bytes});
    array->strides[0] = layout->plane[plane].stride;
    array->offset = layout->plane[plane].offset;
    return true;
}

/* Planes that are alike, at equal distances, are one array of planes x rows x columns. */
static bool stack_planes(struct array *array, const struct gpud_layout *layout,
                         struct gpud_error *error)
{
    int64_t distance = (int64_t)(layout->plane[1].offset - layout->plane[0].offset);
    for (uint32_t i = 0; i < layout->planes; i++) {
        struct array plane;
        struct form form;
        bool known = find_form(layout, i, &form) && lay_out_plane(&plane, &form, layout, i, error);
        if (known && i == 0)
            *array = plane;
        if (!known || plane.dimensions != 2 || plane.bytes != array->bytes ||
            plane.shape[0] != array->shape[0] || plane.shape[1] != array->shape[1] ||
            plane.strides[0] != array->strides[0] ||
            plane.offset != array->offset + i * (uint64_t)distance)
            return refuse(error, "a frame of %s has %u planes: use those of frame.planes",
                          layout->format, layout->planes);
    }
    for (int i = 2; i > 0; i--) {
        array->shape[i] = array->shape[i - 1];
        array->strides[i] = array->strides[i - 1];
    }
    array->shape[0] = layout->planes;
    array->strides[0] = distance;
    array->length *= layout->planes;
    array->dimensions = 3;
    return true;
}

static bool of_picture(struct array *array, const struct gpud_layout *layout,
                       struct gpud_error *error)
{
    struct form form;
    if (!is_row_by_row(layout, error))
        return false;
    if (!find_form(layout, 0, &form))
        return refuse(error,
                      "pixels of %s do not lie as numbers in an array: use frame.raw, or convert "
                      "them ahead of the sender, as by videoconvert ! video/x-raw,format=RGBA",
                      layout->format);
    return layout->planes > 1 ? stack_planes(array, layout, error)
                              : lay_out_plane(array, &form, layout, 0, error);
}

static bool of_sound(struct array *array, const struct gpud_audio *audio, uint64_t size,
                     struct gpud_error *error)
{
    unsigned i = 0, count = sizeof(samples) / sizeof(samples[0]);
    char name[16];
    bool big = split_order(audio->format, name);
    while (i < count && strcmp(samples[i].name, name) != 0)
        i++;
    if (i == count)
        return refuse(error, "samples of %s are numbers of no array: use frame.raw", audio->format);
    int64_t block = (int64_t)(size / (samples[i].bytes * audio->channels));
    bool planar = audio->order == GPUD_AUDIO_PLANAR;
    lay_out(array, samples[i].kind, samples[i].bytes, 2,
            planar ? (const int64_t[]){audio->channels, block}
                   : (const int64_t[]){block, audio->channels});
    array->big_endian = big;
    return true;
}

bool array_of_frame(struct array *array, const struct gpud_media *media,
                    const struct gpud_layout *layout, uint64_t size, struct gpud_error *error)
{
    switch (media->kind) {
    case GPUD_MEDIA_PICTURE:
        return of_picture(array, layout, error);
    case GPUD_MEDIA_AUDIO:
        return of_sound(array, &media->audio, size, error);
    default:
        array_raw(array, size);
        return true;
    }
}

/* === dlpack ================================================================================== */

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

static void fill_tensor(struct export *export, struct dl_tensor *tensor, const struct array *array)
{
    for (int i = 0; i < array->dimensions; i++) {
        export->shape[i] = array->shape[i];
        export->strides[i] = array->strides[i] / (int64_t)array->bytes;
    }
    tensor->data = export->hold->native + array->offset;
    tensor->device = (struct dl_device){device_types[export->hold->kind], export->hold->number};
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

PyObject *dlpack_export(struct hold *hold, const struct array *array, PyObject *args,
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
    if (hold_check(hold) == 0 && dlpack_join(hold, stream) == 0)
        capsule = make_capsule(hold, array, major >= 1);
    hold_unref_array(hold);
    return capsule;
}

/* === view ==================================================================================== */

struct view {
    PyObject_HEAD struct hold *hold;
    struct array array;
    Py_ssize_t shape[ARRAY_DIMENSIONS_MAX]; /* where buffers point to */
    Py_ssize_t strides[ARRAY_DIMENSIONS_MAX];
};

PyObject *view_new(struct hold *hold, const struct array *array)
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

/* The format of module struct, and the name of numpy's type. */
static const char *view_describe(const struct array *array, bool for_struct)
{
    static const char *const names[3][4][2] = {
        [ARRAY_INT] = {{"b", "int8"}, {"h", "int16"}, {"i", "int32"}, {"q", "int64"}},
        [ARRAY_UINT] = {{"B", "uint8"}, {"H", "uint16"}, {"I", "uint32"}, {"Q", "uint64"}},
        [ARRAY_FLOAT] = {{NULL, NULL}, {"e", "float16"}, {"f", "float32"}, {"d", "float64"}},
    };
    static const char *const big_names[3][4][2] = {
        [ARRAY_INT] = {{NULL, NULL}, {">h", ">i2"}, {">i", ">i4"}, {">q", ">i8"}},
        [ARRAY_UINT] = {{NULL, NULL}, {">H", ">u2"}, {">I", ">u4"}, {">Q", ">u8"}},
        [ARRAY_FLOAT] = {{NULL, NULL}, {">e", ">f2"}, {">f", ">f4"}, {">d", ">f8"}},
    };
    unsigned size = array->bytes == 1 ? 0 : array->bytes == 2 ? 1 : array->bytes == 4 ? 2 : 3;
    return (array->big_endian ? big_names : names)[array->kind][size][for_struct ? 0 : 1];
}

static int refuse_buffer(Py_buffer *buffer, const char *text)
{
    buffer->obj = NULL;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_BufferError, text);
    return -1;
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
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

static PyObject *get_readonly(PyObject *self, void *closure)
{
    return PyBool_FromLong(((struct view *)self)->hold->read_only);
}

static PyObject *get_offset(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(((struct view *)self)->array.offset);
}

static PyObject *represent(PyObject *self)
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

static PyObject *get_native(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    if (hold_check(view->hold) < 0)
        return NULL;
    bool offset_apart = hold_is_object(view->hold);
    return PyLong_FromVoidPtr(view->hold->native + (offset_apart ? 0 : view->array.offset));
}

static PyObject *export_dlpack(PyObject *self, PyObject *args, PyObject *names)
{
    struct view *view = (struct view *)self;
    return dlpack_export(view->hold, &view->array, args, names);
}

static PyObject *export_device(PyObject *self, PyObject *unused)
{
    return dlpack_device(((struct view *)self)->hold);
}

static PyMethodDef methods[] = {
    {"__array__", (PyCFunction)(void (*)(void))convert_to_numpy, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, /, *args, **names)\n--\n\n"
     "For numpy, which says by it why the bytes are no array."},
    {"__dlpack__", (PyCFunction)(void (*)(void))export_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule for a consumer's from_dlpack(). The consumer's stream waits for the bytes."},
    {"__dlpack_device__", export_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's type of the device, and its number."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "Lengths of the dimensions, as in (1080, 1920, 4).", NULL},
    {"strides", get_strides, NULL, "Bytes from one entry of each dimension to the next.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements by numpy's name, as in 'uint8' or '>u2'.",
     NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"offset", get_offset, NULL, "Bytes from the first one of the frame to the first element.",
     NULL},
    {"readonly", get_readonly, NULL, "Whether others share the bytes.", NULL},
    {"native", get_native, NULL,
     "The address of the first element, on the frame's device; on OpenCL, the cl_mem.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, view_free},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, get_buffer},
    {Py_tp_doc, "An array in a frame, without a copy: by DLPack, and on the host by the buffer\n"
                "protocol (numpy.asarray, memoryview). While it lives, the frame is held."},
    {0},
};

PyType_Spec view_spec = {
    .name = "gpudirect.Plane",
    .basicsize = sizeof(struct view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
