/* Differences of one key from a shared prediction: a few linear corrections of its score, which differ in how large
   they are expected to be, averaged with the shared prediction by how well each has predicted the key's rows. */

#ifndef DRIFTSURF_DIFFERENCE_H
#define DRIFTSURF_DIFFERENCE_H

#include <stdint.h>

enum { DS_MOST_WIDTHS = 8, DS_FULL_COLUMNS = 32 };

typedef struct {
    int64_t d;         /* columns of a row, without the constant */
    int64_t outputs;   /* 1 for a margin or a number, otherwise one for each class */
    int64_t widths;    /* number of corrections */
    int regression;
    double width[DS_MOST_WIDTHS]; /* standard deviation of the weights of each correction before the first row */
    double forget;     /* share of the evidence about weights that remains after a row */
    double recall;     /* share of the record of predictions that remains after a row */
} DifferenceRules;

/* Numbers that a key takes: the record of the shared prediction and of each correction, and for each correction the
   weights of each output and the covariance of weights (only variances from DS_FULL_COLUMNS columns on). */
int64_t ds_difference_size(const DifferenceRules *rules);

void ds_begin_difference(const DifferenceRules *rules, float *key);

/* Numbers of working memory that a row needs. */
int64_t ds_difference_work(const DifferenceRules *rules);

/* Predict one row, and learn it unless `target` is NaN. A missing value of the row counts as 0.

   `shared` is what the shared model predicts: the log-odds of the second of two classes; the log-probabilities of
   `outputs` classes, below -1e200 for a class that it does not know; or a number, and the usual size of its error behind
   it. Writes the probability of the second class, of each class, or the number to `out`. A class that is added, with
   weights of 0 and unknown to the shared model, changes no bit. */
void ds_difference_row(const DifferenceRules *rules, float *key, const double *row, const double *shared, double target,
                       double weight, double *out, double *work);

#endif
