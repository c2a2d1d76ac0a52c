/* Values of rows: norms, ranges and limits of columns, and checks. */

#ifndef DRIFTSURF_COLUMNS_H
#define DRIFTSURF_COLUMNS_H

#include "rows.h"

/* Largest value of a column: `most` times its size, which is total / mass; infinity without mass. */
static inline double ds_limit_of(double total, double mass, double most) {
    return mass > 0.0 ? most * (total / mass) : __builtin_inf();
}

/* Extend the range of each column by rows of positive weight; return how many of them did. A first range has low[0] at
   infinity. For CSR rows a value of 0 that a row does not store belongs to the range. */
int64_t ds_extend_range(Rows rows, const double *weight, double *low, double *high);

/* Squared norms of rows in a frame, whose factor is (d + 1): out[i] = sum of (factor * (x_i - centre))^2, with the
   constant column. */
void ds_squared_norms(Rows rows, const double *factor, const double *centre, double *out);

/* Whether no value is NaN or infinite. */
int ds_all_finite(const void *values, int64_t n, int single);

/* Whether every value is from `least` to `most`, or NaN where values may be `missing`. */
int ds_all_between(const void *values, int64_t n, double least, double most, int missing, int single);

/* Whether every value is the code of a class, an integer from 0 to n_classes - 1. */
int ds_are_codes(const double *values, int64_t n, int64_t n_classes);

/* Write the largest value of each column, repeated until `out`, of `length` numbers, is full. */
void ds_column_limits(const double *total, const double *mass, int64_t d, double most, int64_t length, double *out);

/* Smallest and largest value of positive weight, or of all if `weight` is NULL; infinity and -infinity if there is
   none. */
void ds_range_of_weighted(const double *values, const double *weight, int64_t n, double *low, double *high);

/* Whether every value is finite and at most `most` of its column in absolute value. For dense rows `most` may hold the
   limits of the columns `repeats` times: as many rows are then read as one, because long loops are faster. */
int ds_all_within(Rows rows, const double *most, int64_t repeats);

/* Copy values to others, which may have another type; return whether all of the copies are finite. */
int ds_copy_finite(void *out, int to_single, const void *values, int single, int64_t n);

/* Write the values of all rows to `out`, which may be those of the first row, each limited to the range -most to most of
   its column. */
void ds_clip(Rows rows, const double *most, void *out);

#endif
