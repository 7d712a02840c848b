/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bus addresses. Any device on the bus can use a real one, any process of the same user one of
 * ours: the address names a file in /dev/shm that holds the surface and, behind it, the marker
 * page. The file is not kept open, so that the number of buffers is limited by memory, not by
 * descriptors.
 *
 *   bus address  | slot (20 bits, random) | offset (32 bits) |
 *   file         /dev/shm/gpudirect-dgma-UID-SLOT
 *
 * An owner whose device keeps a copy has a second file beside it. A lock shows that a slot's owner
 * lives; a slot without one was left by a dead process, and is removed. Files are not trusted:
 * owner, mode and size are checked before anything is mapped. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layer.h"

/* === slot ==================================================================================== */
/* Detects dead owners. Each user has an empty file for locks, /dev/shm/gpudirect-dgma-UID: the
 * process that owns slot N holds a read lock on byte N; a process that removes a dead owner's files
 * holds a write lock meanwhile. A process needs one descriptor for any number of buffers.
 *
 * These are POSIX record locks because they belong to the process: a forked helper has the
 * descriptor but not the lock, so the owner's death shows at once, also after SIGKILL, and across
 * containers that share /dev/shm, where pids are meaningless. flock and OFD locks belong to the
 * open file, and would persist in the helper. But with record locks, any close of that file by the
 * process drops all its locks. So it is opened only here, once, and never closed; and it is never
 * removed, because a lock on a removed file has no effect. */

static int lock_fd = -1;

