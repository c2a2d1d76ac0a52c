/* Counter-based random numbers: word k of a generator is a hash of its seed and k (the finaliser of SplitMix64).
   driftsurf.core.numeric has the same numbers in Python. */

#ifndef DRIFTSURF_RANDOM_H
#define DRIFTSURF_RANDOM_H

#include <stdint.h>

static inline uint64_t ds_word(uint64_t seed, int64_t k) {
    uint64_t z = seed + ((uint64_t)k + 1u) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Map a random word to 0 .. n - 1, for n < 2^32, by multiply-shift: a division would take several times as long. */
static inline int64_t ds_below(uint64_t word, int64_t n) { return (int64_t)(((word >> 32) * (uint64_t)n) >> 32); }

/* Map a random word to a number in [0, 1). */
static inline double ds_unit(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

#endif
