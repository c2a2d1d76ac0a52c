"""Which streams are judged: a function of nothing but this file, so that a result keeps its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.verdict.judging import Task
from benchmarks.verdict.streams import FIRST_JUDGED, KINDS, families_of

__all__ = ["BATCHES", "EVERY_QUICK", "REAL_KINDS", "made_tasks", "real_tasks"]

BATCHES = 1, 20, 200, 1_000
STEADY, CHANGED = 1_000, 200
"""Streams without a change, and streams of each kind of change."""
EVERY_QUICK = 17
"""``--quick`` judges one task of so many; coprime to the cycles below, so that all of them are hit."""
CYCLES = {
    1: "DDLDEDDLDEWE",
    20: "LDELW",
    200: "LDWLE",
    1_000: "LDWLE",
}
"""Models of the streams of a batch size, in turn, by initials: slow ones less often where rows come one by one."""
INITIALS = {"D": "default", "L": "light", "W": "wrapped", "E": "ensemble"}
ROWS = {1: 20_000, 20: 20_000, 200: 20_000, 1_000: 60_000}
"""Rows of a stream with a change."""
RARE_ROWS = {1: 40_000, 20: 60_000, 200: 100_000, 1_000: 100_000}
"""Rows of a stream with a rare class and a change."""
SINGLE_ROWS = 10_000
"""Rows of a stream for a model that learns them one by one as time steps."""
STEADY_ROWS = 10_000, 20_000, 50_000, 200_000
MOST_TEXT = 50_000
"""Most rows of a table of text, which takes much memory."""
REAL_KINDS = "as-is", "shuffled", "swapped", "permuted", "flipped", "class-comes", "class-goes", "inputs-moved"
REAL_SEEDS = 3
REAL_MODELS = (200, "light"), (20, "default")


def made_tasks(first_seed: int = FIRST_JUDGED) -> list[Task]:
    """Return the tasks on made streams. The seed says family, batch size, model and number of rows in turn."""
    counts = {kind: STEADY if kind == "steady" else CHANGED for kind in KINDS}
    return [_made_task(kind, place, first_seed) for kind, count in counts.items() for place in range(count)]


def _made_task(kind: str, place: int, first_seed: int) -> Task:
    families = families_of(kind)
    turn, place_of_family = divmod(place, len(families))
    family = families[place_of_family]
    turn, place_of_batch = divmod(turn, len(BATCHES))
    batch = BATCHES[place_of_batch]
    # Families begin at different places of the cycle, so that each kind has every model with every batch size.
    model = INITIALS[CYCLES[batch][(turn + place_of_family) % len(CYCLES[batch])]]
    if model == "wrapped" and not _wraps(kind, family, batch):
        model = "default" if batch == 1 else "light"
    single = batch == 1 and model in ("light", "wrapped")
    if single and family == "imbalanced":  # too few rows of the rare class in as many as can be learned in time
        model, single = "default", False
    rows = RARE_ROWS[batch] if family == "imbalanced" else ROWS[batch]
    if kind == "steady":
        rows = STEADY_ROWS[turn % len(STEADY_ROWS)]
        rows = min(rows, 20_000) if batch == 20 and model != "default" else rows
        rows = min(rows, MOST_TEXT if batch > 1 else ROWS[1]) if family == "text" else rows
    return Task("made", kind, family, batch, model, first_seed + place, SINGLE_ROWS if single else rows)


def _wraps(kind: str, family: str, batch: int) -> bool:
    """Return whether a model of another library takes new classes and learns well enough and fast enough."""
    return kind != "class-comes" and {"text": False, "trees": batch == 1_000, "regression": batch == 1_000}.get(
        family, True
    )


def real_tasks(streams: Sequence[str], first_seed: int = FIRST_JUDGED) -> list[Task]:
    """Return the tasks on real streams; ``rows`` 0 means all rows."""
    return list(_real_tasks(streams, first_seed))


def _real_tasks(streams: Sequence[str], first_seed: int) -> Iterator[Task]:
    for stream in streams:
        for kind in REAL_KINDS:
            for seed in range(first_seed, first_seed + (1 if kind == "as-is" else REAL_SEEDS)):
                for batch, model in REAL_MODELS:
                    yield Task("real", kind, stream, batch, model, seed, 0 if kind == "as-is" else 20_000)
