/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The model on a terminal. */
#include "monitor/monitor.h"

#include <glib-unix.h>
#include <inttypes.h>
#include <math.h>
#include <ncurses.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EVENT_ROWS 6 /* below the channels */

enum look { PLAIN, STRONG, FAINT, WARNING, BAD };

struct line {
    enum look look;
    char *text;
};

struct monitor_tui {
    struct monitor_model *model;
    void (*quit)(void *user);
    void *user;
    SCREEN *screen;
    guint input;
    int top;     /* first line that is shown */
    bool events; /* these alone */
};

/* --- lines ----------------------------------------------------------------------------------- */

static void line_free(gpointer data)
{
    struct line *line = data;
    g_free(line->text);
    g_free(line);
}

static void tui_add(GPtrArray *lines, enum look look, const char *format, ...) G_GNUC_PRINTF(3, 4);
static void tui_add(GPtrArray *lines, enum look look, const char *format, ...)
{
    struct line *line = g_new0(struct line, 1);
    va_list args;
    va_start(args, format);
    line->look = look;
    line->text = g_strdup_vprintf(format, args);
    va_end(args);
    g_ptr_array_add(lines, line);
}

static const char *describe_time(char text[24], double seconds)
{
    if (isnan(seconds))
        return "unknown";
    if (isinf(seconds))
        return "> 500 ms";
    if (seconds < 1e-3)
        g_snprintf(text, 24, "%.3g µs", seconds * 1e6);
    else if (seconds < 1)
        g_snprintf(text, 24, "%.3g ms", seconds * 1e3);
    else
        g_snprintf(text, 24, "%.3g s", seconds);
    return text;
}

static const char *describe_rate(char text[24], double rate)
{
    g_snprintf(text, 24, "%.4g", isnan(rate) ? 0 : rate);
    return text;
}

static void tui_add_receiver(GPtrArray *lines, const struct monitor_receiver *receiver)
{
    const struct gpud_link_info *info = &receiver->info;
    const struct monitor_figures *figures = &receiver->figures;
    char rate[24], lost[24], p50[24], p99[24], max[24];
    double longest = info->stats.latency_max_ns ? (double)info->stats.latency_max_ns / 1e9 : NAN;
    if (receiver->is_own)
        return;
    tui_add(lines, figures->dropped_hz > 0 || info->degraded ? WARNING : PLAIN,
            "  → %s #%" PRIu64 " (process %" PRId64 "%s%s): %s to %s, %s/s, %s/s lost",
            info->name[0] ? info->name : "a process", info->id, info->pid,
            info->host[0] ? " on " : "", info->host, info->path, info->device,
            describe_rate(rate, figures->rate_hz), describe_rate(lost, figures->dropped_hz));
    tui_add(lines, FAINT, "      latency p50 ≤ %s, p99 ≤ %s, max %s; holds %u",
            describe_time(p50, figures->latency_p50_s), describe_time(p99, figures->latency_p99_s),
            describe_time(max, longest), info->held);
    tui_add(lines, FAINT,
            "      lost %" PRIu64 ": no slot %" PRIu64 ", replaced %" PRIu64 ", failed %" PRIu64
            ", new format %" PRIu64 "; copies CPU %" PRIu64 ", GPU %" PRIu64 "; waits %" PRIu64,
            info->dropped, info->dropped_newest, info->dropped_oldest, info->dropped_failed,
            info->dropped_format, info->stats.copies_cpu, info->stats.copies_gpu,
            info->stats.waits_cpu + info->stats.waits_device);
    if (info->encrypted[0])
        tui_add(lines, FAINT, "      encrypted: %s", info->encrypted);
    if (info->degraded)
        tui_add(lines, WARNING, "      worse than the devices allow (%s), because %s",
                channels_degraded_name(info->degraded), info->fallback_reason);
    else if (info->fallback_reason[0])
        tui_add(lines, FAINT, "      not better, because %s", info->fallback_reason);
}

static const char *describe_clock(char text[24], gint64 time)
{
    time_t seconds = time / G_USEC_PER_SEC;
    struct tm local;
    strftime(text, 24, "%H:%M:%S", localtime_r(&seconds, &local));
    return text;
}

