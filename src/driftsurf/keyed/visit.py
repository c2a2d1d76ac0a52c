"""A visit to one key: its saved bytes and its new rows in; predictions, decisions and new bytes out."""

from __future__ import annotations

import functools
import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from driftsurf.core.abilities import RowBounded
from driftsurf.core.changes import replace
from driftsurf.core.contracts import State, Strategy
from driftsurf.core.fields import Array, FieldEntry, Fields, Json, Text, Whole, misfit
from driftsurf.core.journal import Journal, json_lines
from driftsurf.core.numeric import MASK
from driftsurf.core.options import choice, number, whole
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import InputError, Message, Option, OptionError, ShapeError, SmallBatchWarning, StateError
from driftsurf.keyed.bank import key_shape, suits_cells
from driftsurf.keyed.key_cache import KeyCells, SavedCell, about_key, is_small
from driftsurf.keyed.keys import key_seed
from driftsurf.keyed.layout import MOST_OWN, TWO
from driftsurf.keyed.options import ON_GAP, OnGap
from driftsurf.keyed.quarantine import Fault
from driftsurf.keyed.results import NEW, KeySummary, Visit, after_visit, chained
from driftsurf.keyed.rows import ColumnMeans, KeyRows, find_gaps, new_rows
from driftsurf.keyed.serving import ImmediateLabels, KeyServing, LateLabels, ServedRows, array_bytes
from driftsurf.session.described import described_option
from driftsurf.session.session import WARN_BELOW_ROWS, Session
from driftsurf.strategies._base import saved_class, saved_params

MOST_BYTES = 2**24
"""Size of all saved states whose models are kept, roughly; the models take a few times as much memory."""


