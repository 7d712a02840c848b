/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Querying a sender: the input answers, honestly or not, over a real socket with real descriptors.
 * The query ends in any case; its results are safe to print on a terminal; and every received
 * descriptor is closed. */
#include "frame/media/media.h"
#include "route/route.h"
#include "stateful.h"
#include "stream/query/query.h"
#include "watch.h"

#define MESSAGES_MAX 64

static void fill_links(struct gpud_links *links, struct fuzz_input *input)
{
    links->count = fuzz_number(input, 1) % (GPUD_LINKS_A_MESSAGE + 1);
    for (uint32_t i = 0; i < links->count; i++) {
        links->link[i].id = i + 1;
        links->link[i].pid = getpid();
        links->link[i].phase = GPUD_PHASE_STREAMING;
        gpud_print(links->link[i].name, "receiver %u", i);
    }
}

static void answer(int fd, struct fuzz_input *input)
{
    static struct gpud_message message;
    memset(&message, 0, sizeof(message));
    uint32_t kind = fuzz_number(input, 1);
    message.type = GPUD_MESSAGE_STATUS;
    if (kind % 4 == 1)
        message.type = GPUD_MESSAGE_LINKS;
    if (kind % 4 == 2)
        message.type = (enum gpud_message_type)(kind / 4 % (GPUD_MESSAGE_SLOTS + 1));
    if (message.type == GPUD_MESSAGE_STATUS) {
        message.report.links = kind / 4 % (GPUD_RECEIVERS_MAX + 1);
        message.report.epoch = kind / 128;
        if (message.report.epoch)
            gpud_layout_init(&message.report.media.picture.layout, "NV12", 64, 32, 0, NULL);
    }
    if (message.type == GPUD_MESSAGE_LINKS)
        fill_links(&message.links, input);
    if (message.type == GPUD_MESSAGE_ACCEPT)
        message.accept.page = encode_page(fd);
    fuzz_send(&(struct fuzz_wire){.fd = fd}, &message, input, fd);
}

static void expect_clean(const char *text, size_t room)
{
    char copy[GPUD_REASON_MAX];
    size_t length = strnlen(text, room);
    if (length == room)
        watch_fail("a text without an end");
    memcpy(copy, text, length);
    gpud_text_clean(copy, length);
    if (memcmp(copy, text, length) != 0)
        watch_fail("\"%s\" is not clean", text);
}

static void expect_sense(const struct gpud_query *query)
{
    if (query->state == GPUD_QUERY_FAILED && strlen(query->reason) < 10)
        watch_fail("no answer, and no reason");
    expect_clean(query->reason, sizeof(query->reason));
    if (query->state != GPUD_QUERY_ANSWERED)
        return;
    if (query->link_count != query->report.links || query->link_count > GPUD_RECEIVERS_MAX)
        watch_fail("%u of %u receivers", query->link_count, query->report.links);
    if (query->report.epoch && gpud_media_check(&query->report.media, NULL) != GPUD_OK)
        watch_fail("a media that cannot be");
    expect_clean(query->report.name, sizeof(query->report.name));
    for (uint32_t i = 0; i < query->link_count; i++) {
        expect_clean(query->link[i].name, sizeof(query->link[i].name));
        expect_clean(query->link[i].fallback_reason, sizeof(query->link[i].fallback_reason));
    }
}

static struct gpud_socket_listener listener = {.fd = -1};
static struct gpud_address address;

static void clear(void)
{
    char folder[GPUD_SOCKET_PATH_MAX];
    gpud_print(folder, "%s", listener.path);
    gpud_socket_unlisten(&listener);
    *strrchr(folder, '/') = '\0';
    rmdir(folder);
}

static void prepare(void)
{
    char folder[] = "/tmp/gpud-fuzz-XXXXXX", text[GPUD_ADDRESS_MAX];
    watch_start();
    if (!mkdtemp(folder))
        abort();
    gpud_print(text, "unix:%s/s", folder);
    if (gpud_address_resolve(text, &address, NULL) != GPUD_OK ||
        gpud_socket_listen(&listener, address.place, NULL, NULL) != GPUD_OK)
        abort();
    atexit(clear);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gpud_query query;
    struct fuzz_input input = {data, size};
    struct gpud_peer peer;
    int ends[2];
    if (listener.fd < 0)
        prepare();
    unsigned fds = count_fds();
    memset(&query, 0, sizeof(query));
    query.address = address;
    watch_begin(WATCH_HONEST, "an answer", 0);
    gpud_query_call(&query);
    if (query.state != GPUD_QUERY_ASKED ||
        gpud_socket_accept(&listener, &ends[1], &peer, NULL) != GPUD_OK)
        watch_fail("the question is not asked: %s", query.reason);
    for (unsigned i = 0; input.size && i < MESSAGES_MAX; i++) {
        answer(ends[1], &input);
        if (i % 2)
            gpud_query_read(&query);
    }
    bool hangs_up = size % 2;
    if (hangs_up)
        close(ends[1]);
    gpud_query_read(&query);
    if (hangs_up && gpud_query_is_open(&query))
        watch_fail("the end of the connection is not noticed");
    gpud_query_give_up(&query);
    watch_end(WATCH_HONEST);
    expect_sense(&query);
    gpud_query_close(&query);
    if (!hangs_up)
        close(ends[1]);
    if (count_fds() != fds)
        watch_fail("descriptors are left");
    return 0;
}
