/* Scores of rows by linear models. Weights have the intercept last. */

#ifndef DRIFTSURF_SCORES_H
#define DRIFTSURF_SCORES_H

#include "rows.h"

/* Margins of one model: out[i] = w . x_i + intercept. */
void ds_margins(Rows rows, const double *w, double *out);

/* Margins of several models: out[k, i] = w_k . x_i + intercept of k; the weights are (models, d + 1). */
void ds_margins_of_all(Rows rows, const double *weights, int64_t models, double *out);

/* Scores of all outputs, out (n, K). The weights are (K, d + 1) for dense rows and (d + 1, K) for CSR rows. Unless
   `limits` (2, d) is NULL, each value is limited to the range of its column. Zeros of CSR rows are not looked at. */
void ds_outputs(Rows rows, const double *W, int64_t K, double *out, const double *limits);

/* Replace the scores of each row (n, K) by the logarithms of their softmax, in place. */
void ds_log_softmax(double *z, int64_t n, int64_t K);

#endif
