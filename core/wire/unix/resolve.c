/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/resolve.h"

#include "base/directory.h"
#include "base/text.h"

#include <string.h>

/* Instead of the '/' before a stream's name; no name contains it. */
#define STREAM_MARK '!'

/* How many bytes of a bad address the reason quotes. */
static int quoted(const char *address)
{
    return (int)gpud_text_whole(address, strnlen(address, 64));
}

/* *stream: what follows "cam1/", or NULL. */
static enum gpud_status check_name(const char *address, const char **stream,
                                   struct gpud_error *error)
{
    const char *slash = strchr(address, '/');
    *stream = slash ? slash + 1 : NULL;
    if (slash == address && address[1] && address[strlen(address) - 1] != '/')
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: a socket with this path is unix:%.*s",
                         quoted(address), address, quoted(address), address);
    if (address[strspn(address, GPUD_NAME_CHARACTERS "/")])
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: letters, digits, '.', '_', '-', one '/' "
                         "before the name of a stream, or unix:/absolute/path",
                         quoted(address), address);
    if (slash == address || (slash && (!slash[1] || strchr(slash + 1, '/'))))
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: that of a stream is NAME/STREAM, as in "
                         "cam1/subs",
                         quoted(address), address);
    if (address[0] == '.' || (slash && slash[1] == '.'))
        return gpud_fail(error, GPUD_INVALID, "%s \"%.*s\" begins with a dot",
                         address[0] == '.' ? "the address" : "the stream of", quoted(address),
                         address);
    return GPUD_OK;
}

bool gpud_socket_entry_address(const char *entry, char *text, size_t size)
{
    const char *mark = strchr(entry, STREAM_MARK);
    char name[GPUD_SOCKET_PATH_MAX];
    if (strlen(entry) >= sizeof(name))
        return false;
    gpud_print(name, "%s", entry);
    if (mark)
        name[mark - entry] = '\0';
    if (!gpud_is_name(name) || (mark && !gpud_is_name(mark + 1)))
        return false;
    gpud_print_n(text, size, "%s%s%s", name, mark ? "/" : "", mark ? mark + 1 : "");
    return true;
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
    const char *stream;
    enum gpud_status status = check_name(address, &stream, error);
    if (status != GPUD_OK)
        return status;

    char directory[GPUD_SOCKET_PATH_MAX];
    status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    char joined[2 * GPUD_SOCKET_PATH_MAX];
    int length = gpud_print_n(joined, sizeof(joined), "%s/%s", directory, address);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "the address \"%.*s\" is too long", quoted(address),
                         address);
    if (stream)
        joined[strlen(directory) + (size_t)(stream - address)] = STREAM_MARK;
    memcpy(path, joined, (size_t)length + 1);
    return GPUD_OK;
}
