/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Two hosts, whose link goes down and comes back, again and again, by turns at the receiver's and
 * at the sender's. The same receiver and the same sender live on: pictures come again each time, in
 * order, whole, each gap is reported; and either the connection survives, or both ends report why
 * it ended. The times until they noticed, and streamed again, and how many pictures were lost, are
 * printed. A network that only loses packets ends nothing.
 *
 *     rdma-down COUNT FOLDER SECONDS[,SECONDS...] INTERFACE [LOSS [stall | lossy | cut]]
 *
 *     FOLDER is one for both, INTERFACE the program, LOSS of how many per cent; stall: last, a card
 *     that stalls at either end; lossy: packets are lost while the link comes and goes, too; cut:
 *     the link stays, but nothing arrives, which hurts no card
 *
 *     host 2: receiver, and the cycles             host 1: sender, and what host 2 asks for
 *        ask-N: a command ─────────────────────────▶
 *        ◀───────────────────────── answer-N: what came of it
 *
 * Linux 6.1's soft-RoCE may send nothing any more after that, on no connection of no program
 * (tests/vm/README.md). Where pictures stay away, rping tells: it has no code of ours. If it gets
 * through, so must we. If it does not, the cycle counts as the card's, of which there may be one in
 * five: both sides must have said why their connection ended, and once the host has another card
 * they are to find each other by themselves. */
/* clang-format on */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <stdarg.h>
#include <sys/wait.h>

#define PORT 7174
#define RPING_PORT 8000 /* the first: each has one of its own */
#define KEY "/tmp/down-key"
#define FRAMES 10
/* s: with GPUD_RDMA_RETRIES of GPUD_RDMA_ACK_TIMEOUT soft-RoCE gives up after 0.94 s; this side
 * does after GPUD_RDMA_ANSWER. Then the connection is over. */
#define CERTAIN 3
#define LOSSY_FRAMES 200
#define LOSSY_TRIES 3
/* ms. Emulated hosts are slow, and share processors. */
#define PATIENCE 60000
#define RECOVERY 120000
#define ANSWER 120000

static const char *folder, *interface_program;

/* --- the sender, which tells what it was told ------------------------------------------------- */

struct board {
    char address[108];
    bool keeps_card; /* then it opens no other one */
    atomic_bool leave;
    atomic_uint disconnects, warnings;
    char reason[GPUD_REASON_MAX]; /* of the last warning */
};

static void on_log(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    struct board *board = user;
    if (level > GPUD_LOG_WARNING || strcmp(area, "sender") != 0 ||
        strncmp(text, "receiver ", strlen("receiver ")) != 0)
        return;
    snprintf(board->reason, sizeof(board->reason), "%s", text);
    atomic_fetch_add(&board->warnings, 1);
}

static void on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    struct board *board = user;
    (void)peer;
    atomic_fetch_add(&board->disconnects, 1);
}

static void play_sender(struct board *board)
{
    struct gpud_context_params context_params = GPUD_PARAMS_INIT(context_params);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_layout layout = LAYOUT("UYVY", 64, 48, 0);
    context_params.log = on_log;
    context_params.log_user = board;
    context_params.log_level = GPUD_LOG_WARNING; /* whatever the environment says */
    params.address = board->address;
    params.psk_file = KEY;
    params.on_disconnect = on_disconnect;
    params.user = board;
    struct baseline before = baseline_take();
    WORKS(gpud_context_create(&context_params, &context, &e));
    WORKS(gpud_sender_create(context, &params, &sender, &e));
    WORKS(gpud_sender_configure(sender, PICTURE_AT(&layout, 25), &e));
    for (uint64_t number = 1; !atomic_load(&board->leave); number++) {
        SEND_LENT(sender, &layout, number);
        gpud_test_nap(1);
    }
    WORKS(gpud_sender_send_eos(sender, &e));
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    if (board->keeps_card)
        BASELINE_CHECK(before);
    exit(0);
}

/* --- between the hosts ------------------------------------------------------------------------ */

static bool run(const char *format, ...)
{
    char command[8192];
    int at = snprintf(command, sizeof(command), "%s ", interface_program);
    va_list args;
    va_start(args, format);
    vsnprintf(command + at, sizeof(command) - (size_t)at, format, args);
    va_end(args);
    return system(command) == 0;
}

static void name_file(char path[4096], const char *what, int number)
{
    snprintf(path, 4096, "%s/%s-%d", folder, what, number);
}

static void put(const char *what, int number, const char *text)
{
    char path[4096], partial[4096 + 8];
    name_file(path, what, number);
    snprintf(partial, sizeof(partial), "%s.partial", path);
    FILE *file = fopen(partial, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0 && rename(partial, path) == 0,
          "%s: %m", path);
}

