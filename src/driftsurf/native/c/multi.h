/* SAGA and SGD for several losses and any number of outputs K, for dense and CSR rows of float32 or float64.
   For dense rows w and G are (K, d + 1), for CSR rows (d + 1, K), line by line; the table has K numbers for each row. */

#ifndef DRIFTSURF_MULTI_H
#define DRIFTSURF_MULTI_H

#include "linear.h"

enum { DS_SOFTMAX = 0, DS_SQUARED = 1, DS_HUBER = 2, DS_SQUARED_HINGE = 3 };

typedef struct {
    int64_t kind;   /* one of the kinds above */
    double epsilon; /* width of Huber's loss */
    double shift;   /* added to the scores before they are compared with the targets */
    double reach;   /* largest step at a row, as a share of the step to its minimum; infinity: no limit */
} Loss;

/* Take one SAGA step for each row of `order`; return the number of rows drawn. `work` has room for 2 K numbers. */
int64_t ds_multi_saga(const Descent *model, int64_t steps, double mu, int64_t K, Loss loss, double *work);

/* Take the steps of two models on dense rows in turn, with a loss of each; `work` has room for 4 K numbers. The result
   is that of `ds_multi_saga` for one and for the other, in less time. */
void ds_multi_saga_both(Descent *one, Descent *two, int64_t steps, double mu, int64_t K, const Loss *losses,
                        double *work);

/* Take one SGD step for each row of `order`; only `model.w` is used and changed. */
void ds_multi_sgd(const Descent *model, int64_t steps, double mu, int64_t K, Loss loss, double *work);

/* Subtract the gradients of rows from the sum G, of shape (d + 1, K) always; return how many of them were drawn. */
int64_t ds_multi_discharge(Rows rows, const double *table, double *G, int64_t K, Frame frame);

#endif
