/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The first bytes of a connection between hosts: see wire/network.h. */
#include "wire/network.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT32_C(0x52555047) /* "GPUR" */

struct header {
    uint32_t magic;
    uint8_t version, length;
    uint16_t number;
};
_Static_assert(sizeof(struct header) == GPUD_REPLY_SIZE, "as network.h says");
_Static_assert(sizeof(struct header) + GPUD_PLACE_NAME_MAX <= GPUD_REQUEST_MAX, "names fit");

/* --- writing ------------------------------------------------------------------------------- */

static size_t write_all(uint8_t *bytes, uint32_t number, const char *text)
{
    size_t length = strlen(text);
    struct header header = {
        .magic = htole32(MAGIC),
        .version = GPUD_REQUEST_VERSION,
        .length = (uint8_t)(sizeof(header) + length),
        .number = htole16((uint16_t)number),
    };
    memcpy(bytes, &header, sizeof(header));
    memcpy(bytes + sizeof(header), text, length);
    return sizeof(header) + length;
}

size_t gpud_request_write(const struct gpud_request *request, uint8_t bytes[GPUD_REQUEST_MAX])
{
    return write_all(bytes, request->number, request->name);
}

size_t gpud_reply_write(uint32_t number, uint8_t bytes[GPUD_REPLY_SIZE])
{
    return write_all(bytes, number, "");
}

size_t gpud_refusal_write(const struct gpud_refusal *refusal, uint8_t bytes[GPUD_REFUSAL_MAX])
{
    return write_all(bytes, refusal->reason, refusal->names);
}

void gpud_refusal_add_name(struct gpud_refusal *refusal, const char *name)
{
    size_t used = strlen(refusal->names), length = strlen(name);
    bool is_cut = used > 0 && refusal->names[used - 1] == ',';
    if (length == 0 || is_cut)
        return;
    /* Keeps room for the final comma, which stands for further names. */
    if (used + 1 + length + 1 > GPUD_REFUSAL_NAMES_MAX)
        gpud_print_n(refusal->names + used, sizeof(refusal->names) - used, ",");
    else
        gpud_print_n(refusal->names + used, sizeof(refusal->names) - used, "%s%s", used ? "," : "",
                     name);
}

void gpud_refusal_set_moved(struct gpud_refusal *refusal, uint16_t port)
{
    refusal->reason = GPUD_REFUSAL_MOVED;
    gpud_print(refusal->names, "%u", port);
}

/* --- reading ------------------------------------------------------------------------------- */

static enum gpud_status malformed(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_PEER, "the peer sent malformed data with its connection");
}

size_t gpud_request_length(const uint8_t bytes[GPUD_REPLY_SIZE])
{
    struct header header;
    memcpy(&header, bytes, sizeof(header));
    return le32toh(header.magic) == MAGIC && header.length > sizeof(header) ? header.length
                                                                            : sizeof(header);
}

struct parsed {
    unsigned version;
    uint32_t number;
    size_t length;
    const char *text; /* within the bytes read */
};

/* Checks everything except the meaning of number and text. */
static enum gpud_status parse(const uint8_t *bytes, size_t size, struct parsed *parsed,
                              struct gpud_error *error)
{
    struct header header;
    *parsed = (struct parsed){.text = ""};
    if (size < sizeof(header))
        return gpud_fail(error, GPUD_PEER, "the peer is not a gpudirect program");
    memcpy(&header, bytes, sizeof(header));
    if (le32toh(header.magic) != MAGIC)
        return gpud_fail(error, GPUD_PEER, "the peer is not a gpudirect program");
    if (header.length < sizeof(header) || header.length > size)
        return malformed(error);
    *parsed = (struct parsed){
        .version = header.version,
        .number = le16toh(header.number),
        .length = header.length - sizeof(header),
        .text = (const char *)bytes + sizeof(header),
    };
    return GPUD_OK;
}

/* The same, and requires this library's version. */
static enum gpud_status parse_own(const uint8_t *bytes, size_t size, struct parsed *parsed,
                                  struct gpud_error *error)
{
    enum gpud_status status = parse(bytes, size, parsed, error);
    if (status != GPUD_OK || parsed->version == GPUD_REQUEST_VERSION)
        return status;
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "the peer makes connections by version %u of the protocol, this library by "
                     "%d: use the same release",
                     parsed->version, GPUD_REQUEST_VERSION);
}

enum gpud_status gpud_request_read(const uint8_t *bytes, size_t size, struct gpud_request *request,
                                   struct gpud_error *error)
{
    struct parsed parsed;
    enum gpud_status status = parse_own(bytes, size, &parsed, error);
    if (status != GPUD_OK)
        return status;
    if (parsed.length > 0 && !gpud_place_is_name(parsed.text, parsed.length))
        return malformed(error);
    request->number = parsed.number;
    memcpy(request->name, parsed.text, parsed.length);
    request->name[parsed.length] = '\0';
    return GPUD_OK;
}

enum gpud_status gpud_reply_read(const uint8_t *bytes, size_t size, uint32_t *number,
                                 struct gpud_error *error)
{
    struct parsed parsed;
    enum gpud_status status = parse_own(bytes, size, &parsed, error);
    if (status != GPUD_OK)
        return status;
    if (parsed.length != 0)
        return malformed(error);
    *number = parsed.number;
    return GPUD_OK;
}

