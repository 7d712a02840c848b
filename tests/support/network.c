/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A libibverbs in place of the system's: the functions that listing cards needs, as strict as a
 * driver. */
#include "support/network.h"

#include "support/check.h"

#include <errno.h>
#include <infiniband/verbs.h>

/* --- libibverbs ---------------------------------------------------------------------------- */

int fake_verbs_errno, fake_verbs_open_errno, fake_verbs_objects;

static struct ibv_device devices[] = {{.name = "mlx5_0"}, {.name = "rxe0"}};

struct ibv_device **ibv_get_device_list(int *count)
{
    static struct ibv_device *list[] = {&devices[1], &devices[0], NULL};
    fake_verbs_objects++;
    if (count)
        *count = 2;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    fake_verbs_objects--;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *context = calloc(1, sizeof(*context));
    errno = fake_verbs_open_errno;
    if (fake_verbs_open_errno || !context) {
        free(context);
        return NULL;
    }
    context->device = device;
    fake_verbs_objects++;
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    free(context);
    fake_verbs_objects--;
    return 0;
}

/* <infiniband/verbs.h> puts a macro of this name over it. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr *whole = (struct ibv_port_attr *)attr;
    CHECK(number >= 1 && number <= (context->device == &devices[0] ? 2 : 1),
          "%s is asked for port %u", context->device->name, number);
    whole->active_mtu = context->device == &devices[0] ? IBV_MTU_4096 : IBV_MTU_1024;
    whole->max_msg_sz = UINT32_C(1) << 30;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *domain = calloc(1, sizeof(*domain));
    if (!domain)
        return NULL;
    domain->context = context;
    fake_verbs_objects++;
    return domain;
}

int ibv_dealloc_pd(struct ibv_pd *domain)
{
    free(domain);
    fake_verbs_objects--;
    return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *domain, uint64_t offset, size_t length,
                                 uint64_t address, int fd, int access)
{
    CHECK(fd == -1 && length > 0, "the test has no dma-buf, and is given %d", fd);
    errno = fake_verbs_errno                          ? fake_verbs_errno
            : domain->context->device->name[0] == 'm' ? EBADF
                                                      : EOPNOTSUPP;
    return NULL;
}
