/* The range guard: sizes of columns, norms of rows in these units, and the weights of extreme rows. */

#ifndef DRIFTSURF_GUARD_H
#define DRIFTSURF_GUARD_H

#include "rows.h"

enum { DS_ADMITTED = 0, DS_UNSIZED = 1 };
/* Rows of the array of a guard, which has a column for each column of the data, and their number. */
enum { DS_FACTOR, DS_COLUMN_CAP, DS_TOTAL, DS_MASS, DS_EXCESS, DS_ROWS_OF_GUARD };
#define DS_CAP 3.0
#define DS_LIMIT 6.0
#define DS_GUARD_MEMORY 1024

/* The arrays of one admission. `before` and `after` are (DS_ROWS_OF_GUARD, d). */
typedef struct {
    const double *before;
    const double *recent; /* squared norms of the last rows, oldest first */
    int64_t n_recent;
    double squared; /* square of the factor of the guard */
    int clips;
    double *after;
    double *later; /* room for DS_GUARD_MEMORY norms, or for all of them */
    double *work;  /* scratch space of as many numbers as there are recent norms and new rows */
} Admission;

/* Admit rows to a guard, and write its numbers after them. `sizes` (d) is the typical size of each column of these
   rows, or NULL. `norms` receives the weight of each row if `weighted`, otherwise its squared norm, and `extremes` the
   number of rows with a value beyond DS_LIMIT sizes of its column. Returns DS_ADMITTED, or DS_UNSIZED if a column has to
   be sized by these rows, and nothing else is valid. */
int ds_admit(Rows rows, const Admission *guard, const double *sizes, double *norms, int64_t *extremes, int64_t *kept,
             int *weighted);

/* Like `ds_admit`, but `later` receives the norms of these rows only, at most DS_GUARD_MEMORY of them. */
int ds_admit_new(Rows rows, const Admission *guard, const double *sizes, double *norms, int64_t *extremes,
                 int64_t *kept, int *weighted);

/* Write the typical size of each column of rows (d), over those whose square does not overflow. `work` is scratch space
   of 7 d + 1 + 2 n numbers. */
void ds_sizes_of_rows(Rows rows, double *sizes, double *work);

#endif
