#include "encoding.h"

#include "ds_math.h"
#include "values.h"

int64_t ds_put_column(const double *values, int64_t n, double fill, int64_t place, int64_t width, double *out,
                      double *missing) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = values[i];
        if (value != value) {
            value = fill;
            missing[i] = 1.0;
            found++;
        }
        out[i * width + place] = value;
    }
    return found;
}

int64_t ds_assemble_rows(const Places *table, double *data, int32_t *indices, int64_t *indptr, int64_t *infinite) {
    const int64_t m = table->n_places;
    const int32_t *column = table->places, *word = column + m, *mark = word + m, *is_mark = mark + m;
    int64_t count = 0, bad = 0;
    indptr[0] = 0;
    for (int64_t i = 0; i < table->n; i++) {
        for (int64_t k = 0; k < m; k++) {
            double value = table->values[k * table->n + i];
            if (is_mark[k]) {
                value = table->marks[k];
                table->marks[k] = 0.0;
            } else if (value != value) {
                value = table->fills[k];
                if (mark[k] >= 0) table->marks[mark[k]] = 1.0;
            }
            /* Written in any case, since a branch would be mispredicted. */
            data[count] = value;
            indices[count] = word[k] < 0 ? column[k] : table->words[word[k] * table->n + i];
            bad += !(fabs(value) < INFINITY);
            count += value != 0.0;
        }
        indptr[i + 1] = count;
    }
    *infinite = bad;
    return count;
}

DS_INLINE int is_finite(const void *values, int64_t n, int single) {
    int64_t bad = 0;
    for (int64_t p = 0; p < n; p++) bad += !(fabs(ds_value(values, p, single)) < INFINITY);
    return bad == 0;
}

int ds_is_sound_csr(Rows rows, int64_t stored) {
    const int64_t *indptr = rows.indptr;
    if (indptr[0] != 0 || indptr[rows.n] != stored) return 0;
    for (int64_t i = 0; i < rows.n; i++)
        if (indptr[i + 1] < indptr[i] || indptr[i + 1] > stored) return 0;
    int64_t bad = 0;
    for (int64_t i = 0; i < rows.n; i++) {
        int64_t before = -1;
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++) {
            const int64_t column = rows.indices[p];
            bad += (column <= before) | (column >= rows.d);
            before = column;
        }
    }
    return bad == 0 && (rows.is_single ? is_finite(rows.values, stored, 1) : is_finite(rows.values, stored, 0));
}

DS_INLINE void products(Rows rows, const double *restrict targets, int64_t K, int64_t width, double *restrict out,
                        int single) {
    for (int64_t i = 0; i < rows.n; i++) {
        const double *restrict own = targets + i * K;
        for (int64_t k = 0; k < K; k++) out[k] += own[k];
        out[K] += 1.0;
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = (int64_t)rows.indices[p] + 1;
            if (c >= width) continue;
            const double value = ds_value(rows.values, p, single);
            double *restrict sums = out + c * (K + 1); /* side by side, in one line of the cache */
            for (int64_t k = 0; k < K; k++) sums[k] += value * own[k];
            sums[K] += value * value;
        }
    }
}

void ds_column_products(Rows rows, const double *targets, int64_t K, int64_t width, double *out) {
    if (rows.is_single)
        products(rows, targets, K, width, out, 1);
    else if (K == 2) /* two classes: a known number takes half of the time */
        products(rows, targets, 2, width, out, 0);
    else
        products(rows, targets, K, width, out, 0);
}
