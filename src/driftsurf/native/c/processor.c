#include "processor.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <cpuid.h>
#include <stdlib.h>

/* Not __builtin_cpu_supports, which does not link into a library with zig. */
static int ask(void) {
    if (getenv("DRIFTSURF_NO_AVX2")) return 0;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0; /* the system saves wide registers: OSXSAVE */
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6u) != 6u) return 0; /* ... and those of AVX */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return (b >> 5) & 1u;
}

int ds_has_avx2(void) {
    static int known = -1; /* threads that ask at the same time find the same */
    int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (found < 0) {
        found = ask();
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
}

#endif
