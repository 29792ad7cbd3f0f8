/* The frame that called a compiled function, and the instruction at which a frame stands. Python's own `sys._getframe` and the
 * attributes of a frame take ten times as long. */
#ifndef KERNBENCH_FRAMES_H
#define KERNBENCH_FRAMES_H

#include <Python.h>

/* A new reference to the innermost frame of Python code: compiled functions have none. */
static inline PyObject *kb_frame(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a function of tl was called by no Python code");
        return NULL;
    }
    Py_INCREF(frame);
    return (PyObject *)frame;
}

/* `id(frame.f_code) + frame.f_lasti` */
static inline long long kb_instruction(PyObject *frame) {
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
    long long at = (long long)(intptr_t)code + PyFrame_GetLasti((PyFrameObject *)frame);
    Py_DECREF(code);
    return at;
}

#endif
