/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a port with many channels and streams answers to a question for their names: all of them,
 * in their order, in as many answers as that takes; and that a stream is no channel. */
#include "fake_cm.h"

#include "base/base.h"
#include "support/check.h"
#include "support/peer.h"
#include "wire/rdma/rdma.h"

#include <dirent.h>

#define STREAMS 30

static struct gpud_listener *listeners[STREAMS + 2];

static struct gpud_listener *listen_on(const char *name)
{
    struct gpud_access_rule access = {.kind = GPUD_ACCESS_ALL};
    struct gpud_listener *made;
    struct gpud_address address;
    char text[80];
    snprintf(text, sizeof(text), "rdma://127.0.0.1:7174%s%s", name[0] ? "/" : "", name);
    WORKS(gpud_address_resolve(text, &address, &e));
    WORKS(gpud_rdma_listen(&address, &access, &made, &e));
    return made;
}

/* The answer to a request, which is refused. */
static struct gpud_rdma_refusal request(const char *name, uint32_t receives)
{
    struct gpud_rdma_request wanted = {.receives = receives};
    struct gpud_rdma_refusal answer;
    struct gpud_channel *channel;
    struct gpud_peer peer;
    struct fake_peer asking;
    uint8_t bytes[GPUD_RDMA_REQUEST_MAX];
    unsigned rejected = fake_cm.rejected;
    gpud_print(wanted.name, "%s", name);
    fake_peer_ask(&asking, 100, bytes, gpud_rdma_write_request(&wanted, bytes));
    CHECK(gpud_rdma_accept(listeners[0], &channel, &peer, NULL) == GPUD_AGAIN,
          "\"%s\": a connection", name);
    CHECK_EQUAL(fake_cm.rejected, rejected + 1);
    WORKS(gpud_rdma_read_refusal(fake_cm.refusal, fake_cm.refusal_size, &answer, &e));
    fake_peer_close(&asking);
    return answer;
}

static void expect(const char *behind, const char *names)
{
    struct gpud_rdma_refusal answer = request(behind, 0);
    CHECK(answer.reason == GPUD_RDMA_NAMES && strcmp(answer.names, names) == 0,
          "behind \"%s\": reason %d, \"%s\"", behind, answer.reason, answer.names);
}

static unsigned reads; /* of a directory */

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    reads++;
    return __real_opendir(path);
}

/* Any host may ask, as fast as it likes: that does not cost a search of the directory each time,
 * under the lock of all ports. */
static void flood(void)
{
    int64_t start = gpud_now();
    unsigned before = reads;
    for (unsigned i = 0; i < 300; i++)
        request("unknown", i % 2 ? 0 : GPUD_RDMA_RECEIVES);
    int64_t most = (gpud_now() - start) / (100 * GPUD_MSEC) + 2;
    CHECK(reads - before <= most, "%u searches, where %lld are due", reads - before,
          (long long)most);
}

int main(void)
{
    char name[16], seen[GPUD_PLACE_NAME_MAX + 1] = "";
    unsigned count = 0, answers = 0;
    bool more = true;
    alarm(110);
    runtime_make(); /* processes of one user share a port there */
    fake_card_reset();
    listeners[0] = listen_on("");
    expect("", ""); /* one without a name is there, or nothing would answer */
    CHECK(request("cam1", GPUD_RDMA_RECEIVES).reason == GPUD_RDMA_UNKNOWN_NAME, "a channel");
    listeners[1] = listen_on("cam1");
    for (unsigned i = 0; i < STREAMS; i++) {
        snprintf(name, sizeof(name), "cam1/s%02u", i * 7 % STREAMS);
        listeners[i + 2] = listen_on(name);
    }
    for (; more; answers++) {
        struct gpud_rdma_refusal answer = request(seen, 0);
        CHECK(answer.reason == GPUD_RDMA_NAMES && answer.names[0], "reason %d", answer.reason);
        for (char *at = strtok(answer.names, ","); at; at = strtok(NULL, ",")) {
            CHECK(strcmp(at, seen) > 0, "\"%s\" comes behind \"%s\"", at, seen);
            gpud_print(seen, "%s", at);
            count++;
        }
        more = request(seen, 0).names[0];
    }
    CHECK(count == STREAMS + 1 && answers > 1, "%u names in %u answers", count, answers);
    expect("cam1/s28", "cam1/s29");
    expect("cam1/s29", "");
    expect("zzz", "");
    CHECK(request("cam1/s99", GPUD_RDMA_RECEIVES).reason == GPUD_RDMA_UNKNOWN_NAME, "a stream");
    flood();

    for (unsigned i = 0; i < STREAMS + 2; i++)
        gpud_listener_close(&listeners[i]);
    CHECK(!fake_cm.channels && !fake_cm.ids && !fake_cm.events, "something is left");
    runtime_done();
    return 0;
}
