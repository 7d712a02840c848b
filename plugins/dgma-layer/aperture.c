/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The aperture: a real card exposes only a small window of its memory on the bus, to which programs
 * size their rings. So the layer has one, too: GPUDIRECT_DGMA_APERTURE, per device and process. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "aperture.h"
#include "next.h"

#define MIB ((size_t)1 << 20)
#define DEFAULT_APERTURE (96 * MIB)
#define LARGEST_APERTURE ((size_t)3072 * MIB) /* an object has to fit between two bus addresses */

struct dgma_aperture {
    cl_device_id device;
    size_t used;
    struct dgma_aperture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_aperture *apertures;
static size_t limit;

/* "96M", "1G", "512K" or bytes; 0: not a size. */
static size_t parse_size(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-')
        return 0;
    unsigned shift = 0;
    switch (*end) {
    case 'K':
    case 'k':
        shift = 10;
        end++;
        break;
    case 'M':
    case 'm':
        shift = 20;
        end++;
        break;
    case 'G':
    case 'g':
        shift = 30;
        end++;
        break;
    }
    if (*end != '\0' || number > LARGEST_APERTURE >> shift)
        return 0;
    return (size_t)number << shift;
}

static void read_limit(void)
{
    const char *text = getenv("GPUDIRECT_DGMA_APERTURE");
    limit = DEFAULT_APERTURE;
    if (!text || !*text)
        return;
    size_t size = parse_size(text);
    if (size > MIB)
        limit = size;
    else
        dgma_log(
            "GPUDIRECT_DGMA_APERTURE=%s is no size above 1M and up to 3G (like 96M): 96M is used",
            text);
}

static struct dgma_aperture *aperture_of(cl_device_id device)
{
    struct dgma_aperture *aperture = apertures;
    while (aperture && aperture->device != device)
        aperture = aperture->next;
    if (aperture)
        return aperture;
    aperture = calloc(1, sizeof *aperture);
    if (!aperture)
        return NULL;
    aperture->device = device;
    aperture->next = apertures;
    apertures = aperture;
    return aperture;
}

static void log_no_room(size_t size, size_t left)
{
    dgma_log("a bus addressable buffer of %zu bytes does not fit: the aperture has %zu of %zu "
             "bytes left and takes buffers up to %zu; use fewer or smaller buffers or raise "
             "GPUDIRECT_DGMA_APERTURE",
             size, left, limit, limit - MIB);
}

/* Under the lock. NULL: it does not fit, and `*left` is raised to the space that is left. */
static struct dgma_aperture *fitting(cl_device_id device, size_t size, size_t bytes, size_t *left)
{
    if (!limit)
        read_limit();
    struct dgma_aperture *aperture = aperture_of(device);
    if (!aperture)
        return NULL;
    if (*left < limit - aperture->used)
        *left = limit - aperture->used;
    return size <= limit - MIB && bytes <= limit - aperture->used ? aperture : NULL;
}

bool dgma_aperture_has_room(const cl_device_id *devices, cl_uint count, size_t size, size_t bytes)
{
    bool room = false;
    size_t left = 0;
    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < count && !room; i++)
        room = fitting(devices[i], size, bytes, &left) != NULL;
    pthread_mutex_unlock(&lock);
    if (!room)
        log_no_room(size, left);
    return room;
}

bool dgma_aperture_book(struct dgma_aperture **booked, cl_device_id device, size_t size,
                        size_t bytes)
{
    size_t left = 0;
    pthread_mutex_lock(&lock);
    struct dgma_aperture *aperture = *booked ? NULL : fitting(device, size, bytes, &left);
    if (aperture) {
        aperture->used += bytes;
        *booked = aperture;
    }
    bool has = *booked != NULL;
    pthread_mutex_unlock(&lock);
    if (!has)
        log_no_room(size, left);
    return has;
}

void dgma_aperture_give(struct dgma_aperture *aperture, size_t bytes)
{
    if (!aperture)
        return;
    pthread_mutex_lock(&lock);
    aperture->used -= bytes;
    pthread_mutex_unlock(&lock);
}
