/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tcp.h"

#include "wire/network.h"
#include "wire/tcp/kind.h"
#include "wire/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static char directory[64];

void tcp_begin(void)
{
    setenv("GPUDIRECT_LOG", "error", 0);
    gpud_print(directory, "/tmp/gpud-tcp-XXXXXX");
    CHECK(mkdtemp(directory) && setenv("XDG_RUNTIME_DIR", directory, 1) == 0, "mkdtemp: %m");
    network = (struct network_kind){
        .scheme = "tcp",
        .is_tcp = true,
        .host = "127.0.0.1",
        .host6 = "::1",
        .handshake_deadline = &gpud_tcp_handshake_deadline,
        .early_messages = TCP_UNSENT_MAX,
        .death = "the connection",
    };
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *place)
{
    return remove(path);
}

int tcp_done(void)
{
    /* Processes that were killed leave sockets behind. */
    CHECK(nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "%s: %m", directory);
    return 0;
}

const char *path_of(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    return path;
}

/* --- by sockets alone ------------------------------------------------------------------------- */

int connect_raw(const void *bytes, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(case_port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0,
          "connect: %m");
    write_raw(fd, bytes, size);
    return fd;
}

void write_raw(int fd, const void *bytes, size_t size)
{
    if (size > 0)
        CHECK(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size, "send: %m");
}

void read_raw(int fd, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        CHECK(gpud_fd_wait(fd, gpud_deadline(PATIENCE), NULL) == GPUD_OK, "nothing comes");
        ssize_t got = recv(fd, (char *)bytes + done, size - done, 0);
        CHECK(got > 0, "%zu of %zu bytes, and the end", done, size);
        done += (size_t)got;
    }
}

void expect_raw_end(int fd, size_t most)
{
    char bytes[4096];
    size_t come = 0;
    for (;;) {
        CHECK(gpud_fd_wait(fd, gpud_deadline(PATIENCE), NULL) == GPUD_OK, "no end comes");
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            break;
        CHECK(got > 0, "recv: %m");
        come += (size_t)got;
        CHECK(come <= most, "%zu bytes come where the end is due", come);
    }
    close(fd);
}

size_t make_request(uint8_t bytes[64], unsigned proof, const char *name)
{
    struct gpud_request request = {.number = proof};
    gpud_print(request.name, "%s", name);
    return gpud_request_write(&request, bytes);
}

/* --- a third party ---------------------------------------------------------------------------- */

void bystander_check(struct bystander *bystander)
{
    static uint32_t number;
    greet(bystander->sender, ++number);
    greet(bystander->receiver, number + 1000);
    expect_greeting(bystander->receiver, number);
    expect_greeting(bystander->sender, number + 1000);
}

void bystander_end(struct bystander *bystander)
{
    bystander_check(bystander);
    gpud_channel_unref(&bystander->receiver);
    gpud_channel_unref(&bystander->sender);
}
