/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of amdkfd: values that are read are within bounds, independent of the text's address, and
 * from its lines; a refusal has a reason, and changes nothing. */
#include "fuzz.h"
#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>

static void check_why(const char why[GPUD_REASON_MAX])
{
    if (strlen(why) < 10 || strlen(why) >= GPUD_REASON_MAX)
        abort();
}

static void check_node(const char *text, size_t size)
{
    struct gpud_kfd_node node = {.number = 7}, same = node;
    char why[GPUD_REASON_MAX] = "";
    if (!gpud_kfd_parse_node(text, size, &node, why)) {
        check_why(why);
        if (memcmp(&node, &same, sizeof(node)) != 0)
            abort();
        return;
    }
    /* A place on the bus is one by which the node is found again. */
    struct gpud_kfd kfd = {.nodes = &node, .node_count = 1};
    if (node.number != 7 || node.gpu != (node.pci[0] != '\0') || node.visible || node.hidden ||
        (node.gpu && gpud_kfd_find(&kfd, node.pci) != &node))
        abort();
}

static void check_link(const char *text, size_t size)
{
    struct gpud_kfd_link link = {.peer = true}, same = link;
    char why[GPUD_REASON_MAX] = "";
    if (!gpud_kfd_parse_link(text, size, &link, why)) {
        check_why(why);
        if (memcmp(&link, &same, sizeof(link)) != 0)
            abort();
        return;
    }
    struct gpud_kfd_node nodes[] = {
        {.number = link.from, .gpu = true, .pci = "0000:01:00.0"},
        {.number = link.to, .gpu = true, .pci = "0000:02:00.0"},
    };
    struct gpud_kfd kfd = {
        .nodes = nodes, .node_count = 2, .links = &link, .link_count = 1, .configured = -1};
    struct gpud_kfd_reach there, back;
    gpud_kfd_explain(&kfd, nodes[0].pci, nodes[1].pci, &there);
    gpud_kfd_explain(&kfd, nodes[1].pci, nodes[0].pci, &back);
    bool usable = link.flags & GPUD_KFD_ENABLED && !(link.flags & GPUD_KFD_NO_PEER_DMA);
    if (link.from == link.to || there.direct != usable || back.direct ||
        there.direct == (there.reason[0] != '\0') || !back.reason[0] || there.bandwidth < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > GPUD_KFD_FILE_MAX)
        return 0;
    char *text = malloc(size ? size : 1); /* exactly, for the sanitizer */
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    check_node(text, size);
    check_link(text, size);
    struct gpud_kfd_node node = {.visible = UINT64_MAX - 5};
    char why[GPUD_REASON_MAX] = "";
    if (!gpud_kfd_parse_bank(text, size, &node, why))
        check_why(why);
    if (node.visible < UINT64_MAX - 5) /* it wrapped */
        abort();
    free(text);
    return 0;
}
