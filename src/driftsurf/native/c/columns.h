/* Values of rows: ranges and limits of columns, and checks. */

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

#endif
