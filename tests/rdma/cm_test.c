/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* On a connection manager in the test's own process, in place of librdmacm, beside the card of
 * fake_card.h: one listener, and peers that the test plays itself. It tells of nothing that the
 * test did not say. Argument: the name of a case. */
#include "fake_card.h"

#include "base/base.h"
#include "support/check.h"
#include "support/count.h"
#include "support/peer.h"
#include "wire/rdma/rdma.h"
#include "wire/wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

/* --- the connection manager ------------------------------------------------------------------- */

#define FAKE_ANSWERS 4
struct fake_answer {
    int status; /* why a request is rejected */
    uint8_t data[64];
    size_t size;
};

/* What the code under test has now. */
static struct fake_cm {
    unsigned channels, ids, events;
    unsigned rejected;                        /* requests that were turned away, ever */
    unsigned requests;                        /* that the code under test sent, ever */
    unsigned pairless;                        /* of these, without a queue pair */
    uint16_t asked_port;                      /* to which the last one was sent */
    struct fake_answer answers[FAKE_ANSWERS]; /* to the next ones; all others are lost */
    size_t answer_count;
    uint8_t refusal[256], refusal_size; /* of the last request that was turned away */
} fake_cm;

/* A peer with its own queue pair, which connects to any listener. */
struct fake_peer {
    struct rdma_cm_id *id, *server; /* server: the id at the other end, while it is there */
    struct gpud_rdma *rdma;
    uint32_t queue_pair;
    bool accepted, established, ended;
};

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
    ONE_AT_A_TIME;
    struct events *made = calloc(1, sizeof(*made));
    CHECK(made, "out of memory");
    made->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    CHECK(made->channel.fd >= 0, "eventfd");
    fake_cm.channels++;
    return &made->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    ONE_AT_A_TIME;
    struct events *events = (struct events *)channel;
    for (; events->count > 0; events->count--)
        free(events->queue[events->first++ % QUEUE]);
    close(channel->fd);
    free(events);
    fake_cm.channels--;
}

static struct rdma_cm_event *tell(struct rdma_cm_id *id, struct rdma_cm_id *listener,
                                  enum rdma_cm_event_type type, uint32_t queue_pair,
                                  const void *data, size_t size)
{
    ONE_AT_A_TIME;
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
    return &made->event;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    ONE_AT_A_TIME;
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
    ONE_AT_A_TIME;
    free(event);
    fake_cm.events--;
    return 0;
}

#define PEERS 512

static struct rdma_cm_id *listening;
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
    ONE_AT_A_TIME;
    *id = make_id(channel);
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    ONE_AT_A_TIME;
    struct fake_peer **peer = find(id);
    if (id == listening)
        listening = NULL;
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
    ONE_AT_A_TIME;
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    ONE_AT_A_TIME;
    CHECK(!listening, "two that listen");
    listening = id;
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    ONE_AT_A_TIME;
    id->channel = channel;
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
    ONE_AT_A_TIME;
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    ONE_AT_A_TIME;
    struct fake_peer **peer = find(id);
    CHECK(peer && id->qp, "there was no request");
    (*peer)->accepted = true;
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
    ONE_AT_A_TIME;
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
    ONE_AT_A_TIME;
    struct fake_peer **peer = find(id);
    if (peer)
        (*peer)->ended = true;
    return 0;
}

