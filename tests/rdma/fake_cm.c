/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake_cm.h"

#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/eventfd.h>

struct fake_cm fake_cm;

/* --- events --------------------------------------------------------------------------------- */

#define QUEUE 256

struct events {
    struct rdma_event_channel channel; /* first */
    unsigned first, count;
    struct event {
        struct rdma_cm_event event; /* first */
        uint8_t data[64];
    } * queue[QUEUE];
};

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct events *made = calloc(1, sizeof(*made));
    CHECK(made, "out of memory");
    made->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    CHECK(made->channel.fd >= 0, "eventfd");
    fake_cm.channels++;
    return &made->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct events *events = (struct events *)channel;
    for (; events->count > 0; events->count--)
        free(events->queue[events->first++ % QUEUE]);
    close(channel->fd);
    free(events);
    fake_cm.channels--;
}

static void tell(struct rdma_cm_id *id, struct rdma_cm_id *listener, enum rdma_cm_event_type type,
                 uint32_t queue_pair, const void *data, size_t size)
{
    struct events *events = (struct events *)(listener ? listener : id)->channel;
    struct event *made = calloc(1, sizeof(*made));
    uint64_t one = 1;
    CHECK(made && events && events->count < QUEUE && size <= sizeof(made->data), "an event");
    made->event.id = id;
    made->event.listen_id = listener;
    made->event.event = type;
    made->event.param.conn.qp_num = queue_pair;
    if (size) {
        memcpy(made->data, data, size);
        made->event.param.conn.private_data = made->data;
        made->event.param.conn.private_data_len = (uint8_t)size;
    }
    events->queue[(events->first + events->count++) % QUEUE] = made;
    CHECK(write(events->channel.fd, &one, sizeof(one)) == sizeof(one), "write");
}

static struct rdma_cm_event *last_event(const struct rdma_cm_id *id)
{
    struct events *events = (struct events *)id->channel;
    return &events->queue[(events->first + events->count - 1) % QUEUE]->event;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct events *events = (struct events *)channel;
    uint64_t one;
    if (events->count == 0) {
        errno = EAGAIN;
        return -1;
    }
    CHECK(read(channel->fd, &one, sizeof(one)) == sizeof(one), "read");
    events->count--;
    *event = &events->queue[events->first++ % QUEUE]->event;
    fake_cm.events++;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    free(event);
    fake_cm.events--;
    return 0;
}

/* --- ids ------------------------------------------------------------------------------------- */

#define PEERS 512

static struct rdma_cm_id *listener;
static struct fake_peer *peers[PEERS]; /* by the id at the other end */

static struct fake_peer **find(const struct rdma_cm_id *id)
{
    for (unsigned i = 0; i < PEERS; i++)
        if (peers[i] && peers[i]->server == id)
            return &peers[i];
    return NULL;
}

static struct rdma_cm_id *make_id(struct rdma_event_channel *channel)
{
    struct rdma_cm_id *id = fake_id_create();
    struct sockaddr_in *there = (struct sockaddr_in *)(void *)&id->route.addr.dst_storage;
    id->channel = channel;
    there->sin_family = AF_INET;
    inet_pton(AF_INET, "192.0.2.7", &there->sin_addr); /* of another host */
    fake_cm.ids++;
    return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space space)
{
    (void)context;
    (void)space;
    *id = make_id(channel);
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct fake_peer **peer = find(id);
    if (id == listener)
        listener = NULL;
    if (peer) {
        (*peer)->ended = true;
        (*peer)->server = NULL;
        *peer = NULL;
    }
    fake_id_destroy(id);
    fake_cm.ids--;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    (void)id;
    (void)address;
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    (void)backlog;
    CHECK(!listener, "two that listen");
    listener = id;
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    id->channel = channel;
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
    (void)id, (void)level, (void)name, (void)value, (void)size;
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct fake_peer **peer = find(id);
    (void)param;
    CHECK(peer && id->qp, "there was no request");
    (*peer)->accepted = true;
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
    struct fake_peer **peer = find(id);
    memcpy(fake_cm.refusal, data, size);
    fake_cm.refusal_size = size;
    fake_cm.rejected++;
    if (peer)
        (*peer)->ended = true;
    return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    struct fake_peer **peer = find(id);
    if (peer)
        (*peer)->ended = true;
    return 0;
}

/* The network has a route to every host, but loses every request that the test does not answer. */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    (void)from, (void)ms;
    fake_cm.asked_port = ntohs(((const struct sockaddr_in *)(const void *)to)->sin_port);
    tell(id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    (void)ms;
    tell(id, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    CHECK(param && (id->qp || param->qp_num == 0), "a request with another's queue pair");
    fake_cm.requests++;
    fake_cm.pairless += !id->qp;
    if (!fake_cm.answer_count)
        return 0;
    struct fake_answer *answer = &fake_cm.answers[0];
    tell(id, NULL, RDMA_CM_EVENT_REJECTED, 0, answer->data, answer->size);
    last_event(id)->status = answer->status;
    memmove(answer, answer + 1, --fake_cm.answer_count * sizeof(*answer));
    return 0;
}

void fake_cm_answer(int status, const void *data, size_t size)
{
    struct fake_answer *answer = &fake_cm.answers[fake_cm.answer_count++];
    CHECK(fake_cm.answer_count <= FAKE_ANSWERS && size <= sizeof(answer->data), "an answer");
    answer->status = status;
    answer->size = size;
    memcpy(answer->data, data, size);
}

/* --- peers ----------------------------------------------------------------------------------- */

void fake_peer_ask(struct fake_peer *peer, uint32_t queue_pair, const void *data, size_t size)
{
    unsigned at = 0;
    CHECK(listener, "there is no listener");
    *peer = (struct fake_peer){.id = fake_id_create(), .queue_pair = queue_pair};
    WORKS(gpud_rdma_create(peer->id, &peer->rdma, &e));
    peer->server = make_id(listener->channel);
    while (at < PEERS && peers[at])
        at++;
    CHECK(at < PEERS, "too many peers");
    peers[at] = peer;
    tell(peer->server, listener, RDMA_CM_EVENT_CONNECT_REQUEST, queue_pair, data, size);
}

void fake_peer_establish(struct fake_peer *peer)
{
    CHECK(peer->accepted && peer->server, "not accepted");
    peer->server->qp->qp_num = peer->queue_pair + 1;
    fake_connect(peer->id, peer->server);
    gpud_rdma_set_peer_receives(peer->rdma, GPUD_RDMA_RECEIVES);
    peer->established = true;
    tell(peer->server, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
}

void fake_peer_leave(struct fake_peer *peer)
{
    if (peer->server)
        tell(peer->server, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}

void fake_peer_close(struct fake_peer *peer)
{
    struct fake_peer **known = peer->server ? find(peer->server) : NULL;
    if (known)
        *known = NULL;
    gpud_rdma_end(peer->rdma);
    fake_id_destroy(peer->id);
    gpud_rdma_unref(&peer->rdma);
}

void fake_peer_deliver(struct fake_peer *peer)
{
    bool busy = peer->established;
    while (busy) {
        gpud_rdma_progress(peer->rdma);
        busy = fake_deliver(peer->id) | fake_complete(peer->id);
        if (peer->server && peer->server->qp)
            busy |= fake_deliver(peer->server) | fake_complete(peer->server);
    }
}
