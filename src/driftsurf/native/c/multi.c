/* The letters, frames and steps are those of linear.c; read it first. Logistic regression has its own, faster loops
   there. The first gradient of a row that was never drawn is NaN.

   The CSR loops have the weights of all outputs side by side, since a non-zero meets all of them at once; the dense
   loops have them output by output, since a whole row meets one output after the other.

   Unlike that of the logistic loss, the gradient of a squared loss has no bound, so that one row far from the others
   could throw the weights off. The weight of a row is therefore reduced such that eta * curvature * |x|^2 is at most
   `reach`, in the frame. */

#include "multi.h"

#include <math.h>

#include "descent.h"
#include "exponential.h"
#include "processor.h"

static const double CURVATURE = 2.0; /* largest second derivative of every kind of loss but the softmax */

/* Derivative of the loss by the score, for losses of one score. */
static inline double slope(int64_t kind, double epsilon, double z, double y) {
    if (kind == DS_SQUARED_HINGE) {
        const double s = 2.0 * y - 1.0, shortfall = 1.0 - s * z;
        return -2.0 * s * (shortfall > 0.0 ? shortfall : 0.0);
    }
    double residual = z - y;
    if (kind == DS_HUBER) {
        residual = residual < epsilon ? residual : epsilon;
        residual = residual > -epsilon ? residual : -epsilon;
    }
    return 2.0 * residual;
}

/* Write the derivatives of the loss by the scores, times the weight. */
static inline void write_slopes(const Loss *loss, const double *restrict scores, int64_t K, double y, double weight,
                                double *restrict slopes) {
    if (weight == 0.0) { /* a row whose values overflow has weight 0 and scores of NaN */
        for (int64_t k = 0; k < K; k++) slopes[k] = 0.0;
    } else if (loss->kind == DS_SOFTMAX) {
        /* Softmax minus the indicator of the true class. The largest score is subtracted against overflow. */
        double largest = scores[0];
        for (int64_t k = 1; k < K; k++) largest = scores[k] > largest ? scores[k] : largest;
        double total = 0.0;
        for (int64_t k = 0; k < K; k++) {
            const double below = scores[k] - largest;
            slopes[k] = below == below ? ds_exp_shifted(below > -700.0 ? below : -700.0, 0) : below;
            total += slopes[k];
        }
        for (int64_t k = 0; k < K; k++) slopes[k] *= weight / total;
        slopes[(int64_t)y] -= weight;
    } else
        slopes[0] = weight * slope(loss->kind, loss->epsilon, scores[0] + loss->shift, y);
}

/* The weight of a row with this squared norm, reduced to the largest one within `reach`. */
static inline double bounded(double weight, double squares, double eta, double reach) {
    if (!(squares > 0.0)) return weight;
    const double most = reach / (eta * CURVATURE * squares);
    return most < weight ? most : weight;
}

DS_INLINE double bounded_dense(const Descent *model, int64_t i, double reach, int is_single) {
    const double weight = model->set.weight[i];
    if (reach == INFINITY) return weight;
    const int64_t d = model->set.rows.d;
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    double sums[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= d; c += 8)
        for (int lane = 0; lane < 8; lane++) {
            const double value = ds_value(model->set.rows.values, i * d + c + lane, is_single) - centre[c + lane];
            sums[lane] += gain[c + lane] * (value * value);
        }
    double total = gain[d] + (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])));
    for (; c < d; c++) {
        const double value = ds_value(model->set.rows.values, i * d + c, is_single) - centre[c];
        total += gain[c] * (value * value);
    }
    return bounded(weight, total, model->eta, reach);
}

/* As (x - m)^2 = m^2 + x (x - 2 m), only non-zeros and columns with a centre m contribute. */
DS_INLINE double bounded_csr(const Descent *model, int64_t i, double reach, int is_single) {
    const double weight = model->set.weight[i];
    if (reach == INFINITY) return weight;
    const Rows *rows = &model->set.rows;
    const Frame *frame = &model->frame;
    double total = frame->gain[rows->d];
    for (int64_t q = 0; q < frame->n_centred; q++) {
        const double centre = frame->centre[frame->centred[q]];
        total += frame->gain[frame->centred[q]] * (centre * centre);
    }
    for (int64_t p = rows->indptr[i]; p < rows->indptr[i + 1]; p++) {
        const double value = ds_value(rows->values, p, is_single);
        total += frame->gain[rows->indices[p]] * value * (value - 2.0 * frame->centre[rows->indices[p]]);
    }
    return bounded(weight, total, model->eta, reach);
}