static void tui_add_channel(GPtrArray *lines, const struct monitor_channel *channel)
{
    static const enum look looks[] = {[MONITOR_OFF] = FAINT,
                                      [MONITOR_GOOD] = STRONG,
                                      [MONITOR_WARNING] = WARNING,
                                      [MONITOR_BAD] = BAD};
    const struct gpud_channel_info *info = &channel->info;
    enum look look = looks[channel->severity];
    const char *expected = channel->expected ? "; it is expected" : "";
    char rate[24], clock[24];
    if (channel->presence == MONITOR_GONE_SINCE) {
        tui_add(lines, look, "%s  %s  gone since %s: %s%s", info->address, channel->state,
                describe_clock(clock, channel->absent_since), info->reason, expected);
    } else if (channel->presence == MONITOR_NEVER) {
        tui_add(lines, look, "%s  %s%s", info->address, channel->state, expected);
    } else if (!info->answered) {
        tui_add(lines, look, "%s  %s: %s%s", info->address, channel->state,
                info->receiver_pid ? "" : "the sender ", info->reason);
    } else {
        char *name = monitor_name(info->name, info->program);
        tui_add(lines, look, "%s  %s  %s/s  %s  on %s", info->address, channel->state,
                describe_rate(rate, info->rate), channel->brief, info->device);
        tui_add(lines, FAINT, "  of %s, process %" PRId64 ", copies CPU %" PRIu64 ", GPU %" PRIu64,
                name, info->pid, info->copies_cpu, info->copies_gpu);
        g_free(name);
    }
    for (guint i = 0; i < channel->receivers->len; i++)
        tui_add_receiver(lines, channel->receivers->pdata[i]);
    for (guint i = 0; i < channel->waiting->len; i++) {
        const struct channels_waiter *waiter = channel->waiting->pdata[i];
        describe_clock(clock, waiter->since);
        if (waiter->pid)
            tui_add(lines, WARNING, "  → %s (process %" PRId64 ") waits since %s", waiter->name,
                    waiter->pid, clock);
        else
            tui_add(lines, WARNING, "  → %s (in another container) waits since %s", waiter->name,
                    clock);
    }
}

static void add_event(GPtrArray *lines, const struct monitor_event *event)
{
    static const char *const bad[] = {"loss", "silent", "gone", "missing", "waiting", NULL};
    char clock[24];
    tui_add(lines, g_strv_contains(bad, event->kind) ? WARNING : PLAIN, "%s  %-10s  %s: %s",
            describe_clock(clock, event->time), event->kind, event->channel, event->text);
}

static GPtrArray *list(const struct monitor_tui *tui)
{
    const struct monitor_model *model = tui->model;
    GPtrArray *lines = g_ptr_array_new_with_free_func(line_free);
    if (tui->events) {
        for (const GList *link = model->events.tail; link; link = link->prev)
            add_event(lines, link->data);
        return lines;
    }
    for (guint i = 0; i < model->notes->len; i++)
        tui_add(lines, WARNING, "%s", (const char *)model->notes->pdata[i]);
    for (guint i = 0; i < model->channels->len; i++)
        tui_add_channel(lines, model->channels->pdata[i]);
    if (model->channels->len == 0)
        tui_add(lines, PLAIN, model->updated ? "No channel is sent here." : "Asking…");
    return lines;
}

/* --- drawing --------------------------------------------------------------------------------- */

static attr_t attributes(enum look look)
{
    switch (look) {
    case STRONG:
        return A_BOLD;
    case FAINT:
        return A_DIM;
    case WARNING:
        return has_colors() ? (attr_t)COLOR_PAIR(1) : A_BOLD;
    case BAD:
        return (has_colors() ? (attr_t)COLOR_PAIR(2) : 0) | A_BOLD;
    default:
        return A_NORMAL;
    }
}

static int width_of(gunichar one)
{
    return g_unichar_iszerowidth(one) ? 0 : g_unichar_iswide(one) ? 2 : 1;
}

/* Peers' words are part of the text: what is not printable becomes "?". To be freed with g_free().
 */
static gunichar *tui_clean(const char *text, int *width)
{
    GArray *clean = g_array_new(TRUE, FALSE, sizeof(gunichar));
    *width = 0;
    for (const char *c = text; *c; c = g_utf8_next_char(c)) {
        gunichar one = g_utf8_get_char_validated(c, -1);
        if (one == (gunichar)-1 || one == (gunichar)-2)
            break;
        if (!g_unichar_isprint(one) || g_unichar_type(one) == G_UNICODE_FORMAT)
            one = '?';
        *width += width_of(one);
        g_array_append_val(clean, one);
    }
    return (gunichar *)g_array_free(clean, FALSE);
}

/* What does not fit ends in "…". */
static void tui_put(int row, enum look look, const char *text)
{
    int width, room = COLS;
    gunichar *all = tui_clean(text, &width);
    bool is_cut = width > room;
    attrset(attributes(look));
    move(row, 0);
    clrtoeol();
    room -= is_cut;
    for (const gunichar *one = all; *one && (room -= width_of(*one)) >= 0; one++)
        addnwstr(&(wchar_t){(wchar_t)*one}, 1);
    if (is_cut)
        addwstr(L"\u2026");
    attrset(A_NORMAL);
    g_free(all);
}

