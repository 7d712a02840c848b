/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How two hosts prove to each other that they know a key. */
#include "wire/wire.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(OPENSSL_VERSION_MAJOR == 3, "libssl.so.3, which base/libraries.c opens");

enum gpud_status gpud_openssl_open(struct gpud_error *error)
{
    enum gpud_status status = gpud_library_need(&gpud_library_openssl, error);
    /* Keeps OpenSSL from freeing its own memory at exit(), where a thread that has used it and ends
     * at the same time, such as one of GStreamer's, would crash. It works only before OpenSSL's
     * first use. */
    if (status == GPUD_OK)
        OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    return status;
}

/* A program that has OpenSSL may use it before this library does. */
__attribute__((constructor)) static void openssl_precede_program(void)
{
    if (gpud_library_is_loaded(&gpud_library_openssl))
        gpud_openssl_open(NULL);
}

/* === auth ==================================================================================== */

#define GPUD_AUTH_VERSION 1
#define MAGIC UINT32_C(0x41555047) /* "GPUA" */

#define COPY                                                                                 \
    "copy the psk-file of one host to the other (if it is the same, something between them " \
    "changes the connection)"

struct packet {
    uint32_t magic;
    uint16_t version, type;
    uint32_t length, what;
    uint8_t nonce[GPUD_AUTH_NONCE_SIZE];
    uint8_t mac[SHA256_DIGEST_LENGTH];
};

_Static_assert(sizeof(struct packet) == GPUD_AUTH_MESSAGE_SIZE, "as wire/wire.h says");

enum gpud_status gpud_auth_begin(struct gpud_auth *auth, enum gpud_auth_role role, const char *peer,
                                 const struct gpud_auth_key *key, const void *context,
                                 size_t context_size, struct gpud_error *error)
{
    memset(auth, 0, sizeof(*auth));
    if (key && (key->size < GPUD_AUTH_KEY_MIN || key->size > GPUD_AUTH_KEY_MAX))
        return gpud_fail(error, GPUD_INVALID, "a key of %zu bytes, where %d to %d are possible",
                         key->size, GPUD_AUTH_KEY_MIN, GPUD_AUTH_KEY_MAX);
    if (context_size == 0 || context_size > GPUD_AUTH_CONTEXT_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "a connection identified by %zu bytes, where 1 to %d are possible",
                         context_size, GPUD_AUTH_CONTEXT_MAX);
    /* So few bytes are never split. Without GRND_NONBLOCK this could block right after booting. */
    errno = EIO;
    if (getrandom(auth->nonce[role], GPUD_AUTH_NONCE_SIZE, GRND_NONBLOCK) != GPUD_AUTH_NONCE_SIZE) {
        memset(auth, 0, sizeof(*auth));
        return gpud_fail_errno(error, "the kernel has no random numbers, which authentication "
                                      "needs (right after booting it may have none)");
    }
    gpud_print(auth->peer, "the %s at %s", role == GPUD_AUTH_SENDER ? "receiver" : "sender", peer);
    memcpy(auth->context, context, context_size);
    auth->context_size = context_size;
    auth->key = key;
    auth->role = role;
    auth->state = role == GPUD_AUTH_SENDER ? GPUD_AUTH_SENDS : GPUD_AUTH_AWAITS;
    auth->type = GPUD_AUTH_CHALLENGE;
    return GPUD_OK;
}

/* --- MACs ----------------------------------------------------------------------------------- */

static void compute_mac(const struct gpud_auth *auth, enum gpud_auth_role prover,
                        uint8_t mac[SHA256_DIGEST_LENGTH])
{
    /* Each end has its own, so that neither can reflect the other's proof. */
    static const char *const labels[] = {
        [GPUD_AUTH_SENDER] = "gpudirect psk 1 sender",
        [GPUD_AUTH_RECEIVER] = "gpudirect psk 1 receiver",
    };
    uint8_t text[32 + 2 * GPUD_AUTH_NONCE_SIZE + GPUD_AUTH_CONTEXT_MAX];
    size_t size = strlen(labels[prover]) + 1;
    memcpy(text, labels[prover], size);
    memcpy(text + size, auth->nonce[GPUD_AUTH_SENDER], GPUD_AUTH_NONCE_SIZE);
    size += GPUD_AUTH_NONCE_SIZE;
    memcpy(text + size, auth->nonce[GPUD_AUTH_RECEIVER], GPUD_AUTH_NONCE_SIZE);
    size += GPUD_AUTH_NONCE_SIZE;
    memcpy(text + size, auth->context, auth->context_size);
    size += auth->context_size;
    /* Without memory for it, a MAC that no other end computes. */
    if (!HMAC(EVP_sha256(), auth->key->bytes, (int)auth->key->size, text, size, mac, NULL) &&
        getrandom(mac, SHA256_DIGEST_LENGTH, 0) < 0)
        abort();
}

