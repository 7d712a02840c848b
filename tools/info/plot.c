/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --plot: what --topology shows, as a picture. */
#include "info.h"

#include <gio/gio.h>
#include <string.h>

/* === plot ==================================================================================== */
/* clang-format off */
/* The machine as a picture in graphviz's language:
 *
 *     processors         of each NUMA node, joined with each other
 *     PCIe roots         host bridges
 *     PCIe switches      bridges that several cards share; others are left out
 *     cards              GPUs, network cards, capture cards
 *     NVLink, xGMI       between GPUs: one node if it joins each with each
 *     a table            of the routes, with the reasons against better ones */
/* clang-format on */

#define FONT "DejaVu Sans"
#define DEVICES_MAX 12 /* of the table: more would be unreadable */
#define REASONS_MAX 6
#define REASON_COLUMNS 110

struct plot {
    const struct info_report *report;
    GString *text;
    GHashTable *drawn; /* names of bridges that have a node already */
};

static void put(struct plot *plot, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void put(struct plot *plot, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_string_append_vprintf(plot->text, format, args);
    va_end(args);
}

static char *escape(const char *text)
{
    return g_markup_escape_text(text, -1);
}

/* --- bridges ---------------------------------------------------------------------------------- */

static bool is_root(const char *bridge)
{
    return g_str_has_prefix(bridge, "pci");
}

/* Whether the ways to several cards go on below a bridge. Functions of one card count as one. */
static bool is_shared(const struct plot *plot, const char *bridge)
{
    char *first = NULL;
    bool shared = false;
    for (size_t i = 0; i < plot->report->machine.parts && !shared; i++) {
        const struct gpud_part_info *part = plot->report->machine.part[i];
        char **bridges = g_strsplit(part->bridges, " ", -1);
        char *next = NULL; /* the next bridge, or the card */
        for (char **each = bridges; *each && !next; each++)
            if (strcmp(*each, bridge) == 0)
                next = each[1] ? g_strdup(each[1]) : g_strndup(part->pci, strcspn(part->pci, "."));
        g_strfreev(bridges);
        shared = next && first && strcmp(next, first) != 0;
        if (!first)
            first = g_steal_pointer(&next);
        g_free(next);
    }
    g_free(first);
    return shared;
}

/* Draws the bridges above a part, and returns the name of the last. */
static char *draw_bridges(struct plot *plot, const struct gpud_part_info *part)
{
    char **bridges = g_strsplit(part->bridges, " ", -1);
    char *above = g_strdup_printf("node%d", part->numa_node);
    for (char **each = bridges; *each; each++) {
        if (!**each || (!is_root(*each) && !is_shared(plot, *each)))
            continue;
        if (!g_hash_table_contains(plot->drawn, *each)) {
            g_hash_table_add(plot->drawn, g_strdup(*each));
            put(plot, "  \"%s\" [label=\"%s\\n%s\", fillcolor=\"#eef1f4\", fontsize=10];\n", *each,
                is_root(*each) ? "PCIe root" : "PCIe switch",
                is_root(*each) ? *each + strlen("pci") : *each);
            put(plot, "  \"%s\" -- \"%s\";\n", above, *each);
        }
        g_free(above);
        above = g_strdup(*each);
    }
    g_strfreev(bridges);
    return above;
}

/* --- the nearest GPUs ------------------------------------------------------------------------- */

/* How near a link of this name is; lower is nearer. */
static size_t plot_rank_of(const char *name)
{
    static const char *const order[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
    size_t rank = 0;
    while (rank < G_N_ELEMENTS(order) && strcmp(name, order[rank]) != 0)
        rank++;
    return rank;
}

/* The GPUs nearest to a card, as in "nearest: cuda:0 (PIX)"; NULL: none. To be freed with
 * g_free(). */
static char *find_nearest(const struct plot *plot, size_t card)
{
    const struct info_report *report = plot->report;
    const char *best = "?";
    size_t nearest = report->machine.parts, equals = 0;
    for (size_t i = 0; i < report->machine.parts; i++) {
        const char *name = info_part_link(report, card, i)->name;
        if (report->machine.part[i]->kind != GPUD_PART_GPU ||
            plot_rank_of(name) > plot_rank_of(best))
            continue;
        bool equal = nearest < report->machine.parts && plot_rank_of(name) == plot_rank_of(best);
        equals = equal ? equals + 1 : 0;
        if (equal)
            continue;
        best = name;
        nearest = i;
    }
    if (nearest == report->machine.parts || strcmp(best, "?") == 0)
        return NULL;
    const char *name = info_part_name(report->machine.part[nearest]);
    return equals ? g_strdup_printf("nearest: %s, %zu more (%s)", name, equals, best)
                  : g_strdup_printf("nearest: %s (%s)", name, best);
}

/* --- parts ------------------------------------------------------------------------------------ */

static const char *color_of(const struct gpud_part_info *part)
{
    switch (part->kind) {
    case GPUD_PART_NETWORK:
        return "#e4dcf5";
    case GPUD_PART_CAPTURE:
        return "#fff3c4";
    default:
        return "#cfe8fc";
    }
}

static void append_line(GString *text, const char *line)
{
    char *escaped = escape(line);
    g_string_append_printf(text, "<br/><font point-size=\"9\">%s</font>", escaped);
    g_free(escaped);
}

/* Whether a GPU is not used by any of this library's devices. */
static bool plot_is_idle(const struct gpud_part_info *part)
{
    return part->kind == GPUD_PART_GPU && strcmp(part->name, part->pci) == 0;
}

static void draw_part(struct plot *plot, size_t index)
{
    const struct gpud_part_info *part = plot->report->machine.part[index];
    char *above = draw_bridges(plot, part), *name = escape(info_part_name(part));
    /* As much of a vendor's name as fits into a box. */
    char *valid = g_utf8_make_valid(part->description, -1);
    glong length = g_utf8_strlen(valid, -1);
    char *start = g_utf8_substring(valid, 0, length > 26 ? 25 : length);
    char *what = g_strconcat(start, length > 26 ? "…" : NULL, NULL);
    GString *label = g_string_new(NULL);
    g_string_printf(label, "<b>%s</b>", name);
    if (part->others[0])
        append_line(label, part->others);
    if (what[0])
        append_line(label, what);
    if (strcmp(part->name, part->pci) != 0)
        append_line(label,
                    g_str_has_prefix(part->pci, "0000:") ? part->pci + strlen("0000:") : part->pci);
    if (part->memory) {
        char *memory = part->memory > part->visible
                           ? g_strdup_printf("%.0f GB, %.2f on the bus", (double)part->memory / 1e9,
                                             (double)part->visible / 1e9)
                           : g_strdup_printf("%.0f GB", (double)part->memory / 1e9);
        append_line(label, memory);
        g_free(memory);
    }
    if (plot_is_idle(part))
        append_line(label, "no device here");
    char *nearest = part->kind == GPUD_PART_GPU ? NULL : find_nearest(plot, index);
    if (nearest)
        append_line(label, nearest);
    g_free(nearest);
    put(plot, "  \"%s\" [label=<%s>, fillcolor=\"%s\"%s];\n", part->pci, label->str, color_of(part),
        plot_is_idle(part) ? ", style=\"filled,rounded,dashed\"" : "");
    put(plot, "  \"%s\" -- \"%s\";\n", above, part->pci);
    g_string_free(label, TRUE);
    g_free(what);
    g_free(start);
    g_free(valid);
    g_free(name);
    g_free(above);
}

/* --- processors ------------------------------------------------------------------------------- */

static void draw_node(struct plot *plot, int number, const char *label)
{
    put(plot,
        "subgraph \"cluster%d\" {\n  color=\"#c5ccd3\"; style=rounded; margin=12;\n"
        "  \"node%d\" [label=<%s>, fillcolor=\"#ffffff\", penwidth=1.5];\n",
        number, number, label);
    for (size_t i = 0; i < plot->report->machine.parts; i++)
        if (plot->report->machine.part[i]->numa_node == number)
            draw_part(plot, i);
    put(plot, "}\n");
}

static void draw_nodes(struct plot *plot)
{
    const struct info_report *report = plot->report;
    bool homeless = false;
    for (size_t i = 0; i < report->machine.parts; i++)
        homeless |= report->machine.part[i]->numa_node == -1;
    for (size_t i = 0; i < report->machine.nodes; i++) {
        char *label =
            g_strdup_printf("<b>NUMA node %d</b><br/><font point-size=\"9\">CPUs %s</font><br/>"
                            "<font point-size=\"9\">%.0f GB</font>",
                            report->machine.node[i]->number, report->machine.node[i]->cpus,
                            (double)report->machine.node[i]->memory / 1e9);
        draw_node(plot, report->machine.node[i]->number, label);
        g_free(label);
    }
    if (homeless)
        draw_node(plot, -1, "place unknown");
    for (size_t i = 1; i < report->machine.nodes; i++)
        put(plot,
            "\"node%d\" -- \"node%d\" [constraint=false, penwidth=2, "
            "color=\"#57606a\"];\n",
            report->machine.node[i - 1]->number, report->machine.node[i]->number);
}

/* --- links between GPUs ----------------------------------------------------------------------- */

static bool is_joined(const struct plot *plot, size_t from, size_t to, const char *name)
{
    return strcmp(info_part_link(plot->report, from, to)->name, name) == 0;
}

#define LINK_COLOR "#0a7d33"

/* All GPUs that links of one name join with the first, and with each other. */
static void draw_group(struct plot *plot, size_t first, const struct gpud_device_link *link,
                       bool *done)
{
    size_t count = plot->report->machine.parts, size = 0;
    size_t *member = g_new0(size_t, count);
    member[size++] = first;
    for (size_t i = first + 1; i < count; i++) {
        bool each = true;
        for (size_t k = 0; k < size; k++)
            each = each && !done[member[k] * count + i] &&
                   is_joined(plot, member[k], i, link->name) &&
                   is_joined(plot, i, member[k], link->name);
        if (each)
            member[size++] = i;
    }
    if (size > 1) {
        /* In the box of its NUMA node, if it has only one. */
        int node = plot->report->machine.part[first]->numa_node;
        bool apart = false;
        for (size_t i = 1; i < size; i++)
            apart |= plot->report->machine.part[member[i]]->numa_node != node;
        char *place = apart ? g_strdup("groups") : g_strdup_printf("cluster%d", node);
        GString *text = g_string_new(link->name);
        if (link->bandwidth > 0)
            g_string_append_printf(text, ", %.0f GB/s", link->bandwidth / 1e9);
        put(plot,
            "subgraph \"%s\" {\n"
            "\"link%zu %s\" [label=\"%s%s\", shape=hexagon, "
            "fillcolor=\"#d7f5dd\", color=\"" LINK_COLOR "\", fontsize=10];\n}\n",
            place, first, link->name, text->str, size > 2 ? "\\neach with each" : "");
        g_string_free(text, TRUE);
        g_free(place);
    }
    for (size_t i = 0; i < size && size > 1; i++) {
        put(plot, "\"%s\" -- \"link%zu %s\" [color=\"" LINK_COLOR "\", penwidth=3];\n",
            plot->report->machine.part[member[i]]->pci, first, link->name);
        for (size_t k = 0; k < size; k++)
            done[member[i] * count + member[k]] = true;
    }
    g_free(member);
}

/* --- routes ----------------------------------------------------------------------------------- */

static void append_reason(GString *text, const struct info_objection *one)
{
    GString *line = g_string_new(NULL);
    g_string_printf(line, "%s to %s", one->from, one->to);
    if (one->pairs > 1)
        g_string_append_printf(line, " and %u more", one->pairs - 1);
    g_string_append_printf(line, ", not %s: %s", one->route, one->reason);
    char **words = g_strsplit(line->str, " ", -1);
    glong column = 0;
    for (char **word = words; *word; word++) {
        char *valid = g_utf8_make_valid(*word, -1), *escaped = escape(valid);
        bool wrap = column + g_utf8_strlen(valid, -1) > REASON_COLUMNS;
        g_string_append_printf(text, "%s%s",
                               wrap     ? "<br align=\"left\"/>    "
                               : column ? " "
                                        : "",
                               escaped);
        column = (wrap ? 4 : column + 1) + g_utf8_strlen(valid, -1);
        g_free(escaped);
        g_free(valid);
    }
    g_string_append(text, "<br align=\"left\"/>");
    g_strfreev(words);
    g_string_free(line, TRUE);
}

static void append_table(struct plot *plot, size_t available)
{
    const struct info_report *report = plot->report;
    put(plot,
        "<table border=\"0\" cellborder=\"1\" cellspacing=\"0\" "
        "cellpadding=\"4\" color=\"#c5ccd3\"><tr><td border=\"0\" "
        "colspan=\"%zu\" align=\"left\">Routes of frames between two "
        "processes, from the left to the top</td></tr><tr><td></td>",
        available + 1);
    for (size_t i = 0; i < report->devices; i++)
        if (report->device[i].available)
            put(plot, "<td><b>%s</b></td>", report->device[i].name);
    put(plot, "</tr>");
    for (size_t from = 0; from < report->devices; from++) {
        if (!report->device[from].available)
            continue;
        put(plot, "<tr><td align=\"left\"><b>%s</b></td>", report->device[from].name);
        for (size_t to = 0; to < report->devices; to++) {
            const struct info_pair *pair = info_find_pair(report, from, to);
            if (!report->device[to].available)
                continue;
            const char *route = pair ? info_chosen_route(&pair->between) : "none";
            const char *color = g_str_has_prefix(route, "staged") ? "#fde2c8"
                                : strcmp(route, "none") == 0      ? "#f8d0d0"
                                                                  : "#d7f5dd";
            put(plot, "<td bgcolor=\"%s\">%s</td>", color, route);
        }
        put(plot, "</tr>");
    }
    GArray *objections = info_collect_objections(plot->report);
    if (objections->len > 0)
        put(plot,
            "<tr><td colspan=\"%zu\" align=\"left\" balign=\"left\" "
            "border=\"0\"><font point-size=\"9\">",
            available + 1);
    for (guint i = 0; i < objections->len && i < REASONS_MAX; i++)
        append_reason(plot->text, &g_array_index(objections, struct info_objection, i));
    if (objections->len > REASONS_MAX)
        put(plot, "gpudirect-info --topology says the rest<br align=\"left\"/>");
    if (objections->len > 0)
        put(plot, "</font></td></tr>");
    g_array_unref(objections);
    put(plot, "</table>");
}

/* The meaning of the colours, and the routes. */
static void append_label(struct plot *plot)
{
    size_t available = 0;
    for (size_t i = 0; i < plot->report->devices; i++)
        available += plot->report->device[i].available;
    put(plot,
        "label=<<table border=\"0\" cellspacing=\"4\"><tr><td align=\"left\"><table border=\"0\" "
        "cellspacing=\"0\" cellpadding=\"4\"><tr><td bgcolor=\"%s\">GPU</td><td "
        "bgcolor=\"%s\">network card</td><td bgcolor=\"%s\">capture card</td><td "
        "bgcolor=\"#d7f5dd\">NVLink, xGMI</td></tr></table></td></tr><tr><td align=\"left\">",
        color_of(&(struct gpud_part_info){.kind = GPUD_PART_GPU}),
        color_of(&(struct gpud_part_info){.kind = GPUD_PART_NETWORK}),
        color_of(&(struct gpud_part_info){.kind = GPUD_PART_CAPTURE}));
    if (available > DEVICES_MAX)
        put(plot, "%zu devices: gpudirect-info --topology has the routes between them", available);
    else
        append_table(plot, available);
    put(plot, "</td></tr></table>>;\n");
}

/* To be freed with g_free(). */
static char *describe_plot(const struct info_report *report)
{
    struct plot plot = {.report = report, .text = g_string_new("graph machine {\n")};
    plot.drawn = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_string_append(
        plot.text, "graph [fontname=\"" FONT "\", fontsize=11, labelloc=b, labeljust=l, "
                   "ranksep=0.4, nodesep=0.2, margin=0, pad=0.15, bgcolor=white];\n"
                   "node [fontname=\"" FONT "\", fontsize=11, shape=box, style=\"filled,rounded\", "
                   "color=\"#57606a\", margin=\"0.14,0.08\"];\n"
                   "edge [fontname=\"" FONT "\", color=\"#8c959f\", penwidth=1.2];\n");
    draw_nodes(&plot);
    size_t count = report->machine.parts;
    bool *done = g_new0(bool, count *count + 1);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            const struct gpud_device_link *link = info_part_link(report, i, j);
            if (info_is_gpu_link(link->name) && !done[i * count + j])
                draw_group(&plot, i, link, done);
        }
    }
    g_free(done);
    append_label(&plot); /* last: earlier nodes would get its label too */
    g_string_append(plot.text, "}\n");
    g_hash_table_destroy(plot.drawn);
    return g_string_free(plot.text, FALSE);
}

