/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* File descriptors and sealed shared memory. */
#ifndef GPUD_BASE_FD_H
#define GPUD_BASE_FD_H

#include "base/error.h"
#include <stdatomic.h>

enum gpud_share {
    GPUD_SHARE_READ_ONLY, /* others can map it for reading only (F_SEAL_FUTURE_WRITE) */
    GPUD_SHARE_WRITABLE,  /* others can write it too */
    GPUD_SHARE_LATER,     /* not shared before gpud_memfd_close_writing(), then as READ_ONLY */
};

/* From now on nobody maps it for writing who has not already. Again does no harm. */
enum gpud_status gpud_memfd_close_writing(int fd, struct gpud_error *error);

/* Whether this process may make a file as large (ulimit -f); *limit is what it may. To try is no
 * way to find out: beyond the limit the kernel sends SIGXFSZ, which kills. */
bool gpud_file_fits(uint64_t size, uint64_t *limit);

/* A zeroed memfd of this size, mapped writable here, whose size nobody can change any more. The
 * caller owns both the descriptor and the mapping. */
enum gpud_status gpud_memfd_create(const char *name, uint64_t size, enum gpud_share share, int *fd,
                                   void **data, struct gpud_error *error);

/* Maps a peer's memfd after checking that it is a memfd of ordinary pages that cannot shrink and
 * holds at least size bytes: else an access might kill this process with SIGBUS. The descriptor
 * stays the caller's. GPUD_PEER if it lies. */
enum gpud_status gpud_memfd_map(int fd, uint64_t size, bool writable, void **data,
                                struct gpud_error *error);

/* data may be NULL. false: the kernel refused (errno), and the pages stay mapped for good. With
 * what the two above mapped, all of it, that happens only to a process at its limit of mappings. */
bool gpud_memory_unmap_pages(void *data, uint64_t size);

/* Makes a non-blocking eventfd readable; to -1 is nothing. */
void gpud_event_raise(int fd);

/* Closes *fd and makes it -1; -1 is nothing. */
void gpud_fd_close(int *fd);

/* Whether the other end of a socket is gone. Waits for nothing. */
bool gpud_fd_is_hung_up(int fd);

/* Waits for something to read. GPUD_AGAIN: *interrupted was set, which is seen within 20 ms; NULL:
 * nothing interrupts. GPUD_TIMEOUT: the deadline is over. */
enum gpud_status gpud_fd_wait(int fd, int64_t deadline, const atomic_bool *interrupted);

#endif
