/* Nearest neighbours among the last rows. */

#ifndef DRIFTSURF_NEAREST_H
#define DRIFTSURF_NEAREST_H

#include "rows.h"

/* Rows that vote: (n, d + 2), the oldest first, each with its values, its target (the code of a class, or a number) and its
   weight. Values have at most the size 1e100. */
typedef struct {
    const double *rows;
    int64_t n;
    int64_t d;
    const double *factor; /* (d): what differences are multiplied by */
    int64_t most;         /* number of neighbours that vote */
    int64_t K;            /* number of classes; 0 for numbers */
    const double *counts; /* (K): how often each class has occurred */
    double smoothing;     /* votes that the shares of the classes have */
    double *room;         /* (d + most) */
    int64_t *place;       /* (most) */
} Neighbours;

/* Claim the places of `new_rows` rows after the place `end`, at which the rows of a tape have to `stop`; return 0 if these go on,
   because others have claimed the places. Threads may claim at the same time. */
int ds_claim(int64_t *stop, int64_t end, int64_t new_rows);

/* Append rows of a batch, those with a weight but the first `skipped` of them, to rows that vote, at `to`; return how
   many these are. */
int64_t ds_write_neighbours(Labelled batch, int64_t skipped, double *to);

/* Log-probabilities out[i, c] of the classes of dense rows, or their predicted numbers out[i].

   The votes of the nearest rows are inverse to their distances, at most 1,000 times that of the farthest of them, and
   their mean is 1 before they are multiplied by the weights of the rows. Of rows at the same distance the newest count. */
void ds_nearest(Rows queries, Neighbours known, double *out);

#endif