/* The network has a route to every host, but loses every request that the test does not answer. */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    ONE_AT_A_TIME;
    fake_cm.asked_port = ntohs(((const struct sockaddr_in *)(const void *)to)->sin_port);
    tell(id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    ONE_AT_A_TIME;
    tell(id, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    ONE_AT_A_TIME;
    CHECK(param && (id->qp || param->qp_num == 0), "a request with another's queue pair");
    fake_cm.requests++;
    fake_cm.pairless += !id->qp;
    if (!fake_cm.answer_count)
        return 0;
    struct fake_answer *answer = &fake_cm.answers[0];
    tell(id, NULL, RDMA_CM_EVENT_REJECTED, 0, answer->data, answer->size)->status = answer->status;
    memmove(answer, answer + 1, --fake_cm.answer_count * sizeof(*answer));
    return 0;
}

/* The answer to the request after those that have one already. */
static void fake_cm_answer(int status, const void *data, size_t size)
{
    ONE_AT_A_TIME;
    struct fake_answer *answer = &fake_cm.answers[fake_cm.answer_count++];
    CHECK(fake_cm.answer_count <= FAKE_ANSWERS && size <= sizeof(answer->data), "an answer");
    answer->status = status;
    answer->size = size;
    memcpy(answer->data, data, size);
}

/* The request arrives: these bytes come along. */
static void fake_peer_ask(struct fake_peer *peer, uint32_t queue_pair, const void *data,
                          size_t size)
{
    unsigned at = 0;
    CHECK(listening, "there is no listener");
    *peer = (struct fake_peer){.id = fake_id_create(), .queue_pair = queue_pair};
    WORKS(gpud_rdma_create(peer->id, &peer->rdma, &e));
    ONE_AT_A_TIME;
    peer->server = make_id(listening->channel);
    while (at < PEERS && peers[at])
        at++;
    CHECK(at < PEERS, "too many peers");
    peers[at] = peer;
    tell(peer->server, listening, RDMA_CM_EVENT_CONNECT_REQUEST, queue_pair, data, size);
}

/* After the other end accepted: both stand. */
static void fake_peer_establish(struct fake_peer *peer)
{
    CHECK(peer->accepted && peer->server, "not accepted");
    peer->server->qp->qp_num = peer->queue_pair + 1;
    fake_connect(peer->id, peer->server);
    gpud_rdma_set_peer_receives(peer->rdma, GPUD_RDMA_RECEIVES);
    peer->established = true;
    tell(peer->server, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
}

static void fake_peer_close(struct fake_peer *peer)
{
    {
        ONE_AT_A_TIME;
        struct fake_peer **known = peer->server ? find(peer->server) : NULL;
        if (known)
            *known = NULL;
    }
    gpud_rdma_end(peer->rdma);
    fake_id_destroy(peer->id);
    gpud_rdma_unref(&peer->rdma);
}

/* Whatever was posted at both ends arrives. */
static void fake_peer_deliver(struct fake_peer *peer)
{
    bool busy = peer->established;
    while (busy) {
        gpud_rdma_progress(peer->rdma);
        busy = fake_deliver(peer->id) | fake_complete(peer->id);
        if (peer->server && peer->server->qp)
            busy |= fake_deliver(peer->server) | fake_complete(peer->server);
    }
}

/* --- names ------------------------------------------------------------------------------------ */

/* What a port with many channels and streams answers to a question for their names: all of them,
 * in their order, in as many answers as that takes; and that a stream is no channel. */
static struct gpud_listener *listener;

#define STREAMS 30

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
static struct gpud_refusal request(const char *name, uint32_t receives)
{
    struct gpud_request wanted = {.number = receives};
    struct gpud_refusal answer;
    struct gpud_channel *channel;
    struct gpud_peer peer;
    struct fake_peer asking;
    uint8_t bytes[GPUD_REQUEST_MAX];
    unsigned rejected = fake_cm.rejected;
    gpud_print(wanted.name, "%s", name);
    fake_peer_ask(&asking, 100, bytes, gpud_request_write(&wanted, bytes));
    CHECK(gpud_rdma_accept(listener, &channel, &peer, NULL) == GPUD_AGAIN, "\"%s\": a connection",
          name);
    CHECK_EQUAL(fake_cm.rejected, rejected + 1);
    WORKS(gpud_refusal_read(fake_cm.refusal, fake_cm.refusal_size, &answer, &e));
    fake_peer_close(&asking);
    return answer;
}

static void expect_names_behind(const char *behind, const char *names)
{
    struct gpud_refusal answer = request(behind, 0);
    CHECK(answer.reason == GPUD_REFUSAL_NAMES && strcmp(answer.names, names) == 0,
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

static void test_names(void)
{
    struct gpud_listener *listeners[STREAMS + 2];
    char name[16], seen[GPUD_PLACE_NAME_MAX + 1] = "";
    unsigned count = 0, answers = 0;
    bool more = true;
    listener = listeners[0] = listen_on("");
    expect_names_behind("", ""); /* one without a name is there, or nothing would answer */
    CHECK(request("cam1", GPUD_RDMA_RECEIVES).reason == GPUD_REFUSAL_UNKNOWN_NAME, "a channel");
    listeners[1] = listen_on("cam1");
    for (unsigned i = 0; i < STREAMS; i++) {
        snprintf(name, sizeof(name), "cam1/s%02u", i * 7 % STREAMS);
        listeners[i + 2] = listen_on(name);
    }
    for (; more; answers++) {
        struct gpud_refusal answer = request(seen, 0);
        CHECK(answer.reason == GPUD_REFUSAL_NAMES && answer.names[0], "reason %d", answer.reason);
        for (char *at = strtok(answer.names, ","); at; at = strtok(NULL, ",")) {
            CHECK(strcmp(at, seen) > 0, "\"%s\" comes behind \"%s\"", at, seen);
            gpud_print(seen, "%s", at);
            count++;
        }
        more = request(seen, 0).names[0];
    }
    CHECK(count == STREAMS + 1 && answers > 1, "%u names in %u answers", count, answers);
    expect_names_behind("cam1/s28", "cam1/s29");
    expect_names_behind("cam1/s29", "");
    expect_names_behind("zzz", "");
    CHECK(request("cam1/s99", GPUD_RDMA_RECEIVES).reason == GPUD_REFUSAL_UNKNOWN_NAME, "a stream");

    /* Any host may ask, as fast as it likes: that does not cost a search of the directory each
     * time, under the lock of all ports. */
    int64_t start = gpud_now();
    unsigned before = reads;
    for (unsigned i = 0; i < 300; i++)
        request("unknown", i % 2 ? 0 : GPUD_RDMA_RECEIVES);
    int64_t most = (gpud_now() - start) / (100 * GPUD_MSEC) + 2;
    CHECK(reads - before <= most, "%u searches, %lld are due", reads - before, (long long)most);

    for (unsigned i = 0; i < STREAMS + 2; i++)
        gpud_listener_close(&listeners[i]);
    CHECK(!fake_cm.channels && !fake_cm.ids && !fake_cm.events, "something is left");
}

/* --- requests --------------------------------------------------------------------------------- */

/* What is done about the answers to a request, by a network that carries nothing else. A request
 * that is lost is sent again and again until the deadline, so that two losses in a row do not cost
 * all of it; a channel that has moved is followed, once; and a question for names takes no queue
 * pair. */

/* Of one attempt: at 0, 1.5 and 3 s of its 5 s. */
#define REQUESTS 3
/* A machine that stood still for so long may have skipped a request. */
#define STALL GPUD_SEC
#define ATTEMPTS 10

static struct gpud_channel *connect_there(void)
{
    struct gpud_address address;
    struct gpud_channel *channel;
    fake_cm.requests = 0;
    WORKS(gpud_address_resolve("rdma://192.0.2.7:7174/cam1", &address, &e));
    WORKS(gpud_channel_connect(&address, &(struct gpud_access_rule){0}, &channel, &e));
    return channel;
}

/* Whether the machine ran all the time. */
static bool attempt(void)
{
    struct gpud_channel *channel = connect_there();
    struct gpud_message message;
    struct gpud_error error;
    enum gpud_status status;
    int64_t looked = gpud_now(), stall = 0;
    while ((status = gpud_channel_receive(channel, &message, &error)) == GPUD_AGAIN) {
        struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
        poll(&ready, 1, 100);
        stall = gpud_now() - looked > stall ? gpud_now() - looked : stall;
        looked = gpud_now();
    }
    gpud_channel_unref(&channel);
    CHECK(status == GPUD_CLOSED && strstr(error.reason, "did not answer within 5 s"),
          "it ended: %s", error.reason);
    CHECK(!fake_cm.ids && !fake_cm.events && !fake_card.pairs, "requests are left");
    if (stall < STALL)
        CHECK(fake_cm.requests >= REQUESTS, "%u requests were sent", fake_cm.requests);
    return stall < STALL;
}

/* The reasons of the InfiniBand connection manager. */
#define NO_LISTENER 8
#define STALE 10
#define BY_PEER 28

static void answer_by(struct gpud_refusal refusal)
{
    uint8_t bytes[GPUD_REFUSAL_MAX];
    fake_cm_answer(BY_PEER, bytes, gpud_refusal_write(&refusal, bytes));
}

static void expect_refusal(const char *says, unsigned requests, uint16_t port)
{
    struct gpud_channel *channel = connect_there();
    struct gpud_message message;
    EXPECT(GPUD_CLOSED, says, gpud_channel_receive(channel, &message, &e));
    gpud_channel_unref(&channel);
    CHECK_EQUAL(fake_cm.requests, requests);
    CHECK_EQUAL(fake_cm.asked_port, port);
    CHECK_EQUAL(fake_cm.pairless, 0);
}

static void expect_names(unsigned requests, unsigned pairless)
{
    struct gpud_address *found;
    size_t count, omitted;
    fake_cm.requests = fake_cm.pairless = 0;
    answer_by((struct gpud_refusal){.reason = GPUD_REFUSAL_NAMES, .names = "cam1,cam2"});
    WORKS(gpud_address_list_port("rdma://192.0.2.7:7174/", gpud_deadline(50 * GPUD_SEC), &found,
                                 &count, &omitted, &e));
    CHECK(count == 2 && strcmp(found[1].text, "rdma://192.0.2.7:7174/cam2") == 0, "%zu", count);
    free(found);
    CHECK_EQUAL(fake_cm.requests, requests);
    CHECK_EQUAL(fake_cm.pairless, pairless);
    CHECK(!fake_cm.ids && !fake_cm.events && !fake_card.pairs, "a question is left");
    fake_cm.pairless = 0;
}

static void test_requests(void)
{
    struct gpud_refusal moved = {.reason = GPUD_REFUSAL_UNKNOWN_NAME};
    expect_names(1, 1);
    fake_cm_answer(STALE, "", 0);
    expect_names(2, 1);
    gpud_refusal_set_moved(&moved, 40123);
    answer_by(moved);
    fake_cm_answer(NO_LISTENER, "", 0);
    expect_refusal("no sender listens on rdma://192.0.2.7:7174/cam1", 2, 40123);
    answer_by(moved);
    gpud_refusal_set_moved(&moved, 7174); /* in a circle */
    answer_by(moved);
    expect_refusal("has just moved", 2, 40123);
    for (int i = 0; i < ATTEMPTS; i++)
        if (attempt())
            return;
    SKIP("the machine stands still for more than %d s again and again", (int)(STALL / GPUD_SEC));
}

/* --- proofs ----------------------------------------------------------------------------------- */

/* Peers on a network without the key: the proof is repeated, reflected, cut, made too long, left
 * out, or stopped at each step, by one and by many at once. None is admitted, each connection ends
 * with a reason, a peer with the key is admitted meanwhile, and nothing leaks. */

#define NAME "cam1"
#define PATIENCE (60 * GPUD_SEC)
#define MANY 48

static struct gpud_auth_key right, wrong;
static uint32_t next_pair = 100;

struct line {
    struct fake_peer peer;
    struct gpud_channel *channel; /* the sender's end */
    struct gpud_auth auth;        /* the peer's, which may be bent */
    enum gpud_status status;      /* how the sender's end ended; GPUD_AGAIN: it did not */
    char reason[GPUD_REASON_MAX];
};

static void ask_as(struct line *line, uint32_t queue_pair)
{
    uint8_t bytes[GPUD_REQUEST_MAX];
    struct gpud_request request = {.number = GPUD_RDMA_RECEIVES, .name = NAME};
    struct gpud_peer peer;
    memset(line, 0, sizeof(*line));
    line->status = GPUD_AGAIN;
    fake_peer_ask(&line->peer, queue_pair, bytes, gpud_request_write(&request, bytes));
    WORKS(gpud_rdma_accept(listener, &line->channel, &peer, &e));
}

static void ask(struct line *line)
{
    next_pair += 2;
    ask_as(line, next_pair);
}

/* What the sender's end makes of what came. */
static void look(struct line *line)
{
    struct gpud_message message;
    struct gpud_error why = {.reason = ""};
    fake_peer_deliver(&line->peer);
    if (line->status == GPUD_AGAIN) {
        line->status = line->channel->ops->receive(line->channel, &message, &why);
        gpud_print(line->reason, "%s", why.reason);
        CHECK(line->status != GPUD_OK, "a message was taken from one that proved nothing");
    }
    fake_peer_deliver(&line->peer);
}

static bool is_in(const struct line *line)
{
    return atomic_load(&line->channel->connected);
}

static void establish(struct line *line)
{
    look(line);
    fake_peer_establish(&line->peer);
    look(line);
}

static void say(struct line *line, const void *bytes, size_t size)
{
    WORKS(gpud_rdma_send(line->peer.rdma, bytes, size, &e));
    look(line);
    look(line);
}

/* The next message at the peer. */
static size_t hear(struct line *line, uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE])
{
    const void *got;
    size_t size;
    fake_peer_deliver(&line->peer);
    if (gpud_rdma_receive(line->peer.rdma, &got, &size, NULL) != GPUD_OK)
        return 0;
    CHECK_EQUAL(size, GPUD_AUTH_MESSAGE_SIZE);
    memcpy(bytes, got, size);
    return size;
}

static void close_line(struct line *line)
{
    line->channel->ops->close(line->channel);
    fake_peer_close(&line->peer);
}

static void expect_end(struct line *line, const char *what, enum gpud_status status,
                       const char *says)
{
    look(line);
    CHECK(!is_in(line), "%s: it is let in", what);
    CHECK(line->status == status && strstr(line->reason, says),
          "%s: \"%s\", \"%s\"; \"%s\" was expected", what, gpud_status_string(line->status),
          line->reason, says);
    CHECK(line->channel->ops->is_dead(line->channel), "%s: it lives on", what);
    close_line(line);
}

/* As the sender's end describes the connection; see describe_connection(). */
static void begin_proof(struct line *line, const struct gpud_auth_key *key)
{
    uint32_t pairs[2] = {line->peer.queue_pair, line->peer.queue_pair + 1};
    uint8_t context[8 + sizeof(NAME)];
    memcpy(context, pairs, 8);
    memcpy(context + 8, NAME, sizeof(NAME));
    WORKS(gpud_auth_begin(&line->auth, GPUD_AUTH_RECEIVER, "the sender", key, context,
                          8 + strlen(NAME), &e));
}

/* Takes the challenge; what was said for it is in `proof`. */
static void prove(struct line *line, const struct gpud_auth_key *key,
                  uint8_t proof[GPUD_AUTH_MESSAGE_SIZE])
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE];
    struct gpud_error why;
    establish(line);
    begin_proof(line, key);
    CHECK(hear(line, bytes), "no challenge");
    gpud_auth_handle(&line->auth, bytes, sizeof(bytes), &why);
    CHECK(gpud_auth_next(&line->auth, proof), "no proof");
}

/* Asks, and says what it has proved by this key, which is kept. */
static void ask_with(struct line *line, const struct gpud_auth_key *key,
                     uint8_t proof[GPUD_AUTH_MESSAGE_SIZE])
{
    ask(line);
    prove(line, key, proof);
    say(line, proof, GPUD_AUTH_MESSAGE_SIZE);
}

static void honest(void)
{
    uint8_t proof[GPUD_AUTH_MESSAGE_SIZE], verdict[GPUD_AUTH_MESSAGE_SIZE];
    AUTO(close_line) struct line line;
    ask_with(&line, &right, proof);
    CHECK(is_in(&line), "one with the key is not let in: %s", line.reason);
    CHECK(hear(&line, verdict), "no verdict");
    WORKS(gpud_auth_handle(&line.auth, verdict, sizeof(verdict), &e));
    CHECK(gpud_auth_is_done(&line.auth), "the peer is not done");
}

static void without_the_key(void)
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE], answer[GPUD_AUTH_MESSAGE_SIZE];
    struct line line;
    SAY("another key, and none");
    ask_with(&line, &wrong, bytes);
    CHECK(hear(&line, answer), "the peer is not told");
    EXPECT(GPUD_NO_ACCESS, "key", gpud_auth_handle(&line.auth, answer, sizeof(answer), &e));
    expect_end(&line, "another key", GPUD_NO_ACCESS, "key");
    ask_with(&line, NULL, bytes);
    expect_end(&line, "no key", GPUD_NO_ACCESS, "key");
}

