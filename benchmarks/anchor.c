/* The gradient steps of the native core as a C programmer would write them: the same arithmetic in the
   same order, nothing clever but the prefetch. ROW is the type of the stored values. */

#include <math.h>
#include <stdint.h>

#ifndef ROW
#define ROW double
#endif
#ifndef AHEAD
#define AHEAD 8 /* how many steps ahead a row is prefetched */
#endif

typedef int64_t i64;

static inline __attribute__((always_inline)) double gradient(double margin, double y, double weight) {
    if (weight == 0.0) return 0.0;
    double s = 2.0 * y - 1.0;
    double z = s * margin;
    return -weight * s / (1.0 + exp(z < 700.0 ? z : 700.0));
}

static inline __attribute__((always_inline)) void fetch(const void *from, i64 bytes) {
    const char *p = from;
    for (i64 b = 0; b < bytes; b += 64) __builtin_prefetch(p + b, 0);
    __builtin_prefetch(p + bytes - 1, 0);
}

#define ARGUMENTS_DENSE                                                                                      \
    const ROW *restrict X, i64 d, const double *restrict y, const double *restrict weight,                   \
        const i64 *restrict order, i64 steps

static inline __attribute__((always_inline)) i64 dense_loop(ARGUMENTS_DENSE, double *restrict w,
                                                            double *restrict G, double *restrict table,
                                                            i64 drawn, double eta, double mu,
                                                            const double *restrict gain,
                                                            const int prefetch) {
    const double shrink = 1.0 - eta * mu;
    for (i64 j = 0; j < steps; j++) {
        if (prefetch && j + AHEAD < steps) {
            const i64 later = order[j + AHEAD];
            fetch(X + later * d, d * (i64)sizeof(ROW));
            __builtin_prefetch(y + later, 0);
            __builtin_prefetch(weight + later, 0);
            __builtin_prefetch(table + later, 1);
        }
        const i64 i = order[j];
        const ROW *restrict x = X + i * d;
        double margin = 0.0;
        for (i64 c = 0; c < d; c++) margin += w[c] * x[c];
        const double g = gradient(margin + w[d], y[i], weight[i]);
        double alpha = table[i];
        if (isnan(alpha)) {
            alpha = 0.0;
            drawn++;
        }
        table[i] = g;
        const double delta = g - alpha;
        const double average = eta / drawn;
        for (i64 c = 0; c < d; c++) {
            const double change = gain[c] * delta * x[c];
            w[c] = shrink * w[c] - average * G[c] - eta * change;
            G[c] += change;
        }
        const double change = gain[d] * delta;
        w[d] = shrink * w[d] - average * G[d] - eta * change;
        G[d] += change;
    }
    return drawn;
}

i64 saga_dense(ARGUMENTS_DENSE, double *w, double *G, double *table, i64 drawn, double eta, double mu,
               const double *gain) {
    return dense_loop(X, d, y, weight, order, steps, w, G, table, drawn, eta, mu, gain, 0);
}

i64 saga_dense_prefetch(ARGUMENTS_DENSE, double *w, double *G, double *table, i64 drawn, double eta,
                        double mu, const double *gain) {
    return dense_loop(X, d, y, weight, order, steps, w, G, table, drawn, eta, mu, gain, 1);
}

void sgd_dense_prefetch(ARGUMENTS_DENSE, double *restrict w, double eta, double mu,
                        const double *restrict gain) {
    const double shrink = 1.0 - eta * mu;
    for (i64 j = 0; j < steps; j++) {
        if (j + AHEAD < steps) {
            const i64 later = order[j + AHEAD];
            fetch(X + later * d, d * (i64)sizeof(ROW));
            __builtin_prefetch(y + later, 0);
            __builtin_prefetch(weight + later, 0);
        }
        const i64 i = order[j];
        const ROW *restrict x = X + i * d;
        double margin = 0.0;
        for (i64 c = 0; c < d; c++) margin += w[c] * x[c];
        const double step = eta * gradient(margin + w[d], y[i], weight[i]);
        for (i64 c = 0; c < d; c++) w[c] = shrink * w[c] - step * gain[c] * x[c];
        w[d] = shrink * w[d] - step * gain[d];
    }
}

