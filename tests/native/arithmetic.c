/* Calls the whole arithmetic of the native core with rows and models drawn from a seed, and prints a digest of the
   results of each part. A program of its own, so that it also runs for other processors, under an emulator:
   `python -m tools.same_bits` and tests/native/test_arithmetic.py compile it with the C files of the core. */

#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "difference.h"
#include "draws.h"
#include "ds_math.h"
#include "encoding.h"
#include "experts.h"
#include "frames.h"
#include "guard.h"
#include "linear.h"
#include "losses.h"
#include "multi.h"
#include "nearest.h"
#include "scores.h"
#include "tallies.h"
#include "text.h"
#include "trees.h"

enum { N = 160, D = 54, K = 4, STEPS = 2 * N };

static uint64_t digest, words;

static void begin(void) { digest = UINT64_C(0xcbf29ce484222325); }

static void end(const char *name) { printf("%s %016llx\n", name, (unsigned long long)digest); }

static void note_bits(uint64_t bits) { digest = (digest ^ bits) * UINT64_C(0x100000001b3); }

static void note(const double *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = UINT64_C(0x7ff8000000000000); /* the sign of NaN may differ */
        if (values[i] == values[i]) memcpy(&bits, values + i, sizeof bits);
        note_bits(bits ^ (bits >> 32));
    }
}

static void note_one(double value) { note(&value, 1); }

static double uniform(void) { return ds_unit(ds_word(7, (int64_t)words++)); }

static double between(double low, double high) { return low + (high - low) * uniform(); }

/* The sum of twelve uniform numbers is close to normal. */
static double normal(void) {
    double sum = -6.0;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
}

/* ---- rows */

static double values[N * D], targets[N], numbers[N], weights[N];
static float single_values[N * D];
static int32_t indices[N * D];
static int64_t indptr[N + 1];

/* Columns of several sizes, one far from 0, and many zeros; targets of `classes`, and numbers; some weights of 0. */
static Rows draw_rows(int64_t d, int sparse, int single, int64_t classes) {
    int64_t at = 0;
    for (int64_t i = 0; i < N; i++) {
        double score = normal();
        for (int64_t c = 0; c < d; c++) {
            const double size = c % 3 == 0 ? 1.0 : c % 3 == 1 ? 40.0 : 0.01;
            const double own = normal(), value = own * size + (c % 5 == 4 ? 100.0 * size : 0.0);
            const int zero = c % 5 != 4 && uniform() < 0.4;
            score += zero ? 0.0 : own * (c % 2 ? 0.5 : -1.0);
            if (sparse && zero) continue;
            indices[at] = (int32_t)c;
            values[at++] = zero ? 0.0 : value;
        }
        indptr[i + 1] = at;
        targets[i] = classes == 2 ? (double)(score > 0.0) : (double)((int64_t)ds_floor(score + 64.0) % classes);
        numbers[i] = 100.0 + score;
        weights[i] = i % 11 == 10 ? 0.0 : i % 7 == 6 ? 0.25 : 1.0;
    }
    for (int64_t k = 0; k < at; k++) single_values[k] = (float)values[k];
    return (Rows){single ? (const void *)single_values : (const void *)values, sparse ? indices : NULL,
                  sparse ? indptr : NULL, N, d, single};
}

/* ---- parts */

static void functions(void) {
    begin();
    for (int i = 0; i < 20000; i++) {
        const double x = between(-750.0, 750.0), small = between(-1.0, 1.0), wide = ds_exp(x);
        const double base = ds_exp(between(-20.0, 20.0)), exponent = between(-30.0, 30.0);
        note_one(wide);
        note_one(ds_exp(small));
        note_one(ds_log(wide));
        note_one(ds_log1p(small));
        note_one(ds_log1p(wide));
        note_one(ds_pow(base, exponent));
        note_one(ds_sin(x * 1000.0));
        note_one(ds_cos(x));
        note_one(ds_floor(x));
    }
    const double edges[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 709.8, -745.2, 5e-324, 1e308};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        note_one(ds_exp(edges[i]));
        note_one(ds_log(edges[i]));
        note_one(ds_log1p(edges[i]));
        note_one(ds_floor(edges[i]));
        for (size_t j = 0; j < sizeof edges / sizeof *edges; j++) note_one(ds_pow(edges[i], edges[j]));
    }
    end("functions");
}

