/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tensors: a frame is a block, and the media says where in it each tensor lies.
 *
 * The caps are those that NNStreamer's elements negotiate, "other/tensors, format=static", because
 * GStreamer has no type for a stream of tensors: its tensor caps (1.26, "tensor/strided" in the
 * field "tensors" of video/x-raw) say which GstTensorMeta a picture brings along. The names of the
 * types are those of both, and of numpy and ml_dtypes. NNStreamer knows neither names, strides nor
 * offsets, and ignores their fields, which are written only where they say something. */
#include "frame/media/media.h"

#include <string.h>

#define TYPE "other/tensors"
#define AT(member) offsetof(struct gpud_media, tensors.member)
#define ITEM_MAX 128 /* of the text of one tensor in a field */

/* === types =================================================================================== */

static const struct {
    const char *name;
    uint8_t code, bits;
} types[] = {
    {"int8", GPUD_TENSOR_INT, 8},
    {"int16", GPUD_TENSOR_INT, 16},
    {"int32", GPUD_TENSOR_INT, 32},
    {"int64", GPUD_TENSOR_INT, 64},
    {"uint8", GPUD_TENSOR_UINT, 8},
    {"uint16", GPUD_TENSOR_UINT, 16},
    {"uint32", GPUD_TENSOR_UINT, 32},
    {"uint64", GPUD_TENSOR_UINT, 64},
    {"float16", GPUD_TENSOR_FLOAT, 16},
    {"float32", GPUD_TENSOR_FLOAT, 32},
    {"float64", GPUD_TENSOR_FLOAT, 64},
    {"bfloat16", GPUD_TENSOR_BFLOAT, 16},
    {"complex64", GPUD_TENSOR_COMPLEX, 64},
    {"complex128", GPUD_TENSOR_COMPLEX, 128},
    {"bool", GPUD_TENSOR_BOOL, 8},
    {"float8_e3m4", GPUD_TENSOR_FLOAT8_E3M4, 8},
    {"float8_e4m3", GPUD_TENSOR_FLOAT8_E4M3, 8},
    {"float8_e4m3b11fnuz", GPUD_TENSOR_FLOAT8_E4M3B11FNUZ, 8},
    {"float8_e4m3fn", GPUD_TENSOR_FLOAT8_E4M3FN, 8},
    {"float8_e4m3fnuz", GPUD_TENSOR_FLOAT8_E4M3FNUZ, 8},
    {"float8_e5m2", GPUD_TENSOR_FLOAT8_E5M2, 8},
    {"float8_e5m2fnuz", GPUD_TENSOR_FLOAT8_E5M2FNUZ, 8},
    {"float8_e8m0fnu", GPUD_TENSOR_FLOAT8_E8M0FNU, 8},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

/* NULL: there is no such type. */
static const char *type_name(const struct gpud_tensor *tensor)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].code == tensor->code && types[i].bits == tensor->bits)
            return types[i].name;
    return NULL;
}

static bool read_type(const char *item, struct gpud_tensor *tensor)
{
    for (size_t i = 0; i < TYPES; i++) {
        size_t length = strlen(types[i].name);
        uint32_t lanes = 1;
        if (strncmp(item, types[i].name, length) != 0 ||
            (item[length] && (item[length] != 'x' ||
                              !gpud_text_read_numbers(item + length + 1, 10, false, &lanes, 1) ||
                              lanes < 1 || lanes > UINT16_MAX)))
            continue;
        tensor->code = types[i].code;
        tensor->bits = types[i].bits;
        tensor->lanes = (uint16_t)lanes;
        return true;
    }
    return false;
}

static bool write_type(const struct gpud_tensors *tensors, uint32_t at, char item[ITEM_MAX])
{
    const struct gpud_tensor *tensor = &tensors->tensor[at];
    const char *name = type_name(tensor);
    int length = gpud_print_n(item, ITEM_MAX, "%s", name ? name : "");
    if (tensor->lanes != 1)
        gpud_print_n(item + length, ITEM_MAX - (size_t)length, "x%u", tensor->lanes);
    return true;
}

/* === where elements lie ====================================================================== */

static uint64_t element_bytes(const struct gpud_tensor *tensor)
{
    return (uint64_t)tensor->bits / 8 * tensor->lanes;
}

static bool has_batch(const struct gpud_tensors *tensors, uint32_t at)
{
    return tensors->batch >> at & 1;
}

/* The end of a tensor in its frame, behind the last stride of a batch. false: beyond 64 bits, or a
 * batch whose parts overlap. */
