/* Loops that are compiled three times on x86-64: for every processor, for those with AVX2, and for those with AVX-512. The
   results have the same bits.

   A file defines its loops with DS_INLINE, and DS_THRICE defines a function that runs the one for the processor. */

#ifndef DRIFTSURF_PROCESSOR_H
#define DRIFTSURF_PROCESSOR_H

enum { DS_ANY, DS_WITH_AVX2, DS_WITH_AVX512 };

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define DS_AVX2 __attribute__((target("avx2")))
#ifdef __clang__
#define DS_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#else
#define DS_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")))
#endif
/* The widest vectors that the processor and the operating system support, and neither of the variables DRIFTSURF_NO_AVX2
   and DRIFTSURF_NO_AVX512 of the environment forbids. Found out once. */
int ds_vectors(void);
#else
#define DS_AVX2
#define DS_AVX512
static inline int ds_vectors(void) { return DS_ANY; }
#endif

/* Define a function that runs `loop`, which is DS_INLINE, as it was compiled for the processor. */
#define DS_THRICE(linkage, type, function, loop, parameters, arguments) \
    DS_AVX2 static type loop##_avx2 parameters { return loop arguments; } \
    DS_AVX512 static type loop##_avx512 parameters { return loop arguments; } \
    linkage type function parameters { \
        switch (ds_vectors()) { \
        case DS_WITH_AVX512: return loop##_avx512 arguments; \
        case DS_WITH_AVX2: return loop##_avx2 arguments; \
        default: return loop arguments; \
        } \
    }

#endif
