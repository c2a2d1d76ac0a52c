#include "experts.h"

#include "ds_math.h"
#include "losses.h"
#include "scores.h"
#include "values.h"

#define LARGEST 1e100
#define FARTHEST_DENSITY 1e6
#define TINY 1e-300

DS_INLINE double within(double value, double most) { return ds_limited(value, -most, most); }

/* Value p of rows. */
DS_INLINE double value_at(Rows rows, int64_t p, int single) { return ds_value(rows.values, p, single); }

/* Group of row i. */
DS_INLINE int64_t group_of(const double *group, int64_t i) { return group ? (int64_t)group[i] : 0; }

/* ------------------------------------------------------------------------------------------------------- moments */

DS_INLINE void moments_dense(Rows rows, const double *weight, const double *group, int64_t groups, Moments out,
                          int single) {
    const int64_t d = rows.d;
    for (int64_t i = 0; i < rows.n; i++) {
        double *restrict mean = out.mean + group_of(group, i) * d;
        out.count[group_of(group, i)] += weight[i];
        for (int64_t c = 0; c < d; c++) mean[c] += weight[i] * within(value_at(rows, i * d + c, single), LARGEST);
    }
    for (int64_t k = 0; k < groups; k++)
        if (out.count[k] > 0.0)
            for (int64_t c = 0; c < d; c++) out.mean[k * d + c] /= out.count[k];
    for (int64_t i = 0; i < rows.n; i++) {
        const double *mean = out.mean + group_of(group, i) * d;
        double *restrict squares = out.squares + group_of(group, i) * d;
        for (int64_t c = 0; c < d; c++) {
            const double deviation = within(value_at(rows, i * d + c, single), LARGEST) - mean[c];
            squares[c] += weight[i] * deviation * deviation;
        }
    }
}

/* Squares are summed about 0 and shifted afterwards, since most values are 0. */
static void moments_csr(Rows rows, const double *weight, const double *group, int64_t groups, Moments out) {
    const int64_t d = rows.d;
    for (int64_t i = 0; i < rows.n; i++) {
        const int64_t first = group_of(group, i) * d;
        out.count[group_of(group, i)] += weight[i];
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const double value = within(value_at(rows, p, rows.is_single != 0), LARGEST);
            out.mean[first + rows.indices[p]] += weight[i] * value;
            out.squares[first + rows.indices[p]] += weight[i] * value * value;
        }
    }
    for (int64_t k = 0; k < groups; k++) {
        if (!(out.count[k] > 0.0)) continue;
        for (int64_t q = k * d; q < (k + 1) * d; q++) {
            out.mean[q] /= out.count[k];
            const double rest = out.squares[q] - out.count[k] * out.mean[q] * out.mean[q];
            out.squares[q] = rest > 0.0 ? rest : 0.0;
        }
    }
}

void ds_moments(Rows rows, const double *weight, const double *group, int64_t groups, Moments out) {
    for (int64_t k = 0; k < groups; k++) out.count[k] = 0.0;
    for (int64_t q = 0; q < groups * rows.d; q++) out.mean[q] = out.squares[q] = 0.0;
    if (rows.indptr) moments_csr(rows, weight, group, groups, out);
    else if (rows.is_single) moments_dense(rows, weight, group, groups, out, 1);
    else moments_dense(rows, weight, group, groups, out, 0);
}

void ds_merge_moments(Moments one, Moments other, int64_t groups, int64_t d, Moments out) {
    for (int64_t k = 0; k < groups; k++) {
        const double before = one.count[k], count = before + other.count[k];
        const double share = count > 0.0 ? other.count[k] / count : 0.0, weight = share * before;
        for (int64_t q = k * d; q < (k + 1) * d; q++) {
            const double apart = other.mean[q] - one.mean[q];
            out.squares[q] = one.squares[q] + other.squares[q] + apart * apart * weight;
            out.mean[q] = one.mean[q] + share * apart;
        }
        out.count[k] = count;
    }
}

