"""Generators of synthetic streams, which reproduce the rows of MOA and of published Python code bit for bit."""

from driftsurf.native.buffers cimport Buffers, hold, integer_out, integers, real_out, reals, release
from driftsurf.native.gil cimport let_go, take_back
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef extern from "ds_math.h" nogil:
    double ds_exp(double x) noexcept
    double ds_sin(double x) noexcept


cdef uint64_t JAVA_MULTIPLIER = 0x5DEECE66D
cdef uint64_t JAVA_MASK = 0xFFFFFFFFFFFF
cdef double PI = 3.141592653589793


def java_state(seed):
    """Return the state of java.util.Random after ``new Random(seed)``: 48 bits in an int64."""
    return (seed ^ 0x5DEECE66D) & 0xFFFFFFFFFFFF


cdef inline int64_t java_bits(int64_t* state, int bits) noexcept nogil:
    """Advance a generator and return Java's next(bits)."""
    cdef uint64_t after = (<uint64_t>state[0] * JAVA_MULTIPLIER + 0xB) & JAVA_MASK
    state[0] = <int64_t>after
    return <int64_t>(after >> (48 - bits))


cdef inline double java_double(int64_t* state) noexcept nogil:
    """Return Java's nextDouble(): uniform in [0, 1) with 53 bits."""
    cdef int64_t high = java_bits(state, 26)
    return <double>((high << 27) + java_bits(state, 27)) * 1.1102230246251565e-16


cdef inline int64_t java_percent(int64_t* state) noexcept nogil:
    """Return 1 + Java's nextInt(100): uniform in 1 .. 100.

    2**31 is no multiple of 100, so the last 48 words, which would favour 1 to 48, are drawn again.
    """
    cdef int64_t bits, value
    while True:
        bits = java_bits(state, 31)
        value = bits % 100
        if bits - value + 99 < (<int64_t>1 << 31):
            return 1 + value


cdef int same(str name, Py_ssize_t found, Py_ssize_t expected) except -1:
    """Raise ValueError if an array has another length than the others."""
    if found != expected:
        raise ValueError(f"{name} has {found} elements; expected {expected}")
    return 0


def java_doubles(out, state):
    """Fill ``out`` with Java's nextDouble(); ``state`` holds one generator."""
    cdef Py_ssize_t n = 0, generators = 0, i
    cdef Buffers held
    held.count = 0
    try:
        values = real_out(&held, out, &n)
        generator = integer_out(&held, state, &generators)
        same("state", generators, 1)
        for i in range(n):
            values[i] = java_double(generator)
    finally:
        release(&held)


cdef struct Chain:
    # A chain of concepts: what each draws from, the class it wants next, and the joints between them.
    int64_t* generators
    int64_t* wanted
    int64_t* joints
    int64_t* asked
    const double* theta
    Py_ssize_t n_joints
    double p
    double w
    int64_t noise


def sea(X, y, tuple state, theta, double p, double w, int64_t noise):
    """Fill X and y with the next rows of a chain of SEA concepts, as MOA's ConceptDriftStream joins them.

    Joint j stands between concept j and all later concepts. Each row walks the chain from the front: the t-th row that
    reaches joint j (t from 1) moves on with probability 1 / (1 + exp(-4 (t - p) / w)), and comes from concept j
    otherwise. A joint counts only the rows that reach it, so that equal p give concepts of equal length.

    A concept draws rows until one is of the wanted class, 1 and 0 in turn; then one draw of a percentage decides
    whether the label is noise. ``state`` holds the generator and the wanted class of each concept, and the generator
    and the rows so far of each joint.
    """
    cdef Py_ssize_t n = 0, size = 0, generators = 0, wanted = 0, joints = 0, concepts = 0
    cdef Chain chain
    cdef Buffers held
    held.count = 0
    try:
        rows = real_out(&held, X, &size, 2)
        labels = integer_out(&held, y, &n)
        chain.generators = integer_out(&held, state[0], &generators)
        chain.wanted = integer_out(&held, state[1], &wanted)
        chain.joints = integer_out(&held, state[2], &joints)
        chain.asked = integer_out(&held, state[3], &chain.n_joints)
        chain.theta = reals(&held, theta, &concepts)
        same("X", size, 3 * n)
        same("generators", generators, concepts)
        same("wanted", wanted, concepts)
        same("joints", joints, concepts - 1)
        same("asked", chain.n_joints, concepts - 1)
        chain.p, chain.w, chain.noise = p, w, noise
        saved = let_go(size)
        sea_rows(rows, labels, n, &chain)
        take_back(saved)
    finally:
        release(&held)


