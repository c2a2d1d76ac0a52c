#include "ds_math.h"

#include "exponential.h"

const Power ds_powers[128] = {
#include "powers.inc"
};

#define SQRT_HALF 0.70710678118654752

/* A sum of two numbers, the second of which is smaller than the last place of the first. */
typedef struct {
    double high, low;
} Pair;

/* The exact sum of two numbers. */
static Pair sum_of(double a, double b) {
    const double high = a + b;
    const double b_of_it = high - a;
    return (Pair){high, (a - (high - b_of_it)) + (b - b_of_it)};
}

/* The exact product of two numbers below 2^990: each is split into halves whose products are exact. */
static Pair product_of(double a, double b) {
    const double high = a * b;
    const double a_scaled = a * 134217729.0, b_scaled = b * 134217729.0; /* 2^27 + 1 */
    const double a_high = a_scaled - (a_scaled - a), b_high = b_scaled - (b_scaled - b);
    const double a_low = a - a_high, b_low = b - b_high;
    return (Pair){high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

/* Split a positive finite number into m 2^k with m from sqrt(1/2) to sqrt(2), and return m. */
static double split(double x, double *k) {
    double shift = 0.0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        shift = -54.0;
    }
    const uint64_t bits = ds_bits(x) - ds_bits(SQRT_HALF) + ds_bits(1.0); /* the exponent of x / sqrt(1/2) */
    const int64_t exponent = (int64_t)(bits >> 52) - 1023;
    *k = (double)exponent + shift;
    return ds_from_bits(ds_bits(x) - ((uint64_t)exponent << 52));
}

double ds_exp(double x) {
    if (fabs(x) <= 700.0) return ds_exp_shifted(x, 0);
    if (x != x) return x;
    if (x > 709.7827128933841) return INFINITY;
    if (x < -745.1332191019412) return 0.0;
    return x > 0.0 ? ds_exp_shifted(x, -64) * 0x1p64 : ds_exp_shifted(x, 64) * 0x1p-64;
}

/* log(1 + f) + k log 2 + low, for 1 + f from sqrt(1/2) to sqrt(2). */
static double log_of(double f, double k, double low) {
    const double s = f / (2.0 + f);
    const double half = 0.5 * f * f;
    return k * DS_LN2_HIGH - ((half - (s * (half + ds_log_series(s * s)) + (k * DS_LN2_LOW + low))) - f);
}

double ds_log(double x) {
    if (!(x > 0.0 && x < INFINITY)) return x == 0.0 ? -INFINITY : x > 0.0 ? x : NAN;
    double k;
    const double m = split(x, &k);
    return log_of(m - 1.0, k, 0.0);
}

double ds_log1p(double x) {
    if (!(x > -1.0 && x < INFINITY)) return x == -1.0 ? -INFINITY : x > 0.0 ? x : NAN;
    if (fabs(x) < 0x1p-54) return x; /* with its sign, if it is 0 */
    if (x > SQRT_HALF - 1.0 && x < 0.41421356) return log_of(x, 0.0, 0.0);
    const double sum = 1.0 + x;
    const double lost = x >= 1.0 ? 1.0 - (sum - x) : x - (sum - 1.0);
    double k;
    const double m = split(sum, &k);
    return log_of(m - 1.0, k, lost / sum);
}

/* The logarithm of a positive finite number, to about 60 bits. */
static Pair precise_log(double x) {
    double k;
    const double f = split(x, &k) - 1.0;
    const Pair below = sum_of(2.0, f);
    const double s = f / below.high;
    const Pair back = product_of(s, below.high);
    const double rest = (((f - back.high) - back.low) - s * below.low) / below.high; /* f / (2 + f) = s + rest */
    const Pair most = sum_of(k * DS_LN2_HIGH, 2.0 * s);
    const double low = most.low + (2.0 * rest + s * ds_log_series(s * s) + k * DS_LN2_LOW);
    const double high = most.high + low;
    return (Pair){high, (most.high - high) + low};
}

double ds_pow(double base, double exponent) {
    if (exponent == 0.0 || base == 1.0) return 1.0;
    if (base != base || exponent != exponent) return NAN;
    const double size = fabs(base);
    const int is_whole = ds_floor(exponent) == exponent;
    const int is_odd = is_whole && fabs(exponent) < 0x1p53 && ((int64_t)exponent & 1);
    const double sign = ds_bits(base) >> 63 && is_odd ? -1.0 : 1.0;
    if (base < 0.0 && size < INFINITY && !is_whole) return NAN;
    if (size == 1.0) return sign;
    if (fabs(exponent) > 0x1p64) return (size > 1.0) == (exponent > 0.0) ? INFINITY : 0.0;
    if (size == 0.0 || size == INFINITY) return (size > 0.0) == (exponent > 0.0) ? sign * INFINITY : sign * 0.0;
    const Pair log = precise_log(size);
    const Pair power = product_of(log.high, exponent);
    const double low = power.low + log.low * exponent;
    if (fabs(power.high) > 746.0) return power.high > 0.0 ? sign * INFINITY : sign * 0.0;
    const double result = ds_exp(power.high);
    return sign * (result < INFINITY ? result + result * low : result);
}

/* x minus its nearest multiple of pi / 2, as a pair; `quarter` receives the last two bits of the multiple.
   The parts of pi / 2 have 33 bits, so that their multiples are exact for |x| < 2^20. */
static Pair reduced(double x, uint64_t *quarter) {
    const double shifted = x * 0x1.45f306dc9c883p-1 + DS_TO_INTEGER; /* 2 / pi */
    const double k = shifted - DS_TO_INTEGER;
    *quarter = ds_bits(shifted) & 3u;
    const Pair first = sum_of(x - k * 0x1.921fb544p+0, -k * 0x1.0b4611a6p-34);
    const Pair all = sum_of(first.high, first.low - k * 0x1.3198a2e037073p-69);
    return all;
}

/* sin(r) for |r| <= pi / 4. */
static double sine(Pair r) {
    const double x = r.high, z = x * x;
    const double series = 1.0 / 120 - z * (1.0 / 5040 - z * (1.0 / 362880 - z * (1.0 / 39916800 -
                          z * (1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0 - z * (1.0 / 355687428096000.0))))));
    return x + (x * z * (z * series - 1.0 / 6) + r.low * (1.0 - 0.5 * z));
}

/* cos(r) for |r| <= pi / 4. */
static double cosine(Pair r) {
    const double x = r.high, z = x * x;
    const double series = 1.0 / 24 - z * (1.0 / 720 - z * (1.0 / 40320 - z * (1.0 / 3628800 - z * (1.0 / 479001600 -
                          z * (1.0 / 87178291200.0 - z * (1.0 / 20922789888000.0 - z * (1.0 / 6402373705728000.0)))))));
    const double half = 0.5 * z, high = 1.0 - half;
    return high + (((1.0 - high) - half) + (z * z * series - x * r.low));
}

/* sin(x + turns pi / 2). */
static double turned(double x, uint64_t turns) {
    if (!(fabs(x) < 0x1p20)) return NAN;
    uint64_t quarter;
    const Pair r = reduced(x, &quarter);
    quarter += turns;
    const double value = quarter & 1u ? cosine(r) : sine(r);
    return quarter & 2u ? -value : value;
}

double ds_sin(double x) { return x == 0.0 ? x : turned(x, 0); }
double ds_cos(double x) { return turned(x, 1); }
