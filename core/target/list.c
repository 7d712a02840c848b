/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists targets: the files that this user's processes have written, and lock as long as they
 * live. */
#include "target/file.h"

#include "base/directory.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/process.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct gpud_target_list {
    struct gpud_list list; /* struct gpud_target_entry */
};

/* --- one file ------------------------------------------------------------------------------ */

/* The value of a line `key=value`; false: the line is missing or too long. */
static bool get_text(const char *text, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, key, length) != 0 || line[length] != '=')
            continue;
        const char *from = line + length + 1;
        size_t count = strcspn(from, "\n");
        if (count >= size)
            return false;
        memcpy(value, from, count);
        value[count] = '\0';
        return true;
    }
    return false;
}

static bool get_number(const char *text, const char *key, uint32_t *number)
{
    char value[16], *end;
    if (!get_text(text, key, value, sizeof(value)))
        return false;
    errno = 0;
    unsigned long read = strtoul(value, &end, 10);
    *number = (uint32_t)read;
    return end != value && !*end && !errno && read <= INT32_MAX;
}

static bool get_choice(const char *text, const char *key, const char *const *names, unsigned count,
                       unsigned *choice)
{
    char value[32];
    if (!get_text(text, key, value, sizeof(value)))
        return false;
    for (*choice = 0; *choice < count; (*choice)++)
        if (strcmp(value, names[*choice]) == 0)
            return true;
    return false;
}

/* 0/0 if the file states an impossible rate. */
static void get_rate(const char *text, uint32_t *num, uint32_t *den)
{
    char value[32];
    if (get_text(text, "framerate", value, sizeof(value)) &&
        sscanf(value, "%u/%u", num, den) == 2 && *num && *num <= INT32_MAX && *den &&
        *den <= INT32_MAX)
        return;
    *num = *den = 0;
}

static bool parse(const char *text, struct gpud_target_entry *entry)
{
    static const char *const kinds[] = {
        [GPUD_TARGET_HOST] = "host",
        [GPUD_TARGET_BUS_ADDRESS] = "bus-address",
        [GPUD_TARGET_DMABUF] = "dma-buf",
    };
    static const char *const paces[] = {
        [GPUD_TARGET_FREE_RUNNING] = "free-running",
        [GPUD_TARGET_PACED] = "paced",
    };
    uint32_t version, pid;
    unsigned kind, pace;
    *entry = (struct gpud_target_entry){.size = sizeof(*entry)};
    if (!get_number(text, "gpudirect-target", &version) || version != 1 ||
        !get_text(text, "name", entry->name, sizeof(entry->name)) || !gpud_is_name(entry->name) ||
        !get_number(text, "process", &pid) || !get_choice(text, "kind", kinds, 3, &kind) ||
        !get_choice(text, "pace", paces, 2, &pace) ||
        !get_text(text, "format", entry->format, sizeof(entry->format)) ||
        !get_number(text, "width", &entry->width) || !get_number(text, "height", &entry->height) ||
        !get_number(text, "slots", &entry->slots))
        return false;
    gpud_text_clean(entry->format, strlen(entry->format));
    entry->pid = pid;
    entry->kind = (enum gpud_target_kind)kind;
    entry->pace = (enum gpud_target_pace)pace;
    gpud_process_name((pid_t)pid, entry->program, sizeof(entry->program));
    get_rate(text, &entry->fps_num, &entry->fps_den);
    return true;
}

/* false: not a target's file, or the target has ended. */
static bool read_file(int directory, const char *name, struct gpud_target_entry *entry)
{
    char text[GPUD_TARGET_FILE_MAX + 1];
    struct stat st;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t length = -1;
    /* Getting the lock proves that the target's owner is gone. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_SH | LOCK_NB) < 0)
        length = read(fd, text, sizeof(text) - 1);
    gpud_fd_close(&fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    size_t own = strlen(name) - strlen(GPUD_TARGET_FILE_SUFFIX);
    return parse(text, entry) && strlen(entry->name) == own && memcmp(name, entry->name, own) == 0;
}

/* --- the list ------------------------------------------------------------------------------ */

static bool is_file(const char *name)
{
    size_t length = strlen(name), suffix = strlen(GPUD_TARGET_FILE_SUFFIX);
    return name[0] != '.' && length > suffix &&
           strcmp(name + length - suffix, GPUD_TARGET_FILE_SUFFIX) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gpud_target_entry *)a)->name,
                  ((const struct gpud_target_entry *)b)->name);
}

enum gpud_status gpud_target_list_create(struct gpud_target_list **list, uint32_t *count,
                                         struct gpud_error *error)
{
    char path[256];
    struct gpud_target_entry entry, *added;
    enum gpud_status status = gpud_runtime_directory(path, sizeof(path), error);
    if (status != GPUD_OK)
        return status;
    struct gpud_target_list *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of targets");
    made->list = (struct gpud_list){
        .what = "target", .entry_size = sizeof(entry), .record_size = sizeof(entry)};
    DIR *listed = opendir(path); /* NULL: no target has existed yet */
    for (struct dirent *at; status == GPUD_OK && listed && (at = readdir(listed));) {
        if (!is_file(at->d_name) || !read_file(dirfd(listed), at->d_name, &entry))
            continue;
        if ((added = gpud_list_add(&made->list, error)))
            *added = entry;
        else
            status = GPUD_NO_MEMORY;
    }
    if (listed)
        closedir(listed);
    if (status != GPUD_OK) {
        gpud_target_list_destroy(&made);
        return status;
    }
    if (made->list.count)
        qsort(made->list.entries, made->list.count, sizeof(entry), by_name);
    *list = made;
    if (count)
        *count = made->list.count;
    return GPUD_OK;
}

void gpud_target_list_destroy(struct gpud_target_list **list)
{
    if (!list || !*list)
        return;
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

enum gpud_status gpud_target_list_get_info(const struct gpud_target_list *list, uint32_t index,
                                           struct gpud_target_entry *entry,
                                           struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, entry, error);
}
