/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The kinds of channel, selected by an address's scheme. A new kind is a line in this table. */
#include "base/directory.h"
#include "wire/channel.h"
#include "wire/rdma/address.h"
#include "wire/unix/hint.h"
#include "wire/unix/kind.h"
#include "wire/unix/registry.h"
#include "wire/unix/resolve.h"
#ifdef GPUD_WITH_RDMA
#include "wire/rdma/hint.h"
#include "wire/rdma/kind.h"
#include "wire/rdma/names.h"
#include "wire/rdma/near.h"
#endif

#include <string.h>

/* The first kind also resolves bare names, and refuses whatever matches no scheme. */
static const struct kind {
    const char *scheme;
    const struct gpud_channel_ops *ops;
    enum gpud_status (*resolve)(const char *text, char place[GPUD_ADDRESS_MAX],
                                struct gpud_error *error);
    void (*hint)(const char *place, char *hint, size_t size);
    /* NULL if the kind uses no network card. */
    void (*find_card)(const char *place, char *pci, size_t size);
    /* gpud_address_list_port(); NULL if addresses have no port. */
    enum gpud_status (*list_names)(const char *port, int64_t deadline, struct gpud_address **found,
                                   size_t *count, size_t *omitted, struct gpud_error *error);
} kinds[] = {
    {"unix:", &gpud_unix_channel_ops, gpud_socket_resolve, gpud_socket_hint},
#ifdef GPUD_WITH_RDMA
    {GPUD_RDMA_SCHEME, &gpud_rdma_channel_ops, gpud_rdma_resolve, gpud_rdma_hint,
     gpud_rdma_find_card, gpud_rdma_list_names},
#else
    {GPUD_RDMA_SCHEME, NULL, gpud_rdma_refuse, NULL},
#endif
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

_Static_assert(GPUD_ADDRESS_MAX >= sizeof("unix:") + GPUD_SOCKET_PATH_MAX, "every path fits");

static const struct kind *find_kind(const char *text)
{
    for (size_t i = 1; text && i < KINDS; i++)
        if (strncmp(text, kinds[i].scheme, strlen(kinds[i].scheme)) == 0)
            return &kinds[i];
    return &kinds[0];
}

enum gpud_status gpud_address_resolve(const char *text, struct gpud_address *address,
                                      struct gpud_error *error)
{
    const struct kind *kind = find_kind(text);
    struct gpud_address made = {.ops = kind->ops};
    enum gpud_status status = kind->resolve(text, made.place, error);
    if (status != GPUD_OK)
        return status;
    gpud_print(made.text, "%s", text);
    *address = made;
    return GPUD_OK;
}

bool gpud_address_is_network(const struct gpud_address *address)
{
    return address->ops->remote != NULL;
}

void gpud_address_hint(const struct gpud_address *address, char *hint, size_t size)
{
    hint[0] = '\0';
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].ops == address->ops)
            kinds[i].hint(address->place, hint, size);
}

void gpud_address_find_card(const struct gpud_address *address, char *pci, size_t size)
{
    pci[0] = '\0';
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].ops == address->ops && kinds[i].find_card)
            kinds[i].find_card(address->place, pci, size);
}

/* Only Unix sockets can be listed, because they are files. */
enum gpud_status gpud_address_list(const char *folder, struct gpud_address **found, size_t *count,
                                   size_t *omitted, char directory[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error)
{
    return gpud_registry_list(folder, found, count, omitted, directory, error);
}

bool gpud_address_is_port(const char *text)
{
    size_t length = strlen(text);
    return find_kind(text) != &kinds[0] && text[length - 1] == '/';
}

enum gpud_status gpud_address_list_port(const char *text, int64_t deadline,
                                        struct gpud_address **found, size_t *count, size_t *omitted,
                                        struct gpud_error *error)
{
    const struct kind *kind = find_kind(text);
    char place[GPUD_ADDRESS_MAX];
    /* Fails in a build without network cards, which has no list_names. */
    enum gpud_status status = kind->resolve(text, place, error);
    return status == GPUD_OK ? kind->list_names(text, deadline, found, count, omitted, error)
                             : status;
}

enum gpud_status gpud_address_directory(char directory[GPUD_ADDRESS_MAX], struct gpud_error *error)
{
    return gpud_runtime_directory(directory, GPUD_SOCKET_PATH_MAX, error);
}

void gpud_address_forget(const struct gpud_address *address)
{
    gpud_registry_reclaim(address->place);
}
