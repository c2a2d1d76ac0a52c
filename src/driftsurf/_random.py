"""Counter-based random numbers: word k of a generator is a hash of its seed and k.

A generator is one integer, its position another; nothing is carried along, so a saved model
resumes its draws exactly and many models never share a sequence. The hash is SplitMix64's
finaliser applied to ``seed + (k + 1) * GAMMA`` (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

MASK = 0xFFFFFFFFFFFFFFFF
GAMMA = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB


def word(seed: int, k: int) -> int:
    """Word ``k`` of the generator ``seed``, as an integer below 2**64.

    >>> word(0, 0) == 0xE220A8397B1DCDAF
    True
    """
    z = (seed + (k + 1) * GAMMA) & MASK
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def derive(seed: int, index: int) -> int:
    """The seed of the ``index``-th child of ``seed``: two hashes away from the parent's own words.

    >>> derive(1, 0) != derive(0, 1)
    True
    """
    return word(word(seed, index), 0)
