/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What ends connections of network cards, again and again, while the same receiver, or the same
 * sender, lives on: pictures come again each time, in order, whole, and each gap is one that was
 * reported. The survivor leaks nothing. Argument: how often of each. Networks that fail are in
 * down_test.c. */
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>

#define PORT 7174
#define KEY "/tmp/cycles-key"
/* ms: noticing, and connecting anew. Emulated hosts are slow, and share processors. */
#define RECOVERY 120000
#define FRAMES 10

/* --- a queue pair that fails ------------------------------------------------------------------ */

struct gpud_rdma;
static struct rdma_cm_id *_Atomic latest; /* of this process */

enum gpud_status __real_gpud_rdma_create(struct rdma_cm_id *id, struct gpud_rdma **rdma,
                                         struct gpud_error *error);
enum gpud_status __wrap_gpud_rdma_create(struct rdma_cm_id *id, struct gpud_rdma **rdma,
                                         struct gpud_error *error);
enum gpud_status __wrap_gpud_rdma_create(struct rdma_cm_id *id, struct gpud_rdma **rdma,
                                         struct gpud_error *error)
{
    enum gpud_status status = __real_gpud_rdma_create(id, rdma, error);
    if (status == GPUD_OK)
        atomic_store(&latest, id);
    return status;
}

static void *fail_when_told(void *arg)
{
    sigset_t *signals = arg;
    int number;
    for (;;) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        CHECK(sigwait(signals, &number) == 0, "sigwait");
        struct rdma_cm_id *id = atomic_load(&latest); /* in use: its stream flows */
        CHECK(id && ibv_modify_qp(id->qp, &attr, IBV_QP_STATE) == 0, "no queue pair to fail");
    }
    return NULL;
}

/* --- both sides ------------------------------------------------------------------------------- */

static void start(struct peer *peer, bool sends)
{
    struct peer_orders orders = {.sends = sends, .width = 64, .height = 48, .nap = GPUD_MSEC};
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address("cycles"));
    peer_start(peer, &orders);
}

static void stop(struct peer *peer)
{
    PEER_FINISH(peer);
    peer_forget(peer);
}

static void murder(struct peer *peer)
{
    peer_kill(peer);
    PEER_CHECK(peer);
    peer_forget(peer);
}

/* Pictures come: not the few that were on their way before. */
static void expect_frames(const struct peer *receiver)
{
    unsigned long long before = atomic_load(&receiver->board->frames);
    PEER_UNTIL("pictures", RECOVERY, atomic_load(&receiver->board->frames) > before + FRAMES);
}

/* A survivor that noticed, said so, and connected again. */
static void expect_loss(const struct peer *receiver, unsigned long long lost)
{
    PEER_UNTIL("a word about the end of the connection", RECOVERY,
               atomic_load(&receiver->board->lost) > lost);
    CHECK(receiver->board->reason[0], "an end without a reason");
    expect_frames(receiver);
}

/* --- cycles ----------------------------------------------------------------------------------- */

static struct peer sender, receiver;

static void kill_receiver(void)
{
    murder(&receiver);
    start(&receiver, false);
    expect_frames(&receiver);
}

static void kill_sender(void)
{
    unsigned long long lost = atomic_load(&receiver.board->lost);
    murder(&sender);
    start(&sender, true);
    expect_loss(&receiver, lost);
}

static void fail_receivers_queue_pair(void)
{
    unsigned long long lost = atomic_load(&receiver.board->lost);
    kill(receiver.pid, SIGUSR1);
    expect_loss(&receiver, lost);
}

static void fail_senders_queue_pair(void)
{
    unsigned long long lost = atomic_load(&receiver.board->lost);
    kill(sender.pid, SIGUSR1);
    expect_loss(&receiver, lost);
}

static void restart_sender(void)
{
    unsigned long long ends = atomic_load(&receiver.board->ends);
    stop(&sender);
    PEER_UNTIL("the end of the stream", RECOVERY, atomic_load(&receiver.board->ends) > ends);
    start(&sender, true);
    expect_frames(&receiver);
}

int main(int argc, char **argv)
{
    static sigset_t signals;
    static const struct {
        const char *what;
        void (*run)(void);
    } cycles[] = {
        {"a receiver that is killed", kill_receiver},
        {"a sender that is killed", kill_sender},
        {"a receiver's queue pair that fails", fail_receivers_queue_pair},
        {"a sender's queue pair that fails", fail_senders_queue_pair},
        {"a sender that is started anew", restart_sender},
    };
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    NEW_THREAD(fail_when_told, &signals);
    peer_main(argc, argv);
    const char *address = getenv("GPUDIRECT_ADDRESS");
    CHECK(argc > 1 && address, "run it by tests/vm/guest --rdma");
    char base[128];
    snprintf(base, sizeof(base), "rdma://%s:%d", address, PORT);
    setenv("GPUD_TEST_ADDRESS", base, 1);
    setenv("GPUD_TEST_KEY", KEY, 1);
    setenv("GPUD_TEST_LONG", "1", 1);
    make_key(KEY, "the key of a test, which both ends know");
    int count = atoi(argv[1]);
    for (size_t i = 0; i < sizeof(cycles) / sizeof(cycles[0]); i++) {
        int64_t start_at = gpud_test_now();
        start(&sender, true);
        start(&receiver, false);
        expect_frames(&receiver);
        for (int n = 0; n < count; n++)
            cycles[i].run();
        stop(&receiver);
        stop(&sender);
        SAY("%s: %d times, %lld s", cycles[i].what, count,
            (long long)((gpud_test_now() - start_at) / GPUD_SEC));
    }
    return 0;
}