/* === draw ==================================================================================== */
/* Lets graphviz draw a picture. */

#define DEADLINE_S 60

const char *info_plot_format(const char *file)
{
    static const char *const formats[] = {"svg", "png"};
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot && i < G_N_ELEMENTS(formats); i++)
        if (g_ascii_strcasecmp(dot + 1, formats[i]) == 0)
            return formats[i];
    return NULL;
}

static enum gpud_status draw_refuse(struct gpud_error *error, enum gpud_status status,
                                    const char *text, const char *detail)
{
    *error = (struct gpud_error){.status = status};
    g_snprintf(error->reason, sizeof(error->reason), "%s%s", text, detail);
    return status;
}

struct run {
    GMainLoop *loop;
    GSubprocess *dot;
    char *complaint; /* its standard error */
    GError *failed;
    bool late;
};

static void draw_end(GObject *source, GAsyncResult *result, gpointer user)
{
    struct run *run = user;
    g_subprocess_communicate_utf8_finish(run->dot, result, NULL, &run->complaint, &run->failed);
    g_main_loop_quit(run->loop);
}

static gboolean draw_stop(gpointer user)
{
    struct run *run = user;
    run->late = true;
    g_subprocess_force_exit(run->dot);
    return G_SOURCE_REMOVE;
}

