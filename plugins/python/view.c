/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "view.h"

#include "convert.h"
#include "dlpack.h"
#include "error.h"

struct view {
    PyObject_HEAD struct hold *hold;
    struct array array;
    Py_ssize_t shape[ARRAY_DIMENSIONS_MAX]; /* where buffers point to */
    Py_ssize_t strides[ARRAY_DIMENSIONS_MAX];
};

static PyTypeObject *type;

PyObject *view_new(struct hold *hold, const struct array *array)
{
    struct view *view = PyObject_New(struct view, type);
    if (!view)
        return NULL;
    view->hold = hold_ref_array(hold);
    view->array = *array;
    for (int i = 0; i < array->dimensions; i++) {
        view->shape[i] = (Py_ssize_t)array->shape[i];
        view->strides[i] = (Py_ssize_t)array->strides[i];
    }
    return (PyObject *)view;
}

static void view_free(PyObject *self)
{
    PyTypeObject *own = Py_TYPE(self);
    hold_unref_array(((struct view *)self)->hold);
    PyObject_Free(self);
    Py_DECREF(own);
}

/* --- the buffer protocol ------------------------------------------------------------------- */

/* The format of module struct, and the name of numpy's type. */
static const char *describe(const struct array *array, bool for_struct)
{
    static const char *const names[3][4][2] = {
        [ARRAY_INT] = {{"b", "int8"}, {"h", "int16"}, {"i", "int32"}, {"q", "int64"}},
        [ARRAY_UINT] = {{"B", "uint8"}, {"H", "uint16"}, {"I", "uint32"}, {"Q", "uint64"}},
        [ARRAY_FLOAT] = {{NULL, NULL}, {"e", "float16"}, {"f", "float32"}, {"d", "float64"}},
    };
    static const char *const big_names[3][4][2] = {
        [ARRAY_INT] = {{NULL, NULL}, {">h", ">i2"}, {">i", ">i4"}, {">q", ">i8"}},
        [ARRAY_UINT] = {{NULL, NULL}, {">H", ">u2"}, {">I", ">u4"}, {">Q", ">u8"}},
        [ARRAY_FLOAT] = {{NULL, NULL}, {">e", ">f2"}, {">f", ">f4"}, {">d", ">f8"}},
    };
    unsigned size = array->bytes == 1 ? 0 : array->bytes == 2 ? 1 : array->bytes == 4 ? 2 : 3;
    return (array->big_endian ? big_names : names)[array->kind][size][for_struct ? 0 : 1];
}

static int refuse_buffer(Py_buffer *buffer, const char *text)
{
    buffer->obj = NULL;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_BufferError, text);
    return -1;
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct view *view = (struct view *)self;
    struct hold *hold = view->hold;
    buffer->obj = NULL;
    if (hold->kind != HOLD_HOST) {
        PyErr_Format(PyExc_BufferError,
                     "the frame is on %s: use DLPack (torch.from_dlpack), or "
                     "receive it on the host by Receiver(device=\"host\")",
                     hold->device);
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) && hold->read_only)
        return refuse_buffer(buffer, "the frame is shared with others: copy it to change it");
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !array_is_contiguous(&view->array))
        return refuse_buffer(buffer, "the rows of the frame have gaps: ask for strides");
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !array_is_contiguous(&view->array))
        return refuse_buffer(buffer, "the rows of the frame have gaps: it is not C-contiguous");
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS)
        return refuse_buffer(buffer, "frames have rows: they are not in Fortran's order");
    if (hold_map(hold) < 0)
        return -1;
    buffer->buf = hold->native + view->array.offset;
    buffer->obj = Py_NewRef(self);
    buffer->len = (Py_ssize_t)view->array.length;
    buffer->readonly = hold->read_only;
    buffer->itemsize = view->array.bytes;
    buffer->format = flags & PyBUF_FORMAT ? (char *)describe(&view->array, true) : NULL;
    buffer->ndim = flags & PyBUF_ND ? view->array.dimensions : 1;
    buffer->shape = flags & PyBUF_ND ? view->shape : NULL;
    buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? view->strides : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = NULL;
    return 0;
}

/* --- attributes ---------------------------------------------------------------------------- */

static PyObject *to_tuple(const Py_ssize_t *numbers, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromSsize_t(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    return to_tuple(view->shape, view->array.dimensions);
}

static PyObject *get_strides(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    return to_tuple(view->strides, view->array.dimensions);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    return PyUnicode_FromString(describe(&((struct view *)self)->array, false));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(((struct view *)self)->array.length);
}

static PyObject *get_readonly(PyObject *self, void *closure)
{
    return PyBool_FromLong(((struct view *)self)->hold->read_only);
}

static PyObject *get_offset(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(((struct view *)self)->array.offset);
}

static PyObject *represent(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL);
    PyObject *text = shape ? PyUnicode_FromFormat("<Plane %S %s, %s>", shape,
                                                  describe(&((struct view *)self)->array, false),
                                                  ((struct view *)self)->hold->device)
                           : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyObject *get_native(PyObject *self, void *closure)
{
    struct view *view = (struct view *)self;
    if (hold_check(view->hold) < 0)
        return NULL;
    bool offset_apart = hold_is_object(view->hold);
    return PyLong_FromVoidPtr(view->hold->native + (offset_apart ? 0 : view->array.offset));
}

static PyObject *export_dlpack(PyObject *self, PyObject *args, PyObject *names)
{
    struct view *view = (struct view *)self;
    return dlpack_export(view->hold, &view->array, args, names);
}

static PyObject *export_device(PyObject *self, PyObject *unused)
{
    return dlpack_device(((struct view *)self)->hold);
}

static PyMethodDef methods[] = {
    {"__array__", (PyCFunction)(void (*)(void))convert_to_numpy, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, /, *args, **names)\n--\n\n"
     "For numpy, which says by it why the bytes are no array."},
    {"__dlpack__", (PyCFunction)(void (*)(void))export_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule for a consumer's from_dlpack(). The consumer's stream waits for the bytes."},
    {"__dlpack_device__", export_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's type of the device, and its number."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "Lengths of the dimensions, as in (1080, 1920, 4).", NULL},
    {"strides", get_strides, NULL, "Bytes from one entry of each dimension to the next.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements by numpy's name, as in 'uint8' or '>u2'.",
     NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"offset", get_offset, NULL, "Bytes from the first one of the frame to the first element.",
     NULL},
    {"readonly", get_readonly, NULL, "Whether others share the bytes.", NULL},
    {"native", get_native, NULL,
     "The address of the first element, on the frame's device; on OpenCL, the cl_mem.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, view_free},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, get_buffer},
    {Py_tp_doc, "An array in a frame, without a copy: by DLPack, and on the host by the buffer\n"
                "protocol (numpy.asarray, memoryview). While it lives, the frame is held."},
    {0},
};

static PyType_Spec spec = {
    .name = "gpudirect.Plane",
    .basicsize = sizeof(struct view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int view_init(PyObject *module)
{
    if (!type)
        type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return type ? PyModule_AddObjectRef(module, "Plane", (PyObject *)type) : -1;
}
