/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where an array of numbers lies in a frame. */
#include "python.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    enum gpud_tensor_code kind;
    unsigned bytes;
} samples[] = {
    {"S8", GPUD_TENSOR_INT, 1},    {"U8", GPUD_TENSOR_UINT, 1},
    {"S16LE", GPUD_TENSOR_INT, 2}, {"U16LE", GPUD_TENSOR_UINT, 2},
    {"S32LE", GPUD_TENSOR_INT, 4}, {"U32LE", GPUD_TENSOR_UINT, 4},
    {"S24_32LE", GPUD_TENSOR_INT, 4},
    {"F32LE", GPUD_TENSOR_FLOAT, 4}, {"F64LE", GPUD_TENSOR_FLOAT, 8},
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
static void lay_out(struct array *array, enum gpud_tensor_code kind, unsigned bytes, int dimensions,
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
    lay_out(array, GPUD_TENSOR_UINT, 1, 1, (const int64_t[]){(int64_t)size});
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
    lay_out(array, GPUD_TENSOR_UINT, form->bytes, form->channels > 1 ? 3 : 2,
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
    lay_out(array, GPUD_TENSOR_UINT, 1, 2,
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

bool array_of_tensor(struct array *array, char name[ARRAY_NAME_MAX],
                     const struct gpud_tensors *tensors, uint32_t at, uint64_t size,
                     struct gpud_error *error)
{
    const struct gpud_tensor *tensor = &tensors->tensor[at];
    unsigned bytes = tensor->bits / 8u;
    int64_t shape[ARRAY_DIMENSIONS_MAX];
    if (tensor->lanes != 1)
        return refuse(error,
                      "tensor %u has vectors of %u numbers, which are of no array: use "
                      "frame.raw",
                      at, tensor->lanes);
    if (tensor->offset % bytes)
        return refuse(error,
                      "tensor %u begins at byte %llu, in mid-number of %u bytes: give it another "
                      "place in the sender's caps (offsets=), or use frame.raw",
                      at, (unsigned long long)tensor->offset, bytes);
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        shape[i] = tensor->size[i];
    if (tensors->batch >> at & 1)
        shape[0] = gpud_tensors_get_batch(tensors, size);
    lay_out(array, (enum gpud_tensor_code)tensor->code, bytes, (int)tensor->dimensions, shape);
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        array->strides[i] = (int64_t)tensor->stride[i] * bytes;
    array->offset = tensor->offset;
    if (tensor->name[0])
        snprintf(name, ARRAY_NAME_MAX, "%s", tensor->name);
    else
        snprintf(name, ARRAY_NAME_MAX, "%u", at);
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
    case GPUD_MEDIA_TENSOR:
        if (media->tensors.count > 1)
            return refuse(error, "a frame of %u tensors: use those of frame.tensors",
                          media->tensors.count);
        return array_of_tensor(array, (char[ARRAY_NAME_MAX]){0}, &media->tensors, 0, size, error);
    default:
        array_raw(array, size);
        return true;
    }
}