/* Write the slopes at dense row i to the second half of `work`. */
DS_INLINE void dense_slopes(const Descent *model, int64_t i, int64_t K, const Loss *loss,
                                       double *restrict work, int is_single) {
    const int64_t d = model->set.rows.d;
    for (int64_t k = 0; k < K; k++) {
        const double *w = model->model.w + k * (d + 1);
        work[k] = ds_centred_dot(model->set.rows.values, i, w, model->frame.centre, d, is_single) + w[d];
    }
    write_slopes(loss, work, K, model->set.y[i], bounded_dense(model, i, loss->reach, is_single), work + K);
}

/* One step at row i, whose slopes are in the second half of `work`. Each output takes the step of linear.c; the outputs
   depend on each other only through the slopes. */
DS_INLINE void dense_step(Descent *model, int64_t i, int64_t K, double shrink, const double *restrict work,
                          int is_single) {
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    const int64_t d = model->set.rows.d;
    const double eta = model->eta;
    double *restrict alphas = model->model.table + i * K;
    const int is_new = alphas[0] != alphas[0];
    model->drawn += is_new;
    const double average = eta / (double)model->drawn;
    for (int64_t k = 0; k < K; k++) {
        double *restrict w = model->model.w + k * (d + 1), *restrict G = model->model.G + k * (d + 1);
        const double delta = work[K + k] - (is_new ? 0.0 : alphas[k]);
        alphas[k] = work[K + k];
        for (int64_t c = 0; c < d; c++) {
            const double value = ds_value(model->set.rows.values, i * d + c, is_single) - centre[c];
            const double change = gain[c] * delta * value;
            w[c] = shrink * w[c] - average * G[c] - eta * change;
            G[c] += change;
        }
        const double change = gain[d] * delta;
        w[d] = shrink * w[d] - average * G[d] - eta * change;
        G[d] += change;
    }
}

/* The steps of one model, or of two in turn: while the slopes of one wait for their exponentials, the processor updates
   the other. */
DS_INLINE void dense_steps(Descent *one, Descent *two, int64_t steps, double mu, int64_t K, const Loss *losses,
                           double *restrict work, double *restrict work_2, int is_single) {
    const int64_t d = one->set.rows.d;
    const double shrink = 1.0 - one->eta * mu;
    const int prefetched = one->set.rows.n * d > CACHED;
    if (!two) {
        for (int64_t j = 0; j < steps; j++) {
            if (prefetched && j + AHEAD < steps) ds_prefetch_dense(one, one->order[j + AHEAD], d, K, is_single);
            const int64_t i = one->order[j];
            dense_slopes(one, i, K, losses, work, is_single);
            dense_step(one, i, K, shrink, work, is_single);
        }
        return;
    }
    const double shrink_2 = 1.0 - two->eta * mu;
    if (!steps) return;
    dense_slopes(one, one->order[0], K, losses, work, is_single);
    for (int64_t j = 0; j < steps; j++) {
        if (prefetched && j + AHEAD < steps) {
            ds_prefetch_dense(one, one->order[j + AHEAD], d, K, is_single);
            ds_prefetch_dense(two, two->order[j + AHEAD], d, K, is_single);
        }
        dense_slopes(two, two->order[j], K, losses + 1, work_2, is_single);
        dense_step(one, one->order[j], K, shrink, work, is_single);
        if (j + 1 < steps) dense_slopes(one, one->order[j + 1], K, losses, work, is_single);
        dense_step(two, two->order[j], K, shrink_2, work_2, is_single);
    }
}

