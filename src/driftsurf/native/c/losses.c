#include "losses.h"

#include <math.h>

#include "exponential.h"
#include "multi.h"
#include "processor.h"
#include "values.h"

/* The loss is max(z, 0) + log(1 + exp(-|z|)) with z = -s margin, which cannot overflow. The loop has no branch and calls
   nothing, so that it becomes vectors. */
DS_INLINE void logistic_losses(const double *restrict margins, const double *restrict y, int64_t n,
                                          double *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        const double z = (1.0 - 2.0 * y[i]) * margins[i];
        out[i] = (z < 0.0 ? 0.0 : z) + ds_log1p_of_share(ds_exp_of_minus(fabs(z)));
    }
}

DS_THRICE(, void, ds_logistic_losses, logistic_losses, (const double *margins, const double *y, int64_t n, double *out),
         (margins, y, n, out))

void ds_output_losses(const double *restrict scores, const double *restrict y, int64_t n, int64_t kind, double epsilon,
                      double *restrict out) {
    if (kind == DS_SQUARED_HINGE)
        for (int64_t i = 0; i < n; i++) {
            const double shortfall = 1.0 - (2.0 * y[i] - 1.0) * scores[i];
            out[i] = shortfall < 0.0 ? 0.0 : shortfall * shortfall;
        }
    else if (kind == DS_HUBER)
        for (int64_t i = 0; i < n; i++) {
            const double size = fabs(scores[i] - y[i]);
            const double inner = size > epsilon ? epsilon : size;
            out[i] = inner * (2.0 * size - inner);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const double residual = scores[i] - y[i];
            out[i] = residual * residual;
        }
}

double ds_squared_length(const double *restrict weights, const double *restrict factor, int64_t n) {
    double total = 0.0;
    for (int64_t c = 0; c < n; c++)
        if (factor[c] > 0.0) {
            const double scaled = weights[c] / factor[c];
            total += scaled * scaled;
        }
    return total;
}

int64_t ds_evidence_terms(const double *restrict predicted, const double *restrict y, const double *restrict weight,
                          double mean, int64_t n, double *restrict out) {
    int64_t counted = 0;
    for (int64_t i = 0; i < n; i++) {
        const double p = predicted[i] - mean, t = y[i] - mean;
        out[i] = weight[i];
        out[n + i] = weight[i] * t;
        out[2 * n + i] = weight[i] * p * t;
        out[3 * n + i] = weight[i] * (p * p);
        counted += weight[i] != 0.0;
    }
    return counted;
}

/* The sum of at most 128 values: eight sums beside each other, if there are as many. */
static double sum_of_run(const double *values, int64_t n) {
    double total = 0.0;
    int64_t i = 0;
    if (n >= 8) {
        double sums[8];
        for (int lane = 0; lane < 8; lane++) sums[lane] = values[lane];
        for (i = 8; i + 8 <= n; i += 8)
            for (int lane = 0; lane < 8; lane++) sums[lane] += values[i + lane];
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
    for (; i < n; i++) total += values[i];
    return total;
}

/* Halves are summed on their own, down to 128 values. */
static double sum_in_halves(const double *values, int64_t n) {
    if (n <= 128) return sum_of_run(values, n);
    int64_t half = n / 2;
    half -= half % 8;
    return sum_in_halves(values, half) + sum_in_halves(values + half, n - half);
}

double ds_pairwise_sum(const double *values, int64_t n) { return 0.0 + sum_in_halves(values, n); }

double ds_largest(double size, const double *values, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(values[k]) <= size)) /* true for NaN as well */
            size = fabs(values[k]) >= 0.0 ? fabs(values[k]) : INFINITY;
    return size;
}

double ds_weighted_sum(const double *restrict values, const double *restrict weight, int64_t n, double *mass) {
    double totals[8] = {0.0}, masses[8] = {0.0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++) {
            const double one = weight[i + lane], product = one * values[i + lane];
            totals[lane] += one != 0.0 ? product : 0.0;
            masses[lane] += one;
        }
    double total = ((totals[0] + totals[1]) + (totals[2] + totals[3])) + ((totals[4] + totals[5]) + (totals[6] + totals[7]));
    *mass = ((masses[0] + masses[1]) + (masses[2] + masses[3])) + ((masses[4] + masses[5]) + (masses[6] + masses[7]));
    for (; i < n; i++)
        if (weight[i] != 0.0) {
            total += weight[i] * values[i];
            *mass += weight[i];
        }
    return total;
}
