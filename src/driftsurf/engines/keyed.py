"""One key's share of a keyed stream: its bytes and its new rows in; predictions, decisions and bytes out."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from driftsurf._described import described_option
from driftsurf._options import choice, number, whole
from driftsurf._values import replace
from driftsurf.base import FloatArray, IntArray, State, Strategy
from driftsurf.decisions import Decision
from driftsurf.engines._gaps import Means, gaps_of
from driftsurf.engines._serving import AtOnce, Late, Served, Serving
from driftsurf.errors import InputError, OptionError, ShapeError, StateError
from driftsurf.fleet import key_seed
from driftsurf.journal import json_lines
from driftsurf.labels import Values
from driftsurf.runtime.session import Session
from driftsurf.state import digest, from_bytes, nest, pick, to_bytes

__all__ = ["KeyRows", "KeySummary", "KeyedLearner", "OnGap", "Visit"]

FORMAT = 2
"""Of what stands around a key's model; raised by every change that older versions could not read."""
REASON_LENGTH = 300
OnGap: TypeAlias = Literal["fill", "quarantine"]
ON_GAP: tuple[OnGap, ...] = get_args(OnGap)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Rows of one key, in any order."""

    sequence: IntArray
    """Grows along the stream of a key: a number, or a time. What is not above all that came before is a duplicate."""
    X: FloatArray
    """(n, columns); rows that bring nothing but a label are NaN throughout."""
    y: list[Any]
    """None where there is no label."""
    ids: list[Any] | None = None
    """By which a late label finds its row."""

    def __post_init__(self) -> None:
        counts = {len(self.sequence), len(self.X), len(self.y)} | ({len(self.ids)} if self.ids is not None else set())
        if len(counts) > 1 or self.X.ndim != 2:
            raise ShapeError(f"the rows of a key have {sorted(counts)} entries: give as many of everything")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, places: IntArray) -> KeyRows:
        """Some of the rows."""
        chosen = places.tolist()
        ids = None if self.ids is None else [self.ids[i] for i in chosen]
        return KeyRows(self.sequence[places], self.X[places], [self.y[i] for i in chosen], ids)


@dataclass(frozen=True)
class KeySummary:
    """How one key is doing: an entry of the table of keys."""

    rows: int = 0
    """Rows taken, labels that came alone included; duplicates and refused rows are not."""
    steps: int = 0
    state: str = "stable"
    scored: int = 0
    """Predictions whose true label is known."""
    errors: int = 0
    """Of these, how many are wrong; 0 where values are predicted."""
    deviation: float = 0.0
    """Where values are predicted, the sum of their distances from the true ones; else 0."""
    duplicates: int = 0
    """Rows at or below the high-water mark: they were dropped."""
    refused: int = 0
    """Rows that were not learnt: they came in quarantine, or had begun a time step when the key was readmitted."""
    gaps: int = 0
    """Cells without a value in the rows taken: they were filled."""
    transitions: int = 0
    last_transition: str = ""
    last_transition_at: int | None = None
    """The sequence number at which it happened."""
    high_water: int | None = None
    """The largest sequence number so far."""
    waiting: int = 0
    """Rows that wait for their label."""
    quarantine: str = ""
    """Why the key learns no more; empty if it does."""
    quarantined_at: int | None = None
    bytes: int = 0
    """Size of the saved state."""
    expired: bool = False
    """Silent for so long that its model was given up."""

    @property
    def error(self) -> float | None:
        """The share of wrong predictions; of values, their mean distance from the true ones."""
        return (self.errors + self.deviation) / self.scored if self.scored else None


NEW = KeySummary()


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """What came of one visit to a key."""

    state: bytes
    """To be kept, and given to the next visit; empty for a key that is given up."""
    sequence: list[int]
    """Of the rows that were taken or refused, in order."""
    predicted: list[Any]
    """For each of them; None where nothing could be predicted. Of a late label: what was predicted for its row."""
    true: list[Any]
    """For each of them; None where there is no label, or a bad one."""
    decided_at: list[int]
    """For each time step that the visit completed: the sequence number of its last row."""
    decisions: list[str]
    """And what was decided, as the lines of a journal."""
    transitions: list[str]
    """And the kinds of its transitions, with commas between."""
    summary: KeySummary

    @property
    def digest(self) -> str:
        """The checksum of the state: two keys with the same one are the same to the bit."""
        return digest(self.state)


@dataclass(frozen=True, kw_only=True)
class KeyedLearner:
    """What every key is learnt with. A value that can be pickled; it holds nothing of any key.

    The result does not depend on how the rows of a key are spread over visits, as long as ``batch_size`` cuts its
    time steps. With ``batch_size=None`` each visit is a time step: exact when a visit is repeated, but not equal to
    a run whose visits are others.

    Parameters
    ----------
    strategy
        The template of what learns a key; only its seed differs between keys (``fleet.key_seed(seed, key)``).
    features
        The names of the columns, in order.
    classes
        The closed set of labels; None for an open one.
    batch_size
        Rows of a key that make a time step, in the order of their sequence numbers; None: those of each visit.
    guard
        As for :class:`~driftsurf.runtime.session.Session`.
    delay
        None: a label comes with its row, or never. A number: labels may come alone, by id, at most so much later,
        in units of the sequence.
    max_pending
        So many rows of a key wait for their labels at most.
    max_bytes
        A key whose model would take more, saved after a time step, is put in quarantine by the row that ends the
        step, with the model before it. With ``delay`` rows that wait count, and it is saved every ``batch_size`` rows.
    readmit
        For a key in quarantine (or its text), the largest ``quarantined_at`` that is forgiven. The key goes on from
        its last time step: rows that had begun another are dropped, since one of them may be why it failed.
    on_gap
        What becomes of a cell without a value (NaN): "fill" takes the mean of the key's values in that column before
        that row (0 if there is none), "quarantine" takes it for poison, as it does what is infinite.
    seed
        Fixes every random number.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.strategies import DriftSurf
    >>> learner = KeyedLearner(
    ...     strategy=DriftSurf(LogisticRegression(), max_rows=128), features=("x",), classes=(0, 1), batch_size=4
    ... )
    >>> X = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    >>> first = learner.visit("shop 7", None, KeyRows(np.arange(4), X, [0, 1, 0, 1]))
    >>> again = learner.visit("shop 7", first.state, KeyRows(np.arange(2, 6), X, [0, 1, 0, 1]))
    >>> again.sequence, again.predicted, again.summary.duplicates
    ([4, 5], [0, 1], 2)
    """

    strategy: Strategy
    features: tuple[str, ...]
    classes: tuple[Any, ...] | None = None
    batch_size: int | None = 32
    guard: float | None = None
    delay: float | None = None
    max_pending: int = 1000
    max_bytes: int = 2**20
    readmit: Mapping[Any, int] = field(default_factory=dict)
    on_gap: OnGap = "fill"
    seed: int = 0

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        if not (isinstance(self.features, tuple) and self.features):
            raise OptionError(f"features is {self.features!r}; give the names of one column or more")
        whole("max_bytes", self.max_bytes, at_least=1)
        whole("max_pending", self.max_pending, at_least=1)
        whole("seed", self.seed, at_least=0)
        choice("on_gap", self.on_gap, ON_GAP)
        if self.delay is not None:
            number("delay", self.delay, above=0.0, otherwise=", or None")
            if self.batch_size is None:
                raise OptionError("labels that come late (delay) need a batch_size: give the rows of a time step")
        if getattr(self.strategy, "max_rows", 0) is None:
            raise OptionError("max_rows of the strategy is None; a key must be bounded: give a number")
        learner = self.session(0).strategy.learner
        if not learner.capabilities.exact_state:
            raise OptionError(
                f"{learner!r} has no exact state to keep between visits (capability 'exact_state'): use a learner of "
                "driftsurf.learners, or one that is fitted anew on its rows"
            )
        try:
            self.about()
        except StateError as error:
            raise OptionError(str(error)) from error

    def about(self) -> dict[str, Any]:
        """All that a saved key depends on, as plain values: to be kept beside a run and compared."""
        names = _parameters(type(self.strategy))
        options = {name: described_option(getattr(self.strategy, name)) for name in names if name != "seed"}
        return {
            "format": FORMAT,
            "strategy": {"name": type(self.strategy).__name__, **options},
            "features": list(self.features),
            "classes": None if self.classes is None else list(self.classes),
            "batch_size": self.batch_size,
            "guard": self.guard,
            "delay": self.delay,
            "on_gap": self.on_gap,
            "seed": self.seed,
        }

    @property
    def values(self) -> bool:
        """Whether values are predicted, not classes."""
        return self.strategy.learner.capabilities.values

    @functools.cached_property
    def options_digest(self) -> str:
        """Tells the states of this learner from those of another."""
        text = json.dumps(self.about(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @functools.cached_property
    def _forgiven(self) -> dict[str, int]:
        return {str(key): sequence for key, sequence in self.readmit.items()}

    def session(self, key: Any) -> Session:
        """What one key begins with: the same as when it is learnt alone."""
        return self._template.reseeded(key_seed(self.seed, key))

    @functools.cached_property
    def _template(self) -> Session:
        made: Any = type(self.strategy)
        options = {name: getattr(self.strategy, name) for name in _parameters(made)} | {"seed": self.seed}
        return Session(made(**options), classes=self.classes, batch_size=self.batch_size, guard=self.guard)

    # -------------------------------------------------------------------- visits

    def visit(self, key: Any, state: bytes | None, rows: KeyRows) -> Visit:
        """Predict, then learn, the rows of a key that are new, in the order of their sequence numbers."""
        if rows.X.shape[1] != len(self.features):
            raise ShapeError(f"the rows have {rows.X.shape[1]} columns, and {len(self.features)} features are named")
        if self.delay is not None and rows.ids is None:
            raise InputError("labels that come late (delay) find their rows by id: give ids")
        summary, serving, means = self._opened(key, state)
        fresh = _new(rows, summary.high_water)
        summary = replace(summary, duplicates=summary.duplicates + len(rows) - len(fresh))
        if len(fresh):
            summary = replace(summary, high_water=int(fresh.sequence[-1]))
        served, good = Served(), 0
        if not summary.quarantine:
            rows = fresh if means is None else means.along(fresh, late=self._late)
            serving, served, good, reason = self._taken(key, state, serving, rows)
            if reason:
                at = int(fresh.sequence[good])
                summary = replace(summary, quarantine=reason[:REASON_LENGTH], quarantined_at=at)
        taken, rest = (fresh, None) if good == len(fresh) else _cut(fresh, good)
        if means is not None:
            means = means.behind(taken.X)
            summary = replace(summary, gaps=summary.gaps + int(gaps_of(taken, late=self._late).sum()))
        if rest is not None:
            serving.refuse(rest if means is None else means.ahead(rest, late=self._late), served)
        summary = _counted(summary, served, good, len(fresh) - good, serving)
        return self._closed(summary, serving, means, fresh, served)

    @property
    def _late(self) -> bool:
        return self.delay is not None

    def _taken(
        self, key: Any, state: bytes | None, serving: Serving, fresh: KeyRows
    ) -> tuple[Serving, Served, int, str]:
        """The key after the rows before the first that cannot be taken; how many they are; what is wrong with it.

        A bad row leaves no trace: the visit is begun again, and ends before it.
        """
        served, why = Served(), ""
        good, reason = serving.take(fresh, served)
        while reason:
            why, serving, served = reason, self._opened(key, state)[1], Served()
            good, reason = serving.take(fresh.take(np.arange(good)), served)
        return serving, served, good, why

    def expire(self, key: Any, state: bytes) -> Visit:
        """Give up a key that has been silent for too long; should it come again, it begins anew."""
        summary, *_ = self._opened(key, state)
        return Visit(b"", [], [], [], [], [], [], replace(summary, expired=True, bytes=0))

    def summary(self, state: bytes) -> KeySummary:
        """How the key with this state is doing."""
        return _read(state, self.options_digest)[0]

    def _opened(self, key: Any, state: bytes | None) -> tuple[KeySummary, Serving, Means | None]:
        session = self.session(key)
        serving = (
            AtOnce(session, self.features, self.max_bytes)
            if self.delay is None
            else Late(session, self.features, self.max_bytes, max_pending=self.max_pending, timeout=float(self.delay))
        )
        fills, columns = self.on_gap == "fill", len(self.features)
        if not state:
            return NEW, serving, Means.over(columns) if fills else None
        summary, saved = _read(state, self.options_digest)
        serving.restore(pick("model", saved))
        means = Means.from_array(saved.get("means"), columns) if fills else None
        forgiven = self._forgiven.get(str(key))
        if summary.quarantined_at is not None and forgiven is not None and summary.quarantined_at <= forgiven:
            dropped = serving.session.drop_pending()  # a row in the time step that failed may fail the next one too
            rows, refused = summary.rows - dropped, summary.refused + dropped
            summary = replace(summary, quarantine="", quarantined_at=None, rows=rows, refused=refused)
        return summary, serving, means

    def _closed(
        self, summary: KeySummary, serving: Serving, means: Means | None, fresh: KeyRows, served: Served
    ) -> Visit:
        data = self._bytes(summary, serving.state(), means)
        summary = replace(summary, bytes=len(data))
        lines = ["".join(json_lines([decision])) for decision in served.decisions]
        kinds = [",".join(one.kind for one in decision.transitions) for decision in served.decisions]
        sequence = fresh.sequence.tolist()
        return Visit(data, sequence, served.predicted, served.true, served.decided_at, lines, kinds, summary)

    def _bytes(self, summary: KeySummary, model: State, means: Means | None) -> bytes:
        own = {name: getattr(summary, name) for name in _KEPT}
        about: State = {"keyed": self.options_digest, "summary": json.dumps(own)}
        own_means: State = {} if means is None else {"means": means.totals}
        return to_bytes(about | own_means | nest("model", model))


@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


_KEPT = tuple(entry.name for entry in fields(KeySummary) if entry.name not in ("bytes", "expired"))


def _read(state: bytes, options: str) -> tuple[KeySummary, State]:
    saved = from_bytes(state)
    if saved.get("keyed") != options:
        raise StateError(
            f"the saved state of a key was written with other options ({saved.get('keyed')!r}, now {options!r}): "
            "go on with the same columns and options, or begin a new run"
        )
    try:
        summary = replace(NEW, **json.loads(str(saved["summary"])), bytes=len(state))
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"the saved state of a key has no summary that can be read ({error})") from error
    return summary, saved


def _new(rows: KeyRows, high_water: int | None) -> KeyRows:
    """The rows above the high-water mark in order, each number once: of several the first that came."""
    sequence = np.asarray(rows.sequence)
    if sequence.dtype.kind not in "iu":
        raise InputError(f"sequence numbers are {sequence.dtype}; give whole numbers, such as counts or milliseconds")
    if _in_order(sequence, high_water):
        return rows
    order = np.argsort(sequence, kind="stable")
    ordered = sequence[order].astype(np.int64)
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] > ordered[:-1]
    if high_water is not None:
        new &= ordered > high_water
    return rows.take(order[new])


def _cut(rows: KeyRows, place: int) -> tuple[KeyRows, KeyRows]:
    return rows.take(np.arange(place)), rows.take(np.arange(place, len(rows)))


def _in_order(sequence: IntArray, high_water: int | None) -> bool:
    """Whether all rows are new and in order already: the usual case."""
    if sequence.dtype != np.int64 or not len(sequence) or (high_water is not None and sequence[0] <= high_water):
        return False
    return int(np.count_nonzero(sequence[1:] > sequence[:-1])) == len(sequence) - 1


def _counted(summary: KeySummary, served: Served, taken: int, refused: int, serving: Serving) -> KeySummary:
    happened = [
        (at, transition.kind)
        for at, decision in zip(served.decided_at, served.decisions, strict=True)
        for transition in decision.transitions
    ]
    changes: dict[str, Any] = {}
    if happened:
        at, kind = happened[-1]
        changes = {"last_transition": kind, "last_transition_at": at}
    if served.decisions:
        changes["state"] = _next_state(served.decisions[-1])
    if isinstance(serving.session.targets, Values):
        changes["deviation"] = summary.deviation
        for predicted, true in zip(served.predicted, served.true, strict=True):  # one by one, however visits are cut
            changes["deviation"] += 0.0 if predicted is None or true is None else abs(predicted - true)
    else:
        changes["errors"] = summary.errors + served.errors
    return replace(
        summary,
        rows=summary.rows + taken,
        steps=serving.session.steps,
        scored=summary.scored + served.scored,
        refused=summary.refused + refused,
        transitions=summary.transitions + len(happened),
        waiting=serving.waiting,
        **changes,
    )


def _next_state(decision: Decision) -> str:
    """The state in which the next batch will be met."""
    ended = any(one.kind in ("switched", "kept") for one in decision.transitions)
    return "stable" if ended else decision.state