/* As many rows as that, of the lines from `at` on, which it frees. */
static void put_lines(int row, int rows, GPtrArray *lines, int at)
{
    for (int i = 0; i < rows; i++, at++) {
        const struct line *line = at < (int)lines->len ? lines->pdata[at] : NULL;
        tui_put(row + i, line ? line->look : PLAIN, line ? line->text : "");
    }
    g_ptr_array_unref(lines);
}

void monitor_tui_draw(struct monitor_tui *tui)
{
    GPtrArray *lines = list(tui);
    int event_rows = tui->events || LINES < 3 * EVENT_ROWS ? 0 : EVENT_ROWS;
    int rows = MAX(LINES - 3 - (event_rows ? event_rows + 1 : 0), 1);
    tui->top = CLAMP(tui->top, 0, MAX((int)lines->len - rows, 0));
    guint receivers = 0, there = 0, troubles = 0;
    for (guint i = 0; i < tui->model->channels->len; i++) {
        const struct monitor_channel *channel = tui->model->channels->pdata[i];
        there += channel->presence == MONITOR_THERE;
        troubles += channel->severity >= MONITOR_WARNING;
        for (guint j = 0; j < channel->receivers->len; j++)
            receivers += !((struct monitor_receiver *)channel->receivers->pdata[j])->is_own;
    }
    char *title = g_strdup_printf("gpudirect-monitor on %s: %u channel%s, %u receiver%s, "
                                  "%u trouble%s",
                                  g_get_host_name(), there, there == 1 ? "" : "s", receivers,
                                  receivers == 1 ? "" : "s", troubles, troubles == 1 ? "" : "s");
    tui_put(0, troubles ? BAD : STRONG, title);
    g_free(title);
    tui_put(1, PLAIN, "");
    put_lines(2, rows, lines, tui->top);
    if (event_rows) {
        lines = g_ptr_array_new_with_free_func(line_free);
        const GList *link = tui->model->events.tail;
        for (int i = 0; i < event_rows && link; i++, link = link->prev)
            add_event(lines, link->data);
        tui_put(2 + rows, STRONG, "Events, newest first");
        put_lines(3 + rows, event_rows, lines, 0);
    }
    tui_put(LINES - 1, FAINT,
            tui->events ? "q quit   e channels   ↑ ↓ PgUp PgDn scroll"
                        : "q quit   e events   d dismiss gone   ↑ ↓ PgUp PgDn scroll");
    refresh();
}

/* --- keys ------------------------------------------------------------------------------------ */

static gboolean read_keys(gint fd, GIOCondition condition, gpointer user)
{
    struct monitor_tui *tui = user;
    int key;
    while ((key = getch()) != ERR) {
        if (key == 'q')
            tui->quit(tui->user);
        if (key == 'e')
            tui->events = !tui->events, tui->top = 0;
        if (key == 'd')
            monitor_model_dismiss(tui->model, NULL);
        if (key == '\f') /* Ctrl-L: something else wrote on the terminal */
            clearok(curscr, TRUE);
        if (key == KEY_UP)
            tui->top--;
        if (key == KEY_DOWN)
            tui->top++;
        if (key == KEY_PPAGE)
            tui->top -= LINES / 2;
        if (key == KEY_NPAGE)
            tui->top += LINES / 2;
    }
    if (condition & (G_IO_HUP | G_IO_ERR)) {
        tui->quit(tui->user);
        tui->input = 0;
        return G_SOURCE_REMOVE;
    }
    monitor_tui_draw(tui);
    return G_SOURCE_CONTINUE;
}

struct monitor_tui *monitor_tui_new(struct monitor_model *model, void (*quit)(void *user),
                                    void *user)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return NULL;
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (!screen)
        return NULL;
    struct monitor_tui *tui = g_new0(struct monitor_tui, 1);
    tui->model = model;
    tui->quit = quit;
    tui->user = user;
    tui->screen = screen;
    cbreak();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    curs_set(0);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(1, COLOR_YELLOW, -1);
        init_pair(2, COLOR_RED, -1);
    }
    tui->input = g_unix_fd_add(STDIN_FILENO, G_IO_IN | G_IO_HUP | G_IO_ERR, read_keys, tui);
    monitor_tui_draw(tui);
    return tui;
}

void monitor_tui_free(struct monitor_tui *tui)
{
    if (tui->input)
        g_source_remove(tui->input);
    endwin();
    delscreen(tui->screen);
    g_free(tui);
}
