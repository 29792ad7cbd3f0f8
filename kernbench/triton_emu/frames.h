/* The frame that called a compiled function, the instruction at which a frame stands, and its source line. Python's own
 * `sys._getframe` and the attributes of a frame take ten times as long. */
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

/* The lines of recently executed instructions. An instruction has one place in the table, and its line there stays valid: the
 * code objects are never freed. Without the GIL, the table is not used. */
#define KB_LINES 256
static struct {
    long long at;   /* `id(frame.f_code) + frame.f_lasti` */
    PyObject *line; /* a reference; NULL: the place is free */
} kb_lines[KB_LINES];

static inline int kb_place(long long at) {
    return (int)((at >> 1 ^ at >> 9) & (KB_LINES - 1));
}

/* A new reference to the line of an instruction, or to None. */
static inline PyObject *kb_line(long long at) {
    PyObject *line = kb_lines[kb_place(at)].at == at ? kb_lines[kb_place(at)].line : NULL;
    line = line == NULL ? Py_None : line;
    Py_INCREF(line);
    return line;
}

static inline void kb_keep_line(long long at, PyObject *line) {
#ifndef Py_GIL_DISABLED
    PyObject *old = kb_lines[kb_place(at)].line;
    Py_INCREF(line);
    kb_lines[kb_place(at)].at = at;
    kb_lines[kb_place(at)].line = line;
    Py_XDECREF(old);
#endif
}

#endif
