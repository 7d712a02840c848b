/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "links.h"

#include "convert.h"

static PyObject *to_dict(const struct gpud_link_info *info)
{
    static const char *const phases[] = {
        [GPUD_PHASE_CONNECTING] = "connecting",
        [GPUD_PHASE_STREAMING] = "streaming",
        [GPUD_PHASE_LEAVING] = "leaving",
    };
    bool known = info->phase >= GPUD_PHASE_CONNECTING && info->phase <= GPUD_PHASE_LEAVING;
    return Py_BuildValue("{s:K,s:L,s:N,s:N,s:N,s:N,s:s,s:N,s:I,s:K,s:K,s:K,s:K,s:N}", "id",
                         info->id, "pid", (long long)info->pid, "name", convert_text(info->name),
                         "device", convert_text(info->device), "path", convert_text(info->path),
                         "fallback_reason", convert_text(info->fallback_reason), "phase",
                         known ? phases[info->phase] : "unknown", "slow_receiver",
                         convert_policy(info->slow_receiver), "held", info->held, "delivered",
                         info->delivered, "dropped", info->dropped, "waiting", info->waiting,
                         "latency_ns", info->latency_ns, "host", convert_text(info->host));
}

PyObject *links_to_list(const struct gpud_link_info *const *link, size_t count)
{
    PyObject *result = PyList_New(0);
    for (size_t i = 0; result && i < count; i++) {
        PyObject *dict = to_dict(link[i]);
        if (!dict || PyList_Append(result, dict) < 0)
            Py_CLEAR(result);
        Py_XDECREF(dict);
    }
    return result;
}
