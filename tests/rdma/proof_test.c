/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Peers on a network without the key: the proof is repeated, reflected, cut, made too long, left
 * out, or stopped at each step, by one and by many at once. None is admitted, each connection ends
 * with a reason, a peer with the key is admitted meanwhile, and nothing leaks. */
#include "fake_cm.h"

#include "base/base.h"
#include "support/check.h"
#include "support/peer.h"
#include "support/count.h"
#include "wire/wire.h"
#include "wire/rdma/rdma.h"

#include <fcntl.h>
#include <sys/stat.h>

#define NAME "cam1"
#define PATIENCE (60 * GPUD_SEC)
#define MANY 48

static struct gpud_listener *listener;
static struct gpud_auth_key right, wrong;
static uint32_t next_pair = 100;

/* --- both ends ------------------------------------------------------------------------------ */

struct line {
    struct fake_peer peer;
    struct gpud_channel *channel; /* the sender's end */
    struct gpud_auth auth;        /* the peer's, which may be bent */
    enum gpud_status status;      /* how the sender's end ended; GPUD_AGAIN: it did not */
    char reason[GPUD_REASON_MAX];
};

static void ask_as(struct line *line, uint32_t queue_pair)
{
    uint8_t bytes[GPUD_RDMA_REQUEST_MAX];
    struct gpud_rdma_request request = {.receives = GPUD_RDMA_RECEIVES, .name = NAME};
    struct gpud_peer peer;
    memset(line, 0, sizeof(*line));
    line->status = GPUD_AGAIN;
    fake_peer_ask(&line->peer, queue_pair, bytes, gpud_rdma_write_request(&request, bytes));
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

static void honest(void)
{
    uint8_t proof[GPUD_AUTH_MESSAGE_SIZE], verdict[GPUD_AUTH_MESSAGE_SIZE];
    AUTO(close_line) struct line line;
    ask(&line);
    prove(&line, &right, proof);
    say(&line, proof, sizeof(proof));
    CHECK(is_in(&line), "one with the key is not let in: %s", line.reason);
    CHECK(hear(&line, verdict), "no verdict");
    WORKS(gpud_auth_handle(&line.auth, verdict, sizeof(verdict), &e));
    CHECK(gpud_auth_is_done(&line.auth), "the peer is not done");
}

/* --- one that has not the key ---------------------------------------------------------------- */

static void without_the_key(void)
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE], answer[GPUD_AUTH_MESSAGE_SIZE];
    struct line line;
    SAY("another key, and none");
    ask(&line);
    prove(&line, &wrong, bytes);
    say(&line, bytes, sizeof(bytes));
    expect_end(&line, "another key", GPUD_NO_ACCESS, "key");
    CHECK(hear(&line, answer), "the peer is not told");
    EXPECT(GPUD_NO_ACCESS, "key", gpud_auth_handle(&line.auth, answer, sizeof(answer), &e));
    close_line(&line);
    ask(&line);
    prove(&line, NULL, bytes);
    say(&line, bytes, sizeof(bytes));
    expect_end(&line, "no key", GPUD_NO_ACCESS, "key");
    close_line(&line);
}

static void replays(void)
{
    uint8_t old[GPUD_AUTH_MESSAGE_SIZE], bytes[GPUD_AUTH_MESSAGE_SIZE];
    uint8_t verdict[GPUD_AUTH_MESSAGE_SIZE];
    struct line line, other;
    SAY("what was heard before, with the same queue pairs");
    ask(&line);
    prove(&line, &right, old);
    say(&line, old, sizeof(old));
    CHECK(is_in(&line) && hear(&line, verdict), "the first is not let in");
    uint32_t queue_pair = line.peer.queue_pair;
    close_line(&line);
    ask_as(&line, queue_pair);
    establish(&line);
    say(&line, old, sizeof(old));
    expect_end(&line, "an old proof", GPUD_NO_ACCESS, "key");
    close_line(&line);
    ask_as(&line, queue_pair);
    establish(&line);
    say(&line, verdict, sizeof(verdict));
    expect_end(&line, "an old verdict", GPUD_PEER, "");
    close_line(&line);

    SAY("what a second connection says, and what this one said");
    ask(&line);
    ask(&other);
    establish(&line);
    establish(&other);
    CHECK(hear(&other, bytes), "no challenge");
    say(&line, bytes, sizeof(bytes));
    expect_end(&line, "another one's challenge", GPUD_PEER, "");
    close_line(&line);
    ask(&line);
    establish(&line);
    CHECK(hear(&line, bytes), "no challenge");
    say(&line, bytes, sizeof(bytes));
    expect_end(&line, "its own challenge", GPUD_PEER, "");
    close_line(&line);
    /* The proof of one with the key, passed on to another connection. */
    begin_proof(&other, &right);
    ask(&line);
    prove(&line, &right, bytes);
    say(&other, bytes, sizeof(bytes));
    expect_end(&other, "a proof of another connection", GPUD_NO_ACCESS, "key");
    close_line(&other);
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
        close_line(&line);
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

/* --- one that stops or leaves ----------------------------------------------------------------- */

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
        fake_peer_leave(&line.peer);
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
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 5 * GPUD_MSEC}, NULL);
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
        AUTO(close_line) struct line line;
        ask(&line);
        prove(&line, &wrong, bytes);
        say(&line, bytes, sizeof(bytes));
        expect_end(&line, "a wrong key", GPUD_NO_ACCESS, "key");
    }
    honest();
}

/* --- what is there -----------------------------------------------------------------------------
 */

/* What closes later does so within a while. */
static void expect_nothing_left(unsigned fds)
{
    for (int64_t until = gpud_deadline(PATIENCE);
         count_fds() != fds || fake_cm.channels != 1 || fake_cm.ids != 1 || fake_card.pairs;) {
        CHECK(gpud_now() < until, "descriptors %u → %u, event channels %u, ids %u, queue pairs %u",
              fds, count_fds(), fake_cm.channels, fake_cm.ids, fake_card.pairs);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 5 * GPUD_MSEC}, NULL);
    }
    CHECK(!fake_card.regions && !fake_card.domains && !fake_card.queues && !fake_cm.events,
          "something of the card is left");
}

static void make_key(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a key file");
    close(fd);
}

int main(void)
{
    static void (*const tests[])(void) = {without_the_key, replays, wrong_sizes,
                                          leaves,          stops,   flood};
    char folder[] = "/tmp/gpudirect-proof-XXXXXX";
    struct gpud_address address = {.place = "rdma://127.0.0.1:7174/" NAME};
    struct gpud_access_rule access = {.kind = GPUD_ACCESS_ALL};
    alarm(550);
    runtime_make(); /* processes of one user share a port there */
    fake_card_reset();
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
    runtime_done();
    return 0;
}