DS_INLINE double reciprocal_root(double variance) {
    const double factor = 1.0 / __builtin_sqrt(variance);
    return variance < INFINITY ? factor : 0.0; /* also for NaN */
}

void ds_standardise(Moments moments, int64_t d, int centred, double *centre, double *factor) {
    const double count = moments.count[0] > TINY ? moments.count[0] : TINY;
    for (int64_t c = 0; c < d; c++) {
        const double mean = moments.mean[c], variance = moments.squares[c] / count;
        /* The variance of a large constant is not exactly 0. */
        factor[c] = variance > 1e-20 * (mean * mean) ? reciprocal_root(variance) : 0.0;
        centre[c] = centred ? mean : 0.0;
    }
}

void ds_bayes(Moments moments, int64_t K, int64_t d, double smoothing, double *mean, double *factor, double *start) {
    double total = 0.0;
    for (int64_t k = 0; k < K; k++) total += moments.count[k];
    const double mass = total > TINY ? total : TINY;
    for (int64_t k = 0; k < K; k++) start[k] = ds_log((moments.count[k] + 1.0) / (total + (double)K));
    for (int64_t c = 0; c < d; c++) {
        double overall = 0.0, spread = 0.0;
        for (int64_t k = 0; k < K; k++) overall += moments.count[k] * moments.mean[k * d + c];
        overall /= mass;
        /* The variance of a column over all rows: within the classes and between them. */
        for (int64_t k = 0; k < K; k++) {
            const double apart = moments.mean[k * d + c] - overall;
            spread += moments.squares[k * d + c] + moments.count[k] * (apart * apart);
        }
        spread /= mass;
        for (int64_t k = 0; k < K; k++) {
            const int64_t q = k * d + c;
            const double variance = (moments.squares[q] + smoothing * spread) / (moments.count[k] + smoothing);
            factor[q] = spread > 0.0 && variance > 0.0 ? reciprocal_root(variance) : 0.0;
            if (factor[q] > 0.0) start[k] += ds_log(factor[q]);
            mean[q] = moments.count[k] > 0.0 ? moments.mean[q] : overall;
        }
    }
}

DS_INLINE double squared_distance(double value, double centre, double factor) {
    const double scaled = within((value - centre) * factor, FARTHEST_DENSITY);
    return scaled * scaled;
}

DS_INLINE double sum_of_distances(Rows rows, int64_t i, const double *mean, const double *factor, int single) {
    const int64_t d = rows.d, first = i * d;
    double s[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= d; c += 8)
        for (int j = 0; j < 8; j++)
            s[j] += squared_distance(value_at(rows, first + c + j, single), mean[c + j], factor[c + j]);
    for (int j = 0; c + j < d; j++)
        s[j] += squared_distance(value_at(rows, first + c + j, single), mean[c + j], factor[c + j]);
    return ds_sum8(s);
}

