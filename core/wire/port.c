/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A port between hosts: which process has it, and which channels are at it. */
#include "wire/network.h"

#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <gpudirect/channel.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "4026531840:40123" */
#define NOTE_MAX 32

/* A process that was killed leaves its note, whose lock is free. */
#define READ_AGAIN (100 * GPUD_MSEC)

/* "10.0.0.1:7174/cam1" in "rdma://10.0.0.1:7174/cam1" */
static const char *without_scheme(const struct gpud_scheme *scheme, const char *address)
{
    return address + strlen(scheme->name) + strlen("://");
}

/* The path of an entry in the runtime directory: ".port!10.0.0.1:7174!cam2" for the channel
 * "10.0.0.1:7174/cam2". */
static bool note_path(const struct gpud_scheme *scheme, const char *directory, const char *channel,
                      char path[GPUD_SOCKET_PATH_MAX])
{
    char entry[GPUD_REGISTRY_ENTRY_MAX];
    gpud_registry_entry(scheme->notes, channel, entry);
    int length = gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s", directory, entry);
    return length >= 0 && (size_t)length < GPUD_SOCKET_PATH_MAX;
}

/* ".rdma!10.0.0.1:7174!cam2" for the same. */
static void local_entry(const struct gpud_scheme *scheme, const char *channel,
                        char entry[GPUD_REGISTRY_ENTRY_MAX])
{
    char prefix[16];
    gpud_print(prefix, ".%s!", scheme->name);
    gpud_registry_entry(prefix, channel, entry);
}

/* === port ==================================================================================== */

enum gpud_status gpud_port_open(struct gpud_port *port, const struct gpud_scheme *scheme,
                                const char *address, struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], name[GPUD_ADDRESS_MAX + 32];
    const char *where = without_scheme(scheme, address);
    *port = (struct gpud_port){.scheme = scheme, .lock = -1};
    gpud_print(port->where, "%.*s", (int)strcspn(where, "/"), where);
    gpud_print(name, "%s.%llu", port->where, (unsigned long long)gpud_host_namespace("net"));
    if (gpud_private_directory(directory, sizeof(directory), NULL) != GPUD_OK ||
        !note_path(scheme, directory, name, port->path) ||
        gpud_lock_wait_begin(&port->wait, NULL) != GPUD_OK) {
        port->path[0] = '\0';
        return GPUD_OK;
    }
    port->waits = true;
    enum gpud_status status = gpud_port_try(port, error);
    if (status == GPUD_OK || status == GPUD_AGAIN)
        return GPUD_OK;
    gpud_port_close(port);
    return status;
}

enum gpud_status gpud_port_try(struct gpud_port *port, struct gpud_error *error)
{
    enum gpud_status status = gpud_lock_wait_try(&port->wait, port->path, &port->lock, error);
    if (status == GPUD_OK) {
        gpud_lock_wait_end(&port->wait);
        port->waits = false;
    }
    return status;
}

void gpud_port_close(struct gpud_port *port)
{
    free(port->others);
    port->others = NULL;
    if (port->waits)
        gpud_lock_wait_end(&port->wait);
    port->waits = false;
    if (port->lock >= 0)
        gpud_lock_file_drop(port->path, &port->lock);
}

/* --- notes --------------------------------------------------------------------------------- */

/* number: where the channel's process listens; 0: removes the note. */
static enum gpud_status write_note(const struct gpud_scheme *scheme, const char *channel,
                                   uint16_t number, struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], path[GPUD_SOCKET_PATH_MAX], note[NOTE_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    if (!note_path(scheme, directory, channel, path))
        return gpud_fail(error, GPUD_INVALID, "the name of %s is too long for a file", channel);
    unlink(path); /* also what a process left that was killed */
    gpud_print(note, "%llu:%u", (unsigned long long)gpud_host_namespace("net"), number);
    if (number && symlink(note, path) < 0)
        return gpud_fail_errno(error, "cannot make the link %s", path);
    return GPUD_OK;
}

