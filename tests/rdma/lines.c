/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "lines.h"

#include "wire/rdma/rdma.h"

static struct gpud_context *context;
static struct gpud_verbs_ops verbs;

/* A channel that stands, without rdma_cm. */
struct line {
    struct rdma_channel channel; /* first */
    struct rdma_cm_id *id;
};

static enum gpud_status receive_nothing(struct gpud_channel *channel, struct gpud_message *message,
                                        struct gpud_error *error)
{
    return gpud_fail(error, GPUD_AGAIN, "no message");
}

static bool is_dead(const struct gpud_channel *channel)
{
    return false;
}

static void end_line(struct gpud_channel *base, const char *reason)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_rdma_fail(channel->rdma, reason);
    gpud_rdma_end(channel->rdma);
}

static void close_line(struct gpud_channel *base)
{
    struct line *line = (struct line *)base;
    gpud_rdma_end(line->channel.rdma);
    gpud_rdma_unref(&line->channel.rdma);
    fake_id_destroy(line->id);
    free(line);
}

static const struct gpud_channel_ops line_ops = {
    .receive = receive_nothing,
    .is_dead = is_dead,
    .close = close_line,
    .verbs = &verbs,
};

static struct gpud_transfer *make_transfer(void)
{
    struct gpud_transfer *transfer = calloc(1, sizeof(*transfer));
    CHECK(transfer, "out of memory");
    atomic_init(&transfer->references, 1);
    transfer->context = context;
    transfer->wake = transfer->waiting = -1;
    gpud_lock_init(&transfer->lock, GPUD_RANK_TRANSFER);
    return transfer;
}

/* without: the peer is the test itself. */
static void make_end(struct end *end, bool without)
{
    end->line = calloc(1, sizeof(*end->line));
    CHECK(end->line, "out of memory");
    end->line->id = fake_id_create();
    WORKS(gpud_rdma_create(end->line->id, &end->rdma, &e));
    struct gpud_channel *channel = &end->line->channel.base;
    end->line->channel.rdma = end->rdma;
    channel->ops = &line_ops;
    atomic_init(&channel->references, 1);
    atomic_init(&channel->connected, true);
    end->connection = NULL;
    if (without)
        return;
    end->transfer = make_transfer();
    WORKS(gpud_completion_queue_create(context, &end->queue, &e));
    WORKS(gpud_connection_create(end->transfer, channel, false, &end->connection, &e));
    end->connection->queue = gpud_completion_queue_ref(end->queue);
}

void progress(const struct end *end)
{
    if (!end->connection)
        return;
    gpud_lock_take(&end->connection->lock);
    if (end->connection->phase == CONNECTION_CONNECTING)
        gpud_connection_advance_locked(end->connection);
    gpud_connection_progress_locked(end->connection);
    gpud_lock_release(&end->connection->lock);
}

bool work(const struct end *end)
{
    return end->line->id->qp && (fake_deliver(end->line->id) | fake_complete(end->line->id));
}

void settle(const struct ends *ends)
{
    bool busy;
    do {
        progress(&ends->a);
        progress(&ends->b);
        busy = work(&ends->a) | work(&ends->b);
    } while (busy);
    progress(&ends->a);
    progress(&ends->b);
}

void open_ends(struct ends *ends, bool b_without)
{
    make_end(&ends->a, false);
    make_end(&ends->b, b_without);
    fake_connect(ends->a.line->id, ends->b.line->id);
    gpud_rdma_set_peer_receives(ends->a.rdma, GPUD_RDMA_RECEIVES);
    gpud_rdma_set_peer_receives(ends->b.rdma, GPUD_RDMA_RECEIVES);
    settle(ends);
    CHECK(b_without || (ends->a.connection->phase == CONNECTION_OPEN &&
                        ends->b.connection->phase == CONNECTION_OPEN),
          "both greeted");
}

static void close_end(struct end *end)
{
    if (!end->connection) {
        close_line(&end->line->channel.base);
        return;
    }
    gpud_lock_take(&end->connection->lock); /* at once: no goodbye is delivered */
    gpud_connection_end_locked(end->connection, GPUD_CLOSED, "this side closed the connection");
    gpud_lock_release(&end->connection->lock);
    CHECK_EQUAL(atomic_load(&end->connection->callbacks), 0);
    gpud_completion_queue_destroy(&end->queue);
    CHECK_EQUAL(atomic_load(&end->connection->references), 1);
    gpud_connection_unref(end->connection);
    gpud_transfer_unref(end->transfer);
}

void close_ends(struct ends *ends)
{
    close_end(&ends->a);
    close_end(&ends->b);
    CHECK(!fake_card.regions && !fake_card.pairs && !fake_card.domains, "something is left");
}

struct gpud_region *register_bytes(const struct end *end, void *bytes, unsigned access)
{
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct gpud_region *region;
    params.address = bytes;
    params.length = SIZE;
    params.access = access;
    WORKS(gpud_region_create(end->connection, &params, &region, &e));
    return region;
}

void expect_completion(const struct end *end, enum gpud_completion_kind kind,
                       enum gpud_status status, const void *user)
{
    struct gpud_completion got = {.size = sizeof(got)};
    size_t count;
    WORKS(gpud_completion_queue_wait(end->queue, 0, &got, 1, &count, &e));
    CHECK(got.kind == kind && got.status == status && got.user == user,
          "kind %d, \"%s\"; wanted kind %d, \"%s\"", got.kind, gpud_status_string(got.status), kind,
          gpud_status_string(status));
}

void expect_nothing(const struct end *end)
{
    struct gpud_completion got = {.size = sizeof(got)};
    size_t count;
    EXPECT(GPUD_TIMEOUT, "", gpud_completion_queue_wait(end->queue, 0, &got, 1, &count, &e));
}

void drop_region(const struct ends *ends, struct gpud_region **region)
{
    struct gpud_region *gone = *region;
    bool a_ended = ends->a.connection->phase == CONNECTION_ENDED;
    if (ends->b.connection && a_ended != (ends->b.connection->phase == CONNECTION_ENDED))
        gpud_rdma_fail(a_ended ? ends->b.rdma : ends->a.rdma, "the peer does not answer any more");
    gpud_lock_take(&gone->connection->lock);
    gone->revoked = true; /* the request would not be delivered */
    gpud_lock_release(&gone->connection->lock);
    WORKS(gpud_region_destroy(region, 0, &e));
    settle(ends);
}

void lines_begin(struct gpud_context *made)
{
    context = made;
    fake_card_reset();
    verbs = gpud_rdma_verbs;
    verbs.end = end_line;
}