static void replays(void)
{
    uint8_t old[GPUD_AUTH_MESSAGE_SIZE], bytes[GPUD_AUTH_MESSAGE_SIZE];
    uint8_t verdict[GPUD_AUTH_MESSAGE_SIZE];
    struct line line, other;
    SAY("what was heard before, with the same queue pairs");
    ask_with(&line, &right, old);
    CHECK(is_in(&line) && hear(&line, verdict), "the first is not let in");
    uint32_t queue_pair = line.peer.queue_pair;
    close_line(&line);
    ask_as(&line, queue_pair);
    establish(&line);
    say(&line, old, sizeof(old));
    expect_end(&line, "an old proof", GPUD_NO_ACCESS, "key");
    ask_as(&line, queue_pair);
    establish(&line);
    say(&line, verdict, sizeof(verdict));
    expect_end(&line, "an old verdict", GPUD_PEER, "");

    SAY("what a second connection says, and what this one said");
    ask(&line);
    ask(&other);
    establish(&line);
    establish(&other);
    CHECK(hear(&other, bytes), "no challenge");
    say(&line, bytes, sizeof(bytes));
    expect_end(&line, "another one's challenge", GPUD_PEER, "");
    ask(&line);
    establish(&line);
    CHECK(hear(&line, bytes), "no challenge");
    say(&line, bytes, sizeof(bytes));
    expect_end(&line, "its own challenge", GPUD_PEER, "");
    /* The proof of one with the key, passed on to another connection. */
    begin_proof(&other, &right);
    ask(&line);
    prove(&line, &right, bytes);
    say(&other, bytes, sizeof(bytes));
    expect_end(&other, "a proof of another connection", GPUD_NO_ACCESS, "key");
    close_line(&line);
}

