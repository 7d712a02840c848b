/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Scripted peers: the protocol over raw sockets, step by step, so that a test can stop, lie or die
 * at each one. Valid messages are made by the library's own wire/message.c and altered afterwards.
 */
#ifndef GPUD_TESTS_RAW_H
#define GPUD_TESTS_RAW_H

#include "wire/wire.h"

/* --- a receiver ------------------------------------------------------------------------------- */

enum raw_step {
    RAW_CONNECTED,
    RAW_HELLO_SENT,
    RAW_HELLO_GOT,
    RAW_OFFERED,
    RAW_ACCEPTED, /* our page is sent */
    RAW_CANARY_GOT,
    RAW_READY_SENT,
    RAW_STREAMING, /* and a frame was taken */
    RAW_STEPS
};
extern const char *const raw_step_names[RAW_STEPS];

struct raw {
    int fd, page_fd;
    struct gpud_page *page;
    struct gpud_page_rx view;
    struct gpud_offer offer; /* its descriptors are closed */
    uint64_t nonce;
};

/* Runs from the current step to this one; each message has 5 s to arrive. */
void raw_connect(struct raw *raw, const char *address);
/* With the handle that the driver of another GPU, in another process, would report, up to the offer
 * of staged-push. */
void raw_connect_as_gpu(struct raw *raw, const char *address);
void raw_to(struct raw *raw, enum raw_step from, enum raw_step to);
void raw_open(struct raw *raw, const char *address, enum raw_step to); /* both */
void raw_close(struct raw *raw);

/* A good HELLO of a receiver on the host. */
void raw_hello(struct gpud_message *message);
/* Makes the page and a good ACCEPT for the offer; the page's descriptor is borrowed. */
void raw_accept(struct raw *raw, struct gpud_message *message);

/* --- a sender --------------------------------------------------------------------------------- */

enum raw_server_step {
    RAW_SERVER_ACCEPTED, /* the connection */
    RAW_SERVER_HELLO,    /* heard the receiver's, said ours */
    RAW_SERVER_OFFERED,
    RAW_SERVER_PAGE,   /* the receiver's ACCEPT is there */
    RAW_SERVER_CANARY, /* the test frame is published and announced */
    RAW_SERVER_READY,
    RAW_SERVER_STREAMING, /* a frame is published */
    RAW_SERVER_STEPS
};
extern const char *const raw_server_step_names[RAW_SERVER_STEPS];

struct raw_server {
    int listener, fd, ring_fd;
    char path[108];
    struct gpud_layout layout;
    void *ring;
    uint64_t ring_size, slot_size;
    struct gpud_page *page;
    struct gpud_page_tx view;
    struct gpud_endpoint peer;
    uint64_t sequence;
    uint32_t epoch;
    char device[32], pci[16]; /* of its HELLO; "": the host */
};

void raw_listen(struct raw_server *server, const char *address);
void raw_serve(struct raw_server *server, int from, enum raw_server_step to); /* from −1: accepts */
/* The same with a receiver that may leave meanwhile: then false. */
bool raw_tries(struct raw_server *server, int from, enum raw_server_step to);
void raw_hang_up(struct raw_server *server); /* keeps listening */
void raw_server_close(struct raw_server *server);

/* A good OFFER of the map route with a ring of four slots; the descriptor is borrowed. */
void raw_offer(struct raw_server *server, struct gpud_message *message);
/* Takes the page of a received ACCEPT, which is closed. */
void raw_adopt_page(struct raw_server *server, struct gpud_message *accept);
/* Publishes a frame in the next free entry; false: no credit. */
bool raw_publish(struct raw_server *server, uint32_t *entry);

/* --- messages --------------------------------------------------------------------------------- */

/* Sends bytes and descriptors as they are. false: the peer hung up, or does not read. */
bool raw_send(int fd, const void *bytes, size_t size, const int *fds, size_t fd_count);
bool raw_send_message(int fd, struct gpud_message *message);
/* Waits for a message. false: the peer hung up, or nothing came. */
bool raw_receive(int fd, struct gpud_message *message, int64_t timeout);
/* Whether the other end is gone. Does not wait. */
bool raw_is_hung_up(int fd);
/* Waits until the peer has disconnected; its earlier messages are discarded. */
bool raw_wait_hangup(int fd, int64_t timeout);

/* A plain connection to the socket of the address, as any program can make one; −1, and errno. */
int raw_dial(const char *address);

int raw_memfd(uint64_t size, int seals); /* seals −1: none, not even allowed */

/* --- the log ---------------------------------------------------------------------------------- */

/* A context whose log is kept. */
struct gpud_context *raw_context(void);
void raw_log_clear(void);
/* Whether a line that contains the text comes within the time. */
bool raw_log_says(const char *text, int64_t timeout);
void raw_log_print(void);
unsigned raw_log_lines(void); /* without those for debugging */

#endif
