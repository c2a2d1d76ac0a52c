#include "guard.h"

#include "columns.h"
#include "ds_math.h"
#include "frames.h"
#include "processor.h"
#include "values.h"

#define QUANTILE 0.9
#define COLUMN_MEMORY 10000.0 /* number of rows over which the sizes of columns are averaged */
/* A column has a new scale when the sizes of its values, in units of the usual size and each up to DS_CAP, exceed GROWN
   by EVIDENCE in total. Their mean is 1 as long as nothing changes, and 5/3 when a third of the values are at the cap. */
#define GROWN (5.0 / 3.0)
#define EVIDENCE 100.0
#define MOST_PASSES 200 /* as in learners/_linear.py */

/* What one pass over rows finds: the largest norm, the number of norms that are 0, and of rows with a value
   beyond DS_LIMIT. */
typedef struct {
    double largest;
    int64_t zeros, extremes;
} Measured;

/* Factor of a column of this size; finite, so that no norm is NaN. */
static double factor_of(double size) { return size > 0.0 ? 1.0 / (size > 1e-300 ? size : 1e-300) : 1.0; }

/* Write factor, cap, total and mass of each column. The size of a column is total / mass; both are halved once a column
   has more mass than COLUMN_MEMORY, so that old rows fade. A column without mass has factor 1 and cap 0, any other has
   factor 1 / size and a cap of DS_CAP sizes. Returns the factor by which total and mass have faded. */
static double size_columns(const double *restrict before, int64_t d, double *restrict after) {
    const double *total = before + DS_TOTAL * d, *mass = before + DS_MASS * d;
    double fade = 1.0;
    for (int64_t c = 0; c < d; c++) fade = mass[c] > COLUMN_MEMORY ? 0.5 : fade;
    for (int64_t c = 0; c < d; c++) {
        const double own = fade * total[c], weight = fade * mass[c];
        const double size = weight == 0.0 ? 0.0 : own / weight;
        after[DS_TOTAL * d + c] = own;
        after[DS_MASS * d + c] = weight;
        after[DS_FACTOR * d + c] = factor_of(size);
        after[DS_COLUMN_CAP * d + c] = DS_CAP * size;
    }
    return fade;
}

DS_INLINE void note_norm(double scaled, Measured *found) {
    found->largest = scaled > found->largest ? scaled : found->largest;
    found->zeros += scaled == 0.0;
}

/* `ds_sum8` of d parts, the others being 0. */
DS_INLINE double sum_of_few(const double *s, int64_t d) {
    switch (d) {
    case 1: return s[0];
    case 2: return s[0] + s[1];
    case 3: return (s[0] + s[2]) + s[1];
    default: return (s[0] + s[2]) + (s[1] + s[3]);
    }
}

/* Measure dense rows: squared norms out[i] = sum of (factor * x_i)^2; the sum of min(|x|, cap) of each column is added
   to its total, and the number of its non-zeros to its mass. Rows whose squares overflow do not count for the sizes. */
