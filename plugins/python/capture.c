/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "python.h"

#include <gpudirect/capture.h>

#include <stdlib.h>
#include <string.h>

struct capture {
    struct guarded base;
    struct gpud_capture *capture;
    struct gpud_capture_info info; /* with the GIL: see guard_read_info() */
    int64_t timeout_ns;            /* of a step of the iteration */
    /* guarded by guard.turn */
    struct media *media;
    uint32_t epoch; /* of media */
};

static void capture_destroy(PyObject *object)
{
    gpud_capture_destroy(&((struct capture *)object)->capture);
}

static enum gpud_status capture_get_fd(PyObject *object, int *fd, struct gpud_error *error)
{
    return gpud_capture_get_fd(((struct capture *)object)->capture, fd, error);
}

GUARD_READ_INFO(capture)

static const struct guard_ops guard_ops = {"capture", capture_destroy, capture_get_fd,
                                           capture_read_info};

/* --- controls ------------------------------------------------------------------------------ */

struct controls {
    struct gpud_capture_control list[GPUD_CAPTURE_CONTROLS_MAX];
    uint32_t count;
    PyObject *items; /* keeps the texts that the list points to */
};

static int read_control(struct gpud_capture_control *control, PyObject *item)
{
    PyObject *value;
    if (!PyArg_ParseTuple(item, "sO;controls are texts with their values", &control->name, &value))
        return -1;
    if (PyUnicode_Check(value)) {
        control->text = PyUnicode_AsUTF8AndSize(value, NULL);
        return control->text ? 0 : -1;
    }
    if (!PyLong_Check(value)) {
        PyErr_Format(PyExc_TypeError, "control \"%s\" is set to a whole number or a text",
                     control->name);
        return -1;
    }
    control->value = PyLong_AsLongLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

/* Of a dict, or None. The caller drops items in any case. */
static int read_controls(struct controls *controls, PyObject *dict)
{
    *controls = (struct controls){0};
    if (!dict || dict == Py_None)
        return 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "controls are a dict of names and values");
        return -1;
    }
    controls->items = PyDict_Items(dict);
    if (!controls->items)
        return -1;
    Py_ssize_t count = PyList_Size(controls->items);
    if (count > GPUD_CAPTURE_CONTROLS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd controls: %d are the most", count,
                     GPUD_CAPTURE_CONTROLS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_control(&controls->list[i], PyList_GetItem(controls->items, i)) < 0)
            return -1;
    controls->count = (uint32_t)count;
    return 0;
}

/* --- the format ---------------------------------------------------------------------------- */

struct wanted {
    const char *format;
    unsigned width, height, fps_num, fps_den;
};

static int read_rate(PyObject *rate, struct wanted *wanted)
{
    wanted->fps_den = 1;
    if (!rate || rate == Py_None)
        return 0;
    if (PyTuple_Check(rate))
        return PyArg_ParseTuple(rate, "II;fps is a number, or a fraction (30000, 1001)",
                                &wanted->fps_num, &wanted->fps_den)
                   ? 0
                   : -1;
    unsigned long fps = PyLong_Check(rate) ? PyLong_AsUnsignedLong(rate) : 0;
    if (!PyLong_Check(rate))
        PyErr_SetString(PyExc_TypeError, "fps is a whole number, or a fraction (30000, 1001)");
    else if (!PyErr_Occurred() && fps > INT32_MAX)
        PyErr_SetString(PyExc_ValueError, "fps is too large");
    wanted->fps_num = (unsigned)fps;
    return PyErr_Occurred() ? -1 : 0;
}

static int capture_configure(struct capture *self, const struct wanted *wanted)
{
    struct gpud_error error;
    enum gpud_status status;
    struct gpud_capture_mode mode = {.size = sizeof(mode),
                                     .width_min = wanted->width,
                                     .width_max = wanted->width,
                                     .height_min = wanted->height,
                                     .height_max = wanted->height,
                                     .fps_num = wanted->fps_num,
                                     .fps_den = wanted->fps_den,
                                     .scan = GPUD_SCAN_ANY};
    struct gpud_capture_config config = {.size = sizeof(config), .mode = &mode};
    if (strlen(wanted->format) >= sizeof(mode.format)) {
        error_raise_text(GPUD_INVALID, "there is no format with so long a name");
        return -1;
    }
    strcpy(mode.format, wanted->format);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->base.guard.turn);
    status = gpud_capture_configure(self->capture, &config, &error);
    pthread_mutex_unlock(&self->base.guard.turn);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        error_raise(&error);
    return status == GPUD_OK ? 0 : -1;
}

