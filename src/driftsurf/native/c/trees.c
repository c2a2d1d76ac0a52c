#include "trees.h"

#include "values.h"

#define CLOSE_TO_ZERO 1.0000000180025095e-35 /* 1e-35 in single precision */

/* Whether a node sends a value left that its threshold alone does not decide. */
static int goes_left_specially(const Node *node, double value, const uint32_t *bits) {
    if (node->kind & DS_CATEGORY) {
        /* Words of 32 values; NaN and what is no code of a category go right. */
        if (!(value > -1.0 && value < 32.0 * (double)node->words)) return 0;
        const int64_t code = (int64_t)value;
        return bits[(int64_t)node->threshold + code / 32] >> (code % 32) & 1;
    }
    if (value != value) {
        if (node->kind & DS_NAN_MISSING) return (node->kind & DS_MISSING_LEFT) != 0;
        value = 0.0;
    }
    if (node->kind & DS_ZERO_MISSING && value >= -CLOSE_TO_ZERO && value <= CLOSE_TO_ZERO)
        return (node->kind & DS_MISSING_LEFT) != 0;
    return value <= node->threshold;
}

/* The leaf of a row. The threshold decides first, so that most nodes need no branch that depends on the data. */
DS_INLINE int32_t leaf_of(const Forest *forest, int32_t at, const void *row, int single) {
    while (at >= 0) {
        const Node *node = forest->nodes + at;
        const double value = ds_value(row, node->feature, single);
        int left = value <= node->threshold;
        if (node->kind & (DS_CATEGORY | DS_ZERO_MISSING) || value != value)
            left = goes_left_specially(node, value, forest->bits);
        at = node->child[left];
    }
    return -1 - at;
}

DS_INLINE void add_trees(const Forest *forest, const void *row, int single, double *out) {
    for (int64_t t = 0; t < forest->trees; t++)
        out[t % forest->outputs] += forest->leaves[leaf_of(forest, forest->roots[t], row, single)];
}

void ds_sum_of_trees(Rows rows, Forest forest, double *room, double *out) {
    const int64_t K = forest.outputs;
    for (int64_t i = 0; i < rows.n * K; i++) out[i] = 0.0;
    if (!rows.indptr) {
        /* Tree by tree, so that its nodes stay in the nearest cache. */
        for (int64_t t = 0; t < forest.trees; t++)
            for (int64_t i = 0; i < rows.n; i++) {
                const int32_t root = forest.roots[t];
                const int32_t leaf =
                    rows.is_single ? leaf_of(&forest, root, (const float *)rows.values + i * rows.d, 1)
                                   : leaf_of(&forest, root, (const double *)rows.values + i * rows.d, 0);
                out[i * K + t % K] += forest.leaves[leaf];
            }
        return;
    }
    for (int64_t i = 0; i < rows.n; i++) {
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++)
            room[rows.indices[p]] = ds_value(rows.values, p, rows.is_single != 0);
        add_trees(&forest, room, 0, out + i * K);
        for (int64_t p = rows.indptr[i]; p < rows.indptr[i + 1]; p++) room[rows.indices[p]] = 0.0;
    }
}
