"""Generators of synthetic streams, which reproduce the rows of MOA and of published Python code bit for bit."""

from __future__ import annotations

import math
from typing import Any

from numba import types

from driftsurf.kernels.compile import F8, I8, _in, _out, inline, kernel

JAVA_MULTIPLIER = 0x5DEECE66D
JAVA_MASK = 0xFFFFFFFFFFFF


def java_state(seed: int) -> int:
    """Return the state of java.util.Random after ``new Random(seed)``: 48 bits in an int64."""
    return (seed ^ JAVA_MULTIPLIER) & JAVA_MASK


@inline
def _java_bits(states: Any, k: Any, bits: Any) -> Any:
    """Advance the generator ``states[k]`` and return Java's next(bits).

    ``int`` makes the product exact in Python; compiled, it wraps at 64 bits, of which 48 are kept.
    """
    state = (int(states[k]) * JAVA_MULTIPLIER + 0xB) & JAVA_MASK
    states[k] = state
    return state >> (48 - bits)


@inline
def _java_double(states: Any, k: Any) -> Any:
    """Return Java's nextDouble(): uniform in [0, 1) with 53 bits."""
    high = _java_bits(states, k, 26)
    return ((high << 27) + _java_bits(states, k, 27)) * 2.0**-53


@inline
def _java_percent(states: Any, k: Any) -> Any:
    """Return 1 + Java's nextInt(100): uniform in 1 .. 100.

    2**31 is no multiple of 100, so the last 48 words, which would favour 1 to 48, are drawn again.
    """
    while True:
        bits = _java_bits(states, k, 31)
        value = bits % 100
        if bits - value + 99 < 2147483648:
            return 1 + value


@kernel(lambda f: (_out(f), _out(I8)), exact=True)
def java_doubles(out: Any, state: Any) -> None:
    """Fill ``out`` with Java's nextDouble(); ``state`` holds one generator."""
    for i in range(out.shape[0]):
        out[i] = _java_double(state, 0)


@kernel(lambda f: (_out(f, 2), _out(I8), types.UniTuple(_out(I8), 4), _in(F8), F8, F8, I8), exact=True)
def sea(X: Any, y: Any, state: Any, theta: Any, p: Any, w: Any, noise: Any) -> None:
    """Fill X and y with the next rows of a chain of SEA concepts, as MOA's ConceptDriftStream joins them.

    Joint j stands between concept j and all later concepts. Each row walks the chain from the front: the t-th row that
    reaches joint j (t from 1) moves on with probability 1 / (1 + exp(-4 (t - p) / w)), and comes from concept j
    otherwise. A joint counts only the rows that reach it, so that equal p give concepts of equal length.

    A concept draws rows until one is of the wanted class, 1 and 0 in turn; then one draw of a percentage decides
    whether the label is noise. ``state`` holds the generator and the wanted class of each concept, and the generator
    and the rows so far of each joint.
    """
    generators, wanted, joint_generators, asked = state
    for i in range(X.shape[0]):
        c = 0
        while c < asked.shape[0]:
            asked[c] += 1
            # MOA's exponent overflows to infinity; beyond 700 the sigmoid is 0 or 1 anyway.
            exponent = max(-700.0, min(700.0, -4.0 * (asked[c] - p) / w))
            if _java_double(joint_generators, c) > 1.0 / (1.0 + math.exp(exponent)):
                break
            c += 1
        while True:
            for a in range(3):
                X[i, a] = 10.0 * _java_double(generators, c)
            group = 0 if X[i, 0] + X[i, 1] <= theta[c] else 1
            if group == wanted[c]:
                break
        wanted[c] = 1 - wanted[c]
        if _java_percent(generators, c) <= noise:
            group = 1 - group
        y[i] = 1 - 2 * group


@kernel(lambda f: (_out(f, 2), _out(I8), _out(I8), _out(F8), _out(F8), F8, I8, I8), exact=True)
def hyperplane(X: Any, y: Any, state: Any, w: Any, signs: Any, magnitude: Any, noise: Any, reversal: Any) -> None:
    """Fill X and y with the next rows of MOA's rotating hyperplane.

    A row is of class 1 if sum(x w) >= 0.5 sum(w). After each row every weight moves by ``magnitude`` in the direction
    of its sign, which is reversed with a probability of ``reversal`` percent.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        total = 0.0
        half = 0.0
        for c in range(d):
            X[i, c] = _java_double(state, 0)
            total += X[i, c] * w[c]
            half += w[c]
        group = 1 if total >= 0.5 * half else 0
        if _java_percent(state, 0) <= noise:
            group = 1 - group
        for c in range(d):
            w[c] += signs[c] * magnitude
            if _java_percent(state, 0) <= reversal:
                signs[c] = -signs[c]
        y[i] = 1 - 2 * group


SINE1, MIXED, CIRCLES = 0, 1, 2
MOST_WORDS_A_POINT = 64
"""Upper bound of the random words that one point needs; drawing one takes a few."""


@inline
def _unit(words: Any, p: Any) -> Any:
    """Return Python's random(): a double in [0, 1) from two words of the Mersenne Twister."""
    return ((words[p] >> 5) * 67108864.0 + (words[p + 1] >> 6)) * 2.0**-53


@inline
def _coin(words: Any, p: Any) -> Any:
    """Return Python's randint(0, 1), from the top two bits of a word, drawn again while they are 2 or 3."""
    while words[p] >> 30 > 1:
        p += 1
    return words[p] >> 30, p + 1


@kernel(
    lambda f: (_out(F8, 2), _out(types.boolean), types.Tuple((_in(I8), _in(I8), _in(F8))), _in(I8), I8, I8), exact=True
)
def balanced(X: Any, positive: Any, plan: Any, words: Any, start: Any, kind: Any) -> Any:
    """Fill X with rows of SINE1, Mixed or Circles from ``start`` on, as far as the random words suffice.

    ``plan`` holds for each row the old and the new concept, and the probability of the new one; a negative probability
    means the old one, without a draw. A fair coin chooses the class, and points are drawn until one belongs to it.
    Returns the number of rows made and of words used; a row that runs out of words is left for the next call.
    """
    old, new, share = plan
    p = 0
    for i in range(start, X.shape[0]):
        begin = p
        concept = old[i]
        if p + MOST_WORDS_A_POINT > words.shape[0]:
            return i, begin
        if share[i] >= 0.0:
            if _unit(words, p) < share[i]:
                concept = new[i]
            p += 2
        wanted = False
        undecided = True
        while True:
            if p + MOST_WORDS_A_POINT > words.shape[0]:
                return i, begin
            for c in range(X.shape[1]):
                if kind == MIXED and c < 2:
                    X[i, c], p = _coin(words, p)
                else:
                    X[i, c] = _unit(words, p)
                    p += 2
            if undecided:  # the published code tosses the coin after the first point
                wanted = (_unit(words, p) < 0.5) != (kind == CIRCLES)
                undecided = False
                p += 2
            if kind == SINE1:
                found = X[i, 1] <= math.sin(X[i, 0])
            elif kind == MIXED:
                found = X[i, 0] + X[i, 1] + (X[i, 3] < 0.5 + 0.3 * math.sin(3.0 * math.pi * X[i, 2])) >= 2.0
            else:
                radius = 0.15 + 0.05 * concept
                found = (X[i, 0] - 0.2 * (concept + 1)) ** 2 + (X[i, 1] - 0.5) ** 2 - radius**2 > 0.0
            if found == wanted:
                break
        positive[i] = wanted != (kind != CIRCLES and concept == 1)
    return X.shape[0], p
