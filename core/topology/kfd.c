/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The topology that AMD's kernel driver (KFD) tells in sysfs. */
#include "topology/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

/* === kfd_parse =============================================================================== */
/* Parses the "key number" lines of amdkfd's files. */

/* Not strtoull(): it accepts blanks, signs and other bases, and the text is not terminated. */
static bool kfd_parse_read_number(const char *text, size_t size, uint64_t max, uint64_t *value)
{
    uint64_t number = 0;
    if (size == 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    }
    if (number > max)
        return false;
    *value = number;
    return true;
}

/* The number behind a key, once, on a line of its own. false: the key is missing, or its value is
 * not a number up to `max`. */
static bool find_value(const char *text, size_t size, const char *key, uint64_t max,
                       uint64_t *value)
{
    size_t length = strlen(key);
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        size_t rest = end ? (size_t)(end - line) : size - at;
        at += rest + 1;
        if (end && rest > length && line[length] == ' ' && memcmp(line, key, length) == 0)
            return kfd_parse_read_number(line + length + 1, rest - length - 1, max, value);
    }
    return false; /* a line without a newline was cut, perhaps inside the number */
}

/* Where the number behind a key goes: into one of the two. */
struct field {
    const char *key;
    uint32_t *to;
    uint64_t *large;
    bool needed;
};

/* Optional fields are 0 where they are missing. */
static bool read_fields(const char *text, size_t size, const struct field *fields, size_t count,
                        char why[GPUD_REASON_MAX])
{
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        uint64_t value = 0, max = field->large ? UINT64_MAX : UINT32_MAX;
        if (!find_value(text, size, field->key, max, &value) && field->needed) {
            gpud_print_n(why, GPUD_REASON_MAX, "it has no line \"%s\" with a number up to %llu",
                         field->key, (unsigned long long)max);
            return false;
        }
        if (field->large)
            *field->large = value;
        else
            *field->to = (uint32_t)value;
    }
    return true;
}

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

bool gpud_kfd_parse_node(const char *text, size_t size, struct gpud_kfd_node *node,
                         char why[GPUD_REASON_MAX])
{
    struct gpud_kfd_node made = *node;
    uint32_t simds;
    const struct field fields[] = {
        {"simd_count", &simds, .needed = true},
        {"vendor_id", &made.vendor},
        {"device_id", &made.device},
        {"location_id", &made.location},
        {"domain", &made.domain},
        {"drm_render_minor", &made.render_minor},
        {"gfx_target_version", &made.gfx},
        {"hive_id", .large = &made.hive},
    };
    if (!read_fields(text, size, fields, COUNT(fields), why))
        return false;
    /* An old APU is processors and a GPU in one node, without a PCI address. */
    made.gpu = simds > 0 && made.location > 0;
    if (made.gpu && (made.location > 0xffff || made.domain > 0xfffffff)) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "its location_id %llu in domain %llu is not a PCI address",
                     (unsigned long long)made.location, (unsigned long long)made.domain);
        return false;
    }
    if (made.gpu)
        gpud_print(made.pci, "%04x:%02x:%02x.%x", made.domain, made.location >> 8,
                   made.location >> 3 & 0x1f, made.location & 7);
    *node = made;
    return true;
}

bool gpud_kfd_parse_link(const char *text, size_t size, struct gpud_kfd_link *link,
                         char why[GPUD_REASON_MAX])
{
    struct gpud_kfd_link made = *link;
    const struct field fields[] = {
        {"type", &made.type, .needed = true},   {"node_from", &made.from, .needed = true},
        {"node_to", &made.to, .needed = true},  {"weight", &made.weight},
        {"min_bandwidth", &made.min_bandwidth}, {"max_bandwidth", &made.max_bandwidth},
        {"flags", &made.flags, .needed = true},
    };
    if (!read_fields(text, size, fields, COUNT(fields), why))
        return false;
    if (made.from == made.to) {
        gpud_print_n(why, GPUD_REASON_MAX, "it leads from node %u to itself", made.to);
        return false;
    }
    *link = made;
    return true;
}