/* Retried after a failure, which may have been a temporary lack of descriptors. */
static bool slot_ready(void)
{
    if (lock_fd >= 0)
        return true;
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/gpudirect-dgma-%u", (unsigned)geteuid());
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        dgma_log("no bus addresses without the file %s for their locks: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        dgma_log("no bus addresses: %s is not a file of this user alone; remove it", path);
        errno = EPERM;
    } else {
        lock_fd = fd;
        return true;
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return false;
}

/* F_RDLCK takes the slot for this process, until it gives it back or ends. F_WRLCK claims a slot
 * without an owner exclusively, until it is given back; not for a slot that this process owns: the
 * call would succeed, and lose it. F_UNLCK gives it back. false, errno: it cannot; EAGAIN or
 * EACCES: another process has it. */
static bool slot_lock(uint32_t slot, short type)
{
    if (!slot_ready())
        return false;
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(lock_fd, F_SETLK, &lock) == 0;
}

/* === files =================================================================================== */

#define FOLDER "/dev/shm"
#define SLOT_SHIFT \
    32 /* objects are smaller than the gap between two slots: ranges cannot overlap */
#define SLOT_FIRST 0x100u
#define SLOT_COUNT (0x100000u - SLOT_FIRST) /* addresses from 2^40 to 2^52, as physical ones go */
#define CREATE_ATTEMPTS 16

struct name {
    char text[64];
};

static uint32_t slot_of(cl_ulong base)
{
    return (uint32_t)(base >> SLOT_SHIFT);
}

static struct name name_of(cl_ulong base, const char *end)
{
    struct name name;
    snprintf(name.text, sizeof name.text, FOLDER "/gpudirect-dgma-%u-%05" PRIx32 "%s",
             (unsigned)geteuid(), slot_of(base), end);
    return name;
}

static void remove_files(cl_ulong base)
{
    unlink(name_of(base, "").text);
    unlink(name_of(base, "-written").text);
}

/* Whether the open file is the one with that name, and accessible only to this user. */
static bool is_ours(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_uid == geteuid() && (opened.st_mode & 077) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* Allocates the memory now: if it were missing later, the first access would raise SIGBUS. */
static int reserve(int fd, size_t total)
{
    int error;
    do
        error = posix_fallocate(fd, 0, (off_t)total);
    while (error == EINTR);
    return error;
}

/* NULL, errno: it cannot be mapped. */
static void *map_shared(int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* === written ================================================================================= */
/* The written map: a file beside the object's own, /dev/shm/gpudirect-dgma-UID-SLOT-written, made
 * by an owner that keeps a copy. Any number of writers set bits; only the owner clears them. */

static size_t written_size(const struct dgma_object *object)
{
    size_t size = sizeof(struct dgma_written) + (object->total - DGMA_PAGE) / 8;
    return (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
}

/* Returns 0 or an errno. This process owns the object's slot. */
static int written_create(struct dgma_object *object)
{
    struct name name = name_of(object->base, "-written");
    unlink(name.text); /* the slot is ours, so an existing file is stale */
    int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = fchmod(fd, 0600) ? errno : reserve(fd, written_size(object));
    if (!error && !(object->written = map_shared(fd, written_size(object))))
        error = errno;
    close(fd);
    if (error)
        unlink(name.text);
    return error;
}

/* If there is none, the owner works in place. */
static void written_open(struct dgma_object *object)
{
    struct stat st;
    int fd =
        open(name_of(object->base, "-written").text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0 && st.st_size == (off_t)written_size(object))
        object->written = map_shared(fd, written_size(object));
    close(fd);
}

/* === registry ================================================================================ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_object *owned;
static _Atomic pid_t owner; /* the process of `owned`, which a forked child inherits */
static pthread_once_t swept_at_start = PTHREAD_ONCE_INIT;

/* Under the lock. */
static struct dgma_object *owned_at(cl_ulong base)
{
    struct dgma_object *object = owned;
    while (object && object->base != base)
        object = object->next;
    return object;
}

/* Removes the slot's files if its owner is dead. */
static bool reclaim(cl_ulong base)
{
    pthread_mutex_lock(&lock);
    /* Only one process can claim a slot, and a creator that loses this race sees that its file is
     * unlinked. */
    bool dead = !owned_at(base) && slot_lock(slot_of(base), F_WRLCK);
    if (dead) {
        remove_files(base);
        slot_lock(slot_of(base), F_UNLCK);
    }
    pthread_mutex_unlock(&lock);
    return dead;
}

static void sweep(void)
{
    char prefix[40];
    int length = snprintf(prefix, sizeof prefix, "gpudirect-dgma-%u-", (unsigned)geteuid());
    DIR *folder = opendir(FOLDER);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        unsigned slot;
        if (strncmp(entry->d_name, prefix, (size_t)length) == 0 &&
            sscanf(entry->d_name + length, "%5x", &slot) == 1 &&
            reclaim((cl_ulong)slot << SLOT_SHIFT))
            dgma_log("removed %s, left by a process that died", entry->d_name);
    }
    closedir(folder);
}

/* Opens a fresh, empty file in a slot that this process owns; the base address is its name. */
static int create_file(cl_ulong *base)
{
    for (int i = 0; i < CREATE_ATTEMPTS; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -1;
        *base = (cl_ulong)(SLOT_FIRST + random % SLOT_COUNT) << SLOT_SHIFT;
        struct name name = name_of(*base, "");
        int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd < 0)
            continue;
        bool taken = slot_lock(slot_of(*base), F_RDLCK);
        int reason = errno;
        struct stat st;
        /* Before the lock is taken, another process may consider the file stale, and remove it. */
        if (taken && fchmod(fd, 0600) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        if (taken)
            slot_lock(slot_of(*base), F_UNLCK);
        if (is_ours(fd, name.text))
            unlink(name.text);
        close(fd);
        errno = reason;
        if (!taken && reason != EAGAIN && reason != EACCES)
            return -1;
    }
    errno = EAGAIN;
    return -1;
}

/* Checks the limit of file sizes (ulimit -f), because exceeding it raises SIGXFSZ, which kills. */
static bool exceeds_limit(size_t total)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        total <= limit.rlim_cur)
        return false;
    dgma_log("no %zu bytes of shared memory: it is a file, and this process's files may have %llu; "
             "raise its limit (ulimit -f)",
             total, (unsigned long long)limit.rlim_cur);
    return true;
}

/* Advice on a failure, to be appended to its message. */
static const char *advice(int error)
{
    switch (error) {
    case ENOSPC:
        return "; make " FOLDER " larger (docker: --shm-size)";
    case EMFILE:
        return "; one descriptor is needed briefly, raise the limit (ulimit -n)";
    case ENOMEM:
        return "; or it has too many mappings, raise vm.max_map_count";
    default:
        return "";
    }
}

static struct dgma_object *object_new(void)
{
    struct dgma_object *object = calloc(1, sizeof *object);
    if (object)
        atomic_init(&object->refs, 1);
    return object;
}

struct dgma_object *dgma_object_create(size_t surface, bool keeps_copy)
{
    pthread_once(&swept_at_start, sweep);
    size_t total = surface + DGMA_PAGE;
    if (exceeds_limit(total))
        return NULL;
    struct dgma_object *object = object_new();
    if (!object)
        return NULL;
    pthread_mutex_lock(&lock); /* so that no thread here reclaims the slot meanwhile */
    int fd = slot_ready() ? create_file(&object->base) : -1;
    if (fd >= 0) {
        object->owner_pid = getpid();
        atomic_store(&owner, object->owner_pid);
        object->next = owned;
        owned = object;
    }
    pthread_mutex_unlock(&lock);
    if (fd < 0) {
        dgma_log("no shared memory for a bus address: %s in %s%s", strerror(errno), FOLDER,
                 advice(errno));
        free(object);
        return NULL;
    }
    int error = reserve(fd, total);
    if (error == ENOSPC) { /* perhaps due to new files of dead processes */
        sweep();
        error = reserve(fd, total);
    }
    object->total = total;
    pthread_mutex_lock(&lock); /* against dgma_object_find() */
    if (!error && !(object->map = map_shared(fd, total)))
        error = errno;
    pthread_mutex_unlock(&lock);
    close(fd);
    if (!error && keeps_copy)
        error = written_create(object);
    if (!error)
        return object;
    dgma_log("no %zu bytes of shared memory: %s%s", total, strerror(error), advice(error));
    dgma_object_unpublish(object);
    if (object->map)
        munmap(object->map, object->total);
    free(object);
    return NULL;
}

/* Why the file may not be imported; NULL: it may, and `*total` is its size. */
static const char *registry_refuse(int fd, cl_ulong base, size_t *total)
{
    struct stat st;
    struct flock slot = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot_of(base), .l_len = 1};
    if (!is_ours(fd, name_of(base, "").text))
        return "it is not a file of this user alone";
    pthread_mutex_lock(&lock);
    bool is_owned = slot_ready() && fcntl(lock_fd, F_GETLK, &slot) == 0 && slot.l_type == F_RDLCK;
    pthread_mutex_unlock(&lock);
    if (!is_owned) {
        reclaim(base);
        return "the process that owned it is dead";
    }
    if (fstat(fd, &st) || st.st_size < (off_t)(2 * DGMA_PAGE) || st.st_size % (off_t)DGMA_PAGE ||
        st.st_size > (off_t)1 << SLOT_SHIFT)
        return "no buffer can have its size";
    /* Owners allocate all of it. In a sparse file an access could raise SIGBUS. */
    if (st.st_blocks * 512 < st.st_size)
        return "its memory is not fully allocated";
    *total = (size_t)st.st_size;
    return NULL;
}

