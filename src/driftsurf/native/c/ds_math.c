#include "ds_math.h"

double ds_exp(double x) { return exp(x); }
double ds_log(double x) { return log(x); }
double ds_log1p(double x) { return log1p(x); }
double ds_pow(double base, double exponent) { return pow(base, exponent); }
double ds_sin(double x) { return sin(x); }
double ds_cos(double x) { return cos(x); }
