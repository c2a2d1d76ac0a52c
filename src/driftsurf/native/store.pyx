"""The loop over the rows of many keys: fill gaps, predict, store, and learn whole time steps, one key after the other.

Each key has a *slot*, the index of its block of memory, and a piece of memory for rows (``arena.pxd``).
``driftsurf.keyed.layout`` describes both; they hold a cell (``layout.pxd``), which the step of a single model learns,
and what is counted for the key beside it. Behind the rows that were learned are the rows that wait until their time
step is full.

All memory is allocated before a loop starts, so that none can fail half-way. Loops run without the GIL, and several
threads may serve disjoint slots.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from driftsurf.native.arena cimport LINE, Pieces, is_inside, piece_at, places_of, read_pieces
from driftsurf.native.buffers cimport Buffers, hold, integer_out, integers, real_out, reals, release
from driftsurf.native.cell cimport Workspace, rule_from, training_from
from driftsurf.native.guard cimport (
    DS_UNSIZED,
    DS_COLUMN_CAP,
    DS_TOTAL,
    DS_MASS,
    DS_ROWS_OF_GUARD,
    DS_GUARD_MEMORY,
    DS_CAP,
    DS_LIMIT,
    Admission,
    ds_admit,
    ds_sizes_of_rows,
)
from driftsurf.native.layout cimport (
    LEARNED,
    MOST_BYTES,
    NO_RIVAL,
    ORDERED,
    STEPS,
    TRANSITION,
    TRANSITION_SIZE,
    TRANSITIONS,
    UNITS,
    CellArrays,
    Counts,
    ModelCounts,
    Rule,
    Scratch,
    Training,
)
from driftsurf.native.model cimport complete_model, make_model, score
from driftsurf.native.rows cimport Rows
from driftsurf.native.step cimport learn


cdef extern from *:
    """
    /* The empty instruction keeps compilers from dropping functions that do nothing but prefetch. */
    #define DS_PREFETCH(address) do { __builtin_prefetch(address); __asm__ volatile(""); } while (0)
    """
    void DS_PREFETCH(const void* address) noexcept nogil


cdef extern from "math.h" nogil:
    double INFINITY
    double NAN
    double fabs(double x) noexcept


cdef extern from "ds_math.h" nogil:
    double ds_floor(double x) noexcept


cdef extern from "random.h" nogil:
    uint64_t ds_word(uint64_t seed, int64_t k) noexcept


cdef extern from "columns.h" nogil:
    double ds_limit_of(double total, double mass, double most) noexcept


cdef extern from "losses.h" nogil:
    double ds_pairwise_sum(const double* values, int64_t n) noexcept


cdef extern from "multi.h" nogil:
    enum:
        DS_SOFTMAX


cdef enum:
    MOST_LINES = 64         # lines of one request; more would evict the block in use from the first-level cache
    KEYS_AHEAD = 8          # groups between the prefetch of a key's counts and their use
    ROWS_AHEAD = 24         # rows of the call between the prefetch of one and its use
    NOT_FINITE = 1          # codes of the reasons for quarantine
    DIVERGED_KEY = 3
    FAILED = 1              # what happened to the rows of a key: it is in quarantine since a time step, or another error
    OUTGROWN = 2            # they stop at a time step with more classes than there is room for
    NOT_GROWN = 4           # the time step for which a key was moved here failed
    UNLABELLED = 255        # stands among these codes for a row without a label, which is only predicted
    STEPPED = 1             # when a prediction was made: after a time step, and after a first row
    STARTED = 2

cdef enum:
    # Parts of a piece of memory for rows.
    TABLE = 0
    NUMBER = 2
    WEIGHT = 3
    VALUES = 4
    CODE = 5

OUTCOME_SIZES = STEPS, ORDERED
"""Whole and real numbers that the log keeps of a step."""


cdef struct Key:
    # What is counted for a key; ``KEY`` of driftsurf.keyed.layout is the same as a numpy record.
    int64_t pending         # rows that wait until the next time step is full
    double errors           # of the rows of complete time steps: wrong classes, or absolute errors of numbers
    double waiting          # errors of the rows that wait
    int64_t refused         # rows not learned
    int64_t transitions
    int64_t last_step
    uint8_t quarantine      # code of the reason; 0 if the key is not in quarantine
    uint8_t last_kind       # 1 + the code of the last transition; 0 if there was none
    # If each key learns its own classes: how many are known, were known at the last time step, and will be known at the
    # end of the call, whether the second comes before the first by name, and which of all is the first by name.
    uint8_t known
    uint8_t learned
    uint8_t total
    uint8_t against
    uint16_t norms          # norms of rows that the guard remembers
    uint8_t lowest
    uint8_t unused[3]
    uint32_t newest         # rows that wait and have come last


cdef struct Layout:
    # Sizes that all keys share, and the offset of each part of a block in bytes.
    int64_t size, d, outputs, batch, judged_size
    int64_t classes         # classes for which there is room, if each key learns its own
    bint single, weighted, filled, guarded, growing, valued
    int64_t models, counts, keys, bounds, w, G, factor, gain, centre, raw, centred, judged, means, guard, range, names
    Pieces rows, norms


cdef struct Loop:
    # What a loop works on.
    Layout at
    Rule rule
    Training training
    double per_row          # gradient steps for each row
    int64_t per_batch       # gradient steps of a time step; -1 if they follow from ``per_row``
    double squared          # square of the factor of the guard
    bint quadratic          # whether the loss of a row grows with the square of its score
    double margin           # share of the range of numbers by which predictions may leave it
    double least_weight     # share of the weight of a batch that a guard has to leave

    char* memory            # the blocks
    int64_t slots
    char* stored            # the pieces for rows
    const int64_t* codes_of_rows
    char* norms             # the pieces for norms of rows, which a guard remembers
    const int64_t* codes_of_norms
    int64_t stored_bytes, norms_bytes

    const char* rows
    bint rows_single
    bint checked            # whether all values of rows that can be learned are known to be finite
    int64_t n_rows
    const void* codes
    const double* weight    # NULL if all rows have the weight 1
    const uint8_t* bad      # NULL if all rows can be learned
    void* predicted
    uint8_t* made           # when each prediction was made; may be NULL

    const int64_t* touched
    const int64_t* starts
    const int32_t* order
    int64_t groups
    uint8_t* failed
    int64_t* left           # rows behind a time step with more classes than there is room for
    int64_t* gaps           # may be NULL

    bint every              # whether all steps are logged, or those with transitions
    int64_t* whole
    double* real
    int64_t* log_group
    int64_t* log_place
    int64_t* log_length
    int64_t log_room        # steps for which the log has room
    bint too_small          # whether something did not fit into the log or the pieces

    Scratch* step
    double* y
    double* ones
    double* margins
    double* blank           # numbers by which models are judged, if keys keep none
    char* saved
    char* shown             # rows with limited values
    char* row
    double* after
    double* later
    double* norms_out
    double* values
    double* sizing
    double* sizes
    double range[2]


# ---------------------------------------------------------------------------- the parts of a block


cdef inline char* block_of(const Loop* t, int64_t k) noexcept nogil:
    return t.memory + k * t.at.size


cdef inline Key* key_of(const Loop* t, char* block) noexcept nogil:
    return <Key*>(block + t.at.keys)


cdef inline Counts* counts_of(const Loop* t, char* block) noexcept nogil:
    return <Counts*>(block + t.at.counts)


cdef inline int64_t item_of(const Loop* t) noexcept nogil:
    return 4 if t.at.single else 8


cdef struct Piece:
    # The rows of a key.
    int64_t places
    char* tables
    double* weight
    char* X
    char* y


cdef inline Piece piece_of(const Loop* t, int64_t k) noexcept nogil:
    """Return where the rows of the key in slot k are."""
    cdef const Pieces* rows = &t.at.rows
    cdef int64_t code = t.codes_of_rows[k], places = places_of(rows, code)
    cdef char* start = piece_at(t.stored, code)
    cdef Piece piece
    piece.places = places
    piece.tables = start
    piece.weight = <double*>(start + places * rows.offsets[WEIGHT])
    piece.X = start + places * rows.offsets[VALUES]
    piece.y = start + places * rows.offsets[NUMBER if t.at.valued else CODE]
    return piece


cdef inline char* row_of(const Loop* t, const Piece* piece, int64_t place) noexcept nogil:
    return piece.X + place * t.at.d * item_of(t)


cdef inline int64_t predicting(const Counts* counts) noexcept nogil:
    return counts.predictive ^ (counts.challenged != 0)


cdef void describe(const Loop* t, char* block, const Piece* piece, CellArrays* cell) noexcept nogil:
    """Describe the cell of a block and its rows; labels that are codes are those of the working memory."""
    cdef const Layout* at = &t.at
    cell.X.values = piece.X
    cell.X.indices = NULL
    cell.X.indptr = NULL
    cell.X.n = piece.places
    cell.X.d = at.d
    cell.X.is_single = at.single
    cell.y = <double*>piece.y if at.valued else t.y
    cell.weight = piece.weight if at.weighted else t.ones
    cell.tables = <double*>piece.tables
    cell.counts = <Counts*>(block + at.counts)
    cell.models = <ModelCounts*>(block + at.models)
    cell.bounds = <int64_t*>(block + at.bounds)
    cell.w = <double*>(block + at.w)
    cell.G = <double*>(block + at.G)
    cell.factor = <double*>(block + at.factor)
    cell.gain = <double*>(block + at.gain)
    cell.centre = <double*>(block + at.centre)
    cell.centred = <int64_t*>(block + at.centred)
    cell.raw = <double*>(block + at.raw)
    cell.judged = <double*>(block + at.judged) if at.judged_size else t.blank
    cell.sides = 2
    cell.outputs = at.outputs
    cell.ahead = NULL
    cell.ahead_size = 0


cdef inline void move_to_front(char* values, int64_t start, int64_t count) noexcept nogil:
    if start:
        memmove(values, values + start, count)


cdef void make_room(const Loop* t, char* block, const Piece* piece) noexcept nogil:
    """Move the rows of a key to the front if there is no room for another time step."""
    cdef const Layout* at = &t.at
    cdef Counts* counts = counts_of(t, block)
    cdef int64_t first = counts.first - counts.base, n = counts.next - counts.first, side, row, label
    cdef char* table
    if first + n + at.batch <= piece.places:
        return
    row, label = at.d * item_of(t), 8 if at.valued else 1
    move_to_front(piece.X, first * row, n * row)
    move_to_front(piece.y, first * label, n * label)
    for side in range(2):
        if side == counts.predictive or counts.rival != NO_RIVAL:  # otherwise it holds nothing yet
            table = piece.tables + side * piece.places * at.outputs * 8
            move_to_front(table, first * at.outputs * 8, n * at.outputs * 8)
    if at.weighted:
        move_to_front(<char*>piece.weight, first * 8, n * 8)
    counts.base = counts.first


# ---------------------------------------------------------------------------- into the cache


cdef inline void prefetch_bytes(const char* start, int64_t size) noexcept nogil:
    cdef int64_t place = 0, most = min(size, MOST_LINES * LINE)
    while place < most:
        DS_PREFETCH(start + place)
        place += LINE
    DS_PREFETCH(start + size - 1)


cdef void prefetch_groups(const Loop* t, int64_t g) noexcept nogil:
    """Prefetch what the groups after g need to be predicted and stored; their blocks are in no cache."""
    cdef const Layout* at = &t.at
    cdef char* block
    cdef Counts* counts
    cdef int64_t place, n, width
    cdef Piece piece
    if g + KEYS_AHEAD < t.groups:
        block = block_of(t, t.touched[g + KEYS_AHEAD])
        DS_PREFETCH(block + at.counts)  # the first half of the counts is enough to predict
        DS_PREFETCH(block + at.keys)
    if g + 2 < t.groups:
        block, piece = block_of(t, t.touched[g + 2]), piece_of(t, t.touched[g + 2])
        counts = counts_of(t, block)
        n = t.starts[g + 3] - t.starts[g + 2]
        place = counts.next - counts.base + key_of(t, block).pending
        width = 8 * (at.d + 1) * at.outputs
        prefetch_bytes(block + at.raw + predicting(counts) * width, width)
        prefetch_bytes(row_of(t, &piece, place), item_of(t) * at.d * min(n, piece.places - place))
        DS_PREFETCH(piece.y + place * (8 if at.valued else 1))
        if at.filled:
            prefetch_bytes(block + at.means, 16 * at.d)
        if at.guarded:
            prefetch_bytes(block + at.guard, 8 * DS_ROWS_OF_GUARD * at.d)


cdef int64_t next_step(const Loop* t, int64_t g) noexcept nogil:
    """Return the slot with the next time step among the few whose counts were prefetched; -1 for none."""
    cdef int64_t h
    for h in range(g + 1, min(g + KEYS_AHEAD, t.groups)):
        if key_of(t, block_of(t, t.touched[h])).pending + t.starts[h + 1] - t.starts[h] >= t.at.batch:
            return t.touched[h]
    return -1


cdef inline void prefetch_row(const Loop* t, int64_t i) noexcept nogil:
    """Prefetch a row of the call that is stored a little later."""
    cdef int64_t r, size
    if i + ROWS_AHEAD < t.starts[t.groups]:
        r, size = t.order[i + ROWS_AHEAD], t.at.d * (4 if t.rows_single else 8)
        DS_PREFETCH(t.rows + r * size)
        DS_PREFETCH(t.rows + (r + 1) * size - 1)
        DS_PREFETCH(<const char*>t.codes + r * (8 if t.at.valued else 1))


# ---------------------------------------------------------------------------- rows of the call


cdef bint all_finite(const char* row, int64_t d, bint single) noexcept nogil:
    cdef int64_t c
    cdef bint good = True
    if single:
        for c in range(d):
            good &= fabs((<const float*>row)[c]) < INFINITY
    else:
        for c in range(d):
            good &= fabs((<const double*>row)[c]) < INFINITY
    return good


cdef int64_t take_row(const Loop* t, int64_t r, double* means, bint counted, char* target) noexcept nogil:
    """Copy row r; fill its gaps with the means so far, and add it to them if it is counted.

    Returns the number of gaps; -1 if a value is not finite, or too large for the type in which rows are kept.
    """
    cdef int64_t d = t.at.d, c, gaps = 0
    cdef const float* singles = <const float*>t.rows + r * d
    cdef const double* doubles = <const double*>t.rows + r * d
    cdef double value
    if not t.at.filled:
        if t.rows_single and t.at.single:
            for c in range(d):
                (<float*>target)[c] = singles[c]
        elif t.at.single:
            for c in range(d):
                (<float*>target)[c] = <float>doubles[c]
        else:
            for c in range(d):
                (<double*>target)[c] = singles[c] if t.rows_single else doubles[c]
    else:
        for c in range(d):
            value = singles[c] if t.rows_single else doubles[c]
            if value != value:
                value = means[d + c] / (means[c] if means[c] > 1.0 else 1.0)
                value = value if fabs(value) < INFINITY else 0.0
                gaps += 1
            elif counted and fabs(value) < INFINITY:
                means[c] += 1.0
                means[d + c] += value
            if t.at.single:
                (<float*>target)[c] = <float>value
            else:
                (<double*>target)[c] = value
    if t.checked or all_finite(target, d, t.at.single):
        return gaps
    return -1


cdef inline void keep_label(const Loop* t, const Piece* piece, int64_t place, int64_t r) noexcept nogil:
    if t.at.valued:
        (<double*>piece.y)[place] = (<const double*>t.codes)[r]
    else:
        (<uint8_t*>piece.y)[place] = (<const uint8_t*>t.codes)[r]


cdef inline void put_prediction(const Loop* t, int64_t r, double value) noexcept nogil:
    if t.at.valued:
        (<double*>t.predicted)[r] = value
    else:
        (<uint8_t*>t.predicted)[r] = <uint8_t>value


# ---------------------------------------------------------------------------- predictions


cdef inline double bounded(double value, double low, double high) noexcept nogil:
    """Return a value within limits; NaN as it is."""
    return low if value < low else high if value > high else value


cdef void limit_rows(const Loop* t, char* block, const void* values, int64_t n) noexcept nogil:
    """Copy rows, with values limited to those that are usual for their key."""
    cdef const double* known = <const double*>(block + t.at.guard)
    cdef int64_t d = t.at.d, c, i
    cdef double most
    for c in range(d):
        most = ds_limit_of(known[DS_TOTAL * d + c], known[DS_MASS * d + c], DS_LIMIT)
        for i in range(n):
            if t.at.single:
                (<float*>t.shown)[i * d + c] = <float>bounded((<const float*>values)[i * d + c], -most, most)
            else:
                (<double*>t.shown)[i * d + c] = bounded((<const double*>values)[i * d + c], -most, most)


cdef void limit_numbers(const Loop* t, char* block, int64_t n) noexcept nogil:
    """Limit predicted numbers to the range of those learned, widened on both sides."""
    cdef const double* limits = <const double*>(block + t.at.range)
    cdef double margin
    cdef int64_t i
    if limits[1] < INFINITY:
        margin = t.margin * (limits[1] - limits[0])
        for i in range(n):
            t.margins[i] = bounded(t.margins[i], limits[0] - margin, limits[1] + margin)


cdef inline bint is_second(const Key* key, int64_t total, double margin) noexcept nogil:
    """Return whether the second of a key's classes is predicted, as ``ClassTargets`` does; ties go by name.

    A class without a time step so far is never predicted, and before the first step only the names are known.
    """
    if total < 2 or key.learned == 1:
        return False
    if key.against == 0:
        return margin > 0.0
    return (-margin if key.learned == 0 else margin) >= 0.0


cdef void predict_rows(const Loop* t, char* block, const Piece* piece, const void* values, int64_t n, int64_t total) noexcept nogil:
    """Write the code or number that is predicted for each row to ``margins``.

    ``total`` is the number of classes that the key knows, if it learns its own. Ties go to the first class by name.
    """
    cdef Counts* counts = counts_of(t, block)
    cdef Key* key = key_of(t, block)
    cdef const uint8_t* names = <const uint8_t*>block + t.at.names
    cdef int64_t K = t.at.outputs, i, j, code, best
    cdef double* out = t.margins
    cdef double margin
    cdef CellArrays cell
    cdef Rows rows
    if t.at.guarded:
        limit_rows(t, block, values, n)
        values = t.shown
    describe(t, block, piece, &cell)
    rows = cell.X
    rows.values = values
    rows.n = n
    score(&cell, predicting(counts), rows, out, &t.training)
    if t.at.growing and key.learned == 0 and total != 2:
        for i in range(n):
            out[i] = key.lowest if total > 2 else 0.0
    elif t.at.growing and t.at.classes > 2:
        for i in range(n):
            best = names[0]
            for j in range(1, K):
                best = names[j] if out[i * K + names[j]] > out[i * K + best] else best
            out[i] = best
    elif t.at.growing:
        for i in range(n):
            # Of two outputs, equal ones before the first step stand for no margin.
            margin = out[i] if K == 1 else 0.0 if key.learned == 0 else out[i * K + K - 1] - out[i * K]
            out[i] = is_second(key, total, margin)
    elif t.training.kind == DS_SOFTMAX:
        for i in range(n):
            best = 0
            if counts.step > 0:  # before that no class was learned, and the first one is predicted
                for code in range(1, K):
                    best = code if out[i * K + code] > out[i * K + best] else best
            out[i] = best
    elif not t.at.valued:
        for i in range(n):
            out[i] = out[i] > 0.0
    if t.at.guarded and t.at.valued:
        limit_numbers(t, block, n)


cdef double predict_single(const Loop* t, char* block, const Piece* piece, int64_t r) noexcept nogil:
    """Return what is predicted for a row that is not learned, and may have any values.

    It is the first class, or no number, if a value is not finite; and the first class, or 0, before any row was taken.
    """
    cdef Key* key = key_of(t, block)
    cdef int64_t known = key.known if t.at.growing else 0
    take_row(t, r, <double*>(block + t.at.means), False, t.row)
    if not all_finite(t.row, t.at.d, t.at.single):
        return NAN if t.at.valued else 0.0
    if known == 0 and counts_of(t, block).next + key.pending == 0:
        return 0.0
    predict_rows(t, block, piece, t.row, 1, known)
    return t.margins[0]


# ---------------------------------------------------------------------------- the range guard


cdef void extend_range(const double* y, const double* weight, int64_t n, const double* before, double* after) noexcept nogil:
    """Write the range of the numbers learned, extended by those of positive weight."""
    cdef double low = INFINITY, high = -INFINITY
    cdef bint bounded_before = before[1] < INFINITY
    cdef int64_t i
    for i in range(n):
        if weight[i] > 0.0:
            low = y[i] if y[i] < low else low
            high = y[i] if y[i] > high else high
    after[0], after[1] = before[0], before[1]
    if low <= high:
        after[0] = before[0] if bounded_before and before[0] < low else low
        after[1] = before[1] if bounded_before and before[1] > high else high


cdef int64_t admit_step(Loop* t, char* block, const Piece* piece, int64_t k) noexcept nogil:
    """Admit the rows that wait to the guard of their key, as ``RangeGuard.admit`` and ``Session`` do.

    Values beyond their limits are limited, and the weight of rows that are too large is reduced. Returns how many norms
    there are then. ``keep_guard`` keeps what this leaves in the working memory, once the time step has been taken.
    """
    cdef const Layout* at = &t.at
    cdef Counts* counts = counts_of(t, block)
    cdef int64_t a = counts.next - counts.base, n = at.batch, d = at.d, i, c, extremes = 0, kept = 0
    cdef double* weight = piece.weight + a
    cdef int weighted = 0
    cdef double norm, whole, most
    cdef Admission guard
    cdef Rows rows
    if at.valued:
        extend_range(<const double*>piece.y + a, weight, n, <const double*>(block + at.range), t.range)
    rows.values = row_of(t, piece, a)
    rows.indices = NULL
    rows.indptr = NULL
    rows.n, rows.d, rows.is_single = n, d, at.single
    guard.before = <const double*>(block + at.guard)
    guard.recent = <const double*>piece_at(t.norms, t.codes_of_norms[k])
    guard.n_recent = min(<int64_t>key_of(t, block).norms, places_of(&at.norms, t.codes_of_norms[k]))
    guard.squared = t.squared
    guard.clips = True
    guard.after, guard.later, guard.work = t.after, t.later, t.values
    if ds_admit(rows, &guard, NULL, t.norms_out, &extremes, &kept, &weighted) == DS_UNSIZED:
        ds_sizes_of_rows(rows, t.sizes, t.sizing)
        ds_admit(rows, &guard, t.sizes, t.norms_out, &extremes, &kept, &weighted)
    if extremes > 0:
        for c in range(d):
            most = DS_LIMIT / DS_CAP * t.after[DS_COLUMN_CAP * d + c]
            for i in range(n):
                if at.single:
                    (<float*>rows.values)[i * d + c] = <float>bounded((<float*>rows.values)[i * d + c], -most, most)
                else:
                    (<double*>rows.values)[i * d + c] = bounded((<double*>rows.values)[i * d + c], -most, most)
    if weighted:
        whole = ds_pairwise_sum(weight, n)
        for i in range(n):
            # A loss that grows with the square of a score needs the square of the weight to be bounded.
            norm = t.norms_out[i]
            weight[i] = weight[i] * (norm * norm if t.quadratic else norm)
        # A risk is a weighted mean, so a batch of extreme rows alone would count in full: drop its weight.
        if not ds_pairwise_sum(weight, n) >= t.least_weight * whole:
            for i in range(n):
                weight[i] = 0.0
    return kept


cdef void keep_guard(Loop* t, char* block, int64_t k, int64_t kept) noexcept nogil:
    """Keep the numbers of the guard after the rows of a time step."""
    memcpy(block + t.at.guard, t.after, 8 * DS_ROWS_OF_GUARD * t.at.d)
    if kept <= places_of(&t.at.norms, t.codes_of_norms[k]):
        memcpy(piece_at(t.norms, t.codes_of_norms[k]), t.later, 8 * kept)
        key_of(t, block).norms = <uint16_t>kept
    else:
        t.too_small = True
    if t.at.valued:
        memcpy(block + t.at.range, t.range, 16)


# ---------------------------------------------------------------------------- time steps


cdef inline int64_t n_steps(const Loop* t, int64_t row) noexcept nogil:
    """Return the gradient steps for the batch that starts with this row.

    Counting from row 0 carries fractions of a step over to the next batch.
    """
    if t.per_batch >= 0:
        return t.per_batch
    return <int64_t>ds_floor(t.per_row * (row + t.at.batch)) - <int64_t>ds_floor(t.per_row * row)


cdef void undo(Loop* t, char* block, const CellArrays* cell) noexcept nogil:
    """Put everything back as it was before a step."""
    cdef int64_t K = t.at.outputs, side, j, output, start
    cdef double* table
    memcpy(block, t.saved, t.at.means)
    for side in range(2):
        table = cell.tables + side * cell.X.n * K
        start = t.step.whole[STEPS + 2 * side + 1] - cell.counts.base
        for j in range(t.step.whole[STEPS + 2 * side]):
            for output in range(K):
                table[(start + t.step.orders[side * t.step.most_steps + j]) * K + output] = \
                    t.step.overwritten[(side * t.step.most_steps + j) * K + output]


cdef void note_step(Loop* t, Key* key, int64_t g, int64_t i, int64_t step) noexcept nogil:
    """Count the transitions of a step, and add the step to the log."""
    cdef const int64_t* whole = t.step.whole
    cdef int64_t count = whole[TRANSITIONS], n = t.log_length[0]
    if count:
        key.transitions += count
        key.last_kind = <uint8_t>(1 + whole[TRANSITION + (count - 1) * TRANSITION_SIZE])
        key.last_step = step
    if (count or t.every) and n >= t.log_room:
        t.too_small = True
    elif count or t.every:
        memcpy(t.whole + n * STEPS, whole, 8 * STEPS)
        memcpy(t.real + n * ORDERED, t.step.real, 8 * ORDERED)
        t.log_group[n] = g
        t.log_place[n] = i if t.every else step
        t.log_length[0] = n + 1


cdef bint take_step(Loop* t, char* block, const Piece* piece, int64_t k, int64_t g, int64_t i) noexcept nogil:
    """Take one time step of the key in slot k, or undo all of it; return whether it was taken."""
    cdef const Layout* at = &t.at
    cdef Key* key = key_of(t, block)
    cdef CellArrays cell
    cdef Counts* counts
    cdef int64_t step, kept = 0, j, following = next_step(t, g)
    cdef const uint8_t* labels = <const uint8_t*>piece.y
    describe(t, block, piece, &cell)
    counts = cell.counts
    step = counts.step
    if following >= 0:
        prefetch_bytes(block_of(t, following), at.means)
        cell.ahead = piece_at(t.stored, t.codes_of_rows[following])
        cell.ahead_size = at.rows.total * places_of(&at.rows, t.codes_of_rows[following])
    if not at.valued:
        for j in range(counts.first - counts.base, counts.next - counts.base + at.batch):
            t.y[j] = labels[j]
    memcpy(t.saved, block, at.means)
    t.step.whole[STEPS] = 0
    t.step.whole[STEPS + 2] = 0
    if at.guarded:
        kept = admit_step(t, block, piece, k)
    if learn(&cell, at.batch, n_steps(t, counts.next), False, &t.rule, &t.training, t.step) != LEARNED:
        undo(t, block, &cell)
        return False
    if at.guarded:
        keep_guard(t, block, k, kept)
    note_step(t, key, g, i, step)
    key.pending = 0
    key.errors += key.waiting
    key.waiting = 0.0
    make_room(t, block, piece)
    return True


cdef void refuse_step(const Loop* t, char* block, const Piece* piece, int64_t g, int64_t start, int64_t stop) noexcept nogil:
    """Quarantine a key whose time step failed; the rows of the step count as refused, no longer as predicted."""
    cdef Key* key = key_of(t, block)
    cdef Counts* counts = counts_of(t, block)
    cdef int64_t i
    if t.at.growing:  # classes that only these rows have are not known any more
        predict_rows(t, block, piece, row_of(t, piece, counts.next - counts.base + key.pending - (stop - start)), stop - start, key.known)
        for i in range(start, stop):
            put_prediction(t, t.order[i], t.margins[i - start])
    key.pending = 0
    key.waiting = 0.0
    key.refused += t.at.batch
    key.quarantine = DIVERGED_KEY
    t.failed[g] |= FAILED


cdef int64_t classes_of(const Loop* t, char* block, const Piece* piece) noexcept nogil:
    """Return how many classes the rows that wait need."""
    cdef Counts* counts = counts_of(t, block)
    cdef const uint8_t* labels = <const uint8_t*>piece.y + counts.next - counts.base
    cdef int64_t most = 0, j
    for j in range(key_of(t, block).pending):
        most = max(most, <int64_t>labels[j] + 1)
    return most


cdef bint resume(Loop* t, char* block, const Piece* piece, int64_t k, int64_t g) noexcept nogil:
    """Take the time step that is full already, for which a key was moved here; return whether it was taken.

    A key that was left as it was, because the time step failed elsewhere, refuses it.
    """
    cdef Key* key = key_of(t, block)
    cdef int64_t i = t.starts[g], known = classes_of(t, block, piece)
    if known > t.at.classes:
        refuse_step(t, block, piece, g, i, i + key.newest)
        return True
    if not take_step(t, block, piece, k, g, i - 1):
        t.failed[g] |= NOT_GROWN
        return False
    key.known = key.learned = <uint8_t>max(<int64_t>key.known, known)
    return True


# ---------------------------------------------------------------------------- loops


cdef int64_t count_good(const Loop* t, int64_t start, int64_t n) noexcept nogil:
    """Return how many of the next rows come before the first bad one."""
    cdef int64_t good = 0
    while good < n and t.bad[t.order[start + good]] == 0:
        good += 1
    return good


cdef int64_t store_rows(Loop* t, char* block, const Piece* piece, int64_t g, int64_t start, int64_t n, int64_t at) noexcept nogil:
    """Copy the next rows into a block; return how many come before one with a value that is not finite."""
    cdef double* means = <double*>(block + t.at.means)
    cdef double* weight = piece.weight
    cdef int64_t j, r, gaps
    for j in range(n):
        prefetch_row(t, start + j)
        r = t.order[start + j]
        gaps = take_row(t, r, means, True, row_of(t, piece, at + j))
        if gaps < 0:
            return j
        if t.gaps != NULL:
            t.gaps[g] += gaps
        keep_label(t, piece, at + j, r)
        if t.at.weighted:
            weight[at + j] = 1.0 if t.weight == NULL else t.weight[r]
    return n


cdef inline uint8_t time_of(const Key* key, const Counts* counts) noexcept nogil:
    """Return when a prediction is made that is made now."""
    return <uint8_t>((STEPPED if counts.step > 0 else 0) + (STARTED if counts.next + key.pending > 0 else 0))


cdef bint predict_unlabelled(Loop* t, char* block, const Piece* piece, int64_t g, int64_t r) noexcept nogil:
    """Predict a row that has no label; return whether all of its values are finite."""
    cdef Key* key = key_of(t, block)
    cdef Counts* counts = counts_of(t, block)
    cdef int64_t gaps = take_row(t, r, <double*>(block + t.at.means), True, t.row)
    cdef uint8_t made = time_of(key, counts)
    if gaps < 0:
        return False
    if t.gaps != NULL:
        t.gaps[g] += gaps
    if made:
        predict_rows(t, block, piece, t.row, 1, key.known)
    put_prediction(t, r, t.margins[0] if made else 0.0)
    if t.made != NULL:
        t.made[r] = made
    return True


cdef int64_t count_rows(const Loop* t, Key* key, int64_t start, int64_t n, uint8_t made) noexcept nogil:
    """Write the predictions of the next rows and count their errors; return how many classes the key knows with them.

    Errors are added one by one, so that rounding does not depend on calls.
    """
    cdef const int32_t* order = t.order + start
    cdef const double* predicted = t.margins
    cdef const double* numbers = <const double*>t.codes
    cdef const uint8_t* codes = <const uint8_t*>t.codes
    cdef double* values = <double*>t.predicted
    cdef uint8_t* classes = <uint8_t*>t.predicted
    cdef double waiting = key.waiting
    cdef int64_t known = key.known, j
    cdef uint8_t label
    if t.at.valued:
        for j in range(n):
            values[order[j]] = predicted[j]
            waiting += fabs(predicted[j] - numbers[order[j]])
    else:
        for j in range(n):
            label = <uint8_t>predicted[j]
            classes[order[j]] = label
            waiting += label != codes[order[j]]
        if t.at.growing:
            for j in range(n):
                known = max(known, <int64_t>codes[order[j]] + 1)
    if t.made != NULL:
        for j in range(n):
            t.made[order[j]] = made
    key.waiting = waiting
    return known


cdef void observe_rows(Loop* t) noexcept nogil:
    """Predict each row with the model of its key as it is when the row arrives, then learn it.

    A key with a bad row, or whose training diverges, is in quarantine from there on: its rows are predicted, counted,
    and not learned. If training diverges, this holds for all rows of that time step, also those of earlier calls.
    """
    cdef int64_t g, i, r, k, n, good, stop, at, known
    cdef char* block
    cdef Key* key
    cdef Counts* counts
    cdef Piece piece
    for g in range(t.groups):
        prefetch_groups(t, g)
        k = t.touched[g]
        block, piece = block_of(t, k), piece_of(t, k)
        key, counts = key_of(t, block), counts_of(t, block)
        i, stop = t.starts[g], t.starts[g + 1]
        if key.pending == t.at.batch:
            n = key.newest if classes_of(t, block, &piece) > t.at.classes else 0
            if i + n > stop:
                t.too_small = True
                continue
            if not resume(t, block, &piece, k, g):
                continue
            i += n
        while i < stop:
            r = t.order[i]
            if key.quarantine == 0 and t.bad != NULL and t.bad[r] > 0:
                if t.bad[r] < UNLABELLED:
                    key.quarantine = t.bad[r]
                elif predict_unlabelled(t, block, &piece, g, r):
                    i += 1
                    continue
                else:
                    key.quarantine = NOT_FINITE
            if key.quarantine > 0:
                put_prediction(t, r, predict_single(t, block, &piece, r))
                key.refused += 1
                if not t.checked:
                    t.failed[g] |= FAILED
                i += 1
                continue
            at = counts.next - counts.base + key.pending
            n = min(stop - i, t.at.batch - key.pending)
            if at + n > piece.places:
                t.too_small = True
                break
            if t.bad != NULL:
                n = count_good(t, i, n)
            good = store_rows(t, block, &piece, g, i, n, at)
            if good < n:
                key.quarantine = NOT_FINITE  # for the row after the good ones
                n = good
                if n == 0:
                    continue
            predict_rows(t, block, &piece, row_of(t, &piece, at), n, key.total if t.at.growing else 0)
            known = count_rows(t, key, i, n, time_of(key, counts))
            key.pending += n
            i += n
            if key.pending < t.at.batch:
                key.known = <uint8_t>known
            elif t.at.growing and known > t.at.classes:
                key.newest = <uint32_t>n
                t.failed[g] |= OUTGROWN
                t.left[g] = stop - i
                break
            elif take_step(t, block, &piece, k, g, i - 1):
                key.known = <uint8_t>known
                key.learned = <uint8_t>known
            else:
                refuse_step(t, block, &piece, g, i - n, i)


cdef void complete_keys(Loop* t, int64_t stop) noexcept nogil:
    """Work out what follows from saved numbers, in the slots before ``stop``: seeds, gains, raw weights, errors."""
    cdef int64_t k, side, c, j, a, count, width = t.at.d + 1
    cdef char* block
    cdef Key* key
    cdef Counts* counts
    cdef ModelCounts* model
    cdef CellArrays cell
    cdef Piece piece
    for k in range(stop):
        block, piece = block_of(t, k), piece_of(t, k)
        describe(t, block, &piece, &cell)
        key, counts = key_of(t, block), cell.counts
        for side in range(2):
            count = 0
            for c in range(side * width, (side + 1) * width):
                cell.gain[c] = cell.factor[c] * cell.factor[c]
                if cell.centre[c] != 0.0:
                    cell.centred[side * width + count] = c - side * width
                    count += 1
            model = cell.models + side
            model.centred = count
            model.seed = ds_word(ds_word(counts.seed, model.id), 0)
            complete_model(&cell, side, &t.training, t.step)
        if not t.at.growing:  # otherwise it depends on the classes that were known, and is saved
            a = counts.next - counts.base
            predict_rows(t, block, &piece, row_of(t, &piece, a), key.pending, 0)
            key.waiting = 0.0
            for j in range(key.pending):
                if t.at.valued:
                    key.waiting += fabs(t.margins[j] - (<double*>piece.y)[a + j])
                else:
                    key.waiting += t.margins[j] != (<uint8_t*>piece.y)[a + j]
        if not t.at.valued:  # saved as one count
            key.errors -= key.waiting


# ---------------------------------------------------------------------------- from Python


cdef class Room:
    """Working memory of one thread for a ``KeyLoop``."""

    cdef KeyLoop loop
    cdef Workspace step
    cdef char* memory
    cdef Loop pointers

    def __cinit__(self, KeyLoop loop not None):
        cdef const Layout* at = &loop.loop.at
        cdef Loop* t = &self.pointers
        cdef int64_t batch = at.batch, d = at.d, places = at.rows.most, most_steps
        cdef size_t place = 0
        cdef size_t sizes[13]
        cdef char* parts[13]
        cdef int number
        self.memory, self.loop = NULL, loop
        most_steps = loop.loop.per_batch
        if most_steps < 0:
            most_steps = <int64_t>ds_floor(loop.loop.per_row * batch) + 2
        self.step = Workspace()
        self.step.reserve(d, at.outputs, 2, batch, places, most_steps)
        sizes[0] = sizes[1] = 8 * places
        sizes[2] = 8 * batch * at.outputs
        sizes[3] = 8 * UNITS
        sizes[4] = at.means
        sizes[5] = 8 * d * batch if at.guarded else 0
        sizes[6] = 8 * d
        sizes[7] = 8 * DS_ROWS_OF_GUARD * d
        sizes[8] = 8 * DS_GUARD_MEMORY
        sizes[9] = 8 * batch
        sizes[10] = 8 * (DS_GUARD_MEMORY + batch)
        sizes[11] = 8 * (7 * d + 1 + 2 * batch)
        sizes[12] = 8 * d
        for number in range(13):
            place += sizes[number] + (-sizes[number]) % 8
        self.memory = <char*>malloc(place)
        if self.memory == NULL:
            raise MemoryError("no memory for the rows of keys")
        place = 0
        for number in range(13):
            parts[number] = self.memory + place
            place += sizes[number] + (-sizes[number]) % 8
        t.y, t.ones, t.margins, t.blank = <double*>parts[0], <double*>parts[1], <double*>parts[2], <double*>parts[3]
        t.saved, t.shown, t.row = parts[4], parts[5], parts[6]
        t.after, t.later, t.norms_out = <double*>parts[7], <double*>parts[8], <double*>parts[9]
        t.values, t.sizing, t.sizes = <double*>parts[10], <double*>parts[11], <double*>parts[12]
        for number in range(places):
            t.ones[number] = 1.0
        memset(t.blank, 0, 8 * UNITS)

    def __dealloc__(self):
        free(self.memory)

    cdef int lend(self, KeyLoop loop, Loop* t) except -1:
        cdef const Loop* own = &self.pointers
        if self.loop is not loop:
            raise ValueError("this working memory belongs to another loop")
        t.step = &self.step.scratch
        t.y, t.ones, t.margins, t.blank = own.y, own.ones, own.margins, own.blank
        t.saved, t.shown, t.row = own.saved, own.shown, own.row
        t.after, t.later, t.norms_out = own.after, own.later, own.norms_out
        t.values, t.sizing, t.sizes = own.values, own.sizing, own.sizes
        return 0


cdef class KeyLoop:
    """The loops over the blocks of keys that share a layout, a rule and a learner.

    Parameters
    ----------
    layout
        Sizes, flags, offsets and pieces by name, as in ``Layout`` above.
    rule, training
        Parameters of DriftSurf and of the learner, as the step of a cell takes them.
    per_row, per_batch
        Gradient steps for each row, or for a time step if that is not negative.
    guard
        The squared factor of the range guard, whether the loss is quadratic, the margin of predicted numbers, and the
        least share of weight.
    """

    cdef Loop loop

    def __cinit__(self, dict layout, rule, training, double per_row, int64_t per_batch, guard):
        cdef Loop* t = &self.loop
        cdef Layout* at = &t.at
        cdef double width
        memset(t, 0, sizeof(Loop))
        t.rule = rule_from(rule)
        t.training = training_from(training)
        t.per_row, t.per_batch = per_row, per_batch
        t.squared, t.quadratic, t.margin, t.least_weight = guard
        at.size, at.d = layout["size"], layout["n_features"]
        read_pieces(layout["rows"], &at.rows)
        read_pieces(layout["norms"], &at.norms)
        at.outputs, at.batch, at.judged_size = layout["outputs"], layout["batch_size"], layout["judged_size"]
        at.classes = layout["classes"]
        at.single, at.weighted, at.filled = layout["single"], layout["weighted"], layout["filled"]
        at.guarded, at.growing, at.valued = layout["guarded"], layout["growing"], layout["valued"]
        if not 1 <= at.size <= MOST_BYTES or at.d < 0 or at.outputs < 1 or not 1 <= at.batch <= at.rows.most or at.judged_size < 0:
            raise ValueError("there are no keys of these sizes")
        if not 0.0 <= per_row * at.batch < MOST_BYTES or not per_batch < MOST_BYTES:
            raise ValueError("a time step cannot have so many gradient steps")
        width = 8.0 * (at.d + 1.0)
        at.models, at.counts = self.part(layout, "models", 2 * sizeof(ModelCounts)), self.part(layout, "counts", sizeof(Counts))
        at.keys, at.bounds = self.part(layout, "keys", sizeof(Key)), self.part(layout, "bounds", 8.0 * (t.rule.reactive_length + 1.0))
        at.w, at.G = self.part(layout, "w", 2 * width * at.outputs), self.part(layout, "G", 2 * width * at.outputs)
        at.factor, at.gain = self.part(layout, "factor", 2 * width), self.part(layout, "gain", 2 * width)
        at.centre, at.raw = self.part(layout, "centre", 2 * width), self.part(layout, "raw", 2 * width * at.outputs)
        at.centred, at.judged = self.part(layout, "centred", 2 * width), self.part(layout, "judged", 8.0 * at.judged_size)
        at.means = self.part(layout, "means", 16.0 * at.d if at.filled else 0)
        at.guard = self.part(layout, "guard", 8.0 * DS_ROWS_OF_GUARD * at.d if at.guarded else 0)
        at.range = self.part(layout, "range", 16 if at.guarded and at.valued else 0)
        at.names = self.part(layout, "names", at.outputs if at.growing and at.classes > 2 else 0)
        if at.growing and not (2 <= at.classes <= 255 and (at.classes == 2 or at.classes == at.outputs)):
            raise ValueError("there are no keys with so many classes")
        for part, size in (
            (TABLE, 8 * at.outputs), (TABLE + 1, 8 * at.outputs), (NUMBER, 8 * at.valued), (WEIGHT, 8 * at.weighted),
            (VALUES, at.d * (4 if at.single else 8)), (CODE, not at.valued)
        ):
            if at.rows.sizes[part] != size:
                raise ValueError("the rows of a key do not have the parts of these sizes")
        if at.norms.sizes[0] != 8 or at.norms.most > DS_GUARD_MEMORY:
            raise ValueError("there are no norms of this size")

    cdef int64_t part(self, dict layout, str name, double size) except -1:
        """Return where a part of this size begins in a block; ValueError if it does not fit."""
        cdef int64_t begin = layout[name]
        if begin < 0 or begin + size > self.loop.at.size:
            raise ValueError(f"{name} has no room in the block of a key")
        return begin

    cdef int lend(self, Buffers* held, object memory, Loop* t) except -1:
        """Set the memory of the keys: blocks, pieces for rows and their codes, pieces for norms and their codes."""
        cdef Py_buffer* view
        cdef Py_ssize_t n = 0
        blocks, rows, row_codes, norms, norm_codes = memory
        t[0] = self.loop
        view = hold(held, blocks, "B", 1, 1, True)
        t.memory, t.slots = <char*>view.buf, view.len // t.at.size
        view = hold(held, rows, "B", 1, 1, True)
        t.stored, t.stored_bytes = <char*>view.buf, view.len
        t.codes_of_rows = integers(held, row_codes, &n)
        if n < t.slots:
            raise ValueError("there is no piece of memory for the rows of each key")
        view = hold(held, norms, "B", 1, 1, True)
        t.norms, t.norms_bytes = <char*>view.buf, view.len
        t.codes_of_norms = integers(held, norm_codes, &n)
        if t.at.guarded and n < t.slots:
            raise ValueError("there is no piece of memory for the norms of each key")
        return 0

    cdef int check_slot(self, const Loop* t, int64_t slot) except -1:
        """Raise IndexError unless a slot exists, and its pieces lie in memory."""
        if not 0 <= slot < t.slots:
            raise IndexError("there is no such slot")
        if not is_inside(&t.at.rows, t.codes_of_rows[slot], t.stored_bytes):
            raise IndexError("there is no such memory for rows")
        if t.at.guarded and not is_inside(&t.at.norms, t.codes_of_norms[slot], t.norms_bytes):
            raise IndexError("there is no such memory for norms")
        return 0

    cdef int lend_rows(self, Buffers* held, object rows, object codes, object weight, object bad, object predicted,
                       bint checked, Loop* t) except -1:
        """Set the rows of a call."""
        cdef Py_buffer* view
        cdef Py_ssize_t n = 0
        cdef bint valued = t.at.valued
        view = hold(held, rows, "df", rows.itemsize, 2, False)
        t.rows, t.rows_single, t.n_rows, t.checked = <const char*>view.buf, view.itemsize == 4, view.shape[0], checked
        if view.shape[1] != t.at.d:
            raise ValueError(f"rows have {view.shape[1]} columns, and keys {t.at.d}")
        if codes is not None:
            view = hold(held, codes, "d" if valued else "B?", 8 if valued else 1, 1, False)
            t.codes = view.buf
            if view.shape[0] != t.n_rows:
                raise ValueError("there is no label for each row")
        if weight is not None:
            t.weight = reals(held, weight, &n)
            if n != t.n_rows:
                raise ValueError("there is no weight for each row")
        if bad is not None:
            view = hold(held, bad, "B", 1, 1, False)
            t.bad = <const uint8_t*>view.buf
            if view.shape[0] != t.n_rows:
                raise ValueError("there is no code of a reason for each row")
        view = hold(held, predicted, "d" if valued else "B", 8 if valued else 1, 1, True)
        t.predicted = view.buf
        if view.shape[0] != t.n_rows:
            raise ValueError("there is no room for each prediction")
        return 0

    def observe(self, memory, batch, groups, log, Room room not None):
        """Predict each row with the model of its key as it is when the row arrives, then learn it.

        The last thing that it does is to mark the log as complete; with a complete log it does nothing.

        Parameters
        ----------
        memory
            The blocks, the pieces for rows and their codes, and those for norms.
        batch
            Rows, codes of labels or numbers, weights or None, codes of reasons why a row is bad (255 for one without a
            label) or None, and whether all values are known to be finite; then the arrays for the predictions, and for
            when each was made: 1 after a time step, plus 2 after a first row (or None).
        groups
            The slots, where the rows of each start in the order, and where the last ones end, the order, and arrays for
            whether the time step of a key failed (1), or has more classes than there is room for (2; 4 if it failed
            where there is room), for how many rows come behind such a step, and for the number of gaps (or None).
        log
            Whether all steps are noted; then the arrays for whole and real numbers of steps, for the number of the
            group, for the place of the last row in the order (or, of steps with transitions only, the number of the
            step), and for how many steps there are and whether the loop is complete.
        room
            Working memory.
        """
        cdef Buffers held
        cdef Loop t
        cdef Py_buffer* view
        cdef Py_ssize_t n_starts = 0, n_order, n_groups = 0, n_gaps = 0, n_left = 0
        cdef Py_ssize_t n_whole = 0, n_real = 0, n_noted = 0, n_places = 0, n_lengths = 0
        cdef int64_t i
        held.count = 0
        rows, codes, weight, bad, checked, predicted, made = batch
        slots, starts, order, failed, left, gaps = groups
        every, whole, real, group, place, length = log
        try:
            self.lend(&held, memory, &t)
            self.lend_rows(&held, rows, codes, weight, bad, predicted, checked, &t)
            if made is not None:
                view = hold(&held, made, "B", 1, 1, True)
                t.made = <uint8_t*>view.buf
                if view.shape[0] != t.n_rows:
                    raise ValueError("there is no place for each row that says when its prediction was made")
            t.touched = integers(&held, slots, &n_groups)
            t.starts = integers(&held, starts, &n_starts)
            view = hold(&held, order, "i", 4, 1, False)
            t.order, n_order = <const int32_t*>view.buf, view.shape[0]
            view = hold(&held, failed, "B", 1, 1, True)
            t.failed = <uint8_t*>view.buf
            t.groups = n_groups
            if n_starts != n_groups + 1 or view.shape[0] != n_groups or t.starts[n_groups] > n_order or t.starts[0] < 0:
                raise ValueError("groups of rows do not fit together")
            t.left = integer_out(&held, left, &n_left)
            if n_left != n_groups:
                raise ValueError("there is no number of rows that are left for each group")
            if gaps is not None:
                t.gaps = integer_out(&held, gaps, &n_gaps)
                if n_gaps != n_groups:
                    raise ValueError("there is no count of gaps for each group")
            t.every = every
            t.whole, t.real = integer_out(&held, whole, &n_whole, 2), real_out(&held, real, &n_real, 2)
            t.log_group, t.log_place = integer_out(&held, group, &n_noted), integer_out(&held, place, &n_places)
            t.log_length = integer_out(&held, length, &n_lengths)
            t.log_room = min(n_whole // STEPS, n_real // ORDERED, n_noted, n_places)
            if n_lengths < 2 or not 0 <= t.log_length[0] <= t.log_room:
                raise ValueError("the arrays of a log do not fit together")
            for i in range(n_groups):
                self.check_slot(&t, t.touched[i])
                if t.starts[i] > t.starts[i + 1]:
                    raise IndexError("groups of rows do not follow each other")
            for i in range(t.starts[0], t.starts[n_groups]):
                if not 0 <= t.order[i] < t.n_rows:
                    raise IndexError("there is no such row")
            room.lend(self, &t)
            with nogil:
                if t.log_length[1] == 0:
                    observe_rows(&t)
                    t.log_length[1] = 1
            if t.too_small:
                raise ValueError("the log or the memory of keys has no room for the steps of these rows")
        finally:
            release(&held)

    def predict(self, memory, rows, slots, predicted, Room room not None):
        """Predict each row by the model in its slot; nothing is learned."""
        cdef Buffers held
        cdef Loop t
        cdef Py_buffer* view
        cdef const int32_t* slot
        cdef int64_t i
        cdef Piece piece
        held.count = 0
        try:
            self.lend(&held, memory, &t)
            self.lend_rows(&held, rows, None, None, None, predicted, True, &t)
            view = hold(&held, slots, "i", 4, 1, False)
            slot = <const int32_t*>view.buf
            if view.shape[0] != t.n_rows:
                raise ValueError("there is no slot for each row")
            for i in range(t.n_rows):
                self.check_slot(&t, slot[i])
            room.lend(self, &t)
            with nogil:
                for i in range(t.n_rows):
                    piece = piece_of(&t, slot[i])
                    put_prediction(&t, i, predict_single(&t, block_of(&t, slot[i]), &piece, i))
        finally:
            release(&held)

    def begin(self, blocks, slots, seeds, judged, Room room not None):
        """Make the first models of new keys, which have no rows.

        ``judged`` are the numbers by which models are judged before a step.
        """
        cdef Buffers held
        cdef Loop t
        cdef Py_buffer* view
        cdef Py_ssize_t n = 0, size = 0
        cdef const int64_t* slot
        cdef const uint64_t* seed
        cdef const double* blank
        cdef CellArrays cell
        cdef Piece nothing
        cdef char* block
        cdef double* limits
        cdef int64_t i
        memset(&nothing, 0, sizeof(Piece))
        held.count = 0
        try:
            view = hold(&held, blocks, "B", 1, 1, True)
            t = self.loop
            t.memory, t.slots = <char*>view.buf, view.len // t.at.size
            slot = integers(&held, slots, &n)
            view = hold(&held, seeds, "LQ", 8, 1, False)
            seed = <const uint64_t*>view.buf
            blank = reals(&held, judged, &size)
            if view.shape[0] != n or size < t.at.judged_size:
                raise ValueError("there is no seed for each key")
            for i in range(n):
                if not 0 <= slot[i] < t.slots:
                    raise IndexError("there is no such slot")
            room.lend(self, &t)
            with nogil:
                for i in range(n):
                    block = block_of(&t, slot[i])
                    memset(block, 0, t.at.size)
                    if t.at.guarded and t.at.valued:
                        limits = <double*>(block + t.at.range)
                        limits[0], limits[1] = -INFINITY, INFINITY
                    describe(&t, block, &nothing, &cell)
                    memcpy(block + t.at.judged, blank, 8 * t.at.judged_size)
                    cell.counts.seed = seed[i]
                    make_model(&cell, 0, 0, 0, &t.training)
        finally:
            release(&held)

    def complete(self, memory, int64_t stop, Room room not None):
        """Work out what follows from saved numbers, in the slots before ``stop``."""
        cdef Buffers held
        cdef Loop t
        cdef int64_t k
        held.count = 0
        try:
            self.lend(&held, memory, &t)
            if stop < 0:
                raise IndexError("there is no such slot")
            for k in range(stop):
                self.check_slot(&t, k)
            room.lend(self, &t)
            with nogil:
                complete_keys(&t, stop)
        finally:
            release(&held)

    def needed(self, blocks, slots, starts, rows, norms, steps):
        """Write how many places and norms each key needs with the rows of a call, and how many time steps it takes."""
        cdef Buffers held
        cdef Py_buffer* view
        cdef Py_ssize_t n = 0, n_starts = 0, n_rows = 0, n_norms = 0, n_steps = 0
        cdef Loop t
        cdef char* block
        cdef int64_t i, waiting
        held.count = 0
        t = self.loop
        try:
            view = hold(&held, blocks, "B", 1, 1, False)
            t.memory, t.slots = <char*>view.buf, view.len // t.at.size
            slot, start = integers(&held, slots, &n), integers(&held, starts, &n_starts)
            places, learned = integer_out(&held, rows, &n_rows), integer_out(&held, norms, &n_norms)
            taken = integer_out(&held, steps, &n_steps)
            if n_starts != n + 1 or n_rows != n or n_norms != n or n_steps != n:
                raise ValueError("there is no room for the counts of each key")
            for i in range(n):
                if not 0 <= slot[i] < t.slots:
                    raise IndexError("there is no such slot")
            with nogil:
                for i in range(n):
                    if i + 2 * KEYS_AHEAD < n:
                        block = block_of(&t, slot[i + 2 * KEYS_AHEAD])
                        DS_PREFETCH(block + t.at.counts)
                        DS_PREFETCH(block + t.at.keys)
                    block = block_of(&t, slot[i])
                    waiting = key_of(&t, block).pending + start[i + 1] - start[i]
                    places[i] = counts_of(&t, block).next - counts_of(&t, block).base + waiting
                    taken[i] = waiting // t.at.batch
                    learned[i] = key_of(&t, block).norms + taken[i] * t.at.batch
        finally:
            release(&held)
