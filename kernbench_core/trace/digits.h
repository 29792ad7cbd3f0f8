/* How a number is written (trace/text.pxd, trace/repeats.pxd). */
#ifndef KB_DIGITS_H
#define KB_DIGITS_H
#include <stdint.h>
#include <string.h>

/* 00 to 99. */
static const char kb_pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* The least number with more digits than that; 0 has one. */
static const uint64_t kb_tens[20] = {
    0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000,
    10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
    10000000000000000000u};

/* The number of digits of v. */
static inline int64_t kb_digits(uint64_t v) {
    int64_t n = (64 - __builtin_clzll(v | 1)) * 1233 >> 12;      /* 1233 / 4096 is a little more than log10 2 */
    return n + (v >= kb_tens[n]);
}

/* Eight digits of v < 10^8, the first in the lowest byte. The digits are computed side by side in one register: two numbers of four
 * digits, then four of two, then eight of one. A quotient is a product with a rounded reciprocal, which is exact for these numbers. */
static inline uint64_t kb_eight(uint64_t v) {
    uint64_t fours = v / 10000 | (v % 10000) << 32;
    uint64_t high = (fours * 10486 >> 20) & 0x0000007f0000007f;
    uint64_t twos = high | (fours - 100 * high) << 16;
    high = (twos * 103 >> 10) & 0x000f000f000f000f;
    return (high | (twos - 10 * high) << 8) + 0x3030303030303030;
}

static inline uint64_t kb_little(uint64_t bytes) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

/* Write the n last digits of v < 10^8 before `end`, and leave the 8 - n bytes before them as they are; n > 0. */
static inline void kb_put_last(char* end, uint64_t v, int64_t n) {
    uint64_t bytes, digits = UINT64_MAX << 8 * (8 - n);
    memcpy(&bytes, end - 8, 8);
    bytes = kb_little((kb_little(bytes) & ~digits) | (kb_eight(v) & digits));
    memcpy(end - 8, &bytes, 8);
}

/* Write v < 10^16, which has n digits, before `end`. The bytes before it are read, but not changed. */
static inline void kb_put_before(char* end, uint64_t v, int64_t n) {
    if (n > 8) {
        kb_put_last(end, v % 100000000, 8);
        v /= 100000000;
        n -= 8;
        end -= 8;
    }
    kb_put_last(end, v, n);
}
#endif