static bool is_proved(const struct gpud_auth *auth, enum gpud_auth_role prover,
                      const uint8_t mac[SHA256_DIGEST_LENGTH])
{
    uint8_t right[SHA256_DIGEST_LENGTH];
    compute_mac(auth, prover, right);
    bool equal = CRYPTO_memcmp(mac, right, sizeof(right)) == 0;
    explicit_bzero(right, sizeof(right));
    return equal;
}

/* --- sending -------------------------------------------------------------------------------- */

static bool has_nonce(enum gpud_auth_type type)
{
    return type == GPUD_AUTH_CHALLENGE || type == GPUD_AUTH_PROOF;
}

static bool has_mac(enum gpud_auth_type type, bool with_key)
{
    return with_key && (type == GPUD_AUTH_PROOF || type == GPUD_AUTH_VERDICT);
}

/* Ends the exchange, which borrows the key no longer. */
static void auth_finish(struct gpud_auth *auth, enum gpud_auth_state state)
{
    auth->state = state;
    auth->key = NULL;
    auth->refusal = GPUD_AUTH_NOT_REFUSED;
}

bool gpud_auth_next(struct gpud_auth *auth, uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE])
{
    if (auth->state != GPUD_AUTH_SENDS)
        return false;
    uint32_t what = auth->type == GPUD_AUTH_REFUSE ? (uint32_t)auth->refusal : auth->key != NULL;
    struct packet packet = {
        .magic = htole32(MAGIC),
        .version = htole16(GPUD_AUTH_VERSION),
        .type = htole16((uint16_t)auth->type),
        .length = htole32(sizeof(packet)),
        .what = htole32(what),
    };
    if (has_nonce(auth->type))
        memcpy(packet.nonce, auth->nonce[auth->role], sizeof(packet.nonce));
    if (has_mac(auth->type, auth->key))
        compute_mac(auth, auth->role, packet.mac);
    memcpy(bytes, &packet, sizeof(packet));

    switch (auth->type) {
    case GPUD_AUTH_CHALLENGE:
    case GPUD_AUTH_PROOF:
        auth->state = GPUD_AUTH_AWAITS;
        auth->type++;
        break;
    case GPUD_AUTH_VERDICT:
        auth_finish(auth, GPUD_AUTH_DONE);
        break;
    case GPUD_AUTH_REFUSE:
        auth_finish(auth, GPUD_AUTH_FAILED);
        break;
    }
    return true;
}

/* --- receiving ------------------------------------------------------------------------------ */

static enum gpud_status malformed(const struct gpud_auth *auth, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_PEER, "%s sent a malformed message of authentication", auth->peer);
}

static enum gpud_status decode(struct gpud_auth *auth, const uint8_t *bytes, size_t size,
                               struct packet *packet, struct gpud_error *error)
{
    memset(packet, 0, sizeof(*packet));
    memcpy(packet, bytes, size < sizeof(*packet) ? size : sizeof(*packet));
    if (size < offsetof(struct packet, length))
        return malformed(auth, error);
    if (le32toh(packet->magic) != MAGIC)
        return gpud_fail(error, GPUD_PEER,
                         "%s does not speak gpudirect's protocol of authentication", auth->peer);
    packet->version = le16toh(packet->version);
    packet->type = le16toh(packet->type);
    packet->length = le32toh(packet->length);
    packet->what = le32toh(packet->what);
    if (packet->version != GPUD_AUTH_VERSION) {
        auth->refusal = GPUD_AUTH_OTHER_VERSION;
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s speaks version %u of the protocol of authentication, this library %d: "
                         "use the same release",
                         auth->peer, packet->version, GPUD_AUTH_VERSION);
    }
    if (size != sizeof(*packet) || packet->length != size)
        return malformed(auth, error);
    return GPUD_OK;
}

