/* Experts of a portfolio that are not linear, and what weighs experts: naive Bayes, a perceptron, stacking, votes. */

#ifndef DRIFTSURF_EXPERTS_H
#define DRIFTSURF_EXPERTS_H

#include "rows.h"

/* ---------------------------------------------------------------------------------------- moments and naive Bayes */

/* Counts, means and summed squared deviations of columns by group of rows: arrays (groups) and (groups, d). */
typedef struct {
    double *count;
    double *mean;
    double *squares;
} Moments;

/* Moments of rows alone; row i is in group[i], a whole number, or all are in group 0 if `group` is NULL. Values are limited to 1e100,
   so that sums of their squares stay finite. */
void ds_moments(Rows rows, const double *weight, const double *group, int64_t groups, Moments out);

/* Moments of the rows of both; `out` may be `one` (the update of Chan, Golub and LeVeque). */
void ds_merge_moments(Moments one, Moments other, int64_t groups, int64_t d, Moments out);

/* Mean and reciprocal standard deviation of the columns of one group: the factor of a constant column is 0. Without
   `centred`, the centre is 0. */
void ds_standardise(Moments moments, int64_t d, int centred, double *centre, double *factor);

/* What the densities of naive Bayes follow from: means and reciprocal standard deviations (K, d), and the score of each
   class at its mean (K). */
void ds_bayes(Moments moments, int64_t K, int64_t d, double smoothing, double *mean, double *factor, double *start);

/* Log-densities out[i, k] = start[k] - sum_c ((x_ic - mean_kc) factor_kc)^2 / 2; standardised values are limited to 1e6,
   so that their squares and sums stay finite. */
void ds_densities(Rows rows, int64_t K, const double *mean, const double *factor, const double *start, double *out);

/* ---------------------------------------------------------------------------------------------------- perceptron */

/* A network with one hidden layer. `theta` holds the weights of the first layer (d, H), its intercepts (H), the weights
   of the second layer (H, K) and its intercepts (K). `m`, `v` and `g` have the same shape: Adam's moments and the
   gradient, which is 0 before and after training. Values are centred, scaled, and limited to 10 where they are read.
   Parameters are float32, which the processor handles twice as many of at a time. */
typedef struct {
    int64_t H;
    int64_t K;
    int64_t is_classes; /* whether targets are codes of classes, or standardised numbers */
    const double *centre;
    const double *factor;
    float *theta;
    float *m;
    float *v;
    float *g;
    float *x;      /* room for a row */
    float *work;   /* (3, max(H, K)) */
    int64_t *last; /* CSR rows: marks of the columns of a step, 0 before training */
} Network;

/* Take one step of Adam for every `size` rows of `order`; return the number of steps so far. With CSR rows, which must
   not be centred, a step updates only the first-layer weights of columns that occur in its rows, and the moments of the
   others wait: a step takes as long as the rows have values. */
int64_t ds_train_network(Labelled set, const int64_t *order, int64_t visits, int64_t size, double rate, int64_t step,
                         Network net);

/* Outputs (n, K) of rows: log-odds of classes before the softmax, or standardised numbers. */
void ds_network_outputs(Rows rows, Network net, double *out);

/* ------------------------------------------------------------------------------------------------------- stacking */

/* Write what stacking takes from one of `experts` experts to G (n, K, 2 experts): the logarithms of its probabilities,
   none of which is near 0, at `place`, and its votes at `experts` + `place`. `scores` are margins (n) if `columns` is 0,
   otherwise log-probabilities (n, columns). Classes of equal probability share the vote of a row. */
void ds_expert_shares(const double *scores, int64_t n, int64_t columns, int64_t K, int64_t place, int64_t experts,
                      double *G);

/* Log-probabilities (K) of the label after `last`, given how often each of `known` classes came after each (known,
   known): the shares of all labels count as one row more, and equal shares as one row more of these. */
void ds_chain_scores(const double *counts, int64_t known, int64_t last, int64_t K, double *out);

/* Log-probabilities (n, K) of the mixture of M parts with these weights. */
void ds_mix(const double *G, int64_t n, int64_t K, int64_t M, const double *weights, double *out);

/* Working memory of stacking M parts. */
typedef struct {
    double *H;    /* (M, M): the curvature of the loss of the batch at the last point */
    double *Q;    /* (M, M) */
    double *work; /* (M + 6, M) */
    double *p;    /* K classes; NULL for numbers */
} Stacking;

/* Weights u of log-linear stacking, p(c | x_i) proportional to exp(sum_k u_k G[i, c, k]), after one batch with the
   codes y: they minimise the sum of -log p(y_i | x_i) plus (u - v)' A (u - v) / 2 over u >= 0. Returns whether all went
   well; if not, u may be anywhere. */
int ds_stack_classes(const double *G, const double *y, const double *weight, int64_t n, int64_t K, int64_t M,
                     const double *v, const double *A, double *u, Stacking room);

/* Weights u of a convex mixture of predictions m (n, M) after one batch, u >= 0 with the sum 1: they minimise the sum of
   the squared errors of the mixture in units of s, halved, plus (u - v)' A (u - v) / 2. Errors of experts count up to
   5 units, so that a row has bounded evidence. Returns as `ds_stack_classes`. */
int ds_stack_values(const double *m, const double *y, const double *weight, int64_t n, int64_t M, double s,
                    const double *v, const double *A, double *u, Stacking room);

/* Write the curvature that is remembered of A and of that of a batch, H: the share `keep` of both, and `ridge` for the
   rest. Returns 0 if the weights u or H are not finite or beyond 1e12. */
int ds_remember(const double *u, const double *H, int64_t M, double keep, double ridge, const double *A, double *out);

/* ---------------------------------------------------------------------------------------------------------- votes */

/* Probability of the true of two classes: out[i] = 1 / (1 + exp(-s_i margin_i)), s = 2y - 1. */
void ds_true_class_shares(const double *margins, const double *y, int64_t n, double *out);

/* Mean squared errors of the probabilities that voters give to the true of two classes, out[k] for row k of `margins`:
   the weighted mean of (1 - p)^2. Returns the error of guessing by the class shares s, the sum of s (1 - s)^2. `values`
   is room for a number per row. Sums have the order of numpy.sum. */
double ds_rate_voters(const double *margins, const double *y, const double *weight, int64_t voters, int64_t n,
                      double *values, double *out);

/* Balance of a weighted vote: out[i] is the weight of the positive margins minus that of the others. */
void ds_balance_of_votes(const double *margins, const double *weights, int64_t voters, int64_t n, double *out);

/* Vote on each row with weights that are updated by exponential decay after it (Candor). `logs` holds the logarithms of
   the weights and is updated; balance[j] is the vote on row j, from -1 to 1, with the weights before that row. Only
   ratios of weights matter, so the largest logarithm is shifted to 0, and the weights never all underflow. */
void ds_follow_losses(const double *margins, const double *losses, const double *weight, int64_t voters, int64_t n,
                      double decay, double *logs, double *balance);

#endif