static void draws(void) {
    static double out[N], table[N * K], old[STEPS * K];
    static int64_t order[STEPS];
    int64_t k = 0, count = 0;
    begin();
    k = ds_fill_uniform(out, N, 3, k);
    note(out, N);
    k = ds_draw_uniformly(order, STEPS, N, 3, k);
    for (int i = 0; i < STEPS; i++) note_bits((uint64_t)order[i]);
    k = ds_alternate(order, STEPS, 10, N - 10, 3, k, &count);
    for (int i = 0; i < STEPS; i++) note_bits((uint64_t)order[i]);
    for (int alternating = 0; alternating < 2; alternating++) {
        for (int i = 0; i < N * K; i++) table[i] = uniform();
        k = ds_schedule(order, STEPS, table, old, K, 10, N - 10, 3, k, alternating);
        for (int i = 0; i < STEPS; i++) note_bits((uint64_t)order[i]);
        note(table, N * K);
    }
    note_bits((uint64_t)(k + count));
    end("draws");
}

static void losses(void) {
    static double margins[N], out[4 * N];
    double mass;
    begin();
    draw_rows(3, 0, 0, 2);
    for (int i = 0; i < N; i++) margins[i] = i % 9 ? 20.0 * normal() : 2000.0 * normal();
    ds_logistic_losses(margins, targets, N, out);
    note(out, N);
    for (int kind = DS_SQUARED; kind <= DS_SQUARED_HINGE; kind++) {
        ds_output_losses(margins, targets, N, kind, 1.35, out);
        note(out, N);
    }
    for (int n = 0; n < N; n++) {
        note_one(ds_pairwise_sum(margins, n));
        note_one(ds_weighted_sum(margins, weights, n, &mass));
        note_one(mass);
        note_one(ds_largest(0.5, margins, n));
        note_one(ds_squared_length(margins, weights, n));
    }
    note_bits((uint64_t)ds_evidence_terms(margins, numbers, weights, 100.0, N, out));
    note(out, 4 * N);
    end("losses");
}

static void columns(void) {
    static double low[D], high[D], factor[D + 1], centre[D], out[N * D], limits[3 * D];
    static float single_out[N * D];
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21) {
                const Rows rows = draw_rows(d, sparse, single, 2);
                const int64_t size = sparse ? indptr[N] : N * d;
                for (int c = 0; c <= d; c++) factor[c] = between(0.1, 2.0);
                for (int c = 0; c < d; c++) {
                    low[c] = INFINITY;
                    high[c] = -INFINITY;
                    centre[c] = c % 2 ? normal() : 0.0;
                }
                note_bits((uint64_t)ds_extend_range(rows, weights, low, high));
                note(low, d);
                note(high, d);
                ds_squared_norms(rows, factor, centre, out);
                note(out, N);
                ds_column_limits(high, factor, d, 3.0, 3 * d, limits);
                note(limits, 3 * d);
                for (int k = 0; k < 3 * d; k++) limits[k] = limits[k] < 0.0 ? -limits[k] : limits[k];
                note_bits((uint64_t)(ds_all_finite(rows.values, size, single) +
                                     2 * ds_all_between(rows.values, size, -100.0, 100.0, 1, single) +
                                     4 * ds_are_codes(targets, N, 2) + 8 * ds_all_within(rows, limits, 3)));
                if (single) {
                    ds_clip(rows, limits, single_out);
                    for (int64_t k = 0; k < size; k++) note_one((double)single_out[k]);
                } else {
                    ds_clip(rows, limits, out);
                    note(out, size);
                }
            }
    ds_range_of_weighted(numbers, weights, N, low, high);
    note_one(low[0]);
    note_one(high[0]);
    end("columns");
}