static bool find_end(const struct gpud_tensors *tensors, uint32_t at, uint64_t *end)
{
    const struct gpud_tensor *tensor = &tensors->tensor[at];
    uint64_t elements = 1, step;
    for (uint32_t i = tensor->dimensions; i-- > 0;) {
        uint64_t steps = tensor->size[i] - UINT64_C(1);
        if (i == 0 && has_batch(tensors, at)) {
            if (elements > tensor->stride[0])
                return false;
            steps = tensor->size[0];
            elements = 0;
        }
        if (__builtin_mul_overflow(steps, (uint64_t)tensor->stride[i], &step) ||
            __builtin_add_overflow(elements, step, &elements))
            return false;
    }
    return !__builtin_mul_overflow(elements, element_bytes(tensor), &step) &&
           !__builtin_add_overflow(step, tensor->offset, end);
}

/* The stride of a dimension where all elements lie one after the other; at most UINT32_MAX. */
static uint32_t packed_stride(const struct gpud_tensor *tensor, uint32_t dimension)
{
    uint64_t stride = 1;
    for (uint32_t i = dimension + 1; i < tensor->dimensions && stride <= UINT32_MAX; i++)
        stride *= tensor->size[i];
    return stride <= UINT32_MAX ? (uint32_t)stride : UINT32_MAX;
}

/* Behind the tensor before it; what is too far is refused by its end. */
static uint64_t packed_offset(const struct gpud_tensors *tensors, uint32_t at)
{
    uint64_t end = 0;
    return at > 0 && find_end(tensors, at - 1, &end) ? end : 0;
}

/* The tensor of a batch that lies last: how far a frame reaches into it says how large its batch
 * is. NULL: all frames are whole. */
static const struct gpud_tensor *last_of_batch(const struct gpud_tensors *tensors)
{
    const struct gpud_tensor *last = NULL;
    for (uint32_t i = 0; i < tensors->count && i < GPUD_TENSORS_MAX; i++)
        if (has_batch(tensors, i) && (!last || tensors->tensor[i].offset >= last->offset))
            last = &tensors->tensor[i];
    return last;
}

static uint64_t tensors_size(const struct gpud_tensors *tensors)
{
    uint64_t size = 0, end;
    for (uint32_t i = 0; i < tensors->count; i++)
        if (find_end(tensors, i, &end) && end > size)
            size = end;
    return size;
}

/* === members and fields ====================================================================== */

static const struct gpud_media_member tensor_members[] = {
    GPUD_MEDIA_TEXT(tensors.tensor[0].name),
    GPUD_MEDIA_NUMBER(tensors.tensor[0].code, 0),
    GPUD_MEDIA_NUMBER(tensors.tensor[0].bits, 0),
    GPUD_MEDIA_NUMBER(tensors.tensor[0].lanes, 0),
    GPUD_MEDIA_NUMBER(tensors.tensor[0].dimensions, GPUD_TENSOR_DIMENSIONS_MAX),
    GPUD_MEDIA_NUMBERS(tensors.tensor[0].size, 0),
    GPUD_MEDIA_NUMBERS(tensors.tensor[0].stride, 0),
    GPUD_MEDIA_NUMBER(tensors.tensor[0].offset, 0),
};
static const struct gpud_media_list list = GPUD_MEDIA_LIST(tensors.tensor, tensor_members);

static const struct gpud_media_member members[] = {
    GPUD_MEDIA_COUNT(tensors.count, tensors.tensor, &list),
    GPUD_MEDIA_NUMBER(tensors.batch, 0),
    GPUD_MEDIA_NUMBER(tensors.rate.num, INT32_MAX),
    GPUD_MEDIA_NUMBER(tensors.rate.den, INT32_MAX),
};

/* A field with something of each tensor. */
struct items {
    const char *separators;
    bool (*read)(const char *item, struct gpud_tensor *tensor);
    /* Whether it says what is not the same without the field. */
    bool (*write)(const struct gpud_tensors *tensors, uint32_t at, char item[ITEM_MAX]);
};

static bool read_items(const struct gpud_media_field *field, const char *value, void *part)
{
    const struct items *items = field->detail;
    struct gpud_tensors read = *(const struct gpud_tensors *)part;
    for (uint32_t i = 0; i < GPUD_TENSORS_MAX; i++) {
        char item[ITEM_MAX];
        size_t length = strcspn(value, items->separators);
        gpud_print_n(item, sizeof(item), "%.*s", (int)length, value);
        if (length >= sizeof(item) || !items->read(item, &read.tensor[i]))
            return false;
        value += length;
        if (!*value) {
            *(struct gpud_tensors *)part = read;
            return true;
        }
        value += 1 + strspn(value + 1, " ");
    }
    return false;
}