enum gpud_status info_draw_plot(const struct info_report *report, const char *file,
                                struct gpud_error *error)
{
    char *format = g_strdup_printf("-T%s", info_plot_format(file));
    const char *const command[] = {"dot", format, "-o", file, NULL};
    GError *failed = NULL;
    struct run run = {
        .dot = g_subprocess_newv(
            command, G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE, &failed)};
    g_free(format);
    if (!run.dot) {
        bool missing = g_error_matches(failed, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT);
        draw_refuse(error, missing ? GPUD_UNSUPPORTED : GPUD_IO,
                    missing ? "pictures are drawn by graphviz, which is not installed (Debian: apt "
                              "install graphviz); --topology prints the same as text"
                            : "cannot start dot: ",
                    missing ? "" : failed->message);
        g_error_free(failed);
        return error->status;
    }
    char *description = describe_plot(report);
    run.loop = g_main_loop_new(NULL, FALSE);
    guint watchdog = g_timeout_add_seconds(DEADLINE_S, draw_stop, &run);
    g_subprocess_communicate_utf8_async(run.dot, description, NULL, draw_end, &run);
    g_main_loop_run(run.loop);
    if (!run.late)
        g_source_remove(watchdog);
    enum gpud_status status = GPUD_OK;
    if (run.late)
        status = draw_refuse(error, GPUD_TIMEOUT, "dot did not finish within a minute", "");
    else if (run.failed)
        status = draw_refuse(error, GPUD_IO, "cannot write to dot: ", run.failed->message);
    else if (!g_subprocess_get_successful(run.dot))
        status = draw_refuse(error, GPUD_IO, "dot failed: ",
                             run.complaint && run.complaint[0] ? g_strchomp(run.complaint)
                                                               : "without a message");
    g_main_loop_unref(run.loop);
    g_object_unref(run.dot);
    g_clear_error(&run.failed);
    g_free(run.complaint);
    g_free(description);
    return status;
}