/* Explains the other end's refusal; one that contradicts this end's state is malformed. */
static enum gpud_status handle_refusal(const struct gpud_auth *auth, uint32_t refusal,
                                       struct gpud_error *error)
{
    bool is_sender = auth->role == GPUD_AUTH_SENDER;
    if (refusal == GPUD_AUTH_NO_KEY && is_sender && auth->key)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s has no key, and this sender wants one: set psk-file there, too, to a "
                         "copy of this one's",
                         auth->peer);
    if (refusal == GPUD_AUTH_KEY_WANTED && is_sender && !auth->key)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s wants a key, and this sender has none: set psk-file here, too, to a "
                         "copy of that one's",
                         auth->peer);
    if (refusal == GPUD_AUTH_KEYS_DIFFER && !is_sender && auth->key &&
        auth->type == GPUD_AUTH_VERDICT)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the keys differ: %s refused this receiver's proof; " COPY, auth->peer);
    return malformed(auth, error);
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    while (size && *bytes == 0) {
        bytes++;
        size--;
    }
    return size == 0;
}

static enum gpud_status auth_handle(struct gpud_auth *auth, const struct packet *packet,
                                    struct gpud_error *error)
{
    enum gpud_auth_type type = packet->type;
    bool refuses = type == GPUD_AUTH_REFUSE, with_key = !refuses && packet->what;
    if ((!refuses && (type != auth->type || packet->what > 1)) ||
        (!has_nonce(type) && !is_zero(packet->nonce, sizeof(packet->nonce))) ||
        (!has_mac(type, with_key) && !is_zero(packet->mac, sizeof(packet->mac))))
        return malformed(auth, error);
    if (refuses)
        return handle_refusal(auth, packet->what, error);
    if (has_nonce(type))
        memcpy(auth->nonce[!auth->role], packet->nonce, sizeof(packet->nonce));
    if (type == GPUD_AUTH_CHALLENGE && with_key && !auth->key) {
        auth->refusal = GPUD_AUTH_NO_KEY;
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s wants a key, and this receiver has none: set psk-file here, too, to a "
                         "copy of that one's",
                         auth->peer);
    }
    if (type == GPUD_AUTH_CHALLENGE && !with_key && auth->key) {
        auth->refusal = GPUD_AUTH_KEY_WANTED;
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s has no key, and this receiver wants one: set psk-file there, too, to "
                         "a copy of this one's",
                         auth->peer);
    }
    /* After the CHALLENGE both ends agree on whether there is a key. */
    if (with_key != (auth->key != NULL))
        return malformed(auth, error);
    if (type == GPUD_AUTH_PROOF && auth->key && !is_proved(auth, GPUD_AUTH_RECEIVER, packet->mac)) {
        auth->refusal = GPUD_AUTH_KEYS_DIFFER;
        return gpud_fail(error, GPUD_NO_ACCESS, "the keys differ: the proof of %s is wrong; " COPY,
                         auth->peer);
    }
    /* An honest sender whose key differs would have refused the proof. */
    if (type == GPUD_AUTH_VERDICT && auth->key && !is_proved(auth, GPUD_AUTH_SENDER, packet->mac))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s cannot prove that it has the key: it is not the intended one, or "
                         "something between the hosts changes the connection",
                         auth->peer);
    if (type == GPUD_AUTH_VERDICT) {
        auth_finish(auth, GPUD_AUTH_DONE);
        return GPUD_OK;
    }
    auth->state = GPUD_AUTH_SENDS;
    auth->type = type + 1; /* the PROOF after a CHALLENGE, the VERDICT after a PROOF */
    return GPUD_OK;
}

enum gpud_status gpud_auth_handle(struct gpud_auth *auth, const uint8_t *bytes, size_t size,
                                  struct gpud_error *error)
{
    struct packet packet;
    enum gpud_status status;
    if (auth->state == GPUD_AUTH_AWAITS)
        status = decode(auth, bytes, size, &packet, error);
    else
        status = gpud_fail(error, GPUD_PEER,
                           "%s sent a message of authentication when none was due", auth->peer);
    if (status == GPUD_OK)
        status = auth_handle(auth, &packet, error);
    if (status != GPUD_OK && auth->refusal) {
        auth->state = GPUD_AUTH_SENDS;
        auth->type = GPUD_AUTH_REFUSE;
        auth->key = NULL;
    } else if (status != GPUD_OK) {
        auth_finish(auth, GPUD_AUTH_FAILED);
    }
    return status;
}

/* === auth_key ================================================================================ */
/* Reads the key from a file that only its owner can use, and decides where none is needed. */

#define MAKE "(umask 077; head -c 32 /dev/urandom | base64 > %s)"

static enum gpud_status refuse_kind(const char *path, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID,
                     "%s is not a regular file, as a key file must be: " MAKE " makes one", path,
                     path);
}