static bool write_items(const struct gpud_media_field *field, const void *part,
                        char value[GPUD_VALUE_MAX])
{
    const struct items *items = field->detail;
    const struct gpud_tensors *tensors = part;
    bool says = false;
    size_t used = 0;
    for (uint32_t i = 0; i < tensors->count; i++) {
        char item[ITEM_MAX];
        says |= items->write(tensors, i, item);
        used +=
            (size_t)gpud_print_n(value + used, GPUD_VALUE_MAX - used, "%s%s", i ? "," : "", item);
    }
    return says;
}
_Static_assert(GPUD_TENSORS_MAX *ITEM_MAX <= GPUD_VALUE_MAX, "items fit into a value");

static const struct gpud_media_form form_items = {"string", read_items, write_items};

/* The numbers of the dimensions, from the last one to the first, as NNStreamer has them. */
static uint32_t read_dimensions(const char *item, uint32_t to[GPUD_TENSOR_DIMENSIONS_MAX])
{
    uint32_t numbers[GPUD_TENSOR_DIMENSIONS_MAX], count = 1;
    for (const char *at = item; *at; at++)
        count += *at == ':';
    if (count > GPUD_TENSOR_DIMENSIONS_MAX ||
        !gpud_text_read_numbers(item, 10, false, numbers, count))
        return 0;
    for (uint32_t i = 0; i < count; i++)
        to[i] = numbers[count - 1 - i];
    return count;
}

static void write_dimensions(const uint32_t *numbers, uint32_t count, char item[ITEM_MAX])
{
    int used = 0;
    for (uint32_t i = count; i-- > 0;)
        used +=
            gpud_print_n(item + used, ITEM_MAX - (size_t)used, "%u%s", numbers[i], i ? ":" : "");
}

static bool read_size(const char *item, struct gpud_tensor *tensor)
{
    tensor->dimensions = read_dimensions(item, tensor->size);
    return tensor->dimensions > 0;
}

static bool write_size(const struct gpud_tensors *tensors, uint32_t at, char item[ITEM_MAX])
{
    write_dimensions(tensors->tensor[at].size, tensors->tensor[at].dimensions, item);
    return true;
}

static bool read_stride(const char *item, struct gpud_tensor *tensor)
{
    return read_dimensions(item, tensor->stride) > 0;
}

static bool write_stride(const struct gpud_tensors *tensors, uint32_t at, char item[ITEM_MAX])
{
    const struct gpud_tensor *tensor = &tensors->tensor[at];
    bool packed = true;
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        packed = packed && tensor->stride[i] == packed_stride(tensor, i);
    write_dimensions(tensor->stride, tensor->dimensions, item);
    return !packed;
}

static bool read_name(const char *item, struct gpud_tensor *tensor)
{
    gpud_print(tensor->name, "%s", item);
    return strlen(item) < sizeof(tensor->name);
}

static bool write_name(const struct gpud_tensors *tensors, uint32_t at, char item[ITEM_MAX])
{
    gpud_print_n(item, ITEM_MAX, "%s", tensors->tensor[at].name);
    return item[0] != '\0';
}

static bool read_offset(const char *item, struct gpud_tensor *tensor)
{
    uint32_t offset = 0;
    bool good = gpud_text_read_numbers(item, 10, false, &offset, 1);
    tensor->offset = offset;
    return good;
}

static bool write_offset(const struct gpud_tensors *tensors, uint32_t at, char item[ITEM_MAX])
{
    gpud_print_n(item, ITEM_MAX, "%llu", (unsigned long long)tensors->tensor[at].offset);
    return tensors->tensor[at].offset != packed_offset(tensors, at);
}

static const struct items sizes = {",.", read_size, write_size};
static const struct items kinds = {",.", read_type, write_type};
static const struct items names = {",", read_name, write_name};
static const struct items strides = {",.", read_stride, write_stride};
static const struct items offsets = {",.", read_offset, write_offset};

static bool read_format(const struct gpud_media_field *field, const char *value, void *part)
{
    return strcmp(value, "static") == 0;
}

static bool write_format(const struct gpud_media_field *field, const void *part,
                         char value[GPUD_VALUE_MAX])
{
    gpud_print_n(value, GPUD_VALUE_MAX, "static");
    return true;
}

static const struct gpud_media_form form_format = {"string", read_format, write_format};