static void wrong_sizes(void)
{
    static const size_t sizes[] = {
        1,   12,   GPUD_AUTH_MESSAGE_SIZE - 1, GPUD_AUTH_MESSAGE_SIZE + 1,
        160, 4096, GPUD_RDMA_MESSAGE_MAX};
    static uint8_t bytes[GPUD_RDMA_MESSAGE_MAX];
    struct line line;
    SAY("proofs that are cut, or too long");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ask(&line);
        prove(&line, &right, bytes);
        say(&line, bytes, sizes[i]);
        expect_end(&line, "a wrong size", GPUD_PEER, "");
        CHECK(strlen(line.reason) > 10, "no sentence");
    }
    SAY("each byte of a proof that is bent");
    for (size_t at = 0; at < GPUD_AUTH_MESSAGE_SIZE; at++) {
        ask(&line);
        prove(&line, &right, bytes);
        bytes[at] ^= 1;
        say(&line, bytes, GPUD_AUTH_MESSAGE_SIZE);
        look(&line);
        CHECK(!is_in(&line) && line.status != GPUD_AGAIN && strlen(line.reason) > 10,
              "byte %zu: \"%s\", \"%s\"", at, gpud_status_string(line.status), line.reason);
        close_line(&line);
    }
}

enum step { ASKED, STANDS, CHALLENGED, STEPS };