void ds_densities(Rows rows, int64_t K, const double *mean, const double *factor, const double *start, double *out) {
    const int64_t d = rows.d;
    for (int64_t k = 0; k < K; k++) {
        const double *m = mean + k * d, *f = factor + k * d;
        double zeros = 0.0; /* the sum of a row of zeros, which is corrected for the values that are not 0 */
        if (rows.indptr)
            for (int64_t c = 0; c < d; c++) zeros += squared_distance(0.0, m[c], f[c]);
        for (int64_t i = 0; i < rows.n; i++) {
            double total = zeros;
            if (rows.indptr)
                for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
                    const int64_t q = rows.indices[p];
                    total += squared_distance(value_at(rows, p, rows.is_single != 0), m[q], f[q]) -
                             squared_distance(0.0, m[q], f[q]);
                }
            else total = rows.is_single ? sum_of_distances(rows, i, m, f, 1) : sum_of_distances(rows, i, m, f, 0);
            out[i * K + k] = start[k] - 0.5 * total;
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- perceptron */

#define BETA_1 0.9
#define BETA_2 0.999
#define EPSILON 1e-8
#define FARTHEST_INPUT 10.0

DS_INLINE float scaled(double value, double centre, double factor) {
    return (float)within((value - centre) * factor, FARTHEST_INPUT);
}

/* to[h] += x * from[h] */
DS_INLINE void add_times(float *restrict to, const float *restrict from, float x, int64_t H) {
    for (int64_t h = 0; h < H; h++) to[h] += x * from[h];
}

/* Value p of CSR rows, or of dense ones in column c, as the network takes it. */
DS_INLINE float input(Rows rows, int64_t p, int64_t c, const Network *net) {
    return scaled(value_at(rows, p, rows.is_single != 0), net->centre[c], net->factor[c]);
}

DS_INLINE int64_t widest(const Network *net) { return net->H > net->K ? net->H : net->K; }

/* Compute the hidden units of a row before they are cut off at 0. */
static void hidden_units(Rows rows, int64_t i, const Network *net, float *units) {
    const int64_t d = rows.d, H = net->H;
    for (int64_t h = 0; h < H; h++) units[h] = net->theta[d * H + h];
    if (rows.indptr)
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
            const int64_t c = rows.indices[p];
            add_times(units, net->theta + c * H, input(rows, p, c, net), H);
        }
    else
        for (int64_t c = 0; c < d; c++) {
            net->x[c] = input(rows, i * d + c, c, net);
            add_times(units, net->theta + c * H, net->x[c], H);
        }
}

/* Cut the hidden units off at 0, and compute the outputs; the second layer begins at `upper`. */
static void outputs_of_units(const Network *net, const float *upper, float *units, float *outputs) {
    const int64_t H = net->H, K = net->K;
    for (int64_t k = 0; k < K; k++) outputs[k] = upper[H * K + k];
    for (int64_t h = 0; h < H; h++) {
        if (units[h] > 0.0f) add_times(outputs, upper + h * K, units[h], K);
        else units[h] = 0.0f;
    }
}

/* Add the gradient of a row in all but the first-layer weights; `errors` receives that of its hidden units. */
static void backward(const Network *net, int64_t d, double y, double weight, float *units, float *errors,
                     float *outputs) {
    const int64_t H = net->H, K = net->K, a = (d + 1) * H, b = a + H * K;
    if (net->is_classes) {
        float largest = outputs[0], total = 0.0f;
        for (int64_t k = 1; k < K; k++) largest = outputs[k] > largest ? outputs[k] : largest;
        for (int64_t k = 0; k < K; k++) {
            outputs[k] = (float)ds_exp((double)(outputs[k] - largest));
            total += outputs[k];
        }
        for (int64_t k = 0; k < K; k++) outputs[k] /= total;
        outputs[(int64_t)y] -= 1.0f;
    } else {
        outputs[0] -= (float)y;
    }
    for (int64_t k = 0; k < K; k++) {
        outputs[k] *= (float)weight;
        net->g[b + k] += outputs[k];
    }
    for (int64_t h = 0; h < H; h++) {
        float total = 0.0f;
        if (units[h] > 0.0f)
            for (int64_t k = 0; k < K; k++) {
                net->g[a + h * K + k] += units[h] * outputs[k];
                total += net->theta[a + h * K + k] * outputs[k];
            }
        errors[h] = total;
    }
    add_times(net->g + a - H, errors, 1.0f, H);
}

/* Adam's step size with both corrections for moments that start at 0, its epsilon likewise, and the share of a row in
   the mean gradient. */
typedef struct {
    float rate;
    float small;
    float share;
} Pace;

static Pace pace_of(double rate, int64_t step, int64_t count) {
    const double root = __builtin_sqrt(1.0 - ds_pow(BETA_2, (double)step));
    return (Pace){(float)(rate * root / (1.0 - ds_pow(BETA_1, (double)step))), (float)(EPSILON * root),
                  (float)(1.0 / (double)count)};
}

/* Update a range of parameters by the mean gradient of the rows of a step, and set the gradient to 0. */
static void adam(const Network *net, int64_t start, int64_t stop, Pace pace) {
    const float keep_1 = (float)BETA_1, keep_2 = (float)BETA_2;
    const float add_1 = (float)(1.0 - BETA_1), add_2 = (float)(1.0 - BETA_2);
    float *restrict theta = net->theta, *restrict m = net->m, *restrict v = net->v, *restrict g = net->g;
    for (int64_t p = start; p < stop; p++) {
        const float slope = g[p] * pace.share;
        g[p] = 0.0f;
        m[p] = keep_1 * m[p] + add_1 * slope;
        v[p] = keep_2 * v[p] + add_2 * slope * slope;
        theta[p] -= pace.rate * m[p] / (__builtin_sqrtf(v[p]) + pace.small);
    }
}

int64_t ds_train_network(Labelled set, const int64_t *order, int64_t visits, int64_t size, double rate, int64_t step,
                         Network net) {
    const Rows rows = set.rows;
    const int64_t d = rows.d, H = net.H, K = net.K, a = (d + 1) * H;
    float *units = net.work, *errors = units + widest(&net), *outputs = errors + widest(&net);
    for (int64_t first = 0; first < visits; first += size) {
        const int64_t count = visits - first < size ? visits - first : size;
        /* All visits of a single row in one step have the same gradient. */
        const int64_t stop = rows.n == 1 ? first + 1 : first + count;
        const Pace pace = pace_of(rate, ++step, count);
        for (int64_t place = first; place < stop; place++) {
            const int64_t i = order[place];
            const double weight = rows.n == 1 ? set.weight[i] * (double)count : set.weight[i];
            hidden_units(rows, i, &net, units);
            outputs_of_units(&net, net.theta + a, units, outputs);
            backward(&net, d, set.y[i], weight, units, errors, outputs);
            if (rows.indptr)
                for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
                    const int64_t c = rows.indices[p];
                    add_times(net.g + c * H, errors, input(rows, p, c, &net), H);
                }
            else
                for (int64_t c = 0; c < d; c++) add_times(net.g + c * H, errors, net.x[c], H);
        }
        if (!rows.indptr) {
            adam(&net, 0, a + (H + 1) * K, pace);
            continue;
        }
        for (int64_t place = first; place < stop; place++)
            for (int64_t p = rows.indptr[order[place]]; p < rows.indptr[order[place] + 1]; p++) {
                const int64_t c = rows.indices[p];
                if (net.last[c] > first) continue;
                net.last[c] = first + 1;
                adam(&net, c * H, (c + 1) * H, pace);
            }
        adam(&net, d * H, a + (H + 1) * K, pace);
    }
    return step;
}

