"""Tables to rows of numbers, by a layout that the first batch fixes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf._options import choice, whole
from driftsurf._random import GAMMA, MIX_1, MIX_2
from driftsurf.base import FloatArray, State
from driftsurf.errors import OptionError, SchemaError, ShapeError, StateError
from driftsurf.tables import KINDS, Column, Kind, Table, empty_column, read_table
from driftsurf.validation import listed

__all__ = ["TableEncoder"]

LEAST_SPARE = 8
"""A column of names has at least so many slots for names that come later."""
LEAST_SPARSE = 64
"""Narrower rows are dense: nothing is gained."""
DAYS = "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
FIRST_WEEKDAY = 3
"""1 January 1970 was a Thursday."""

Entry: TypeAlias = "tuple[npt.NDArray[np.int64] | int, FloatArray | float]"
"""At most one value for each row: its slot, one for all or one each, and the value, likewise."""


@dataclass(frozen=True)
class _Part:
    """What a column became: a range of slots that never changes."""

    name: str
    kind: Kind
    first: int
    gaps: bool = False
    """Of a number: whether it has an indicator of its own. Of text: whether it was nothing but gaps."""
    neutral: float = 0.0
    """Of a number: what stands for a gap."""
    words: tuple[str, ...] = ()
    """Of text: the known names, sorted, each with a slot."""
    spare: int = 0
    """Of text: slots for all other names, by hash."""

    @property
    def width(self) -> int:
        """Slots."""
        match self.kind:
            case "text":
                return len(self.words) + self.spare + 1
            case "date":
                return 1 + len(DAYS) + 2 + 1
        return 1 + self.gaps

    @property
    def values_a_row(self) -> int:
        """Values of a usual row that are not zero."""
        return 4 if self.kind == "date" else 1

    def names(self) -> Iterator[str]:
        """What each slot is called."""
        match self.kind:
            case "text":
                yield from (f"{self.name}={word}" for word in self.words)
                yield from (f"{self.name}#{place}" for place in range(self.spare))
                yield f"{self.name}?"
            case "date":
                yield f"{self.name} days"
                yield from (f"{self.name} {day}" for day in DAYS)
                yield from (f"{self.name} hour sin", f"{self.name} hour cos", f"{self.name}?")
            case _:
                yield self.name
                if self.gaps:
                    yield f"{self.name}?"

    def entries(self, column: Column) -> Iterator[Entry]:
        """The values of the column, in rising slots."""
        match self.kind:
            case "text":
                yield self._slots(column), 1.0
            case "date":
                yield from self._date_entries(column)
            case _:
                missing = column.missing()
                yield self.first, np.where(missing, self.neutral, column.values)
                if self.gaps:
                    yield self.first + 1, missing.astype(np.float64)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def _slots(self, column: Column) -> npt.NDArray[np.int64]:
        used = column.used()
        words = [column.words[code] for code in used.tolist()]
        places = np.array([self._places.get(word, -1) for word in words], np.int64)
        strange = np.flatnonzero(places < 0)
        places[strange] = len(self.words) + buckets([words[i] for i in strange.tolist()], self.spare)
        slots = np.empty(len(column.words) + 1, np.int64)
        slots[-1] = len(self.words) + self.spare  # where the code -1 of a gap points to
        slots[used] = places
        return np.asarray(self.first + slots[column.values])

    def _date_entries(self, column: Column) -> Iterator[Entry]:
        missing = column.missing()
        there = (~missing).astype(np.float64)
        since = np.where(missing, np.datetime64(0, "us"), column.values).astype("datetime64[us]").astype(np.int64)
        day, rest = np.divmod(since, 86_400_000_000)
        angle = rest * (2 * np.pi / 86_400_000_000)
        days = since / 86_400_000_000
        yield self.first, np.where(missing, self.neutral, days)
        yield self.first + 1 + (day + FIRST_WEEKDAY) % 7, there
        yield self.first + 8, np.sin(angle) * there
        yield self.first + 9, np.cos(angle) * there
        yield self.first + 10, missing.astype(np.float64)


def buckets(words: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """For each name one of ``count`` slots, the same everywhere and always.

    >>> buckets(["Rome", "Oslo", "Lima"], 8)
    array([2, 1, 5])
    """
    checks = [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words]
    z = np.array(checks, np.uint64) * np.uint64(GAMMA)  # a checksum alone is linear in its text
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return ((z ^ (z >> np.uint64(31))) % np.uint64(count)).astype(np.int64)


@dataclass(frozen=True)
class _Layout:
    parts: tuple[_Part, ...]
    n_features: int
    """Sparse features that are passed on behind the columns."""
    sparse: bool
    shared: int = field(init=False)
    """The slot that says: a number that had no gaps has one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shared", sum(part.width for part in self.parts))

    @property
    def width(self) -> int:
        return self.shared + bool(self.parts) + self.n_features


