/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* What gpudirect-info finds out, and its reports as text and as JSON.
 *
 *     main.c      options; --channels, which needs none of these
 *     collect.c   devices, the routes and links between them, network and capture cards, the
 *                 software DirectGMA layer
 *     text.c      all of it as text; --topology: the buses, and their links
 *     plot.c      --plot: the same as a picture
 *     json.c      as JSON */
/* clang-format on */
#ifndef GPUD_TOOLS_INFO_H
#define GPUD_TOOLS_INFO_H

#include <gpudirect/gpudirect.h>

#include <glib.h>

#define INFO_DEVICES_MAX 64
#define INFO_ROUTES_MAX 16

/* The routes from one device to another, best first, and the chosen one. */
struct info_choice {
    struct gpud_route_info route[INFO_ROUTES_MAX];
    size_t count;
    size_t chosen; /* index of the chosen one; count: none is possible */
};

struct info_pair {
    const struct gpud_device_info *from, *to;
    enum gpud_distance distance;
    struct info_choice between, within; /* between two processes; within one */
};

/* A network or capture card, under one of its names. */
struct info_near {
    char name[64];
    const struct gpud_part_info *part;
    enum gpud_distance distance;
};

/* Where a device is in the machine. */
struct info_location {
    int numa_node;             /* -1: unknown, or everywhere */
    char cpus[256];            /* "0-15": those next to it; "": unknown, or all */
    enum gpud_distance host;   /* to the host's memory */
    struct info_near card[32]; /* of devices on a bus only */
    size_t cards;
};

/* From one GPU to another. */
struct info_link {
    const struct gpud_device_info *from, *to;
    struct gpud_device_link link;
    double measured; /* bytes per second; NAN: not measured */
};

/* What device=auto means for frames over a card, and why; "": the card is not on a bus. */
struct info_auto {
    char device[32];
    char reason[GPUD_REASON_MAX];
};

struct info_capture {
    struct gpud_capture_card_info info;
    struct info_auto nearest;
};

/* "/dev/video0" */
static inline const char *info_capture_node(const struct info_capture *capture)
{
    return capture->info.address + sizeof("v4l2://") - 1;
}

struct info_card {
    struct gpud_network_card_info info;
    enum gpud_distance distance[INFO_DEVICES_MAX]; /* to the device of that index */
    struct info_auto nearest;
};

/* Whether a ring in a device's memory can be exported as a dma-buf for a network card. */
struct info_export {
    bool dmabuf;
    char reason[GPUD_REASON_MAX]; /* why not */
};

struct info_network {
    struct gpud_network_card_list *list;
    struct gpud_network_host_info host;
    GArray *cards;                               /* struct info_card */
    struct info_export export[INFO_DEVICES_MAX]; /* by device, if it is on a bus */
};

struct info_layer {
    char *path;       /* NULL: not found; for free() */
    char *loaded;     /* the path of the loaded layer; NULL: not loaded */
    GPtrArray *helps; /* names of the devices that need it; they belong to the report */
    char *hint; /* a command line that loads it; NULL if no device needs it, or it is loaded */
};

struct info_report {
    struct gpud_device_info device[INFO_DEVICES_MAX];
    struct info_location location[INFO_DEVICES_MAX];
    size_t devices;
    GArray *pairs;                        /* struct info_pair */
    GArray *links;                        /* struct info_link; empty with fewer than two GPUs */
    char measure_reason[GPUD_REASON_MAX]; /* why nothing was measured; "": it was, or need not be */
    struct gpud_capture_card_list *cards;
    GArray *captures; /* struct info_capture, which lead into cards */
    struct info_network network;
    struct info_layer layer;
    struct gpud_topology *topology;
    struct gpud_topology_info machine; /* of topology */
};

/* --- collect.c ----------------------------------------------------------------------------- */

enum gpud_status info_collect(struct info_report *report, bool measure, struct gpud_error *error);
void info_free(struct info_report *report);

/* "phb": the name in `nvidia-smi topo -m`, in lower case. */
const char *info_distance_name(enum gpud_distance distance);

/* "gpu", "network", "capture" */
const char *info_kind_name(enum gpud_part_kind kind);

/* A part's short name: "cuda:0", "video0", "63:00.0". */
const char *info_part_name(const struct gpud_part_info *part);

/* The name of the chosen route, or "none". */
const char *info_chosen_route(const struct info_choice *choice);

/* Whether a link of this name joins GPUs (NVLink, xGMI), rather than PCI. */
bool info_is_gpu_link(const char *name);

/* What connects the two, as in "nvlink NV18" or "pcie PHB"; NULL: unknown. To be freed with
 * g_free(). */
char *info_link_path(const struct info_link *link);

/* Neither the host nor an OpenCL device that is the processor. */
bool info_is_on_bus(const struct gpud_device_info *device);

/* Whether links to and from a device are shown: it works, and is on a bus. */
bool info_has_location(const struct info_report *report, size_t device);

static inline const struct gpud_device_link *info_part_link(const struct info_report *report,
                                                            size_t from, size_t to)
{
    return report->machine.link[from * report->machine.parts + to];
}

/* NULL: none. */
const struct info_link *info_find_link(const struct info_report *report,
                                       const struct gpud_device_info *from,
                                       const struct gpud_device_info *to);

/* The pair of these devices, both open; NULL: none. */
const struct info_pair *info_find_pair(const struct info_report *report, size_t from, size_t to);

/* A reason, and how many pairs of different GPUs it concerns. */
struct info_objection {
    const char *from, *to; /* the first such pair */
    const char *route;     /* the better route that it is against; NULL: any access */
    const char *reason;
    char *shape; /* the reason without the two names, which is the same for other pairs */
    unsigned pairs;
};

/* Each reason once; struct info_objection, to be freed by the caller. Against better routes between
 * devices, and against access of parts to each other's memory. */
GArray *info_collect_objections(const struct info_report *report);
GArray *info_collect_gaps(const struct info_report *report);

/* --- text.c -------------------------------------------------------------------------------- */

void info_print_text(const struct info_report *report);
void info_print_topology(const struct info_report *report);

/* Prints text wrapped to start at column `at`, where the cursor already is. */
void info_print_wrapped(int at, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* --- json.c -------------------------------------------------------------------------------- */

void info_print_json(const struct info_report *report);

/* --- plot.c -------------------------------------------------------------------------------- */

/* "svg" or "png", by the file's name; NULL: another. */
const char *info_plot_format(const char *file);

/* GPUD_UNSUPPORTED: graphviz is not installed. */
enum gpud_status info_draw_plot(const struct info_report *report, const char *file,
                                struct gpud_error *error);

#endif
