#include "draws.h"

#include <math.h> /* for NAN */

#include "values.h"

int64_t ds_fill_uniform(double *out, int64_t n, uint64_t seed, int64_t k) {
    for (int64_t i = 0; i < n; i++) out[i] = ds_unit(ds_word(seed, k + i));
    return k + n;
}

int64_t ds_draw_uniformly(int64_t *order, int64_t steps, int64_t n, uint64_t seed, int64_t k) {
    for (int64_t j = 0; j < steps; j++) order[j] = ds_below(ds_word(seed, k + j), n);
    return k + steps;
}

int64_t ds_alternate(int64_t *order, int64_t steps, int64_t admitted, int64_t waiting, uint64_t seed, int64_t k,
                     int64_t *count) {
    int64_t pairs = steps / 2;
    if (pairs > waiting) pairs = waiting;
    for (int64_t p = 0; p < pairs; p++) { /* in pairs of steps, of which the processor computes several at once */
        order[2 * p] = admitted + p;
        order[2 * p + 1] = ds_below(ds_word(seed, k + p), admitted + p + 1);
    }
    k += pairs;
    admitted += pairs;
    *count = pairs;
    int64_t j = 2 * pairs;
    if (pairs < waiting && j < steps) { /* the last step of an odd number */
        order[j++] = admitted++;
        *count += 1;
    }
    return ds_draw_uniformly(order + j, steps - j, admitted, seed, k);
}

/* Schedule of plain SAGA: the sample set grows as in `ds_alternate`, but every step draws from it. */
static int64_t grow_and_draw(int64_t *order, int64_t steps, int64_t admitted, int64_t waiting, uint64_t seed,
                             int64_t k, int64_t *count) {
    *count = 0;
    for (int64_t j = 0; j < steps; j++) {
        if (j % 2 == 0 && *count < waiting) *count += 1;
        order[j] = ds_below(ds_word(seed, k + j), admitted + *count);
    }
    return k + steps;
}

DS_INLINE void copy_entries(const int64_t *restrict order, int64_t steps, const double *restrict table,
                            double *restrict old, int64_t width) {
    for (int64_t j = 0; j < steps; j++)
        for (int64_t c = 0; c < width; c++) old[j * width + c] = table[order[j] * width + c];
}

int64_t ds_schedule(int64_t *order, int64_t steps, double *table, double *old, int64_t width, int64_t admitted,
                    int64_t waiting, uint64_t seed, int64_t k, int alternating) {
    int64_t count;
    if (alternating)
        k = ds_alternate(order, steps, admitted, waiting, seed, k, &count);
    else
        k = grow_and_draw(order, steps, admitted, waiting, seed, k, &count);
    for (int64_t p = admitted * width; p < (admitted + count) * width; p++) table[p] = NAN;
    if (width == 1) /* a known width takes a third of the time */
        copy_entries(order, steps, table, old, 1);
    else if (width == 3)
        copy_entries(order, steps, table, old, 3);
    else
        copy_entries(order, steps, table, old, width);
    return k;
}