/* Whether the text is a list of names with commas between them and optionally one at the end. */
static bool are_names(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        const char *comma = memchr(text + at, ',', length - at);
        size_t end = comma ? (size_t)(comma - text) : length;
        if (!gpud_place_is_name(text + at, end - at))
            return false;
        at = end + 1;
    }
    return true;
}

enum gpud_status gpud_refusal_read(const uint8_t *bytes, size_t size, struct gpud_refusal *refusal,
                                   struct gpud_error *error)
{
    struct parsed parsed;
    enum gpud_status status = parse(bytes, size, &parsed, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_refusal made = {.version = parsed.version};
    made.reason = (enum gpud_refusal_reason)parsed.number;
    if (parsed.version != GPUD_REQUEST_VERSION)
        made.reason = GPUD_REFUSAL_OTHER_VERSION; /* its number may mean something else */
    else if (parsed.number < GPUD_REFUSAL_UNKNOWN_NAME || parsed.number > GPUD_REFUSAL_PROOF ||
             parsed.length > GPUD_REFUSAL_NAMES_MAX || !are_names(parsed.text, parsed.length))
        return malformed(error);
    else
        memcpy(made.names, parsed.text, parsed.length);
    if (made.reason == GPUD_REFUSAL_MOVED && gpud_refusal_moved_to(&made) == 0)
        return malformed(error);
    *refusal = made;
    return GPUD_OK;
}

uint16_t gpud_refusal_moved_to(const struct gpud_refusal *refusal)
{
    size_t length = strlen(refusal->names);
    if (refusal->reason != GPUD_REFUSAL_MOVED || length == 0 || length > 5 ||
        strspn(refusal->names, "0123456789") != length)
        return 0;
    unsigned long port = strtoul(refusal->names, NULL, 10);
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* --- reasons ------------------------------------------------------------------------------- */

/* wants: the proof that the sender requires. */
static enum gpud_status explain_proof(const char *wants, const struct gpud_place *place,
                                      struct gpud_error *error)
{
    if (strcmp(wants, "key") == 0)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the sender at %s, port %u, wants a key: set psk-file here to a copy of "
                         "that one's",
                         place->host, place->port);
    if (strcmp(wants, "certificate") == 0)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the sender at %s, port %u, wants a certificate: set tls-certificate, "
                         "tls-key and tls-ca here",
                         place->host, place->port);
    return gpud_fail(error, GPUD_NO_ACCESS,
                     "the sender at %s, port %u, has neither a key nor a certificate, and this "
                     "receiver wants it to prove who it is: set psk-file there, too, to a copy of "
                     "this one's, or tls-certificate, tls-key and tls-ca",
                     place->host, place->port);
}

enum gpud_status gpud_refusal_explain(const struct gpud_refusal *refusal,
                                      const struct gpud_place *place, struct gpud_error *error)
{
    char list[2 * GPUD_REFUSAL_NAMES_MAX + 16] = ""; /* "cam1, cam2 and more" */
    size_t used = 0;
    for (const char *at = refusal->names; *at;) {
        size_t length = strcspn(at, ",");
        gpud_print_n(list + used, sizeof(list) - used, "%s%.*s", used ? ", " : "", (int)length, at);
        used = strlen(list);
        at += length;
        if (*at == ',' && *++at == '\0')
            gpud_print_n(list + used, sizeof(list) - used, " and more");
    }
    switch (refusal->reason) {
    case GPUD_REFUSAL_UNKNOWN_NAME:
        return gpud_fail(error, GPUD_CLOSED,
                         "there is no channel \"%s\" at %s, port %u; there %s%s", place->name,
                         place->host, place->port,
                         list[0] ? "are: " : "is one without a name: leave it out", list);
    case GPUD_REFUSAL_NAME_WANTED:
        return gpud_fail(error, GPUD_CLOSED,
                         "several channels are at %s, port %u: put /NAME behind the port; there "
                         "are: %s",
                         place->host, place->port, list);
    case GPUD_REFUSAL_OTHER_VERSION:
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the sender at %s, port %u, takes connections by version %u of the "
                         "protocol, this library makes them by %d: use the same release",
                         place->host, place->port, refusal->version, GPUD_REQUEST_VERSION);
    case GPUD_REFUSAL_BUSY:
        return gpud_fail(error, GPUD_CLOSED,
                         "too many receivers wait already for the sender at %s, port %u",
                         place->host, place->port);
    case GPUD_REFUSAL_UNABLE:
        return gpud_fail(error, GPUD_CLOSED,
                         "the sender at %s, port %u, cannot take one more connection: its log says "
                         "why",
                         place->host, place->port);
    case GPUD_REFUSAL_MOVED:
        return gpud_fail(error, GPUD_CLOSED,
                         "the channel \"%s\" at %s, port %u, has just moved to another process: "
                         "try again",
                         place->name, place->host, place->port);
    case GPUD_REFUSAL_PROOF:
        return explain_proof(refusal->names, place, error);
    default:
        return gpud_fail(error, GPUD_PEER,
                         "the sender at %s, port %u, finds the request to connect malformed: use "
                         "the same release",
                         place->host, place->port);
    }
}
