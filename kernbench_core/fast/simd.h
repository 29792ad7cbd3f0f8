/* Many cycles of a requester at once, in vector registers: written for AVX2. fast/simd.pyx chooses at run time; plain C is the
   Cython code that stands beside each call (`walk_dense` of fast/block.pyx, `add_stream` of fast/request_table.pyx, and
   fast/lane_windows.pyx). */
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

/* Fields of eight lanes (`Lanes` of fast/lane_table.pxd). */
enum { KB_NUM, KB_REST = 8, KB_EVERY = 16, KB_AT = 24, KB_CARRY = 32, KB_LINES = 40, KB_BANK = 48, KB_RUN = 56, KB_SIDE = 64 };
enum { KB_UNTIL = 72, KB_DEN = 80, KB_ROUTE = 88, KB_FAR = 1 << 30 };
enum { KB_BANKS = 64, KB_WINDOW = 64 };

__attribute__((target("avx2"))) static inline __m256i kb_field_avx2(const int32_t* field) {
    return _mm256_loadu_si256((const __m256i*)field);
}

/* A field gets new values in the lanes that are due. */
__attribute__((target("avx2"))) static inline void kb_set_field_avx2(int32_t* field, __m256i due, __m256i from, __m256i to) {
    _mm256_storeu_si256((__m256i*)field, _mm256_blendv_epi8(from, to, due));
}

/* `run_lanes` of fast/lane_windows.pyx: `n` structs of eight lanes, `size` numbers apart. All eight lanes are handled, without a branch;
   those that are not due count in the row after the last cycle. */
__attribute__((target("avx2"))) static int32_t kb_run_lanes_avx2(int32_t* g, int64_t n, int64_t size, int32_t begin, int32_t end, int32_t hop,
                                                                 int32_t chunk, int32_t banks, uint8_t* asked) {
    const __m256i last = _mm256_set1_epi32(end), one = _mm256_set1_epi32(1), first = _mm256_set1_epi32(begin);
    const __m256i whole = _mm256_set1_epi32(banks), hops = _mm256_set1_epi32(hop), lines = _mm256_set1_epi32(chunk);
    const __m256i nowhere = _mm256_add_epi32(_mm256_set1_epi32(KB_BANKS * KB_WINDOW), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    const __m256i table = _mm256_set1_epi32(KB_BANKS * (KB_WINDOW + 1));
    __m256i sides = _mm256_setzero_si256();
    int32_t counts[8];
    for (; n; n--, g += size) {
        __m256i at = kb_field_avx2(g + KB_AT), due = _mm256_cmpgt_epi32(last, at);
        const __m256i side = _mm256_add_epi32(kb_field_avx2(g + KB_SIDE), one);
        while (_mm256_movemask_epi8(due)) {
            __m256i bank = kb_field_avx2(g + KB_BANK), run = kb_field_avx2(g + KB_RUN), carry = kb_field_avx2(g + KB_CARRY);
            __m256i count = _mm256_add_epi32(_mm256_slli_epi32(_mm256_sub_epi32(at, first), 6), bank);
            count = _mm256_add_epi32(count, _mm256_and_si256(table, _mm256_cmpgt_epi32(side, one)));
            _mm256_storeu_si256((__m256i*)counts, _mm256_blendv_epi8(nowhere, count, due));
            sides = _mm256_or_si256(sides, _mm256_and_si256(due, side));
            __m256i less = _mm256_sub_epi32(carry, kb_field_avx2(g + KB_REST)), late = _mm256_srai_epi32(less, 31);
            __m256i more = _mm256_add_epi32(less, _mm256_and_si256(kb_field_avx2(g + KB_NUM), late));
            __m256i over = _mm256_cmpeq_epi32(run, _mm256_setzero_si256());
            __m256i next = _mm256_add_epi32(_mm256_add_epi32(bank, one), _mm256_and_si256(over, hops));
            kb_set_field_avx2(g + KB_CARRY, due, carry, more);
            kb_set_field_avx2(g + KB_BANK, due, bank, _mm256_sub_epi32(next, _mm256_andnot_si256(_mm256_cmpgt_epi32(whole, next), whole)));
            kb_set_field_avx2(g + KB_RUN, due, run, _mm256_sub_epi32(_mm256_add_epi32(run, _mm256_and_si256(over, lines)), one));
            _mm256_storeu_si256((__m256i*)(g + KB_LINES), _mm256_add_epi32(kb_field_avx2(g + KB_LINES), due));
            at = _mm256_add_epi32(at, _mm256_and_si256(due, _mm256_sub_epi32(kb_field_avx2(g + KB_EVERY), late)));
            _mm256_storeu_si256((__m256i*)(g + KB_AT), at);
            due = _mm256_cmpgt_epi32(last, at);
            for (int j = 0; j < 8; j++) asked[counts[j]]++;
        }
    }
    return (_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(sides, 30))) ? 1 : 0)
        | (_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(sides, 31))) ? 2 : 0);
}