enum gpud_status gpud_port_note(const struct gpud_port *port, const struct gpud_port_member *member,
                                struct gpud_error *error)
{
    return write_note(port->scheme, without_scheme(port->scheme, member->where),
                      port->waits ? port->own_number : 0, error);
}

void gpud_port_forget(const struct gpud_port *port, const struct gpud_port_member *member)
{
    write_note(port->scheme, without_scheme(port->scheme, member->where), 0, NULL);
}

/* The port in a note of this network namespace; 0: it has no valid note. */
static uint16_t read_note(const struct gpud_scheme *scheme, const char *directory,
                          const char *channel)
{
    char path[GPUD_SOCKET_PATH_MAX], entry[GPUD_REGISTRY_ENTRY_MAX];
    char note[NOTE_MAX], own[NOTE_MAX], *end;
    if (!note_path(scheme, directory, channel, path))
        return 0;
    ssize_t length = readlink(path, note, sizeof(note) - 1);
    if (length <= 0)
        return 0;
    note[length] = '\0';
    gpud_print(own, "%llu:", (unsigned long long)gpud_host_namespace("net"));
    if (strncmp(note, own, strlen(own)) != 0)
        return 0;
    unsigned long number = strtoul(note + strlen(own), &end, 10);
    if (*end || number > UINT16_MAX)
        return 0;
    local_entry(scheme, channel, entry);
    int used = gpud_print_n(path, sizeof(path), "%s/%s", directory, entry);
    return used >= 0 && (size_t)used < sizeof(path) && gpud_lock_is_held(path) ? (uint16_t)number
                                                                               : 0;
}

/* The same of a channel at the port; 0: no other process sends it. */
static uint16_t find_note(const struct gpud_port *port, const char *channel)
{
    char directory[GPUD_SOCKET_PATH_MAX];
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return 0;
    return read_note(port->scheme, directory, channel);
}

bool gpud_port_is_elsewhere(const struct gpud_port *port, const struct gpud_port_member *member)
{
    return find_note(port, without_scheme(port->scheme, member->where)) != 0;
}

/* Brings the list of others up to date. Any host may cause it, so that the directory is read ten
 * times a second at most, unless this user's processes change it. The order of reading makes a
 * change meanwhile one that is found later. */
static void update_others(struct gpud_port *port)
{
    char directory[GPUD_SOCKET_PATH_MAX], begin[GPUD_ADDRESS_MAX], channel[GPUD_ADDRESS_MAX];
    struct stat st;
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK ||
        stat(directory, &st) < 0) {
        port->other_count = 0;
        return;
    }
    if (gpud_now() < port->until && memcmp(&st.st_mtim, &port->changed, sizeof(st.st_mtim)) == 0)
        return;
    port->changed = st.st_mtim;
    port->other_count = 0;
    if (!port->others)
        port->others = calloc(GPUD_CHANNELS_MAX, sizeof(*port->others));
    gpud_print(begin, "%s%s", port->scheme->notes, port->where);
    DIR *entries = opendir(directory);
    for (struct dirent *entry; port->others && entries && port->other_count < GPUD_CHANNELS_MAX &&
                               (entry = readdir(entries));) {
        /* ".port!10.0.0.1:7174" or that with "!cam1!audio"; others are of other ports. */
        struct gpud_port_name *made = &port->others[port->other_count];
        const char *behind = entry->d_name + strlen(begin);
        if (strncmp(entry->d_name, begin, strlen(begin)) != 0 || (behind[0] && behind[0] != '!') ||
            strlen(behind) > GPUD_PLACE_NAME_MAX + 1)
            continue;
        gpud_print(made->text, "%s", behind[0] ? behind + 1 : "");
        for (char *c = made->text; *c; c++)
            if (*c == '!')
                *c = '/';
        if (made->text[0] && !gpud_place_is_name(made->text, strlen(made->text)))
            continue;
        gpud_print(channel, "%s%s%s", port->where, made->text[0] ? "/" : "", made->text);
        made->number = read_note(port->scheme, directory, channel);
        port->other_count += made->number != 0;
    }
    if (entries)
        closedir(entries);
    port->until = gpud_deadline(READ_AGAIN);
}