static struct dgma_object *import_object(cl_ulong base)
{
    int fd = open(name_of(base, "").text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        dgma_log("a bus address that no buffer of this user has (%s): was it made resident, and "
                 "does its owner live?%s",
                 strerror(errno), advice(errno));
        return NULL;
    }
    size_t total = 0;
    const char *reason = registry_refuse(fd, base, &total);
    struct dgma_object *object = reason ? NULL : object_new();
    if (object && (object->map = map_shared(fd, total))) {
        object->total = total;
        object->base = base;
        written_open(object);
    } else {
        dgma_log("a bus address cannot be mapped: %s%s", reason ? reason : strerror(errno),
                 reason ? "" : advice(errno));
        free(object);
        object = NULL;
    }
    close(fd);
    return object;
}

struct dgma_object *dgma_object_find(cl_ulong address, size_t *offset)
{
    pthread_once(&swept_at_start, sweep);
    cl_ulong base = address >> SLOT_SHIFT << SLOT_SHIFT;
    pthread_mutex_lock(&lock);
    struct dgma_object *object = owned_at(base);
    if (object && object->map) /* else it is being created, and its address is still unknown */
        atomic_fetch_add(&object->refs, 1);
    else
        object = NULL;
    pthread_mutex_unlock(&lock);
    if (!object)
        object = import_object(base);
    if (object && address - base >= object->total) {
        dgma_log("a bus address behind the end of its buffer");
        dgma_object_unref(object);
        return NULL;
    }
    if (object)
        *offset = (size_t)(address - base);
    return object;
}

void dgma_object_unpublish(struct dgma_object *object)
{
    /* A forked child releases inherited objects, whose names belong to its parent; the lock may
     * have been held at the fork. */
    if (object->owner_pid != getpid())
        return;
    pthread_mutex_lock(&lock);
    struct dgma_object **at = &owned;
    while (*at && *at != object)
        at = &(*at)->next;
    if (*at) {
        *at = object->next;
        remove_files(object->base);
        slot_lock(slot_of(object->base), F_UNLCK);
    }
    pthread_mutex_unlock(&lock);
}

void dgma_object_unref(struct dgma_object *object)
{
    if (!object || atomic_fetch_sub(&object->refs, 1) > 1)
        return;
    if (object->written)
        munmap(object->written, written_size(object));
    munmap(object->map, object->total);
    free(object);
}

void dgma_registry_finish(void)
{
    /* Before the lock, which a thread that a forked child lacks may have held. */
    if (atomic_load(&owner) != getpid())
        return;
    pthread_mutex_lock(&lock);
    for (struct dgma_object *object = owned; object; object = object->next)
        if (object->owner_pid == getpid())
            remove_files(object->base);
    pthread_mutex_unlock(&lock);
}