#define HEAP_VISIBLE 1
#define HEAP_PRIVATE 2

bool gpud_kfd_parse_bank(const char *text, size_t size, struct gpud_kfd_node *node,
                         char why[GPUD_REASON_MAX])
{
    uint32_t heap;
    uint64_t bytes;
    const struct field fields[] = {
        {"heap_type", &heap, .needed = true},
        {"size_in_bytes", .large = &bytes, .needed = true},
    };
    if (!read_fields(text, size, fields, COUNT(fields), why))
        return false;
    uint64_t *sum = heap == HEAP_VISIBLE   ? &node->visible
                    : heap == HEAP_PRIVATE ? &node->hidden
                                           : NULL;
    if (sum && __builtin_add_overflow(*sum, bytes, sum)) {
        *sum = UINT64_MAX;
        gpud_print_n(why, GPUD_REASON_MAX, "its memory is more than there can be");
        return false;
    }
    return true;
}

/* === kfd_read ================================================================================ */
/* Reads amdkfd's tree. */

#define NODES "/sys/class/kfd/kfd/topology/nodes"

/* --- files ------------------------------------------------------------------------------------ */

/* Reads a whole file. Returns 0 or errno. */
static int kfd_read_load(char text[GPUD_KFD_FILE_MAX], size_t *size, const char *file)
{
    char path[GPUD_SYSFS_PATH_MAX];
    gpud_sysfs_path(path, "%s", file);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    ssize_t got = 1;
    for (*size = 0; *size < GPUD_KFD_FILE_MAX && got > 0; *size += got > 0 ? (size_t)got : 0)
        got = read(fd, text + *size, GPUD_KFD_FILE_MAX - *size);
    int failed = got < 0 ? errno : 0;
    close(fd);
    return failed;
}

/* Only the first mistake is reported. */
static void ignore(struct gpud_kfd *kfd, const char *file, const char *why)
{
    if (!kfd->ignored[0])
        gpud_print(kfd->ignored, "%.200s is ignored: %.250s", file, why);
}

/* Calls `take` for the file "properties" in each numbered folder. true: there is such a folder. */
typedef void (*take_fn)(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *file,
                        const char *text, size_t size);

static bool read_each(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *what,
                      size_t max, take_fn take)
{
    char folder[GPUD_SYSFS_PATH_MAX / 2], text[GPUD_KFD_FILE_MAX];
    size_t count, size;
    gpud_print(folder, NODES "/%u/%s", node->number, what);
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "%s", folder);
    if (count > max) {
        ignore(kfd, folder, "there are more than a machine can have");
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        char file[GPUD_SYSFS_PATH_MAX];
        gpud_print(file, "%s/%s/properties", folder, names[i].text);
        int failed = kfd_read_load(text, &size, file);
        if (failed == EPERM || failed == EACCES)
            node->denied = true;
        else if (failed)
            ignore(kfd, file, strerror(failed));
        else
            take(kfd, node, file, text, size);
    }
    free(names);
    char path[GPUD_SYSFS_PATH_MAX];
    gpud_sysfs_path(path, "%s", folder);
    return access(path, F_OK) == 0;
}

/* --- records ---------------------------------------------------------------------------------- */

static void take_bank(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *file,
                      const char *text, size_t size)
{
    char why[GPUD_REASON_MAX];
    if (!gpud_kfd_parse_bank(text, size, node, why))
        ignore(kfd, file, why);
}

static void take_link(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *file,
                      const char *text, size_t size)
{
    char why[GPUD_REASON_MAX];
    struct gpud_kfd_link link = {.peer = strstr(file, "/p2p_links/") != NULL};
    if (!gpud_kfd_parse_link(text, size, &link, why)) {
        ignore(kfd, file, why);
        return;
    }
    if (link.from != node->number) {
        ignore(kfd, file, "it is a link from another node than the one that it stands at");
        return;
    }
    struct gpud_kfd_link *more = reallocarray(kfd->links, kfd->link_count + 1, sizeof(*kfd->links));
    if (!more) {
        ignore(kfd, file, "out of memory");
        return;
    }
    kfd->links = more;
    kfd->links[kfd->link_count++] = link;
}

