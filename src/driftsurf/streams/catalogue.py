"""The streams by the names the command line knows."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from driftsurf.errors import OptionError
from driftsurf.streams.base import Stream
from driftsurf.streams.circles import Circles
from driftsurf.streams.hyperplane import Hyperplane
from driftsurf.streams.mixed import Mixed
from driftsurf.streams.sea import SEA
from driftsurf.streams.sine1 import SINE1


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream by name. ``make`` takes ``seed`` and ``n_rows``, both with the paper's value as default."""

    name: str
    description: str
    make: Callable[..., Stream]


_ENTRIES = (
    Entry("sea0", "SEA, three abrupt drifts, no noise", partial(SEA, noise=0.0)),
    Entry("sea10", "SEA, three abrupt drifts, 10 % noise", partial(SEA, noise=0.1)),
    Entry("sea20", "SEA, three abrupt drifts, 20 % noise", partial(SEA, noise=0.2)),
    Entry("sea30", "SEA, three abrupt drifts, 30 % noise", partial(SEA, noise=0.3)),
    Entry("sea-gradual", "SEA, one gradual drift, 10 % noise", partial(SEA, noise=0.1, gradual=True)),
    Entry("hyper-slow", "Hyperplane, weights move by 0.001 a row", partial(Hyperplane, magnitude=0.001)),
    Entry("hyper-fast", "Hyperplane, weights move by 0.1 a row", partial(Hyperplane, magnitude=0.1)),
    Entry("sine1", "SINE1, four reversals, 10 % noise", SINE1),
    Entry("mixed", "Mixed, four reversals, 10 % noise", Mixed),
    Entry("circles", "Circles, three gradual drifts, 10 % noise", Circles),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""In the order of the paper's tables."""


def get(name: str) -> Entry:
    """The entry of this name.

    >>> get("sea10").make(n_rows=1_000)
    SEA(noise=0.1, gradual=False, seed=1, n_rows=1000)
    >>> get("sea-gradul")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no stream 'sea-gradul'; did you mean 'sea-gradual'? choices: sea0, ...
    """
    entry = CATALOGUE.get(name)
    if entry is None:
        near = difflib.get_close_matches(name.lower(), CATALOGUE, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"no stream {name!r}; {hint}choices: {', '.join(CATALOGUE)}")
    return entry
