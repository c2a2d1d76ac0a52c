/* Random draws in bulk: uniform numbers, and the row that each step of an optimiser visits. */

#ifndef DRIFTSURF_DRAWS_H
#define DRIFTSURF_DRAWS_H

#include "random.h"

/* Fill `out` with n uniform numbers in [0, 1) from the words k, k + 1, ...; return the next k. */
int64_t ds_fill_uniform(double *out, int64_t n, uint64_t seed, int64_t k);

/* Fill `order` with `steps` uniform draws from the rows 0 .. n - 1; return the next k. */
int64_t ds_draw_uniformly(int64_t *order, int64_t steps, int64_t n, uint64_t seed, int64_t k);

/* Fill `order` with the row that each step visits, by STRSAGA's alternating schedule; return the next k.
   Steps 0, 2, 4, ... admit the oldest waiting row to the sample set and visit it, as long as a row waits; every other
   step visits a row drawn uniformly from the set as it then is. `count` receives the number of rows admitted. */
int64_t ds_alternate(int64_t *order, int64_t steps, int64_t admitted, int64_t waiting, uint64_t seed, int64_t k,
                     int64_t *count);

/* Fill `order` for STRSAGA (`alternating`) or plain SAGA, and prepare the table; return the next k.
   `table` is the flattened gradient table with `width` numbers for each row, and has room for the rows that are
   admitted, whose entries are set to NaN. `old` receives the steps * width entries that the steps will overwrite. */
int64_t ds_schedule(int64_t *order, int64_t steps, double *table, double *old, int64_t width, int64_t admitted,
                    int64_t waiting, uint64_t seed, int64_t k, int alternating);

#endif