static void frames(void) {
    static double centre[D], sizes[D], work[6 * D], scratch[N], W[(D + 1) * K], G[(D + 1) * K], factor[D + 1];
    static double moved[D], out[(D + 1) * K];
    const FrameRules rules = {3.0, 4.0, 1e4, 16.0};
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21) {
                const Rows rows = draw_rows(d, sparse, single, 2);
                ds_frame(rows, weights, 1, rules, 40, centre, sizes, work, scratch);
                note(centre, d);
                note(sizes, d);
                for (int c = 0; c <= d; c++) factor[c] = 1.0;
                for (int c = 0; c < d; c++) moved[c] = 0.0;
                for (int c = 0; c < (d + 1) * K; c++) {
                    W[c] = normal();
                    G[c] = normal();
                }
                ds_reframe(W, G, d, K, factor, moved, centre, sizes, 1e-100);
                note(W, (d + 1) * K);
                note(G, (d + 1) * K);
                note(factor, d + 1);
                note_one(ds_usual_norm(rows, weights, factor, centre, 0.9, scratch));
                ds_uncentre(W, d, K, centre, 2.5, out);
                note(out, (d + 1) * K);
            }
    note_one(ds_median_target(numbers, weights, N, scratch));
    end("frames");
}

static void guard(void) {
    static double arrays[2][DS_ROWS_OF_GUARD * D], recent[2][DS_GUARD_MEMORY + N], work[DS_GUARD_MEMORY + N], norms[N];
    static double centre[D], sizes[D], scratch[6 * D], column[N];
    const FrameRules rules = {3.0, 4.0, 1e4, 16.0};
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21) {
                memset(arrays, 0, sizeof arrays);
                int64_t n = 0;
                for (int batch = 0; batch < 10; batch++) {
                    Rows rows = draw_rows(d, sparse, single, 2);
                    if (!sparse) values[3 * d] = single_values[3 * d] = batch == 7 ? 3e6f : 1.0f; /* an extreme row */
                    const Admission admission = {arrays[batch % 2], recent[batch % 2],   n,   400.0, batch % 3 > 0,
                                                 arrays[1 - batch % 2], recent[1 - batch % 2], work};
                    int64_t extremes = 0, kept = 0;
                    int weighted = 0;
                    ds_frame(rows, weights, 0, rules, 40, centre, sizes, scratch, column);
                    int state = ds_admit(rows, &admission, NULL, norms, &extremes, &kept, &weighted);
                    note_bits((uint64_t)state);
                    if (state == DS_UNSIZED) ds_admit(rows, &admission, sizes, norms, &extremes, &kept, &weighted);
                    note(admission.after, DS_ROWS_OF_GUARD * d);
                    note(admission.later, kept);
                    note(norms, N);
                    note_bits((uint64_t)(extremes * 4 + weighted));
                    n = kept;
                }
            }
    end("guard");
}

static void scores(void) {
    static double W[K * (D + 1)], out[N * K], limits[2 * D];
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21) {
                const Rows rows = draw_rows(d, sparse, single, 2);
                for (int c = 0; c < K * (d + 1); c++) W[c] = normal();
                for (int c = 0; c < d; c++) {
                    limits[c] = -1.0;
                    limits[d + c] = 2.0;
                }
                ds_margins(rows, W, out);
                note(out, N);
                for (int models = 1; models <= K; models++) {
                    ds_margins_of_all(rows, W, models, out);
                    note(out, N * models);
                    ds_outputs(rows, W, models, out, NULL);
                    note(out, N * models);
                    ds_outputs(rows, W, models, out, limits);
                    note(out, N * models);
                    ds_log_softmax(out, N, models);
                    note(out, N * models);
                }
            }
    end("scores");
}

/* Arrays of a descent: two models, for ds_saga_both. */
static struct {
    double w[K * (D + 1)], G[K * (D + 1)], table[N * K];
} models[2];
static double gain[D + 1], centre[D], offset[N], old[STEPS * K], work[2 * K];
static int64_t order[STEPS], centred[D];

static Descent descent(Rows rows, const double *y, int model, int64_t width, int with_offset) {
    int64_t count = 0;
    memset(&models[model], 0, sizeof models[model]);
    for (int64_t c = 0; c < rows.d; c++) {
        const double size = c % 3 == 0 ? 1.0 : c % 3 == 1 ? 40.0 : 0.01;
        gain[c] = 1.0 / (size * size);
        centre[c] = c % 5 == 4 ? 100.0 * size : 0.0;
        if (c % 5 == 4) centred[count++] = c;
    }
    gain[rows.d] = 1.0;
    for (int64_t i = 0; i < N; i++) offset[i] = 0.01 * (double)(i % 7);
    ds_schedule(order, STEPS, models[model].table, old, width, 20, N - 20, 5, 0, 1);
    return (Descent){{rows, y, weights},
                     order,
                     {models[model].w, models[model].G, models[model].table},
                     0,
                     0.3 / (double)(rows.d + 1),
                     {gain, centre, centred, count},
                     with_offset ? offset : NULL};
}