/* false: the node does not exist, as far as this process can see. */
static bool read_node(struct gpud_kfd *kfd, struct gpud_kfd_node *node)
{
    char file[64], text[GPUD_KFD_FILE_MAX], why[GPUD_REASON_MAX];
    size_t size;
    gpud_print(file, NODES "/%u/properties", node->number);
    int failed = kfd_read_load(text, &size, file);
    if (failed == EPERM || failed == EACCES) {
        node->denied = true;
        return true;
    }
    if (failed || !gpud_kfd_parse_node(text, size, node, why)) {
        ignore(kfd, file, failed ? strerror(failed) : why);
        return false;
    }
    read_each(kfd, node, "mem_banks", GPUD_KFD_BANKS_MAX, take_bank);
    read_each(kfd, node, "io_links", GPUD_KFD_LINKS_MAX, take_link);
    if (read_each(kfd, node, "p2p_links", GPUD_KFD_LINKS_MAX, take_link))
        kfd->has_peer_links = true;
    node->denied = false; /* only what a link leads to may be hidden */
    return true;
}

/* --- the kernel's configuration --------------------------------------------------------------- */

/* AMD's packaged amdgpu has a version of its own, and its configuration is not visible. */
static int read_configured(void)
{
    char version[64], path[GPUD_SYSFS_PATH_MAX], line[256];
    struct utsname name;
    if (gpud_sysfs_read(version, sizeof(version), "/sys/module/amdgpu/version") || uname(&name) < 0)
        return -1;
    gpud_sysfs_path(path, "/boot/config-%s", name.release);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    int configured = 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "CONFIG_HSA_AMD_P2P=y", 20) == 0)
            configured = 1;
    fclose(file);
    return configured;
}

/* --- the whole tree --------------------------------------------------------------------------- */

enum gpud_status gpud_kfd_read(struct gpud_kfd *kfd, struct gpud_error *error)
{
    size_t count;
    char off[8];
    *kfd = (struct gpud_kfd){.configured = -1};
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, NODES);
    if (count == 0)
        return GPUD_OK;
    kfd->nodes = calloc(GPUD_KFD_NODES_MAX + 1, sizeof(*kfd->nodes));
    if (!kfd->nodes) {
        free(names);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for the nodes of " NODES);
    }
    for (size_t i = 0; i < count; i++) {
        struct gpud_kfd_node *node = &kfd->nodes[kfd->node_count];
        char *end;
        *node = (struct gpud_kfd_node){.number = (uint32_t)strtoul(names[i].text, &end, 10)};
        if (names[i].text[0] < '0' || names[i].text[0] > '9' || *end || strlen(names[i].text) >= 10)
            continue;
        if (kfd->node_count == GPUD_KFD_NODES_MAX) {
            ignore(kfd, NODES, "nodes beyond 256 are not read");
            break;
        }
        if (read_node(kfd, node)) {
            kfd->denied += node->denied;
            kfd->node_count++;
        }
    }
    free(names);
    kfd->peer_off = gpud_sysfs_read(off, sizeof(off), "/sys/module/amdgpu/parameters/pcie_p2p") &&
                    (off[0] == 'N' || off[0] == '0');
    kfd->configured = read_configured();
    return GPUD_OK;
}

void gpud_kfd_clear(struct gpud_kfd *kfd)
{
    free(kfd->nodes);
    free(kfd->links);
    *kfd = (struct gpud_kfd){.configured = -1};
}

static struct gpud_kfd machine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_machine(void)
{
    gpud_kfd_read(&machine, NULL); /* on failure it has no nodes */
}

const struct gpud_kfd *gpud_kfd_get(void)
{
    pthread_once(&once, read_machine);
    return &machine;
}

