#include "drift.h"

#include "values.h"

void ds_weighted_errors(const double *margins, const double *y, int64_t n, double shift, double low, double high,
                        double *out) {
    for (int64_t i = 0; i < n; i++) { /* no branch depends on a label or a score, so that this becomes vectors */
        const double first = margins[i] > shift ? low : 0.0, second = margins[i] > shift ? 0.0 : high;
        out[i] = y[i] > 0.5 ? second : first;
    }
}

int64_t ds_cusum(const double *losses, int64_t n, const double low[DS_BETS], const double high[DS_BETS],
                 const double bars[DS_BETS], double sums[DS_BETS], double since[DS_BETS], double row) {
    double s[DS_BETS], first[DS_BETS];
    int64_t i = 0, found = -1;
    for (int j = 0; j < DS_BETS; j++) s[j] = sums[j], first[j] = since[j];
    for (; i < n && found < 0; i++) {
        /* No branch depends on a loss: the processor could not foresee it. */
        const double *const gains = losses[i] == 0.0 ? low : high, next = row + (double)i + 1.0;
        int above = 0;
        for (int j = 0; j < DS_BETS; j++) {
            const double sum = s[j] + gains[j];
            const int is_positive = sum > 0.0;
            s[j] = is_positive ? sum : 0.0;
            first[j] = is_positive ? first[j] : next;
            above |= s[j] > bars[j];
        }
        if (above) found = i;
    }
    for (int j = 0; j < DS_BETS; j++) sums[j] = s[j], since[j] = first[j];
    return found;
}

DS_INLINE void moments(Rows rows, double *restrict means, double *restrict variances, int single) {
    const double n = (double)rows.n;
    for (int64_t c = 0; c < rows.d; c++) means[c] = variances[c] = 0.0;
    for (int64_t i = 0; i < rows.n; i++) {
        const void *row = ds_from(rows.values, i * rows.d, single);
        for (int64_t c = 0; c < rows.d; c++) means[c] += ds_value(row, c, single);
    }
    for (int64_t c = 0; c < rows.d; c++) means[c] /= n;
    for (int64_t i = 0; i < rows.n; i++) {
        const void *row = ds_from(rows.values, i * rows.d, single);
        for (int64_t c = 0; c < rows.d; c++) {
            const double distance = ds_value(row, c, single) - means[c];
            variances[c] += distance * distance;
        }
    }
    for (int64_t c = 0; c < rows.d; c++) variances[c] /= n;
}

void ds_column_moments(Rows rows, double *means, double *variances) {
    if (rows.is_single)
        moments(rows, means, variances, 1);
    else
        moments(rows, means, variances, 0);
}