/* --- names --------------------------------------------------------------------------------- */

struct gpud_port_member *gpud_port_member(const struct gpud_port *port, const char *name)
{
    struct gpud_port_member *member = port->members;
    while (member && strcmp(member->name, name) != 0)
        member = member->next;
    return member;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct gpud_port_name *)a)->text,
                  ((const struct gpud_port_name *)b)->text);
}

struct gpud_port_name *gpud_port_list(struct gpud_port *port, size_t *count)
{
    size_t own = 0, used = 0;
    update_others(port);
    for (const struct gpud_port_member *one = port->members; one; one = one->next)
        own++;
    struct gpud_port_name *names = calloc(own + port->other_count + 1, sizeof(*names));
    for (struct gpud_port_member *one = port->members; names && one; one = one->next) {
        names[used].member = one;
        gpud_print(names[used++].text, "%s", one->name);
    }
    for (size_t i = 0; names && i < port->other_count; i++)
        if (!gpud_port_member(port, port->others[i].text))
            names[used++] = port->others[i];
    if (names)
        qsort(names, used, sizeof(*names), compare_names);
    *count = used;
    return names;
}

bool gpud_port_find(struct gpud_port *port, const char *name, struct gpud_port_name *found)
{
    char channel[GPUD_ADDRESS_MAX + GPUD_PLACE_NAME_MAX];
    size_t count, channels = 0;
    found->member = gpud_port_member(port, name);
    if (found->member)
        return true;
    gpud_print(channel, "%s%s%s", port->where, name[0] ? "/" : "", name);
    found->number = find_note(port, channel);
    if (found->number || name[0])
        return found->number != 0;
    struct gpud_port_name *names = gpud_port_list(port, &count);
    for (size_t i = 0; i < count; i++) {
        if (strchr(names[i].text, '/'))
            continue; /* a stream of a channel */
        *found = names[i];
        channels++;
    }
    free(names);
    return channels == 1;
}

/* --- of another host ------------------------------------------------------------------------ */

struct search {
    const struct gpud_scheme *scheme;
    const struct gpud_channel_ops *ops;
    const char *port;
    struct gpud_address *found;
    size_t count, omitted;
};

static void add_address(struct search *search, const char *name)
{
    struct gpud_address made = {.ops = search->ops};
    if (search->count == GPUD_CHANNELS_MAX) {
        search->omitted++;
        return;
    }
    gpud_print(made.text, "%s%s", search->port, name);
    if (gpud_place_parse(search->scheme, made.text, NULL, made.place, NULL) == GPUD_OK)
        search->found[search->count++] = made;
}

/* last: of the names so far. *more: there are further names. GPUD_PEER: they are not in order, and
 * asking might never end. */
static enum gpud_status take_names(struct search *search, const char *names,
                                   char last[GPUD_PLACE_NAME_MAX + 1], bool *more,
                                   struct gpud_error *error)
{
    *more = false;
    while (*names) {
        char name[GPUD_PLACE_NAME_MAX + 1];
        size_t length = strcspn(names, ",");
        gpud_print(name, "%.*s", (int)length, names);
        if (strcmp(name, last) <= 0)
            return gpud_fail(error, GPUD_PEER, "%s lists its channels in no order", search->port);
        memcpy(last, name, sizeof(name));
        add_address(search, name);
        names += length;
        *more = names[0] == ',' && names[1] == '\0';
        names += *names == ',';
    }
    return GPUD_OK;
}

