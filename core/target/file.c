/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The file that tells a writer in another process where to write. Its owner locks it for its
 * lifetime, so a file without a lock is stale and may be replaced. */
#include "target/file.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX GPUD_TARGET_FILE_SUFFIX
#define PATH_MAX_HERE 256
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (5 * GPUD_MSEC)

/* --- the text ------------------------------------------------------------------------------ */

struct text {
    char bytes[GPUD_TARGET_FILE_MAX];
    size_t length;
};

static void add(struct text *text, const char *format, ...) GPUD_PRINTF(2, 3);
static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length =
        vsnprintf(text->bytes + text->length, sizeof(text->bytes) - text->length, format, args);
    va_end(args);
    text->length += length > 0 ? (size_t)length : 0; /* overflow: reported on writing */
}

static void add_layout(struct text *text, const struct gpud_target_ring *ring)
{
    const struct gpud_layout *layout = &ring->layout;
    add(text, "format=%s\nwidth=%u\nheight=%u\n", layout->format, layout->width, layout->height);
    if (ring->fps_num)
        add(text, "framerate=%u/%u\n", ring->fps_num, ring->fps_den);
    add(text, "size=%" PRIu64 "\nplanes=%u\n", layout->size, layout->planes);
    for (uint32_t i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        add(text, "plane%u.offset=%" PRIu64 "\nplane%u.stride=%u\n", i, plane->offset, i,
            plane->stride);
        add(text, "plane%u.row_bytes=%u\nplane%u.rows=%u\n", i, plane->row_bytes, i, plane->rows);
    }
}

static void add_slot(struct text *text, const struct gpud_target_ring *ring, uint32_t slot)
{
    add(text, "slot%u.lines=%" PRIu64 "\n", slot, GPUD_TARGET_LINES(slot));
    if (ring->kind == GPUD_TARGET_BUS_ADDRESS) {
        const struct gpud_handle *bus = &ring->place[slot].bus;
        add(text, "slot%u.surface=0x%" PRIx64 "\nslot%u.marker=0x%" PRIx64 "\n", slot, bus->word[0],
            slot, bus->word[1]);
        return;
    }
    add(text, "slot%u.surface=%" PRIu64 "\nslot%u.marker=%" PRIu64 "\n", slot,
        ring->memory_fd_offset + slot * ring->slot_size, slot, GPUD_TARGET_MARKER(slot));
}

static void describe(struct text *text, const struct gpud_target_ring *ring)
{
    static const char *const kinds[] = {
        [GPUD_TARGET_HOST] = "host",
        [GPUD_TARGET_BUS_ADDRESS] = "bus-address",
        [GPUD_TARGET_DMABUF] = "dma-buf",
    };
    long pid = (long)getpid();
    add(text, "gpudirect-target=1\nname=%s\nprocess=%ld\nkind=%s\npace=%s\n", ring->name, pid,
        kinds[ring->kind], ring->pace == GPUD_TARGET_PACED ? "paced" : "free-running");
    add_layout(text, ring);
    add(text, "slots=%u\nslot_size=%" PRIu64 "\n", ring->slots, ring->slot_size);
    add(text, "words=/proc/%ld/fd/%d\nwords_size=%d\n", pid, ring->words_fd,
        GPUD_TARGET_WORDS_SIZE);
    add(text, "given_back=%d\nnext=%d\nstopped=%d\n", GPUD_TARGET_GIVEN_BACK, GPUD_TARGET_NEXT,
        GPUD_TARGET_STOPPED);
    if (ring->kind == GPUD_TARGET_HOST)
        add(text, "memory=/proc/%ld/fd/%d\n", pid, ring->memory_fd);
    if (ring->kind == GPUD_TARGET_DMABUF) /* has no path to open */
        add(text, "memory_fd=%d\n", ring->memory_fd);
    for (uint32_t i = 0; i < ring->slots; i++)
        add_slot(text, ring, i);
}

/* --- creating ------------------------------------------------------------------------------ */

static enum gpud_status write_new(const struct gpud_target_ring *ring, const char *path, int *fd,
                                  struct gpud_error *error)
{
    static const char gone[] = "the file %s cannot be written";
    struct text text = {.length = 0};
    uint64_t limit;
    describe(&text, ring);
    if (text.length >= sizeof(text.bytes))
        return gpud_fail(error, GPUD_INVALID, "the description of %u slots is too long",
                         ring->slots);
    if (!gpud_file_fits(text.length, &limit))
        return gpud_fail(error, GPUD_NO_MEMORY,
                         "the file %s has %zu bytes, and this process's files may have %" PRIu64
                         ": raise its limit (ulimit -f)",
                         path, text.length, limit);
    ssize_t written = write(*fd, text.bytes, text.length);
    if (written >= 0 && (size_t)written < text.length)
        errno = ENOSPC;
    if (written != (ssize_t)text.length)
        return gpud_fail_errno(error, gone, path);
    return GPUD_OK;
}

