/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The written map: a file beside the object's own, /dev/shm/gpudirect-dgma-UID-SLOT-written, made
 * by an owner that keeps a copy. Any number of writers set bits; only the owner clears them. */

#include "written.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "next.h"

struct dgma_written {
    _Atomic uint32_t begun, done; /* counts of WriteSignals; different: one runs, or has died */
    _Atomic uint32_t value;       /* the value that the last one writes */
    uint32_t unused[13];
    _Atomic uint64_t bits[];
};

struct map_name {
    char text[96];
};

static struct map_name name_of(const char *path)
{
    struct map_name name;
    snprintf(name.text, sizeof name.text, "%s-written", path);
    return name;
}

static size_t surface_of(const struct dgma_object *object)
{
    return object->total - DGMA_PAGE;
}

static size_t size_of(const struct dgma_object *object)
{
    size_t size = sizeof(struct dgma_written) + surface_of(object) / 8;
    return (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
}

static int map_file(struct dgma_object *object, int fd)
{
    void *map = mmap(NULL, size_of(object), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return errno;
    object->written = map;
    return 0;
}

int dgma_written_create(struct dgma_object *object, const char *path)
{
    struct map_name name = name_of(path);
    unlink(name.text); /* the slot is ours, so an existing file is stale */
    int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = fchmod(fd, 0600) ? errno : 0;
    if (!error)
        do
            error = posix_fallocate(fd, 0, (off_t)size_of(object));
        while (error == EINTR);
    if (!error)
        error = map_file(object, fd);
    close(fd);
    if (error)
        unlink(name.text);
    return error;
}

void dgma_written_open(struct dgma_object *object, const char *path)
{
    struct stat st;
    int fd = open(name_of(path).text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0 && st.st_size == (off_t)size_of(object))
        map_file(object, fd);
    close(fd);
}

void dgma_written_unlink(const char *path)
{
    unlink(name_of(path).text);
}

void dgma_written_close(struct dgma_object *object)
{
    if (object->written)
        munmap(object->written, size_of(object));
}

static void add_range(struct dgma_written *written, size_t at, size_t length)
{
    while (length > 0) {
        size_t bit = at % 64, count = length < 64 - bit ? length : 64 - bit;
        uint64_t mask = (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << bit;
        if (count == 64)
            atomic_store_explicit(&written->bits[at / 64], mask, memory_order_release);
        else
            atomic_fetch_or_explicit(&written->bits[at / 64], mask, memory_order_release);
        at += count;
        length -= count;
    }
}

void dgma_written_add(struct dgma_object *object, size_t at, const struct dgma_box *box)
{
    size_t surface = surface_of(object);
    for (size_t slice = 0; object->written && slice < box->slices; slice++)
        for (size_t row = 0; row < box->rows; row++) {
            size_t from = at + box->offset + slice * box->slice_pitch + row * box->row_pitch;
            if (from < surface)
                add_range(object->written, from,
                          box->width < surface - from ? box->width : surface - from);
        }
}

void dgma_written_begin_signal(struct dgma_object *object, uint32_t value)
{
    if (!object->written)
        return;
    atomic_fetch_add(&object->written->begun, 1);
    atomic_store(&object->written->value, value);
}

void dgma_written_end_signal(struct dgma_object *object)
{
    if (object->written)
        atomic_fetch_add(&object->written->done, 1);
}

bool dgma_written_is_foreign(const struct dgma_object *object, const _Atomic uint32_t *marker,
                             uint32_t *seen)
{
    const struct dgma_written *written = object->written;
    uint32_t done = atomic_load(&written->done);
    uint32_t now = atomic_load(marker), said = atomic_load(&written->value);
    bool quiet = atomic_load(&written->begun) == done; /* then the three are consistent */
    bool foreign = quiet && now != *seen && now != said;
    *seen = now;
    return foreign;
}

bool dgma_written_is_empty(const struct dgma_object *object, const _Atomic uint32_t *marker,
                           uint32_t seen)
{
    if (dgma_written_is_foreign(object, marker, &seen))
        return false;
    for (size_t word = 0; word < surface_of(object) / 64; word++)
        if (atomic_load_explicit(&object->written->bits[word], memory_order_acquire))
            return false;
    return true;
}

cl_int dgma_written_take(struct dgma_object *object,
                         cl_int (*give)(void *user_data, size_t offset, size_t length),
                         void *user_data)
{
    size_t words = surface_of(object) / 64, start = 0, end = 0; /* the range so far */
    cl_int status = CL_SUCCESS;
    for (size_t word = 0; word < words && status == CL_SUCCESS; word++) {
        _Atomic uint64_t *at = &object->written->bits[word];
        uint64_t bits = atomic_load_explicit(at, memory_order_relaxed);
        if (bits)
            bits = atomic_exchange_explicit(at, 0, memory_order_acquire);
        while (bits && status == CL_SUCCESS) {
            unsigned first = (unsigned)__builtin_ctzll(bits);
            uint64_t rest = ~(bits >> first);
            unsigned count = rest ? (unsigned)__builtin_ctzll(rest) : 64;
            if (word * 64 + first != end) {
                if (end > start)
                    status = give(user_data, start, end - start);
                start = word * 64 + first;
            }
            end = word * 64 + first + count;
            bits = first + count < 64 ? bits >> (first + count) << (first + count) : 0;
        }
    }
    if (end > start && status == CL_SUCCESS)
        status = give(user_data, start, end - start);
    return status;
}
