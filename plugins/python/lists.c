/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "lists.h"

#include "context.h"
#include "convert.h"
#include "error.h"
#include "guard.h"
#include "links.h"

#include <gpudirect/channel.h>

static PyObject *device_to_dict(const struct gpud_device_info *info)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N}", "name", convert_text(info->name),
                         "description", convert_text(info->description), "pci",
                         convert_text(info->pci), "available", PyBool_FromLong(info->available),
                         "direct_writes", PyBool_FromLong(info->direct_writes), "reason",
                         convert_text(info->reason));
}

/* Takes the item. */
static bool append(PyObject *list, PyObject *item)
{
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

PyObject *lists_devices(PyObject *module, PyObject *unused)
{
    struct gpud_device_list *devices;
    uint32_t count;
    struct gpud_error error;
    enum gpud_status status;
    struct gpud_context *context = context_get();
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_device_list_create(context, &devices, &count, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        return error_raise(&error);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < count; i++) {
        struct gpud_device_info info = GPUD_INFO_INIT(info);
        if (gpud_device_list_get_info(devices, i, &info, NULL) == GPUD_OK &&
            !append(list, device_to_dict(&info)))
            Py_CLEAR(list);
    }
    gpud_device_list_destroy(&devices);
    return list;
}

static PyObject *channel_to_dict(const struct gpud_channel_info *info, PyObject *links)
{
    return Py_BuildValue(
        "{s:N,s:L,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:I,s:I,s:N,s:K,s:K,s:K,s:K,s:d,s:N,s:N}", "address",
        convert_text(info->address), "pid", (long long)info->pid, "program",
        convert_text(info->program), "answered", PyBool_FromLong(info->answered), "reason",
        convert_text(info->reason), "name", convert_text(info->name), "device",
        convert_text(info->device), "media",
        info->configured ? convert_media(&info->media) : Py_NewRef(Py_None), "ended",
        PyBool_FromLong(info->ended), "epoch", info->epoch, "slots", info->slots, "slow_receiver",
        convert_policy(info->slow_receiver), "frames", info->frames, "delivered", info->delivered,
        "dropped", info->dropped, "connects", info->connects, "rate", info->rate, "age_ns",
        convert_time(info->age_ns), "links", links);
}

PyObject *lists_channels(PyObject *module, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"address", "timeout", NULL};
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_error error;
    enum gpud_status status;
    const char *address = NULL;
    int64_t timeout_ns = GPUD_SEC;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|zO&:channels", keywords, &address,
                                     guard_parse_timeout, &timeout_ns))
        return NULL;
    if (timeout_ns == INT64_MAX) {
        PyErr_SetString(PyExc_ValueError, "the channels' answers are waited for with a timeout: "
                                          "give seconds");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = gpud_channel_list_create(address, timeout_ns, &channels, &count, NULL, &error);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        return error_raise(&error);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        if (gpud_channel_list_get_info(channels, i, &info, NULL) != GPUD_OK)
            continue;
        PyObject *links = links_to_list(info.link, info.links);
        if (!links || !append(list, channel_to_dict(&info, links)))
            Py_CLEAR(list);
    }
    gpud_channel_list_destroy(&channels);
    return list;
}