cdef void sea_rows(double* X, int64_t* y, Py_ssize_t n, Chain* chain) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef int a
    cdef int64_t group
    cdef double exponent
    for i in range(n):
        c = 0
        while c < chain.n_joints:
            chain.asked[c] += 1
            # MOA's exponent overflows to infinity; beyond 700 the sigmoid is 0 or 1 anyway.
            exponent = -4.0 * (chain.asked[c] - chain.p) / chain.w
            exponent = -700.0 if exponent < -700.0 else 700.0 if exponent > 700.0 else exponent
            if java_double(&chain.joints[c]) > 1.0 / (1.0 + ds_exp(exponent)):
                break
            c += 1
        while True:
            for a in range(3):
                X[a] = 10.0 * java_double(&chain.generators[c])
            group = 0 if X[0] + X[1] <= chain.theta[c] else 1
            if group == chain.wanted[c]:
                break
        chain.wanted[c] = 1 - chain.wanted[c]
        if java_percent(&chain.generators[c]) <= chain.noise:
            group = 1 - group
        y[i] = 1 - 2 * group
        X += 3


def hyperplane(X, y, state, w, signs, double magnitude, int64_t noise, int64_t reversal):
    """Fill X and y with the next rows of MOA's rotating hyperplane.

    A row is of class 1 if sum(x w) >= 0.5 sum(w). After each row every weight moves by ``magnitude`` in the direction
    of its sign, which is reversed with a probability of ``reversal`` percent.
    """
    cdef Py_ssize_t n = 0, size = 0, d = 0, directions = 0, generators = 0
    cdef Buffers held
    held.count = 0
    try:
        rows = real_out(&held, X, &size, 2)
        labels = integer_out(&held, y, &n)
        generator = integer_out(&held, state, &generators)
        weights = real_out(&held, w, &d)
        ways = real_out(&held, signs, &directions)
        same("X", size, n * d)
        same("state", generators, 1)
        same("signs", directions, d)
        saved = let_go(size)
        hyperplane_rows(rows, labels, n, d, generator, weights, ways, magnitude, noise, reversal)
        take_back(saved)
    finally:
        release(&held)


cdef void hyperplane_rows(
    double* X, int64_t* y, Py_ssize_t n, Py_ssize_t d, int64_t* generator, double* w, double* signs, double magnitude,
    int64_t noise, int64_t reversal,
) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef double total, half
    cdef int64_t group
    for i in range(n):
        total = 0.0
        half = 0.0
        for c in range(d):
            X[c] = java_double(generator)
            total += X[c] * w[c]
            half += w[c]
        group = 1 if total >= 0.5 * half else 0
        if java_percent(generator) <= noise:
            group = 1 - group
        for c in range(d):
            w[c] += signs[c] * magnitude
            if java_percent(generator) <= reversal:
                signs[c] = -signs[c]
        y[i] = 1 - 2 * group
        X += d


cdef enum:
    SINE1_KIND = 0
    MIXED_KIND = 1
    CIRCLES_KIND = 2
    WORDS_A_POINT = 64  # random words that a point hardly ever needs; drawing one takes a few
    WORDS_AFTER_COIN = 9  # largest number of words that a point of Mixed needs from its first coin on, if none is refused


cdef struct Plan:
    # For each row the old and the new concept, and the probability of the new one; negative: the old one, no draw.
    const int64_t* old
    const int64_t* new
    const double* share
    Py_ssize_t n_rows
    int kind


