/* Losses of rows, and sums over rows, each in a fixed order. */

#ifndef DRIFTSURF_LOSSES_H
#define DRIFTSURF_LOSSES_H

#include <stdint.h>

/* Logistic losses out[i] = log(1 + exp(-s_i margin_i)), s = 2y - 1. `out` must not be `margins`. */
void ds_logistic_losses(const double *margins, const double *y, int64_t n, double *out);

/* Losses of rows for the losses of one score in multi.h; `epsilon` is that of Huber's. */
void ds_output_losses(const double *scores, const double *y, int64_t n, int64_t kind, double epsilon, double *out);

/* Squared length of weights / factor, over the entries whose factor is not 0. */
double ds_squared_length(const double *weights, const double *factor, int64_t n);

/* Write what each row adds to the evidence about a regression to out (4, n); return the number of rows with a weight. */
int64_t ds_evidence_terms(const double *predicted, const double *y, const double *weight, double mean, int64_t n,
                          double *out);

/* Sum in the order of numpy.sum. */
double ds_pairwise_sum(const double *values, int64_t n);

/* Largest absolute value, starting from `size`; infinite if a value is NaN. */
double ds_largest(double size, const double *values, int64_t n);

/* Sums of weight * value and, in `mass`, of weight; the value of a row with weight 0 may be NaN. */
double ds_weighted_sum(const double *values, const double *weight, int64_t n, double *mass);

#endif
