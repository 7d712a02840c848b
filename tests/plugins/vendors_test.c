/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of vendors of GPUs: each entry is whole, none is taken for another, and caps and numbers
 * go by the list alone. Needs no GPU and no driver. */
#include "base/plugin.h"
#include "ends.h"
#include "memory/memory.h"

#include <gpudirect/device.h>

TEST(test_entries_are_whole)
{
    for (guint i = 0; gpu_vendors[i]; i++) {
        const struct gpu_vendor *vendor = gpu_vendors[i];
        const struct slot_kind *kind = vendor->slot_kind;
        fail_unless(vendor->feature && vendor->prefix && vendor->context_type);
        fail_unless(vendor->memory && vendor->maker && vendor->driver && vendor->upload &&
                    vendor->download);
        fail_unless(g_str_has_suffix(vendor->prefix, ":"));
        fail_unless(vendor->is_available && vendor->wrap_context && vendor->read_context &&
                    vendor->get_ordinal && vendor->answer_query && vendor->get_stride_align &&
                    vendor->get_pool_type && vendor->pool_name && vendor->init_pool &&
                    vendor->configure_pool && vendor->map_flag && vendor->look_into &&
                    vendor->get_stream && vendor->set_pending && vendor->await_writes &&
                    vendor->enter && vendor->leave && vendor->finish && vendor->copy_rows);
        fail_unless(kind && kind->get_allocator_type && kind->init_allocator && kind->new_memory &&
                    kind->arrived && kind->leaving);
        for (guint k = 0; k < i; k++)
            fail_if(g_str_equal(vendor->feature, gpu_vendors[k]->feature) ||
                    g_str_equal(vendor->prefix, gpu_vendors[k]->prefix) ||
                    g_str_equal(vendor->context_type, gpu_vendors[k]->context_type));
    }
}

TEST(test_numbers)
{
    static const gchar *const others[] = {"host",  "auto",      "opencl:0", "",
                                          "none:", "opencl:-1", NULL};
    GHashTable *numbers = g_hash_table_new(NULL, NULL);

    for (guint i = 0; gpu_vendors[i]; i++) {
        g_autofree gchar *many = g_strdup_printf("%s64", gpu_vendors[i]->prefix);
        for (gint ordinal = 0; ordinal < 64; ordinal++) {
            g_autofree gchar *name = g_strdup_printf("%s%d", gpu_vendors[i]->prefix, ordinal);
            gint number = gpu_of_name(name);
            g_autofree gchar *back = gpu_get_name(number);
            fail_unless(g_hash_table_add(numbers, GINT_TO_POINTER(number)), "%s", name);
            fail_unless(gpu_get_vendor(number) == gpu_vendors[i]);
            fail_unless_equals_string(back, name);
        }
        fail_unless_equals_int(gpu_of_name(many), -1);
        fail_unless_equals_int(gpu_of_name(gpu_vendors[i]->prefix), -1);
    }
    for (guint i = 0; others[i]; i++)
        fail_unless_equals_int(gpu_of_name(others[i]), -1);
    fail_unless_equals_int(gpu_of_name(NULL), -1);
    fail_unless(gpu_get_vendor(-1) == NULL);
    g_hash_table_unref(numbers);
}

TEST(test_caps)
{
    GstCaps *all = gpu_template_caps();
    guint plain = gst_caps_get_size(all), count = 0;

    for (; gpu_vendors[count]; count++) {
        g_autoptr(GstCapsFeatures) features =
            gst_caps_features_new(gpu_vendors[count]->feature, NULL);
        g_autoptr(GstCaps) caps =
            gst_caps_from_string("video/x-raw,format=NV12,width=16,height=16");
        g_autoptr(GstCaps) on_gpu = gpu_caps_in_memory(caps, gpu_vendors[count]);
        fail_unless(gpu_vendor_of_caps(caps) == NULL);
        fail_unless(gpu_vendor_of_caps(on_gpu) == gpu_vendors[count]);
        fail_unless(gst_caps_can_intersect(on_gpu, all));
        fail_unless(gst_caps_features_is_equal(gst_caps_get_features(on_gpu, 0), features));
        g_autoptr(GstCaps) sorted = gpu_put_first(gst_caps_ref(all), gpu_vendors[count]);
        fail_unless(gpu_vendor_of_caps(sorted) == gpu_vendors[count]);
        fail_unless_equals_int(gst_caps_get_size(sorted), gst_caps_get_size(all));
    }
    g_autoptr(GstCaps) none = gpu_filter_caps(all, GPU_USE_NONE, -1);
    /* Each of them has two, of which the first is of the formats in everyday use. */
    fail_unless_equals_int(gst_caps_get_size(none), plain - 2 * count);
    fail_unless(gpu_vendor_of_caps(NULL) == NULL);
}

static GstMemory *no_memory(struct slot_store *store, struct gpud_frame *frame,
                            const struct gpud_layout *layout, const struct video_planes *planes)
{
    return NULL;
}

static void note_end(void *user)
{
    *(gboolean *)user = TRUE;
}

/* A vendor's library has no memory left for a slot: the frame is released, not counted as held. */
TEST(test_no_memory)
{
    struct slot_kind kind = plain_slot_kind;
    struct gpud_device *device;
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    struct gpud_layout layout;
    struct gpud_error error;
    gboolean ended = FALSE;
    GstVideoInfo info;

    gpud_gst_context_init();
    kind.new_memory = no_memory;
    fail_unless(gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 64, 16));
    fail_unless(layout_from_info(&layout, &info));
    g_autofree guint8 *bytes = g_malloc0((gsize)layout.size);
    fail_unless_equals_int(gpud_device_open(gpud_gst_context_get(NULL), "host", &device, &error),
                           GPUD_OK);
    fail_unless_equals_int(
        gpud_memory_wrap(device, bytes, layout.size, note_end, &ended, &memory, &error), GPUD_OK);
    fail_unless_equals_int(gpud_frame_wrap(memory, 0, &layout, &frame, &error), GPUD_OK);
    gpud_memory_unref(&memory);
    struct slot_store_params params = {
        .kind = &kind, .info = &info, .outstanding = outstanding_new(), .counters = counters_new()};
    struct slot_store *store = slot_store_new(&params);
    fail_unless(slot_store_wrap(store, frame) == NULL);
    fail_unless_equals_int(outstanding_count(params.outstanding), 0);
    fail_unless(ended, "the frame is still held");
    slot_store_close(store);
    slot_store_unref(store);
    outstanding_unref(params.outstanding);
    counters_unref(params.counters);
    gpud_device_close(&device);
}

ENDS_MAIN(60)
