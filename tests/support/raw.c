/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/make.h"
#include "support/raw.h"

#include "base/base.h"
#include "device/device.h"
#include "route/route.h"
#include "stream/shared/shared.h"
#include "support/check.h"
#include "support/encode.h"
#include "support/peer.h"
#include "support/picture.h"
#include "wire/unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

const char *const raw_step_names[RAW_STEPS] = {
    "connected", "HELLO sent", "HELLO got",  "offered",
    "accepted",  "canary got", "READY sent", "streaming",
};
const char *const raw_server_step_names[RAW_SERVER_STEPS] = {
    "connected", "HELLO", "offered", "page got", "canary sent", "READY got", "streaming",
};

/* --- messages --------------------------------------------------------------------------------- */

bool raw_send(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
    struct iovec data = {.iov_base = (void *)bytes, .iov_len = size};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count) {
        memset(control, 0, sizeof(control));
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

bool raw_send_message(int fd, struct gpud_message *message)
{
    uint8_t bytes[GPUD_MESSAGE_MAX];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t fd_count, size = encode_message(message, bytes, fds, &fd_count);
    return raw_send(fd, bytes, size, fds, fd_count);
}

bool raw_receive(int fd, struct gpud_message *message, int64_t timeout)
{
    if (gpud_fd_wait(fd, gpud_deadline(timeout), NULL) != GPUD_OK)
        return false;
    return gpud_socket_receive(fd, message, NULL) == GPUD_OK;
}

bool raw_is_hung_up(int fd)
{
    struct pollfd look = {.fd = fd, .events = 0};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR | POLLNVAL));
}

bool raw_wait_hangup(int fd, int64_t timeout)
{
    int64_t until = gpud_deadline(timeout);
    char bytes[GPUD_MESSAGE_MAX];
    while (gpud_fd_wait(fd, until, NULL) == GPUD_OK) {
        ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return true;
    }
    return false;
}

int raw_dial(const char *address)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    WORKS(gpud_socket_resolve(address, name.sun_path, &e));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0)
        return fd;
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

int raw_memfd(uint64_t size, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | (seals < 0 ? 0 : MFD_ALLOW_SEALING));
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd_create: %s", strerror(errno));
    if (seals > 0)
        CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS: %s", strerror(errno));
    return fd;
}

/* --- a receiver ------------------------------------------------------------------------------- */

void raw_hello(struct gpud_message *message)
{
    memset(message, 0, sizeof(*message));
    message->type = GPUD_MESSAGE_HELLO;
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *host = OPEN_DEVICE(context, "host");
    gpud_endpoint_describe(&message->hello, host, "scripted");
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    message->hello.slots = 4;
    message->hello.slow_receiver = GPUD_SLOW_DROP_NEWEST;
}

void raw_accept(struct raw *raw, struct gpud_message *message)
{
    void *page;
    if (raw->page_fd < 0) {
        WORKS(gpud_memfd_create("page", sizeof(struct gpud_page), GPUD_SHARE_WRITABLE,
                                &raw->page_fd, &page, &e));
        raw->page = page;
        gpud_page_rx_init(&raw->view, raw->page, NULL, 4);
    }
    memset(message, 0, sizeof(*message));
    message->type = GPUD_MESSAGE_ACCEPT;
    message->accept.epoch = raw->offer.epoch;
    message->accept.entries = 4;
    message->accept.page = encode_page(raw->page_fd);
}

void raw_connect(struct raw *raw, const char *address)
{
    char path[GPUD_SOCKET_PATH_MAX];
    struct gpud_peer peer;
    memset(raw, 0, sizeof(*raw));
    raw->fd = raw->page_fd = -1;
    WORKS(gpud_socket_resolve(address, path, &e));
    WORKS(gpud_socket_connect(path, NULL, &raw->fd, &peer, &e));
}

static void claim(struct raw *raw, bool canary)
{
    struct gpud_descriptor descriptor;
    struct gpud_error error = {.reason = ""};
    uint32_t entry;
    int got;
    int64_t until = gpud_deadline(5 * GPUD_SEC);
    while ((got = gpud_page_claim(&raw->view, gpud_page_head(&raw->view), &entry, &descriptor,
                                  &error)) == 0) {
        CHECK(gpud_now() < until, "no frame comes");
        gpud_test_nap(1);
    }
    CHECK(got == 1, "%s", error.reason);
    CHECK(!canary || (descriptor.flags & GPUD_FRAME_CANARY), "the first frame is no canary");
    const atomic_bool is_idle = true;
    gpud_page_give_back(&raw->view, entry, &is_idle);
}