DS_INLINE Measured measure_dense(Rows rows, int64_t d, double *columns, double *restrict out, int single) {
    const double *restrict factor = columns + DS_FACTOR * d, *restrict cap = columns + DS_COLUMN_CAP * d;
    double *restrict total = columns + DS_TOTAL * d, *restrict mass = columns + DS_MASS * d;
    Measured found = {0.0, 0, 0};
    for (int64_t i = 0; i < rows.n; i++) {
        const void *restrict row = ds_from(rows.values, i * d, single);
        double plain[8] = {0.0}, scaled[8] = {0.0}, most[8] = {0.0};
        int64_t c = 0;
        for (; c + 8 <= d; c += 8)
            for (int64_t j = 0; j < 8; j++) {
                const double value = ds_value(row, c + j, single), own = fabs(value * factor[c + j]);
                plain[j] += value * value;
                scaled[j] += own * own;
                most[j] = own > most[j] ? own : most[j];
            }
        for (int64_t j = 0; c + j < d; j++) {
            const double value = ds_value(row, c + j, single), own = fabs(value * factor[c + j]);
            plain[j] += value * value;
            scaled[j] += own * own;
            most[j] = own > most[j] ? own : most[j];
        }
        out[i] = ds_sum8(scaled);
        note_norm(out[i], &found);
        for (int64_t j = 1; j < 8; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
        found.extremes += most[0] > DS_LIMIT;
        if (!(ds_sum8(plain) < INFINITY)) continue;
        for (c = 0; c < d; c++) {
            const double size = fabs(ds_value(row, c, single));
            total[c] += size < cap[c] ? size : cap[c];
            mass[c] += size != 0.0 ? 1.0 : 0.0;
        }
    }
    return found;
}

/* `measure_dense` for at most four columns, of which the sums stay in registers. Parts of `ds_sum8` that are 0 are left
   out, which changes no bit. */
DS_INLINE Measured measure_narrow(Rows rows, int64_t d, double *columns, double *restrict out) {
    double factor[4], cap[4], total[4], mass[4];
    for (int64_t c = 0; c < d; c++) {
        factor[c] = columns[DS_FACTOR * d + c];
        cap[c] = columns[DS_COLUMN_CAP * d + c];
        total[c] = columns[DS_TOTAL * d + c];
        mass[c] = columns[DS_MASS * d + c];
    }
    Measured found = {0.0, 0, 0};
    for (int64_t i = 0; i < rows.n; i++) {
        const double *restrict row = (const double *)rows.values + i * d;
        double plain[4], scaled[4], most = 0.0;
        for (int64_t c = 0; c < d; c++) {
            const double own = fabs(row[c] * factor[c]);
            plain[c] = row[c] * row[c];
            scaled[c] = own * own;
            most = own > most ? own : most;
        }
        out[i] = sum_of_few(scaled, d);
        note_norm(out[i], &found);
        found.extremes += most > DS_LIMIT;
        if (!(sum_of_few(plain, d) < INFINITY)) continue;
        for (int64_t c = 0; c < d; c++) {
            const double size = fabs(row[c]);
            total[c] += size < cap[c] ? size : cap[c];
            mass[c] += size != 0.0 ? 1.0 : 0.0;
        }
    }
    for (int64_t c = 0; c < d; c++) {
        columns[DS_TOTAL * d + c] = total[c];
        columns[DS_MASS * d + c] = mass[c];
    }
    return found;
}

/* Measure CSR rows as `measure_dense` does. */
DS_INLINE Measured measure_csr(Rows rows, double *columns, double *restrict out, int single) {
    const int64_t d = rows.d;
    const double *restrict factor = columns + DS_FACTOR * d, *restrict cap = columns + DS_COLUMN_CAP * d;
    double *restrict total = columns + DS_TOTAL * d, *restrict mass = columns + DS_MASS * d;
    Measured found = {0.0, 0, 0};
    for (int64_t i = 0; i < rows.n; i++) {
        double plain = 0.0, scaled = 0.0, most = 0.0;
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const double value = ds_value(rows.values, p, single), own = value * factor[rows.indices[p]];
            plain += value * value;
            scaled += own * own;
            most = fabs(own) > most ? fabs(own) : most;
        }
        out[i] = scaled;
        found.extremes += most > DS_LIMIT;
        note_norm(scaled, &found);
        if (!(plain < INFINITY)) continue;
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = rows.indices[p];
            const double size = fabs(ds_value(rows.values, p, single));
            total[c] += size < cap[c] ? size : cap[c];
            mass[c] += size != 0.0 ? 1.0 : 0.0;
        }
    }
    return found;
}

DS_INLINE Measured measure_wide(Rows rows, double *columns, double *out) {
    if (rows.is_single) return measure_dense(rows, rows.d, columns, out, 1);
    return measure_dense(rows, rows.d, columns, out, 0);
}

DS_THRICE(static, Measured, measure_columns, measure_wide, (Rows rows, double *columns, double *out), (rows, columns, out))

