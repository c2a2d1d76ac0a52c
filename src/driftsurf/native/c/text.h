/* Bytes of text, many at a time. */

#ifndef DRIFTSURF_TEXT_H
#define DRIFTSURF_TEXT_H

#include <stdint.h>

enum { DS_PADDING = 1, DS_RETURNS = 2 };

/* Return how many of n bytes are `mark`. */
int64_t ds_count(const uint8_t *data, int64_t n, uint8_t mark);

/* Return DS_PADDING if there may be a blank (space or tab) beside a `mark` or a line end, and DS_RETURNS if there is a
   carriage return. A tab beside a tab counts, even if the mark is a tab. */
int ds_seams(const uint8_t *data, int64_t n, uint8_t mark);

/* Return whether a blank that is no mark stands beside a mark. */
int ds_is_padded(const uint8_t *data, int64_t n, uint8_t mark);

#endif
