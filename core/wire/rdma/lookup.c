/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* getaddrinfo() in a thread of its own, which cannot be cancelled: a caller that no longer wants
 * the answer leaves the thread running, and the last of the two frees what they share. */
#include "wire/rdma/lookup.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gpud_rdma_lookup {
    atomic_uint references;
    atomic_bool done;
    struct gpud_rdma_place place;
    int event; /* a duplicate: the caller's descriptor may be reused by then */
    int failed, number;
    size_t count;
    struct sockaddr_storage addresses[GPUD_RDMA_ADDRESSES_MAX];
};

static void unref(struct gpud_rdma_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->references, 1) != 1)
        return;
    gpud_fd_close(&lookup->event);
    free(lookup);
}

static void *look(void *arg)
{
    struct gpud_rdma_lookup *lookup = arg;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8];
    gpud_print(port, "%u", lookup->place.port);
    lookup->failed = getaddrinfo(lookup->place.host, port, &wanted, &found);
    lookup->number = errno;
    for (struct addrinfo *one = found; !lookup->failed && one; one = one->ai_next)
        if (lookup->count < GPUD_RDMA_ADDRESSES_MAX &&
            one->ai_addrlen <= sizeof(lookup->addresses[0]))
            memcpy(&lookup->addresses[lookup->count++], one->ai_addr, one->ai_addrlen);
    if (found)
        freeaddrinfo(found);
    atomic_store(&lookup->done, true);
    gpud_event_raise(lookup->event);
    unref(lookup);
    return NULL;
}

enum gpud_status gpud_rdma_lookup_begin(const struct gpud_rdma_place *place, int fd,
                                        struct gpud_rdma_lookup **lookup, struct gpud_error *error)
{
    struct gpud_rdma_lookup *made = calloc(1, sizeof(*made));
    pthread_attr_t detached;
    pthread_t thread;
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to look up %s", place->host);
    atomic_init(&made->references, 2);
    made->place = *place;
    made->event = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (made->event < 0) {
        enum gpud_status status =
            gpud_fail_errno(error, "no descriptor to look up %s", place->host);
        free(made);
        return status;
    }
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &detached, look, made);
    pthread_attr_destroy(&detached);
    if (failed) {
        gpud_fd_close(&made->event);
        free(made);
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start a thread to look up %s", place->host);
    }
    *lookup = made;
    return GPUD_OK;
}

enum gpud_status gpud_rdma_lookup_get(struct gpud_rdma_lookup *lookup,
                                      struct sockaddr_storage addresses[GPUD_RDMA_ADDRESSES_MAX],
                                      size_t *count, struct gpud_error *error)
{
    const char *host = lookup->place.host;
    if (!atomic_load(&lookup->done))
        return GPUD_AGAIN;
    if (lookup->failed == EAI_SYSTEM)
        return gpud_fail_native(error, GPUD_CLOSED, "errno", lookup->number,
                                "the host \"%s\" cannot be looked up: %s", host,
                                strerror(lookup->number));
    if (lookup->failed)
        return gpud_fail_native(error, GPUD_CLOSED, "getaddrinfo", lookup->failed,
                                "no host has the name \"%s\": %s; is it spelled correctly (getent "
                                "ahosts %s)?",
                                host, gai_strerror(lookup->failed), host);
    if (lookup->count == 0)
        return gpud_fail(error, GPUD_CLOSED, "the host \"%s\" has no address", host);
    memcpy(addresses, lookup->addresses, lookup->count * sizeof(lookup->addresses[0]));
    *count = lookup->count;
    return GPUD_OK;
}

void gpud_rdma_lookup_end(struct gpud_rdma_lookup **lookup)
{
    if (*lookup)
        unref(*lookup);
    *lookup = NULL;
}
