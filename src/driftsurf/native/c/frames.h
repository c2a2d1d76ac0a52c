/* Frames of linear models: the centre and the size of each column, estimated from rows, and the change to another. */

#ifndef DRIFTSURF_FRAMES_H
#define DRIFTSURF_FRAMES_H

#include "rows.h"

/* The constants of learners/_linear.py. */
typedef struct {
    double cap, far, farthest, enough;
} FrameRules;

/* Return the k-th smallest value, counted from 0, and reorder the values so that no smaller one is behind it. */
double ds_select(double *values, int64_t n, int64_t k);

/* Median target of the rows of positive weight; NaN if there is none. `values` is scratch space of n numbers. */
double ds_median_target(const double *y, const double *weight, int64_t n, double *values);

/* Write the centre and the typical size of each column (0: not known yet). `work` is scratch space of 6 d numbers,
   `values` of as many numbers as there are rows. */
void ds_frame(Rows rows, const double *weight, int centred, FrameRules rules, int64_t most_passes, double *centre,
              double *sizes, double *work, double *values);

/* Move a model of shape (d + 1, K) to the frame with these centres and sizes, in place. */
void ds_reframe(double *W, double *G, int64_t d, int64_t K, double *factor, double *centre, const double *new_centre,
                const double *sizes, double smallest);

/* A quantile over the rows of positive weight of weight * |x|^2 in a frame; 1 if it is 0 or not finite. */
double ds_usual_norm(Rows rows, const double *weight, const double *factor, const double *centre, double quantile,
                     double *values);

/* Write the weights (d + 1, K) for columns and targets that are not centred: the intercept takes over what was
   subtracted. */
void ds_uncentre(const double *W, int64_t d, int64_t K, const double *centre, double target, double *out);

#endif