void ds_network_outputs(Rows rows, Network net, double *out) {
    const int64_t d = rows.d, H = net.H, K = net.K;
    float *units = net.work, *outputs = units + 2 * widest(&net);
    int centred = 0;
    if (rows.indptr)
        for (int64_t c = 0; c < d; c++) {
            centred = centred || net.centre[c] != 0.0;
            net.x[c] = scaled(0.0, net.centre[c], net.factor[c]);
        }
    for (int64_t i = 0; i < rows.n; i++) {
        if (centred) { /* no value of a sparse row is 0 any more: the row is written out */
            for (int64_t h = 0; h < H; h++) units[h] = net.theta[d * H + h];
            for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++)
                net.x[rows.indices[p]] = input(rows, p, rows.indices[p], &net);
            for (int64_t c = 0; c < d; c++) add_times(units, net.theta + c * H, net.x[c], H);
            for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) {
                const int64_t c = rows.indices[p];
                net.x[c] = scaled(0.0, net.centre[c], net.factor[c]);
            }
        } else {
            hidden_units(rows, i, &net, units);
        }
        outputs_of_units(&net, net.theta + (d + 1) * H, units, outputs);
        for (int64_t k = 0; k < K; k++) out[i * K + k] = (double)outputs[k];
    }
}

/* ------------------------------------------------------------------------------------------------------- stacking */

