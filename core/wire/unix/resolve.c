/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/resolve.h"

#include "base/directory.h"
#include "base/text.h"

#include <string.h>

/* How many bytes of a bad address the reason quotes. */
static int quoted(const char *address)
{
    return (int)gpud_text_whole(address, strnlen(address, 64));
}

enum gpud_status gpud_socket_resolve(const char *address, char path[GPUD_SOCKET_PATH_MAX],
                                     struct gpud_error *error)
{
    if (!address || !address[0])
        return gpud_fail(error, GPUD_INVALID,
                         "no address: give a name (cam1) or unix:/absolute/path");
    if (strncmp(address, "unix:", 5) == 0) {
        const char *name = address + 5;
        if (name[0] != '/' || strlen(name) >= GPUD_SOCKET_PATH_MAX)
            return gpud_fail(error, GPUD_INVALID,
                             "\"%.*s\": unix: needs an absolute path of at most %zu bytes",
                             quoted(address), address, GPUD_SOCKET_PATH_MAX - 1);
        memcpy(path, name, strlen(name) + 1);
        return GPUD_OK;
    }
    if (address[strspn(address, GPUD_NAME_CHARACTERS)])
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: letters, digits, '.', '_', '-', or "
                         "unix:/absolute/path",
                         quoted(address), address);
    if (address[0] == '.')
        return gpud_fail(error, GPUD_INVALID, "the address \"%.*s\" begins with a dot",
                         quoted(address), address);

    char directory[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    char joined[2 * GPUD_SOCKET_PATH_MAX];
    int length = gpud_print_n(joined, sizeof(joined), "%s/%s", directory, address);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "the address \"%.*s\" is too long", quoted(address),
                         address);
    memcpy(path, joined, (size_t)length + 1);
    return GPUD_OK;
}
