/* The floating-point mode of a thread: how it rounds, and whether it takes subnormal numbers for 0.

   A library that is built with -ffast-math switches subnormal numbers off in the thread that loads it. Every call into
   the core works in the usual mode and restores the one that it found, so that results have the same bits. */

#ifndef DRIFTSURF_FLOAT_MODE_H
#define DRIFTSURF_FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
enum { DS_ROUNDING = 0x6000, DS_FLUSHING = 0x8040 }; /* results and operands */
static inline uint64_t ds_float_mode(void) { return _mm_getcsr(); }
static inline void ds_set_float_mode(uint64_t mode) { _mm_setcsr((unsigned)mode); }
#elif defined(__aarch64__)
enum { DS_ROUNDING = 3 << 22, DS_FLUSHING = 1 << 24 };
static inline uint64_t ds_float_mode(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static inline void ds_set_float_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
#else
enum { DS_ROUNDING = 0, DS_FLUSHING = 0 };
static inline uint64_t ds_float_mode(void) { return 0; }
static inline void ds_set_float_mode(uint64_t mode) { (void)mode; }
#endif

/* Use the usual mode; return the one before, for `ds_leave_usual_mode`. Reading it takes a nanosecond, and it is
   written only where it differs. */
static inline uint64_t ds_enter_usual_mode(void) {
    const uint64_t before = ds_float_mode();
    if (before & (DS_ROUNDING | DS_FLUSHING)) ds_set_float_mode(before & ~(uint64_t)(DS_ROUNDING | DS_FLUSHING));
    return before;
}

static inline void ds_leave_usual_mode(uint64_t before) {
    if (before & (DS_ROUNDING | DS_FLUSHING)) ds_set_float_mode(before);
}

#endif
