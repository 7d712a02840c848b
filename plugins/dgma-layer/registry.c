/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bus addresses. A real one is found by any device on the bus; ours is found by any process of the
 * same user: the address names a file in /dev/shm that holds the surface and, behind it, the marker
 * page.
 *
 *   bus address  | slot (20 bits, random) | offset (32 bits) |
 *   file         /dev/shm/gpudirect-dgma-UID-SLOT
 *
 * The owner holds a flock on its file for as long as it lives. Whoever can take that lock has found
 * what a dead process left, and removes it. What other processes put there is not trusted: owner,
 * mode and size are checked before anything is mapped. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dgma.h"

#define FOLDER "/dev/shm"
#define SLOT_SHIFT \
    32 /* objects are smaller than the gap between two slots: ranges cannot overlap */
#define SLOT_FIRST 0x100u
#define SLOT_COUNT (0x100000u - SLOT_FIRST) /* addresses from 2^40 to 2^52, as physical ones go */
#define CREATE_ATTEMPTS 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_object *owned;
static pthread_once_t swept_at_start = PTHREAD_ONCE_INIT;

struct name {
    char text[64];
};

static struct name name_of(cl_ulong base)
{
    struct name name;
    snprintf(name.text, sizeof name.text, FOLDER "/gpudirect-dgma-%u-%05" PRIx64,
             (unsigned)geteuid(), (uint64_t)(base >> SLOT_SHIFT));
    return name;
}

/* Is the open file the one that the name leads to, and a file of ours alone? */
static bool is_ours(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_uid == geteuid() && (opened.st_mode & 077) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* True if the file's owner was dead, and the name is gone now. */
static bool reclaim(int fd, const char *path)
{
    if (flock(fd, LOCK_EX | LOCK_NB))
        return false;
    /* Checked under the lock: nobody else reclaims it, and a creator that lost this race sees it
     * unlinked. */
    if (is_ours(fd, path))
        unlink(path);
    flock(fd, LOCK_UN);
    return true;
}

static void sweep(void)
{
    char prefix[40];
    int length = snprintf(prefix, sizeof prefix, "gpudirect-dgma-%u-", (unsigned)geteuid());
    DIR *folder = opendir(FOLDER);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
            continue;
        char path[sizeof FOLDER + sizeof entry->d_name];
        snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (is_ours(fd, path) && reclaim(fd, path))
            dgma_log("removed %s, left by a process that died", path);
        close(fd);
    }
    closedir(folder);
}

