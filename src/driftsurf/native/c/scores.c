#include "scores.h"

#include "ds_math.h"
#include "processor.h"
#include "values.h"

DS_INLINE double margin(Rows rows, int64_t i, const double *w, int single) {
    if (rows.indptr)
        return ds_dot_csr(w, rows.values, rows.indices, rows.indptr[i], rows.indptr[i + 1], single) + w[rows.d];
    return ds_dot(w, ds_from(rows.values, i * rows.d, single), rows.d, single) + w[rows.d];
}

DS_INLINE void margins_of(Rows rows, const double *weights, int64_t models, double *restrict out, int single) {
    for (int64_t i = 0; i < rows.n; i++) /* all models while a row is in the cache */
        for (int64_t k = 0; k < models; k++) out[k * rows.n + i] = margin(rows, i, weights + k * (rows.d + 1), single);
}

/* Margins by one model of dense rows with few columns, whose number the compiler knows. */
DS_INLINE void margins_of_few(Rows rows, int64_t d, const double *restrict w, double *restrict out) {
    const double *restrict values = rows.values;
    for (int64_t i = 0; i < rows.n; i++) out[i] = ds_dot(w, values + i * d, d, 0) + w[d];
}

DS_INLINE void margins_of_all(Rows rows, const double *weights, int64_t models, double *out) {
    if (rows.is_single)
        margins_of(rows, weights, models, out, 1);
    else
        margins_of(rows, weights, models, out, 0);
}

DS_THRICE(, void, ds_margins_of_all, margins_of_all, (Rows rows, const double *weights, int64_t models, double *out),
         (rows, weights, models, out))

void ds_margins(Rows rows, const double *w, double *out) {
    switch (rows.indptr || rows.is_single ? 0 : rows.d) {
    case 1: margins_of_few(rows, 1, w, out); return;
    case 2: margins_of_few(rows, 2, w, out); return;
    case 3: margins_of_few(rows, 3, w, out); return;
    case 4: margins_of_few(rows, 4, w, out); return;
    default: ds_margins_of_all(rows, w, 1, out);
    }
}

/* `ds_dot` of limited values, in the same order: limits that no value reaches change no bit. */
DS_INLINE double limited_dot(const double *restrict w, const void *restrict row, int64_t d,
                             const double *restrict limits, int single) {
    const double *low = limits, *high = limits + d;
    if (d < 8) {
        double total = 0.0;
        for (int64_t c = 0; c < d; c++) total += w[c] * ds_limited(ds_value(row, c, single), low[c], high[c]);
        return total;
    }
    double s[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= d; c += 8)
        for (int64_t j = 0; j < 8; j++)
            s[j] += w[c + j] * ds_limited(ds_value(row, c + j, single), low[c + j], high[c + j]);
    for (int64_t j = 0; c + j < d; j++)
        s[j] += w[c + j] * ds_limited(ds_value(row, c + j, single), low[c + j], high[c + j]);
    return ds_sum8(s);
}

DS_INLINE void outputs_dense(Rows rows, const double *W, int64_t K, double *restrict out, const double *limits,
                             int single) {
    const int64_t d = rows.d;
    for (int64_t i = 0; i < rows.n; i++) {
        const void *row = ds_from(rows.values, i * d, single);
        for (int64_t k = 0; k < K; k++) {
            const double *w = W + k * (d + 1);
            out[i * K + k] = (limits ? limited_dot(w, row, d, limits, single) : ds_dot(w, row, d, single)) + w[d];
        }
    }
}

DS_INLINE void outputs_csr(Rows rows, const double *restrict W, int64_t K, double *restrict out,
                           const double *restrict limits, int single) {
    const int64_t d = rows.d;
    for (int64_t i = 0; i < rows.n; i++) {
        double *restrict scores = out + i * K;
        for (int64_t k = 0; k < K; k++) scores[k] = W[d * K + k];
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = rows.indices[p];
            double value = ds_value(rows.values, p, single);
            if (limits) value = ds_limited(value, limits[c], limits[d + c]);
            for (int64_t k = 0; k < K; k++) scores[k] += W[c * K + k] * value;
        }
    }
}

void ds_outputs(Rows rows, const double *W, int64_t K, double *out, const double *limits) {
    if (rows.indptr && rows.is_single)
        outputs_csr(rows, W, K, out, limits, 1);
    else if (rows.indptr)
        outputs_csr(rows, W, K, out, limits, 0);
    else if (rows.is_single)
        outputs_dense(rows, W, K, out, limits, 1);
    else
        outputs_dense(rows, W, K, out, limits, 0);
}

void ds_log_softmax(double *z, int64_t n, int64_t K) {
    for (int64_t i = 0; i < n; i++, z += K) {
        double largest = z[0], total = 0.0;
        for (int64_t k = 1; k < K; k++) largest = z[k] > largest ? z[k] : largest;
        for (int64_t k = 0; k < K; k++) total += ds_exp(z[k] - largest);
        largest += ds_log(total);
        for (int64_t k = 0; k < K; k++) z[k] -= largest;
    }
}