static PyObject *method_configure(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"format", "width", "height", "fps", NULL};
    struct capture *self = (struct capture *)object;
    struct wanted wanted = {0};
    PyObject *rate = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "s|IIO:configure", keywords, &wanted.format,
                                     &wanted.width, &wanted.height, &rate) ||
        read_rate(rate, &wanted) < 0 || !guard_enter(&self->base))
        return NULL;
    int result = capture_configure(self, &wanted);
    guard_leave(&self->base);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_set_controls(PyObject *object, PyObject *dict)
{
    struct capture *self = (struct capture *)object;
    struct controls controls;
    struct gpud_error error;
    enum gpud_status status;
    if (read_controls(&controls, dict) < 0 || !guard_enter(&self->base)) {
        Py_XDECREF(controls.items);
        return NULL;
    }
    struct gpud_capture_config config = {
        .size = sizeof(config), .controls = controls.list, .control_count = controls.count};
    Py_BEGIN_ALLOW_THREADS
    status = gpud_capture_configure(self->capture, &config, &error);
    Py_END_ALLOW_THREADS
    Py_XDECREF(controls.items);
    guard_leave(&self->base);
    return status == GPUD_OK ? Py_NewRef(Py_None) : error_raise(&error);
}

/* --- frames -------------------------------------------------------------------------------- */

struct call {
    struct capture *self;
    struct gpud_frame *frame;
    struct media *media;
};

static enum gpud_status capture_acquire_slice(void *user, int64_t timeout_ns,
                                              struct gpud_error *error)
{
    struct call *call = user;
    struct capture *self = call->self;
    struct gpud_frame_info frame_info;
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    frame_info.size = sizeof(frame_info);
    enum gpud_status status = gpud_capture_acquire(self->capture, timeout_ns, &call->frame, error);
    if (status != GPUD_OK)
        return status;
    gpud_frame_get_info(call->frame, &frame_info);
    if (!self->media || self->epoch != frame_info.epoch) { /* the format may have changed */
        gpud_capture_get_info(self->capture, &info);
        media_unref(self->media);
        self->media = media_new(&info.media);
        self->epoch = frame_info.epoch;
    }
    if (self->media)
        call->media = media_ref(self->media);
    return GPUD_OK;
}

static enum gpud_status wait_slice(void *user, int64_t timeout_ns, struct gpud_error *error)
{
    struct call *call = user;
    return gpud_capture_wait(call->self->capture, timeout_ns, error);
}

static PyObject *capture_acquire(struct capture *self, int64_t timeout_ns, enum gpud_status *status)
{
    struct call call = {.self = self};
    PyObject *frame = NULL;
    *status = GPUD_INVALID;
    if (!guard_enter(&self->base))
        return NULL;
    int result =
        guard_wait(&self->base, timeout_ns, true, capture_acquire_slice, NULL, &call, status);
    if (result == 0 && !call.media) {
        gpud_frame_release(&call.frame);
        PyErr_NoMemory();
    } else if (result == 0) {
        struct hold *hold = hold_new(call.frame, call.media, false);
        frame = hold ? frame_new(hold, NULL) : NULL;
    }
    media_unref(call.media);
    guard_leave(&self->base);
    return frame;
}

static PyObject *capture_method_acquire(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O&:acquire", keywords, guard_parse_timeout,
                                     &timeout_ns))
        return NULL;
    return capture_acquire((struct capture *)object, timeout_ns, &status);
}

static PyObject *capture_method_poll(PyObject *object, PyObject *unused)
{
    enum gpud_status status;
    PyObject *frame = capture_acquire((struct capture *)object, 0, &status);
    if (frame || status != GPUD_TIMEOUT)
        return frame;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

static PyObject *capture_next(PyObject *object)
{
    struct capture *self = (struct capture *)object;
    enum gpud_status status;
    return capture_acquire(self, self->timeout_ns, &status);
}

static PyObject *method_wait(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct capture *self = (struct capture *)object;
    struct call call = {.self = self};
    int64_t timeout_ns = INT64_MAX;
    enum gpud_status status;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O&:wait", keywords, guard_parse_timeout,
                                     &timeout_ns) ||
        !guard_enter(&self->base))
        return NULL;
    int result = guard_wait(&self->base, timeout_ns, true, wait_slice, NULL, &call, &status);
    guard_leave(&self->base);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}

/* --- what is known of it ------------------------------------------------------------------- */

#define MODES_MAX 512

static PyObject *method_modes(PyObject *object, PyObject *unused)
{
    struct capture *self = (struct capture *)object;
    size_t count;
    if (!guard_enter(&self->base))
        return NULL;
    struct gpud_capture_mode *modes = calloc(MODES_MAX, sizeof(*modes));
    PyObject *list = modes ? PyList_New(0) : PyErr_NoMemory();
    if (list) {
        modes[0].size = sizeof(*modes);
        Py_BEGIN_ALLOW_THREADS
        count = gpud_capture_list_modes(self->capture, NULL, modes, MODES_MAX);
        Py_END_ALLOW_THREADS
        for (size_t i = 0; list && i < count && i < MODES_MAX; i++) {
            const struct gpud_capture_mode *mode = &modes[i];
            PyObject *dict = Py_BuildValue(
                "{s:N,s:(II),s:(II),s:(II),s:(II)}", "format", convert_text(mode->format), "width",
                mode->width_min, mode->width_max, "height", mode->height_min, mode->height_max,
                "step", mode->width_step, mode->height_step, "fps", mode->fps_num, mode->fps_den);
            if (!dict || PyList_Append(list, dict) < 0)
                Py_CLEAR(list);
            Py_XDECREF(dict);
        }
    }
    free(modes);
    guard_leave(&self->base);
    return list;
}