static const struct gpud_media_field fields[] = {
    {"format", &form_format, AT(count), NULL},
    {"num_tensors", &gpud_form_number, AT(count), NULL},
    {"dimensions", &form_items, offsetof(struct gpud_media, tensors), &sizes},
    {"types", &form_items, offsetof(struct gpud_media, tensors), &kinds},
    {"framerate", &gpud_form_rate, AT(rate), NULL},
    {"names", &form_items, offsetof(struct gpud_media, tensors), &names},
    {"strides", &form_items, offsetof(struct gpud_media, tensors), &strides},
    {"offsets", &form_items, offsetof(struct gpud_media, tensors), &offsets},
    {"batch", &gpud_form_mask, AT(batch), NULL},
};

/* === the kind ================================================================================ */

/* Tensors of other formats are described in each of their frames, and are data. */
static bool has_type(const char *type, const char *text)
{
    return strcmp(type, TYPE) == 0 && gpud_text_has(text, "format", "static");
}

static const char *tensors_get_type(const struct gpud_media *media)
{
    return TYPE;
}

static bool is_zero(const uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (numbers[i])
            return false;
    return true;
}

/* Without strides and offsets all lies one after the other. */
static void tensors_complete(struct gpud_media *media, const char *type)
{
    struct gpud_tensors *tensors = &media->tensors;
    bool placed = false;
    while (tensors->count < GPUD_TENSORS_MAX && tensors->tensor[tensors->count].dimensions)
        tensors->count++;
    for (uint32_t i = 0; i < tensors->count && i < GPUD_TENSORS_MAX; i++) {
        struct gpud_tensor *tensor = &tensors->tensor[i];
        placed |= tensor->offset != 0;
        if (is_zero(tensor->stride, GPUD_TENSOR_DIMENSIONS_MAX))
            for (uint32_t k = 0; k < tensor->dimensions; k++)
                tensor->stride[k] = packed_stride(tensor, k);
    }
    for (uint32_t i = 1; !placed && i < tensors->count && i < GPUD_TENSORS_MAX; i++)
        tensors->tensor[i].offset = packed_offset(tensors, i);
}

static enum gpud_status check_tensor(const struct gpud_tensors *tensors, uint32_t at,
                                     struct gpud_error *error)
{
    const struct gpud_tensor *tensor = &tensors->tensor[at];
    uint32_t dimensions = tensor->dimensions, unused = GPUD_TENSOR_DIMENSIONS_MAX - dimensions;
    uint64_t end;
    if (!type_name(tensor) || tensor->lanes < 1)
        return gpud_fail(error, GPUD_INVALID,
                         "tensor %u is of the type {%u, %u, %u} (DLPack's code, bits and lanes): "
                         "types as int8, float32 and bfloat16 can be sent, of whole bytes",
                         at, tensor->code, tensor->bits, tensor->lanes);
    if (tensor->name[0] && !gpud_text_is_name(tensor->name))
        return gpud_fail(error, GPUD_INVALID,
                         "tensor %u has the name \"%s\": letters, digits and /-_.:+ are possible, "
                         "from a letter on",
                         at, tensor->name);
    for (uint32_t i = 0; i < at; i++)
        if (tensor->name[0] && strcmp(tensor->name, tensors->tensor[i].name) == 0)
            return gpud_fail(error, GPUD_INVALID, "two tensors have the name \"%s\"", tensor->name);
    for (uint32_t i = 0; i < dimensions; i++)
        if (!tensor->size[i] || !tensor->stride[i])
            return gpud_fail(error, GPUD_INVALID,
                             "dimension %u of tensor %u has the size %u and the stride %u: neither "
                             "can be 0",
                             i, at, tensor->size[i], tensor->stride[i]);
    if (dimensions < 1 || !is_zero(tensor->size + dimensions, unused) ||
        !is_zero(tensor->stride + dimensions, unused))
        return gpud_fail(error, GPUD_INVALID,
                         "tensor %u has %u dimensions and sizes or strides of another number", at,
                         dimensions);
    if (!find_end(tensors, at, &end) || end > UINT32_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "tensor %u does not end within the %u bytes that a frame of tensors can "
                         "have, or the parts of its batch overlap",
                         at, UINT32_MAX);
    return GPUD_OK;
}

