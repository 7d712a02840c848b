/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

uint8_t rnr_retries = GPUD_RDMA_RNR_RETRIES;

static struct sockaddr_in address_of(const char *name, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    const char *text = getenv(name);
    CHECK(text && inet_pton(AF_INET, text, &address.sin_addr) == 1,
          "%s is no address: run it by tests/vm/guest --rdma", name);
    return address;
}

struct rdma_cm_id *listen_at(uint16_t port)
{
    struct rdma_cm_id *id;
    struct sockaddr_in address = address_of("GPUDIRECT_ADDRESS", port);
    CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id: %m");
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&address) == 0, "rdma_bind_addr: %m");
    CHECK(rdma_listen(id, 8) == 0, "rdma_listen: %m");
    return id;
}

struct rdma_cm_id *listen_anywhere(void)
{
    return listen_at(0);
}

uint16_t port_of(const struct rdma_cm_id *listener)
{
    return ntohs(rdma_get_src_port((struct rdma_cm_id *)listener));
}

static struct rdma_conn_param parameters(struct end *end)
{
    uint8_t timeout = GPUD_RDMA_ACK_TIMEOUT;
    CHECK(rdma_set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                          sizeof(timeout)) == 0,
          "rdma_set_option: %m");
    return (struct rdma_conn_param){
        .responder_resources = 1,
        .initiator_depth = 1,
        .retry_count = GPUD_RDMA_RETRIES,
        .rnr_retry_count = rnr_retries,
    };
}

void accept_end(struct rdma_cm_id *listener, struct end *end)
{
    CHECK(rdma_get_request(listener, &end->id) == 0, "rdma_get_request: %m");
    struct rdma_conn_param param = parameters(end);
    WORKS(gpud_rdma_create(end->id, &end->rdma, &e));
    CHECK(rdma_accept(end->id, &param) == 0, "rdma_accept: %m");
    gpud_rdma_set_peer_receives(end->rdma, GPUD_RDMA_RECEIVES);
}

bool try_connect_end(uint16_t port, struct end *end)
{
    struct sockaddr_in address = address_of("GPUDIRECT_PEER", port);
    CHECK(rdma_create_id(NULL, &end->id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id: %m");
    CHECK(rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&address, 2000) == 0,
          "rdma_resolve_addr: %m");
    CHECK(rdma_resolve_route(end->id, 2000) == 0, "rdma_resolve_route: %m");
    struct rdma_conn_param param = parameters(end);
    WORKS(gpud_rdma_create(end->id, &end->rdma, &e));
    if (rdma_connect(end->id, &param) != 0) {
        CHECK(errno == ECONNREFUSED, "rdma_connect: %m");
        drop_end(end);
        return false;
    }
    gpud_rdma_set_peer_receives(end->rdma, GPUD_RDMA_RECEIVES);
    return true;
}

void connect_end(uint16_t port, struct end *end)
{
    CHECK(try_connect_end(port, end), "there is no listener");
}

void drop_end(struct end *end)
{
    gpud_rdma_end(end->rdma);
    CHECK(rdma_destroy_id(end->id) == 0, "rdma_destroy_id: %m");
    gpud_rdma_unref(&end->rdma);
    end->id = NULL;
}

struct connecting {
    uint16_t port;
    struct end *end;
};

static void *connect_thread(void *arg)
{
    struct connecting *connecting = arg;
    connect_end(connecting->port, connecting->end);
    return NULL;
}

struct pair make_pair(void)
{
    struct pair pair;
    struct rdma_cm_id *listener = listen_anywhere();
    struct connecting connecting = {.port = port_of(listener), .end = &pair.b};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, connect_thread, &connecting) == 0, "no thread");
    accept_end(listener, &pair.a);
    pthread_join(thread, NULL);
    rdma_destroy_id(listener);
    return pair;
}

void drop_pair(struct pair *pair)
{
    drop_end(&pair->a);
    drop_end(&pair->b);
}

bool is_readable(const struct end *end, int ms)
{
    struct pollfd wait = {.fd = gpud_rdma_get_fd(end->rdma), .events = POLLIN};
    return poll(&wait, 1, ms) > 0;
}

void make_target(struct end *end, uint64_t size, unsigned access, struct target *target)
{
    target->size = size;
    target->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(target->bytes != MAP_FAILED, "mmap: %m");
    WORKS(gpud_rdma_register(end->rdma, target->bytes, size, access, &target->region, &e));
}

void drop_target(struct target *target)
{
    gpud_rdma_unregister(&target->region);
    munmap(target->bytes, target->size);
}

void fill(char *bytes, uint64_t size, uint32_t seed)
{
    uint64_t i = 0;
    for (; i + sizeof(seed) <= size; i += sizeof(seed)) {
        seed = seed * 1664525 + 1013904223;
        memcpy(bytes + i, &seed, sizeof(seed));
    }
    memset(bytes + i, 'e', size - i);
}

enum gpud_status write_to(struct end *end, const struct target *from, uint64_t from_offset,
                          const struct target *to, uint64_t to_offset, uint64_t size,
                          struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = {
        .local = from->region,
        .local_offset = from_offset,
        .remote_address = gpud_rdma_region_address(to->region) + to_offset,
        .remote_key = gpud_rdma_region_key(to->region),
        .size = size,
    };
    return gpud_rdma_write(end->rdma, &transfer, error);
}

void drain(struct end *end)
{
    WORKS(gpud_rdma_drain(end->rdma, gpud_rdma_posted(end->rdma), gpud_deadline(PATIENCE), &e));
}