static PyObject *capture_get_info(PyObject *object, void *closure)
{
    struct capture *self = (struct capture *)object;
    if (!guard_read_info(&self->base))
        return NULL;
    struct gpud_capture_info info = self->info;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:N,s:K,s:K,s:K,s:K,s:K,s:N,s:N,s:N,s:N,s:K,s:N,s:K,s:N,s:N}", "path",
        convert_text(info.path), "fallback_reason", convert_text(info.fallback_reason), "driver",
        convert_text(info.driver), "card", convert_text(info.card), "media",
        convert_media(&info.media), "monotonic", PyBool_FromLong(info.monotonic), "frames",
        info.frames, "dropped", info.dropped, "corrupted", info.corrupted, "copies_cpu",
        info.copies_cpu, "copies_gpu", info.copies_gpu, "device", convert_text(info.device),
        "device_reason", convert_text(info.device_reason), "signal", PyBool_FromLong(info.signal),
        "signal_reason", convert_text(info.signal_reason), "signal_changes", info.signal_changes,
        "unplugged", PyBool_FromLong(info.unplugged), "returns", info.returns, "input",
        convert_text(info.input), "card_format", convert_text(info.card_format));
}

/* --- the type ------------------------------------------------------------------------------ */

static PyObject *capture_make(PyTypeObject *own, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"address", "format",   "width", "height", "fps",
                               "device",  "timeout",  "slots", "method", "require_direct",
                               "input",   "controls", NULL};
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct wanted wanted = {0};
    struct controls controls = {0};
    struct gpud_context *context = NULL;
    struct capture *self = NULL;
    struct gpud_error error;
    enum gpud_status status;
    PyObject *rate = NULL, *dict = NULL;
    int64_t timeout_ns = INT64_MAX;
    int direct = 0;
    params.device = "auto";
    if (!PyArg_ParseTupleAndKeywords(args, names, "s|zIIO$O&O&IzpzO:Capture", keywords,
                                     &params.address, &wanted.format, &wanted.width, &wanted.height,
                                     &rate, convert_parse_device, &params.device,
                                     guard_parse_timeout, &timeout_ns, &params.slots,
                                     &params.method, &direct, &params.input, &dict) ||
        read_rate(rate, &wanted) < 0)
        return NULL;
    params.require_direct = direct;
    if (read_controls(&controls, dict) == 0 && (context = context_get())) {
        params.controls = controls.list;
        params.control_count = controls.count;
        self = (struct capture *)guard_new(own, &guard_ops);
    }
    if (self) {
        self->timeout_ns = timeout_ns;
        Py_BEGIN_ALLOW_THREADS
        status = gpud_capture_create(context, &params, &self->capture, &error);
        Py_END_ALLOW_THREADS
        if (status != GPUD_OK)
            error_raise(&error);
        if (status != GPUD_OK || (wanted.format && capture_configure(self, &wanted) < 0))
            Py_CLEAR(self);
    }
    Py_XDECREF(controls.items);
    return (PyObject *)self;
}

static void capture_free(PyObject *object)
{
    struct capture *self = (struct capture *)object;
    guard_close(&self->base);
    media_unref(self->media);
    guard_free(object);
}

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))method_configure, METH_VARARGS | METH_KEYWORDS,
     "configure($self, /, format, width=0, height=0, fps=None)\n--\n\n"
     "Begins to capture. 0 x 0 is the signal's own size; fps is a number or (30000, 1001)."},
    {"set_controls", method_set_controls, METH_O,
     "set_controls($self, controls, /)\n--\n\nSets controls of the card, in the order of the "
     "dict."},
    {"acquire", (PyCFunction)(void (*)(void))capture_method_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire($self, /, timeout=None)\n--\n\n"
     "The next frame. Waits without the GIL, so many seconds at most. Raises Timeout, and "
     "NoDevice\n"
     "when the card was unplugged: wait() for it."},
    {"poll", capture_method_poll, METH_NOARGS,
     "poll($self, /)\n--\n\nThe next frame, or None if no frame is waiting. Does not wait."},
    {"wait", (PyCFunction)(void (*)(void))method_wait, METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\nWaits for a card that was unplugged to come back."},
    {"modes", method_modes, METH_NOARGS,
     "modes($self, /)\n--\n\nThe formats, sizes and rates that the card offers now."},
    {"fileno", guard_method_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nA descriptor to poll, readable when poll() may return a frame."},
    {"close", guard_method_close, METH_NOARGS,
     "close($self, /)\n--\n\nStops and closes the card. Frames that are held stay valid."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"info", capture_get_info, NULL,
     "State and counters, as gpud_capture_info has them; of a closed one, the last.", NULL},
    {"closed", guard_get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, capture_make},
    {Py_tp_dealloc, capture_free},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, capture_next},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "The C part of gpudirect.Capture."},
    {0},
};

PyType_Spec capture_spec = {
    .name = "gpudirect._gpudirect.Capture",
    .basicsize = sizeof(struct capture),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};