const struct gpud_kfd_node *gpud_kfd_find(const struct gpud_kfd *kfd, const char *pci)
{
    const char *function = strrchr(pci, '.');
    const struct gpud_kfd_node *found = NULL;
    for (size_t i = 0; function && i < kfd->node_count; i++) {
        const struct gpud_kfd_node *node = &kfd->nodes[i];
        size_t card = (size_t)(function - pci) + 1;
        if (!node->gpu || strncasecmp(node->pci, pci, card) != 0)
            continue;
        if (strcasecmp(node->pci, pci) == 0)
            return node;
        if (!found)
            found = node;
    }
    return found;
}

/* === kfd_reach =============================================================================== */
/* Whether one AMD GPU reaches the memory of another, and what prevents it. The rules are those of
 * amdgpu_device_is_peer_accessible() and kfd_add_peer_prop() in Linux 6.1. The kernel lists a link
 * from one GPU to another if the first may write the second's memory, which the bus has to show
 * whole. */

#define WEIGHT_OF_HOP 15

static const struct gpud_kfd_node *find_number(const struct gpud_kfd *kfd, uint32_t number)
{
    for (size_t i = 0; i < kfd->node_count; i++)
        if (kfd->nodes[i].number == number)
            return &kfd->nodes[i];
    return NULL;
}

static bool is_usable(const struct gpud_kfd_link *link)
{
    return link->flags & GPUD_KFD_ENABLED && !(link->flags & GPUD_KFD_NO_PEER_DMA);
}

/* Of several links a usable one, then one of xGMI, then the nearest. */
static const struct gpud_kfd_link *find_link(const struct gpud_kfd *kfd, uint32_t from, uint32_t to)
{
    const struct gpud_kfd_link *best = NULL;
    for (size_t i = 0; i < kfd->link_count; i++) {
        const struct gpud_kfd_link *link = &kfd->links[i];
        if (link->from != from || link->to != to)
            continue;
        bool xgmi = link->type == GPUD_KFD_XGMI, better = !best;
        if (best && is_usable(link) != is_usable(best))
            better = is_usable(link);
        else if (best && xgmi != (best->type == GPUD_KFD_XGMI))
            better = xgmi;
        else if (best)
            better = link->weight < best->weight;
        if (better)
            best = link;
    }
    return best;
}

/* Whether the kernel lists PCIe links between any two GPUs. */
static bool has_gpu_peers(const struct gpud_kfd *kfd)
{
    for (size_t i = 0; i < kfd->link_count; i++) {
        const struct gpud_kfd_link *link = &kfd->links[i];
        const struct gpud_kfd_node *from = find_number(kfd, link->from);
        const struct gpud_kfd_node *to = find_number(kfd, link->to);
        if (link->peer && from && from->gpu && to && to->gpu)
            return true;
    }
    return false;
}

#define GIB(bytes) ((double)(bytes) / (1 << 30))

/* Explains a missing link by the first cause that is certain. */
static void explain_absence(const struct gpud_kfd *kfd, const struct gpud_kfd_node *from,
                            const struct gpud_kfd_node *to, char why[GPUD_REASON_MAX])
{
    if (kfd->peer_off)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "amdgpu was loaded with pcie_p2p=0: remove that from the kernel's command "
                     "line or from /etc/modprobe.d, and restart");
    else if (!kfd->has_peer_links)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the kernel is too old to let AMD GPUs write each other's memory over PCIe: "
                     "Linux 6.0 with CONFIG_HSA_AMD_P2P, or AMD's own amdgpu driver, does");
    else if (kfd->configured == 0)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the kernel is built without CONFIG_HSA_AMD_P2P: install one with it (it "
                     "needs PCI_P2PDMA, too), or AMD's own amdgpu driver");
    else if (to->hidden > 0)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the bus shows only %.2f GiB of the %.2f GiB of memory of %s (no large BAR): "
                     "switch Resizable BAR and Above 4G Decoding on in the firmware's setup",
                     GIB(to->visible), GIB(to->visible) + GIB(to->hidden), to->pci);
    else if (kfd->configured < 0 && !has_gpu_peers(kfd))
        gpud_print_n(
            why, GPUD_REASON_MAX,
            "the kernel lists no PCIe link between any two GPUs: most likely its amdgpu "
            "is built without CONFIG_HSA_AMD_P2P (grep P2P /boot/config-$(uname -r)); else "
            "boot with iommu=pt");
    else if (find_link(kfd, to->number, from->number))
        gpud_print_n(why, GPUD_REASON_MAX,
                     "only the other direction is possible: the memory of %s lies beyond what %s "
                     "can address, or the bus redirects its writes (iommu=pt, ACS off)",
                     to->pci, from->pci);
    else
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the kernel lets nothing pass between %s and %s: they are behind no common "
                     "PCIe switch, and the processor's root complex is not known to pass peers' "
                     "writes: put both cards behind one switch, and boot with iommu=pt",
                     from->pci, to->pci);
}

