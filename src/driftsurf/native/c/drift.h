/* Loops of the detection of drifts over the rows of a step. */

#ifndef DRIFTSURF_DRIFT_H
#define DRIFTSURF_DRIFT_H

#include "rows.h"

/* Write the loss of each row by its log-odds: 0, or the weight of its class, if they are on the wrong side of `shift`.
   `out` may be `margins`. */
void ds_weighted_errors(const double *margins, const double *y, int64_t n, double shift, double low, double high,
                        double *out);

enum { DS_BETS = 4 }; /* three alternatives, and one place more that fills a vector */

/* Follow CUSUMs over losses of 0 or 1; return the place of the first row after which one is above its bar, or -1.
   A loss adds `low` or `high` to a sum, which never falls below 0; `since` is the number of the first row since which
   it is positive, where the first loss has the number `row`. */
int64_t ds_cusum(const double *losses, int64_t n, const double low[DS_BETS], const double high[DS_BETS],
                 const double bars[DS_BETS], double sums[DS_BETS], double since[DS_BETS], double row);

/* Write mean and variance of each column of dense rows. */
void ds_column_moments(Rows rows, double *means, double *variances);

#endif