class TableEncoder:
    """Makes rows of numbers from columns of any kind. ``fit`` on the first batch fixes the layout for good.

    Only the batch that it is fitted on decides, and afterwards each row is encoded by itself: what comes
    later, or how rows are cut into batches, changes nothing. The width never changes, since that of a model
    cannot.

    - A **number** is passed on as it is (learners scale inside). A gap becomes the median of the fitting
      batch; a column that had gaps then has an indicator of its own, all others share the last slot.
    - A **boolean** is 0 or 1, otherwise like a number.
    - A **date** becomes days since 1970 with their fraction, one of seven slots for the weekday, the hour as
      the sine and cosine of its angle on the clock, and an indicator of gaps.
    - **Text** of at most ``max_categories`` names in the fitting batch has a slot for each; other names that come
      later are hashed into as many slots again, and at least 8. Text of more names is hashed into ``n_hashes``
      slots. A gap has a slot of its own. A column without a single value is text, and what comes later is too.
    - **Sparse features** are passed on behind the columns.

    Rows of 64 slots or more come as CSR where that takes at most half of the memory, else dense.

    Parameters
    ----------
    max_categories
        Up to so many names each has a slot.
    n_hashes
        Slots for text of more names.
    categorical
        Columns whose numbers, booleans or dates are names.
    sparse
        True or False decides the form of the rows; "auto" by what is smaller.

    Examples
    --------
    >>> encoder = TableEncoder().fit({"price": [1.5, 2.5], "city": ["Rome", "Oslo"]})
    >>> encoder.feature_names()[:3], encoder.width
    (['price', 'city=Oslo', 'city=Rome'], 13)
    >>> encoder.transform({"price": [None, 9.0], "city": ["Rome", "Lima"]})[:, :3]
    array([[2., 0., 1.],
           [9., 0., 0.]])
    """

    def __init__(
        self,
        *,
        max_categories: int = 32,
        n_hashes: int = 256,
        categorical: Collection[str] = (),
        sparse: bool | Literal["auto"] = "auto",
    ) -> None:
        self.max_categories = max_categories
        self.n_hashes = n_hashes
        self.categorical = categorical
        self.sparse = sparse
        self._layout: _Layout | None = None

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        whole("max_categories", self.max_categories, at_least=1)
        whole("n_hashes", self.n_hashes, at_least=1)
        choice("sparse", self.sparse, (True, False, "auto"))
        if isinstance(self.categorical, str):
            raise OptionError(f"categorical is {self.categorical!r}; give a list of names: [{self.categorical!r}]")

    # -------------------------------------------------------------------- fitting

    @property
    def fitted(self) -> bool:
        """Whether the layout is fixed."""
        return self._layout is not None

    def fit(self, X: Any) -> Self:
        """Fix the layout by these rows, whatever was fitted before."""
        self.check()
        table = read_table(X)
        if not len(table):
            raise ShapeError("Found array with 0 sample(s) while a minimum of 1 is required to fit an encoder.")
        unknown = [name for name in self.categorical if name not in table.columns]
        if unknown:
            raise SchemaError(f"categorical names {listed(unknown)}; the columns are {listed(list(table.columns))}.")
        parts = []
        first = 0
        for name, column in table.columns.items():
            parts.append(self._part(name, column, first))
            first += parts[-1].width
        self._layout = self._laid_out(tuple(parts), 0 if table.features is None else table.features.n_features)
        return self

    def partial_fit(self, X: Any) -> Self:
        """Fit on the first call; later ones check that the table has the columns of the first, and change nothing."""
        if self._layout is None:
            return self.fit(X)
        self._columns(read_table(X), self._layout)
        return self

    def _part(self, name: str, column: Column, first: int) -> _Part:
        if name in self.categorical:
            column = column.as_text()
        missing = column.missing()
        match column.kind:
            case "text":
                words = tuple(sorted({column.words[code] for code in column.used().tolist()}))
                if len(words) > self.max_categories:
                    return _Part(name, "text", first, spare=self.n_hashes)
                return _Part(name, "text", first, not words, words=words, spare=max(LEAST_SPARE, len(words)))
            case "date":
                days = column.values[~missing].astype("datetime64[us]").astype(np.int64) / 86_400_000_000
                return _Part(name, "date", first, neutral=_median(days))
        return _Part(name, column.kind, first, bool(missing.any()), _median(column.values[~missing]))

    def _laid_out(self, parts: tuple[_Part, ...], n_features: int) -> _Layout:
        sparse = self.sparse
        if sparse == "auto":
            filled = sum(part.values_a_row for part in parts)
            width = sum(part.width for part in parts) + 1
            sparse = n_features > 0 or (width >= LEAST_SPARSE and 2 * (12 * filled + 8) <= 8 * width)
        return _Layout(parts, n_features, bool(sparse))

    # -------------------------------------------------------------------- encoding

    @property
    def layout(self) -> _Layout:
        """What ``fit`` fixed."""
        if self._layout is None:
            raise StateError("this encoder has no layout yet: give it the first batch with fit or partial_fit.")
        return self._layout

    @property
    def width(self) -> int:
        """Columns of the encoded rows."""
        return self.layout.width

    def feature_names(self) -> list[str]:
        """What the columns of the encoded rows are called: "city=Rome", "city#3" (hashed), "city?" (a gap)."""
        layout = self.layout
        names = [name for part in layout.parts for name in part.names()]
        return names + ["other?"] * bool(layout.parts) + [f"feature {place}" for place in range(layout.n_features)]

    def transform(self, X: Any) -> Any:
        """Rows of numbers: a float64 array, or ``scipy.sparse.csr_array``. Changes nothing."""
        layout = self.layout
        table = read_table(X)
        columns = self._columns(table, layout)
        entries = [entry for part, column in zip(layout.parts, columns, strict=True) for entry in part.entries(column)]
        if layout.parts:
            lonely = [
                column.missing()
                for part, column in zip(layout.parts, columns, strict=True)
                if part.kind in ("number", "boolean") and not part.gaps
            ]
            if lonely:
                entries.append((layout.shared, np.any(lonely, axis=0).astype(np.float64)))
        if not layout.sparse:
            rows = _dense(entries, len(table), layout.width - layout.n_features)
            if table.features is None:
                return rows
            return np.hstack([rows, _scipy(table).toarray()])
        from scipy import sparse

        rows = _csr(entries, len(table), layout.width - layout.n_features)
        if table.features is None:
            return rows
        return sparse.csr_array(sparse.hstack([rows, _scipy(table)], format="csr")) if layout.parts else _scipy(table)

    def fit_transform(self, X: Any) -> Any:
        """``fit``, then ``transform``."""
        table = read_table(X)
        return self.fit(table).transform(table)

    def _columns(self, table: Table, layout: _Layout) -> list[Column]:
        """The columns in the order of the layout, of its kinds, or SchemaError."""
        names = {part.name for part in layout.parts}
        added = [name for name in table.columns if name not in names]
        removed = [part.name for part in layout.parts if part.name not in table.columns]
        columns, retyped = [], []
        for part in layout.parts:
            column = table.columns.get(part.name)
            if column is not None and (part.name in self.categorical or (part.kind == "text" and part.gaps)):
                column = column.as_text()
            if column is not None and not _fits(column, part.kind):
                if not column.missing().all():
                    retyped.append(f"{part.name!r} from {part.kind} to {column.kind}")
                column = empty_column(part.kind, len(column))
            if column is not None:
                columns.append(column)
        width = 0 if table.features is None else table.features.n_features
        faults = [
            f"{what}: {', '.join(which) if what == 'retyped' else listed(which)}"
            for what, which in (("added", added), ("removed", removed), ("retyped", retyped))
            if which
        ]
        if width != layout.n_features:
            faults.append(f"{width} sparse features instead of {layout.n_features}")
        if faults:
            raise SchemaError(
                f"the columns differ from those of the first batch ({'; '.join(faults)}). "
                "Give the same columns (any order), or fit a new encoder and model."
            )
        return columns

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """The layout and the options, as flat entries."""
        layout = self.layout
        parts = [[p.name, p.kind, p.gaps, p.neutral.hex(), list(p.words), p.spare] for p in layout.parts]
        params = {
            "max_categories": int(self.max_categories),
            "n_hashes": int(self.n_hashes),
            "categorical": sorted(self.categorical),
            "sparse": self.sparse,
        }
        return {
            "params": json.dumps(params, sort_keys=True),
            "parts": json.dumps(parts),
            "n_features": layout.n_features,
            "sparse": layout.sparse,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TableEncoder:
        """The encoder that gave ``state``."""
        try:
            encoder = cls(**json.loads(state["params"]))
            encoder.check()
            parts = []
            first = 0
            for name, kind, gaps, neutral, words, spare in json.loads(state["parts"]):
                value = float.fromhex(neutral)
                if not (isinstance(name, str) and kind in KINDS and type(gaps) is bool and np.isfinite(value)):
                    raise ValueError(f"the part {name!r} is none")
                if kind == "text" and (
                    whole("spare", spare, at_least=1) == 0 or not all(type(w) is str for w in words)
                ):
                    raise ValueError(f"the names of {name!r} are none")
                parts.append(_Part(name, kind, first, gaps, value, tuple(words), spare))
                first += parts[-1].width
            if type(state["sparse"]) is not bool or len({part.name for part in parts}) < len(parts):
                raise ValueError("its entries do not fit together")
            features = whole("n_features", state["n_features"], at_least=0 if parts else 1)
            encoder._layout = _Layout(tuple(parts), features, state["sparse"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StateError(f"this is no saved encoder ({error}): it is another object's, or incomplete") from error
        return encoder


def _fits(column: Column, kind: Kind) -> bool:
    return column.kind == kind or {column.kind, kind} == {"number", "boolean"}


def _median(values: npt.NDArray[Any]) -> float:
    if not len(values):
        return 0.0
    with np.errstate(over="ignore"):
        middle = float(np.median(values))
    return middle if np.isfinite(middle) else 2.0 * float(np.median(values / 2.0))  # the sum of two was too large


def _dense(entries: list[Entry], count: int, width: int) -> FloatArray:
    rows = np.zeros((count, width))
    everyone = np.arange(count)
    for slots, values in entries:
        rows[everyone if isinstance(slots, np.ndarray) else slice(None), slots] = values
    return rows


def _csr(entries: list[Entry], count: int, width: int) -> Any:
    """Rows without zeros; entries come in rising slots, so each row is sorted."""
    from scipy import sparse

    slots = np.empty((count, len(entries)), np.int32)
    values = np.empty((count, len(entries)))
    for place, (slot, value) in enumerate(entries):
        slots[:, place] = slot
        values[:, place] = value
    there = values != 0.0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return sparse.csr_array((values[there], slots[there], indptr), shape=(count, width))


def _scipy(table: Table) -> Any:
    from scipy import sparse

    features = table.features
    assert features is not None
    a, b = int(features.indptr[0]), int(features.indptr[-1])
    parts = features.data[a:b], features.indices[a:b], features.indptr - a
    return sparse.csr_array(parts, shape=(len(table), features.n_features))