bool gpud_target_file_is_there(int fd, const char *path)
{
    struct stat opened, there;
    return fstat(fd, &opened) == 0 && lstat(path, &there) == 0 && opened.st_ino == there.st_ino &&
           opened.st_dev == there.st_dev;
}

/* Tries once. GPUD_AGAIN: the name is in use, or another process was faster. */
static enum gpud_status try_name(const char *made, const char *path, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    int old = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (old < 0) {
        if (errno == ENOENT && link(made, path) == 0)
            return unlink(made) == 0 ? GPUD_OK : gpud_fail_errno(error, "cannot remove %s", made);
        return errno == ENOENT || errno == EEXIST
                   ? GPUD_AGAIN
                   : gpud_fail_errno(error, "the file %s cannot be replaced", path);
    }
    if (flock(old, LOCK_EX | LOCK_NB) == 0 && gpud_target_file_is_there(old, path))
        status = rename(made, path) == 0
                     ? GPUD_OK
                     : gpud_fail_errno(error, "the file %s cannot be replaced", path);
    gpud_fd_close(&old);
    return status;
}

static enum gpud_status take_name(const struct gpud_target_ring *ring, const char *made,
                                  const char *path, struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (;;) {
        enum gpud_status status = try_name(made, path, error);
        if (status != GPUD_AGAIN)
            return status;
        if (gpud_now() >= deadline)
            return gpud_fail_native(error, GPUD_IO, "errno", EADDRINUSE,
                                    "another target has the name \"%s\" (%s): choose another "
                                    "name, or stop it",
                                    ring->name, path);
        struct timespec pause = gpud_timespec(PAUSE);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
}

/* Removes the files of processes that died. */
static void reclaim(const char *directory)
{
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name), suffix = strlen(SUFFIX);
        if (length <= suffix || strcmp(entry->d_name + length - suffix, SUFFIX) != 0)
            continue;
        int fd =
            openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        char path[PATH_MAX_HERE];
        struct stat st;
        int written = gpud_print_n(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (fd >= 0 && written > 0 && (size_t)written < sizeof(path) && fstat(fd, &st) == 0 &&
            S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            gpud_target_file_is_there(fd, path))
            unlink(path);
        gpud_fd_close(&fd);
    }
    if (entries)
        closedir(entries);
}

enum gpud_status gpud_target_file_create(const struct gpud_target_ring *ring,
                                         char path[PATH_MAX_HERE], int *fd,
                                         struct gpud_error *error)
{
    char directory[PATH_MAX_HERE], whole[PATH_MAX_HERE], made[PATH_MAX_HERE];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    int length = gpud_print_n(whole, sizeof(whole), "%s/%s" SUFFIX, directory, ring->name);
    int other = gpud_print_n(made, sizeof(made), "%s/.target-XXXXXX", directory);
    if (length < 0 || (size_t)length >= sizeof(whole) || other < 0 || (size_t)other >= sizeof(made))
        return gpud_fail(error, GPUD_INVALID, "XDG_RUNTIME_DIR is too long for a file in it");
    reclaim(directory);
    int file = mkostemp(made, O_CLOEXEC); /* 0600 */
    if (file < 0)
        return gpud_fail_errno(error, "cannot make a file in %s", directory);
    if (flock(file, LOCK_EX | LOCK_NB) < 0)
        status = gpud_fail_errno(error, "cannot lock a file in %s", directory);
    if (status == GPUD_OK)
        status = write_new(ring, whole, &file, error);
    if (status == GPUD_OK)
        status = take_name(ring, made, whole, error);
    if (status != GPUD_OK) {
        unlink(made);
        gpud_fd_close(&file);
        return status;
    }
    memcpy(path, whole, (size_t)length + 1);
    *fd = file;
    return GPUD_OK;
}

void gpud_target_file_remove(const char *path, int *fd)
{
    if (*fd < 0)
        return;
    if (gpud_target_file_is_there(*fd, path))
        unlink(path);
    gpud_fd_close(fd);
}