#define TRUSTED 0.99   /* share of an expert's own probabilities; the rest is spread over all classes */
#define LOG_9 0x1.193ea7aad030bp+1 /* the vote of an expert adds as much as a probability of 90 %, of two classes */
#define ITERATIONS 3   /* Newton steps for a batch; the minimum moves little from one batch to the next */
#define LONGEST 1.0    /* largest change of a weight in one step: far from the minimum the parabola is no good guide */
#define FREED 1e-10    /* an expert gets a weight only if the gain is above this share of the largest slope */
#define OUTLIER 5.0    /* largest error of an expert that counts, in units */
#define STIFF 1e5      /* curvature that holds the sum of weights at 1, as a multiple of the largest other one */
#define LARGEST_CURVATURE 1e12
enum { GRADIENT, MEAN, TARGET, SOLUTION, SLOPE, FREE }; /* rows of `work` below the Cholesky factor */

void ds_expert_shares(const double *scores, int64_t n, int64_t columns, int64_t K, int64_t place, int64_t experts,
                      double *G) {
    const double least = (1.0 - TRUSTED) / (double)K;
    for (int64_t i = 0; i < n; i++) {
        double *row = G + i * K * 2 * experts + place, largest = -INFINITY;
        const double margin = columns ? 0.0 : 1.0 / (1.0 + ds_exp(-within(scores[i], 500.0)));
        int64_t best = 0;
        for (int64_t c = 0; c < K; c++) {
            double share = 0.0;
            if (!columns) share = c == 1 ? margin : c == 0 ? 1.0 - margin : 0.0;
            else if (c < columns) share = ds_exp(scores[i * columns + c] < 0.0 ? scores[i * columns + c] : 0.0);
            share = ds_log(TRUSTED * share + least);
            row[c * 2 * experts] = share;
            if (share > largest) largest = share, best = 0;
            best += share == largest;
        }
        for (int64_t c = 0; c < K; c++)
            row[c * 2 * experts + experts] = row[c * 2 * experts] == largest ? LOG_9 / (double)best : 0.0;
    }
}

void ds_chain_scores(const double *counts, int64_t known, int64_t last, int64_t K, double *out) {
    double every = 0.0, after = 0.0;
    for (int64_t c = 0; c < K; c++) {
        double total = 0.0;
        if (c < known)
            for (int64_t k = 0; k < known; k++) total += counts[k * known + c];
        out[c] = 1.0 / (double)K + total;
        every += total;
    }
    for (int64_t c = 0; c < known; c++) after += counts[last * known + c];
    for (int64_t c = 0; c < K; c++) {
        const double seen = c < known ? counts[last * known + c] : 0.0;
        out[c] = ds_log((out[c] / (every + 1.0) + seen) / (after + 1.0));
    }
}

void ds_mix(const double *G, int64_t n, int64_t K, int64_t M, const double *weights, double *out) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < K; c++) {
            double total = 0.0;
            for (int64_t k = 0; k < M; k++) total += G[(i * K + c) * M + k] * weights[k];
            out[i * K + c] = total;
        }
    }
    ds_log_softmax(out, n, K);
}

/* Solve Q s = b for the free experts by Cholesky's method, from row SLOPE into row SOLUTION; 0 for the others. Returns
   whether Q is positive definite there. */