/* A known number of outputs lets the compiler unroll their loops. */
DS_INLINE void saga_dense(Descent *one, Descent *two, int64_t steps, double mu, int64_t K, const Loss *losses,
                          double *work, double *work_2) {
    if (one->set.rows.is_single)
        dense_steps(one, two, steps, mu, K, losses, work, work_2, 1);
    else if (K == 1)
        dense_steps(one, two, steps, mu, 1, losses, work, work_2, 0);
    else if (K == 3)
        dense_steps(one, two, steps, mu, 3, losses, work, work_2, 0);
    else
        dense_steps(one, two, steps, mu, K, losses, work, work_2, 0);
}

DS_INLINE void sgd_dense(const Descent *model, int64_t steps, double mu, int64_t K, const Loss *loss,
                                    double *restrict work, int is_single) {
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    const int64_t d = model->set.rows.d;
    const double eta = model->eta, shrink = 1.0 - eta * mu;
    for (int64_t j = 0; j < steps; j++) {
        if (j + AHEAD < steps) ds_prefetch_dense(model, model->order[j + AHEAD], d, 0, is_single);
        const int64_t i = model->order[j];
        dense_slopes(model, i, K, loss, work, is_single);
        for (int64_t k = 0; k < K; k++) {
            double *restrict w = model->model.w + k * (d + 1);
            const double step = eta * work[K + k];
            for (int64_t c = 0; c < d; c++)
                w[c] = shrink * w[c] - step * gain[c] * (ds_value(model->set.rows.values, i * d + c, is_single) - centre[c]);
            w[d] = shrink * w[d] - step * gain[d];
        }
    }
}

/* W = s V + t G, as in linear.c; all outputs share s and t. SGD has no G: its t stays 0. */
DS_INLINE int64_t descend_csr(const Descent *model, int64_t steps, double mu, int64_t K, const Loss *loss,
                                         double *restrict work, int is_single, int is_saga) {
    const Rows rows = model->set.rows;
    const double *restrict gain = model->frame.gain, *restrict centre = model->frame.centre;
    const int64_t *restrict centred = model->frame.centred;
    const int64_t n_centred = model->frame.n_centred, last = rows.d;
    double *restrict W = model->model.w, *restrict G = model->model.G;
    double *restrict scores = work, *restrict deltas = work + K;
    const double eta = model->eta, shrink = 1.0 - eta * mu;
    int64_t drawn = model->drawn;
    double s = 1.0, t = 0.0;
#define WEIGHT(c, k) (is_saga ? s * W[(c) * K + (k)] + t * G[(c) * K + (k)] : s * W[(c) * K + (k)])
    for (int64_t j = 0; j < steps; j++) {
        ds_prefetch_csr(model, j, steps, is_saga ? K : 0, is_single);
        const int64_t i = model->order[j], a = rows.indptr[i], b = rows.indptr[i + 1];
        for (int64_t k = 0; k < K; k++) scores[k] = WEIGHT(last, k);
        for (int64_t p = a; p < b; p++) {
            const int64_t c = rows.indices[p];
            const double value = ds_value(rows.values, p, is_single);
            for (int64_t k = 0; k < K; k++) scores[k] += WEIGHT(c, k) * value;
        }
        for (int64_t q = 0; q < n_centred; q++) {
            const int64_t c = centred[q];
            for (int64_t k = 0; k < K; k++) scores[k] -= WEIGHT(c, k) * centre[c];
        }
        write_slopes(loss, scores, K, model->set.y[i], bounded_csr(model, i, loss->reach, is_single), deltas);
        s *= shrink;
        if (is_saga) {
            double *restrict alphas = model->model.table + i * K;
            const int is_new = alphas[0] != alphas[0];
            drawn += is_new;
            for (int64_t k = 0; k < K; k++) {
                const double alpha = is_new ? 0.0 : alphas[k];
                alphas[k] = deltas[k];
                deltas[k] -= alpha;
            }
            t = shrink * t - eta / (double)drawn;
        }
        const double v_step = (t + eta) / s;
        for (int64_t p = a; p < b; p++) {
            const int64_t c = rows.indices[p];
            const double size = gain[c] * ds_value(rows.values, p, is_single);
            for (int64_t k = 0; k < K; k++) {
                W[c * K + k] -= v_step * size * deltas[k];
                if (is_saga) G[c * K + k] += size * deltas[k];
            }
        }
        for (int64_t q = 0; q < n_centred; q++) {
            const int64_t c = centred[q];
            const double size = gain[c] * centre[c];
            for (int64_t k = 0; k < K; k++) {
                W[c * K + k] += v_step * size * deltas[k];
                if (is_saga) G[c * K + k] -= size * deltas[k];
            }
        }
        for (int64_t k = 0; k < K; k++) {
            W[last * K + k] -= v_step * gain[last] * deltas[k];
            if (is_saga) G[last * K + k] += gain[last] * deltas[k];
        }
        if (s < 1e-6) { /* back to W = V, before the division by s loses digits */
            for (int64_t m = 0; m < (last + 1) * K; m++) W[m] = WEIGHT(0, m);
            s = 1.0;
            t = 0.0;
        }
    }
    for (int64_t m = 0; m < (last + 1) * K; m++) W[m] = WEIGHT(0, m);
#undef WEIGHT
    return drawn;
}