/* Opens a fresh, locked, empty file; the base address is its name. */
static int create_file(cl_ulong *base, struct name *name)
{
    for (int i = 0; i < CREATE_ATTEMPTS; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -1;
        *base = (cl_ulong)(SLOT_FIRST + random % SLOT_COUNT) << SLOT_SHIFT;
        *name = name_of(*base);
        int fd = open(name->text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd < 0)
            continue;
        struct stat st;
        if (fchmod(fd, 0600) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
            st.st_nlink > 0)
            return fd;
        /* Another process swept it in the instant before the lock. */
        unlink(name->text);
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

/* Memory that is promised but not there would end in a SIGBUS at the first touch: take it now. */
static int reserve(int fd, size_t total)
{
    int error;
    do
        error = posix_fallocate(fd, 0, (off_t)total);
    while (error == EINTR);
    return error;
}

/* Files of this process may be smaller (ulimit -f); to try would be SIGXFSZ, which kills. */
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

static struct dgma_object *object_new(cl_ulong base, int fd, size_t total)
{
    struct dgma_object *object = calloc(1, sizeof *object);
    if (!object)
        return NULL;
    object->map = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (object->map == MAP_FAILED) {
        free(object);
        return NULL;
    }
    object->base = base;
    object->total = total;
    object->fd = -1;
    atomic_init(&object->refs, 1);
    return object;
}

struct dgma_object *dgma_object_create(size_t surface)
{
    pthread_once(&swept_at_start, sweep);
    size_t total = surface + DGMA_PAGE;
    if (exceeds_limit(total))
        return NULL;
    cl_ulong base;
    struct name name;
    int fd = create_file(&base, &name);
    if (fd < 0) {
        dgma_log("no shared memory for a bus address: %s in %s", strerror(errno), FOLDER);
        return NULL;
    }
    int error = reserve(fd, total);
    if (error == ENOSPC) { /* perhaps only because of what the dead left meanwhile */
        sweep();
        error = reserve(fd, total);
    }
    struct dgma_object *object = error ? NULL : object_new(base, fd, total);
    if (!object) {
        dgma_log("no %zu bytes of shared memory: %s; make %s larger (docker: --shm-size)", total,
                 strerror(error ? error : errno), FOLDER);
        unlink(name.text);
        close(fd);
        return NULL;
    }
    object->fd = fd;
    object->owner_pid = getpid();
    pthread_mutex_lock(&lock);
    object->next = owned;
    owned = object;
    pthread_mutex_unlock(&lock);
    return object;
}

static struct dgma_object *find_owned(cl_ulong base)
{
    pthread_mutex_lock(&lock);
    struct dgma_object *object = owned;
    while (object && object->base != base)
        object = object->next;
    if (object)
        atomic_fetch_add(&object->refs, 1);
    pthread_mutex_unlock(&lock);
    return object;
}

/* Why the file may not be imported; NULL: it may, and `*total` is its size. */
static const char *refuse(int fd, const char *path, size_t *total)
{
    struct stat st;
    if (!is_ours(fd, path))
        return "it is not a file of this user alone";
    if (reclaim(fd, path))
        return "the process that owned it is dead";
    if (fstat(fd, &st) || st.st_size < (off_t)(2 * DGMA_PAGE) || st.st_size % (off_t)DGMA_PAGE ||
        st.st_size > (off_t)1 << SLOT_SHIFT)
        return "its size is none that a buffer can have";
    *total = (size_t)st.st_size;
    return NULL;
}

static struct dgma_object *import(cl_ulong base)
{
    struct name name = name_of(base);
    int fd = open(name.text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        dgma_log("a bus address that no buffer of this user has (%s): was it made resident, and "
                 "does its "
                 "owner live?",
                 strerror(errno));
        return NULL;
    }
    size_t total = 0;
    const char *reason = refuse(fd, name.text, &total);
    struct dgma_object *object = reason ? NULL : object_new(base, fd, total);
    if (!object)
        dgma_log("a bus address cannot be mapped: %s", reason ? reason : strerror(errno));
    close(fd);
    return object;
}

struct dgma_object *dgma_object_find(cl_ulong address, size_t *offset)
{
    pthread_once(&swept_at_start, sweep);
    cl_ulong base = address >> SLOT_SHIFT << SLOT_SHIFT;
    struct dgma_object *object = find_owned(base);
    if (!object)
        object = import(base);
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
    pthread_mutex_lock(&lock);
    struct dgma_object **at = &owned;
    while (*at && *at != object)
        at = &(*at)->next;
    bool found = *at != NULL;
    if (found)
        *at = object->next;
    pthread_mutex_unlock(&lock);
    /* A forked child releases copies: the names are its parent's. */
    if (found && object->owner_pid == getpid())
        unlink(name_of(object->base).text);
}

void dgma_object_unref(struct dgma_object *object)
{
    if (!object || atomic_fetch_sub(&object->refs, 1) > 1)
        return;
    munmap(object->map, object->total);
    if (object->fd >= 0)
        close(object->fd);
    free(object);
}

void dgma_registry_finish(void)
{
    pthread_mutex_lock(&lock);
    for (struct dgma_object *object = owned; object; object = object->next)
        if (object->owner_pid == getpid())
            unlink(name_of(object->base).text);
    pthread_mutex_unlock(&lock);
}