static enum gpud_status tensors_check(const struct gpud_media *media, struct gpud_error *error)
{
    const struct gpud_tensors *tensors = &media->tensors;
    enum gpud_status status = GPUD_OK;
    uint64_t end;
    if (tensors->count < 1)
        return gpud_fail(error, GPUD_INVALID, "no tensors: 1 to %d are possible", GPUD_TENSORS_MAX);
    if (tensors->count < GPUD_TENSORS_MAX &&
        (tensors->batch >> tensors->count || tensors->tensor[tensors->count].dimensions))
        return gpud_fail(error, GPUD_INVALID, "%u tensors, and something is said of more",
                         tensors->count);
    if (tensors->rate.num && !tensors->rate.den)
        return gpud_fail(error, GPUD_INVALID, "tensors with a rate of %u/0", tensors->rate.num);
    for (uint32_t i = 0; i < tensors->count && status == GPUD_OK; i++)
        status = check_tensor(tensors, i, error);
    const struct gpud_tensor *last = last_of_batch(tensors);
    for (uint32_t i = 0; last && i < tensors->count && status == GPUD_OK; i++) {
        const struct gpud_tensor *tensor = &tensors->tensor[i];
        if (has_batch(tensors, i) && tensor->size[0] != last->size[0])
            status = gpud_fail(error, GPUD_INVALID,
                               "the batches of a frame's tensors have up to %u and %u parts: they "
                               "must be equal",
                               tensor->size[0], last->size[0]);
        else if (tensor != last && (!find_end(tensors, i, &end) || end > last->offset))
            status = gpud_fail(error, GPUD_INVALID,
                               "tensor %u does not end before the last one that has a batch: those "
                               "of fixed sizes come first",
                               i);
    }
    return status;
}

static void tensors_get_layout(const struct gpud_media *media, struct gpud_layout *layout)
{
    gpud_media_fill_layout(layout, "tensors", tensors_size(&media->tensors));
}

static void get_units(const struct gpud_media *media, struct gpud_media_units *units)
{
    const struct gpud_tensor *last = last_of_batch(&media->tensors);
    if (last)
        *units = (struct gpud_media_units){
            .first = last->offset,
            .unit = (uint32_t)(last->stride[0] * element_bytes(last)),
            .may_be_none = last->offset == 0,
        };
}

static uint64_t get_duration(const struct gpud_media *media, uint64_t bytes)
{
    const struct gpud_fraction *rate = &media->tensors.rate;
    return rate->num ? (uint64_t)GPUD_SEC * rate->den / rate->num : 0;
}

const struct gpud_media_kind_ops gpud_media_tensor = {
    .name = "tensors",
    .members = members,
    .member_count = sizeof(members) / sizeof(members[0]),
    .fields = fields,
    .field_count = sizeof(fields) / sizeof(fields[0]),
    .has_type = has_type,
    .complete = tensors_complete,
    .get_type = tensors_get_type,
    .check = tensors_check,
    .get_layout = tensors_get_layout,
    .get_units = get_units,
    .get_duration = get_duration,
};

/* === the public calls ======================================================================== */

uint64_t gpud_tensors_get_bytes(const struct gpud_tensors *tensors, uint32_t batch)
{
    const struct gpud_tensor *last = last_of_batch(tensors);
    if (!last)
        return batch == 0 ? tensors_size(tensors) : 0;
    if (batch > last->size[0])
        return 0;
    uint64_t part = last->stride[0] * element_bytes(last), bytes = last->offset + batch * part;
    return bytes ? bytes : part > 1;
}

uint32_t gpud_tensors_get_batch(const struct gpud_tensors *tensors, uint64_t bytes)
{
    const struct gpud_tensor *last = last_of_batch(tensors);
    uint64_t part = last ? last->stride[0] * element_bytes(last) : 0;
    return part && bytes > last->offset ? (uint32_t)((bytes - last->offset) / part) : 0;
}

#define ALL_MAX (GPUD_TENSORS_MAX * 2 * ITEM_MAX)

void gpud_tensors_to_string(const struct gpud_tensors *tensors, char *text, size_t size)
{
    char all[ALL_MAX] = "", item[ITEM_MAX];
    size_t used = 0;
    for (uint32_t i = 0; i < tensors->count && i < GPUD_TENSORS_MAX; i++) {
        const struct gpud_tensor *tensor = &tensors->tensor[i];
        write_type(tensors, i, item);
        used += (size_t)gpud_print_n(all + used, ALL_MAX - used, "%s%s", i ? ", " : "", item);
        for (uint32_t k = 0; k < tensor->dimensions && k < GPUD_TENSOR_DIMENSIONS_MAX; k++)
            used += (size_t)gpud_print_n(all + used, ALL_MAX - used, "%s%u", k ? "x" : " ",
                                         tensor->size[k]);
        if (tensor->name[0])
            used += (size_t)gpud_print_n(all + used, ALL_MAX - used, " \"%.*s\"",
                                         (int)sizeof(tensor->name), tensor->name);
    }
    gpud_print_n(text, size, "%s", all);
}
