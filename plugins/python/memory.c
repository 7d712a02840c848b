/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory.h"

#include "error.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct block *next;
    Py_buffer buffer;
};

/* The library drops memory in any thread, perhaps while another one has the GIL and waits for the
 * library. So buffers are released by the interpreter, when it comes to it. */
static _Atomic(struct block *) dropped;

static int release_dropped(void *unused)
{
    struct block *block = atomic_exchange(&dropped, NULL);
    while (block) {
        struct block *next = block->next;
        PyBuffer_Release(&block->buffer);
        free(block);
        block = next;
    }
    return 0;
}

static void drop(void *user)
{
    struct block *block = user;
    block->next = atomic_load(&dropped);
    while (!atomic_compare_exchange_weak(&dropped, &block->next, block))
        ;
    /* With too many calls pending it fails: the next format or release finds the block. */
    if (Py_IsInitialized())
        Py_AddPendingCall(release_dropped, NULL);
}

static struct gpud_memory *wrap(struct gpud_device *device, void *native, uint64_t bytes,
                                struct block *block)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error error;
    enum gpud_status status;
    Py_BEGIN_ALLOW_THREADS
    status = gpud_memory_wrap(device, native, bytes, block ? drop : NULL, block, &memory, &error);
    Py_END_ALLOW_THREADS
    return status == GPUD_OK ? memory : error_raise(&error);
}

static struct gpud_memory *wrap_buffer(struct gpud_device *device, PyObject *object, uint64_t bytes)
{
    struct block *block = calloc(1, sizeof(*block));
    struct gpud_memory *memory = NULL;
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(object, &block->buffer, PyBUF_WRITABLE) < 0) {
        free(block);
        return NULL;
    }
    if ((uint64_t)block->buffer.len < bytes)
        PyErr_Format(PyExc_ValueError, "alloc() gave %zd bytes, and a frame has %llu",
                     block->buffer.len, (unsigned long long)bytes);
    else
        memory = wrap(device, block->buffer.buf, bytes, block);
    if (!memory) {
        PyBuffer_Release(&block->buffer);
        free(block);
    }
    return memory;
}

static struct gpud_memory *wrap_object(struct gpud_device *device, PyObject *object, uint64_t bytes)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    if (PyLong_Check(object)) {
        void *native = PyLong_AsVoidPtr(object);
        return PyErr_Occurred() ? NULL : wrap(device, native, bytes, NULL);
    }
    gpud_device_get_info(device, &info);
    if (strcmp(info.name, "host") == 0)
        return wrap_buffer(device, object, bytes);
    PyErr_Format(PyExc_TypeError,
                 "alloc() gives the number of memory on %s, such as a tensor's data_ptr() or an "
                 "int_ptr, not %R",
                 info.name, object);
    return NULL;
}

enum gpud_status memory_ask(PyObject *alloc, struct gpud_device *device,
                            const struct gpud_layout *layout, uint32_t slot,
                            struct gpud_memory **memory, struct gpud_error *error)
{
    release_dropped(NULL);
    PyObject *object =
        PyObject_CallFunction(alloc, "IK", (unsigned)slot, (unsigned long long)layout->size);
    *memory = object ? wrap_object(device, object, layout->size) : NULL;
    Py_XDECREF(object);
    if (*memory)
        return GPUD_OK;
    if (error)
        *error = (struct gpud_error){
            .status = GPUD_INVALID, .origin = "alloc", .reason = "alloc() raised an exception"};
    return GPUD_INVALID;
}
