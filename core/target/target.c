/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object, and the list of targets. */
#include "target/target.h"

#include "base/base.h"

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

/* === file ==================================================================================== */
/* The file that tells a writer in another process where to write. Its owner locks it for its
 * lifetime, so a file without a lock is stale and may be replaced. */

#define SUFFIX ".target"
#define FILE_BYTES_MAX 8192
#define PATH_MAX_HERE 256
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (5 * GPUD_MSEC)

static const char *const kinds[] = {
    [GPUD_TARGET_HOST] = "host",
    [GPUD_TARGET_BUS_ADDRESS] = "bus-address",
    [GPUD_TARGET_DMABUF] = "dma-buf",
};

static const char *const paces[] = {
    [GPUD_TARGET_FREE_RUNNING] = "free-running",
    [GPUD_TARGET_PACED] = "paced",
};

static bool has_suffix(const char *name)
{
    size_t length = strlen(name), suffix = strlen(SUFFIX);
    return length > suffix && strcmp(name + length - suffix, SUFFIX) == 0;
}

/* --- the text ------------------------------------------------------------------------------ */

struct text {
    char bytes[FILE_BYTES_MAX];
    size_t length;
};

static void file_add(struct text *text, const char *format, ...) GPUD_PRINTF(2, 3);

static void file_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length =
        vsnprintf(text->bytes + text->length, sizeof(text->bytes) - text->length, format, args);
    va_end(args);
    text->length += length > 0 ? (size_t)length : 0; /* overflow: reported on writing */
}

static void file_describe(struct text *text, const struct gpud_target_ring *ring)
{
    const struct gpud_layout *layout = &ring->layout;
    long pid = (long)getpid();
    file_add(text, "gpudirect-target=1\nname=%s\nprocess=%ld\nkind=%s\npace=%s\n", ring->name, pid,
             kinds[ring->kind], paces[ring->pace]);
    file_add(text, "format=%s\nwidth=%u\nheight=%u\n", layout->format, layout->width,
             layout->height);
    if (ring->fps_num)
        file_add(text, "framerate=%u/%u\n", ring->fps_num, ring->fps_den);
    file_add(text, "size=%" PRIu64 "\nplanes=%u\n", layout->size, layout->planes);
    for (uint32_t i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        file_add(text, "plane%u.offset=%" PRIu64 "\nplane%u.stride=%u\n", i, plane->offset, i,
                 plane->stride);
        file_add(text, "plane%u.row_bytes=%u\nplane%u.rows=%u\n", i, plane->row_bytes, i,
                 plane->rows);
    }
    file_add(text, "slots=%u\nslot_size=%" PRIu64 "\n", ring->slots, ring->slot_size);
    file_add(text, "words=/proc/%ld/fd/%d\nwords_size=%d\n", pid, ring->words_fd,
             GPUD_TARGET_WORDS_SIZE);
    file_add(text, "given_back=%d\nnext=%d\nstopped=%d\n", GPUD_TARGET_GIVEN_BACK, GPUD_TARGET_NEXT,
             GPUD_TARGET_STOPPED);
    if (ring->kind == GPUD_TARGET_HOST)
        file_add(text, "memory=/proc/%ld/fd/%d\n", pid, ring->memory_fd);
    if (ring->kind == GPUD_TARGET_DMABUF) /* has no path to open */
        file_add(text, "memory_fd=%d\n", ring->memory_fd);
    for (uint32_t slot = 0; slot < ring->slots; slot++) {
        file_add(text, "slot%u.lines=%" PRIu64 "\n", slot, GPUD_TARGET_LINES(slot));
        if (ring->kind == GPUD_TARGET_BUS_ADDRESS)
            file_add(text, "slot%u.surface=0x%" PRIx64 "\nslot%u.marker=0x%" PRIx64 "\n", slot,
                     ring->place[slot].bus.word[0], slot, ring->place[slot].bus.word[1]);
        else
            file_add(text, "slot%u.surface=%" PRIu64 "\nslot%u.marker=%" PRIu64 "\n", slot,
                     ring->memory_fd_offset + slot * ring->slot_size, slot,
                     GPUD_TARGET_MARKER(slot));
    }
}

/* --- creating ------------------------------------------------------------------------------ */

