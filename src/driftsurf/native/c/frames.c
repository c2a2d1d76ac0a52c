#include "frames.h"

#include "columns.h"
#include "ds_math.h"
#include "processor.h"
#include "values.h"

double ds_select(double *values, int64_t n, int64_t k) {
    /* A quickselect; the pivot is the median of three. Its loops have no branches that depend on values, which a
       processor would mispredict half of the time. Among values that are NaN the result means nothing. */
    int64_t lo = 0, hi = n;
    for (;;) {
        const double a = values[lo], b = values[lo + (hi - lo) / 2], c = values[hi - 1];
        const double less = b < a ? b : a, more = b > a ? b : a, least = c < more ? c : more;
        const double pivot = least > less ? least : less;
        int64_t smaller = lo;
        for (int64_t i = lo; i < hi; i++) {
            const double value = values[i];
            values[i] = values[smaller];
            values[smaller] = value;
            smaller += value < pivot;
        }
        if (k < smaller) {
            hi = smaller;
            continue;
        }
        lo = smaller;
        for (int64_t i = smaller; i < hi; i++) {
            const double value = values[i];
            values[i] = values[lo];
            values[lo] = value;
            lo += value == pivot;
        }
        if (k < lo || lo == smaller) return pivot; /* nothing equals a pivot that is NaN */
    }
}

/* Median of at least one value, which are reordered. */
static double median(double *values, int64_t n) {
    const double middle = ds_select(values, n, n / 2);
    if (n % 2 == 1) return middle;
    double below = values[0];
    for (int64_t i = 1; i < n / 2; i++) below = values[i] > below ? values[i] : below;
    return (below + middle) / 2.0;
}

double ds_median_target(const double *y, const double *weight, int64_t n, double *values) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (weight[i] > 0.0) values[count++] = y[i];
    return count > 0 ? 0.0 + median(values, count) : NAN; /* no negative zero */
}

/* Set the limit of each column to `cap` times its size, and its sum to 0. */
static void begin_pass(const double *sizes, int64_t d, double cap, double *limit, double *total) {
    for (int64_t c = 0; c < d; c++) {
        limit[c] = cap * sizes[c];
        total[c] = 0.0;
    }
}

/* Write the size of each column that a pass has summed; return whether those of chosen columns have settled. */
static int end_pass(const double *total, const double *mass, const double *chosen, int64_t d, double *sizes) {
    int settled = 1;
    for (int64_t c = 0; c < d; c++) {
        const double size = mass[c] > 0.0 ? total[c] / mass[c] : 0.0;
        settled &= chosen[c] == 0.0 || sizes[c] <= 1.01 * size; /* sizes decrease from pass to pass */
        sizes[c] = size;
    }
    return settled;
}

/* Add the weights of the values of a row that are not at their centre. */
DS_INLINE void add_mass(const void *restrict row, double own, const double *restrict centre, double *restrict mass,
                        int64_t d, int single) {
    for (int64_t c = 0; c < d; c++) mass[c] += ds_value(row, c, single) - centre[c] != 0.0 ? own : 0.0;
}

/* Add the sizes of the values of a row, each up to its limit. */
DS_INLINE void add_sizes(const void *restrict row, double own, const double *restrict centre,
                         const double *restrict limit, double *restrict total, int64_t d, int single) {
    for (int64_t c = 0; c < d; c++) {
        const double size = fabs(ds_value(row, c, single) - centre[c]);
        total[c] += own * (limit[c] < size ? limit[c] : size);
    }
}

/* Write the typical size of the non-zero values of each chosen column, its centre subtracted: the mean of |x|, where
   each value counts as at most `cap` times that mean, found by repetition. A column of CSR rows that has a centre has
   no zeros. */
DS_INLINE void typical_sizes(Rows rows, const double *weight, const double *centre, const double *chosen, double cap,
                             int64_t most_passes, double *sizes, double *work, int single) {
    const int64_t d = rows.d;
    double *limit = work, *total = work + d, *mass = work + 2 * d;
    for (int64_t c = 0; c < d; c++) {
        sizes[c] = INFINITY;
        mass[c] = 0.0;
    }
    for (int64_t i = 0; i < rows.n; i++) {
        const double own = weight[i];
        if (own == 0.0) continue;
        if (!rows.indptr) {
            add_mass(ds_from(rows.values, i * d, single), own, centre, mass, d, single);
            continue;
        }
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = rows.indices[p];
            if (chosen[c] != 0.0 && ds_value(rows.values, p, single) - centre[c] != 0.0) mass[c] += own;
        }
    }
    for (int64_t pass = 0; pass < most_passes; pass++) {
        begin_pass(sizes, d, cap, limit, total);
        for (int64_t i = 0; i < rows.n; i++) {
            const double own = weight[i];
            if (own == 0.0) continue;
            if (!rows.indptr) {
                add_sizes(ds_from(rows.values, i * d, single), own, centre, limit, total, d, single);
                continue;
            }
            for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
                const int64_t c = rows.indices[p];
                const double size = fabs(ds_value(rows.values, p, single) - centre[c]);
                if (chosen[c] != 0.0) total[c] += own * (limit[c] < size ? limit[c] : size);
            }
        }
        if (end_pass(total, mass, chosen, d, sizes)) return;
    }
}