static void go_to(struct line *line, enum step step)
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE];
    ask(line);
    if (step >= STANDS)
        establish(line);
    if (step >= CHALLENGED)
        CHECK(hear(line, bytes), "no challenge");
    look(line);
}

static void leaves(void)
{
    SAY("it leaves at each step");
    for (int step = ASKED; step < STEPS; step++) {
        AUTO(close_line) struct line line;
        go_to(&line, (enum step)step);
        if (line.peer.server)
            tell(line.peer.server, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
        for (int64_t until = gpud_deadline(PATIENCE); line.status == GPUD_AGAIN; look(&line))
            CHECK(gpud_now() < until, "step %d: never over", step);
        CHECK(!is_in(&line) && strlen(line.reason) > 10, "step %d: \"%s\"", step, line.reason);
    }
}

/* None of them holds up the others, and each is over by itself. */
static void stops(void)
{
    static struct line lines[MANY];
    unsigned ended = 0;
    SAY("%d at once stop at each step", MANY);
    for (unsigned i = 0; i < MANY; i++)
        go_to(&lines[i], (enum step)(i % STEPS));
    honest();
    for (int64_t until = gpud_deadline(PATIENCE); ended < MANY;) {
        ended = 0;
        for (unsigned i = 0; i < MANY; i++) {
            look(&lines[i]);
            ended += lines[i].status != GPUD_AGAIN;
        }
        CHECK(gpud_now() < until, "only %u of %d are over", ended, MANY);
        gpud_test_nap(5);
    }
    for (unsigned i = 0; i < MANY; i++) {
        CHECK(!is_in(&lines[i]) && lines[i].status == GPUD_CLOSED && strlen(lines[i].reason) > 10,
              "\"%s\", \"%s\"", gpud_status_string(lines[i].status), lines[i].reason);
        CHECK(i % STEPS == ASKED || strstr(lines[i].reason, "did not authenticate within 5 s"),
              "\"%s\"", lines[i].reason);
        close_line(&lines[i]);
    }
}

static void flood(void)
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE];
    SAY("wrong keys without end");
    for (unsigned i = 0; i < 500; i++) {
        struct line line;
        ask_with(&line, &wrong, bytes);
        expect_end(&line, "a wrong key", GPUD_NO_ACCESS, "key");
    }
    honest();
}