void raw_to(struct raw *raw, enum raw_step from, enum raw_step to)
{
    struct gpud_message message;
    for (int step = (int)from + 1; step <= (int)to; step++) {
        bool good = true;
        memset(&message, 0, sizeof(message));
        switch (step) {
        case RAW_HELLO_SENT:
            raw_hello(&message);
            good = raw_send_message(raw->fd, &message);
            break;
        case RAW_HELLO_GOT:
            good =
                raw_receive(raw->fd, &message, 5 * GPUD_SEC) && message.type == GPUD_MESSAGE_HELLO;
            break;
        case RAW_OFFERED:
            good =
                raw_receive(raw->fd, &message, 5 * GPUD_SEC) && message.type == GPUD_MESSAGE_OFFER;
            if (good)
                raw->offer = message.offer;
            gpud_message_close(&message);
            break;
        case RAW_ACCEPTED:
            raw_accept(raw, &message);
            good = raw_send_message(raw->fd, &message);
            break;
        case RAW_CANARY_GOT:
            do /* the sender's ring may grow for others meanwhile */
                good = raw_receive(raw->fd, &message, 5 * GPUD_SEC);
            while (good && message.type == GPUD_MESSAGE_GROW &&
                   (gpud_message_close(&message), true));
            good = good && message.type == GPUD_MESSAGE_CANARY;
            raw->nonce = message.canary.nonce;
            break;
        case RAW_READY_SENT:
            claim(raw, true);
            message.type = GPUD_MESSAGE_READY;
            message.epoch = raw->offer.epoch;
            good = raw_send_message(raw->fd, &message);
            break;
        case RAW_STREAMING:
            claim(raw, false);
            break;
        }
        CHECK(good, "the scripted receiver does not reach \"%s\"", raw_step_names[step]);
    }
}

void raw_connect_as_gpu(struct raw *raw, const char *address)
{
    struct gpud_message hello;
    raw_connect(raw, address);
    raw_hello(&hello);
    hello.hello.caps = GPUD_CAP_FENCES | GPUD_CAP_PINS_WRITABLE;
    hello.hello.token = 1;
    gpud_print(hello.hello.device, "hip:0");
    gpud_print(hello.hello.kind, "hip");
    CHECK(raw_send_message(raw->fd, &hello), "HELLO is not sent");
    raw_to(raw, RAW_HELLO_SENT, RAW_OFFERED);
    CHECK(strcmp(raw->offer.route, "staged-push") == 0, "%s is offered", raw->offer.route);
}

void raw_open(struct raw *raw, const char *address, enum raw_step to)
{
    raw_connect(raw, address);
    raw_to(raw, RAW_CONNECTED, to);
}

void raw_close(struct raw *raw)
{
    gpud_fd_close(&raw->fd);
    gpud_fd_close(&raw->page_fd);
    gpud_memory_unmap_pages(raw->page, sizeof(*raw->page));
    raw->page = NULL;
}

/* --- a sender --------------------------------------------------------------------------------- */

#define SERVER_SLOTS 4

void raw_listen(struct raw_server *server, const char *address)
{
    memset(server, 0, sizeof(*server));
    server->fd = -1;
    server->epoch = 1;
    WORKS(gpud_socket_resolve(address, server->path, &e));
    server->layout = LAYOUT("GRAY8", 64, 64, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, server->path);
    server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(server->listener >= 0 &&
              bind(server->listener, (struct sockaddr *)&name, sizeof(name)) == 0 &&
              listen(server->listener, 8) == 0,
          "%s: %s", server->path, strerror(errno));
    server->slot_size = 4096;
    server->ring_size = SERVER_SLOTS * server->slot_size;
    WORKS(gpud_memfd_create("ring", server->ring_size, GPUD_SHARE_READ_ONLY, &server->ring_fd,
                            &server->ring, &e));
}

void raw_offer(struct raw_server *server, struct gpud_message *message)
{
    memset(message, 0, sizeof(*message));
    message->type = GPUD_MESSAGE_OFFER;
    struct gpud_offer *offer = &message->offer;
    offer->epoch = server->epoch;
    strcpy(offer->route, "map");
    offer->media.picture.layout = server->layout;
    offer->ring.slot_size = server->slot_size;
    offer->slots = offer->slots_max = SERVER_SLOTS;
    offer->ring.slots_per_memory = SERVER_SLOTS;
    offer->ring.memories = 1;
    offer->ring.handle[0] = (struct gpud_handle){
        .type = GPUD_HANDLE_MEMFD, .fd = server->ring_fd, .size = server->ring_size};
}

bool raw_publish(struct raw_server *server, uint32_t *entry)
{
    uint32_t back;
    while (gpud_page_reap(&server->view, &back) > 0)
        ;
    if (!gpud_page_take(&server->view, entry))
        return false;
    struct gpud_descriptor *descriptor = &server->page->sender.descriptor[*entry];
    memset(descriptor, 0, sizeof(*descriptor));
    descriptor->slot = *entry;
    descriptor->sequence = ++server->sequence;
    descriptor->offset = descriptor->sequence;
    picture_write(&server->layout, (char *)server->ring + *entry * server->slot_size,
                  descriptor->sequence);
    gpud_page_publish(&server->view, *entry);
    gpud_page_notify(&server->view.end);
    return true;
}

void raw_adopt_page(struct raw_server *server, struct gpud_message *accept)
{
    void *page;
    WORKS(gpud_memfd_map(accept->accept.page.fd, sizeof(struct gpud_page), true, &page, &e));
    gpud_memory_unmap_pages(server->page, sizeof(struct gpud_page));
    server->page = page;
    WORKS(gpud_page_tx_init(&server->view, server->page, NULL, accept->accept.entries, SERVER_SLOTS,
                            &e));
    gpud_message_close(accept);
}

