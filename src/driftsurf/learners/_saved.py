"""Declared entries of the saved state of a linear model."""

from __future__ import annotations

import functools

import numpy as np

from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Real, Values, Whole
from driftsurf.learners._linear import LARGEST


@functools.cache
def linear_fields(dimensions: int, *, tabled: bool, regression: bool, anchored: bool) -> Fields:
    """Return the declaration of a linear model.

    ``dimensions`` are those of the weights, and ``tabled`` says whether each row of the sample set has an entry in the
    gradient table. Only a regression has a centre of the targets and ranges of the columns. ``anchored`` says whether
    the penalty may pull towards an anchor.
    """
    outputs = ("outputs",)[: dimensions - 1]
    weights = Array(np.float64, ("width", *outputs), least=-LARGEST, most=LARGEST)
    entries: dict[str, FieldEntry] = {
        "weights": weights,
        "gradient_sum": weights,
        "factor": Array(np.float64, ("width",), least=0.0),
        "centre": Array(np.float64, ("width",)),
        "anchor": Array(np.float64, ("*",)),
        "drawn": Whole(),
        "lo": Whole(-1),
        "admitted": Whole(-1),
        "hi": Whole(-1),
        "seen": Whole(),
        "step_size": Real(least=0.0, missing=True),
        "rescale_at": Whole(),
        "seed": Whole(0, 2**64 - 1),
        "words": Whole(),
        "gradients": Whole(),
        "table": Array(np.float64, ("*", *outputs), least=-LARGEST, most=LARGEST, missing=True),
    }
    lengths = ["width"] if anchored and dimensions == 1 else []

    def anchor_fits(known: Values) -> bool:
        return len(known["anchor"]) in (0, *(known[name] for name in lengths))

    rules = [
        FieldRule("weights", "must have a weight at least for the intercept", lambda known: known["weights"].size > 0),
        FieldRule("centre", "must be 0 for the intercept", lambda known: not known["centre"][-1:].any()),
        FieldRule("anchor", "must be empty, or as long as the weights of a learner with an anchor", anchor_fits),
        FieldRule("admitted", "must be between lo and hi, or -1 as they are", _are_ordered),
        FieldRule(
            "table", "must have an entry for each row of the sample set", _table_fits if tabled else _has_no_table
        ),
        FieldRule("drawn", "must be the number of entries in the table", _drawn_fits),
    ]
    if regression:
        vector = Array(np.float64, ("ranges",))
        entries |= {"target": Real(), "low": vector, "high": vector, "evidence": Array(np.float64, ("evidenced",))}
        rules += [
            FieldRule(
                "low",
                "must be empty or have one value per column",
                lambda known: known["ranges"] in (0, known["width"] - 1),
            ),
            FieldRule("evidence", "must be empty or have four values", lambda known: known["evidenced"] in (0, 4)),
            FieldRule("high", "must not be below low", lambda known: (known["low"] <= known["high"]).all()),
        ]
    return Fields(entries, rules=rules)


def _are_ordered(known: Values) -> bool:
    rows: tuple[int, int, int] = (known["lo"], known["admitted"], known["hi"])
    return rows == (-1, -1, -1) or 0 <= rows[0] <= rows[1] <= rows[2]


def _table_fits(known: Values) -> bool:
    return len(known["table"]) == int(known["admitted"]) - int(known["lo"])


def _has_no_table(known: Values) -> bool:
    return len(known["table"]) == 0


def _drawn_fits(known: Values) -> bool:
    absent = np.isnan(known["table"])
    first = absent if absent.ndim == 1 else absent[:, 0]
    counted: bool = known["drawn"] == len(first) - np.count_nonzero(first)
    return counted and (absent.ndim == 1 or bool((first == absent.T).all()))  # a row has all outputs or none