/* Set `chosen` to 1 for each column that is never 0 in the rows of positive weight, otherwise to 0. */
DS_INLINE void choose_whole(Rows rows, const double *weight, int64_t count, double *chosen, int single) {
    const int64_t d = rows.d;
    for (int64_t c = 0; c < d; c++) chosen[c] = rows.indptr ? 0.0 : 1.0;
    for (int64_t i = 0; i < rows.n; i++) {
        if (!(weight[i] > 0.0)) continue;
        if (!rows.indptr) {
            for (int64_t c = 0; c < d; c++)
                chosen[c] = ds_value(rows.values, i * d + c, single) != 0.0 ? chosen[c] : 0.0;
            continue;
        }
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++)
            if (ds_value(rows.values, p, single) != 0.0) chosen[rows.indices[p]] += 1.0;
    }
    if (rows.indptr)
        for (int64_t c = 0; c < d; c++) chosen[c] = chosen[c] == (double)count ? 1.0 : 0.0;
}

/* Value of column c in row i, which has one. */
DS_INLINE double value_at(Rows rows, int64_t i, int64_t c, int single) {
    if (!rows.indptr) return ds_value(rows.values, i * rows.d + c, single);
    int64_t a = rows.indptr[i], b = rows.indptr[i + 1] - 1;
    while (a < b) {
        const int64_t middle = a + (b - a) / 2;
        if (rows.indices[middle] < c)
            a = middle + 1;
        else
            b = middle;
    }
    return ds_value(rows.values, a, single);
}

DS_INLINE void frame(Rows rows, const double *weight, int centred, FrameRules rules, int64_t most_passes,
                     double *centre, double *sizes, double *work, double *values, int single) {
    const int64_t d = rows.d;
    double *middle = work + 3 * d, *chosen = work + 4 * d, *spread = work + 5 * d;
    for (int64_t c = 0; c < d; c++) {
        centre[c] = 0.0;
        chosen[c] = 1.0;
    }
    typical_sizes(rows, weight, centre, chosen, rules.cap, most_passes, sizes, work, single);
    int64_t count = 0, whole = 0;
    for (int64_t i = 0; i < rows.n; i++) count += weight[i] > 0.0;
    if (!centred || (double)count < rules.enough) return;
    choose_whole(rows, weight, count, chosen, single);
    for (int64_t c = 0; c < d; c++) {
        middle[c] = 0.0;
        if (chosen[c] == 0.0) continue;
        whole++;
        int64_t n = 0;
        for (int64_t i = 0; i < rows.n; i++)
            if (weight[i] > 0.0) values[n++] = value_at(rows, i, c, single);
        middle[c] = n > 0 ? median(values, n) : 0.0;
    }
    if (whole == 0) return;
    typical_sizes(rows, weight, middle, chosen, rules.cap, most_passes, spread, work, single);
    for (int64_t c = 0; c < d; c++) /* a column is centred whose median is far from 0, compared with its spread */
        if (chosen[c] != 0.0 && fabs(middle[c]) >= rules.far * spread[c]) {
            const double least = fabs(middle[c]) / rules.farthest;
            centre[c] = middle[c];
            sizes[c] = least > spread[c] ? least : spread[c];
        }
}

DS_INLINE void frame_of(Rows rows, const double *weight, int centred, FrameRules rules, int64_t most_passes,
                        double *centre, double *sizes, double *work, double *values) {
    if (rows.is_single)
        frame(rows, weight, centred, rules, most_passes, centre, sizes, work, values, 1);
    else
        frame(rows, weight, centred, rules, most_passes, centre, sizes, work, values, 0);
}

DS_THRICE(, void, ds_frame, frame_of,
         (Rows rows, const double *weight, int centred, FrameRules rules, int64_t most_passes, double *centre,
          double *sizes, double *work, double *values),
         (rows, weight, centred, rules, most_passes, centre, sizes, work, values))

void ds_reframe(double *W, double *G, int64_t d, int64_t K, double *factor, double *centre, const double *new_centre,
                const double *sizes, double smallest) {
    /* The table holds one scalar per row and output, whatever the coordinates. The gradient sum has the squared factor
       of each column as a factor, and its intercept entry is the plain sum of the scalars, which is all that is needed
       to move the centre. So the change is exact and takes no visit to any row. A column without a size keeps its
       factor. */
    const double last_gain = factor[d] * factor[d];
    for (int64_t c = 0; c < d; c++) {
        const double shift = new_centre[c] - centre[c], old = factor[c] * factor[c];
        const double gain = sizes[c] > 0.0 ? 1.0 / ds_limited(sizes[c], smallest, 1.0 / smallest) : factor[c];
        for (int64_t k = 0; k < K; k++) {
            const double last = last_gain > 0.0 ? G[d * K + k] / last_gain : 0.0;
            W[d * K + k] += W[c * K + k] * shift;
            G[c * K + k] = gain * gain * (G[c * K + k] / old - shift * last);
        }
        centre[c] = new_centre[c];
        factor[c] = gain;
    }
}

double ds_usual_norm(Rows rows, const double *weight, const double *factor, const double *centre, double quantile,
                     double *values) {
    int64_t n = 0;
    ds_squared_norms(rows, factor, centre, values);
    for (int64_t i = 0; i < rows.n; i++)
        if (weight[i] > 0.0) values[n++] = values[i] * weight[i];
    if (n == 0) return 1.0;
    const double usual = ds_select(values, n, (int64_t)ds_floor(quantile * (double)(n - 1)));
    return usual > 0.0 && usual < INFINITY ? usual : 1.0;
}

void ds_uncentre(const double *W, int64_t d, int64_t K, const double *centre, double target, double *out) {
    for (int64_t k = 0; k < K; k++) {
        double total = 0.0;
        for (int64_t c = 0; c < d; c++) {
            total += W[c * K + k] * centre[c];
            out[c * K + k] = W[c * K + k];
        }
        out[d * K + k] = W[d * K + k] - (total - target);
    }
}
