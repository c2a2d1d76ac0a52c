#include "nearest.h"

#include "ds_math.h"
#include "processor.h"
#include "values.h"

#define LARGEST 1e100
#define FARTHEST 1e300
#define NEAREST 1e-3

int ds_claim(int64_t *stop, int64_t end, int64_t new_rows) {
    return __atomic_compare_exchange_n(stop, &end, end + new_rows, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

int64_t ds_write_neighbours(Labelled batch, int64_t skipped, double *to) {
    const int64_t d = batch.rows.d;
    int64_t written = 0;
    for (int64_t i = 0; i < batch.rows.n; i++) {
        if (!(batch.weight[i] > 0.0) || skipped-- > 0) continue;
        for (int64_t c = 0; c < d; c++)
            to[c] = ds_limited(ds_value(batch.rows.values, i * d + c, batch.rows.is_single != 0), -LARGEST, LARGEST);
        to[d] = batch.y[i];
        to[d + 1] = batch.weight[i];
        to += d + 2;
        written++;
    }
    return written;
}

/* Squared distance of a row from a query whose values are multiplied by their factors; INFINITY if it is at least
   `worst`, as is found out every 32 columns: the sum of the parts never falls. */
DS_INLINE double distance(const double *restrict row, const double *restrict query, const double *restrict factor,
                          int64_t d, double worst) {
    double s[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= d; c += 8) {
        for (int64_t j = 0; j < 8; j++) {
            const double apart = row[c + j] * factor[c + j] - query[c + j];
            s[j] += apart * apart;
        }
        if (c % 32 == 24 && ds_sum8(s) >= worst) return INFINITY;
    }
    double rest = 0.0; /* a place of `s` that is known only here would keep all of them out of registers */
    for (; c < d; c++) {
        const double apart = row[c] * factor[c] - query[c];
        rest += apart * apart;
    }
    const double total = ds_sum8(s) + rest;
    return total < FARTHEST ? total : FARTHEST;
}

/* Write the squared distances of the nearest rows and their places, the nearest first; return their number. */
DS_INLINE int64_t find(Neighbours known, double *restrict squared) {
    int64_t found = 0;
    double worst = INFINITY;
    for (int64_t i = known.n - 1; i >= 0; i--) {
        const double own = distance(known.rows + i * (known.d + 2), known.room, known.factor, known.d, worst);
        if (!(own < worst)) continue;
        int64_t at = found < known.most ? found++ : found - 1;
        for (; at > 0 && squared[at - 1] > own; at--) {
            squared[at] = squared[at - 1];
            known.place[at] = known.place[at - 1];
        }
        squared[at] = own;
        known.place[at] = i;
        if (found == known.most) worst = squared[found - 1];
    }
    return found;
}

/* Make votes of squared distances. */
DS_INLINE void weigh(double *squared, int64_t found) {
    const double far = found ? __builtin_sqrt(squared[found - 1]) : 0.0, near = NEAREST * far;
    double total = 0.0;
    for (int64_t j = 0; j < found; j++) {
        const double own = __builtin_sqrt(squared[j]);
        squared[j] = far > 0.0 ? far / (own > near ? own : near) : 1.0;
        total += squared[j];
    }
    for (int64_t j = 0; j < found; j++) squared[j] *= (double)found / total;
}

DS_INLINE void elect(Neighbours known, const double *votes, int64_t found, double *out) {
    double all = 0.0, total = known.smoothing;
    for (int64_t c = 0; c < known.K; c++) all += known.counts[c];
    for (int64_t c = 0; c < known.K; c++)
        out[c] = known.smoothing * ((known.counts[c] + 1.0) / (all + (double)known.K));
    for (int64_t j = 0; j < found; j++) {
        const double *row = known.rows + known.place[j] * (known.d + 2) + known.d;
        if (!(row[0] >= 0.0 && row[0] < (double)known.K)) continue;
        out[(int64_t)row[0]] += votes[j] * row[1];
        total += votes[j] * row[1];
    }
    for (int64_t c = 0; c < known.K; c++) out[c] = ds_log(out[c] / total);
}

DS_INLINE double mean_of(Neighbours known, const double *votes, int64_t found) {
    double sum = 0.0, total = 0.0;
    for (int64_t j = 0; j < found; j++) {
        const double *row = known.rows + known.place[j] * (known.d + 2) + known.d;
        sum += votes[j] * row[1] * row[0];
        total += votes[j] * row[1];
    }
    return total > 0.0 ? sum / total : 0.0;
}

DS_INLINE void nearest(Rows queries, Neighbours known, double *out) {
    double *votes = known.room + known.d;
    for (int64_t i = 0; i < queries.n; i++) {
        for (int64_t c = 0; c < known.d; c++) {
            const double value = ds_value(queries.values, i * known.d + c, queries.is_single != 0);
            known.room[c] = ds_limited(value, -LARGEST, LARGEST) * known.factor[c];
        }
        const int64_t found = find(known, votes);
        weigh(votes, found);
        if (known.K) elect(known, votes, found, out + i * known.K);
        else out[i] = mean_of(known, votes, found);
    }
}

DS_THRICE(, void, ds_nearest, nearest, (Rows queries, Neighbours known, double *out), (queries, known, out))
