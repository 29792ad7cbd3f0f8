/* Many cycles of a requester at once, in vector registers: written for AVX2. fast/simd.pyx chooses at run time; plain C is the
   Cython code that stands beside each call (`walk_dense` of fast/block.pyx, `add_stream` of fast/request_table.pyx). */
#ifndef KERNBENCH_SIMD_H
#define KERNBENCH_SIMD_H
#include <stdint.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#ifdef __clang__
#include <immintrin.h>
#else /* GCC's headers up to AVX2: to read all that immintrin.h includes takes as long as to compile three small modules */
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#endif

__attribute__((target("avx2"))) static __m256i kb_between_avx2(__m256i x, __m256i least, __m256i most) {
    x = _mm256_blendv_epi8(x, most, _mm256_cmpgt_epi64(x, most));
    return _mm256_blendv_epi8(x, least, _mm256_cmpgt_epi64(least, x));
}

/* The lines of a stream that begin in each of `n` body cycles, the first of which begins at byte `end`: their banks are added to `want`,
   which has room for seven cycles more. `at`: the next line's byte, not before `end`; its bank is `bank`. `banks` and the bytes of a line (`shift`) are
   powers of two. */
__attribute__((target("avx2"))) static void kb_add_lines_avx2(uint64_t* want, int64_t n, int64_t bank, int64_t at, int64_t end, int64_t q,
                                                              int64_t nbytes, int64_t shift, int64_t banks, uint64_t full) {
    const __m128i by = _mm_cvtsi64_si128(shift);
    const __m256i one = _mm256_set1_epi64x(1), last = _mm256_set1_epi64x(banks - 1), all = _mm256_set1_epi64x((int64_t)full);
    const __m256i least = _mm256_set1_epi64x(at), most = _mm256_set1_epi64x(nbytes), start = _mm256_set1_epi64x(bank);
    const __m256i round = _mm256_set1_epi64x(((int64_t)1 << shift) - 1 - at), next = _mm256_set1_epi64x(q), step = _mm256_set1_epi64x(4 * q);
    __m256i to = _mm256_set_epi64x(end + 3 * q, end + 2 * q, end + q, end);
    for (int64_t k = 0; k < n; k += 4, to = _mm256_add_epi64(to, step)) {
        __m256i a = kb_between_avx2(to, least, most), b = kb_between_avx2(_mm256_add_epi64(to, next), least, most);
        __m256i before = _mm256_srl_epi64(_mm256_add_epi64(a, round), by), after = _mm256_srl_epi64(_mm256_add_epi64(b, round), by);
        __m256i mask = _mm256_sub_epi64(_mm256_sllv_epi64(one, _mm256_sub_epi64(after, before)), one);
        __m256i first = _mm256_and_si256(_mm256_add_epi64(start, before), last);
        __m256i low = _mm256_srlv_epi64(_mm256_srli_epi64(mask, 1), _mm256_sub_epi64(last, first));
        mask = _mm256_and_si256(_mm256_or_si256(_mm256_sllv_epi64(mask, first), low), all);
        _mm256_storeu_si256((__m256i*)(want + k), _mm256_or_si256(_mm256_loadu_si256((const __m256i*)(want + k)), mask));
    }
}

/* Of four cycles, those before the first in `hit`. */
__attribute__((target("avx2"))) static __m256i kb_before_avx2(__m256i need, int hit) {
    const __m256i place = _mm256_set_epi64x(3, 2, 1, 0);
    return _mm256_and_si256(need, _mm256_cmpgt_epi64(_mm256_set1_epi64x(__builtin_ctz(hit)), place));
}

__attribute__((target("avx2"))) static __m256i kb_want_avx2(const uint64_t* want, int64_t n) {
    const __m256i place = _mm256_set_epi64x(3, 2, 1, 0);
    return _mm256_maskload_epi64((const long long*)want, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), place));
}

__attribute__((target("avx2"))) static int kb_hit_avx2(__m256i need, __m256i used) {
    __m256i none = _mm256_cmpeq_epi64(_mm256_and_si256(need, used), _mm256_setzero_si256());
    return ~_mm256_movemask_pd(_mm256_castsi256_pd(none)) & 15;
}

/* Requests `want` of `n` cycles take their ports, one after the other, until one is denied: how many were not. `taken` has a word for
   each cycle and port. It and `want` may be read, `taken` also written unchanged, up to four cycles further. */
__attribute__((target("avx2"))) static int64_t kb_take_one_avx2(uint64_t* taken, const uint64_t* want, int64_t n) {
    for (int64_t c = 0; c < n; c += 4) {
        __m256i need = kb_want_avx2(want + c, n - c), used = _mm256_loadu_si256((const __m256i*)(taken + c));
        int hit = kb_hit_avx2(need, used);
        if (hit) need = kb_before_avx2(need, hit);
        _mm256_storeu_si256((__m256i*)(taken + c), _mm256_or_si256(used, need));
        if (hit) return c + __builtin_ctz(hit);
    }
    return n;
}

__attribute__((target("avx2"))) static int64_t kb_take_two_avx2(uint64_t* taken, const uint64_t* want, int64_t n) {
    for (int64_t c = 0; c < n; c += 4) {
        __m256i need = kb_want_avx2(want + c, n - c);
        __m256i a = _mm256_loadu_si256((const __m256i*)(taken + 2 * c)), b = _mm256_loadu_si256((const __m256i*)(taken + 2 * c + 4));
        __m256i first = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(a, b), 0xd8);
        __m256i second = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(a, b), 0xd8);
        int hit = kb_hit_avx2(need, second);
        if (hit) need = kb_before_avx2(need, hit);
        second = _mm256_permute4x64_epi64(_mm256_or_si256(second, _mm256_and_si256(need, first)), 0xd8);
        first = _mm256_permute4x64_epi64(_mm256_or_si256(first, need), 0xd8);
        _mm256_storeu_si256((__m256i*)(taken + 2 * c), _mm256_unpacklo_epi64(first, second));
        _mm256_storeu_si256((__m256i*)(taken + 2 * c + 4), _mm256_unpackhi_epi64(first, second));
        if (hit) return c + __builtin_ctz(hit);
    }
    return n;
}

static int kb_supported(int level) {
    __builtin_cpu_init();
    return level == 0 || __builtin_cpu_supports("avx2");
}
#define KB_OF(LEVEL, NAME) ((LEVEL) == 1 ? NAME##_avx2 : 0)

#else
static int kb_supported(int level) { return level == 0; }
#define KB_OF(LEVEL, NAME) 0
#endif
#endif
