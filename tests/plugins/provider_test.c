/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Capture cards in a device monitor, on a simulated machine: their properties, how they appear and
 * disappear, and that each is listed once if the user wants that. The core's list of cards and the
 * folder of nodes are made here; the kernel's events are real. */
#include "base/plugin.h"
#include "pipes.h"
#include "provider.h"
#include "src/src.h"

#include <gpudirect/cards.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DEADLINE (30 * GST_SECOND)

/* What the linker puts in place of others has no header. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* --- the machine -------------------------------------------------------------------------- */

static gchar *nodes;     /* instead of /dev */
static gint cards_width; /* atomic: of the mode that the cards have */

struct gpud_capture_card_list {
    GPtrArray *names;
    struct gpud_capture_mode mode;
    const struct gpud_capture_mode *modes;
};

static const struct gpud_capture_card_path cuda_path = {
    .device = "cuda:0", .direct = true, .path = "v4l2-dmabuf"};
static const struct gpud_capture_card_path opencl_path = {
    .device = "opencl:0", .path = "v4l2-mmap", .reason = "it has no dma-buf"};
static const struct gpud_capture_card_path *const card_paths[] = {&cuda_path, &opencl_path};

static gchar *in_nodes(const gchar *name)
{
    return g_build_filename(nodes, name, NULL);
}

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    return __real_inotify_add_watch(fd, strcmp(path, "/dev") == 0 ? nodes : path, mask);
}

enum gpud_status __wrap_gpud_capture_card_list_create(struct gpud_context *context,
                                                      struct gpud_capture_card_list **cards,
                                                      uint32_t *count, struct gpud_error *error)
{
    g_autoptr(GDir) folder = g_dir_open(nodes, 0, NULL);
    const gchar *name;

    *cards = g_new0(struct gpud_capture_card_list, 1);
    (*cards)->names = g_ptr_array_new_with_free_func(g_free);
    while ((name = g_dir_read_name(folder)))
        if (g_str_has_prefix(name, "video"))
            g_ptr_array_add((*cards)->names, g_strdup(name));
    guint width = (guint)g_atomic_int_get(&cards_width);
    (*cards)->mode = (struct gpud_capture_mode){
        .size = sizeof((*cards)->mode),
        .format = "UYVY",
        .width_min = width,
        .width_max = width,
        .height_min = 16,
        .height_max = 16,
        .fps_num = 50,
        .fps_den = 1,
        .scan = GPUD_SCAN_PROGRESSIVE,
    };
    (*cards)->modes = &(*cards)->mode;
    *count = (*cards)->names->len;
    return GPUD_OK;
}

void __wrap_gpud_capture_card_list_destroy(struct gpud_capture_card_list **cards)
{
    g_ptr_array_unref((*cards)->names);
    g_free(*cards);
}

/* One that its user may not open yet has no access for others either. */
enum gpud_status __wrap_gpud_capture_card_list_get_info(const struct gpud_capture_card_list *cards,
                                                        uint32_t index,
                                                        struct gpud_capture_card_info *info,
                                                        struct gpud_error *error)
{
    const gchar *name = cards->names->pdata[index];
    g_autofree gchar *path = in_nodes(name);
    GStatBuf st;

    g_snprintf(info->address, sizeof(info->address), "v4l2:///dev/%s", name);
    info->usable = g_stat(path, &st) == 0 && st.st_mode & 0060;
    g_strlcpy(info->reason, info->usable ? "" : "no permission", sizeof(info->reason));
    g_strlcpy(info->card, "a card", sizeof(info->card));
    g_strlcpy(info->driver, "fake", sizeof(info->driver));
    g_strlcpy(info->bus, "pci", sizeof(info->bus));
    info->signal = true;
    info->modes = 1;
    info->mode = &cards->modes;
    info->paths = G_N_ELEMENTS(card_paths);
    info->path = card_paths;
    return GPUD_OK;
}

static void plug(const gchar *name, gint mode)
{
    g_autofree gchar *path = in_nodes(name);
    int fd = g_creat(path, mode);

    fail_unless(fd >= 0);
    close(fd);
}

static void unplug(const gchar *name)
{
    g_autofree gchar *path = in_nodes(name);

    fail_unless(g_unlink(path) == 0);
}

/* --- a monitor ---------------------------------------------------------------------------- */

static gboolean is_card(GstDevice *device, const gchar *node)
{
    g_autoptr(GstStructure) properties = gst_device_get_properties(device);
    g_autofree gchar *path = g_strconcat("/dev/", node, NULL);

    return properties && gst_structure_has_name(properties, "gpudirect-capture") &&
           g_strcmp0(gst_structure_get_string(properties, "device.path"), path) == 0;
}