def balanced(X, positive, tuple plan, words, Py_ssize_t start, int kind):
    """Fill X with rows of SINE1, Mixed or Circles from ``start`` on, as far as the random words suffice.

    ``plan`` holds for each row the old and the new concept, and the probability of the new one; a negative probability
    means the old one, without a draw. A fair coin chooses the class, and points are drawn until one belongs to it.
    Returns the number of rows made and of words used; a row that runs out of words is left for the next call.
    """
    cdef Py_ssize_t size = 0, available = 0, used = 0, made, olds = 0, news = 0, shares = 0
    cdef Py_ssize_t d = 4 if kind == MIXED_KIND else 2
    cdef Plan p
    cdef Buffers held
    held.count = 0
    try:
        rows = real_out(&held, X, &size, 2)
        flags = hold(&held, positive, "?", 1, 1, True)
        p.old = integers(&held, plan[0], &olds)
        p.new = integers(&held, plan[1], &news)
        p.share = reals(&held, plan[2], &shares)
        drawn = integers(&held, words, &available)
        p.n_rows, p.kind = flags.len, kind
        same("X", size, d * p.n_rows)
        same("old", olds, p.n_rows)
        same("new", news, p.n_rows)
        same("share", shares, p.n_rows)
        if not 0 <= start <= p.n_rows:
            raise ValueError(f"start is {start}, there are {p.n_rows} rows")
        saved = let_go(size)
        made = balanced_rows(rows, <uint8_t*>flags.buf, d, &p, drawn, available, start, &used)
        take_back(saved)
    finally:
        release(&held)
    return made, used


cdef inline double unit(const int64_t* words) noexcept nogil:
    """Return Python's random(): a double in [0, 1) from two words of the Mersenne Twister."""
    return ((words[0] >> 5) * 67108864.0 + (words[1] >> 6)) * 1.1102230246251565e-16


cdef inline Py_ssize_t after_refused(const int64_t* words, Py_ssize_t p, Py_ssize_t available) noexcept nogil:
    """Return the place of the word that Python's randint(0, 1) uses: it draws again while the top bits are 2 or 3.

    -1 if too few words are left after it.
    """
    while p + WORDS_AFTER_COIN <= available:
        if words[p] >> 30 <= 1:
            return p
        p += 1
    return -1


cdef Py_ssize_t balanced_rows(
    double* X, uint8_t* positive, Py_ssize_t d, const Plan* plan, const int64_t* words, Py_ssize_t available,
    Py_ssize_t start, Py_ssize_t* used,
) noexcept nogil:
    cdef Py_ssize_t p = 0, i, c
    cdef int64_t concept
    cdef bint wanted, undecided, found
    cdef double* x
    cdef double radius, a, b
    for i in range(start, plan.n_rows):
        used[0] = p
        x = X + i * d
        concept = plan.old[i]
        if p + WORDS_A_POINT > available:
            return i
        if plan.share[i] >= 0.0:
            if unit(words + p) < plan.share[i]:
                concept = plan.new[i]
            p += 2
        wanted = False
        undecided = True
        while True:
            if p + WORDS_A_POINT > available:
                return i
            for c in range(d):
                if plan.kind == MIXED_KIND and c < 2:
                    p = after_refused(words, p, available)
                    if p < 0:
                        return i
                    x[c] = <double>(words[p] >> 30)
                    p += 1
                else:
                    x[c] = unit(words + p)
                    p += 2
            if undecided:  # the published code tosses the coin after the first point
                wanted = (unit(words + p) < 0.5) != (plan.kind == CIRCLES_KIND)
                undecided = False
                p += 2
            if plan.kind == SINE1_KIND:
                found = x[1] <= ds_sin(x[0])
            elif plan.kind == MIXED_KIND:
                found = x[0] + x[1] + (x[3] < 0.5 + 0.3 * ds_sin(3.0 * PI * x[2])) >= 2.0
            else:
                radius = 0.15 + 0.05 * concept
                a = x[0] - 0.2 * (concept + 1)
                b = x[1] - 0.5
                found = a * a + b * b - radius * radius > 0.0
            if found == wanted:
                break
        positive[i] = wanted != (plan.kind != CIRCLES_KIND and concept == 1)
    used[0] = p
    return plan.n_rows
