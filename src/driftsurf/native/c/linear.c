/* The gradient of a linear model at row i is a scalar times the row, so that SAGA's table of gradients has one number
   for each row: table[i] is the gradient alpha of row i when it was last drawn, NaN if it never was. G is the sum of
   the gradients in the table, so that their average is A = G / (number of rows drawn). The step size is eta, mu the L2
   factor, g the new gradient of a row.

   Columns of different sizes make gradient descent slow. The usual remedy, to divide each column by its scale and to
   subtract its centre, would mean to copy all rows again whenever an estimate of either changes. Here rows stay as they
   are, and the model has a frame instead: `centre` is subtracted from each column where a row is read, and `gain`
   multiplies the gradient of each column. With gain = 1 / scale^2, the vector u = w scale takes exactly the steps that
   it would take on columns x / scale, since u . (x / scale) = w . x, and a step of u by g x / scale is one of w by
   g x / scale^2. The last gain is that of the intercept: 1, or 0 for a model without one.

   An offset is added to the margin of each row: a model that is regularised towards an anchor p instead of the origin
   learns u = w - p, and the offset of a row is p . x. */

#include "linear.h"

#include "descent.h"
#include "exponential.h"
#include "processor.h"

/* Derivative of weight * log(1 + exp(-s * margin)) by the margin, where s = 2y - 1. There is no branch, because the
   processor would have to wait for the margin to predict it. A row whose values overflow has weight 0 and a margin of
   NaN, and its gradient is 0. */
static inline double gradient_of(double margin, double y, double weight) {
    const double s = 2.0 * y - 1.0;
    return -weight * s * ds_sigmoid_of_minus(s * margin);
}

/* The gradient in the table, or 0 for a row that was never drawn. A conditional expression would become one of g and the
   difference, which the next step would wait for. */
DS_INLINE double known_gradient(double alpha, int is_new) {
    return ds_from_bits(ds_bits(alpha) & ((uint64_t)is_new - 1));
}

/* The gradient at row i; `d` is known to the compiler where the caller knows it. */
DS_INLINE double dense_gradient(const Descent *model, const double *restrict w, int64_t d, int64_t i,
                                           int is_single) {
    const Labelled *set = &model->set;
    double margin = ds_centred_dot(set->rows.values, i, w, model->frame.centre, d, is_single) + w[d];
    if (model->offset) margin += model->offset[i];
    return gradient_of(margin, set->y[i], set->weight[i]);
}

/* One step at row i, whose gradient is g: w <- (1 - eta mu) w - eta (gain (g - alpha) x + A), alpha <- g, where x is the
   row minus the centre. Plain SGD follows g alone, whose noise never dies out, so that its step size has to shrink.
   SAGA subtracts the old gradient alpha of the row and adds the average A of all: the expectation stays the same, the
   noise vanishes as the model converges, and the step size can stay constant. A averages over the rows drawn so far,
   this one included with its old alpha, which is 0 if it was never drawn. */
DS_INLINE void dense_step(Descent *model, double *restrict w, double *restrict G, int64_t d, int64_t i,
                                     int is_single, double shrink, double g) {
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    const double eta = model->eta, alpha = model->model.table[i];
    const int is_new = alpha != alpha;
    model->drawn += is_new;
    model->model.table[i] = g;
    const double delta = g - known_gradient(alpha, is_new);
    const double average = eta / (double)model->drawn;
    for (int64_t c = 0; c < d; c++) {
        const double change = gain[c] * delta * (ds_value(model->set.rows.values, i * d + c, is_single) - centre[c]);
        w[c] = shrink * w[c] - average * G[c] - eta * change;
        G[c] += change;
    }
    const double last = gain[d] * delta;
    w[d] = shrink * w[d] - average * G[d] - eta * last;
    G[d] += last;
}

/* The steps of one model, or of two in turn. Each step waits for its sum and its exponential, which need the weights
   of the step before. Beside these the processor updates the other model. */
