"""The options of a keyed run, defined once for Python, the command line, TOML files and the documentation.

This module imports nothing heavy, so that ``driftsurf --help`` can list the options quickly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from driftsurf.core.options import choice, option, parse_label
from driftsurf.errors import Option, OptionError

if TYPE_CHECKING:
    from driftsurf.core.contracts import Strategy
    from driftsurf.keyed.visit import KeyedLearner

OnGap: TypeAlias = Literal["fill", "quarantine"]
ON_GAP: tuple[OnGap, ...] = get_args(OnGap)
Share: TypeAlias = Literal["default", "light", "linear", "none"]
SHARES: tuple[Share, ...] = get_args(Share)
SHARED_MODELS: Final[Mapping[str, str]] = {
    "default": "recommended",
    "light": "recommended-light",
    "linear": "recommended-linear",
}
"""The model that all keys share, by choice, and its name elsewhere."""
NO_SHARE: Final = Option("share", "none")
DTYPE: Final = "float32"
"""The type of the rows that a key keeps by default."""
BUCKETS: Final = 256
"""Buckets of keys in Spark's state by default."""
FEWEST_ROWS, MOST_ROWS, ROW_BYTES = 128, 2048, 2**18
"""Rows that a key keeps by default, at least and at most, and the bytes that they may take."""
LEAST_BYTES, MODELS_BYTES = 2**22, 2**10
"""Bytes that the state of a key may take at least, and those that its models may take for each column."""


