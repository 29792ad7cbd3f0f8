/* Exact rationals of 128-bit terms for max_min_v1. Every operation keeps lowest terms and says when 126 bits would not do.
 * A header, because Cython has no 128-bit integer of its own. */
#ifndef KERNBENCH_RATIO_H
#define KERNBENCH_RATIO_H
#include <stdint.h>

typedef __int128 kb_wide;
typedef struct { kb_wide num, den; } kb_ratio;          /* den > 0, num >= 0 */

static inline int kb_bits(kb_wide v) {
    uint64_t hi = (uint64_t)((unsigned __int128)v >> 64), lo = (uint64_t)v;
    return hi ? 128 - __builtin_clzll(hi) : lo ? 64 - __builtin_clzll(lo) : 0;
}

static inline int kb_mul(kb_wide a, kb_wide b, kb_wide *out) {   /* 0: fits */
    if (kb_bits(a) + kb_bits(b) > 126) return 1;
    *out = a * b;
    return 0;
}

static inline kb_ratio kb_lowest(kb_wide num, kb_wide den) {
    kb_wide a = num, b = den, t;
    while (b) { t = a % b; a = b; b = t; }
    kb_ratio r = { num / a, den / a };
    return r;
}

static inline kb_ratio kb_ratio_of(int64_t num, int64_t den) { return kb_lowest(num, den); }

/* r - q * k, not below zero by construction; sets *bad on overflow */
static inline kb_ratio kb_minus(kb_ratio r, kb_ratio q, int64_t k, int *bad) {
    kb_wide a, b, d, qk;
    if (kb_mul(q.num, k, &qk) || kb_mul(r.num, q.den, &a) || kb_mul(qk, r.den, &b) || kb_mul(r.den, q.den, &d)) {
        *bad = 1;
        return r;
    }
    return kb_lowest(a - b, d);
}

static inline kb_ratio kb_over(kb_ratio r, int64_t k, int *bad) {        /* r / k */
    kb_wide d;
    if (kb_mul(r.den, k, &d)) { *bad = 1; return r; }
    return kb_lowest(r.num, d);
}

static inline int kb_less(kb_ratio a, kb_ratio b, int *bad) {
    kb_wide x, y;
    if (kb_mul(a.num, b.den, &x) || kb_mul(b.num, a.den, &y)) { *bad = 1; return 0; }
    return x < y;
}

/* r * k as a rate: terms of at most 31 bits, else rounded down to a multiple of 2^-31. Sets *bad, and no rate, where that is 0:
 * a flow of rate 0 would move nothing, and what is found from rates divides by them. */
static inline void kb_rate(kb_ratio r, int64_t k, int64_t *num, int64_t *den, int *bad) {
    kb_wide n, limit = (kb_wide)1 << 31;
    if (kb_mul(r.num, k, &n)) { *bad = 1; return; }
    kb_ratio v = kb_lowest(n, r.den);
    if (v.num >= limit || v.den >= limit) {
        if (kb_mul(v.num, limit, &n)) { *bad = 1; return; }
        if (n < v.den) { *bad = 1; return; }
        v = kb_lowest(n / v.den, limit);
    }
    *num = (int64_t)v.num;
    *den = (int64_t)v.den;
}
#endif