DS_INLINE void saga_dense_of(Descent *one, Descent *two, int64_t steps, double mu, int64_t K, const Loss *losses,
                             double *work, double *work_2) {
    if (two)
        saga_dense(one, two, steps, mu, K, losses, work, work_2);
    else
        saga_dense(one, NULL, steps, mu, K, losses, work, NULL);
}

DS_THRICE(static, void, saga_dense_anywhere, saga_dense_of,
         (Descent *one, Descent *two, int64_t steps, double mu, int64_t K, const Loss *losses, double *work,
          double *work_2),
         (one, two, steps, mu, K, losses, work, work_2))

int64_t ds_multi_saga(const Descent *model, int64_t steps, double mu, int64_t K, Loss loss, double *work) {
    const int is_single = model->set.rows.is_single != 0;
    if (model->set.rows.indptr)
        return is_single ? descend_csr(model, steps, mu, K, &loss, work, 1, 1)
                         : descend_csr(model, steps, mu, K, &loss, work, 0, 1);
    Descent own = *model;
    saga_dense_anywhere(&own, NULL, steps, mu, K, &loss, work, NULL);
    return own.drawn;
}

void ds_multi_saga_both(Descent *one, Descent *two, int64_t steps, double mu, int64_t K, const Loss *losses,
                        double *work) {
    saga_dense_anywhere(one, two, steps, mu, K, losses, work, work + 2 * K);
}

void ds_multi_sgd(const Descent *model, int64_t steps, double mu, int64_t K, Loss loss, double *work) {
    const int is_single = model->set.rows.is_single != 0;
    if (model->set.rows.indptr) {
        if (is_single)
            descend_csr(model, steps, mu, K, &loss, work, 1, 0);
        else
            descend_csr(model, steps, mu, K, &loss, work, 0, 0);
    } else if (is_single)
        sgd_dense(model, steps, mu, K, &loss, work, 1);
    else
        sgd_dense(model, steps, mu, K, &loss, work, 0);
}

int64_t ds_multi_discharge(Rows rows, const double *restrict table, double *restrict G, int64_t K, Frame frame) {
    const int is_single = rows.is_single != 0;
    const int64_t d = rows.d;
    int64_t drawn = 0;
    for (int64_t i = 0; i < rows.n; i++) {
        const double *alphas = table + i * K;
        if (alphas[0] != alphas[0]) continue;
        drawn += 1;
        if (rows.indptr) {
            for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
                const int64_t c = rows.indices[p];
                const double size = frame.gain[c] * ds_value(rows.values, p, is_single);
                for (int64_t k = 0; k < K; k++) G[c * K + k] -= size * alphas[k];
            }
            for (int64_t q = 0; q < frame.n_centred; q++) {
                const int64_t c = frame.centred[q];
                const double size = frame.gain[c] * frame.centre[c];
                for (int64_t k = 0; k < K; k++) G[c * K + k] += size * alphas[k];
            }
        } else
            for (int64_t c = 0; c < d; c++) {
                const double size = frame.gain[c] * (ds_value(rows.values, i * d + c, is_single) - frame.centre[c]);
                for (int64_t k = 0; k < K; k++) G[c * K + k] -= size * alphas[k];
            }
        for (int64_t k = 0; k < K; k++) G[d * K + k] -= frame.gain[d] * alphas[k];
    }
    return drawn;
}