enum gpud_status gpud_port_ask(const struct gpud_scheme *scheme, const struct gpud_channel_ops *ops,
                               gpud_port_ask_fn *ask, const char *port, int64_t deadline,
                               struct gpud_address **found, size_t *count, size_t *omitted,
                               struct gpud_error *error)
{
    struct search search = {.scheme = scheme, .ops = ops, .port = port};
    struct gpud_place place; /* its name is the last one so far */
    char names[1024];
    bool more = true;
    enum gpud_status status = gpud_place_parse(scheme, port, &place, NULL, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_place_is_wildcard(&place))
        return gpud_fail(error, GPUD_INVALID,
                         "%s means every address, to listen on: give the sender's own", place.host);
    search.found = calloc(GPUD_CHANNELS_MAX, sizeof(*search.found));
    if (!search.found)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
    place.name[0] = '\0';
    while (status == GPUD_OK && more && search.omitted == 0) {
        status = ask(&place, port, deadline, names, sizeof(names), error);
        if (status == GPUD_OK)
            status = take_names(&search, names, place.name, &more, error);
    }
    if (status == GPUD_OK && search.count == 0)
        add_address(&search, ""); /* something listens there, so it is a channel without a name */
    if (status != GPUD_OK) {
        free(search.found);
        return status;
    }
    *found = search.found;
    *count = search.count;
    *omitted = search.omitted;
    return GPUD_OK;
}

/* === local =================================================================================== */

static enum gpud_status local_path(const struct gpud_scheme *scheme, const char *address,
                                   char path[GPUD_SOCKET_PATH_MAX], struct gpud_error *error)
{
    char entry[GPUD_REGISTRY_ENTRY_MAX], directory[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    local_entry(scheme, without_scheme(scheme, address), entry);
    int length = gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s", directory, entry);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "%s/%s is too long for a socket", directory, entry);
    return GPUD_OK;
}

enum gpud_status gpud_local_open(struct gpud_socket_listener *local,
                                 const struct gpud_scheme *scheme, const char *address,
                                 struct gpud_error *error)
{
    char path[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = local_path(scheme, address, path, error);
    if (status == GPUD_OK)
        status = gpud_socket_listen(local, path, NULL, error);
    if (status == GPUD_OK)
        gpud_local_tell(local); /* watchers saw the socket before it could be queried */
    return status;
}

void gpud_local_tell(const struct gpud_socket_listener *local)
{
    utimensat(AT_FDCWD, local->path, NULL, AT_SYMLINK_NOFOLLOW);
}

void gpud_local_find_sender(const struct gpud_scheme *scheme, const char *address, char *text,
                            size_t size)
{
    char path[GPUD_SOCKET_PATH_MAX], name[64];
    gpud_print_n(text, size, "another process");
    if (local_path(scheme, address, path, NULL) != GPUD_OK)
        return;
    pid_t pid = gpud_lock_find(path, false);
    if (pid > 0 && gpud_process_name(pid, name, sizeof(name)))
        gpud_print_n(text, size, "process %d (%s)", (int)pid, name);
}

void gpud_local_find_port(const struct gpud_scheme *scheme, uint16_t port, char *text, size_t size)
{
    char directory[GPUD_ADDRESS_MAX], begin[16], wanted[8], name[64];
    size_t count = 0, omitted;
    struct gpud_address *found = NULL;
    text[0] = '\0';
    gpud_print(begin, "%s://", scheme->name);
    gpud_print(wanted, ":%u", port);
    if (gpud_address_list(NULL, &found, &count, &omitted, directory, NULL) != GPUD_OK)
        return;
    for (size_t i = 0; i < count && !text[0]; i++) {
        const char *at = strrchr(found[i].text, ':');
        size_t length = strlen(wanted);
        if (found[i].receiver || strncmp(found[i].text, begin, strlen(begin)) != 0 || !at ||
            strncmp(at, wanted, length) != 0 || (at[length] && at[length] != '/'))
            continue;
        pid_t pid = gpud_lock_find(found[i].place, false);
        if (pid > 0 && pid != getpid() && gpud_process_name(pid, name, sizeof(name)))
            gpud_print_n(text, size, "process %d (%s)", (int)pid, name);
    }
    free(found);
}
