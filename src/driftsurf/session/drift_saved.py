"""Saved entries of a drift monitor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.core.contracts import CSR, Rows, State, Strategy
from driftsurf.core.drifts import (
    Drift,
    Drifts,
    InputChange,
    InputChanges,
)
from driftsurf.core.fields import AnyArray, Array, FieldRule, Fields, Json, Real, Truth, Whole, misfit
from driftsurf.core.state import nest, pick
from driftsurf.native import monitor as scan
from driftsurf.session.correction import Correction
from driftsurf.session.drift_evidence import Anchor, DriftContest, EvidenceBlock, take_block
from driftsurf.strategies.frozen import frozen_from, frozen_state

ANCHORS = 3
"""Frozen models that are held."""

CONTESTANTS = 3
"""Contestants of the second bet: the learning model, a correction, and a fresh model."""

STAKES = np.array([0.1, 0.25, 0.5, 0.8])
"""Shares of the capital that are bet on a lead."""

POSITIVE = [scan.SPREADS, scan.NEARS, scan.RANGE, scan.LOW, scan.HIGH]
"""Values of a scan that are divisors or weights."""


def _read_back(saved: Any) -> tuple[int, int] | None:
    """Return the saved row and number of rows of a recovery; ValueError if they are not valid."""
    if saved is None:
        return None
    if not (isinstance(saved, list) and len(saved) == 2 and all(type(one) is int for one in saved)):
        raise ValueError("must be a row and a number of rows, or nothing")
    return saved[0], saved[1]


FIELDS = Fields(
    {
        "smallest_rise": Real(least=0.0, most=1.0),
        "drift_risk": Real(least=1e-300, most=1.0),
        "rows": Whole(),
        "contests": Whole(),
        "peak": Real(least=0.0),
        "back": Json(_read_back),
        "scan": Array(np.float64, (scan.VALUES,)),
        "drifts": Json(lambda saved: Drifts(map(Drift.from_dict, saved))),
        "changes": Json(
            lambda saved: InputChanges(InputChange(**one | {"columns": tuple(one["columns"])}) for one in saved)
        ),
        "means": Array(np.float64, ("windows", "means")),
    },
    parts=["blocks", "waiting", "anchor*", "old", "rise", "contest"],
    rules=[
        FieldRule(
            "scan", "must have a spread and a range above 0", lambda known: bool((known["scan"][POSITIVE] > 0).all())
        )
    ],
)
"""Saved entries of a monitor."""

RISE_NAMES = "cusum", "since", "rows", "total"
RISE = Fields({"cusum": Real(least=0.0), "since": Whole(), "rows": Real(least=0.0), "total": Real(least=0.0)})
"""Saved entries of a rise."""

ROWS = Fields(
    {
        "first_rows": Array(np.int64, ("blocks",), least=0, most=2.0**61),
        "steps": Array(np.int64, ("blocks",), least=0, most=2.0**61),
        "counts": Array(np.int64, ("blocks",), least=1, most=2.0**31),
        "sizes": Array(np.int64, ("blocks",), least=1, most=2.0**31),
        "y": Array(np.float64, ("rows",)),
        "margins": Array(np.float64, ("rows",)),
        "scores": Array(np.float64, ("rows", "outputs"), missing=True),
        "X": AnyArray(),
        "indices": Array(np.int64, ("values",), least=0, most="n_features-1"),
        "indptr": Array(np.int64, ("rows+1",), least=0, most="values"),
    },
    optional=["margins", "scores", "indices", "indptr"],
    rules=[
        FieldRule("sizes", "must add up to the rows", lambda known: int(known["sizes"].sum()) == len(known["y"])),
        FieldRule(
            "indptr",
            "must not fall",
            lambda known: "indptr" not in known or bool((np.diff(known["indptr"]) >= 0).all()),
        ),
    ],
)
"""Saved entries of blocks of rows."""

ANCHOR = Fields({"row": Whole(), "rows": Real(least=0.0), "total": Real(least=0.0)}, parts=["model"])
"""Saved entries of a frozen model."""

PARTS = ["anchor", "old", "new", "rival"]
"""Parts of a contest that have entries of their own."""

CONTEST = Fields(
    {
        "number": Whole(1),
        "since": Whole(),
        "start": Whole(),
        "usual": Real(),
        "reference": Real(),
        "spread": Real(least=1.0),
        "before": Real(),
        "lead": Real(least=0.0),
        "centre": Real(),
        "bets": Array(np.float64, (len(scan.ALTERNATIVES),)),
        "rows": Whole(),
        "total": Real(),
        "highest": Real(),
        "drift": Whole(-1),
        "leads": Array(np.float64, (CONTESTANTS, len(STAKES))),
        "columns": Array(np.int64, ("columns",), least=0),
        "corrected_rows": Whole(),
        "resolved": Truth(),
        "n_classes": Whole(),
    },
    optional=["leads", "columns"],
    parts=PARTS,
)
"""Saved entries of a contest."""


def blocks_from(state: Mapping[str, Any], n_features: int, sparse: bool, dtype: str) -> tuple[EvidenceBlock, ...]:
    """Return the saved blocks of rows; StateError if they do not fit."""
    if not state:
        return ()
    known = ROWS.read(state, n_features=n_features)
    X, y = known["X"], known["y"]
    shape = known["indices"].shape if sparse else (len(y), n_features)
    if X.dtype != dtype or X.shape != shape or ("margins" in known) == ("scores" in known):
        raise misfit(state, "X", f"must be rows of {n_features} columns of type {dtype}, with their scores")
    rows: Rows = X
    if sparse:
        rows = CSR(X, known["indices"].astype(np.int32), known["indptr"].astype(np.int64), n_features)
    scores = known["margins"] if "margins" in known else known["scores"]
    whole = EvidenceBlock(0, 0, rows, y, scores)
    stops = np.cumsum(known["sizes"]).tolist()
    starts = [0, *stops[:-1]]
    numbers = (known[name].tolist() for name in ("first_rows", "steps", "counts"))
    cuts = zip(*numbers, starts, stops, strict=True)
    return tuple(
        take_block(whole, a, b)._replace(first_row=row, step=step, steps=count) for row, step, count, a, b in cuts
    )


def anchor_state(anchor: Anchor) -> State:
    """Return the entries of a frozen model."""
    own: State = {"row": anchor.row, "rows": anchor.rows, "total": anchor.total}
    return own | nest("model", frozen_state(anchor.scorer))


def anchor_from(state: Mapping[str, Any], strategy: Strategy) -> Anchor:
    """Return the frozen model with these entries."""
    known = ANCHOR.read(state)
    return Anchor(known["row"], frozen_from(pick("model", state), strategy), known["rows"], known["total"])


def contest_state(contest: DriftContest, capitals: tuple[float, ...]) -> State:
    """Return the entries of a contest, and of the capitals that are bet in it."""
    *bets, rows, total, highest = capitals
    entries = contest._asdict() | {"bets": np.array(bets), "rows": int(rows), "total": total, "highest": highest}
    state: State = {name: value for name, value in entries.items() if value is not None and name not in PARTS}
    state["n_classes"] = 0 if contest.old is None else contest.old.n_classes
    if contest.anchor is not None:
        state |= nest("anchor", anchor_state(contest.anchor))
    if contest.rival is not None:
        state |= nest("rival", frozen_state(contest.rival))
    for name, one in (("old", contest.old), ("new", contest.new)):
        if one is not None:
            state |= nest(name, one.state())
    return state


def contest_from(state: Mapping[str, Any], strategy: Strategy) -> tuple[DriftContest, tuple[float, ...]]:
    """Return the contest with these entries, and the capitals that are bet in it."""
    known = dict(CONTEST.read(state))
    n_classes = known.pop("n_classes")
    capitals = *known.pop("bets").tolist(), *(float(known.pop(name)) for name in ("rows", "total", "highest"))
    anchor, sides = pick("anchor", state), {name: pick(name, state) for name in ("old", "new")}
    made: dict[str, Any] = {name: Correction.from_state(one, n_classes) for name, one in sides.items() if one}
    if len(made) == 1 or bool(made) != ("columns" in known) or (known["drift"] >= 0) != ("leads" in known):
        raise misfit(state, "drift", "must have both corrections and the capitals, or none of them")
    frozen, rival = anchor_from(anchor, strategy) if anchor else None, pick("rival", state)
    made["rival"] = frozen_from(rival, strategy) if rival else None
    return DriftContest(anchor=frozen, **known, **made), capitals
