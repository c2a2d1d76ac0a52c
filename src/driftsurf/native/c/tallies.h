/* Counts over the scores of a step: confusion of two classes, bins of scores and of probabilities, and the ROC AUC. */

#ifndef DRIFTSURF_TALLIES_H
#define DRIFTSURF_TALLIES_H

#include <stdint.h>

/* Counts of rows of two classes. Codes that are not known are counted as -1. */
typedef struct {
    int64_t *pairs;  /* (known + 1, known + 1): rows by true and predicted code, both plus 1 */
    int64_t *scores; /* (2, bins): rows of other classes, and of the second one, by bins of margins */
    int64_t *hits;   /* (2, share_bins): the same by bins of probabilities. A row with a probability of exactly 0.5 is with
                        the other rows of the same prediction */
    double *sums;    /* (share_bins): sum of the probabilities in each bin */
    int64_t known, bins, share_bins;
    double largest; /* margins beyond this, and below its negative, are in the outermost bins */
} Tally;

/* Count rows by their margins (log-odds) and by the probabilities of the second class. Returns 0 if a probability is not
   a number: then the counts mean nothing. */
int ds_tally_margins(const double *margins, const double *shares, const int64_t *actual, const int64_t *predicted,
                     int64_t n, Tally tally);

/* Mean ROC AUC of classes from counts (classes, 2, bins) of other rows and own rows by bins of scores; scores in the same
   bin count half. Classes without own rows, or without others, are left out; NaN without any. */
double ds_mean_auc(const int64_t *counts, int64_t classes, int64_t bins);

#endif
