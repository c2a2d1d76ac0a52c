/* Exponentials that loops contain: as functions of their own they would make every step save and restore its registers.
   ds_math.h has the exponential for every argument. */

#ifndef DRIFTSURF_EXPONENTIAL_H
#define DRIFTSURF_EXPONENTIAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 2^(i / 128) as the sum of two numbers; `low` is divided by `high`. */
typedef struct {
    double high, low;
} Power;
extern const Power ds_powers[128];

#define DS_LN2_HIGH 0x1.62e42fefa0000p-1 /* log 2 in two parts; multiples of the first by 15-bit integers are exact */
#define DS_LN2_LOW 0x1.cf79abc9e3b3ap-40
#define DS_TO_INTEGER 0x1.8p52 /* x + this - this is x rounded to an integer, which is in the last bits of the sum */

static inline uint64_t ds_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double ds_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x) 2^shift, for a result that is neither subnormal nor infinite and |x| < 746, to 0.51 units in the last place.
   With x = k log(2) / 128 + r, it is a power from the table times exp(r), where |r| < 0.0028. */
static inline double ds_exp_shifted(double x, int64_t shift) {
    const double shifted = x * 0x1.71547652b82fep+7 + DS_TO_INTEGER; /* 128 / log 2 */
    const uint64_t bits = ds_bits(shifted);
    const double k = shifted - DS_TO_INTEGER;
    const double r = (x - k * (DS_LN2_HIGH / 128.0)) - k * (DS_LN2_LOW / 128.0);
    const Power power = ds_powers[bits & 127u];
    const double scale = ds_from_bits(ds_bits(power.high) + ((bits >> 7) << 52) + ((uint64_t)shift << 52));
    const double square = r * r;
    const double rest = (power.low + r) + square * (1.0 / 2 + r * (1.0 / 6)) +
                        square * square * (1.0 / 24 + r * (1.0 / 120));
    return scale + scale * rest;
}

/* 1 / (1 + exp(x)) for every x, NaN included, for which it is close to 0. */
static inline double ds_sigmoid_of_minus(double x) {
    if (__builtin_expect(!(fabs(x) <= 700.0), 0)) /* a branch, which is foreseen: the next step waits for the result */
        x = x < -700.0 ? -700.0 : 700.0;
    return 1.0 / (1.0 + ds_exp_shifted(x, 0));
}

/* exp(-x) for x >= 0, without table or branch, so that a loop over independent rows becomes vectors; to 1.02 units in
   the last place. With x = k log 2 + r and |r| <= log(2) / 2, the series of exp(-r) converges fast. 0 beyond 708. */
static inline double ds_exp_of_minus(double x) {
    const double most = x < 708.0 ? x : 708.0; /* also if x is NaN */
    const double shifted = most * 0x1.71547652b82fep+0 + DS_TO_INTEGER; /* 1 / log 2 */
    const double k = shifted - DS_TO_INTEGER;
    const double r = k * DS_LN2_LOW - (most - k * DS_LN2_HIGH); /* minus the rest */
    const double scale = ds_from_bits((UINT64_C(1023) - ds_bits(shifted)) << 52);
    const double square = r * r;
    const double fourth = square * square;
    const double a = (1.0 / 2 + r * (1.0 / 6)) + square * (1.0 / 24 + r * (1.0 / 120));
    const double b = (1.0 / 720 + r * (1.0 / 5040)) + square * (1.0 / 40320 + r * (1.0 / 362880));
    const double c = (1.0 / 3628800 + r * (1.0 / 39916800)) + square * (1.0 / 479001600 + r * (1.0 / 6227020800.0));
    const double value = scale * (1.0 + (r + square * (a + fourth * (b + fourth * c))));
    return x < 708.0 ? value : 0.0;
}

/* log((1 + s) / (1 - s)) / s - 2, for |s| < 0.1716, given the square of s. */
static inline double ds_log_series(double square) {
    const double fourth = square * square;
    const double even = 2.0 / 5 + fourth * (2.0 / 9 + fourth * (2.0 / 13 + fourth * (2.0 / 17 + fourth * (2.0 / 21))));
    const double odd = 2.0 / 3 + fourth * (2.0 / 7 + fourth * (2.0 / 11 + fourth * (2.0 / 15 + fourth * (2.0 / 19 +
                       fourth * (2.0 / 23)))));
    return square * odd + fourth * even;
}

/* log(1 + x) for 0 <= x <= 1, without a branch. */
static inline double ds_log1p_of_share(double x) {
    const int above = x > 0.41421356237309503;
    const double f = above ? 0.5 * x - 0.5 : x; /* 1 + x = 2 (1 + f), or 1 + f */
    const double s = f / (2.0 + f);
    const double half = 0.5 * f * f;
    const double low = above ? DS_LN2_LOW : 0.0;
    return (above ? DS_LN2_HIGH : 0.0) - ((half - (s * (half + ds_log_series(s * s)) + low)) - f);
}

#endif
