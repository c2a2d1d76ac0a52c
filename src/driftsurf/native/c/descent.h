/* What the gradient steps of linear.c and multi.c share: reading values, sums over columns, and prefetching. */

#ifndef DRIFTSURF_DESCENT_H
#define DRIFTSURF_DESCENT_H

#include <stddef.h>

#include "linear.h"
#include "values.h"

enum {
    AHEAD = 8,        /* steps between prefetching a row and using it: loading a row from memory takes about as long */
    CACHED = 1 << 15, /* number of values that fit into the near caches, where a prefetch costs more than it saves */
    LINE = 64,        /* bytes of a cache line */
    MOST_LINES = 32   /* most lines to prefetch of one row; the processor notices that a long row is read in order */
};

/* w . (x_i - centre). The order of the sum depends on d alone. */
DS_INLINE double ds_centred_dot(const void *restrict values, int64_t i, const double *restrict w,
                                           const double *restrict centre, int64_t d, int is_single) {
    const int64_t start = i * d;
    int64_t c = 0;
    double total = 0.0;
    if (d >= 8) {
        double sums[8];
        for (int lane = 0; lane < 8; lane++)
            sums[lane] = w[lane] * (ds_value(values, start + lane, is_single) - centre[lane]);
        for (c = 8; c + 8 <= d; c += 8)
            for (int lane = 0; lane < 8; lane++)
                sums[lane] += w[c + lane] * (ds_value(values, start + c + lane, is_single) - centre[c + lane]);
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
    double rest = 0.0;
    for (; c < d; c++) rest += w[c] * (ds_value(values, start + c, is_single) - centre[c]);
    return total + rest;
}

/* Load the elements from `start` to `stop` into the caches, a kind of hint that changes no result. */
DS_INLINE void ds_prefetch(const void *array, int64_t size, int64_t start, int64_t stop) {
    const char *first = (const char *)array + start * size, *last = (const char *)array + stop * size;
    if (first >= last) return;
    for (int k = 0; k < MOST_LINES && first + k * LINE < last; k++) __builtin_prefetch(first + k * LINE);
    __builtin_prefetch(last - 1); /* the last line, which the steps of the loop may miss */
}

/* Prefetch row i with its target and weight, and `K` gradients. */
DS_INLINE void ds_prefetch_dense(const Descent *model, int64_t i, int64_t d, int64_t K, int is_single) {
    ds_prefetch(model->set.rows.values, is_single ? 4 : 8, i * d, (i + 1) * d);
    __builtin_prefetch(model->set.y + i);
    __builtin_prefetch(model->set.weight + i);
    if (K) ds_prefetch(model->model.table, 8, i * K, (i + 1) * K);
    if (model->offset) __builtin_prefetch(model->offset + i);
}

/* Prefetch the CSR row of a later step, in two stages: where its values are is itself in memory. */
DS_INLINE void ds_prefetch_csr(const Descent *model, int64_t j, int64_t steps, int64_t K, int is_single) {
    if (j + 2 * AHEAD >= steps) return;
    const Rows *rows = &model->set.rows;
    const int64_t i = model->order[j + AHEAD], later = model->order[j + 2 * AHEAD];
    ds_prefetch(rows->values, is_single ? 4 : 8, rows->indptr[i], rows->indptr[i + 1]);
    ds_prefetch(rows->indices, 4, rows->indptr[i], rows->indptr[i + 1]);
    __builtin_prefetch(rows->indptr + later);
    __builtin_prefetch(model->set.y + later);
    __builtin_prefetch(model->set.weight + later);
    if (K) ds_prefetch(model->model.table, 8, later * K, (later + 1) * K);
    if (model->offset) __builtin_prefetch(model->offset + later);
}

#endif
