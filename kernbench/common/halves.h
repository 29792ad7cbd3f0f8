/* Conversions between f16 and f32, and sums, differences and products of f16: eight elements at a time, with the instructions of
   AVX and F16C. Arrays come as objects with the buffer protocol. kernbench/common/halves.py has the same in numpy. */
#ifndef KERNBENCH_HALVES_H
#define KERNBENCH_HALVES_H
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { KB_WIDEN, KB_NARROW, KB_ADD, KB_SUB, KB_MUL };

#define KB_HALVES_LONG 4096 /* elements from which on other Python threads run meanwhile */

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#ifdef __clang__
#include <immintrin.h>
#elif !defined(_IMMINTRIN_H_INCLUDED) /* only the headers that are needed, as in kernbench_core/fast/simd.h */
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>
#include <avxintrin.h>
#include <f16cintrin.h>
#endif
#define KB_F16C __attribute__((target("avx,f16c")))

static int kb_halves_supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0; /* each processor with AVX2 has F16C */
}

KB_F16C __attribute__((always_inline)) static inline __m256 kb_wide(const uint16_t* from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)); }

/* Eight results; bits are set in `nan` if one of them is NaN. */
KB_F16C __attribute__((always_inline)) static inline void kb_eight(int op, const void* x, const void* y, void* out, __m256* nan) {
    __m256 made;
    if (op == KB_NARROW) {
        made = _mm256_loadu_ps((const float*)x);
    } else {
        made = kb_wide((const uint16_t*)x);
        if (op == KB_ADD) made = _mm256_add_ps(made, kb_wide((const uint16_t*)y));
        if (op == KB_SUB) made = _mm256_sub_ps(made, kb_wide((const uint16_t*)y));
        if (op == KB_MUL) made = _mm256_mul_ps(made, kb_wide((const uint16_t*)y));
    }
    *nan = _mm256_or_ps(*nan, _mm256_cmp_ps(made, made, _CMP_UNORD_Q));
    if (op == KB_WIDEN)
        _mm256_storeu_ps((float*)out, made);
    else
        _mm_storeu_si128((__m128i*)out, _mm256_cvtps_ph(made, _MM_FROUND_TO_NEAREST_INT));
}

/* `n` results, from elements of `size` bytes to elements of `made` bytes; true if one of them is NaN. */
KB_F16C static int kb_many(int op, const char* x, const char* y, char* out, int64_t n, int64_t size, int64_t made) {
    __m256 nan = _mm256_setzero_ps();
    int64_t i = 0;
    switch (op) { /* one loop for each op, without branches */
#define KB_LOOP(OP) \
    case OP: \
        for (; i + 8 <= n; i += 8) kb_eight(OP, x + i * size, y + i * size, out + i * made, &nan); \
        break;
        KB_LOOP(KB_WIDEN)
        KB_LOOP(KB_NARROW)
        KB_LOOP(KB_ADD)
        KB_LOOP(KB_SUB)
        KB_LOOP(KB_MUL)
#undef KB_LOOP
    }
    if (i < n) {
        char last[3][32] = {{0}};
        memcpy(last[0], x + i * size, (size_t)((n - i) * size));
        if (op >= KB_ADD) memcpy(last[1], y + i * size, (size_t)((n - i) * size));
        kb_eight(op, last[0], last[1], last[2], &nan);
        memcpy(out + i * made, last[2], (size_t)((n - i) * made));
    }
    return _mm256_movemask_ps(nan) != 0;
}
#else
static int kb_halves_supported(void) { return 0; }
static int kb_many(int op, const char* x, const char* y, char* out, int64_t n, int64_t size, int64_t made) { return 1; }
#endif

/* Compute `out`, which has as many elements as `x` and `y`. 1 if a result is NaN, so that `out` may differ from numpy's; -1 with
   an exception if an argument is no contiguous buffer of the right size. */
static int kb_halves(int op, PyObject* x, PyObject* y, PyObject* out) {
    Py_buffer a, b, c;
    int found = -1;
    if (PyObject_GetBuffer(x, &a, PyBUF_SIMPLE) < 0) return -1;
    if (PyObject_GetBuffer(y, &b, PyBUF_SIMPLE) == 0) {
        if (PyObject_GetBuffer(out, &c, PyBUF_WRITABLE) == 0) {
            int64_t size = op == KB_NARROW ? 4 : 2, made = op == KB_WIDEN ? 4 : 2, n = a.len / size;
            if (a.len == n * size && b.len == a.len && c.len == n * made) {
                PyThreadState* state = n >= KB_HALVES_LONG ? PyEval_SaveThread() : NULL;
                found = kb_many(op, (const char*)a.buf, (const char*)b.buf, (char*)c.buf, n, size, made);
                if (state) PyEval_RestoreThread(state);
            } else {
                PyErr_SetString(PyExc_ValueError, "arrays of f16 and f32 with different numbers of elements");
            }
            PyBuffer_Release(&c);
        }
        PyBuffer_Release(&b);
    }
    PyBuffer_Release(&a);
    return found;
}
#endif
