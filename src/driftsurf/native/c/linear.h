/* Logistic regression: SAGA and SGD, for dense and CSR rows of float32 or float64. */

#ifndef DRIFTSURF_LINEAR_H
#define DRIFTSURF_LINEAR_H

#include "rows.h"

/* What the gradient steps of one model work on. `offset` (one number for each row, added to its margin) may be NULL. */
typedef struct {
    Labelled set;         /* sample set; `order` and `table` count from its first row */
    const int64_t *order; /* row of each step */
    Model model;
    int64_t drawn; /* rows drawn at least once */
    double eta;
    Frame frame;
    const double *offset;
} Descent;

/* Take one SAGA step for each row of `order`; return the number of rows drawn at least once. */
int64_t ds_saga(const Descent *model, int64_t steps, double mu);

/* Train two models on dense rows with `ds_saga` in turn, step by step: the same bits as one after the other, in less
   time. Both `drawn` are updated. */
void ds_saga_both(Descent *one, Descent *two, int64_t steps, double mu);

/* Take one SGD step for each row of `order`; only `model.w` is used and changed. */
void ds_sgd(const Descent *model, int64_t steps, double mu);

/* Subtract the gradients of rows from the sum G; return how many of them were drawn. */
int64_t ds_discharge(Rows rows, const double *table, double *G, Frame frame);

#endif