void gpud_kfd_explain(const struct gpud_kfd *kfd, const char *from, const char *to,
                      struct gpud_kfd_reach *reach)
{
    const struct gpud_kfd_node *a = gpud_kfd_find(kfd, from), *b = gpud_kfd_find(kfd, to);
    *reach = (struct gpud_kfd_reach){.known = a && b};
    if (!reach->known && kfd->denied) {
        /* A GPU that this process may not see has no address here. */
        reach->known = true;
        gpud_print(reach->reason,
                   "the kernel shows this process nothing of %zu of its compute nodes, among them "
                   "most likely %s: give the container or service its devices (docker --device "
                   "/dev/kfd --device /dev/dri, DeviceAllow=)",
                   kfd->denied, a ? to : from);
        return;
    }
    if (!reach->known) {
        gpud_print(reach->reason,
                   "amdkfd knows no GPU at %s: amdgpu does not drive it, or it cannot compute",
                   a ? to : from);
        return;
    }
    if (a == b) {
        reach->direct = reach->atomics = true;
        return;
    }
    const struct gpud_kfd_link *link = reach->link = find_link(kfd, a->number, b->number);
    if (!link) {
        explain_absence(kfd, a, b, reach->reason);
        return;
    }
    reach->direct = is_usable(link);
    if (link->type == GPUD_KFD_XGMI)
        reach->hops = (link->weight + WEIGHT_OF_HOP - 1) / WEIGHT_OF_HOP;
    reach->bandwidth = link->max_bandwidth * 1e6;
    reach->atomics =
        reach->direct && !(link->flags & (GPUD_KFD_NO_ATOMICS_32 | GPUD_KFD_NO_ATOMICS_64));
    if (!(link->flags & GPUD_KFD_ENABLED))
        gpud_print(reach->reason,
                   "the kernel shows the link from %s to %s as disabled: dmesg says why amdgpu "
                   "has shut it",
                   from, to);
    else if (!reach->direct)
        gpud_print(reach->reason,
                   "the link from %s to %s forbids peer-to-peer DMA (NO_PEER_TO_PEER_DMA, set by "
                   "the firmware or amdgpu): a newer firmware may allow it; else frames go through "
                   "the host",
                   from, to);
}

/* The best rate of its links to processors, which are those to the nearest. */
uint32_t gpud_kfd_host_rate(const struct gpud_kfd *kfd, const char *pci)
{
    const struct gpud_kfd_node *node = gpud_kfd_find(kfd, pci);
    uint32_t rate = 0;
    for (size_t i = 0; node && i < kfd->link_count; i++) {
        const struct gpud_kfd_link *link = &kfd->links[i];
        const struct gpud_kfd_node *to = find_number(kfd, link->to);
        if (link->from == node->number && to && !to->gpu && link->flags & GPUD_KFD_ENABLED &&
            link->max_bandwidth > rate)
            rate = link->max_bandwidth;
    }
    return rate;
}
