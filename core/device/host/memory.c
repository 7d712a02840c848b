/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Host memory: anonymous pages for ourselves, sealed memfds for others. */
#include "base/base.h"
#include "device/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static enum gpud_status alloc_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct host_memory *host = malloc(sizeof(*host));
    if (!host)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    *host = (struct host_memory){.fd = -1, .dmabuf = -1, .mapped = memory->size};
    void *data;
    if (memory->usage == GPUD_USAGE_DMABUF) {
        enum gpud_status status = gpud_host_alloc_dmabuf(host, memory->size, &data, error);
        if (status != GPUD_OK) {
            free(host);
            return status;
        }
        memory->synced = true;
    } else if (memory->usage == GPUD_USAGE_LOCAL) {
        data = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            free(host);
            return gpud_fail_errno(error, "no %llu bytes of host memory",
                                   (unsigned long long)memory->size);
        }
    } else {
        enum gpud_share share =
            memory->usage == GPUD_USAGE_TARGET ? GPUD_SHARE_WRITABLE : GPUD_SHARE_LATER;
        enum gpud_status status =
            gpud_memfd_create("gpudirect-ring", memory->size, share, &host->fd, &data, error);
        if (status != GPUD_OK) {
            free(host);
            return status;
        }
    }
    memory->native = memory->host = host->base = data;
    memory->backend = host;
    return GPUD_OK;
}

static enum gpud_status host_memory_wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    memory->host = memory->native;
    return GPUD_OK;
}

static enum gpud_status host_memory_wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    memory->native = memory->host;
    return GPUD_OK;
}

static void free_host(struct gpud_memory *memory)
{
    struct host_memory *host = memory->backend;
    if (host) { /* else wrapped: the application's pages */
        if (!gpud_memory_unmap_pages(host->base, host->mapped))
            gpud_log_error(&memory->device->context->log, "host",
                           "cannot unmap %llu bytes, which this process keeps: %s",
                           (unsigned long long)host->mapped, strerror(errno));
        gpud_host_drop_parts(host);
        gpud_fd_close(&host->dmabuf);
        gpud_fd_close(&host->fd);
        free(host);
    }
    gpud_memory_freed(memory);
}

static enum gpud_status export_handle(struct gpud_memory *memory, struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    const struct host_memory *host = memory->backend;
    enum gpud_status status =
        memory->usage == GPUD_USAGE_SHARE ? gpud_memfd_close_writing(host->fd, error) : GPUD_OK;
    if (status != GPUD_OK)
        return status;
    int fd = fcntl(host->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return gpud_fail_errno(error, "cannot duplicate a descriptor");
    handle->type = GPUD_HANDLE_MEMFD;
    handle->fd = fd;
    return GPUD_OK;
}

static enum gpud_status import_handle(struct gpud_memory *memory, const struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    if (handle->type != GPUD_HANDLE_MEMFD || handle->fd < 0)
        return gpud_fail(error, GPUD_PEER, "the peer's handle is not shared host memory");
    struct host_memory *host = malloc(sizeof(*host));
    if (!host)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    *host = (struct host_memory){.fd = -1, .dmabuf = -1, .mapped = memory->size};
    enum gpud_status status = gpud_memfd_map(
        handle->fd, memory->size, memory->usage == GPUD_USAGE_TARGET, &memory->host, error);
    if (status != GPUD_OK) {
        free(host);
        return status;
    }
    memory->native = host->base = memory->host; /* the mapping is enough */
    memory->backend = host;
    return GPUD_OK;
}

static enum gpud_status host_memory_flush_remote(struct gpud_memory *memory,
                                                 struct gpud_error *error)
{
    return GPUD_OK; /* the host sees writes to its memory in order */
}

const struct gpud_memory_ops gpud_host_memory_ops = {
    .alloc = alloc_host,
    .wrap = host_memory_wrap,
    .wrap_host = host_memory_wrap_host,
    .free = free_host,
    .export_handle = export_handle,
    .import_handle = import_handle,
    .flush_remote = host_memory_flush_remote,
};