DS_INLINE void dense_steps(Descent *one, Descent *two, int64_t steps, double mu, int64_t d, int is_single) {
    double *restrict w = one->model.w, *restrict G = one->model.G;
    const double shrink = 1.0 - one->eta * mu;
    const int prefetched = one->set.rows.n * d > CACHED;
    if (!two) {
        for (int64_t j = 0; j < steps; j++) {
            if (prefetched && j + AHEAD < steps) ds_prefetch_dense(one, one->order[j + AHEAD], d, 1, is_single);
            const int64_t i = one->order[j];
            dense_step(one, w, G, d, i, is_single, shrink, dense_gradient(one, w, d, i, is_single));
        }
        return;
    }
    double *restrict w_2 = two->model.w, *restrict G_2 = two->model.G;
    const double shrink_2 = 1.0 - two->eta * mu;
    if (!steps) return;
    double g = dense_gradient(one, w, d, one->order[0], is_single);
    for (int64_t j = 0; j < steps; j++) {
        if (prefetched && j + AHEAD < steps) {
            ds_prefetch_dense(one, one->order[j + AHEAD], d, 1, is_single);
            ds_prefetch_dense(two, two->order[j + AHEAD], d, 1, is_single);
        }
        const int64_t i = one->order[j], i_2 = two->order[j];
        const double g_2 = dense_gradient(two, w_2, d, i_2, is_single);
        dense_step(one, w, G, d, i, is_single, shrink, g);
        if (j + 1 < steps) g = dense_gradient(one, w, d, one->order[j + 1], is_single);
        dense_step(two, w_2, G_2, d, i_2, is_single, shrink_2, g_2);
    }
}

/* Numbers of at most three columns and the intercept: fields and not an array, so that they stay in registers. */
typedef struct {
    double a, b, c, last;
} Few;

DS_INLINE Few few_of(const double *values, int64_t d, double last) {
    return (Few){values[0], d > 1 ? values[1] : 0.0, d > 2 ? values[2] : 0.0, last};
}

DS_INLINE void put_few(Few few, int64_t d, double *values) {
    values[0] = few.a;
    if (d > 1) values[1] = few.b;
    if (d > 2) values[2] = few.c;
    values[d] = few.last;
}

/* A model on such rows, and the row of its next step. */
typedef struct {
    Few w, G, gain, centre, x;
    const Descent *model;
    double drawn, eta, shrink, factor;
    int64_t i;
} Narrow;

DS_INLINE Narrow narrow_of(const Descent *model, int64_t d, double mu) {
    return (Narrow){.w = few_of(model->model.w, d, model->model.w[d]),
                    .G = few_of(model->model.G, d, model->model.G[d]),
                    .gain = few_of(model->frame.gain, d, model->frame.gain[d]),
                    .centre = few_of(model->frame.centre, d, 0.0),
                    .model = model,
                    .eta = model->eta,
                    .drawn = (double)model->drawn,
                    .shrink = 1.0 - model->eta * mu};
}

/* The gradient at the row of a step, as in `dense_gradient`. */
DS_INLINE double narrow_gradient(Narrow *one, int64_t d, int64_t i) {
    const Labelled *set = &one->model->set;
    const double *row = (const double *)set->rows.values + i * d;
    one->i = i;
    one->x.a = row[0] - one->centre.a;
    if (d > 1) one->x.b = row[1] - one->centre.b;
    if (d > 2) one->x.c = row[2] - one->centre.c;
    double margin = one->w.a * one->x.a;
    if (d > 1) margin += one->w.b * one->x.b;
    if (d > 2) margin += one->w.c * one->x.c;
    margin += one->w.last;
    if (one->model->offset) margin += one->model->offset[i];
    return gradient_of(margin, set->y[i], set->weight[i]);
}

DS_INLINE void update_column(const Narrow *one, double *w, double *G, double change, double average) {
    *w = one->shrink * *w - average * *G - one->eta * change;
    *G += change;
}

/* The step with this gradient, as in `dense_step`. */
DS_INLINE void narrow_step(Narrow *one, int64_t d, double g) {
    double *table = one->model->model.table + one->i;
    const double alpha = *table;
    const int is_new = alpha != alpha;
    *table = g;
    one->drawn += is_new;
    const double delta = g - known_gradient(alpha, is_new);
    const double average = one->eta / one->drawn;
    update_column(one, &one->w.a, &one->G.a, one->gain.a * delta * one->x.a, average);
    if (d > 1) update_column(one, &one->w.b, &one->G.b, one->gain.b * delta * one->x.b, average);
    if (d > 2) update_column(one, &one->w.c, &one->G.c, one->gain.c * delta * one->x.c, average);
    update_column(one, &one->w.last, &one->G.last, one->gain.last * delta, average);
}

