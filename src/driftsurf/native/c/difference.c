#include "difference.h"

#include "ds_math.h"

#define LARGEST_SCORE 30.0
#define LARGEST_VALUE 8.0   /* of a scaled column: a row far outside may not turn a key around */
#define LARGEST_RESIDUAL 5.0
#define LARGEST_LOSS 5.0    /* one surprising row must not decide between corrections for long */
#define LEAST_CURVATURE 0.01
#define EIGHTH_OF_PI 0.39269908169872414
#define NO_CLASS -1e200 /* a score below it is that of a class that the shared model did not know */

static int is_full(const DifferenceRules *rules) { return rules->d < DS_FULL_COLUMNS; }

static int64_t spread_size(const DifferenceRules *rules) {
    const int64_t d = rules->d + 1;
    return is_full(rules) ? d * (d + 1) / 2 : d;
}

static int64_t part_size(const DifferenceRules *rules) {
    return (rules->d + 1) * rules->outputs + spread_size(rules);
}

int64_t ds_difference_size(const DifferenceRules *rules) {
    return rules->widths + 1 + rules->widths * part_size(rules);
}

int64_t ds_difference_work(const DifferenceRules *rules) {
    const int64_t d = rules->d + 1, scores = (rules->widths + 1) * rules->outputs;
    return 2 * d + 2 * scores + rules->outputs + 3 * (rules->widths + 1) + rules->widths * d;
}

static void begin_spread(const DifferenceRules *rules, int64_t t, float *spread) {
    const int64_t d = rules->d + 1;
    const float variance = (float)(rules->width[t] * rules->width[t]);
    for (int64_t i = 0, at = 0; i < d; i++) {
        if (is_full(rules)) {
            for (int64_t j = 0; j < i; j++) spread[at++] = 0.0f;
            spread[at++] = variance;
        } else {
            spread[i] = variance;
        }
    }
}

void ds_begin_difference(const DifferenceRules *rules, float *key) {
    const int64_t weights = (rules->d + 1) * rules->outputs;
    float *part = key + rules->widths + 1;
    for (int64_t t = 0; t <= rules->widths; t++) key[t] = 0.0f;
    for (int64_t t = 0; t < rules->widths; t++, part += part_size(rules)) {
        for (int64_t i = 0; i < weights; i++) part[i] = 0.0f;
        begin_spread(rules, t, part + weights);
    }
}

static double limited(double value, double most) { return value < -most ? -most : value > most ? most : value; }

static double score_of(double shared) { return shared < NO_CLASS ? -INFINITY : limited(shared, LARGEST_SCORE); }

/* Write the product of a covariance and a row; return the variance of the row's score. */
static double product(const DifferenceRules *rules, const float *spread, const double *row, double *out) {
    const int64_t d = rules->d + 1;
    double variance = 0.0;
    if (is_full(rules)) {
        for (int64_t i = 0; i < d; i++) out[i] = 0.0;
        for (int64_t i = 0; i < d; i++) {
            const float *line = spread + i * (i + 1) / 2;
            double sum = 0.0;
            for (int64_t j = 0; j < i; j++) {
                sum += line[j] * row[j];
                out[j] += line[j] * row[i];
            }
            out[i] += sum + line[i] * row[i];
        }
    } else {
        for (int64_t i = 0; i < d; i++) out[i] = spread[i] * row[i];
    }
    for (int64_t i = 0; i < d; i++) variance += out[i] * row[i];
    return variance > 0.0 ? variance : 0.0;
}

/* Take the evidence of a row of this curvature into a covariance, and let earlier evidence fade: no weight gets less
   certain than it was before the first row. */
static void narrow(const DifferenceRules *rules, int64_t t, float *spread, const double *along, double curvature,
                   double variance, double *scale) {
    const int64_t d = rules->d + 1;
    const double most = rules->width[t] * rules->width[t], gain = curvature / (1.0 + curvature * variance);
    int wide = 0, sound = 1;
    for (int64_t i = 0; i < d; i++) {
        float *line = is_full(rules) ? spread + i * (i + 1) / 2 : spread + i;
        const int64_t first = is_full(rules) ? 0 : i;
        for (int64_t j = first; j <= i; j++)
            line[j - first] = (float)((line[j - first] - gain * along[i] * along[j]) / rules->forget);
        const double own = line[i - first];
        sound = sound && own > 0.0;
        scale[i] = 1.0;
        if (own > most) {
            scale[i] = sqrt(most / own);
            wide = 1;
        }
    }
    if (!sound) {
        begin_spread(rules, t, spread);
    } else if (wide) {
        for (int64_t i = 0; i < d; i++) {
            float *line = is_full(rules) ? spread + i * (i + 1) / 2 : spread + i;
            const int64_t first = is_full(rules) ? 0 : i;
            for (int64_t j = first; j <= i; j++) line[j - first] = (float)(line[j - first] * scale[i] * scale[j]);
        }
    }
}

