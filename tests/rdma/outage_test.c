/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two hosts, and a network that loses one packet in ten: the connection is not affected. Then it
 * loses everything permanently: both sides notice. To be run by tests/vm/guest
 * --hosts 2. */
#include "cases.h"

#define PORT 7471
#define LOSS "10%"
#define MESSAGES 200

static void run(const char *command)
{
    CHECK(system(command) == 0, "%s failed", command);
}

/* Here it is enough to lose what arrives: acknowledgements do, too. */
static void cut_network(void)
{
    run("tc qdisc add dev eth0 clsact");
    run("tc filter add dev eth0 ingress matchall action drop");
}

static void expect_silence(struct end *end)
{
    struct gpud_error error;
    int64_t deadline = gpud_deadline(PATIENCE);
    while (gpud_rdma_is_alive(end->rdma))
        CHECK(gpud_now() < deadline && usleep(10000) == 0, "the silence is not noticed");
    CHECK(gpud_rdma_has_failed(end->rdma, &error) && strstr(error.reason, "does not answer"),
          "it failed otherwise: %s", error.reason);
}

static void receive_all(struct end *end, const uint32_t *word)
{
    const void *message;
    size_t size;
    int64_t deadline = gpud_deadline(PATIENCE);
    for (uint32_t i = 0; i < MESSAGES;) {
        CHECK(gpud_now() < deadline, "message %u has not come in time", i);
        CHECK(gpud_rdma_is_alive(end->rdma), "the connection broke at message %u", i);
        if (gpud_rdma_receive(end->rdma, &message, &size, NULL) != GPUD_OK) {
            usleep(1000);
            continue;
        }
        CHECK(size == 4 && memcmp(message, &i, 4) == 0, "message %u", i);
        CHECK(*(const volatile uint32_t *)word >= i, "the word was there before it");
        i++;
        if (i == 20)
            run("tc qdisc add dev eth0 root netem loss " LOSS);
    }
}

static void send_all(struct end *end, const struct target *from, uint64_t address, uint32_t key)
{
    struct gpud_rdma_transfer transfer = {
        .local = from->region,
        .remote_address = address,
        .remote_key = key,
        .size = from->size,
    };
    int64_t deadline = gpud_deadline(PATIENCE);
    for (uint32_t i = 0; i < MESSAGES;) {
        struct gpud_error error;
        CHECK(gpud_now() < deadline, "message %u is not sent in time", i);
        CHECK(gpud_rdma_is_alive(end->rdma), "the connection broke at message %u", i);
        memcpy(from->bytes, &i, sizeof(i));
        enum gpud_status status = gpud_rdma_write(end->rdma, &transfer, &error);
        if (status == GPUD_OK)
            status = gpud_rdma_send(end->rdma, &i, sizeof(i), &error);
        CHECK(status == GPUD_OK || status == GPUD_AGAIN, "message %u: %s", i, error.reason);
        i += status == GPUD_OK;
        usleep(20000);
    }
}

int main(void)
{
    const char *host = getenv("GPUDIRECT_HOST");
    AUTO(drop_end) struct end end;
    AUTO(drop_target) struct target target;
    struct {
        uint64_t address;
        uint32_t key;
    } place;
    CHECK(host, "run it by tests/vm/guest --hosts 2");
    if (host[0] == '1') {
        struct rdma_cm_id *listener = listen_at(PORT);
        accept_end(listener, &end);
        make_target(&end, 64, GPUD_RDMA_REMOTE_WRITE, &target);
        place.address = gpud_rdma_region_address(target.region);
        place.key = gpud_rdma_region_key(target.region);
        WORKS(gpud_rdma_send(end.rdma, &place, sizeof(place), &e));
        receive_all(&end, (const uint32_t *)(const void *)target.bytes);
        SAY("all %d have come, of the packets %s lost", MESSAGES, LOSS);
        cut_network();
        expect_silence(&end);
        rdma_destroy_id(listener);
    } else {
        const void *message;
        size_t size;
        int64_t deadline = gpud_deadline(PATIENCE);
        while (!try_connect_end(PORT, &end))
            CHECK(gpud_now() < deadline && usleep(100000) == 0, "no connection in time");
        make_target(&end, 64, GPUD_RDMA_LOCAL, &target);
        while (gpud_rdma_receive(end.rdma, &message, &size, NULL) != GPUD_OK)
            CHECK(gpud_now() < deadline && usleep(1000) == 0, "the other host says nothing");
        CHECK_EQUAL(size, sizeof(place));
        memcpy(&place, message, size);
        send_all(&end, &target, place.address, place.key);
        expect_silence(&end);
    }
    SAY("one that is for good is noticed");
    return 0;
}