static enum gpud_status refuse_open(const char *path, struct gpud_error *error)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return gpud_fail_native(error, GPUD_INVALID, "errno", errno,
                                "there is no key file %s: " MAKE
                                " makes one, to be copied to the other host",
                                path, path);
    case ENXIO: /* a socket */
    case ENODEV:
        return refuse_kind(path, error);
    case EACCES:
        return gpud_fail_native(error, GPUD_NO_ACCESS, "errno", errno,
                                "user %u, as whom this program runs, may not read the key file %s: "
                                "chown %u %s",
                                geteuid(), path, geteuid(), path);
    default:
        return gpud_fail_errno(error, "cannot open the key file %s", path);
    }
}

static enum gpud_status take_key(int fd, const char *path, struct gpud_auth_key *key,
                                 struct gpud_error *error)
{
    uint8_t bytes[GPUD_AUTH_KEY_MAX + 2]; /* room for the newline, and to detect excess */
    enum gpud_status status = GPUD_OK;
    size_t size = 0;
    ssize_t got;
    do {
        got = read(fd, bytes + size, sizeof(bytes) - size);
        size += got > 0 ? (size_t)got : 0;
    } while (got < 0 ? errno == EINTR : got > 0 && size < sizeof(bytes));
    if (got < 0)
        status = gpud_fail_errno(error, "cannot read the key file %s", path);
    if (status == GPUD_OK && size > 0 && bytes[size - 1] == '\n')
        size--;
    if (status == GPUD_OK && size < GPUD_AUTH_KEY_MIN)
        status = gpud_fail(error, GPUD_INVALID,
                           "the key in %s has %zu bytes, and %d is the minimum: " MAKE
                           " makes a good one",
                           path, size, GPUD_AUTH_KEY_MIN, path);
    if (status == GPUD_OK && size > GPUD_AUTH_KEY_MAX)
        status = gpud_fail(error, GPUD_INVALID,
                           "%s has more than %d bytes, the maximum for a key: " MAKE " makes one",
                           path, GPUD_AUTH_KEY_MAX, path);
    if (status == GPUD_OK) {
        gpud_auth_wipe_key(key);
        memcpy(key->bytes, bytes, size);
        key->size = size;
    }
    explicit_bzero(bytes, sizeof(bytes));
    return status == GPUD_OK ? gpud_openssl_open(error) : status;
}

enum gpud_status gpud_auth_read_key(const char *path, struct gpud_auth_key *key,
                                    struct gpud_error *error)
{
    struct stat st;
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return refuse_open(path, error);
    enum gpud_status status;
    if (fstat(fd, &st) < 0)
        status = gpud_fail_errno(error, "cannot look at the key file %s", path);
    else if (!S_ISREG(st.st_mode))
        status = refuse_kind(path, error);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        status = gpud_fail(error, GPUD_NO_ACCESS,
                           "the key file %s belongs to user %u, neither to user %u, as whom this "
                           "program runs, nor to root: chown %u %s",
                           path, st.st_uid, geteuid(), geteuid(), path);
    else if (st.st_mode & 077)
        status = gpud_fail(error, GPUD_NO_ACCESS,
                           "users other than its owner can use the key file %s (mode %04o): "
                           "chmod 600 %s",
                           path, st.st_mode & 07777, path);
    else
        status = take_key(fd, path, key, error);
    gpud_fd_close(&fd);
    return status;
}

void gpud_auth_wipe_key(struct gpud_auth_key *key)
{
    explicit_bzero(key, sizeof(*key));
}

/* --- without a key ---------------------------------------------------------------------------- */

/* Also writes the address to *text. */
static bool is_loopback(const struct sockaddr *address, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    switch (address->sa_family) {
    case AF_INET:
        memcpy(&v4, address, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, text, INET6_ADDRSTRLEN);
        return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    case AF_INET6:
        memcpy(&v6, address, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, text, INET6_ADDRSTRLEN);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
    default:
        gpud_print_n(text, INET6_ADDRSTRLEN, "of family %u", address->sa_family);
        return false;
    }
}

enum gpud_status gpud_auth_may_listen(const struct sockaddr *address, bool has_key,
                                      bool unauthenticated_allowed, struct gpud_error *error)
{
    char text[INET6_ADDRSTRLEN];
    if (is_loopback(address, text) || has_key || unauthenticated_allowed)
        return GPUD_OK;
    return gpud_fail(error, GPUD_NO_ACCESS,
                     "without a key anyone who can reach the address %s could connect: set "
                     "psk-file=PATH at both ends, to copies of one file, which " MAKE
                     " makes (or, over tcp://, certificates: tls-certificate, tls-key, tls-ca), or "
                     "allow-unauthenticated=true where everyone on the network is trusted",
                     text, "PATH");
}