/* How many devices are that card; the last of them in *found. */
static guint count(GstDeviceMonitor *monitor, const gchar *node, GstDevice **found)
{
    GList *devices = gst_device_monitor_get_devices(monitor);
    guint cards = 0;

    for (GList *at = devices; at; at = at->next) {
        if (!is_card(at->data, node))
            continue;
        cards++;
        if (found)
            gst_object_replace((GstObject **)found, at->data);
    }
    g_list_free_full(devices, gst_object_unref);
    return cards;
}

/* The next message about a device has to be of this type and about that card. A filter on the bus
 * would let others through, with bits in common: since 1.28 one about the monitor itself. */
static GstDevice *expect(GstDeviceMonitor *monitor, GstMessageType wanted, const gchar *node)
{
    g_autoptr(GstBus) bus = gst_device_monitor_get_bus(monitor);
    GstDevice *device = NULL;

    while (!device) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop(bus, DEADLINE);
        fail_unless(message, "no %s about %s", gst_message_type_get_name(wanted), node);
        GstMessageType type = GST_MESSAGE_TYPE(message);
        if (type == GST_MESSAGE_DEVICE_ADDED)
            gst_message_parse_device_added(message, &device);
        else if (type == GST_MESSAGE_DEVICE_REMOVED)
            gst_message_parse_device_removed(message, &device);
        else if (type == GST_MESSAGE_DEVICE_CHANGED)
            gst_message_parse_device_changed(message, &device, NULL);
        fail_unless(!device || type == wanted, "%s about %s", GST_MESSAGE_TYPE_NAME(message), node);
    }
    fail_unless(is_card(device, node), "about another one than %s", node);
    return device;
}

static void expect_device_caps(GstDevice *device, const gchar *text)
{
    g_autoptr(GstCaps) caps = gst_device_get_caps(device), wanted = gst_caps_from_string(text);

    fail_unless(gst_caps_is_equal(caps, wanted), "%" GST_PTR_FORMAT, caps);
}

#define CAPS(width) \
    "video/x-raw,format=UYVY,width=" #width ",height=16,framerate=50/1,interlace-mode=progressive"

TEST(test_card)
{
    plug("video3", 0660);
    GstDeviceMonitor *monitor = ends_monitor();
    g_autoptr(GstDevice) device = NULL;
    fail_unless_equals_int(count(monitor, "video3", &device), 1);
    expect_device_caps(device, CAPS(64));
    g_autoptr(GstStructure) properties = gst_device_get_properties(device);
    const GValue *paths = gst_structure_get_value(properties, "direct-path");
    fail_unless(paths && gst_value_array_get_size(paths) == 2);
    fail_unless_equals_string(g_value_get_string(gst_value_array_get_value(paths, 0)),
                              "cuda:0: yes (v4l2-dmabuf)");
    fail_unless_equals_string(g_value_get_string(gst_value_array_get_value(paths, 1)),
                              "opencl:0: no, by v4l2-mmap: it has no dma-buf");
    g_autofree gchar *name = gst_device_get_display_name(device);
    fail_unless_equals_string(name, "a card");

    g_autoptr(GstElement) element = gst_device_create_element(device, NULL);
    expect_text(element, "address", "v4l2:///dev/video3");
    ends_monitor_free(monitor);
    unplug("video3");
}

TEST(test_reconfigure)
{
    plug("video3", 0660);
    GstDeviceMonitor *monitor = ends_monitor();
    g_autoptr(GstDevice) device = NULL;
    g_autoptr(GstElement) element = gst_element_factory_make("gpudirectsrc", NULL);
    g_autoptr(GstElement) other = gst_element_factory_make("identity", NULL);
    fail_unless_equals_int(count(monitor, "video3", &device), 1);
    g_object_set(element, "address", "studio", NULL);
    fail_unless(gst_device_reconfigure_element(device, element));
    expect_text(element, "address", "v4l2:///dev/video3");

    /* One that runs keeps what it has. */
    g_autoptr(GstHarness) running = ends_src_at("studio", NULL);
    fail_if(gst_device_reconfigure_element(device, ends_element(running)));
    fail_if(gst_device_reconfigure_element(device, other));
    ends_monitor_free(monitor);
    unplug("video3");
}

TEST(test_hotplug)
{
    g_autoptr(EndsMonitor) monitor = ends_monitor();

    for (guint i = 0; i < 20; i++) {
        fail_unless_equals_int(count(monitor, "video3", NULL), 0);
        plug("video3", 0660);
        g_autoptr(GstDevice) device = expect(monitor, GST_MESSAGE_DEVICE_ADDED, "video3");
        expect_device_caps(device, CAPS(64));
        fail_unless_equals_int(count(monitor, "video3", NULL), 1);
        unplug("video3");
        gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_REMOVED, "video3"));
    }
}