static int solve(const double *Q, double *work, int64_t M) {
    double *solution = work + (M + SOLUTION) * M;
    const double *slope = work + (M + SLOPE) * M, *is_free = work + (M + FREE) * M;
    for (int64_t i = 0; i < M; i++) {
        if (is_free[i] == 0.0) {
            solution[i] = 0.0;
            continue;
        }
        for (int64_t j = 0; j <= i; j++) {
            if (is_free[j] == 0.0) continue;
            double total = Q[i * M + j];
            for (int64_t k = 0; k < j; k++)
                if (is_free[k] != 0.0) total -= work[i * M + k] * work[j * M + k];
            if (i != j) work[i * M + j] = total / work[j * M + j];
            else if (total > 0.0) work[i * M + i] = __builtin_sqrt(total);
            else return 0;
        }
        double total = slope[i];
        for (int64_t k = 0; k < i; k++)
            if (is_free[k] != 0.0) total -= work[i * M + k] * solution[k];
        solution[i] = total / work[i * M + i];
    }
    for (int64_t i = M - 1; i >= 0; i--) {
        if (is_free[i] == 0.0) continue;
        double total = solution[i];
        for (int64_t k = i + 1; k < M; k++)
            if (is_free[k] != 0.0) total -= work[k * M + i] * solution[k];
        solution[i] = total / work[i * M + i];
    }
    return 1;
}

/* Move the weights to the solution, or to where the first free one reaches 0, which is fixed; return if so. */
static int is_blocked(double *work, int64_t M) {
    double *target = work + (M + TARGET) * M, *is_free = work + (M + FREE) * M, alpha = 1.0;
    const double *solution = work + (M + SOLUTION) * M;
    int64_t first = -1;
    for (int64_t i = 0; i < M; i++) {
        if (is_free[i] == 0.0 || solution[i] > 0.0) continue;
        /* The weight of an expert that was just freed is 0; it may be numerically without any gain. */
        const double gap = target[i] - solution[i], share = gap > 0.0 ? target[i] / gap : 0.0;
        if (first < 0 || share < alpha) alpha = share, first = i;
    }
    for (int64_t i = 0; i < M; i++)
        if (is_free[i] != 0.0) target[i] += alpha * (solution[i] - target[i]);
    if (first < 0) return 0;
    target[first] = is_free[first] = 0.0;
    return 1;
}

/* Minimise w' Q w / 2 - b' w over w >= 0, where b is row SLOPE of `work`, into row TARGET, by the active sets of Lawson
   and Hanson. Cutting negative weights off instead would not do: where two experts are alike, one of them has to leave
   before the other gets its share. The search begins at `start`, whose positive weights are most often those of the
   minimum. Returns whether Q is positive definite and b finite. */
static int minimise(const double *Q, double *work, int64_t M, const double *start) {
    double *target = work + (M + TARGET) * M, *is_free = work + (M + FREE) * M, largest = 0.0;
    const double *slopes = work + (M + SLOPE) * M;
    for (int64_t i = 0; i < M; i++) {
        const double size = __builtin_fabs(slopes[i]);
        target[i] = start[i] > 0.0 ? start[i] : 0.0;
        is_free[i] = start[i] > 0.0;
        if (!(size < INFINITY)) return 0;
        largest = size > largest ? size : largest;
    }
    for (int64_t round = 0; round < 3 * M; round++) {
        for (int64_t again = 0; again <= M; again++) {
            if (!solve(Q, work, M)) return 0;
            if (!is_blocked(work, M)) break;
        }
        int64_t best = -1;
        double gain = FREED * largest;
        for (int64_t i = 0; i < M; i++) {
            if (is_free[i] != 0.0) continue;
            double slope = slopes[i];
            for (int64_t j = 0; j < M; j++) slope -= Q[i * M + j] * target[j];
            if (slope > gain) best = i, gain = slope;
        }
        if (best < 0) return 1;
        is_free[best] = 1.0;
    }
    return 1;
}

/* Take one Newton step from u, given the gradient of the loss in row GRADIENT and its curvature H. Returns 0, and leaves
   u as it is, if the numbers are not finite. */
