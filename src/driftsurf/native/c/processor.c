#include "processor.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <cpuid.h>
#include <stdlib.h>

enum {
    YMM = 0x6,  /* the system saves the registers of AVX, ... */
    ZMM = 0xe6, /* ... and those of AVX-512 */
    OSXSAVE = 1 << 27,
    AVX2 = 1 << 5,
    AVX512 = 1 << 16 | 1 << 17 | 1 << 30, /* F, DQ and BW */
    VBMI2 = 1 << 6 /* processors without this part of AVX-512 run slower while they use wide registers */
};

/* Not __builtin_cpu_supports, which does not link into a library with zig. */
static int ask(void) {
    if (getenv("DRIFTSURF_NO_AVX2")) return DS_ANY;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return DS_ANY;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & YMM) != YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & AVX2)) return DS_ANY;
    const int is_wide = (low & ZMM) == ZMM && (b & AVX512) == AVX512 && b >> 31 /* VL */ && c & VBMI2;
    return is_wide && !getenv("DRIFTSURF_NO_AVX512") ? DS_WITH_AVX512 : DS_WITH_AVX2;
}

int ds_vectors(void) {
    static int known = -1; /* threads that ask at the same time find the same */
    int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (found < 0) {
        found = ask();
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
}

#endif