static Measured measure(Rows rows, double *columns, double *out) {
    if (rows.indptr) return rows.is_single ? measure_csr(rows, columns, out, 1) : measure_csr(rows, columns, out, 0);
    switch (rows.is_single ? 0 : rows.d) { /* a known number of columns takes a third of the time */
    case 1: return measure_narrow(rows, 1, columns, out);
    case 2: return measure_narrow(rows, 2, columns, out);
    case 3: return measure_narrow(rows, 3, columns, out);
    case 4: return measure_narrow(rows, 4, columns, out);
    default: return measure_columns(rows, columns, out);
    }
}

/* Write the excess of each column after rows that took total and mass of `before`, times `fade`, to those of `after`:
   each value that is not 0 adds its size, in units of the size of its column before and up to the cap, minus GROWN. It
   does not fall below 0, and is 0 for a column without mass before. */
static void add_excess(const double *before, double fade, int64_t d, double *after) {
    for (int64_t c = 0; c < d; c++) {
        const double mass = fade * before[DS_MASS * d + c];
        const double sizes = after[DS_FACTOR * d + c] * (after[DS_TOTAL * d + c] - fade * before[DS_TOTAL * d + c]);
        const double excess = before[DS_EXCESS * d + c] + (sizes - GROWN * (after[DS_MASS * d + c] - mass));
        after[DS_EXCESS * d + c] = mass > 0.0 && excess > 0.0 ? excess : 0.0;
    }
}

/* Restart the sums of columns that had no mass before, or whose values have a new scale, and clear their excess; nothing
   without `sizes`. Returns whether there are such columns with values in these rows. */
static int resize(const double *before, double fade, const double *sizes, int64_t d, double *after) {
    int found = 0;
    for (int64_t c = 0; c < d; c++) {
        const int unknown = fade * before[DS_MASS * d + c] == 0.0;
        const int changed = after[DS_EXCESS * d + c] > EVIDENCE;
        found |= changed | (unknown & (after[DS_MASS * d + c] != 0.0));
        if (sizes && (unknown || changed)) {
            after[DS_FACTOR * d + c] = factor_of(sizes[c]);
            after[DS_COLUMN_CAP * d + c] = DS_CAP * sizes[c];
            after[DS_TOTAL * d + c] = 0.0;
            after[DS_MASS * d + c] = 0.0;
            after[DS_EXCESS * d + c] = 0.0;
        }
    }
    return found;
}

/* Whether at least `enough` of the values are not below a limit; the last ones are looked at first. */
static int reach(const double *values, int64_t n, double limit, int64_t enough) {
    int64_t above = 0;
    for (; n > 0 && above < enough; n -= n < 64 ? n : 64)
        for (int64_t k = n < 64 ? 0 : n - 64; k < n; k++) above += values[k] >= limit;
    return above >= enough;
}

/* Replace the norms of rows by their weights; return whether any of them is not 1, otherwise the norms remain. The limit
   is a quantile of the recent norms and those of the new rows, times the squared factor of the guard. */
static int weigh(const Admission *guard, double *norms, int64_t rows, Measured found) {
    const int64_t n = guard->n_recent + rows - found.zeros;
    if (n == 0) return 0;
    const int64_t place = (int64_t)ds_floor(QUANTILE * (double)(n - 1));
    /* Usually no row is beyond the limit: the quantile reaches this value if at most `place` values are below it. 1e-12
       is more than rounding can change. */
    const double enough = found.largest / guard->squared * (1.0 + 1e-12);
    if (enough < INFINITY) {
        int64_t above = 0;
        for (int64_t k = 0; k < rows; k++) above += (norms[k] >= enough) & (norms[k] > 0.0);
        if (reach(guard->recent, guard->n_recent, enough, n - place - above)) return 0;
    }
    int64_t count = 0;
    for (int64_t k = 0; k < guard->n_recent; k++) /* NaN, which a saved state may have, would be the largest values */
        if (guard->recent[k] == guard->recent[k]) guard->work[count++] = guard->recent[k];
    for (int64_t k = 0; k < rows; k++)
        if (norms[k] > 0.0) guard->work[count++] = norms[k];
    const double limit = place < count ? guard->squared * ds_select(guard->work, count, place) : NAN;
    for (int64_t k = 0; k < rows; k++) {
        if (limit < INFINITY)
            norms[k] = norms[k] > limit ? limit / norms[k] : 1.0;
        else
            norms[k] = norms[k] < INFINITY ? 1.0 : 0.0;
    }
    return 1;
}

