/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* File descriptors and sealed shared memory. */
#ifndef GPUD_BASE_FD_H
#define GPUD_BASE_FD_H

#include "base/error.h"
#include <stdatomic.h>
#include <sys/types.h>

enum gpud_share {
    GPUD_SHARE_READ_ONLY, /* importers can only map it for reading (F_SEAL_FUTURE_WRITE) */
    GPUD_SHARE_WRITABLE,  /* importers can write it, too */
    GPUD_SHARE_LATER,     /* shared only after gpud_memfd_close_writing(), then as READ_ONLY */
};

/* Forbids new writable mappings; existing ones stay. Idempotent. */
enum gpud_status gpud_memfd_close_writing(int fd, struct gpud_error *error);

/* Whether this process may make a file of this size (ulimit -f); *limit is the maximum. Trying is
 * not an option: beyond the limit the kernel sends SIGXFSZ, which kills. */
bool gpud_file_fits(uint64_t size, uint64_t *limit);

/* Makes a zeroed memfd of a fixed, sealed size and maps it writable here. The caller owns both the
 * descriptor and the mapping. */
enum gpud_status gpud_memfd_create(const char *name, uint64_t size, enum gpud_share share, int *fd,
                                   void **data, struct gpud_error *error);

/* Checks that a peer's descriptor is a memfd of ordinary pages that cannot shrink and has at least
 * size bytes; otherwise an access might kill this process with SIGBUS. GPUD_PEER if it is not. */
enum gpud_status gpud_memfd_check(int fd, uint64_t size, struct gpud_error *error);

/* Maps a peer's memfd after that check. The descriptor stays the caller's. */
enum gpud_status gpud_memfd_map(int fd, uint64_t size, bool writable, void **data,
                                struct gpud_error *error);

/* data may be NULL. false: the kernel refused (errno), and the pages stay mapped. For whole
 * mappings of the two functions above this happens only at the process's limit of mappings. */
bool gpud_memory_unmap_pages(void *data, uint64_t size);

/* A child that this process forks does not keep the descriptor, which it could hold open for longer
 * than this process lives: there it becomes a socket without a peer. Close it by gpud_fd_close().
 */
void gpud_fd_keep_from_children(int fd);

/* Makes a non-blocking eventfd readable; does nothing for -1. */
void gpud_event_raise(int fd);

/* The type of its file, as in st_mode; 0: an object of the kernel's without a file. Unlike fstat()
 * it does not ask a file system in user space, which may never answer. false: errno says why. */
bool gpud_fd_type(int fd, mode_t *type);

/* Whether it is a dma-buf. Asked of the kernel's own file system, because the ioctls of dma-bufs
 * wait for fences without a deadline. */
bool gpud_fd_is_dmabuf(int fd);

/* Closes *fd and makes it -1; does nothing for -1. */
void gpud_fd_close(int *fd);

/* Waits until it is readable. GPUD_AGAIN: *interrupted was set, which is noticed within 20 ms; it
 * may be NULL. GPUD_TIMEOUT: the deadline has passed. */
enum gpud_status gpud_fd_wait(int fd, int64_t deadline, const atomic_bool *interrupted);

/* The same for either of two; -1: none. */
enum gpud_status gpud_fd_wait_both(int fd, int other, int64_t deadline,
                                   const atomic_bool *interrupted);

#endif