static bool get(const char *what, int number, char *text, size_t size)
{
    char path[4096];
    name_file(path, what, number);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return true;
}

/* In the background; one at a time. */
static pid_t background;

static void begin(const char *command)
{
    background = fork();
    CHECK(background >= 0, "no process: %m");
    if (background == 0)
        _exit(run("%s", command) ? 0 : 1);
}

/* Expects that it has ended. */
static bool has_ended(void)
{
    int state;
    if (background == 0)
        return true;
    if (waitpid(background, &state, WNOHANG) != background)
        return false;
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, "a command about the network fails");
    background = 0;
    return true;
}

static int asked;

static void ask(const char *what, char *answer, size_t size)
{
    put("ask", ++asked, what);
    PEER_UNTIL("an answer of the other host", ANSWER, get("answer", asked, answer, size));
}

/* As run(), on the other host. */
static bool let_run(const char *format, ...)
{
    char command[256], answer[16];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    ask(command, answer, sizeof(answer));
    return strcmp(answer, "done") == 0;
}

/* --- host 1 ----------------------------------------------------------------------------------- */

static void serve(const char *address, bool keeps_card)
{
    int fd, state;
    char wanted[256], answer[GPUD_REASON_MAX + 64];
    struct board *board = peer_board_make(sizeof(*board), &fd);
    board->keeps_card = keeps_card;
    snprintf(board->address, sizeof(board->address), "%s", address);
    pid_t pid = peer_spawn("--sender", fd);
    for (int number = 1;; number++) {
        while (!get("ask", number, wanted, sizeof(wanted))) /* the other host has deadlines */
            gpud_test_nap(20);
        if (strcmp(wanted, "end") == 0)
            break;
        if (strcmp(wanted, "told") == 0)
            snprintf(answer, sizeof(answer), "%u %u %d %s", atomic_load(&board->disconnects),
                     atomic_load(&board->warnings), has_ended(), board->reason);
        else if (strncmp(wanted, "begin ", 6) == 0)
            begin(wanted + 6), snprintf(answer, sizeof(answer), "begun");
        else
            snprintf(answer, sizeof(answer), "%s", run("%s", wanted) ? "done" : "failed");
        put("answer", number, answer);
    }
    atomic_store(&board->leave, true);
    CHECK(waitpid(pid, &state, 0) == pid && WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "the sender failed");
}

/* --- host 2 ----------------------------------------------------------------------------------- */

static struct peer receiver;
static int64_t longest; /* ns until pictures came again */

enum outcome { WENT_ON, ENDED, STALLED };

struct told {
    unsigned disconnects, warnings;
    int has_ended;
    char reason[GPUD_REASON_MAX + 64];
};

static void ask_sender(struct told *told)
{
    int at = 0;
    ask("told", told->reason, sizeof(told->reason));
    CHECK(sscanf(told->reason, "%u %u %d %n", &told->disconnects, &told->warnings, &told->has_ended,
                 &at) == 3,
          "the other host says \"%s\"", told->reason);
    memmove(told->reason, told->reason + at, strlen(told->reason + at) + 1);
}

static bool sender_was_told(const struct told *before, struct told *now)
{
    ask_sender(now);
    return now->disconnects > before->disconnects && now->warnings > before->warnings;
}

/* Both say that the connection ended, and why. */
static void expect_ends(unsigned long long lost, const struct told *before, int cycle)
{
    struct told now;
    PEER_UNTIL("the receiver's word about the end of the connection", RECOVERY,
               atomic_load(&receiver.board->lost) > lost);
    CHECK(strstr(receiver.board->reason, ": "), "no word about why: %s", receiver.board->reason);
    PEER_UNTIL("the sender's word about the end of the connection", RECOVERY,
               sender_was_told(before, &now));
    CHECK(strstr(now.reason, "goodbye: "), "no word about why: %s", now.reason);
    SAY("  %d: receiver: \"%s\"; sender: \"%s\"", cycle, receiver.board->reason, now.reason);
}

static bool rping_gets_through(void)
{
    static int port = RPING_PORT;
    port++;
    CHECK(let_run("serve %d", port), "rping does not start");
    return run("reach %d", port);
}

/* Another card for the host whose link was down; and for the other one, if it was its card. */
static void replace_card(bool here)
{
    for (int i = 0; i < 2; i++, here = !here) {
        CHECK(here ? run("anew") && let_run("forget") : let_run("anew") && run("forget"),
              "host %d gets no other card", here ? 2 : 1);
        if (rping_gets_through())
            return;
    }
    FAIL("rping does not get through by other cards either");
}

/* One time that the link is down. */
struct cycle {
    struct told told;
    unsigned long long lost, connected, frames, value; /* of the receiver, before it */
    int64_t last_at, receiver_at,
        sender_at; /* the last picture before an end was noticed; 0: none was */
};