/* The steps on rows of a few float64 columns, with the weights in registers. From four columns on, `dense_steps` is as
   fast. */
DS_INLINE void narrow_steps(Descent *one, Descent *two, int64_t steps, double mu, int64_t d) {
    Narrow first = narrow_of(one, d, mu), second = narrow_of(two ? two : one, d, mu);
    const int prefetched = one->set.rows.n * d > CACHED;
    if (!steps) return;
    double g = narrow_gradient(&first, d, one->order[0]);
    for (int64_t j = 0; j < steps; j++) {
        if (prefetched && j + AHEAD < steps) {
            ds_prefetch_dense(one, one->order[j + AHEAD], d, 1, 0);
            if (two) ds_prefetch_dense(two, two->order[j + AHEAD], d, 1, 0);
        }
        const double g_2 = two ? narrow_gradient(&second, d, two->order[j]) : 0.0;
        narrow_step(&first, d, g);
        if (j + 1 < steps) g = narrow_gradient(&first, d, one->order[j + 1]);
        if (two) narrow_step(&second, d, g_2);
    }
    put_few(first.w, d, one->model.w);
    put_few(first.G, d, one->model.G);
    one->drawn = (int64_t)first.drawn;
    if (!two) return;
    put_few(second.w, d, two->model.w);
    put_few(second.G, d, two->model.G);
    two->drawn = (int64_t)second.drawn;
}

#define NARROW(d) \
    case d: \
        if (two) \
            narrow_steps(one, two, steps, mu, d); \
        else \
            narrow_steps(one, NULL, steps, mu, d); \
        return;

DS_INLINE void dense_steps_of(Descent *one, Descent *two, int64_t steps, double mu) {
    const int64_t d = one->set.rows.d;
    switch (one->set.rows.is_single ? 0 : d) {
        NARROW(1)
        NARROW(2)
        NARROW(3)
    }
    if (one->set.rows.is_single) {
        if (two)
            dense_steps(one, two, steps, mu, d, 1);
        else
            dense_steps(one, NULL, steps, mu, d, 1);
    } else if (two)
        dense_steps(one, two, steps, mu, d, 0);
    else
        dense_steps(one, NULL, steps, mu, d, 0);
}

DS_THRICE(static, void, saga_dense, dense_steps_of, (Descent *one, Descent *two, int64_t steps, double mu),
          (one, two, steps, mu))

/* Steps on CSR rows, each of which touches only the non-zeros of its row.

   The dense step shrinks all weights and subtracts a multiple of the dense vector G. Implementations such as
   scikit-learn's remember when each column was last updated, and catch up later. Here the dense part of the step is
   moved into two scalars: with w = s v + t G and delta = g - alpha, the step is

       s <- (1 - eta mu) s,   t <- (1 - eta mu) t - eta / drawn,   v <- v - ((t + eta) / s) delta x,   G <- G + delta x

   with the new s and t in the third: eta delta x is the step itself, and t delta x is taken back because t G has grown
   by it. The result is exact, and no time stamps are kept. While the loop runs, `w` holds v. The weights are put
   together again at the end, and whenever s is so small that v would grow without bound. The few columns with a centre
   are updated at every step, because a value of 0 is not 0 after centring. */
