/* What the loops of the native core work on: rows of values, their targets and weights, and linear models. */

#ifndef DRIFTSURF_ROWS_H
#define DRIFTSURF_ROWS_H

#include <stdint.h>

/* Rows of values. Dense rows stand one after the other in `values`; CSR rows have `indices` and `indptr`, and row i has
   the values from indptr[i] to indptr[i + 1]. Column numbers in a row are in rising order. */
typedef struct {
    const void *values;
    const int32_t *indices; /* NULL for dense rows */
    const int64_t *indptr;  /* NULL for dense rows */
    int64_t n;              /* number of rows */
    int64_t d;              /* number of columns */
    int64_t is_single;      /* whether values are float32, otherwise float64 */
} Rows;

/* Rows with their targets (class codes, or numbers) and weights. */
typedef struct {
    Rows rows;
    const double *y;
    const double *weight;
} Labelled;

/* Coordinates in which a linear model learns: see linear.h. */
typedef struct {
    const double *gain;     /* d + 1 */
    const double *centre;   /* d, or more */
    const int64_t *centred; /* columns whose centre is not 0 */
    int64_t n_centred;
} Frame;

/* Arrays of a linear model that SAGA trains: weights, sum of the gradients in the table, and the table. */
typedef struct {
    double *w;
    double *G;
    double *table;
} Model;

#endif