static void note_model(int model, int64_t d, int64_t width) {
    note(models[model].w, width * (d + 1));
    note(models[model].G, width * (d + 1));
    note(models[model].table, width * N);
}

static void linear(void) {
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21) {
                const Rows rows = draw_rows(d, sparse, single, 2);
                for (int with_offset = 0; with_offset < 2; with_offset++) {
                    Descent one = descent(rows, targets, 0, 1, with_offset);
                    note_bits((uint64_t)ds_saga(&one, STEPS, 1e-4));
                    note_model(0, d, 1);
                    note_bits((uint64_t)ds_discharge(rows, models[0].table, models[0].G, one.frame));
                    note(models[0].G, d + 1);
                    one = descent(rows, targets, 0, 1, with_offset);
                    ds_sgd(&one, STEPS, 1e-4);
                    note(models[0].w, d + 1);
                }
                if (sparse) continue;
                Descent one = descent(rows, targets, 0, 1, 0), two = descent(rows, targets, 1, 1, 0);
                two.eta = 0.5 * one.eta;
                ds_saga_both(&one, &two, STEPS, 1e-4);
                note_model(0, d, 1);
                note_model(1, d, 1);
            }
    end("linear");
}

static void multi(void) {
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 4 ? 1 : 25)
                for (int kind = DS_SOFTMAX; kind <= DS_SQUARED_HINGE; kind++)
                    for (int outputs = kind == DS_SOFTMAX ? 2 : 1; outputs <= (kind == DS_SOFTMAX ? K : 1); outputs++) {
                        const Rows rows = draw_rows(d, sparse, single, kind == DS_SQUARED_HINGE ? 2 : K);
                        const int regression = kind == DS_SQUARED || kind == DS_HUBER;
                        const Loss loss = {kind, 1.35, regression ? 100.0 : 0.0, kind == DS_SQUARED ? 0.9 : INFINITY};
                        for (int i = 0; i < N && kind == DS_SOFTMAX; i++)
                            targets[i] = (double)((int64_t)targets[i] % outputs);
                        const double *y = regression ? numbers : targets;
                        Descent one = descent(rows, y, 0, outputs, 0);
                        note_bits((uint64_t)ds_multi_saga(&one, STEPS, 1e-4, outputs, loss, work));
                        note_model(0, d, outputs);
                        note_bits((uint64_t)ds_multi_discharge(rows, models[0].table, models[0].G, outputs, one.frame));
                        note(models[0].G, outputs * (d + 1));
                        one = descent(rows, y, 0, outputs, 0);
                        ds_multi_sgd(&one, STEPS, 1e-4, outputs, loss, work);
                        note(models[0].w, outputs * (d + 1));
                    }
    end("multi");
}

static void naive_bayes(void) {
    static double arrays[3][K * (2 * D + 1)], mean[K * D], factor[K * D], start[K], out[N * K];
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21) {
                Moments parts[3];
                for (int m = 0; m < 3; m++) parts[m] = (Moments){arrays[m], arrays[m] + K, arrays[m] + K + K * d};
                for (int m = 0; m < 2; m++) {
                    const Rows rows = draw_rows(d, sparse, single, K);
                    ds_moments(rows, weights, m ? targets : NULL, m ? K : 1, parts[m]);
                    note(arrays[m], m ? K : 1);
                    note(parts[m].mean, d);
                    note(parts[m].squares, d);
                }
                ds_standardise(parts[0], d, !sparse, mean, factor);
                note(mean, d);
                note(factor, d);
                ds_moments(draw_rows(d, sparse, single, K), weights, targets, K, parts[0]);
                ds_merge_moments(parts[0], parts[1], K, d, parts[2]);
                note(arrays[2], K * (2 * d + 1));
                ds_bayes(parts[2], K, d, 1e-3, mean, factor, start);
                note(mean, K * d);
                note(factor, K * d);
                ds_densities(draw_rows(d, sparse, single, K), K, mean, factor, start, out);
                note(out, N * K);
            }
    end("naive-bayes");
}

