/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared memory: a peer's memory is mapped only if no access to it can kill this process; the rest
 * is refused with a reason. */
#include "base/base.h"
#include "support/run.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define SIZE 100000 /* no multiple of a page */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* The faked result of fstatfs(); 0: the real one; -1: it fails. */
static long pretended;

__typeof__(fstatfs64) __real_fstatfs64, __wrap_fstatfs64;
int __wrap_fstatfs64(int fd, struct statfs64 *fs)
{
    if (pretended < 0) {
        errno = EIO;
        return -1;
    }
    int result = __real_fstatfs64(fd, fs);
    if (pretended)
        fs->f_type = pretended;
    return result;
}

/* A memfd as a peer would send it; -1: this kernel has none of the kind. */
static int sealed(unsigned flags, off_t size, int seals)
{
    int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd < 0)
        return -1;
    CHECK(ftruncate(fd, size) == 0, "ftruncate: %s", strerror(errno));
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS: %s", strerror(errno));
    return fd;
}

int main(void)
{
    SAY("memory that is shared and taken back");
    int fd;
    void *ours, *theirs;
    WORKS(gpud_memfd_create("test", SIZE, GPUD_SHARE_WRITABLE, &fd, &ours, &e));
    WORKS(gpud_memfd_map(fd, SIZE, true, &theirs, &e));
    memset(ours, 0x5a, SIZE);
    CHECK(memcmp(ours, theirs, SIZE) == 0, "the two mappings are not of the same memory");
    CHECK(gpud_memory_unmap_pages(theirs, SIZE), "munmap: %s", strerror(errno));
    CHECK(gpud_memory_unmap_pages(ours, SIZE), "munmap: %s", strerror(errno));
    gpud_fd_close(&fd);
    CHECK_EQUAL(fd, -1);

    WORKS(gpud_memfd_create("test", SIZE, GPUD_SHARE_READ_ONLY, &fd, &ours, &e));
    EXPECT(GPUD_NO_ACCESS, "cannot map", gpud_memfd_map(fd, SIZE, true, &theirs, &e));
    WORKS(gpud_memfd_map(fd, SIZE, false, &theirs, &e));
    CHECK(gpud_memory_unmap_pages(theirs, SIZE) && gpud_memory_unmap_pages(ours, SIZE), "munmap");
    gpud_fd_close(&fd);

    char page[4096];
    CHECK(gpud_memory_unmap_pages(NULL, SIZE), "nothing cannot be unmapped");
    errno = 0;
    CHECK(!gpud_memory_unmap_pages(page + 1, 4096) && errno == EINVAL,
          "a refusal of munmap() is not seen");

    SAY("files, and an address space, that this process may not make as large");
    /* Beyond a limit of the process the kernel would kill it. A limited address space is named,
     * too: the machine has memory enough. */
    const uint64_t size = UINT64_C(1) << 30;
    void *data = NULL;
    uint64_t limit;
    int large = sealed(0, (off_t)size, SEALS);
    fd = -1;
    rlim_t before = set_limit(RLIMIT_FSIZE, SIZE);
    CHECK(gpud_file_fits(SIZE, &limit) && !gpud_file_fits(SIZE + 1, &limit) && limit == SIZE,
          "the limit is %llu", (unsigned long long)limit);
    EXPECT(GPUD_NO_MEMORY, "may have 100000: raise its limit (ulimit -f)",
           gpud_memfd_create("test", SIZE + 1, GPUD_SHARE_WRITABLE, &fd, &data, &e));
    CHECK(fd == -1 && !data, "an output was written by a call that failed");
    WORKS(gpud_memfd_create("test", SIZE, GPUD_SHARE_WRITABLE, &fd, &data, &e));
    set_limit(RLIMIT_FSIZE, before);
    CHECK(gpud_memory_unmap_pages(data, SIZE), "munmap");
    gpud_fd_close(&fd);
    data = NULL;

    before = set_limit(RLIMIT_AS, size);
    EXPECT(GPUD_NO_MEMORY, "address space of 1024 MiB: raise its limit (ulimit -v)",
           gpud_memfd_create("test", size, GPUD_SHARE_WRITABLE, &fd, &data, &e));
    EXPECT(GPUD_NO_MEMORY, "(ulimit -v)", gpud_memfd_map(large, size, false, &data, &e));
    set_limit(RLIMIT_AS, before);
    CHECK(fd == -1 && !data, "an output was written by a call that failed");
    gpud_fd_close(&large);

    SAY("memfds that are none, or not what they should be");
    data = &pretended;
    int pipes[2];
    fd = sealed(0, SIZE, F_SEAL_GROW);
    EXPECT(GPUD_PEER, "not sealed", gpud_memfd_map(fd, SIZE, false, &data, &e));
    gpud_fd_close(&fd);
    fd = sealed(0, SIZE, SEALS);
    EXPECT(GPUD_PEER, "100000 bytes where 100001", gpud_memfd_map(fd, SIZE + 1, false, &data, &e));
    EXPECT(GPUD_PEER, "where 0", gpud_memfd_map(fd, 0, false, &data, &e));
    gpud_fd_close(&fd);
    CHECK(pipe(pipes) == 0, "pipe");
    EXPECT(GPUD_PEER, "not a memfd", gpud_memfd_map(pipes[0], SIZE, false, &data, &e));
    close(pipes[0]);
    close(pipes[1]);
    CHECK(data == &pretended, "an output was written by a call that failed");

    SAY("memfds that are not of ordinary pages");
    /* File systems as the kernel names them. */
    fd = sealed(0, SIZE, SEALS);
    pretended = HUGETLBFS_MAGIC;
    EXPECT(GPUD_PEER, "huge pages", gpud_memfd_map(fd, SIZE, false, &data, &e));
    EXPECT(GPUD_PEER, "huge pages", gpud_memfd_map(fd, SIZE, true, &data, &e));
    pretended = BTRFS_SUPER_MAGIC;
    EXPECT(GPUD_PEER, "9123683e", gpud_memfd_map(fd, SIZE, false, &data, &e));
    pretended = -1;
    EXPECT(GPUD_IO, "determine the type", gpud_memfd_map(fd, SIZE, false, &data, &e));
    CHECK(data == &pretended, "an output was written by a call that failed");
    pretended = 0;
    WORKS(gpud_memfd_map(fd, SIZE, false, &data, &e));
    CHECK(gpud_memory_unmap_pages(data, SIZE), "munmap");
    gpud_fd_close(&fd);

    /* The real thing: sealed, of the right size, and an access would be SIGBUS where the pool is
     * empty. */
    int huge = sealed(MFD_HUGETLB, 1 << 30, SEALS);
    if (huge >= 0)
        EXPECT(GPUD_PEER, "huge pages", gpud_memfd_map(huge, SIZE, false, &data, &e));
    else
        SAY("  left out: this kernel makes no memfd of huge pages: %s", strerror(errno));
    gpud_fd_close(&huge);

    SAY("types of descriptors");
    mode_t type;
    int memfd = sealed(0, SIZE, SEALS), event = eventfd(0, EFD_CLOEXEC);
    CHECK(event >= 0 && pipe2(pipes, O_CLOEXEC) == 0, "no event or pipe: %s", strerror(errno));
    const struct {
        int fd;
        mode_t type;
    } known[] = {{memfd, S_IFREG}, {event, 0}, {pipes[0], S_IFIFO}};
    for (int i = 0; i < 3; i++) {
        CHECK(gpud_fd_type(known[i].fd, &type) && type == known[i].type, "%d is of type %#x", i,
              (unsigned)type);
        CHECK(!gpud_fd_is_dmabuf(known[i].fd), "%d counts as a dma-buf", i);
    }
    CHECK(!gpud_fd_type(-1, &type) && errno == EBADF, "a type of none");
    CHECK(!gpud_fd_is_dmabuf(-1), "none counts as a dma-buf");
    pretended = DMA_BUF_MAGIC;
    CHECK(gpud_fd_is_dmabuf(event), "the file system is not asked");
    CHECK(!gpud_fd_is_dmabuf(memfd), "a file counts as a dma-buf");
    pretended = 0;
    close(memfd);
    close(event);
    close(pipes[0]);
    close(pipes[1]);
    return 0;
}