/* `copy_lanes` of fast/lane_windows.pyx: the fields that a window changes. */
__attribute__((target("avx2"))) static void kb_copy_lanes_avx2(int32_t* to, const int32_t* g, int64_t n, int64_t size) {
    for (; n; n--, to += size, g += size)
        for (int field = KB_AT; field <= KB_RUN; field += 8) _mm256_storeu_si256((__m256i*)(to + field), kb_field_avx2(g + field));
}

/* `granted_cycles`: rows of KB_BANKS bytes. */
__attribute__((target("avx2"))) static int32_t kb_granted_cycles_avx2(const uint8_t* asked, int32_t cycles, int32_t ports) {
    const __m256i limit = _mm256_set1_epi8((char)ports);
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int32_t k = 0; k < cycles; k++) {
        low = _mm256_max_epu8(low, _mm256_loadu_si256((const __m256i*)(asked + KB_BANKS * k)));
        high = _mm256_max_epu8(high, _mm256_loadu_si256((const __m256i*)(asked + KB_BANKS * k + 32)));
    }
    low = _mm256_subs_epu8(_mm256_max_epu8(low, high), limit);
    if (_mm256_testz_si256(low, low)) return cycles;
    for (int32_t k = 0; k < cycles; k++) {
        low = _mm256_loadu_si256((const __m256i*)(asked + KB_BANKS * k));
        high = _mm256_loadu_si256((const __m256i*)(asked + KB_BANKS * k + 32));
        low = _mm256_subs_epu8(_mm256_max_epu8(low, high), limit);
        if (!_mm256_testz_si256(low, low)) return k;
    }
    return cycles;
}

/* `count_grants`: as many cycles as bytes can count. */
__attribute__((target("avx2"))) static void kb_count_grants_avx2(uint8_t* asked, int32_t cycles, int64_t* count, int32_t banks) {
    const __m256i none = _mm256_setzero_si256();
    __m256i low = none, high = none;
    uint8_t grants[KB_BANKS];
    for (int32_t k = 0; k < cycles; k++, asked += KB_BANKS) {
        low = _mm256_add_epi8(low, _mm256_loadu_si256((const __m256i*)asked));
        high = _mm256_add_epi8(high, _mm256_loadu_si256((const __m256i*)(asked + 32)));
        _mm256_storeu_si256((__m256i*)asked, none);
        _mm256_storeu_si256((__m256i*)(asked + 32), none);
    }
    _mm256_storeu_si256((__m256i*)grants, low);
    _mm256_storeu_si256((__m256i*)(grants + 32), high);
    for (int32_t b = 0; b < banks; b++) count[b] += grants[b];
}

/* a / b for integers below 2^52, rounded down. */
__attribute__((target("avx2"))) static inline __m256d kb_quotient_avx2(__m256d a, __m256d b) {
    return _mm256_floor_pd(_mm256_div_pd(a, b));
}

/* `repace_eight` of fast/lane_rates.pyx, for the first four lanes from `g` on. `terms` has the terms of each route, `size` numbers apart. All
   numbers are integers below 2^52, which are exact as doubles. */