/* Whether the sender's host has ended what it began. */
static bool watch(struct cycle *cycle)
{
    struct told now;
    ask_sender(&now);
    if (!cycle->sender_at && !cycle->receiver_at)
        cycle->last_at = atomic_load(&receiver.board->last_time);
    if (!cycle->sender_at && now.disconnects > cycle->told.disconnects)
        cycle->sender_at = gpud_test_now();
    if (!cycle->receiver_at && atomic_load(&receiver.board->lost) > cycle->lost)
        cycle->receiver_at = gpud_test_now();
    return now.has_ended;
}

/* cycle: to be watched meanwhile, or NULL. */
static bool pictures_come(struct cycle *cycle, unsigned long long before, int64_t ms)
{
    int64_t until = gpud_test_now() + ms * GPUD_MSEC;
    while (atomic_load(&receiver.board->frames) <= before + FRAMES) {
        if (gpud_test_now() >= until)
            return false;
        if (cycle)
            watch(cycle);
        else
            gpud_test_nap(1);
    }
    return true;
}

/* No pictures arrive. Checks whether the card is at fault; they arrive again in any case. */
static bool handle_silence(bool here, unsigned long long lost, const struct told *told, int cycle)
{
    unsigned long long before = atomic_load(&receiver.board->frames);
    if (rping_gets_through() || rping_gets_through()) {
        CHECK(pictures_come(NULL, before, RECOVERY), "rping gets through, pictures do not");
        return false;
    }
    SAY("  %d: rping does not get through: soft-RoCE stalls, and is replaced", cycle);
    expect_ends(lost, told, cycle);
    replace_card(here);
    CHECK(pictures_come(NULL, before, RECOVERY), "no pictures by a card that rping gets through");
    return true;
}

static long long ms_between(int64_t from, int64_t to)
{
    return to ? (long long)((to - from) / GPUD_MSEC) : -1;
}

/* By turns at either end. What happened before the link is back counts: a card may notice at once.
 */
static enum outcome run_cycle(int number, const char *command, bool certain)
{
    struct cycle cycle = {.last_at = 0};
    struct told now;
    char begin_there[64], answer[16];
    bool here = number % 2;
    snprintf(begin_there, sizeof(begin_there), "begin %s", command);
    cycle.lost = atomic_load(&receiver.board->lost);
    cycle.connected = atomic_load(&receiver.board->connected);
    cycle.frames = atomic_load(&receiver.board->frames);
    cycle.value = atomic_load(&receiver.board->last_value);
    ask_sender(&cycle.told);
    if (here)
        begin(command);
    else
        ask(begin_there, answer, sizeof(answer));
    for (bool over = false; !over;) { /* until it is over */
        bool over_there = watch(&cycle);
        over = here ? has_ended() : over_there;
    }
    int64_t back_at = gpud_test_now();
    unsigned long long before = atomic_load(&receiver.board->frames);
    bool stalled = !pictures_come(&cycle, before, PATIENCE) &&
                   handle_silence(here, cycle.lost, &cycle.told, number);
    int64_t took = gpud_test_now() - back_at;
    longest = !stalled && took > longest ? took : longest;
    PEER_CHECK(&receiver);
    bool ended = atomic_load(&receiver.board->connected) > cycle.connected || certain;
    if (ended && !stalled)
        expect_ends(cycle.lost, &cycle.told, number);
    watch(&cycle);
    unsigned long long sent = atomic_load(&receiver.board->last_value) - cycle.value;
    unsigned long long came = atomic_load(&receiver.board->frames) - cycle.frames;
    SAY("  %d: %s at the %s; the receiver noticed after %lld ms, the sender after %lld ms; "
        "pictures %lld ms after the link was back, %lld of %llu lost",
        number, command, here ? "receiver" : "sender", ms_between(cycle.last_at, cycle.receiver_at),
        ms_between(cycle.last_at, cycle.sender_at), (long long)(took / GPUD_MSEC),
        (long long)(sent - came), sent);
    if (stalled || ended)
        return stalled ? STALLED : ENDED;
    ask_sender(&now);
    CHECK(atomic_load(&receiver.board->lost) == cycle.lost &&
              now.disconnects == cycle.told.disconnects,
          "an end of a connection that goes on");
    return WENT_ON;
}

/* So many pictures come over a network that loses packets. False: the connection ended meanwhile,
 * and they came by another one. */