static bool server_step(struct raw_server *server, int step)
{
    struct gpud_message message;
    uint32_t entry;
    switch (step) {
    case RAW_SERVER_ACCEPTED: {
        struct pollfd wait = {.fd = server->listener, .events = POLLIN};
        if (poll(&wait, 1, 5000) != 1)
            return false;
        server->fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        return server->fd >= 0;
    }
    case RAW_SERVER_HELLO:
        if (!raw_receive(server->fd, &message, 5 * GPUD_SEC) || message.type != GPUD_MESSAGE_HELLO)
            return false;
        server->peer = message.hello;
        raw_hello(&message);
        if (server->device[0])
            strcpy(message.hello.device, server->device);
        strcpy(message.hello.pci, server->pci);
        return raw_send_message(server->fd, &message);
    case RAW_SERVER_OFFERED:
        raw_offer(server, &message);
        return raw_send_message(server->fd, &message);
    case RAW_SERVER_PAGE:
        if (!raw_receive(server->fd, &message, 5 * GPUD_SEC) || message.type != GPUD_MESSAGE_ACCEPT)
            return false;
        raw_adopt_page(server, &message);
        return true;
    case RAW_SERVER_CANARY:
        CHECK(gpud_page_take(&server->view, &entry), "no credit");
        server->page->sender.descriptor[entry] = (struct gpud_descriptor){
            .slot = entry, .sequence = server->sequence, .flags = GPUD_FRAME_CANARY};
        gpud_pattern_write((char *)server->ring + entry * server->slot_size, server->layout.size,
                           4711);
        gpud_page_publish(&server->view, entry);
        memset(&message, 0, sizeof(message));
        message.type = GPUD_MESSAGE_CANARY;
        message.canary.epoch = server->epoch;
        message.canary.nonce = 4711;
        return raw_send_message(server->fd, &message);
    case RAW_SERVER_READY:
        return raw_receive(server->fd, &message, 5 * GPUD_SEC) &&
               message.type == GPUD_MESSAGE_READY;
    default:
        return raw_publish(server, &entry);
    }
}

bool raw_tries(struct raw_server *server, int from, enum raw_server_step to)
{
    for (int step = from + 1; step <= (int)to; step++)
        if (!server_step(server, step))
            return false;
    return true;
}

void raw_serve(struct raw_server *server, int from, enum raw_server_step to)
{
    for (int step = from + 1; step <= (int)to; step++)
        CHECK(server_step(server, step), "the scripted sender does not reach \"%s\"",
              raw_server_step_names[step]);
}

void raw_hang_up(struct raw_server *server)
{
    gpud_fd_close(&server->fd);
    gpud_memory_unmap_pages(server->page, sizeof(struct gpud_page));
    server->page = NULL;
    server->sequence = 0;
}

void raw_server_close(struct raw_server *server)
{
    raw_hang_up(server);
    gpud_fd_close(&server->listener);
    gpud_fd_close(&server->ring_fd);
    gpud_memory_unmap_pages(server->ring, server->ring_size);
    unlink(server->path);
}

/* --- the log ---------------------------------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 20];
static size_t log_used;
static unsigned log_lines;

static void keep(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    pthread_mutex_lock(&log_lock);
    log_lines += level != GPUD_LOG_DEBUG;
    if (log_used + 600 < sizeof(log_text))
        log_used +=
            (size_t)snprintf(log_text + log_used, 600, "%d %s: %s\n", (int)level, area, text);
    pthread_mutex_unlock(&log_lock);
}

struct gpud_context *raw_context(void)
{
    struct gpud_context *context;
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    params.log = keep;
    params.log_level = GPUD_LOG_DEBUG; /* what was said a moment ago, too */
    WORKS(gpud_context_create(&params, &context, &e));
    context->log.lines_max = UINT32_MAX; /* a test provokes more than the default limit */
    return context;
}

void raw_log_clear(void)
{
    pthread_mutex_lock(&log_lock);
    log_used = log_lines = 0;
    log_text[0] = '\0';
    pthread_mutex_unlock(&log_lock);
}

unsigned raw_log_lines(void)
{
    pthread_mutex_lock(&log_lock);
    unsigned lines = log_lines;
    pthread_mutex_unlock(&log_lock);
    return lines;
}

bool raw_log_says(const char *text, int64_t timeout)
{
    int64_t until = gpud_deadline(timeout);
    for (;;) {
        pthread_mutex_lock(&log_lock);
        bool found = strstr(log_text, text) != NULL;
        pthread_mutex_unlock(&log_lock);
        if (found || gpud_now() >= until)
            return found;
        gpud_test_nap(1);
    }
}

void raw_log_print(void)
{
    pthread_mutex_lock(&log_lock);
    fprintf(stderr, "the log says:\n%s", log_text);
    pthread_mutex_unlock(&log_lock);
}