__attribute__((target("avx2"))) static inline void kb_repace_four_avx2(int32_t* g, __m128i which, int32_t now, int32_t line,
                                                                       const int32_t* terms, int64_t size) {
#define KB_FOUR(field) _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i*)(g + (field))))
#define KB_TERMS(lane) _mm_loadu_si128((const __m128i*)(terms + g[KB_ROUTE + lane] * size))
#define KB_SET_FOUR(field, to) \
    _mm_storeu_si128((__m128i*)(g + (field)), _mm_blendv_epi8(_mm_loadu_si128((const __m128i*)(g + (field))), to, which))
    const __m128i r0 = KB_TERMS(0), r1 = KB_TERMS(1), r2 = KB_TERMS(2), r3 = KB_TERMS(3);
    const __m128i a = _mm_unpacklo_epi32(r0, r1), b = _mm_unpacklo_epi32(r2, r3);
    const __m128i c = _mm_unpackhi_epi32(r0, r1), d = _mm_unpackhi_epi32(r2, r3);
    const __m128i new_num = _mm_unpacklo_epi64(a, b), new_den = _mm_unpackhi_epi64(a, b);
    const __m256d one = _mm256_set1_pd(1), begin = _mm256_set1_pd(now), bytes = _mm256_set1_pd(line);
    const __m256d num = _mm256_cvtepi32_pd(new_num), den = _mm256_cvtepi32_pd(new_den), before = KB_FOUR(KB_DEN), cost = bytes * den;
    const __m256d spent = (KB_FOUR(KB_AT) + one - begin) * KB_FOUR(KB_NUM);
    const __m256d credit = kb_quotient_avx2((KB_FOUR(KB_CARRY) + bytes * before - spent) * den, before);
    const __m256d waits = kb_quotient_avx2(cost - credit - one, num), carry = credit + (waits + one) * num - cost;
    const __m256d until = begin + waits + one + kb_quotient_avx2(KB_FOUR(KB_LINES) * cost - carry - one, num);
    KB_SET_FOUR(KB_AT, _mm256_cvttpd_epi32(begin + waits));
    KB_SET_FOUR(KB_CARRY, _mm256_cvttpd_epi32(carry));
    KB_SET_FOUR(KB_UNTIL, _mm256_cvttpd_epi32(_mm256_min_pd(until, _mm256_set1_pd(KB_FAR))));
    KB_SET_FOUR(KB_NUM, new_num);
    KB_SET_FOUR(KB_DEN, new_den);
    KB_SET_FOUR(KB_EVERY, _mm_unpacklo_epi64(c, d));
    KB_SET_FOUR(KB_REST, _mm_unpackhi_epi64(c, d));
#undef KB_FOUR
#undef KB_TERMS
#undef KB_SET_FOUR
}

/* The same for those of eight lanes that have a bit in `which`. */
__attribute__((target("avx2"))) static void kb_repace_avx2(int32_t* g, uint8_t which, int32_t now, int32_t line, const int32_t* terms,
                                                           int64_t size) {
    const __m256i bits = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    const __m256i lanes = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(which), bits), bits);
    if (which & 15) kb_repace_four_avx2(g, _mm256_castsi256_si128(lanes), now, line, terms, size);
    if (which & 240) kb_repace_four_avx2(g + 4, _mm256_extracti128_si256(lanes, 1), now, line, terms, size);
}

/* A byte for each eight lanes: those whose cycle is `now` or earlier. Fields of `n` structs, `size` numbers apart. */
__attribute__((target("avx2"))) static void kb_due_avx2(const int32_t* at, int64_t n, int64_t size, int32_t now, int8_t* due) {
    const __m256i next = _mm256_set1_epi32(now + 1);
    for (int64_t k = 0; k < n; k++, at += size)
        due[k] = (int8_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(next, kb_field_avx2(at))));
}

/* The smallest number of a field of `n` structs. */
__attribute__((target("avx2"))) static int32_t kb_least_avx2(const int32_t* field, int64_t n, int64_t size) {
    __m256i least = kb_field_avx2(field);
    for (int64_t k = 1; k < n; k++) least = _mm256_min_epi32(least, kb_field_avx2(field + k * size));
    least = _mm256_min_epi32(least, _mm256_permute2x128_si256(least, least, 1));
    least = _mm256_min_epi32(least, _mm256_shuffle_epi32(least, 0x4e));
    least = _mm256_min_epi32(least, _mm256_shuffle_epi32(least, 0xb1));
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(least));
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
