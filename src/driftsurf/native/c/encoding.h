/* Encoded rows of tables: their assembly column by column, the check of CSR rows, and sums over their columns. */

#ifndef DRIFTSURF_ENCODING_H
#define DRIFTSURF_ENCODING_H

#include "rows.h"

/* Write numbers to a column of `out`, which has `width` columns, with `fill` for NaN, whose rows become 1 in `missing`.
   Returns the number of missing values. */
int64_t ds_put_column(const double *values, int64_t n, double fill, int64_t place, int64_t width, double *out,
                      double *missing);

/* Columns of a table that become CSR rows. */
typedef struct {
    const double *values;  /* the value of each place (first axis) in each row */
    const int32_t *words;  /* columns that depend on the row */
    const int32_t *places; /* (4, n_places): the column of each place; the row of `words` that has its columns instead, or
                              -1; the place that marks its missing values, or -1; and whether it is such a mark, whose
                              values do not count */
    const double *fills;   /* what replaces a missing value (NaN) at each place */
    double *marks;         /* zeros for each place, which are zeros again afterwards */
    int64_t n_places;
    int64_t n;
} Places;

/* Write the values that are not 0, with their columns, as CSR rows; return their number, and in `infinite` how many of
   them are not finite. `data` and `indices` have room for all values. */
int64_t ds_assemble_rows(const Places *table, double *data, int32_t *indices, int64_t *indptr, int64_t *infinite);

/* Whether CSR rows can be used as they are: finite, and in each row columns that exist and rise. `stored` is the number
   of values and column numbers. */
int ds_is_sound_csr(Rows rows, int64_t stored);

/* Add, for each column c of CSR rows, its products with each of K targets and with itself to row c + 1 of `out`, which is
   (width, K + 1). Row 0 gets the sums of the targets and the number of rows, as a column of ones would. Columns beyond
   the rows of `out` are left out. */
void ds_column_products(Rows rows, const double *targets, int64_t K, int64_t width, double *out);

#endif
