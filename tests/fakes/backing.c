/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pages of a device, in memfds. The name of a memfd distinguishes the driver's memory from other
 * files that are passed as such. */

#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "fake-cuda"
#define POISONED ((size_t)8 << 20)

static CUresult map(struct backing *backing)
{
    struct stat status;
    if (fstat(backing->fd, &status) || (size_t)status.st_size != backing->size)
        return refuse(CUDA_ERROR_INVALID_VALUE, "the memory is not of the size that it says");
    backing->key = status.st_ino;
    void *cpu = mmap(NULL, backing->size, PROT_READ | PROT_WRITE, MAP_SHARED, backing->fd, 0);
    if (cpu == MAP_FAILED)
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "mmap of %zu bytes: %m", backing->size);
    backing->cpu = cpu;
    account_add(backing);
    return CUDA_SUCCESS;
}

static struct backing *new (int fd, CUdevice device, size_t size)
{
    struct backing *backing = calloc(1, sizeof *backing);
    if (!backing)
        return NULL;
    backing->fd = fd;
    backing->device = device;
    backing->size = size;
    backing->references = 1;
    return backing;
}

static CUresult finish(struct backing *backing, struct backing **out)
{
    CUresult result = map(backing);
    if (result == CUDA_SUCCESS) {
        *out = backing;
    } else {
        close(backing->fd);
        free(backing);
    }
    return result;
}

CUresult backing_create(char kind, CUdevice device, size_t size, struct backing **out)
{
    char name[64];
    if (size > fake.memory || account_used(device) > fake.memory - size)
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes more than %zu of %zu", size,
                      account_used(device), fake.memory);
    snprintf(name, sizeof name, NAME "-%c:%d:%zu:", kind, fake.physical[device], size);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "memfd_create: %m");
    struct backing *backing = NULL;
    if (ftruncate(fd, (off_t)size) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
        !(backing = new (fd, device, size))) {
        close(fd);
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "a memfd of %zu bytes: %m", size);
    }
    CUresult result = finish(backing, out);
    /* Callers must not rely on zeros. */
    if (result == CUDA_SUCCESS)
        memset(backing->cpu, 0xa5, size < POISONED ? size : POISONED);
    return result;
}

CUresult backing_import(char kind, int fd, struct backing **out)
{
    return backing_import_named(NAME, kind, fd, out);
}

CUresult backing_import_named(const char *maker, char kind, int fd, struct backing **out)
{
    char path[64], name[128], wanted[64], found;
    int physical;
    size_t size, start = (size_t)snprintf(wanted, sizeof wanted, "/memfd:%s-", maker);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    name[length > 0 ? length : 0] = '\0';
    /* O_NONBLOCK is how a dma-buf differs here, see cuMemGetHandleForAddressRange. */
    if (strncmp(name, wanted, start) != 0 ||
        sscanf(name + start, "%c:%d:%zu:", &found, &physical, &size) != 3 || found != kind ||
        (fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) != O_RDWR) {
        close(fd);
        return refuse(CUDA_ERROR_UNKNOWN, "a file that is no exported memory: %s", name);
    }
    CUdevice device = visible_device(physical);
    struct backing *backing = device >= 0 ? new (fd, device, size) : NULL;
    if (!backing) {
        close(fd);
        return refuse(CUDA_ERROR_INVALID_DEVICE, "memory of device %d, which is not visible",
                      physical);
    }
    return finish(backing, out);
}

void backing_unref(struct backing *backing)
{
    if (!backing || --backing->references > 0)
        return;
    account_remove(backing);
    munmap(backing->cpu, backing->size);
    close(backing->fd);
    free(backing);
}