def usual_rows(n_features: int, n_classes: int = 2) -> int:
    """Return how many rows a key keeps by default: 2,048, with many columns as many as 256 kB hold, but at least 128.

    A row takes 4 bytes a column, 16 for label and weight, and 16 for its gradients in two models, for each class if
    there are three or more.

    >>> [usual_rows(n_features) for n_features in (10, 24, 100, 1000)], usual_rows(10, n_classes=20)
    ([2048, 2048, 606, 128], 697)
    """
    outputs = n_classes if n_classes > 2 else 1
    return max(FEWEST_ROWS, min(MOST_ROWS, ROW_BYTES // (4 * n_features + 16 + 16 * outputs)))


@dataclass(frozen=True, kw_only=True)
class KeyOptions:
    """What a run with a learner for each key learns from, and when a key is left out."""

    features: tuple[str, ...] = option(
        (),
        "Columns of numbers or text to learn from, separated by commas.  [default: all other columns of numbers]",
        metavar="COLUMN,...",
        commas=True,
    )
    classes: tuple[Any, ...] | None = option(
        None,
        "The labels, separated by commas.  [default: those that appear]",
        metavar="LABEL,...",
        commas=True,
        parse=parse_label,
    )
    max_bytes: int | None = option(
        None,
        "Largest state of a key in bytes; a key above it is put in quarantine.  [default: 4 MiB; more for wide tables]",
        at_least=1,
    )
    readmit: Mapping[Any, int] = option(
        {},
        "Readmit a key that is in quarantine for a fault in this row or an earlier one.",
        metavar="KEY=SEQUENCE",
        pairs=True,
        parse=int,
    )
    share: Share | None = option(
        None,
        "What keys learn together: a model of all rows (default, light or linear), from which each key learns how it "
        "differs; or none, so that each key learns alone.  [default: default; none on Spark, with --delay, and if the "
        "model of keys is named]",
        choices=SHARES,
    )
    on_gap: OnGap = option(
        "fill", "Missing cells: fill them with the key's mean so far, or put the key in quarantine.", choices=ON_GAP
    )


@dataclass(frozen=True, kw_only=True)
class KeyedOptions(KeyOptions):
    """How every key of a keyed run is learned, as plain values.

    :meth:`learner` turns them into a :class:`~driftsurf.keyed.KeyedLearner`, whose parameters explain most of them.
    ``step_size``, ``l2``, ``threshold``, ``reactive_length``, ``significance`` and ``max_rows`` are for the default
    strategy, DriftSurf around logistic regression (softmax regression for three or more classes, linear regression for
    numbers); ``strategy`` replaces it by any other.

    Examples
    --------
    >>> learner = KeyedOptions(batch_size=16, threshold=0.2).learner(["price", "stock"])
    >>> learner.batch_size, learner.features, learner.strategy.threshold
    (16, ('price', 'stock'), 0.2)
    """

    drop: tuple[str, ...] = option((), "Columns to leave out of the features.", flag=None, repeated=True)
    batch_size: int | None = option(
        32, "Rows of a key that make a time step; None (epoch) for the rows of each epoch.", flag=None
    )
    delay: float | None = option(
        None, "How much later than its row a label may come, by id, in units of the sequence.", flag=None
    )
    max_pending: int = option(1000, "Rows of a key that wait for their labels at most.", flag=None)
    strategy: Strategy | None = field(default=None)
    step_size: float | Literal["auto"] = option(
        "auto", 'Size of a gradient step; "auto" also scales the columns.', flag=None
    )
    l2: float = option(1e-4, "Strength of the L2 penalty.", flag=None)
    threshold: float = option(0.1, "Rise of the risk that is a sign of drift.", flag=None)
    reactive_length: int = option(5, "Steps for which a new model is tested.", flag=None)
    significance: float = option(
        1.0, "Standard errors by which a new model must lead to take over; 0 is the paper's rule.", flag=None
    )
    max_rows: int | None = option(
        None,
        "Rows that a key keeps to train on.  [default: 2,048; as many as 256 kB hold, at least 128]",
        flag=None,
        at_least=1,
    )
    seed: int = option(0, "Seed of all random numbers.", flag=None)

    def learner(self, features: Sequence[str], *, regression: bool = False) -> KeyedLearner:
        """Return the keyed learner for these columns; OptionError if an option cannot be used.

        ``regression`` decides what the default strategy predicts: numbers, or classes.
        """
        from driftsurf.keyed.visit import KeyedLearner

        strategy = self._default_strategy(regression, len(features)) if self.strategy is None else self.strategy
        made = KeyedLearner(
            strategy=strategy,
            features=tuple(features),
            classes=self.classes,
            batch_size=self.batch_size,
            delay=self.delay,
            max_pending=self.max_pending,
            max_bytes=_usual_bytes(strategy, len(features)) if self.max_bytes is None else self.max_bytes,
            readmit=self.readmit,
            on_gap=self.on_gap,
            seed=self.seed,
        )
        if self.shares is not None:
            made = self._sharing(made, self.shares)
        if self.features and self.drop:
            raise OptionError("features and drop are both set: name the columns to learn from, or those to leave out")
        if self.strategy is not None:
            self._check_default_strategy_options()
        made.check()
        return made

    @property
    def shares(self) -> Share | None:
        """The model that keys share; None if each learns alone."""
        if self.share is not None:
            choice("share", self.share, SHARES)
        return None if self.share == "none" else self.share

    def _sharing(self, alone: KeyedLearner, share: Share) -> KeyedLearner:
        """Return the learner of keys that share a model."""
        from driftsurf.keyed.sharing import SharingLearner

        for name in ("strategy", "delay", "batch_size"):
            if getattr(self, name) != getattr(KeyedOptions, name):
                raise OptionError(Option(name), " is for keys that learn alone; leave it out, or set ", NO_SHARE)
        return SharingLearner(**{one.name: getattr(alone, one.name) for one in fields(alone)}, share=share)

    def rows_kept(self, n_features: int) -> int:
        """Return how many rows a key keeps."""
        return usual_rows(n_features, len(self.classes or ())) if self.max_rows is None else self.max_rows

    def _check_default_strategy_options(self) -> None:
        """Raise OptionError if an option is set that only the default strategy has."""
        default, own = KeyedOptions(), ("step_size", "l2", "threshold", "reactive_length", "significance", "max_rows")
        names = [name for name in own if getattr(self, name) != getattr(default, name)]
        if names:
            raise OptionError(f"{names[0]} is an option of the default strategy, but a strategy is given: set it there")

    def _default_strategy(self, regression: bool, n_features: int) -> Strategy:
        from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
        from driftsurf.strategies import DriftSurf

        many = self.classes is not None and len(self.classes) > 2
        kind = LinearRegression if regression else SoftmaxRegression if many else LogisticRegression
        learner = kind(step_size=self.step_size, l2=self.l2)
        return DriftSurf(
            learner,
            threshold=self.threshold,
            reactive_length=self.reactive_length,
            significance=self.significance,
            max_rows=self.rows_kept(n_features),
            dtype=DTYPE,
        )


def _usual_bytes(strategy: Strategy, n_features: int) -> int:
    """Return the largest state of a key by default: 4 MiB, or twice the rows and the models that a key keeps."""
    from driftsurf.core.abilities import RowBounded

    rows = (strategy.max_rows or 0) if isinstance(strategy, RowBounded) else 0
    return max(LEAST_BYTES, 2 * rows * (8 * n_features + 48) + MODELS_BYTES * n_features)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The engine of a keyed run, and its options.

    ``engine`` and ``ttl`` are for every engine. Each other field is passed to the engine if it was given, as the
    constructor argument of the same name; an engine without that argument refuses it.

    Examples
    --------
    >>> from driftsurf.runs import RunOptions
    >>> options = RunOptions.of(label="sold", key="shop", sequence="day", engine="spark", master="local[4]")
    >>> options.master
    'local[4]'
    >>> options.given("engine")
    {'engine': 'spark', 'master': 'local[4]'}
    """

    engine: str = option("local", "Engine of the run: local (this process), spark, or one of another package.")
    ttl: float | None = option(
        None, "Drop keys without a new row for longer than this, in units of the sequence.", above=0.0
    )
    master: str | None = option(None, "Where Spark runs: local[4], spark://host:7077, yarn ...", runs_code="always")
    partitions: int | None = option(None, "Partitions of Spark's state; fixed for the life of a run.", at_least=1)
    buckets: int | None = option(
        None, "Buckets of keys in Spark's state, 256 by default; fixed for the life of a run.", at_least=1
    )
    rebucket: int | None = option(
        None, "Resume the run with this number of buckets, whatever it had before.", at_least=1
    )
    epoch: int | None = option(
        None, "Size of an epoch: rows (local, 100,000 by default) or files (Spark, all by default).", at_least=1
    )
