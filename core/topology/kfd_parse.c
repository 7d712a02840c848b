/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parses the "key number" lines of amdkfd's files. */
#include "topology/kfd.h"

#include <string.h>

/* Not strtoull(): it accepts blanks, signs and other bases, and the text is not terminated. */
static bool read_number(const char *text, size_t size, uint64_t max, uint64_t *value)
{
    uint64_t number = 0;
    if (size == 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    }
    if (number > max)
        return false;
    *value = number;
    return true;
}

bool gpud_kfd_find_value(const char *text, size_t size, const char *key, uint64_t max,
                         uint64_t *value)
{
    size_t length = strlen(key);
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        size_t rest = end ? (size_t)(end - line) : size - at;
        at += rest + 1;
        if (end && rest > length && line[length] == ' ' && memcmp(line, key, length) == 0)
            return read_number(line + length + 1, rest - length - 1, max, value);
    }
    return false; /* a line without a newline was cut, perhaps inside the number */
}

struct field {
    const char *key;
    uint64_t max;
    uint64_t value;
    bool needed;
};

/* Optional fields are 0 where they are missing. */
static bool read_fields(const char *text, size_t size, struct field *fields, size_t count,
                        char why[GPUD_REASON_MAX])
{
    for (size_t i = 0; i < count; i++) {
        fields[i].value = 0;
        if (!gpud_kfd_find_value(text, size, fields[i].key, fields[i].max, &fields[i].value) &&
            fields[i].needed) {
            gpud_print_n(why, GPUD_REASON_MAX, "it has no line \"%s\" with a number up to %llu",
                         fields[i].key, (unsigned long long)fields[i].max);
            return false;
        }
    }
    return true;
}

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

bool gpud_kfd_parse_node(const char *text, size_t size, struct gpud_kfd_node *node,
                         char why[GPUD_REASON_MAX])
{
    enum { SIMDS, VENDOR, DEVICE, LOCATION, DOMAIN, RENDER, GFX, HIVE };
    struct field fields[] = {
        [SIMDS] = {"simd_count", UINT32_MAX, .needed = true},
        [VENDOR] = {"vendor_id", UINT32_MAX},
        [DEVICE] = {"device_id", UINT32_MAX},
        [LOCATION] = {"location_id", UINT32_MAX},
        [DOMAIN] = {"domain", UINT32_MAX},
        [RENDER] = {"drm_render_minor", UINT32_MAX},
        [GFX] = {"gfx_target_version", UINT32_MAX},
        [HIVE] = {"hive_id", UINT64_MAX},
    };
    if (!read_fields(text, size, fields, COUNT(fields), why))
        return false;
    /* An old APU is processors and a GPU in one node, without a PCI address. */
    bool gpu = fields[SIMDS].value > 0 && fields[LOCATION].value > 0;
    if (gpu && (fields[LOCATION].value > 0xffff || fields[DOMAIN].value > 0xfffffff)) {
        gpud_print_n(why, GPUD_REASON_MAX, "its location_id %llu in domain %llu is no place on PCI",
                     (unsigned long long)fields[LOCATION].value,
                     (unsigned long long)fields[DOMAIN].value);
        return false;
    }
    node->gpu = gpu;
    node->vendor = (uint32_t)fields[VENDOR].value;
    node->device = (uint32_t)fields[DEVICE].value;
    node->location = (uint32_t)fields[LOCATION].value;
    node->domain = (uint32_t)fields[DOMAIN].value;
    node->render_minor = (uint32_t)fields[RENDER].value;
    node->gfx = (uint32_t)fields[GFX].value;
    node->hive = fields[HIVE].value;
    if (gpu)
        gpud_print(node->pci, "%04x:%02x:%02x.%x", node->domain, node->location >> 8,
                   node->location >> 3 & 0x1f, node->location & 7);
    return true;
}

bool gpud_kfd_parse_link(const char *text, size_t size, struct gpud_kfd_link *link,
                         char why[GPUD_REASON_MAX])
{
    enum { TYPE, FROM, TO, WEIGHT, MIN, MAX, FLAGS };
    struct field fields[] = {
        [TYPE] = {"type", UINT32_MAX, .needed = true},
        [FROM] = {"node_from", UINT32_MAX, .needed = true},
        [TO] = {"node_to", UINT32_MAX, .needed = true},
        [WEIGHT] = {"weight", UINT32_MAX},
        [MIN] = {"min_bandwidth", UINT32_MAX},
        [MAX] = {"max_bandwidth", UINT32_MAX},
        [FLAGS] = {"flags", UINT32_MAX, .needed = true},
    };
    if (!read_fields(text, size, fields, COUNT(fields), why))
        return false;
    if (fields[FROM].value == fields[TO].value) {
        gpud_print_n(why, GPUD_REASON_MAX, "it leads from node %u to itself",
                     (unsigned)fields[TO].value);
        return false;
    }
    link->type = (uint32_t)fields[TYPE].value;
    link->from = (uint32_t)fields[FROM].value;
    link->to = (uint32_t)fields[TO].value;
    link->weight = (uint32_t)fields[WEIGHT].value;
    link->min_bandwidth = (uint32_t)fields[MIN].value;
    link->max_bandwidth = (uint32_t)fields[MAX].value;
    link->flags = (uint32_t)fields[FLAGS].value;
    return true;
}

#define HEAP_VISIBLE 1
#define HEAP_PRIVATE 2

bool gpud_kfd_parse_bank(const char *text, size_t size, struct gpud_kfd_node *node,
                         char why[GPUD_REASON_MAX])
{
    struct field fields[] = {
        {"heap_type", UINT32_MAX, .needed = true},
        {"size_in_bytes", UINT64_MAX, .needed = true},
    };
    if (!read_fields(text, size, fields, COUNT(fields), why))
        return false;
    uint64_t *sum = fields[0].value == HEAP_VISIBLE   ? &node->visible
                    : fields[0].value == HEAP_PRIVATE ? &node->hidden
                                                      : NULL;
    if (sum && __builtin_add_overflow(*sum, fields[1].value, sum)) {
        *sum = UINT64_MAX;
        gpud_print_n(why, GPUD_REASON_MAX, "its memory is more than there can be");
        return false;
    }
    return true;
}