/* Write the last positive norms of rows to `out`, at most DS_GUARD_MEMORY; return their number. */
static int64_t keep(const double *norms, int64_t rows, int64_t zeros, double *out) {
    int64_t skipped = rows - zeros - DS_GUARD_MEMORY, at = 0;
    for (int64_t k = 0; k < rows; k++) {
        if (norms[k] == 0.0) continue;
        if (skipped > 0)
            skipped--;
        else
            out[at++] = norms[k];
    }
    return at;
}

/* As `ds_admit_new`, with the norms written behind as many of the recent ones as fit before them if `all`. */
static int admit(Rows rows, const Admission *guard, const double *sizes, double *norms, int64_t *extremes,
                 int64_t *kept, int *weighted, int all) {
    const int64_t d = rows.d;
    const double *before = guard->before;
    double *after = guard->after;
    const double fade = size_columns(before, d, after);
    Measured found = measure(rows, after, norms);
    for (int64_t c = 0; c < d; c++) after[DS_EXCESS * d + c] = 0.0;
    if (guard->clips) add_excess(before, fade, d, after);
    if (resize(before, fade, sizes, d, after)) {
        if (!sizes) return DS_UNSIZED;
        for (int64_t c = 0; c < d; c++) { /* the first pass has added these rows to the others */
            if (after[DS_MASS * d + c] == 0.0) continue;
            after[DS_TOTAL * d + c] = fade * before[DS_TOTAL * d + c];
            after[DS_MASS * d + c] = fade * before[DS_MASS * d + c];
        }
        found = measure(rows, after, norms);
    }
    *extremes = found.extremes;
    const int64_t fit = DS_GUARD_MEMORY - (rows.n - found.zeros);
    int64_t old = fit < guard->n_recent ? fit : guard->n_recent;
    if (!all || old < 0) old = 0;
    for (int64_t k = 0; k < old; k++) guard->later[k] = guard->recent[guard->n_recent - old + k];
    *kept = old + keep(norms, rows.n, found.zeros, guard->later + old);
    *weighted = weigh(guard, norms, rows.n, found);
    return DS_ADMITTED;
}

int ds_admit(Rows rows, const Admission *guard, const double *sizes, double *norms, int64_t *extremes, int64_t *kept,
             int *weighted) {
    return admit(rows, guard, sizes, norms, extremes, kept, weighted, 1);
}

int ds_admit_new(Rows rows, const Admission *guard, const double *sizes, double *norms, int64_t *extremes,
                 int64_t *kept, int *weighted) {
    return admit(rows, guard, sizes, norms, extremes, kept, weighted, 0);
}

void ds_sizes_of_rows(Rows rows, double *sizes, double *work) {
    const int64_t d = rows.d;
    const FrameRules rules = {DS_CAP, 0.0, 0.0, 0.0};
    double *centre = work, *frame = work + d, *weight = frame + 6 * d + 1;
    for (int64_t c = 0; c <= d; c++) frame[c] = 1.0; /* the factor of each column, before it is scratch space */
    for (int64_t c = 0; c < d; c++) centre[c] = 0.0;
    ds_squared_norms(rows, frame, centre, weight);
    for (int64_t i = 0; i < rows.n; i++) weight[i] = weight[i] < INFINITY ? 1.0 : 0.0;
    ds_frame(rows, weight, 0, rules, MOST_PASSES, centre, sizes, frame, weight + rows.n);
}