class KeptModels:
    """Models by key, each with the bytes that were saved of it.

    A model is handed out for exactly these bytes and only once: it then belongs to the visit, and if the visit fails,
    the next one reads the bytes. So results do not depend on what is kept, and bytes from anywhere else are always
    checked. When there is no more room, the models that are kept stay, so that visits to many keys in turn find some.

    >>> kept = KeptModels()
    >>> kept.keep(7, b"saved", "model")
    >>> kept.take(7, b"other"), kept.take(7, b"saved")
    (None, None)
    >>> kept.keep(7, b"saved", "model")
    >>> kept.take(7, b"saved"), kept.take(7, b"saved")
    ('model', None)
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._models: dict[int, tuple[bytes, Any]] = {}

    def __len__(self) -> int:
        return len(self._models)

    def keep(self, key: int, state: bytes, model: Any) -> None:
        """Keep the model that was saved as ``state``, if there is room; nobody else may use it from now on."""
        if (len(self._models) + 1) * len(state) <= self.most_bytes:
            self._models[key] = state, model

    def take(self, key: int, state: bytes) -> Any | None:
        """Return the model that was saved as ``state``, and drop it; None if another one or none was kept."""
        saved, model = self._models.pop(key, (None, None))
        return model if saved == state else None


Opened: TypeAlias = tuple[KeySummary, KeyServing, ColumnMeans | None]
"""Summary, model and column means of a key."""


@dataclass(frozen=True, kw_only=True)
class KeyedLearner:
    """How every key is learned. It can be pickled, and no result depends on the visits before.

    It keeps some models that it has just saved, so that the next visit to their keys need not read them. They are not
    pickled.

    With a ``batch_size`` the result does not depend on how the rows of a key are spread over visits. With
    ``batch_size=None`` each visit is a time step: repeating a visit is exact, but other visits give other
    results.

    Parameters
    ----------
    strategy
        The template of what learns a key; keys differ only in its seed, ``key_seed(seed, key)``.
    features
        The names of the columns, in order.
    classes
        The closed set of labels; None for an open one.
    batch_size
        Rows of a key that make a time step, in the order of their sequence numbers; None for the rows of each visit.
    guard
        As for :class:`~driftsurf.session.session.Session`.
    delay
        How much later than its row a label may come, by id, in units of the sequence. None if a label comes with its
        row or never.
    max_pending
        Rows of a key that wait for their labels at most.
    max_bytes
        A key whose state would take more after a time step is put in quarantine by the row that ends the step, with the
        state before it. With ``delay``, waiting rows count too, and the size is checked every ``batch_size`` rows.
    readmit
        For a key in quarantine (or its text), the largest ``quarantined_at`` that is forgiven. The key resumes from
        its last time step: rows that had started another one are dropped, since one of them may be why it failed.
    on_gap
        What to do about a missing cell (NaN): "fill" it with the mean of the key's earlier values in that column, 0 if
        there is none, or "quarantine" the key, as for an infinite value.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.keyed import KeyRows
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
    max_bytes: int = 2**22
    readmit: Mapping[Any, int] = field(default_factory=dict)
    on_gap: OnGap = "fill"
    seed: int = 0

    def check(self) -> None:
        """Raise OptionError if an option cannot be used; warn of time steps of few rows."""
        if not (isinstance(self.features, tuple) and self.features):
            raise OptionError(f"features is {self.features!r}; name one column or more, in a tuple")
        whole("max_bytes", self.max_bytes, at_least=1)
        whole("max_pending", self.max_pending, at_least=1)
        whole("seed", self.seed, at_least=0, at_most=None)
        choice("on_gap", self.on_gap, ON_GAP)
        if self.delay is not None:
            number("delay", self.delay, above=0.0, otherwise=", or None")
            if self.batch_size is None:
                raise OptionError("late labels (delay) need a batch_size, the rows of a time step")
        if isinstance(self.strategy, RowBounded) and self.strategy.max_rows is None:
            raise OptionError("max_rows of the strategy is None; the state of a key must be bounded: set a number")
        learner = self.session(0).strategy.learner
        if not learner.capabilities.exact_state:
            raise OptionError(
                f"{learner!r} cannot save its exact state (capability 'exact_state'), which is kept between visits: "
                "use a learner of driftsurf.learners, or one that is refitted on its rows"
            )
        try:
            self.about()
        except StateError as error:
            raise OptionError(str(error)) from error
        if self.suits_cells and self.batch_size is not None and self.batch_size < WARN_BELOW_ROWS:
            few = f"time steps have {self.batch_size} rows; the risk on so few rows is mostly noise, which looks like "
            message = Message(few, "drift, so that good models are replaced (", Option("batch_size"), ")")
            warnings.warn(message, SmallBatchWarning, stacklevel=2)

    def about(self) -> dict[str, Any]:
        """Return all that a saved key depends on, as plain values that a run folder keeps and compares."""
        params = saved_params(self.strategy)
        options = {name: described_option(value) for name, value in params.items() if name != "seed"}
        return {
            "strategy": {"name": saved_class(self.strategy).__name__, **options},
            "features": list(self.features),
            "classes": None if self.classes is None else list(self.classes),
            "batch_size": self.batch_size,
            "guard": self.guard,
            "delay": self.delay,
            "on_gap": self.on_gap,
            "seed": self.seed,
        }

    @functools.cached_property
    def regression(self) -> bool:
        """Whether numbers are predicted rather than classes."""
        return self.strategy.learner.capabilities.regression

    @functools.cached_property
    def options_digest(self) -> str:
        """A checksum of ``about()``, which distinguishes the states of this learner from those of others."""
        text = json.dumps(self.about(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @functools.cached_property
    def readmitted(self) -> dict[str, int]:
        """``readmit`` with keys as text, as tables show them."""
        return {str(key): sequence for key, sequence in self.readmit.items()}

    def session(self, key: Any) -> Session:
        """Return the session that one key starts with."""
        return self._template.fresh(key_seed(self.seed, key))

    @functools.cached_property
    def _template(self) -> Session:
        strategy = self.strategy.fresh(self.seed)
        return Session(strategy, classes=self.classes, batch_size=self.batch_size, guard=self.guard)

    @functools.cached_property
    def _kept(self) -> KeptModels:
        return KeptModels()

    @functools.cached_property
    def _keeps(self) -> bool:
        """Whether a model after a visit is the same, in all types, as one that is read from its saved state."""
        return self.delay is None and self.strategy.learner.capabilities.state_kind == "arrays"

    @functools.cached_property
    def suits_cells(self) -> bool:
        """Whether keys are saved, and served in one call, as cells."""
        if not self._fits_cells:
            return False
        return is_small(self._template, key_shape(self._template, len(self.features)), self.max_bytes)

    @functools.cached_property
    def _fits_cells(self) -> bool:
        """Whether the models of keys may be saved as cells."""
        return self.delay is None and self.batch_size is not None and suits_cells(self._template)

    @functools.cached_property
    def _cells(self) -> KeyCells:
        """Room to turn a session into a cell, and back."""
        fills, largest = self.on_gap == "fill", self.max_bytes
        return KeyCells(self._template, len(self.features), fills=fills, max_bytes=largest)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: everything but the models that are kept."""
        return {name: value for name, value in vars(self).items() if name not in ("_kept", "_cells")}

    # -------------------------------------------------------------------- visits

    def visit(self, key: Any, state: bytes | None, rows: KeyRows) -> Visit:
        """Predict, then learn, the new rows of a key in the order of their sequence numbers."""
        if rows.X.shape[1] != len(self.features):
            raise ShapeError(f"the rows have {rows.X.shape[1]} columns; there are {len(self.features)} features")
        if self.delay is not None and rows.ids is None:
            raise InputError("late labels (delay) find their rows by id: pass ids")
        summary, serving, means = self._open(key, state)
        new = new_rows(rows, summary.high_water)
        summary = replace(summary, duplicates=summary.duplicates + len(rows) - len(new))
        if len(new):
            summary = replace(summary, high_water=int(new.sequence[-1]))
        served, good = ServedRows(), 0
        if not summary.quarantine:
            filled = new if means is None else means.fill_as_they_come(new, late=self._late)
            serving, served, good, fault = self._take(key, state, serving, filled)
            if fault is not None:
                summary = summary.quarantined(int(new.sequence[good]), fault)
        taken, rest = (new, None) if good == len(new) else new.split(good)
        if means is not None:
            means = means.after(taken.X)
            summary = replace(summary, gaps=summary.gaps + int(find_gaps(taken, late=self._late).sum()))
        if rest is not None:
            serving.refuse(rest if means is None else means.fill(rest, late=self._late), served)
        summary = after_visit(summary, served, serving, taken=good, refused=len(new) - good)
        return self._close(key, summary, serving, means, new, served)

    @property
    def _late(self) -> bool:
        return self.delay is not None

    def _take(
        self, key: Any, state: bytes | None, serving: KeyServing, rows: KeyRows
    ) -> tuple[KeyServing, ServedRows, int, Fault | None]:
        """Learn the rows before the first one that cannot be learned; return how many they are, and what is wrong.

        A bad row leaves no trace: the visit starts again from the saved state, and ends before that row.
        """
        served, first_fault = ServedRows(), None
        good, fault = serving.take(rows, served)
        while fault is not None:
            self._confirm(key, state, rows, fault)
            rows = rows.take(np.arange(good))
            first_fault, serving, served = fault, self._open(key, state)[1], ServedRows()
            good, fault = serving.take(rows, served)
        return serving, served, good, first_fault

    def _confirm(self, key: Any, state: bytes | None, rows: KeyRows, fault: Fault) -> None:
        """Raise the error of a fault again, unless the same rows lead to it a second time.

        An exception that a signal handler or another thread has raised is not the fault of a row.
        """
        if fault.error is not None:
            again = self._open(key, state)[1].take(rows, ServedRows())[1]
            if again is None or type(again.error) is not type(fault.error):
                raise fault.error

    def cell(self, key: Any, state: bytes) -> tuple[KeySummary, SavedCell] | None:
        """Return the summary and the cell of a saved key; None if it cannot be served as a cell.

        A key that may just have been readmitted cannot: its rows would be learned again from a state in quarantine.
        """
        if str(key) in self.readmitted:
            return None
        summary, saved = self._read(state)
        if summary.quarantine:
            return None
        if "cell" in saved:
            return summary, _saved_cell(saved)
        summary, serving, means = self._open(key, state)  # written by an earlier version, or of another form
        found = self._cell_of(serving.session, means)
        return None if found is None else (replace(summary, bytes=found.data.nbytes), found)

    def expire(self, key: Any, state: bytes) -> Visit:
        """Drop a key that has been silent for too long; if it comes again, it starts over."""
        return Visit(b"", [], [], [], [], [], [], replace(self.summary(state), expired=True, bytes=0))

    def summary(self, state: bytes) -> KeySummary:
        """Return the summary of the key with this state."""
        return self._read(state)[0]

    def check_digest(self, saved: State) -> None:
        """Raise StateError if other options wrote the saved entries of a key."""
        if str(saved.get("keyed")) != self.options_digest:
            raise StateError(
                f"the saved state of a key was written with other options ({saved.get('keyed')!r}, now "
                f"{self.options_digest!r}): use the same columns and options, or start a new run",
                entry="keyed",
            )

    def _read(self, state: bytes) -> tuple[KeySummary, dict[str, Any]]:
        """Return the summary and all entries of a saved state; StateError if other options wrote it."""
        saved = from_bytes(state)
        self.check_digest(saved)
        fields = CELL if "cell" in saved else WITH_MEANS if self.on_gap == "fill" else FIELDS
        known = fields.read(saved, columns=len(self.features))
        return replace(known["summary"], bytes=_size(saved)), {**saved, **known}

    def _open(self, key: Any, state: bytes | None) -> Opened:
        """Return the summary, the model and the column means of a key, from its saved state or new."""
        seed = key_seed(self.seed, key)
        kept: Opened | None = self._kept.take(seed, state) if state else None
        if kept is not None:
            return kept
        session = self._template.fresh(seed)
        serving: KeyServing = (
            ImmediateLabels(session, self.features, self.max_bytes)
            if self.delay is None
            else LateLabels(
                session, self.features, self.max_bytes, max_pending=self.max_pending, timeout=float(self.delay)
            )
        )
        fills, columns = self.on_gap == "fill", len(self.features)
        if not state:
            return NEW, serving, ColumnMeans.empty(columns) if fills else None
        summary, saved = self._read(state)
        if "cell" in saved:
            means = self._restore_cell(saved, seed, serving.session)
        else:
            serving.restore(pick("model", saved))
            means = ColumnMeans(np.asarray(saved["means"])) if fills else None
        forgiven = self.readmitted.get(str(key))
        if summary.quarantined_at is not None and forgiven is not None and summary.quarantined_at <= forgiven:
            # A row of the time step that failed may be why it failed, and would make the next one fail too.
            summary = summary.readmitted(serving.session.drop_pending())
        return summary, serving, means

    def _close(
        self,
        key: Any,
        summary: KeySummary,
        serving: KeyServing,
        means: ColumnMeans | None,
        new: KeyRows,
        served: ServedRows,
    ) -> Visit:
        lines = ["".join(json_lines([decision])) for decision in served.decisions]
        summary = replace(summary, digest=chained(summary.digest, lines))
        state = self._entries(summary, serving, means)
        data, summary = to_bytes(state), replace(summary, bytes=_size(state))
        kinds = [",".join(one.kind for one in decision.transitions) for decision in served.decisions]
        sequence = new.sequence.tolist()
        if self._keeps and not summary.quarantine:
            if served.decisions:
                serving.session.journal = Journal()
            self._kept.keep(key_seed(self.seed, key), data, (summary, serving, means))
        return Visit(data, sequence, served.predicted, served.true, served.decided_at, lines, kinds, summary)

    def _entries(self, summary: KeySummary, serving: KeyServing, means: ColumnMeans | None) -> State:
        """Return the saved entries of a key: those of a cell if its model fits into one."""
        cell = self._cell_of(serving.session, means)
        if cell is not None:
            return about_key(self.options_digest, summary) | cell.entries()
        own: State = {} if means is None else {"means": means.totals}
        return about_key(self.options_digest, summary) | own | nest("model", serving.state())

    def _cell_of(self, session: Session, means: ColumnMeans | None) -> SavedCell | None:
        """Return the cell of a session; None if it does not fit into one."""
        if not self.suits_cells:
            return None
        with self._cells.one_slot() as (cells, slot):
            return cells.saved(np.array([slot]))[0] if cells.put(slot, session, means) else None

    def _restore_cell(self, saved: dict[str, Any], seed: int, session: Session) -> ColumnMeans | None:
        """Let a new session continue with the models of a saved cell; return the means of its columns."""
        if not self._fits_cells:
            raise misfit(saved, "cell", "is that of a model in another form than the options make")
        with self._cells.one_slot() as (cells, slot):
            if not cells.load(np.array([slot]), [_saved_cell(saved)], np.array([seed & MASK], np.uint64)).all():
                raise misfit(saved, "classes", "cannot be those of a cell")
            state, means = cells.session_state(slot)
            if state is not None:
                session.restore(state)
            return means


def _saved_cell(saved: Mapping[str, Any]) -> SavedCell:
    """Return the cell among the saved entries of a key."""
    return SavedCell(saved["cell"], saved["classes"], saved.get("n_classes", 0))


def _size(state: State) -> int:
    """Return the bytes of all arrays in a state, without texts, whose length depends on how numbers are written."""
    if "cell" in state:
        return int(np.asarray(state["cell"]).nbytes)
    means = np.asarray(state.get("means", ())).nbytes
    return means + sum(array_bytes(np.asarray(value)) for name, value in state.items() if name.startswith("model."))


def read_summary(saved: Any) -> KeySummary:
    """Return a saved summary; ValueError or TypeError if it is not valid."""
    found = KeySummary(**saved)
    for name, value in vars(found).items():
        kind = type(value)
        if kind not in _KINDS[name] or (kind is int and not -(2**63) < value < 2**63):
            raise ValueError(f"{name} is {value!r}")
    return found


def read_classes(saved: Any) -> tuple[Any, ...]:
    """Return saved classes, which are distinct and of one kind; StateError if they are not."""
    return ClassTargets.from_state({"labels": json.dumps(saved), "closed": False, "limit": -1}).labels


_KINDS: dict[str, tuple[type, ...]] = {
    name: (int, type(None)) if default is None else (float, int) if type(default) is float else (type(default),)
    for name, default in vars(NEW).items()
}
"""Types that each field of a saved summary may have."""
_ABOUT: dict[str, FieldEntry] = {"keyed": Text(), "summary": Json(read_summary)}
FIELDS = Fields(_ABOUT, parts=["model"])
WITH_MEANS = Fields(_ABOUT | {"means": Array(np.float64, (2, "columns"), missing=True)}, parts=["model"])
"""Saved entries of a key, without and with the means by which gaps are filled; the sums may have overflowed."""
CELL = Fields(
    {**_ABOUT, "cell": Array(np.uint8, ("*",)), "classes": Json(read_classes), "n_classes": Whole(TWO + 1, MOST_OWN)},
    optional=["n_classes"],
)
"""Saved entries of a key whose model is a cell."""
