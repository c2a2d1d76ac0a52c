"""Counter-based random numbers: word k of a generator is a hash of its seed and k.

A generator is one integer, the seed, and its position is another. No other state exists, so a saved model resumes its
draws exactly, any word can be computed without those before it, and models with different seeds never share a
sequence. The hash is the finaliser of SplitMix64, applied to ``seed + (k + 1) * GAMMA`` (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MASK = 0xFFFFFFFFFFFFFFFF
GAMMA = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB


def word(seed: int, k: int) -> int:
    """Return word ``k`` of the generator ``seed``, an integer below 2**64.

    >>> word(0, 0) == 0xE220A8397B1DCDAF
    True
    """
    z = (seed + (k + 1) * GAMMA) & MASK
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def mixed(counters: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The hash of each entry of an array: of ``seed + (k + 1) * GAMMA`` it is word ``k`` of the generator ``seed``.

    >>> import numpy as np
    >>> int(mixed(np.array([GAMMA], np.uint64))[0]) == word(0, 0)
    True
    """
    import numpy as np

    z = (counters ^ (counters >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


def derive(seed: int, index: int) -> int:
    """Return the seed of the ``index``-th child of ``seed``, hashed twice so that it is no word of its parent.

    >>> derive(1, 0) != derive(0, 1)
    True
    """
    return word(word(seed, index), 0)