static void note_single(const float *numbers, int64_t n) {
    for (int64_t i = 0; i < n; i++) note_one((double)numbers[i]);
}

static void perceptron(void) {
    enum { H = 10, SIZE = D * H + H + H * K + K };
    static float theta[SIZE], m[SIZE], v[SIZE], g[SIZE], x[D], room[3 * H];
    static int64_t visits[STEPS], last[D];
    static double factor[D], zero[D], out[N * K];
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int d = 1; d <= D; d += d < 12 ? 1 : 21)
                for (int outputs = 1; outputs <= K; outputs += K - 1) {
                    const Rows rows = draw_rows(d, sparse, single, K);
                    const int64_t size = d * H + H + H * outputs + outputs;
                    Network net = {H, outputs, outputs > 1, zero, factor, theta, m, v, g, x, room, last};
                    for (int64_t k = 0; k < SIZE; k++) {
                        theta[k] = (float)(0.3 * normal());
                        m[k] = v[k] = g[k] = 0.0f;
                    }
                    for (int c = 0; c < d; c++) factor[c] = c % 3 == 0 ? 1.0 : c % 3 == 1 ? 0.025 : 100.0;
                    for (int i = 0; i < N; i++) numbers[i] = (numbers[i] - 100.0) / 3.0;
                    ds_draw_uniformly(visits, STEPS, N, 9, 0);
                    const Labelled set = {rows, outputs > 1 ? targets : numbers, weights};
                    int64_t step = ds_train_network(set, visits, STEPS, 32, 0.01, 0, net);
                    step = ds_train_network(set, visits, 5, 32, 0.01, step, net);
                    note_one((double)step);
                    note_single(theta, size);
                    note_single(m, size);
                    note_single(v, size);
                    ds_network_outputs(rows, net, out);
                    note(out, N * outputs);
                }
    end("perceptron");
}

static void neighbours(void) {
    enum { WINDOW = 60, MOST = 7 };
    static double window[WINDOW * (D + 2)], factor[D], counts[K], room[D + MOST], out[N * K];
    static int64_t place[MOST];
    begin();
    for (int single = 0; single < 2; single++)
        for (int d = 1; d <= D; d += d < 12 ? 1 : 21)
            for (int classes = 0; classes <= K; classes += K) {
                const Rows rows = draw_rows(d, 0, single, K);
                for (int i = 0; i < WINDOW; i++) {
                    for (int c = 0; c < d; c++) window[i * (d + 2) + c] = normal();
                    window[i * (d + 2) + d] = classes ? targets[i] : numbers[i];
                    window[i * (d + 2) + d + 1] = between(0.5, 2.0);
                }
                for (int c = 0; c < d; c++) factor[c] = between(0.0, 2.0);
                for (int c = 0; c < K; c++) counts[c] = between(0.0, 50.0);
                ds_nearest(rows, (Neighbours){window, WINDOW, d, factor, MOST, classes, counts, 0.5, room, place}, out);
                note(out, N * (classes ? K : 1));
            }
    end("neighbours");
}

