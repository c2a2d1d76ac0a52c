#include "columns.h"

#include <string.h>

#include "ds_math.h"
#include "processor.h"
#include "values.h"

DS_INLINE int64_t extend_dense(Rows rows, const double *restrict weight, double *restrict low, double *restrict high,
                               int single) {
    int64_t extending = 0;
    for (int64_t i = 0; i < rows.n; i++) {
        if (!(weight[i] > 0.0)) continue;
        const void *row = ds_from(rows.values, i * rows.d, single);
        int64_t outside = 0;
        for (int64_t c = 0; c < rows.d; c++) {
            const double value = ds_value(row, c, single);
            outside += (value < low[c]) | (value > high[c]);
        }
        if (!outside) continue;
        extending++;
        for (int64_t c = 0; c < rows.d; c++) {
            const double value = ds_value(row, c, single);
            low[c] = value < low[c] ? value : low[c];
            high[c] = value > high[c] ? value : high[c];
        }
    }
    return extending;
}

DS_INLINE int64_t extend_csr(Rows rows, const double *weight, double *low, double *high, int single) {
    const int first = rows.d > 0 && low[0] == INFINITY;
    int64_t extending = 0;
    if (first)
        for (int64_t c = 0; c < rows.d; c++) low[c] = high[c] = 0.0;
    for (int64_t i = 0; i < rows.n; i++) {
        if (!(weight[i] > 0.0)) continue;
        int outside = 0;
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = rows.indices[p];
            const double value = ds_value(rows.values, p, single);
            outside |= (value < low[c]) | (value > high[c]);
            low[c] = value < low[c] ? value : low[c];
            high[c] = value > high[c] ? value : high[c];
        }
        extending += outside;
    }
    if (first && extending == 0) /* all values are 0: there is no range yet */
        for (int64_t c = 0; c < rows.d; c++) {
            low[c] = INFINITY;
            high[c] = -INFINITY;
        }
    return extending;
}

int64_t ds_extend_range(Rows rows, const double *weight, double *low, double *high) {
    if (rows.indptr)
        return rows.is_single ? extend_csr(rows, weight, low, high, 1) : extend_csr(rows, weight, low, high, 0);
    return rows.is_single ? extend_dense(rows, weight, low, high, 1) : extend_dense(rows, weight, low, high, 0);
}

DS_INLINE void norms_dense(Rows rows, const double *factor, const double *centre, double *restrict out, int single) {
    const double last = factor[rows.d] * factor[rows.d];
    for (int64_t i = 0; i < rows.n; i++)
        out[i] = last + ds_squared_norm(factor, centre, ds_from(rows.values, i * rows.d, single), rows.d, single);
}

/* As (x - m)^2 = m^2 + x (x - 2 m), only values that are stored are looked at. */
DS_INLINE void norms_csr(Rows rows, const double *factor, const double *centre, double *out, int single) {
    double empty = factor[rows.d] * factor[rows.d];
    for (int64_t c = 0; c < rows.d; c++) {
        const double value = factor[c] * centre[c];
        empty += value * value;
    }
    for (int64_t i = 0; i < rows.n; i++) {
        double total = empty;
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = rows.indices[p];
            const double value = factor[c] * ds_value(rows.values, p, single);
            total += value * (value - 2.0 * factor[c] * centre[c]);
        }
        out[i] = total;
    }
}

DS_INLINE void norms(Rows rows, const double *factor, const double *centre, double *out) {
    if (rows.indptr && rows.is_single)
        norms_csr(rows, factor, centre, out, 1);
    else if (rows.indptr)
        norms_csr(rows, factor, centre, out, 0);
    else if (rows.is_single)
        norms_dense(rows, factor, centre, out, 1);
    else
        norms_dense(rows, factor, centre, out, 0);
}

DS_THRICE(, void, ds_squared_norms, norms, (Rows rows, const double *factor, const double *centre, double *out),
         (rows, factor, centre, out))

/* Sum of value * 0, which is NaN if a value is infinite or NaN. */
DS_INLINE double zero_of(const void *restrict values, int64_t n, int single) {
    double s[8] = {0.0};
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int64_t j = 0; j < 8; j++) s[j] += ds_value(values, k + j, single) * 0.0;
    for (int64_t j = 0; k + j < n; j++) s[j] += ds_value(values, k + j, single) * 0.0;
    return ds_sum8(s);
}

int ds_all_finite(const void *values, int64_t n, int single) {
    return (single ? zero_of(values, n, 1) : zero_of(values, n, 0)) == 0.0;
}

DS_INLINE int between(const void *restrict values, int64_t n, double least, double most, int missing, int single) {
    int64_t outside = 0; /* counted to the end: without an early exit the loop is vectorised */
    for (int64_t k = 0; k < n; k++) {
        const double value = ds_value(values, k, single);
        outside += !(((value >= least) & (value <= most)) | (missing & (value != value)));
    }
    return outside == 0;
}