static enum gpud_status write_new(const struct gpud_target_ring *ring, const char *path, int *fd,
                                  struct gpud_error *error)
{
    static const char gone[] = "the file %s cannot be written";
    struct text text = {.length = 0};
    uint64_t limit;
    file_describe(&text, ring);
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

/* Whether the opened file is still the one with that name. */
static bool target_file_is_there(int fd, const char *path)
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
    if (flock(old, LOCK_EX | LOCK_NB) == 0 && target_file_is_there(old, path))
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
        if (!has_suffix(entry->d_name))
            continue;
        int fd =
            openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        char path[PATH_MAX_HERE];
        struct stat st;
        int written = gpud_print_n(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (fd >= 0 && written > 0 && (size_t)written < sizeof(path) && fstat(fd, &st) == 0 &&
            S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            target_file_is_there(fd, path))
            unlink(path);
        gpud_fd_close(&fd);
    }
    if (entries)
        closedir(entries);
}

/* Creates, writes and locks the file of a name. *fd holds the lock, which shows others that the
 * owner lives. */
static enum gpud_status target_file_create(const struct gpud_target_ring *ring,
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
        return gpud_fail(error, GPUD_INVALID,
                         "the path %s is too long for a file in it: "
                         "set GPUDIRECT_DIR to a shorter one",
                         directory);
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

/* === target ================================================================================== */
/* The public object of a ring that a writer outside of this library fills. */

#define SLOTS_DEFAULT 4

/* A silence of this long is reported as one. */
#define SILENCE GPUD_SEC

/* --- create and destroy -------------------------------------------------------------------- */

static enum gpud_status target_check_params(struct gpud_target_params *params,
                                            struct gpud_error *error)
{
    if (!params->layout)
        return gpud_fail(error, GPUD_INVALID, "a target needs a layout: what shall be written?");
    enum gpud_status status = gpud_layout_check(params->layout, error);
    if (status != GPUD_OK)
        return status;
    params->slots = params->slots ? params->slots : SLOTS_DEFAULT;
    if (params->slots < 2 || params->slots > GPUD_TARGET_SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: 2 to %d are possible", params->slots,
                         GPUD_TARGET_SLOTS_MAX);
    if (params->pace > GPUD_TARGET_PACED)
        return gpud_fail(error, GPUD_INVALID, "%d is not a pace: give one of enum gpud_target_pace",
                         (int)params->pace);
    if (params->by_lines && gpud_layout_is_block(params->layout))
        return gpud_fail(error, GPUD_INVALID, "a block has no lines: set by_lines for pictures");
    if ((params->fps_num == 0) != (params->fps_den == 0))
        return gpud_fail(error, GPUD_INVALID,
                         "%u/%u is not a frame rate: give one such as 25/1, or 0/0 for none",
                         params->fps_num, params->fps_den);
    if (!params->name)
        return GPUD_OK;
    if (!gpud_is_name(params->name) || strlen(params->name) >= GPUD_TARGET_NAME_MAX)
        return gpud_fail(
            error, GPUD_INVALID,
            "\"%.64s\" is not a target name: expected up to %d letters, digits, '.', '_' "
            "and '-', of which the first is not a dot",
            params->name, GPUD_TARGET_NAME_MAX - 1);
    return GPUD_OK;
}

static void describe_slot(struct gpud_target *target, uint32_t index)
{
    struct gpud_target_ring *ring = target->ring;
    uint64_t offset, marker = GPUD_TARGET_MARKER(index);
    struct gpud_memory *memory = gpud_target_slot_memory(ring, index, &offset);
    struct gpud_target_slot *slot = &target->slots[index];
    *slot = (struct gpud_target_slot){
        .size = sizeof(*slot),
        .kind = ring->kind,
        .surface_fd = ring->memory_fd,
        .marker_fd = -1,
        .bytes = ring->slot_size,
        .first = index + 1,
        .step = ring->slots,
        .lines = gpud_target_word(ring, GPUD_TARGET_LINES(index)),
        .lines_offset = GPUD_TARGET_LINES(index),
    };
    if (ring->kind == GPUD_TARGET_BUS_ADDRESS) {
        slot->surface_address = ring->place[index].bus.word[0];
        slot->marker_address = ring->place[index].bus.word[1];
    } else {
        slot->surface = memory->host ? (char *)memory->host + offset : NULL;
        slot->surface_offset = ring->memory_fd_offset + offset;
        slot->marker = gpud_target_word(ring, marker);
        slot->marker_fd = ring->words_fd;
        slot->marker_offset = marker;
    }
    target->slot[index] = slot;
}

enum gpud_status gpud_target_create(struct gpud_context *context,
                                    const struct gpud_target_params *params,
                                    struct gpud_target **target, struct gpud_error *error)
{
    struct gpud_target_params own;
    struct gpud_device *device = NULL, *host = NULL;
    enum gpud_status status =
        gpud_sized_read(&own, sizeof(own), params, GPUD_END_OF(struct gpud_target_params, layout),
                        "gpud_target_params", error);
    if (status == GPUD_OK)
        status = target_check_params(&own, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_target *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a target");
    gpud_lock_init(&made->lock, GPUD_RANK_TARGET);
    made->context = context;
    made->file_fd = -1;
    made->began = gpud_now();
    status = gpud_device_open(context, own.device, &device, error);
    if (status == GPUD_OK)
        status = gpud_device_open(context, "host", &host, error);
    if (status == GPUD_OK)
        status = gpud_target_ring_create(context, device, host, &own, &made->ring, error);
    if (status == GPUD_OK)
        made->ring->by_lines = own.by_lines;
    gpud_device_close(&device);
    gpud_device_close(&host);
    if (status == GPUD_OK && own.name)
        status = target_file_create(made->ring, made->file, &made->file_fd, error);
    if (status == GPUD_OK && own.name && made->ring->kind == GPUD_TARGET_BUS_ADDRESS)
        atomic_store(&made->ring->exposed, true);
    if (status != GPUD_OK) {
        gpud_target_destroy(&made);
        return status;
    }
    for (uint32_t i = 0; i < made->ring->slots; i++)
        describe_slot(made, i);
    *target = made;
    return GPUD_OK;
}

void gpud_target_destroy(struct gpud_target **target)
{
    if (!target || !*target)
        return;
    struct gpud_target *gone = *target;
    *target = NULL;
    if (gone->file_fd >= 0 && target_file_is_there(gone->file_fd, gone->file))
        unlink(gone->file);
    gpud_fd_close(&gone->file_fd);
    if (gone->ring)
        gpud_target_ring_leave(gone->ring);
    gpud_context_drain(gone->context);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

/* --- what the application asks ------------------------------------------------------------- */

void gpud_target_get_info(struct gpud_target *target, struct gpud_target_info *info)
{
    static const char *const paths[] = {
        [GPUD_TARGET_HOST] = "target-host",
        [GPUD_TARGET_BUS_ADDRESS] = "target-directgma",
        [GPUD_TARGET_DMABUF] = "target-dmabuf",
    };
    struct gpud_target_ring *ring = target->ring;
    struct gpud_target_info told = {
        .layout = ring->layout,
        .slots = ring->slots,
        .words_fd = ring->words_fd,
        .words = ring->words->host,
        .given_back_offset = GPUD_TARGET_GIVEN_BACK,
        .next_offset = GPUD_TARGET_NEXT,
        .stopped_offset = GPUD_TARGET_STOPPED,
        .age_ns = GPUD_TIME_NONE,
        .slot = target->slot,
    };
    if (ring->kind == GPUD_TARGET_BUS_ADDRESS)
        atomic_store(&ring->exposed, true);
    gpud_print(told.path, "%s", paths[ring->kind]);
    gpud_print(told.file, "%s", target->file);
    gpud_lock_take(&ring->lock);
    told.corrupted = ring->corrupted;
    gpud_lock_release(&ring->lock);
    gpud_lock_take(&target->lock);
    told.frames = target->frames;
    told.dropped = target->dropped;
    if (target->last)
        told.age_ns = (uint64_t)(gpud_now() - target->last);
    gpud_print(told.reason, "%s", target->reason);
    gpud_lock_release(&target->lock);
    gpud_sized_copy(info, info->size, &told, sizeof(told));
}

void gpud_target_interrupt(struct gpud_target *target, bool interrupted)
{
    atomic_store(&target->interrupted, interrupted);
}

static void set_reason(struct gpud_target *target, const char *reason)
{
    gpud_lock_take(&target->lock);
    gpud_print(target->reason, "%s", reason);
    gpud_lock_release(&target->lock);
}

/* --- acquire ------------------------------------------------------------------------------- */

static enum gpud_status say_failure(const struct gpud_target *target, struct gpud_error *error)
{
    if (error)
        *error = target->failure;
    return target->failure.status;
}

static enum gpud_status end_target(struct gpud_target *target, const struct gpud_error *why,
                                   struct gpud_error *error)
{
    target->failure = *why;
    target->ring->broken = true;
    set_reason(target, why->reason);
    return say_failure(target, error);
}

static enum gpud_status say_silent(struct gpud_target *target, struct gpud_error *error)
{
    struct gpud_target_ring *ring = target->ring;
    struct gpud_error why;
    gpud_lock_take(&ring->lock);
    bool all = (uint32_t)__builtin_popcountll(ring->held | ring->pending) == ring->slots;
    gpud_lock_release(&ring->lock);
    if (all)
        return gpud_fail(error, GPUD_TIMEOUT,
                         "the application holds all %u frames of the target: release one",
                         ring->slots);
    const char *name = ring->name[0] ? ring->name : "the target";
    int64_t since = gpud_now() - (target->last ? target->last : target->began);
    double seconds = (double)since / GPUD_SEC;
    gpud_fail(&why, GPUD_TIMEOUT,
              target->last ? "the writer of %s has written no frame for %.1f s: does it run?"
                           : "no frame was written to %s within %.1f s: is there a writer?",
              name, seconds);
    if (since > SILENCE)
        set_reason(target, why.reason);
    if (error)
        *error = why;
    return GPUD_TIMEOUT;
}

static void hand_out(struct gpud_target *target, struct gpud_frame *frame, uint64_t dropped)
{
    struct gpud_frame_info *info = &frame->info;
    int64_t now = gpud_now();
    target->sequence += 1 + dropped;
    if (dropped || target->discontinuity || !target->frames)
        info->flags |= GPUD_FRAME_DISCONTINUITY;
    target->discontinuity = false;
    info->pts_ns = info->submitted_ns = (uint64_t)now;
    info->sequence = target->sequence;
    info->epoch = 1;
    gpud_lock_take(&target->lock);
    target->frames++;
    target->dropped += dropped;
    info->dropped = target->dropped;
    target->last = now;
    target->reason[0] = '\0';
    gpud_lock_release(&target->lock);
}

static void note_unseen(struct gpud_target *target, uint64_t dropped)
{
    target->sequence += dropped;
    target->discontinuity = true;
    gpud_lock_take(&target->lock);
    target->dropped += dropped;
    target->last = gpud_now();
    gpud_lock_release(&target->lock);
    if (!target->said_full)
        gpud_log_warning(&target->context->log, "target",
                         "frames of \"%s\" are dropped, because the application holds their slots",
                         target->ring->name);
    target->said_full = true;
}

enum gpud_status gpud_target_acquire(struct gpud_target *target, int64_t timeout_ns,
                                     struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (target->failure.status != GPUD_OK)
        return say_failure(target, error);
    struct gpud_target_ring *ring = target->ring;
    int64_t deadline = gpud_deadline(timeout_ns), began = gpud_now();
    for (;;) {
        struct gpud_frame *taken = NULL;
        struct gpud_error why;
        uint64_t dropped = 0;
        if (atomic_load(&target->interrupted))
            return gpud_fail(error, GPUD_AGAIN, "the target was interrupted");
        if (gpud_target_look(ring, &why) != GPUD_OK ||
            gpud_target_take(ring, &taken, &dropped, &why) != GPUD_OK)
            return end_target(target, &why, error);
        if (taken) {
            hand_out(target, taken, dropped);
            *frame = taken;
            return GPUD_OK;
        }
        if (dropped)
            note_unseen(target, dropped);
        if (ring->posted >= GPUD_TARGET_FRAMES_MAX) {
            gpud_fail(&why, GPUD_CLOSED,
                      "the writer has written %u frames, which is all that a ring has numbers for: "
                      "make a new target",
                      GPUD_TARGET_FRAMES_MAX);
            return end_target(target, &why, error);
        }
        if (gpud_now() >= deadline)
            return say_silent(target, error);
        gpud_target_wait(ring, began, deadline);
    }
}

/* === list ==================================================================================== */
/* Lists targets: the files that this user's processes have written, and lock as long as they
 * live. */

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

static bool list_parse(const char *text, struct gpud_target_entry *entry)
{
    char rate[32] = "";
    uint32_t version, pid, num, den;
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
    get_text(text, "framerate", rate, sizeof(rate));
    if (sscanf(rate, "%u/%u", &num, &den) == 2 && num && num <= INT32_MAX && den &&
        den <= INT32_MAX) { /* else it stays 0/0 */
        entry->fps_num = num;
        entry->fps_den = den;
    }
    return true;
}

/* false: not a target's file, or the target has ended. */
static bool list_read_file(int directory, const char *name, struct gpud_target_entry *entry)
{
    char text[FILE_BYTES_MAX + 1];
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
    size_t own = strlen(name) - strlen(SUFFIX);
    return list_parse(text, entry) && strlen(entry->name) == own &&
           memcmp(name, entry->name, own) == 0;
}

/* --- the list ------------------------------------------------------------------------------ */

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
        if (at->d_name[0] == '.' || !has_suffix(at->d_name) ||
            !list_read_file(dirfd(listed), at->d_name, &entry))
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
