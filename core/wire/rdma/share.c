/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/share.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/fd.h"
#include "wire/unix/registry.h"

#include <gpudirect/channel.h>

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".port!"
/* "4026531840:40123" */
#define NOTE_MAX 32
/* A process that was killed leaves its note, whose lock is free. */
#define READ_AGAIN (100 * GPUD_MSEC)

/* Ports of two network namespaces have nothing to do with each other, though their processes may
 * share a runtime directory, as containers do. */
static uint64_t network_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

/* The path of an entry in the runtime directory: "PREFIX10.0.0.1:7174!cam2". */
static bool path_of(const char *directory, const char *prefix, const char *channel,
                    char path[GPUD_SOCKET_PATH_MAX])
{
    int length = gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s%s", directory, prefix, channel);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return false;
    for (char *c = path + strlen(directory) + 1; *c; c++)
        if (*c == '/')
            *c = '!';
    return true;
}

/* --- the port's lock ----------------------------------------------------------------------- */

enum gpud_status gpud_rdma_share_open(struct gpud_rdma_share *share, const char *port,
                                      struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], name[GPUD_ADDRESS_MAX + 32];
    *share = (struct gpud_rdma_share){.lock = -1};
    gpud_print(name, "%s.%llu", port, (unsigned long long)network_namespace());
    if (gpud_private_directory(directory, sizeof(directory), NULL) != GPUD_OK ||
        !path_of(directory, PREFIX, name, share->path) ||
        gpud_lock_wait_begin(&share->wait, NULL) != GPUD_OK) {
        share->path[0] = '\0';
        return GPUD_OK;
    }
    share->waits = true;
    enum gpud_status status = gpud_rdma_share_try(share, error);
    if (status != GPUD_OK && status != GPUD_AGAIN) {
        gpud_rdma_share_close(share);
        return status;
    }
    return GPUD_OK;
}

enum gpud_status gpud_rdma_share_try(struct gpud_rdma_share *share, struct gpud_error *error)
{
    enum gpud_status status = gpud_lock_wait_try(&share->wait, share->path, &share->lock, error);
    if (status == GPUD_OK) {
        gpud_lock_wait_end(&share->wait);
        share->waits = false;
    }
    return status;
}

void gpud_rdma_share_close(struct gpud_rdma_share *share)
{
    if (share->waits)
        gpud_lock_wait_end(&share->wait);
    if (share->lock >= 0)
        gpud_lock_file_drop(share->path, &share->lock);
    share->waits = false;
}

/* --- notes --------------------------------------------------------------------------------- */

enum gpud_status gpud_rdma_share_note(const char *channel, uint16_t number,
                                      struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], path[GPUD_SOCKET_PATH_MAX], note[NOTE_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    if (!path_of(directory, PREFIX, channel, path))
        return gpud_fail(error, GPUD_INVALID, "the name of %s is too long for a file", channel);
    unlink(path); /* also what a process left that was killed */
    gpud_print(note, "%llu:%u", (unsigned long long)network_namespace(), number);
    if (number && symlink(note, path) < 0)
        return gpud_fail_errno(error, "cannot make the link %s", path);
    return GPUD_OK;
}

/* The port in a note of this network namespace; 0: it has no valid note. */
static uint16_t read_note(const char *directory, const char *channel)
{
    char path[GPUD_SOCKET_PATH_MAX], note[NOTE_MAX], own[NOTE_MAX], *end;
    if (!path_of(directory, PREFIX, channel, path))
        return 0;
    ssize_t length = readlink(path, note, sizeof(note) - 1);
    if (length <= 0)
        return 0;
    note[length] = '\0';
    gpud_print(own, "%llu:", (unsigned long long)network_namespace());
    if (strncmp(note, own, strlen(own)) != 0)
        return 0;
    unsigned long number = strtoul(note + strlen(own), &end, 10);
    if (*end || number > UINT16_MAX || !path_of(directory, GPUD_REGISTRY_RDMA, channel, path))
        return 0;
    return gpud_lock_is_held(path) ? (uint16_t)number : 0;
}

uint16_t gpud_rdma_share_find(const char *channel)
{
    char directory[GPUD_SOCKET_PATH_MAX];
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return 0;
    return read_note(directory, channel);
}

/* The name in "PREFIXport" or "PREFIXport!cam1!audio"; false: the entry is of another port. */
static bool read_name(const char *entry, const char *port, char name[GPUD_RDMA_NAME_MAX + 1])
{
    size_t length = strlen(port);
    if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0 ||
        strncmp(entry + strlen(PREFIX), port, length) != 0)
        return false;
    entry += strlen(PREFIX) + length;
    if ((entry[0] && entry[0] != '!') || strlen(entry) > GPUD_RDMA_NAME_MAX + 1)
        return false;
    gpud_print_n(name, GPUD_RDMA_NAME_MAX + 1, "%s", entry[0] ? entry + 1 : "");
    for (char *c = name; *c; c++)
        if (*c == '!')
            *c = '/';
    return !name[0] || gpud_rdma_is_name(name, strlen(name));
}

/* The order of reading makes a change meanwhile one that is found later. */
void gpud_rdma_shares_update(struct gpud_rdma_shares *shares, const char *port)
{
    char directory[GPUD_SOCKET_PATH_MAX], channel[GPUD_ADDRESS_MAX];
    struct stat st;
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK ||
        stat(directory, &st) < 0) {
        shares->count = 0;
        return;
    }
    if (gpud_now() < shares->until &&
        memcmp(&st.st_mtim, &shares->changed, sizeof(st.st_mtim)) == 0)
        return;
    shares->changed = st.st_mtim;
    shares->count = 0;
    if (!shares->entries)
        shares->entries = calloc(GPUD_CHANNELS_MAX, sizeof(*shares->entries));
    DIR *entries = opendir(directory);
    for (struct dirent *entry; shares->entries && entries && shares->count < GPUD_CHANNELS_MAX &&
                               (entry = readdir(entries));) {
        struct gpud_rdma_shared *made = &shares->entries[shares->count];
        if (!read_name(entry->d_name, port, made->name))
            continue;
        gpud_print(channel, "%s%s%s", port, made->name[0] ? "/" : "", made->name);
        made->number = read_note(directory, channel);
        shares->count += made->number != 0;
    }
    if (entries)
        closedir(entries);
    shares->until = gpud_deadline(READ_AGAIN);
}

void gpud_rdma_shares_free(struct gpud_rdma_shares *shares)
{
    free(shares->entries);
    *shares = (struct gpud_rdma_shares){0};
}
