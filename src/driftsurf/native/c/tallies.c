#include "tallies.h"

#include "ds_math.h"

int ds_tally_margins(const double *margins, const double *shares, const int64_t *actual, const int64_t *predicted,
                     int64_t n, Tally tally) {
    const double middle = (double)tally.bins / 2.0, slope = middle / tally.largest, last = (double)(tally.bins - 1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t own = actual[i] >= 0 && actual[i] < tally.known ? actual[i] : -1;
        const int64_t said = predicted[i] >= 0 && predicted[i] < tally.known ? predicted[i] : -1;
        const double at = margins[i] * slope + middle, share = shares[i];
        const int64_t second = own == 1;
        int64_t place = tally.bins - 1; /* also if it is not a number */
        tally.pairs[(own + 1) * (tally.known + 1) + said + 1]++;
        if (at < last) place = at > 0.0 ? (int64_t)at : 0;
        tally.scores[second * tally.bins + place]++;
        if (!(share >= 0.0 && share <= 1.0)) return 0;
        const double scaled = share * (double)tally.share_bins;
        int64_t bin = scaled < (double)tally.share_bins ? (int64_t)scaled : tally.share_bins - 1;
        const int64_t half = tally.share_bins / 2;
        if (said == 1 ? bin < half : bin >= half) bin = said == 1 ? half : half - 1;
        tally.hits[second * tally.share_bins + bin]++;
        tally.sums[bin] += share;
    }
    return 1;
}

double ds_mean_auc(const int64_t *counts, int64_t classes, int64_t bins) {
    double total = 0.0;
    int64_t found = 0;
    for (int64_t c = 0; c < classes; c++, counts += 2 * bins) {
        double below = 0.0, area = 0.0, own = 0.0;
        for (int64_t k = 0; k < bins; k++) {
            const double others = (double)counts[k], mine = (double)counts[bins + k];
            area += mine * (below + others / 2.0);
            below += others;
            own += mine;
        }
        if (own > 0.0 && below > 0.0) {
            total += area / own / below;
            found++;
        }
    }
    return found ? total / (double)found : NAN;
}
