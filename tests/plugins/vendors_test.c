/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of vendors of GPUs: each entry is whole, none is taken for another, and caps and numbers
 * go by the list alone. Needs no GPU and no driver. */
#include "ends.h"
#include "memory/gpu.h"

#include <string.h>

GST_START_TEST(test_entries_are_whole)
{
    for (guint i = 0; gpu_vendors[i]; i++) {
        const struct gpu_vendor *vendor = gpu_vendors[i];
        const struct slot_kind *kind = vendor->slot_kind;
        fail_unless(vendor->feature && vendor->prefix && vendor->context_type);
        fail_unless(vendor->memory && vendor->maker && vendor->driver && vendor->download);
        fail_unless(g_str_has_suffix(vendor->prefix, ":"));
        fail_unless(vendor->is_available && vendor->wrap_context && vendor->read_context &&
                    vendor->get_ordinal && vendor->answer_query && vendor->get_stride_align &&
                    vendor->new_pool && vendor->wrap_buffer && vendor->copy_picture);
        fail_unless(kind && kind->new_allocator && kind->new_memory && kind->arrived &&
                    kind->leaving);
        for (guint k = 0; k < i; k++)
            fail_if(g_str_equal(vendor->feature, gpu_vendors[k]->feature) ||
                    g_str_equal(vendor->prefix, gpu_vendors[k]->prefix) ||
                    g_str_equal(vendor->context_type, gpu_vendors[k]->context_type));
    }
}
GST_END_TEST

GST_START_TEST(test_numbers)
{
    static const gchar *const others[] = {"host",  "auto",      "opencl:0", "",
                                          "none:", "opencl:-1", NULL};
    GHashTable *numbers = g_hash_table_new(NULL, NULL);

    for (guint i = 0; gpu_vendors[i]; i++) {
        gchar *many = g_strdup_printf("%s64", gpu_vendors[i]->prefix);
        for (gint ordinal = 0; ordinal < 64; ordinal++) {
            gchar *name = g_strdup_printf("%s%d", gpu_vendors[i]->prefix, ordinal);
            gint number = gpu_of_name(name);
            gchar *back = gpu_get_name(number);
            fail_unless(g_hash_table_add(numbers, GINT_TO_POINTER(number)), "%s", name);
            fail_unless(gpu_get_vendor(number) == gpu_vendors[i]);
            fail_unless_equals_string(back, name);
            g_free(back);
            g_free(name);
        }
        fail_unless_equals_int(gpu_of_name(many), -1);
        fail_unless_equals_int(gpu_of_name(gpu_vendors[i]->prefix), -1);
        g_free(many);
    }
    for (guint i = 0; others[i]; i++)
        fail_unless_equals_int(gpu_of_name(others[i]), -1);
    fail_unless_equals_int(gpu_of_name(NULL), -1);
    fail_unless(gpu_get_vendor(-1) == NULL);
    g_hash_table_unref(numbers);
}
GST_END_TEST

GST_START_TEST(test_caps)
{
    GstCaps *all = gpu_template_caps();
    guint plain = gst_caps_get_size(all), count = 0;

    for (; gpu_vendors[count]; count++) {
        GstCapsFeatures *features = gst_caps_features_new(gpu_vendors[count]->feature, NULL);
        GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=16,height=16");
        GstCaps *on_gpu = gpu_caps_in_memory(caps, gpu_vendors[count]);
        fail_unless(gpu_vendor_of_caps(caps) == NULL);
        fail_unless(gpu_vendor_of_caps(on_gpu) == gpu_vendors[count]);
        fail_unless(gst_caps_can_intersect(on_gpu, all));
        fail_unless(gst_caps_features_is_equal(gst_caps_get_features(on_gpu, 0), features));
        GstCaps *sorted = gpu_put_first(gst_caps_ref(all), gpu_vendors[count]);
        fail_unless(gpu_vendor_of_caps(sorted) == gpu_vendors[count]);
        fail_unless_equals_int(gst_caps_get_size(sorted), gst_caps_get_size(all));
        gst_caps_unref(sorted);
        gst_caps_unref(on_gpu);
        gst_caps_unref(caps);
        gst_caps_features_free(features);
    }
    GstCaps *none = gpu_filter_caps(all, GPU_USE_NONE, -1);
    fail_unless_equals_int(gst_caps_get_size(none), plain - count);
    gst_caps_unref(none);
    fail_unless(gpu_vendor_of_caps(NULL) == NULL);
}
GST_END_TEST

static Suite *vendors_suite(void)
{
    Suite *suite = suite_create("vendors");
    TCase *tc = tcase_create("vendors");

    suite_add_tcase(suite, tc);
    tcase_add_test(tc, test_entries_are_whole);
    tcase_add_test(tc, test_numbers);
    tcase_add_test(tc, test_caps);
    return suite;
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    return gst_check_run_suite(vendors_suite(), "vendors", __FILE__);
}