static void stacking(void) {
    enum { M = 2 * 3 };
    static double logits[N * K], G[N * K * M], chain[K], mixed[N * K], H[M * M], Q[M * M], room[(M + 6) * M], p[K];
    static double A[M * M], u[M], before[M], values_of[N * M], counted[K * K];
    begin();
    const Stacking working = {H, Q, room, p};
    for (int classes = 2; classes <= K; classes++) {
        draw_rows(3, 0, 0, classes);
        for (int part = 0; part < 3; part++) {
            for (int k = 0; k < N * classes; k++) logits[k] = 2.0 * normal() + (k % classes == 0);
            const int columns = classes == 2 && part == 0 ? 0 : classes;
            if (columns) ds_log_softmax(logits, N, classes);
            ds_expert_shares(logits, N, columns, classes, part, 3, G);
        }
        note(G, N * classes * M);
        for (int k = 0; k < classes * classes; k++) counted[k] = ds_floor(20.0 * uniform());
        ds_chain_scores(counted, classes, 1, classes, chain);
        note(chain, classes);
        for (int k = 0; k < M * M; k++) A[k] = k % (M + 1) == 0 ? 2.0 : 0.0;
        for (int k = 0; k < M; k++) u[k] = before[k] = k < 3 ? 0.3 : 0.0;
        for (int step = 0; step < 3; step++) {
            note_bits((uint64_t)ds_stack_classes(G, targets, weights, N, classes, M, before, A, u, working));
            note(u, M);
            note_bits((uint64_t)ds_remember(u, H, M, 0.9, 0.1, A, Q));
            memcpy(A, Q, sizeof A);
            memcpy(before, u, sizeof u);
            note(A, M * M);
        }
        ds_mix(G, N, classes, M, u, mixed);
        note(mixed, N * classes);
    }
    for (int k = 0; k < N * M; k++) values_of[k] = numbers[k / M] + normal();
    for (int k = 0; k < M * M; k++) A[k] = k % (M + 1) == 0 ? 2.0 : 0.0;
    for (int k = 0; k < M; k++) u[k] = before[k] = 1.0 / M;
    note_bits((uint64_t)ds_stack_values(values_of, numbers, weights, N, M, 0.7, before, A, u, working));
    note(u, M);
    end("stacking");
}

static void votes(void) {
    static double margins[5 * N], one_each[5 * N], out[N], voices[5];
    begin();
    draw_rows(3, 0, 0, 2);
    for (int k = 0; k < 5 * N; k++) {
        margins[k] = 4.0 * normal();
        one_each[k] = uniform();
    }
    ds_true_class_shares(margins, targets, N, out);
    note(out, N);
    note_one(ds_rate_voters(margins, targets, weights, 5, N, out, voices));
    note(voices, 5);
    ds_balance_of_votes(margins, voices, 5, N, out);
    note(out, N);
    ds_follow_losses(margins, one_each, weights, 5, N, 0.5, voices, out);
    note(out, N);
    note(voices, 5);
    end("votes");
}

static void tables(void) {
    enum { WIDTH = 9, BINS = 12, SHELVES = 10 };
    static double out[N * D], missing[N], products[(WIDTH + 1) * 3], sums[SHELVES], fills[WIDTH], marks[WIDTH];
    static double cells[N * WIDTH], data[N * WIDTH], margins[N], shares[N], two[2 * N];
    static int32_t at[N * WIDTH], places[4 * WIDTH], word[N];
    static int64_t from[N + 1], pairs[9], counted[2 * BINS], hits[2 * SHELVES], actual[N], predicted[N];
    uint8_t text[N];
    begin();
    Rows rows = draw_rows(WIDTH, 1, 0, 2);
    note_bits((uint64_t)ds_is_sound_csr(rows, indptr[N]));
    memcpy(two, targets, sizeof targets);
    memcpy(two + N, numbers, sizeof numbers);
    ds_column_products(rows, two, 2, WIDTH, products);
    note(products, (WIDTH + 1) * 3);
    for (int k = 0; k < N * WIDTH; k++) cells[k] = k % 7 == 3 ? NAN : k % 4 == 1 ? 0.0 : normal();
    note_bits((uint64_t)ds_put_column(cells, N, 0.5, 2, WIDTH, out, missing));
    note(out, N * WIDTH);
    note(missing, N);
    for (int k = 0; k < WIDTH; k++) {
        places[k] = k;
        places[WIDTH + k] = k == 1 ? 0 : -1;
        places[2 * WIDTH + k] = k == 2 ? WIDTH - 1 : -1;
        places[3 * WIDTH + k] = k == WIDTH - 1;
        fills[k] = 0.25 * k;
    }
    for (int i = 0; i < N; i++) word[i] = (int32_t)(WIDTH + i % 5);
    int64_t infinite = 0;
    const Places table = {cells, word, places, fills, marks, WIDTH, N};
    const int64_t stored = ds_assemble_rows(&table, data, at, from, &infinite);
    note_bits((uint64_t)(stored + infinite));
    note(data, stored);
    for (int64_t k = 0; k < stored; k++) note_bits((uint64_t)at[k]);
    for (int i = 0; i < N; i++) {
        margins[i] = 3.0 * normal();
        shares[i] = 1.0 / (1.0 + ds_exp(-margins[i]));
        actual[i] = (int64_t)targets[i] - (i % 13 == 0);
        predicted[i] = margins[i] > 0.0;
        text[i] = (uint8_t)(ds_word(2, i) % 11 ? ' ' + ds_word(1, i) % 64 : '\r');
    }
    const Tally tally = {pairs, counted, hits, sums, 2, BINS, SHELVES, 5.0};
    note_bits((uint64_t)ds_tally_margins(margins, shares, actual, predicted, N, tally));
    for (int k = 0; k < 2 * BINS; k++) note_bits((uint64_t)counted[k]);
    note(sums, SHELVES);
    note_one(ds_mean_auc(counted, 1, BINS));
    note_bits((uint64_t)(ds_count(text, N, ',') * 16 + ds_seams(text, N, ',') * 2 + ds_is_padded(text, N, ',')));
    end("tables");
}

