/* Elementary functions with the same bits on every machine: arithmetic and tables only, nothing from libm. */

#ifndef DRIFTSURF_MATH_H
#define DRIFTSURF_MATH_H

#include <math.h> /* for INFINITY and NAN; fabs and sqrt are instructions */
#include <stdint.h>

double ds_exp(double x);
double ds_log(double x);
double ds_log1p(double x);
double ds_pow(double base, double exponent);
double ds_sin(double x); /* NaN unless |x| < 2^20, as for ds_cos */
double ds_cos(double x);

/* The largest integer that is not above x, for |x| < 2^63; the instruction for it is newer than x86-64. */
static inline double ds_floor(double x) {
    /* An integer, infinite, or NaN; or 0, whose sign a compiler may keep or lose in what follows. */
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0) || x == 0.0) return x;
    const double whole = (double)(int64_t)x;
    return whole > x ? whole - 1.0 : whole;
}

#endif
