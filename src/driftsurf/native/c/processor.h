/* Loops that are compiled twice on x86-64: for every processor, and for those with AVX2. The results have the same bits.

   A file defines its loops with DS_INLINE, calls them from a function marked DS_AVX2 and from one that is not, and
   asks `ds_has_avx2` which to take. */

#ifndef DRIFTSURF_PROCESSOR_H
#define DRIFTSURF_PROCESSOR_H

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define DS_AVX2 __attribute__((target("avx2")))
/* Whether the processor and the operating system support AVX2, and the variable DRIFTSURF_NO_AVX2 of the environment is
   not set. Found out once. */
int ds_has_avx2(void);
#else
#define DS_AVX2
static inline int ds_has_avx2(void) { return 0; }
#endif

/* Define a function that runs `loop`, which is DS_INLINE, as it was compiled for the processor. */
#define DS_TWICE(function, loop, parameters, arguments) \
    DS_AVX2 static void loop##_avx2 parameters { loop arguments; } \
    function parameters { \
        if (ds_has_avx2()) \
            loop##_avx2 arguments; \
        else \
            loop arguments; \
    }

#endif