/* Trees of seven nodes and eight leaves, with every kind of node, on dense and CSR rows. */
static void trees(void) {
    enum { TREES = 6, INNER = 7, LEAVES = 8 };
    static const int32_t kinds[] = {0, 2, 8, 10, 4, 6, 1};
    static Node nodes[TREES * INNER];
    static double leaves[TREES * LEAVES], room[D], out[N * 2];
    static const uint32_t bits[] = {UINT32_C(0xa5a5f00f), UINT32_C(0x13)};
    int32_t roots[TREES];
    begin();
    for (int sparse = 0; sparse < 2; sparse++)
        for (int single = 0; single < 2; single++)
            for (int outputs = 1; outputs <= 2; outputs++) {
                const Rows rows = draw_rows(D, sparse, single, K);
                for (int t = 0; t < TREES; t++) {
                    roots[t] = t * INNER;
                    for (int k = 0; k < INNER; k++) {
                        const int32_t kind = kinds[(t + k) % 7];
                        Node *node = nodes + t * INNER + k;
                        *node = (Node){kind == 1 ? 0.0 : normal(), (int32_t)(D * uniform()), {0, 0}, kind, kind == 1 ? 2 : 0};
                        for (int side = 0; side < 2; side++) {
                            const int child = 2 * k + 1 + side;
                            node->child[side] = child < INNER ? t * INNER + child : -1 - (t * LEAVES + child - INNER);
                        }
                    }
                    for (int k = 0; k < LEAVES; k++) leaves[t * LEAVES + k] = normal();
                }
                const Forest forest = {nodes, leaves, bits, roots, TREES, outputs};
                ds_sum_of_trees(rows, forest, room, out);
                note(out, N * outputs);
            }
    end("trees");
}

static void differences(void) {
    static float key[8192];
    static double row[D], shared[K], out[K], work[2048];
    const uint64_t drawn = words;
    words = 1 << 20; /* the digest does not depend on the parts before */
    begin();
    for (int kind = 0; kind < 6; kind++) {
        DifferenceRules rules = {kind < 3 ? 10 : 40, kind % 3 == 1 ? K : 1, 3, kind % 3 == 2, {0.1, 0.3, 1.0}, 0.995, 0.99};
        ds_begin_difference(&rules, key);
        for (int i = 0; i < N; i++) {
            for (int c = 0; c < rules.d; c++) row[c] = normal();
            for (int k = 0; k < K; k++) shared[k] = normal();
            shared[1] = rules.regression ? 1.5 : shared[1];
            const double target = rules.regression ? shared[0] + 2.0 * row[1] : row[0] > 0.0;
            ds_difference_row(&rules, key, row, shared, target, i % 5 ? 1.0 : 0.5, out, work);
            note(out, rules.outputs);
        }
        note_single(key, ds_difference_size(&rules));
    }
    end("differences");
    words = drawn;
}

int main(void) {
    functions();
    draws();
    losses();
    columns();
    frames();
    guard();
    scores();
    linear();
    multi();
    naive_bayes();
    perceptron();
    stacking();
    votes();
    tables();
    trees();
    neighbours();
    differences();
    return 0;
}