int ds_all_between(const void *values, int64_t n, double least, double most, int missing, int single) {
    missing = missing != 0;
    return single ? between(values, n, least, most, missing, 1) : between(values, n, least, most, missing, 0);
}

int ds_are_codes(const double *values, int64_t n, int64_t n_classes) {
    int64_t bad = 0;
    for (int64_t k = 0; k < n; k++) {
        const double value = values[k];
        bad += !(value >= 0.0 && value < (double)n_classes && value == ds_floor(value));
    }
    return bad == 0;
}

void ds_column_limits(const double *total, const double *mass, int64_t d, double most, int64_t length, double *out) {
    for (int64_t c = 0; c < d; c++) {
        const double limit = ds_limit_of(total[c], mass[c], most);
        for (int64_t k = c; k < length; k += d) out[k] = limit;
    }
}

void ds_range_of_weighted(const double *values, const double *weight, int64_t n, double *low, double *high) {
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (!weight || weight[i] > 0.0) {
            least = values[i] < least ? values[i] : least;
            most = values[i] > most ? values[i] : most;
        }
    *low = least;
    *high = most;
}

/* Number of values that are not finite or beyond their limit. */
DS_INLINE int64_t beyond(const void *restrict values, const double *restrict most, int64_t n, int single) {
    int64_t outside = 0; /* counted to the end, so that the loop is vectorised */
    for (int64_t c = 0; c < n; c++) {
        const double size = fabs(ds_value(values, c, single));
        outside += !((size <= most[c]) & (size < INFINITY));
    }
    return outside;
}

DS_INLINE int all_within(Rows rows, const double *most, int64_t repeats, int single) {
    if (rows.indptr) {
        int64_t outside = 0;
        for (int64_t p = rows.indptr[0]; p < rows.indptr[rows.n]; p++) {
            const double size = fabs(ds_value(rows.values, p, single));
            outside += !((size <= most[rows.indices[p]]) & (size < INFINITY));
        }
        return outside == 0;
    }
    const int64_t length = rows.d * repeats, size = rows.n * rows.d;
    int64_t k = 0;
    if (length == 0) return 1;
    for (; k + length <= size; k += length)
        if (beyond(ds_from(rows.values, k, single), most, length, single)) return 0;
    return beyond(ds_from(rows.values, k, single), most, size - k, single) == 0;
}

int ds_all_within(Rows rows, const double *most, int64_t repeats) {
    return rows.is_single ? all_within(rows, most, repeats, 1) : all_within(rows, most, repeats, 0);
}

DS_INLINE void put(void *values, int64_t at, double value, int single) {
    if (single)
        ((float *)values)[at] = (float)value;
    else
        ((double *)values)[at] = value;
}

DS_INLINE int64_t copied(void *restrict out, const void *restrict values, int64_t n, int to_single, int single) {
    int64_t bad = 0; /* counted to the end, so that the loop is vectorised */
    for (int64_t k = 0; k < n; k++) {
        put(out, k, ds_value(values, k, single), to_single);
        bad += !(fabs(ds_value(out, k, to_single)) < INFINITY);
    }
    return bad;
}

DS_INLINE int copy_finite(void *out, int to_single, const void *values, int single, int64_t n) {
    if (to_single) return (single ? copied(out, values, n, 1, 1) : copied(out, values, n, 1, 0)) == 0;
    return (single ? copied(out, values, n, 0, 1) : copied(out, values, n, 0, 0)) == 0;
}

DS_THRICE(, int, ds_copy_finite, copy_finite, (void *out, int to_single, const void *values, int single, int64_t n),
          (out, to_single, values, single, n))

/* Limit values in place; those of CSR rows begin with the first row. */
DS_INLINE void limit(Rows rows, const double *restrict most, void *restrict values, int single) {
    if (rows.indptr) {
        const int64_t a = rows.indptr[0];
        for (int64_t p = a; p < rows.indptr[rows.n]; p++) {
            const double own = most[rows.indices[p]];
            put(values, p - a, ds_limited(ds_value(values, p - a, single), -own, own), single);
        }
        return;
    }
    for (int64_t i = 0; i < rows.n; i++) {
        void *restrict row = (char *)values + i * rows.d * (single ? 4 : 8);
        for (int64_t c = 0; c < rows.d; c++)
            put(row, c, ds_limited(ds_value(row, c, single), -most[c], most[c]), single);
    }
}

void ds_clip(Rows rows, const double *most, void *out) {
    const int64_t first = rows.indptr ? rows.indptr[0] : 0, size = rows.is_single ? 4 : 8;
    const char *values = (const char *)rows.values + first * size;
    if (out != values) memcpy(out, values, size * (rows.indptr ? rows.indptr[rows.n] - first : rows.n * rows.d));
    if (rows.is_single)
        limit(rows, most, out, 1);
    else
        limit(rows, most, out, 0);
}