DS_INLINE int64_t saga_csr(const Descent *model, int64_t steps, double mu, int is_single) {
    const Rows rows = model->set.rows;
    const int32_t *restrict indices = rows.indices;
    const int64_t *restrict indptr = rows.indptr, *restrict order = model->order;
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    const int64_t *restrict centred = model->frame.centred;
    const int64_t n_centred = model->frame.n_centred, last = rows.d;
    double *restrict w = model->model.w, *restrict G = model->model.G, *restrict table = model->model.table;
    const double eta = model->eta, shrink = 1.0 - eta * mu;
    int64_t drawn = model->drawn;
    double s = 1.0, t = 0.0;
    for (int64_t j = 0; j < steps; j++) {
        ds_prefetch_csr(model, j, steps, 1, is_single);
        const int64_t i = order[j], a = indptr[i], b = indptr[i + 1];
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        int64_t p = a;
        for (; p + 4 <= b; p += 4)
            for (int lane = 0; lane < 4; lane++) {
                const int32_t c = indices[p + lane];
                sums[lane] += (s * w[c] + t * G[c]) * ds_value(rows.values, p + lane, is_single);
            }
        double margin = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + (s * w[last] + t * G[last]);
        for (; p < b; p++) margin += (s * w[indices[p]] + t * G[indices[p]]) * ds_value(rows.values, p, is_single);
        for (int64_t k = 0; k < n_centred; k++) {
            const int64_t c = centred[k];
            margin -= (s * w[c] + t * G[c]) * centre[c];
        }
        if (model->offset) margin += model->offset[i];
        const double g = gradient_of(margin, model->set.y[i], model->set.weight[i]);
        const double alpha = table[i];
        const int is_new = alpha != alpha;
        drawn += is_new;
        table[i] = g;
        const double delta = g - (is_new ? 0.0 : alpha);
        s *= shrink;
        t = shrink * t - eta / (double)drawn;
        const double v_step = (t + eta) / s;
        for (p = a; p < b; p++) {
            const int32_t c = indices[p];
            const double change = gain[c] * delta * ds_value(rows.values, p, is_single);
            w[c] -= v_step * change;
            G[c] += change;
        }
        for (int64_t k = 0; k < n_centred; k++) {
            const int64_t c = centred[k];
            const double change = gain[c] * delta * centre[c];
            w[c] += v_step * change;
            G[c] -= change;
        }
        const double change = gain[last] * delta;
        w[last] -= v_step * change;
        G[last] += change;
        if (s < 1e-6) { /* back to w = v, before the division by s loses digits */
            for (int64_t c = 0; c <= last; c++) w[c] = s * w[c] + t * G[c];
            s = 1.0;
            t = 0.0;
        }
    }
    for (int64_t c = 0; c <= last; c++) w[c] = s * w[c] + t * G[c];
    return drawn;
}

int64_t ds_saga(const Descent *model, int64_t steps, double mu) {
    if (model->set.rows.indptr)
        return model->set.rows.is_single ? saga_csr(model, steps, mu, 1) : saga_csr(model, steps, mu, 0);
    Descent own = *model;
    saga_dense(&own, NULL, steps, mu);
    return own.drawn;
}

void ds_saga_both(Descent *one, Descent *two, int64_t steps, double mu) { saga_dense(one, two, steps, mu); }

/* w <- (1 - eta mu) w - eta gain g x, where x is the row minus the centre. */
DS_INLINE void sgd_dense(const Descent *model, int64_t steps, double mu, int is_single) {
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    double *restrict w = model->model.w;
    const int64_t d = model->set.rows.d;
    const double eta = model->eta, shrink = 1.0 - eta * mu;
    for (int64_t j = 0; j < steps; j++) {
        if (j + AHEAD < steps) ds_prefetch_dense(model, model->order[j + AHEAD], d, 0, is_single);
        const int64_t i = model->order[j];
        const double step = eta * dense_gradient(model, w, d, i, is_single);
        for (int64_t c = 0; c < d; c++)
            w[c] = shrink * w[c] - step * gain[c] * (ds_value(model->set.rows.values, i * d + c, is_single) - centre[c]);
        w[d] = shrink * w[d] - step * gain[d];
    }
}

/* On CSR rows w = s v, so that the L2 term, which shrinks all weights, is one multiplication of s. */
DS_INLINE void sgd_csr(const Descent *model, int64_t steps, double mu, int is_single) {
    const Rows rows = model->set.rows;
    const int32_t *restrict indices = rows.indices;
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    const int64_t *restrict centred = model->frame.centred;
    const int64_t n_centred = model->frame.n_centred, last = rows.d;
    double *restrict w = model->model.w;
    const double eta = model->eta, shrink = 1.0 - eta * mu;
    double s = 1.0;
    for (int64_t j = 0; j < steps; j++) {
        ds_prefetch_csr(model, j, steps, 0, is_single);
        const int64_t i = model->order[j], a = rows.indptr[i], b = rows.indptr[i + 1];
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        int64_t p = a;
        for (; p + 4 <= b; p += 4)
            for (int lane = 0; lane < 4; lane++)
                sums[lane] += w[indices[p + lane]] * ds_value(rows.values, p + lane, is_single);
        double margin = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + w[last];
        for (; p < b; p++) margin += w[indices[p]] * ds_value(rows.values, p, is_single);
        for (int64_t k = 0; k < n_centred; k++) margin -= w[centred[k]] * centre[centred[k]];
        margin *= s;
        if (model->offset) margin += model->offset[i];
        s *= shrink;
        const double step = eta / s * gradient_of(margin, model->set.y[i], model->set.weight[i]);
        for (p = a; p < b; p++) {
            const int32_t c = indices[p];
            w[c] -= step * gain[c] * ds_value(rows.values, p, is_single);
        }
        for (int64_t k = 0; k < n_centred; k++) w[centred[k]] += step * gain[centred[k]] * centre[centred[k]];
        w[last] -= step * gain[last];
        if (s < 1e-6) {
            for (int64_t c = 0; c <= last; c++) w[c] *= s;
            s = 1.0;
        }
    }
    for (int64_t c = 0; c <= last; c++) w[c] *= s;
}

