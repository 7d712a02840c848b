/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "middle.h"

#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static enum middle_side other(enum middle_side side)
{
    return side == MIDDLE_SENDER ? MIDDLE_RECEIVER : MIDDLE_SENDER;
}

/* --- connections ------------------------------------------------------------------------------ */

static int make_socket(const char *path, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    strncpy(name->sun_path, path, sizeof(name->sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        abort();
    return fd;
}

void middle_open(struct middle *middle, const char *path, const char *to)
{
    struct sockaddr_un name;
    memset(middle, 0, sizeof(*middle));
    middle->fd[0] = middle->fd[1] = middle->twin_of = -1;
    middle->to = to;
    middle->listener = make_socket(path, &name);
    if (bind(middle->listener, (struct sockaddr *)&name, sizeof(name)) < 0 ||
        listen(middle->listener, 8) < 0)
        abort();
}

void middle_stop_listening(struct middle *middle)
{
    gpud_fd_close(&middle->listener);
}

void middle_hang_up(struct middle *middle, enum middle_side side)
{
    gpud_fd_close(&middle->fd[side]);
}

static void drop_twin(struct middle *middle)
{
    if (middle->twin)
        munmap(middle->twin, middle->twin_size);
    middle->twin = NULL;
    gpud_fd_close(&middle->twin_of);
}

void middle_close(struct middle *middle)
{
    middle_stop_listening(middle);
    for (int side = 0; side < MIDDLE_SIDES; side++) {
        gpud_fd_close(&middle->fd[side]);
        packet_free(middle->held[side]);
    }
    for (int type = 0; type < KEPT_TYPES; type++) {
        packet_free(middle->kept[type][0]);
        packet_free(middle->kept[type][1]);
    }
    if (middle->page)
        munmap(middle->page, sizeof(*middle->page));
    drop_twin(middle);
}

/* What is left of the connection before ends with it. */
static bool connect_both(struct middle *middle)
{
    struct sockaddr_un name;
    int fd = accept4(middle->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return false;
    for (int side = 0; side < MIDDLE_SIDES; side++) {
        gpud_fd_close(&middle->fd[side]);
        packet_free(middle->held[side]);
        middle->held[side] = NULL;
    }
    middle->fd[MIDDLE_RECEIVER] = fd;
    fd = make_socket(middle->to, &name);
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
        gpud_fd_close(&fd);
    middle->fd[MIDDLE_SENDER] = fd;
    return true;
}

/* --- messages --------------------------------------------------------------------------------- */

/* The ring page, as a descriptor of an ACCEPT. */
static void look_at(struct middle *middle, const struct packet *packet, enum middle_side from)
{
    void *page;
    if (from != MIDDLE_RECEIVER || packet_type(packet) != GPUD_MESSAGE_ACCEPT ||
        packet->fd_count == 0 ||
        gpud_memfd_map(packet->fds[0], sizeof(*middle->page), true, &page, NULL) != GPUD_OK)
        return;
    if (middle->page)
        munmap(middle->page, sizeof(*middle->page));
    middle->page = page;
}

static void keep(struct middle *middle, const struct packet *packet)
{
    struct packet **kept = middle->kept[packet_type(packet)];
    packet_free(kept[1]);
    kept[1] = kept[0];
    kept[0] = packet_copy(packet);
}

/* Updates the twin from the memory that it replaces, before the peer is told to read it. */
static void refresh_twin(struct middle *middle)
{
    if (middle->twin && pread(middle->twin_of, middle->twin, middle->twin_size, 0) < 0)
        abort();
}

/* The sender's words in the page count messages: with one more or less they are read all the same,
 * as the count need only differ. */
static void say(struct middle *middle, const struct packet *packet, enum middle_side to)
{
    packet_send(packet, middle->fd[to]);
    if (to != MIDDLE_RECEIVER || !middle->page)
        return;
    atomic_fetch_add(&middle->page->sender.messages, 1);
    wake_both(middle->page);
}

static void hand_on(struct middle *middle, struct packet *packet, enum middle_side from,
                    struct fuzz_input *input)
{
    enum middle_side to = other(from);
    struct packet *before = middle->held[from];
    middle->held[from] = NULL;
    bool also = false, first = true;
    uint32_t how = input ? fuzz_number(input, 1) % 16 : 0;
    switch (how) {
    case 5:
        also = true; /* twice */
        break;
    case 6: /* not at all */
        packet_free(before);
        return;
    case 7: /* after the next */
        if (!before) {
            middle->held[from] = packet_copy(packet);
            return;
        }
        break;
    case 8: /* and that is the end of it */
        middle_hang_up(middle, fuzz_number(input, 1) & 1 ? from : to);
        break;
    case 9:
        packet->size = fuzz_number(input, 2) % packet->size;
        say(middle, packet, to);
        middle_hang_up(middle, to);
        first = false;
        break;
    default:
        if (how & 8 || (how >= 1 && how <= 4))
            mutate_packet(middle, packet, input);
        break;
    }
    if (first)
        say(middle, packet, to);
    if (also)
        say(middle, packet, to);
    if (before)
        say(middle, before, to);
    packet_free(before);
}

static bool read_side(struct middle *middle, enum middle_side from, struct fuzz_input *input)
{
    if (middle->fd[from] < 0)
        return false;
    struct packet *packet = malloc(sizeof(*packet));
    if (!packet)
        abort();
    int got = packet_receive(packet, middle->fd[from]);
    if (got > 0) {
        look_at(middle, packet, from);
        keep(middle, packet);
        if (from == MIDDLE_SENDER)
            refresh_twin(middle);
        hand_on(middle, packet, from, input);
        packet_free(packet);
    } else {
        free(packet);
    }
    if (got < 0) {
        gpud_fd_close(&middle->fd[MIDDLE_RECEIVER]);
        gpud_fd_close(&middle->fd[MIDDLE_SENDER]);
    }
    return got != 0;
}

bool middle_turn(struct middle *middle, struct fuzz_input *input, int wait)
{
    struct pollfd look[] = {
        {.fd = middle->fd[MIDDLE_RECEIVER], .events = POLLIN},
        {.fd = middle->fd[MIDDLE_SENDER], .events = POLLIN},
        {.fd = middle->listener, .events = POLLIN},
    };
    if (poll(look, 3, wait) <= 0)
        return false;
    if (look[0].revents && read_side(middle, MIDDLE_RECEIVER, input))
        return true;
    if (look[1].revents && read_side(middle, MIDDLE_SENDER, input))
        return true;
    return look[2].revents && connect_both(middle);
}

void middle_inject(struct middle *middle, struct fuzz_input *input)
{
    enum middle_side from;
    struct packet *packet = forge_packet(middle, input, &from);
    say(middle, packet, other(from));
    packet_free(packet);
}