static int newton_step(double *u, const double *v, const double *A, int64_t M, Stacking room) {
    double *work = room.work, *target = work + (M + TARGET) * M, longest = 0.0;
    for (int64_t i = 0; i < M; i++) {
        double slope = -work[(M + GRADIENT) * M + i];
        for (int64_t j = 0; j < M; j++) {
            room.Q[i * M + j] = A[i * M + j] + room.H[i * M + j];
            slope += room.Q[i * M + j] * u[j] - A[i * M + j] * (u[j] - v[j]);
        }
        work[(M + SLOPE) * M + i] = slope;
    }
    if (!minimise(room.Q, work, M, u)) return 0;
    for (int64_t i = 0; i < M; i++) {
        const double way = __builtin_fabs(target[i] - u[i]);
        if (!(way < INFINITY)) return 0;
        longest = way > longest ? way : longest;
    }
    const double share = longest <= LONGEST ? 1.0 : LONGEST / longest;
    for (int64_t i = 0; i < M; i++) u[i] += share * (target[i] - u[i]);
    return 1;
}

/* Add the gradient and the curvature of -weight * log p(y | x) for one row g (K, M), at the weights u. */
static void add_row(const double *g, int64_t y, double weight, int64_t K, int64_t M, const double *u, Stacking room) {
    double *p = room.p, *mean = room.work + (M + MEAN) * M, *gradient = room.work + (M + GRADIENT) * M;
    double largest = -INFINITY, mass = 0.0;
    for (int64_t c = 0; c < K; c++) {
        double total = 0.0;
        for (int64_t k = 0; k < M; k++) total += u[k] * g[c * M + k];
        p[c] = total;
        largest = total > largest ? total : largest;
    }
    for (int64_t c = 0; c < K; c++) {
        p[c] = ds_exp(p[c] - largest);
        mass += p[c];
    }
    for (int64_t k = 0; k < M; k++) mean[k] = 0.0;
    for (int64_t c = 0; c < K; c++) {
        p[c] /= mass;
        for (int64_t k = 0; k < M; k++) mean[k] += p[c] * g[c * M + k];
    }
    for (int64_t k = 0; k < M; k++) gradient[k] += weight * (mean[k] - g[y * M + k]);
    for (int64_t c = 0; c < K; c++) {
        const double share = weight * p[c];
        for (int64_t k = 0; k < M; k++) {
            const double deviation = share * (g[c * M + k] - mean[k]);
            for (int64_t j = 0; j <= k; j++) room.H[k * M + j] += deviation * (g[c * M + j] - mean[j]);
        }
    }
}

static void mirror(double *H, int64_t M) {
    for (int64_t k = 0; k < M; k++)
        for (int64_t j = 0; j < k; j++) H[j * M + k] = H[k * M + j];
}

int ds_stack_classes(const double *G, const double *y, const double *weight, int64_t n, int64_t K, int64_t M,
                     const double *v, const double *A, double *u, Stacking room) {
    for (int64_t k = 0; k < M; k++) u[k] = v[k];
    for (int step = 0; step < ITERATIONS; step++) {
        for (int64_t k = 0; k < M; k++) room.work[(M + GRADIENT) * M + k] = 0.0;
        for (int64_t q = 0; q < M * M; q++) room.H[q] = 0.0;
        for (int64_t i = 0; i < n; i++)
            if (weight[i] != 0.0) add_row(G + i * K * M, (int64_t)y[i], weight[i], K, M, u, room);
        mirror(room.H, M);
        if (!newton_step(u, v, A, M, room)) return 0;
    }
    return 1;
}

/* With r_k the error of expert k, that of the mixture is sum_k u_k r_k, and the curvature H is the sum of r r': the
   problem is a single quadratic programme. Its constraint on the sum is a stiff spring; the rest is divided out. */