/* What closes later does so within a while. */
static void expect_nothing_left(unsigned fds)
{
    for (int64_t until = gpud_deadline(PATIENCE);
         count_fds() != fds || fake_cm.channels != 1 || fake_cm.ids != 1 || fake_card.pairs;) {
        CHECK(gpud_now() < until, "descriptors %u → %u, event channels %u, ids %u, queue pairs %u",
              fds, count_fds(), fake_cm.channels, fake_cm.ids, fake_card.pairs);
        gpud_test_nap(5);
    }
    CHECK(!fake_card.regions && !fake_card.domains && !fake_card.queues && !fake_cm.events,
          "something of the card is left");
}

static void test_proof(void)
{
    static void (*const tests[])(void) = {without_the_key, replays, wrong_sizes,
                                          leaves,          stops,   flood};
    char folder[] = "/tmp/gpudirect-proof-XXXXXX";
    struct gpud_address address = {.place = "rdma://127.0.0.1:7174/" NAME};
    struct gpud_access_rule access = {.kind = GPUD_ACCESS_ALL};
    CHECK(mkdtemp(folder), "a folder");
    snprintf(access.key_file, sizeof(access.key_file), "%s/key", folder);
    make_key(access.key_file, "another key, of some length");
    WORKS(gpud_auth_read_key(access.key_file, &wrong, &e));
    make_key(access.key_file, "the key that both ends have");
    WORKS(gpud_auth_read_key(access.key_file, &right, &e));
    WORKS(gpud_rdma_listen(&address, &access, &listener, &e));
    unsigned fds = count_fds();
    honest();
    expect_nothing_left(fds);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tests[i]();
        honest();
        expect_nothing_left(fds);
    }
    gpud_rdma_unlisten(listener);
    CHECK(!fake_cm.channels && !fake_cm.ids, "the listener is still there");
    unlink(access.key_file);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";
    test_alarm(110);
    runtime_make(); /* processes of one user share a port there */
    fake_card_reset();
    if (strcmp(name, "names") == 0)
        test_names();
    else if (strcmp(name, "requests") == 0)
        test_requests();
    else if (strcmp(name, "proof") == 0)
        test_proof();
    else
        FAIL("names, requests or proof");
    runtime_done();
    return 0;
}