/* K classes: W and G are (K, d + 1), the table (n, K); z and g are room for K numbers each. */
static inline __attribute__((always_inline)) i64 softmax_loop(ARGUMENTS_DENSE, double *restrict W,
                                                              double *restrict G, double *restrict table,
                                                              i64 K, i64 drawn, double eta, double mu,
                                                              const double *restrict gain,
                                                              const double *restrict centre,
                                                              double *restrict z, double *restrict g,
                                                              const int prefetch) {
    const double shrink = 1.0 - eta * mu;
    for (i64 j = 0; j < steps; j++) {
        if (prefetch && j + AHEAD < steps) {
            const i64 later = order[j + AHEAD];
            fetch(X + later * d, d * (i64)sizeof(ROW));
            __builtin_prefetch(y + later, 0);
            __builtin_prefetch(weight + later, 0);
            fetch(table + later * K, K * (i64)sizeof(double));
        }
        const i64 i = order[j];
        const ROW *restrict x = X + i * d;
        for (i64 k = 0; k < K; k++) {
            const double *restrict w = W + k * (d + 1);
            double total = 0.0;
            for (i64 c = 0; c < d; c++) total += w[c] * (x[c] - centre[c]);
            z[k] = total + w[d];
        }
        if (weight[i] == 0.0) {
            for (i64 k = 0; k < K; k++) g[k] = 0.0;
        } else {
            double largest = z[0], sum = 0.0;
            for (i64 k = 1; k < K; k++) largest = z[k] > largest ? z[k] : largest;
            for (i64 k = 0; k < K; k++) {
                g[k] = exp(z[k] - largest);
                sum += g[k];
            }
            const double share = weight[i] / sum;
            for (i64 k = 0; k < K; k++) g[k] *= share;
            g[(i64)y[i]] -= weight[i];
        }
        double *restrict old = table + i * K;
        const int first = isnan(old[0]);
        drawn += first;
        const double average = eta / drawn;
        for (i64 k = 0; k < K; k++) {
            const double delta = first ? g[k] : g[k] - old[k];
            old[k] = g[k];
            double *restrict w = W + k * (d + 1), *restrict sums = G + k * (d + 1);
            for (i64 c = 0; c < d; c++) {
                const double change = gain[c] * delta * (x[c] - centre[c]);
                w[c] = shrink * w[c] - average * sums[c] - eta * change;
                sums[c] += change;
            }
            const double change = gain[d] * delta;
            w[d] = shrink * w[d] - average * sums[d] - eta * change;
            sums[d] += change;
        }
    }
    return drawn;
}

i64 saga_softmax(ARGUMENTS_DENSE, double *W, double *G, double *table, i64 K, i64 drawn, double eta,
                 double mu, const double *gain, const double *centre, double *z, double *g) {
    return softmax_loop(X, d, y, weight, order, steps, W, G, table, K, drawn, eta, mu, gain, centre, z, g, 0);
}

i64 saga_softmax_prefetch(ARGUMENTS_DENSE, double *W, double *G, double *table, i64 K, i64 drawn, double eta,
                          double mu, const double *gain, const double *centre, double *z, double *g) {
    return softmax_loop(X, d, y, weight, order, steps, W, G, table, K, drawn, eta, mu, gain, centre, z, g, 1);
}

#define ARGUMENTS_CSR                                                                                        \
    const ROW *restrict data, const int32_t *restrict indices, const i64 *restrict indptr,                   \
        const double *restrict y, const double *restrict weight, const i64 *restrict order, i64 steps

/* w = s v + t G, with v kept in w until s has become small, and to the end. */
static inline __attribute__((always_inline)) i64 csr_loop(ARGUMENTS_CSR, double *restrict w,
                                                          double *restrict G, i64 width,
                                                          double *restrict table, i64 drawn, double eta,
                                                          double mu, const double *restrict gain,
                                                          const int prefetch) {
    const i64 last = width - 1;
    const double shrink = 1.0 - eta * mu;
    double s = 1.0, t = 0.0;
    for (i64 j = 0; j < steps; j++) {
        if (prefetch && j + 2 * AHEAD < steps) {
            const i64 later = order[j + 2 * AHEAD]; /* first where a row is, then the row */
            __builtin_prefetch(indptr + later, 0);
            __builtin_prefetch(y + later, 0);
            __builtin_prefetch(weight + later, 0);
            __builtin_prefetch(table + later, 1);
            const i64 from = indptr[order[j + AHEAD]], to = indptr[order[j + AHEAD] + 1];
            if (from < to) {
                fetch(data + from, (to - from) * (i64)sizeof(ROW));
                fetch(indices + from, (to - from) * (i64)sizeof(int32_t));
            }
        }
        const i64 i = order[j];
        const i64 a = indptr[i], b = indptr[i + 1];
        double margin = s * w[last] + t * G[last];
        for (i64 p = a; p < b; p++) margin += (s * w[indices[p]] + t * G[indices[p]]) * data[p];
        const double g = gradient(margin, y[i], weight[i]);
        double alpha = table[i];
        if (isnan(alpha)) {
            alpha = 0.0;
            drawn++;
        }
        table[i] = g;
        const double delta = g - alpha;
        s *= shrink;
        t = shrink * t - eta / drawn;
        const double v_step = (t + eta) / s;
        for (i64 p = a; p < b; p++) {
            const double change = gain[indices[p]] * delta * data[p];
            w[indices[p]] -= v_step * change;
            G[indices[p]] += change;
        }
        const double change = gain[last] * delta;
        w[last] -= v_step * change;
        G[last] += change;
        if (s < 1e-6) {
            for (i64 c = 0; c < width; c++) w[c] = s * w[c] + t * G[c];
            s = 1.0;
            t = 0.0;
        }
    }
    for (i64 c = 0; c < width; c++) w[c] = s * w[c] + t * G[c];
    return drawn;
}

i64 saga_csr(ARGUMENTS_CSR, double *w, double *G, i64 width, double *table, i64 drawn, double eta,
             double mu, const double *gain) {
    return csr_loop(data, indices, indptr, y, weight, order, steps, w, G, width, table, drawn, eta, mu,
                    gain, 0);
}

i64 saga_csr_prefetch(ARGUMENTS_CSR, double *w, double *G, i64 width, double *table, i64 drawn, double eta,
                      double mu, const double *gain) {
    return csr_loop(data, indices, indptr, y, weight, order, steps, w, G, width, table, drawn, eta, mu,
                    gain, 1);
}