int ds_stack_values(const double *m, const double *y, const double *weight, int64_t n, int64_t M, double s,
                    const double *v, const double *A, double *u, Stacking room) {
    double *H = room.H, *error = room.work + (M + MEAN) * M, *target = room.work + (M + TARGET) * M;
    double spring = 0.0, total = 0.0;
    for (int64_t q = 0; q < M * M; q++) H[q] = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < M; k++) error[k] = within((y[i] - m[i * M + k]) / s, OUTLIER);
        for (int64_t k = 0; k < M; k++) {
            const double weighted = weight[i] * error[k];
            for (int64_t j = 0; j <= k; j++) H[k * M + j] += weighted * error[j];
        }
    }
    mirror(H, M);
    for (int64_t k = 0; k < M; k++) {
        const double curvature = A[k * M + k] + H[k * M + k];
        spring = curvature > spring ? curvature : spring;
    }
    spring *= STIFF;
    for (int64_t k = 0; k < M; k++) {
        double slope = spring;
        for (int64_t j = 0; j < M; j++) {
            room.Q[k * M + j] = A[k * M + j] + H[k * M + j] + spring;
            slope += A[k * M + j] * v[j];
        }
        room.work[(M + SLOPE) * M + k] = slope;
    }
    if (!minimise(room.Q, room.work, M, v)) return 0;
    for (int64_t k = 0; k < M; k++) total += target[k];
    if (!(total > 0.5 && total < 2.0)) return 0;
    for (int64_t k = 0; k < M; k++) u[k] = target[k] / total;
    return 1;
}

int ds_remember(const double *u, const double *H, int64_t M, double keep, double ridge, const double *A, double *out) {
    for (int64_t k = 0; k < M; k++)
        if (!(__builtin_fabs(u[k]) <= LARGEST_CURVATURE)) return 0;
    for (int64_t q = 0; q < M * M; q++)
        if (!(__builtin_fabs(H[q]) < LARGEST_CURVATURE)) return 0;
    for (int64_t q = 0; q < M * M; q++) {
        const double remembered = keep * (A[q] + H[q]) + (q % (M + 1) ? 0.0 : (1.0 - keep) * ridge);
        out[q] = remembered < LARGEST_CURVATURE ? remembered : LARGEST_CURVATURE;
    }
    return 1;
}

/* ---------------------------------------------------------------------------------------------------------- votes */

void ds_true_class_shares(const double *margins, const double *y, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) {
        const double exponent = (1.0 - 2.0 * y[i]) * margins[i];
        out[i] = 1.0 / (1.0 + ds_exp(exponent < 700.0 ? exponent : 700.0));
    }
}

double ds_rate_voters(const double *margins, const double *y, const double *weight, int64_t voters, int64_t n,
                      double *values, double *out) {
    const double mass = ds_pairwise_sum(weight, n);
    double zeros = 0.0, ones = 0.0;
    for (int64_t i = 0; i < n; i++) *(y[i] == 0.0 ? &zeros : &ones) += weight[i];
    for (int64_t k = 0; k < voters; k++) {
        ds_true_class_shares(margins + k * n, y, n, values);
        for (int64_t i = 0; i < n; i++) values[i] = weight[i] * ((1.0 - values[i]) * (1.0 - values[i]));
        out[k] = ds_pairwise_sum(values, n) / mass;
    }
    zeros /= mass;
    ones /= mass;
    return zeros * ((1.0 - zeros) * (1.0 - zeros)) + ones * ((1.0 - ones) * (1.0 - ones));
}

void ds_balance_of_votes(const double *margins, const double *weights, int64_t voters, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) {
        double total = 0.0;
        for (int64_t k = 0; k < voters; k++) total += margins[k * n + i] > 0.0 ? weights[k] : -weights[k];
        out[i] = total;
    }
}

void ds_follow_losses(const double *margins, const double *losses, const double *weight, int64_t voters, int64_t n,
                      double decay, double *logs, double *balance) {
    for (int64_t j = 0; j < n; j++) {
        double total = 0.0, mass = 0.0, largest = -INFINITY;
        for (int64_t k = 0; k < voters; k++) {
            const double share = ds_exp(logs[k]);
            mass += share;
            total += margins[k * n + j] > 0.0 ? share : -share;
        }
        balance[j] = total / mass;
        if (weight[j] == 0.0) continue;
        for (int64_t k = 0; k < voters; k++) {
            logs[k] -= decay * weight[j] * losses[k * n + j];
            largest = logs[k] > largest ? logs[k] : largest;
        }
        for (int64_t k = 0; k < voters; k++) logs[k] -= largest;
    }
}
