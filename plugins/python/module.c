/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The module gpudirect._gpudirect. It works in the main interpreter alone, whose types it keeps in
 * static variables, and with the GIL: free-threaded interpreters do not load the stable ABI that it
 * is built for. */
#include "capture.h"
#include "error.h"
#include "frame.h"
#include "group.h"
#include "lists.h"
#include "python.h"
#include "receiver.h"
#include "sender.h"
#include "view.h"

#include <gpudirect/types.h>

static int fill(PyObject *module)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "gpudirect works in the main interpreter alone: import "
                                           "it there, or start a process");
        return -1;
    }
    if (error_init() < 0 || view_init(module) < 0 || frame_init(module) < 0 ||
        receiver_init(module) < 0 || sender_init(module) < 0 || capture_init(module) < 0 ||
        group_init(module) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", gpud_version_string());
}

static PyMethodDef functions[] = {
    {"devices", lists_devices, METH_NOARGS,
     "devices()\n--\n\nThe devices of this machine, those that are absent with the reason."},
    {"channels", (PyCFunction)(void (*)(void))lists_channels, METH_VARARGS | METH_KEYWORDS,
     "channels(address=None, timeout=1.0)\n--\n\n"
     "The senders of this user, what they send and to whom. An address asks that one alone."},
    {0},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gpudirect._gpudirect",
    .m_doc = "The C part of gpudirect, over the public API of libgpudirect.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__gpudirect(void);

PyMODINIT_FUNC PyInit__gpudirect(void)
{
    return PyModuleDef_Init(&definition);
}
