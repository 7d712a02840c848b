/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A memory or a signal as sent to another process. Secret: never logged. */
#ifndef GPUD_DEVICE_HANDLE_H
#define GPUD_DEVICE_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#define GPUD_HANDLE_WORDS 9

/* The numbers on the wire, assigned here so that none is used twice. The backend that makes a kind
 * of handle declares its parts (gpud_device_ops.handles). */
enum gpud_handle_type {
    GPUD_HANDLE_NONE = 0,
    GPUD_HANDLE_LOCAL = 1,       /* word[0] = the process's token, word[1] = the id in its table */
    GPUD_HANDLE_MEMFD = 2,       /* fd */
    GPUD_HANDLE_BUS_ADDRESS = 3, /* word[0] = surface, word[1] = marker */
    GPUD_HANDLE_CUDA_FD = 4,     /* fd of a physical allocation; word[0] = its size */
    GPUD_HANDLE_CUDA_IPC = 5,    /* word[0] = offset from the base; word[1…8] = the IPC handle */
    GPUD_HANDLE_NETWORK = 6,     /* word[0] = address, word[1] = key: for a network card to write */
    GPUD_HANDLE_HIP_FD = 7,      /* as CUDA_FD */
    GPUD_HANDLE_HIP_IPC = 8,     /* as CUDA_IPC */
    GPUD_HANDLE_VULKAN_FD = 9,   /* fd of an allocation; its words are those of Vulkan below */
    GPUD_HANDLE_TYPES
};

/* The words of GPUD_HANDLE_VULKAN_FD, which CUDA reads as well. */
enum gpud_vulkan_word {
    GPUD_VULKAN_SIZE,  /* of the buffer */
    GPUD_VULKAN_BYTES, /* of the allocation */
    GPUD_VULKAN_TYPE,  /* of memory */
    GPUD_VULKAN_DEVICE_UUID,
    GPUD_VULKAN_DRIVER_UUID = GPUD_VULKAN_DEVICE_UUID + 2,
    GPUD_VULKAN_DEDICATED = GPUD_VULKAN_DRIVER_UUID + 2, /* 1: the allocation is the buffer's own */
    GPUD_VULKAN_WORDS
};

struct gpud_handle {
    uint32_t type; /* enum gpud_handle_type */
    int fd;        /* -1: none */
    bool keep;     /* not sent; the importer keeps a descriptor, for gpud_memory_export_vulkan() */
    uint64_t size; /* in bytes, as the exporter claims */
    uint64_t word[GPUD_HANDLE_WORDS];
};

struct gpud_handle_kind {
    uint32_t type;   /* enum gpud_handle_type */
    uint32_t words;  /* of gpud_handle.word, from the first */
    bool attachment; /* a descriptor is sent with it */
};

/* The kind with this number; NULL: no backend of this build declares it. */
const struct gpud_handle_kind *gpud_handle_find_kind(uint32_t type);

#endif