/* Turn scores into probabilities; one score is that of the second of two classes. */
static void probabilities(const double *scores, int64_t K, double shrink, double *out) {
    if (K == 1) {
        out[0] = 1.0 / (1.0 + ds_exp(-limited(scores[0] * shrink, LARGEST_SCORE)));
        return;
    }
    double most = -INFINITY, sum = 0.0;
    for (int64_t k = 0; k < K; k++) most = scores[k] * shrink > most ? scores[k] * shrink : most;
    for (int64_t k = 0; k < K; k++) sum += out[k] = ds_exp(scores[k] * shrink - most);
    for (int64_t k = 0; k < K; k++) out[k] /= sum;
}

static double loss_of(const double *p, int64_t K, int64_t label) {
    const double own = K == 1 ? (label ? p[0] : 1.0 - p[0]) : p[label];
    const double loss = own > 0.0 ? -ds_log(own) : LARGEST_LOSS;
    return loss < LARGEST_LOSS ? loss : LARGEST_LOSS;
}

void ds_difference_row(const DifferenceRules *rules, float *key, const double *row, const double *shared, double target,
                       double weight, double *out, double *work) {
    const int64_t d = rules->d + 1, K = rules->outputs, T = rules->widths, weights = d * K;
    double *x = work, *scale = x + d, *scores = scale + d, *chances = scores + (T + 1) * K;
    double *slopes = chances + (T + 1) * K, *share = slopes + K, *variance = share + T + 1, *loss = variance + T + 1;
    double *along = loss + T + 1;
    float *parts = key + T + 1;
    const double size = rules->regression ? (shared[1] > 0.0 ? shared[1] : 1.0) : 1.0;
    for (int64_t i = 0; i < d - 1; i++) x[i] = row[i] == row[i] ? limited(row[i], LARGEST_VALUE) : 0.0;
    x[d - 1] = 1.0;

    double most = -INFINITY, total = 0.0;
    for (int64_t t = 0; t <= T; t++) most = key[t] > most ? key[t] : most;
    for (int64_t t = 0; t <= T; t++) total += share[t] = ds_exp(key[t] - most);
    for (int64_t k = 0; k < K; k++) out[k] = 0.0;
    for (int64_t t = 0; t <= T; t++) { /* the shared prediction, then each correction of it */
        double *own = scores + t * K, *p = chances + t * K;
        variance[t] = 0.0;
        for (int64_t k = 0; k < K; k++) own[k] = rules->regression ? 0.0 : score_of(shared[k]);
        if (t > 0) {
            const float *w = parts + (t - 1) * part_size(rules);
            variance[t] = product(rules, w + weights, x, along + (t - 1) * d);
            for (int64_t k = 0; k < K; k++)
                for (int64_t i = 0; i < d; i++) own[k] += w[k * d + i] * x[i];
        }
        if (rules->regression)
            p[0] = own[0];
        else
            probabilities(own, K, 1.0 / sqrt(1.0 + EIGHTH_OF_PI * variance[t]), p);
        for (int64_t k = 0; k < K; k++) out[k] += share[t] / total * p[k];
    }
    const double predicted = out[0];
    if (rules->regression) out[0] = shared[0] + size * predicted;
    if (!(target == target) || !(weight > 0.0)) return;

    const double residual = rules->regression ? limited((target - shared[0]) / size, LARGEST_RESIDUAL) : 0.0;
    const int64_t label = rules->regression ? 0 : (int64_t)target;
    double least = INFINITY;
    for (int64_t t = 0; t <= T; t++) {
        const double *own = scores + t * K;
        double curvature = 1.0;
        if (rules->regression) {
            const double missed = residual - own[0], spread = 1.0 + variance[t];
            loss[t] = 0.5 * missed * missed / spread + 0.5 * ds_log(spread);
            loss[t] = loss[t] < LARGEST_LOSS ? loss[t] : LARGEST_LOSS;
            slopes[0] = missed;
        } else {
            loss[t] = loss_of(chances + t * K, K, label);
        }
        key[t] = (float)(rules->recall * key[t] - weight * loss[t]);
        least = -key[t] < least ? -key[t] : least;
        if (t == 0) continue;
        if (!rules->regression) {
            curvature = 0.0;
            probabilities(own, K, 1.0, slopes);
            for (int64_t k = 0; k < K; k++) curvature += slopes[k] * (1.0 - slopes[k]);
            curvature = K == 1 ? curvature : 0.5 * curvature;
            curvature = curvature > LEAST_CURVATURE ? curvature : LEAST_CURVATURE;
            for (int64_t k = 0; k < K; k++) slopes[k] = (K == 1 ? label : k == label) - slopes[k];
        }
        float *w = parts + (t - 1) * part_size(rules);
        const double *towards = along + (t - 1) * d;
        const double step = weight / (1.0 + weight * curvature * variance[t]);
        for (int64_t k = 0; k < K; k++)
            for (int64_t i = 0; i < d; i++) w[k * d + i] = (float)(w[k * d + i] + towards[i] * slopes[k] * step);
        narrow(rules, t - 1, w + weights, towards, weight * curvature, variance[t], scale);
    }
    for (int64_t t = 0; t <= T; t++) key[t] = (float)(key[t] + least);
}
