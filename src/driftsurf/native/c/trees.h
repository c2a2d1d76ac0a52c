/* Sums of decision trees, as gradient boosting fits them. */

#ifndef DRIFTSURF_TREES_H
#define DRIFTSURF_TREES_H

#include <stdint.h>

#include "rows.h"

/* How a node decides. A numeric node sends a row left if its value is at most the threshold; a node of a category, if the
   bit of its value is set. */
enum {
    DS_CATEGORY = 1,
    DS_MISSING_LEFT = 2, /* missing values go left, otherwise right */
    DS_ZERO_MISSING = 4, /* values very close to 0 are missing */
    DS_NAN_MISSING = 8   /* NaN is missing; without this and DS_ZERO_MISSING, it counts as 0 */
};

/* A split of a tree. A child that is not negative is a node, -1 - child is a leaf otherwise. */
typedef struct {
    double threshold; /* of a category: number of its first word in `bits` */
    int32_t feature;
    int32_t child[2]; /* right, left */
    int32_t kind;
    int32_t words; /* words of a category */
} Node;

typedef struct {
    const Node *nodes;
    const double *leaves;
    const uint32_t *bits;
    const int32_t *roots; /* as children */
    int64_t trees;
    int64_t outputs; /* tree t adds to output t % outputs */
} Forest;

/* Set out[i * outputs + k] to the sum of the trees of output k at row i, in the order of the trees. `room` has d zeros for
   CSR rows, which are zeros again at the end. */
void ds_sum_of_trees(Rows rows, Forest forest, double *room, double *out);

#endif