/* udev gives a node to its group after it was made. */
TEST(test_permission)
{
    g_autofree gchar *path = in_nodes("video5");
    g_autoptr(EndsMonitor) monitor = ends_monitor();

    plug("video5", 0);
    plug("video4", 0660); /* its events come after those of the other one */
    gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_ADDED, "video4"));
    fail_unless_equals_int(count(monitor, "video5", NULL), 0);
    fail_unless(g_chmod(path, 0660) == 0);
    gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_ADDED, "video5"));
    unplug("video4");
    gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_REMOVED, "video4"));
    unplug("video5");
    gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_REMOVED, "video5"));
}

/* What happens to one makes all be looked at, and nothing else in the folder does. */
TEST(test_others)
{
    plug("video3", 0660);
    GstDeviceMonitor *monitor = ends_monitor();
    gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_ADDED, "video3"));
    g_atomic_int_set(&cards_width, 128);
    plug("media0", 0660);
    plug("video-codec", 0660);
    unplug("video-codec");
    unplug("media0");
    plug("video4", 0660);
    g_autoptr(GstDevice) first = expect(monitor, GST_MESSAGE_DEVICE_CHANGED, "video3");
    expect_device_caps(first, CAPS(128));
    gst_object_unref(expect(monitor, GST_MESSAGE_DEVICE_ADDED, "video4"));
    g_atomic_int_set(&cards_width, 64);
    ends_monitor_free(monitor);
    unplug("video3");
    unplug("video4");
}

/* --- beside the provider of v4l2src ------------------------------------------------------- */

static GType other_get_type(void);
typedef GstDeviceProvider Other;
typedef GstDeviceProviderClass OtherClass;
G_DEFINE_TYPE(Other, other, GST_TYPE_DEVICE_PROVIDER)

static GList *other_probe(GstDeviceProvider *provider)
{
    g_autoptr(GstStructure) properties =
        gst_structure_new("other", "device.path", G_TYPE_STRING, "/dev/video3", NULL);
    g_autoptr(GstCaps) caps = gst_caps_new_any();

    return g_list_append(NULL, g_object_new(GST_TYPE_GPUDIRECT_DEVICE, "display-name", "other",
                                            "device-class", "Video/Source", "caps", caps,
                                            "properties", properties, NULL));
}

static void other_class_init(OtherClass *klass)
{
    klass->probe = other_probe;
    gst_device_provider_class_set_static_metadata(klass, "Other", "Source/Video", "Other", "test");
}

static void other_init(Other *self)
{
}

/* The card is listed twice, or once where ours has the higher rank. */
TEST(test_beside_the_other, .times = 2)
{
    GstRegistry *registry = gst_registry_get();
    g_autoptr(GstPluginFeature) other = gst_registry_lookup_feature(registry, "v4l2deviceprovider");
    g_autoptr(GstPluginFeature) own =
        gst_registry_lookup_feature(registry, "gpudirectdeviceprovider");

    /* Before the first monitor: GStreamer sorts providers once. */
    if (other)
        gst_registry_remove_feature(registry, other);
    fail_unless(gst_device_provider_register(NULL, "v4l2deviceprovider", GST_RANK_PRIMARY,
                                             other_get_type()));
    gst_plugin_feature_set_rank(own, __i__ ? GST_RANK_PRIMARY + 1 : GST_RANK_MARGINAL);
    plug("video3", 0660);
    g_autoptr(GstDeviceMonitor) monitor = gst_device_monitor_new();
    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    GList *devices = gst_device_monitor_get_devices(monitor);
    guint all = 0;
    for (GList *at = devices; at; at = at->next)
        all += GST_IS_GPUDIRECT_DEVICE(at->data); /* GStreamer may have providers for others */
    g_list_free_full(devices, gst_object_unref);
    fail_unless_equals_int(all, __i__ ? 1 : 2);
    unplug("video3");
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    nodes = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "dev", NULL);
    cards_width = 64;
    if (g_mkdir(nodes, 0700) < 0 || !GST_ELEMENT_REGISTER(gpudirectsrc, NULL) ||
        !GST_DEVICE_PROVIDER_REGISTER(gpudirectdeviceprovider, NULL))
        return 1;
    gpud_gst_context_init();
    int failed = ends_run_tests(60);
    g_rmdir(nodes);
    g_free(nodes);
    return failed;
}
