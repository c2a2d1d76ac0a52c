/* Values of rows and sums over them, written once for float32 and float64: `single` is a constant at every call, so that
   a loop is compiled for each type. Sums have eight parts, whose order is the same for every compiler. */

#ifndef DRIFTSURF_VALUES_H
#define DRIFTSURF_VALUES_H

#include "rows.h"

#define DS_INLINE static inline __attribute__((always_inline))

DS_INLINE double ds_value(const void *values, int64_t at, int single) {
    return single ? (double)((const float *)values)[at] : ((const double *)values)[at];
}

/* The values from place `at` on. */
DS_INLINE const void *ds_from(const void *values, int64_t at, int single) {
    return single ? (const void *)((const float *)values + at) : (const void *)((const double *)values + at);
}

/* Sum of eight parts, in their fixed order. */
DS_INLINE double ds_sum8(const double s[8]) {
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Dot product of w and a dense row. */
DS_INLINE double ds_dot(const double *restrict w, const void *restrict row, int64_t d, int single) {
    if (d < 8) {
        double total = 0.0;
        for (int64_t c = 0; c < d; c++) total += w[c] * ds_value(row, c, single);
        return total;
    }
    double s[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= d; c += 8)
        for (int64_t j = 0; j < 8; j++) s[j] += w[c + j] * ds_value(row, c + j, single);
    for (int64_t j = 0; c + j < d; j++) s[j] += w[c + j] * ds_value(row, c + j, single);
    return ds_sum8(s);
}

/* Dot product of w and the values a to b of CSR rows. */
DS_INLINE double ds_dot_csr(const double *restrict w, const void *restrict values, const int32_t *restrict indices,
                            int64_t a, int64_t b, int single) {
    double s[4] = {0.0};
    int64_t p = a;
    for (; p + 4 <= b; p += 4)
        for (int64_t j = 0; j < 4; j++) s[j] += w[indices[p + j]] * ds_value(values, p + j, single);
    for (int64_t j = 0; p + j < b; j++) s[j] += w[indices[p + j]] * ds_value(values, p + j, single);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* Squared norm of factor * (x - centre) of a dense row. */
DS_INLINE double ds_squared_norm(const double *restrict factor, const double *restrict centre, const void *restrict row,
                                 int64_t d, int single) {
    double s[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= d; c += 8)
        for (int64_t j = 0; j < 8; j++) {
            const double value = factor[c + j] * (ds_value(row, c + j, single) - centre[c + j]);
            s[j] += value * value;
        }
    for (int64_t j = 0; c + j < d; j++) {
        const double value = factor[c + j] * (ds_value(row, c + j, single) - centre[c + j]);
        s[j] += value * value;
    }
    return ds_sum8(s);
}

/* A value limited to the range from low to high; NaN stays NaN. */
DS_INLINE double ds_limited(double value, double low, double high) {
    value = value < low ? low : value;
    return value > high ? high : value;
}

#endif