static bool goes_on_lossy(const char *percent)
{
    struct told told, now;
    unsigned long long lost = atomic_load(&receiver.board->lost);
    ask_sender(&told);
    unsigned long long before = atomic_load(&receiver.board->frames), seen = before;
    int64_t start = gpud_test_now(), last = start, gap = 0;
    while (seen < before + LOSSY_FRAMES) {
        unsigned long long frames = atomic_load(&receiver.board->frames);
        int64_t now_at = gpud_test_now();
        CHECK(now_at - last < RECOVERY * GPUD_MSEC, "no pictures over a lossy network");
        gap = now_at - last > gap ? now_at - last : gap;
        last = frames > seen ? now_at : last;
        seen = frames;
        gpud_test_nap(1);
    }
    int64_t took = gpud_test_now() - start;
    ask_sender(&now);
    SAY("%s %% of all packets lost: %d pictures in %lld ms, none for %lld ms at most", percent,
        LOSSY_FRAMES, (long long)(took / GPUD_MSEC), (long long)(gap / GPUD_MSEC));
    return atomic_load(&receiver.board->lost) == lost && now.disconnects == told.disconnects;
}

static void run_cycles(int count, unsigned seconds, const char *what)
{
    char command[32];
    int outcomes[3] = {0}, stalls = strcmp(what, "cut") == 0 ? 0 : (count + 4) / 5;
    int64_t start_at = gpud_test_now();
    snprintf(command, sizeof(command), "%s %u", what, seconds);
    for (int cycle = 1; cycle <= count; cycle++) {
        outcomes[run_cycle(cycle, command, seconds >= CERTAIN)]++;
        CHECK(outcomes[STALLED] <= stalls,
              "%d of %d cycles were the card's: nothing is shown by that", outcomes[STALLED],
              cycle);
    }
    SAY("a link, %s for %u s: %d times; %d times the connection went on, %d times it was "
        "made anew, pictures %lld ms after it at the latest; %d times soft-RoCE had stalled for "
        "rping, too; %lld s",
        what, seconds, count, outcomes[WENT_ON], outcomes[ENDED], (long long)(longest / GPUD_MSEC),
        outcomes[STALLED], (long long)((gpud_test_now() - start_at) / GPUD_SEC));
}

static void receive(int count, const char *seconds, const char *address, const char *loss,
                    const char *mode)
{
    struct peer_orders orders = {.nap = GPUD_MSEC};
    snprintf(orders.address, sizeof(orders.address), "%s", address);
    peer_start(&receiver, &orders);
    CHECK(pictures_come(NULL, 0, RECOVERY), "no pictures at all");
    if (loss && atof(loss) > 0) {
        /* A host that stands still for two seconds, as an emulated one does on a busy machine, ends
         * a connection, too, but not each time. */
        CHECK(run("lose %s", loss) && let_run("lose %s", loss), "no packets can be lost");
        for (int tries = 1; !goes_on_lossy(loss); tries++) {
            CHECK(tries < LOSSY_TRIES, "lost packets end a connection: %s", receiver.board->reason);
            SAY("the connection ended: %s", receiver.board->reason);
        }
        CHECK(strcmp(mode, "lossy") == 0 || (run("mend") && let_run("mend")),
              "the network stays lossy");
    }
    for (const char *at = seconds; at; at = strchr(at, ',')) {
        at += *at == ',';
        longest = 0;
        run_cycles(count, (unsigned)atoi(at), strcmp(mode, "cut") == 0 ? mode : "down");
    }
    if (strcmp(mode, "stall") == 0) { /* one that stalls for certain, at either end */
        for (int cycle = 1; cycle <= 2; cycle++)
            CHECK(run_cycle(cycle, "stall", true) == STALLED,
                  "rping gets through a card that stalls");
        SAY("cards that stall: replaced at either end, and pictures come again");
    }
    PEER_FINISH(&receiver);
    peer_forget(&receiver);
    put("ask", ++asked, "end");
}

int main(int argc, char **argv)
{
    struct board *board = peer_board_open("--sender", argc, argv, sizeof(*board));
    if (board)
        play_sender(board);
    peer_main(argc, argv);
    const char *host = getenv("GPUDIRECT_HOST");
    CHECK(argc > 4 && host, "run it by tests/vm/guest --hosts 2");
    char address[108];
    snprintf(address, sizeof(address), "rdma://%s:%d/down",
             getenv(host[0] == '1' ? "GPUDIRECT_ADDRESS" : "GPUDIRECT_PEER"), PORT);
    setenv("GPUD_TEST_ADDRESS", address, 1); /* there is a network */
    setenv("GPUD_TEST_KEY", KEY, 1);
    setenv("GPUD_TEST_LONG", "1", 1);
    folder = argv[2];
    interface_program = argv[4];
    make_key(KEY, "the key of a test, which both hosts know");
    const char *mode = argc > 6 ? argv[6] : "";
    if (host[0] == '1')
        serve(address, strcmp(mode, "cut") == 0);
    else
        receive(atoi(argv[1]), argv[3], address, argc > 5 ? argv[5] : NULL, mode);
    return 0;
}