void ds_sgd(const Descent *model, int64_t steps, double mu) {
    const int is_single = model->set.rows.is_single != 0;
    if (model->set.rows.indptr) {
        if (is_single)
            sgd_csr(model, steps, mu, 1);
        else
            sgd_csr(model, steps, mu, 0);
    } else if (is_single)
        sgd_dense(model, steps, mu, 1);
    else
        sgd_dense(model, steps, mu, 0);
}

DS_INLINE int64_t discharge_of(Rows rows, const double *restrict table, double *restrict G, Frame frame, int is_single) {
    const int64_t d = rows.d;
    int64_t drawn = 0;
    double total = 0.0;
    for (int64_t i = 0; i < rows.n; i++) {
        const double alpha = table[i];
        if (alpha != alpha) continue;
        drawn += 1;
        total += alpha;
        if (rows.indptr)
            for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
                const int32_t c = rows.indices[p];
                G[c] -= frame.gain[c] * alpha * ds_value(rows.values, p, is_single);
            }
        else
            for (int64_t c = 0; c < d; c++)
                G[c] -= frame.gain[c] * alpha * (ds_value(rows.values, i * d + c, is_single) - frame.centre[c]);
    }
    /* Centres of CSR rows and the constant column are the same in every row: once, with the sum of all gradients. */
    if (rows.indptr)
        for (int64_t k = 0; k < frame.n_centred; k++) {
            const int64_t c = frame.centred[k];
            G[c] += frame.gain[c] * total * frame.centre[c];
        }
    G[d] -= frame.gain[d] * total;
    return drawn;
}

/* The same for dense float64 rows of few columns, whose sums stay in registers. */
DS_INLINE int64_t discharge_few(Rows rows, int64_t d, const double *restrict table, double *restrict G, Frame frame) {
    const double *restrict values = rows.values;
    int64_t drawn = 0;
    double total = 0.0;
    Few sums = few_of(G, d, 0.0);
    const Few gain = few_of(frame.gain, d, 0.0), centre = few_of(frame.centre, d, 0.0);
    for (int64_t i = 0; i < rows.n; i++) {
        const double alpha = table[i];
        if (alpha != alpha) continue;
        drawn += 1;
        total += alpha;
        sums.a -= gain.a * alpha * (values[i * d] - centre.a);
        if (d > 1) sums.b -= gain.b * alpha * (values[i * d + 1] - centre.b);
        if (d > 2) sums.c -= gain.c * alpha * (values[i * d + 2] - centre.c);
    }
    sums.last = G[d] - frame.gain[d] * total;
    put_few(sums, d, G);
    return drawn;
}

DS_INLINE int64_t discharge(Rows rows, const double *table, double *G, Frame frame) {
    switch (rows.is_single || rows.indptr ? 0 : rows.d) {
    case 1: return discharge_few(rows, 1, table, G, frame);
    case 2: return discharge_few(rows, 2, table, G, frame);
    case 3: return discharge_few(rows, 3, table, G, frame);
    default: break;
    }
    return rows.is_single ? discharge_of(rows, table, G, frame, 1) : discharge_of(rows, table, G, frame, 0);
}

DS_THRICE(, int64_t, ds_discharge, discharge, (Rows rows, const double *table, double *G, Frame frame),
          (rows, table, G, frame))
