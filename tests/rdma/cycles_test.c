/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What ends connections of network cards, again and again, while the same receiver, or the same
 * sender, lives on: pictures come again each time, in order, whole, and each gap is one that was
 * reported. The survivor leaks nothing.
 *
 *     cycles COUNT           in one guest: sender and receiver are killed, their queue pairs fail,
 *                            the sender is started anew
 *     cycles COUNT FOLDER SECONDS
 *                            on two hosts, for which the folder is one: nothing arrives for so long
 */
#include "support/check.h"
#include "support/peer.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>

#define PORT 7174
#define KEY "/tmp/cycles-key"
#define KEY_TEXT "the key of a test, which both hosts know"
/* ms: noticing, and connecting anew. Emulated hosts are slow, and share processors. */
#define RECOVERY 120000
#define FRAMES 10
/* s: with GPUD_RDMA_RETRIES of GPUD_RDMA_ACK_TIMEOUT soft-RoCE gives up after 0.94 s; this side
 * does after GPUD_RDMA_ANSWER. Then the connection is over. */
#define CERTAIN 3

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

static void wait_for_orders(void)
{
    static sigset_t signals;
    pthread_t thread;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    CHECK(pthread_create(&thread, NULL, fail_when_told, &signals) == 0, "no thread");
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

/* --- cycles on one host ----------------------------------------------------------------------- */

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

static void run_here(int count)
{
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
}

/* --- two hosts -------------------------------------------------------------------------------- */

static void run(const char *command)
{
    CHECK(system(command) == 0, "%s failed", command);
}

/* What arrives is lost, acknowledgements too: no card of a host is hurt by that, while a link that
 * is set down may stop soft-RoCE for good (down_test.c). */
static void cut_network(void)
{
    run("tc qdisc add dev eth0 clsact");
    run("tc filter add dev eth0 ingress matchall action drop");
}

static void mend_network(void)
{
    run("tc qdisc del dev eth0 clsact");
}

/* Within what the cards try again the connection goes on, unless this host was too slow to mend the
 * network; beyond, it is over on both sides. */
static void run_outages(int count, unsigned seconds)
{
    unsigned long long ends = 0;
    int64_t start_at = gpud_test_now(), longest = 0;
    for (int n = 0; n < count; n++) {
        unsigned long long lost = atomic_load(&receiver.board->lost);
        cut_network();
        sleep(seconds);
        mend_network();
        int64_t back_at = gpud_test_now();
        if (seconds >= CERTAIN)
            expect_loss(&receiver, lost);
        else
            expect_frames(&receiver);
        int64_t took = gpud_test_now() - back_at;
        longest = took > longest ? took : longest;
        ends += atomic_load(&receiver.board->lost) > lost;
    }
    SAY("a network that fails for %u s: %d times, %llu connections ended, pictures %lld s after it "
        "at the latest; %lld s",
        seconds, count, ends, (long long)(longest / GPUD_SEC),
        (long long)((gpud_test_now() - start_at) / GPUD_SEC));
}

static void run_there(int count, const char *folder, unsigned seconds)
{
    char file[4096];
    snprintf(file, sizeof(file), "%s/done", folder);
    if (getenv("GPUDIRECT_HOST")[0] == '1') {
        start(&sender, true);
        while (access(file, F_OK) != 0) /* the other host has deadlines */
            gpud_test_nap(100);
        stop(&sender);
        return;
    }
    start(&receiver, false);
    expect_frames(&receiver);
    run_outages(count, seconds);
    stop(&receiver);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0, "%s: %m", file);
    close(fd);
}

int main(int argc, char **argv)
{
    wait_for_orders();
    peer_main(argc, argv);
    const char *host = getenv("GPUDIRECT_HOST"), *address = getenv("GPUDIRECT_ADDRESS");
    CHECK(argc > 1 && host && address, "run it by tests/vm/guest --rdma, or --hosts 2");
    if (host[0] == '2')
        address = getenv("GPUDIRECT_PEER");
    char base[128];
    snprintf(base, sizeof(base), "rdma://%s:%d", address, PORT);
    setenv("GPUD_TEST_ADDRESS", base, 1);
    setenv("GPUD_TEST_KEY", KEY, 1);
    setenv("GPUD_TEST_LONG", "1", 1);
    make_key(KEY, KEY_TEXT);
    if (argc > 3)
        run_there(atoi(argv[1]), argv[2], (unsigned)atoi(argv[3]));
    else
        run_here(atoi(argv[1]));
    return 0;
}
