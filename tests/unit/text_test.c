/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text of others is valid UTF-8 that cannot steer a terminal once it was cleaned, and whatever is
 * too long for its place is cut between two characters. */
#include "base/base.h"
#include "support/check.h"
#include "wire/unix/unix.h"

static const struct {
    const char *what, *in, *out;
} cleaned[] = {
    {"nothing", "", ""},
    {"ASCII", "cam 1: \"on air\" ~", "cam 1: \"on air\" ~"},
    {"two, three and four bytes", "Sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x8e\xa5!",
     "Sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x8e\xa5!"},
    {"the first and the last of each length",
     "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
     "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    {"around the surrogates", "\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
    {"C0 and DEL", "a\x01\x1b[2J\n\t\x1f\x7f z", "a??[2J???? z"},
    {"C1",
     "a\xc2\x80\xc2\x85\xc2\x9b"
     "31m\xc2\x9f z",
     "a??????31m?? z"},
    {"C1 as single bytes", "a\x80\x9b\x9f z", "a??? z"},
    {"overrides, isolates, separators of lines",
     "a\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa7\xe2\x81"
     "\xa8\xe2\x81\xa9\xe2\x80\xa8\xe2\x80\xa9z",
     "a?????????????????????????????????z"},
    {"their neighbours", "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
     "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"},
    {"overlong: two bytes", "\xc0\x80\xc0\xaf\xc1\xbf|", "??????|"},
    {"overlong: three bytes", "\xe0\x80\xaf\xe0\x9f\xbf|", "??????|"},
    {"overlong: four bytes", "\xf0\x80\x80\xaf\xf0\x8f\xbf\xbf|", "????????|"},
    {"surrogates", "\xed\xa0\x80\xed\xad\xbf\xed\xae\x80\xed\xbf\xbf|", "????????????|"},
    {"above U+10FFFF", "\xf4\x90\x80\x80\xf5\x80\x80\x80\xf7\xbf\xbf\xbf|", "????????????|"},
    {"five and six bytes", "\xf8\x88\x80\x80\x80\xfc\x84\x80\x80\x80\x80|", "???????????|"},
    {"FE and FF", "\xfe\xff|", "??|"},
    {"a continuation alone", "a\xbf\x80z", "a??z"},
    {"truncated in the middle", "\xc3z\xe2\x82z\xf0\x9f\x8ez\xe2z", "?z??z???z?z"},
    {"truncated, then whole", "\xe2\x82\xe2\x82\xac\xf0\x9f\xc3\xb6", "??\xe2\x82\xac??\xc3\xb6"},
    {"truncated at the end: two bytes", "a\xc3", "a?"},
    {"truncated at the end: three bytes", "a\xe2\x82", "a??"},
    {"truncated at the end: four bytes", "a\xf0\x9f\x8e", "a???"},
};

/* Euro signs from that place on, more than there is room for. */
static void euros(char *text, size_t size, size_t at)
{
    memset(text, 'x', size);
    for (; at + 3 < size; at += 3)
        memcpy(text + at, "\xe2\x82\xac", 3);
    text[at] = '\0';
}

static void ends_whole(const char *what, const char *text, size_t least)
{
    char copy[2048];
    size_t size = strlen(text);
    CHECK(size >= least, "%s: only %zu bytes are left", what, size);
    memcpy(copy, text, size + 1);
    gpud_text_clean(copy, size);
    CHECK(strcmp(copy, text) == 0, "%s: cut within a character: …%s", what, copy + size - 8);
}

static char logged[2048];

static void keep(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    snprintf(logged, sizeof(logged), "%s", text);
}

int main(void)
{
    SAY("what others wrote");
    for (size_t i = 0; i < sizeof(cleaned) / sizeof(cleaned[0]); i++) {
        size_t size = strlen(cleaned[i].in);
        char *text = malloc(size + 1); /* of this size, so that a sanitizer sees what lies beyond */
        CHECK(text, "malloc");
        memcpy(text, cleaned[i].in, size + 1);
        gpud_text_clean(text, size);
        CHECK(strcmp(text, cleaned[i].out) == 0, "%s: \"%s\" where \"%s\" is right",
              cleaned[i].what, text, cleaned[i].out);
        gpud_text_clean(text, size);
        CHECK(strcmp(text, cleaned[i].out) == 0, "%s: cleaned twice: \"%s\"", cleaned[i].what,
              text);
        free(text);
    }
    /* What comes after its end is not looked at; a NUL within it is a control character. */
    char nul[] = "a\0b\xe2\x82\xac";
    gpud_text_clean(nul, 5);
    CHECK(memcmp(nul, "a?b??\xac", 7) == 0, "\"%s\"", nul);
    SAY("where a text may be cut");
    static const char text[] = "a\xc3\xb6\xe2\x82\xac\xf0\x9f\x8e\xa5z";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t length = 0; length < sizeof(whole) / sizeof(whole[0]); length++)
        CHECK_EQUAL(gpud_text_whole(text, length), whole[length]);
    CHECK_EQUAL(gpud_text_whole("\x80\x80\x80\x80\x80", 5), 5); /* never was UTF-8 */
    CHECK_EQUAL(gpud_text_whole("\xff", 1), 1);
    static char many[2000];
    for (size_t shift = 0; shift < 3; shift++) {
        char name[16];
        struct gpud_error error;
        struct gpud_log log;
        euros(many, sizeof(many), shift);
        gpud_print(name, "%s", many);
        ends_whole("gpud_print", name, sizeof(name) - 3);
        CHECK_EQUAL(gpud_print_n(name, sizeof(name), "%s", many), strlen(many));
        gpud_fail(&error, GPUD_IO, "%s", many);
        ends_whole("gpud_fail", error.reason, GPUD_REASON_MAX - 3);
        gpud_fail_native(&error, GPUD_IO, "test", 1, "%s", many);
        ends_whole("gpud_fail_native", error.reason, GPUD_REASON_MAX - 3);
        gpud_fail_errno(&error, "%s", many);
        ends_whole("gpud_fail_errno", error.reason, GPUD_REASON_MAX - 4);
        gpud_log_init(&log, keep, NULL, GPUD_LOG_INFO);
        gpud_log_info(&log, "test", "%s", many);
        ends_whole("gpud_log_info", logged, GPUD_REASON_MAX);

        /* An address that is quoted. */
        char path[GPUD_SOCKET_PATH_MAX];
        CHECK(gpud_socket_resolve(many, path, &error) == GPUD_INVALID, "an address of euros");
        ends_whole("an address", error.reason, 64);
    }
    char one[1];
    gpud_print(one, "%s", "\xc3\xb6");
    CHECK_EQUAL(one[0], 0);
    CHECK_EQUAL(gpud_print_n(NULL, 0, "%s", "\xc3\xb6"), 2);
    return 0;
}
