/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirect-info finds out, and the two ways in which it says it.
 *
 *     main.c      options
 *     collect.c   devices, the routes between them, capture nodes
 *     links.c     the ways from one GPU into another's memory
 *     measure.c   and how fast they are
 *     layer.c     the software DirectGMA layer: where it lies, whether it is loaded, whom it helps
 *     text.c      for people
 *     json.c      for programs
 *     channels.c  something else: the channels of this user (channels.h) */
#ifndef GPUD_TOOLS_INFO_H
#define GPUD_TOOLS_INFO_H

#include <gpudirect/gpudirect.h>

#include <glib.h>

#define INFO_DEVICES_MAX 64
#define INFO_ROUTES_MAX 16
#define INFO_MODES_MAX 256

/* The routes from one device to another, best first. */
struct info_ways {
    struct gpud_route_info route[INFO_ROUTES_MAX];
    size_t count;
    size_t taken; /* index of the one that would be taken; == count: none */
};

struct info_pair {
    const struct gpud_device_info *from, *to;
    enum gpud_distance distance;
    struct info_ways between, within; /* two processes; one process */
};

/* Where a device is. */
struct info_place {
    int numa_node;                  /* -1: unknown, or everywhere */
    char cpus[256];                 /* "0-15": those next to it; "": the same */
    enum gpud_distance host;        /* from the host's memory */
    struct gpud_card_info card[32]; /* only for a device on a bus */
    size_t cards;
};

/* From one GPU to another. */
struct info_link {
    const struct gpud_device_info *from, *to;
    struct gpud_device_link link;
    enum gpud_distance distance; /* of the buses, which NVLink does not take */
    double measured;             /* bytes per second; NAN: it was not */
};

struct info_capture {
    char node[32]; /* "/dev/video0" */
    bool opened;
    char reason[GPUD_REASON_MAX]; /* if not */
    char card[64], driver[32];
    struct gpud_capture_mode mode[INFO_MODES_MAX];
    size_t modes;
};

struct info_layer {
    char *path;       /* NULL: not found */
    char *loaded;     /* the path of the one in this process; NULL: none */
    GPtrArray *helps; /* names of devices, borrowed */
    char *hint;       /* a line for the shell; NULL where it would help nobody, or is loaded */
};

struct info_report {
    struct gpud_device_info device[INFO_DEVICES_MAX];
    struct info_place place[INFO_DEVICES_MAX];
    size_t devices;
    GArray *pairs;                        /* struct info_pair */
    GArray *links;                        /* struct info_link; empty where there are not two GPUs */
    char measure_reason[GPUD_REASON_MAX]; /* why nothing was measured; "": it was, or nobody asked
                                             for it */
    GArray *captures;                     /* struct info_capture */
    struct info_layer layer;
};

enum gpud_status info_collect(struct info_report *report, bool measure, struct gpud_error *error);
void info_free(struct info_report *report);

/* open: those devices of the report that are, NULL for the others. */
void info_collect_links(struct info_report *report, struct gpud_device *const *open);
void info_print_links(const struct info_report *report, int names);
const struct info_link *info_find_link(const struct info_report *report,
                                       const struct gpud_device_info *from,
                                       const struct gpud_device_info *to);

/* Whether it goes past the buses. */
bool info_is_nvlink(const struct info_link *link);

/* What it is made of, as in "nvlink NV18" or "pcie PHB"; NULL: nobody knows. To be freed. */
char *info_link_path(const struct info_link *link);

/* Neither the host nor an OpenCL device that is the processor. */
bool info_is_on_bus(const struct gpud_device_info *device);

/* Copies over every link between two CUDA devices for a second in all. */
void info_measure_links(struct info_report *report);

/* Prints text from column `at` on, where the cursor is already, and wraps it there. */
void info_print_wrapped(const char *text, int at);

/* After the devices were looked at: the OpenCL loader loads layers when it is first asked. */
void info_find_layer(struct info_report *report);

/* Whether the two choices differ in the route or in a reason. */
bool info_ways_differ(const struct info_ways *a, const struct info_ways *b);

void info_print_text(const struct info_report *report);
void info_print_json(const struct info_report *report);

const char *info_distance_name(enum gpud_distance distance);

#endif
