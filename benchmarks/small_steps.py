"""Small time steps: what a call of ``partial_fit`` costs, whatever it learns, compared with scikit-learn and river.

Nothing is warmed up beyond the first half of each stream, and models have their default options.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import SGDClassifier

from benchmarks.harness import Contender, Contest
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, recommended

SHAPES = (32, 3), (32, 10), (100, 3), (100, 10), (100, 54), (1_000, 3), (1_000, 54)
"""Rows of a step, and columns."""
KINDS_SHAPES = (100, 3), (32, 10)
"""Shapes of the steps for which kinds of labels and of rows are compared."""
BUFFERED = 100
"""Rows of a time step when they come one by one."""
ANCHOR = "scikit-learn SGDClassifier.partial_fit"
PARTS = 5
"""Parts of a round, in which the contenders take turns."""

Steps = Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each shape of a step, and one for single rows that are buffered."""
    try:
        river: Any = importlib.import_module("river.linear_model")
    except ImportError as error:
        note(f"river: skipped, {error.name} is not installed (see benchmarks/README.md).")
        river = None
    for rows, columns in SHAPES:
        steps = _steps(rows, columns, 20 if quick else 2_000 if rows < 1_000 else 300)
        contenders = [
            _ours("driftsurf partial_fit", steps, _partial_fit),
            _ours("driftsurf test_then_train", steps, _test_then_train),
            _ours("driftsurf partial_fit, no guard", steps, _partial_fit, guard=None),
            _sklearn(steps),
        ]
        if river is not None:
            contenders.append(_river(river.LogisticRegression, steps, columns))
        yield Contest(f"steps of {rows:,} rows, {columns} columns", "step", ANCHOR, contenders, PARTS)
    for rows, columns in KINDS_SHAPES:
        yield _kinds_of_data(rows, columns, 20 if quick else 1_000)
    yield _single_rows(500 if quick else 5_000)
    yield _single_steps(300 if quick else 3_000)


def _steps(rows: int, columns: int, count: int) -> Steps:
    """Return the batches of a stream without noise: after a drift at the start, two models learn to the end."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, rows, columns))
    y = (X[:, :, 0] > 0).astype(np.int64)
    y[:6] = 1 - y[:6]
    return list(zip(X, y, strict=True))


def _model(steps: Steps, make: Callable[..., Any] = DriftSurfClassifier, **options: Any) -> Any:
    """Return a model that has learned the first half of the steps, which are not timed."""
    model = make(random_state=0, **options)
    for X, y in steps[: len(steps) // 2]:
        model.partial_fit(X, y)
    return model


def _in_parts(
    name: str, make: Callable[[], Any], run: Callable[[Any, Steps], None], steps: Steps, remark: Any = None
) -> Contender:
    """Return a contender that takes a fifth of these steps each time it is run, one after the other."""
    size = len(steps) // PARTS

    def prepare() -> tuple[Any, Iterator[Steps]]:
        return make(), iter([steps[first : first + size] for first in range(0, PARTS * size, size)])

    def timed(prepared: tuple[Any, Iterator[Steps]]) -> Any:
        model, parts = prepared
        run(model, next(parts))
        return model

    return Contender(name, PARTS * size, prepare, timed, remark)


def _ours(name: str, steps: Steps, run: Callable[[Any, Steps], None], **options: Any) -> Contender:
    later = steps[len(steps) // 2 :]

    def remark(model: Any) -> str:
        models = np.mean([len(decision.models) for decision in list(model.journal_)[-len(later) :]])
        return f"{models:.1f} models, {len(model.journal_.transitions)} transitions"

    return _in_parts(name, lambda: _model(steps, **options), run, later, remark)


def _partial_fit(model: Any, steps: Steps) -> None:
    for X, y in steps:
        model.partial_fit(X, y)


def _test_then_train(model: Any, steps: Steps) -> None:
    for X, y in steps:
        model.test_then_train(X, y)


def _sklearn(steps: Steps) -> Contender:
    later = steps[len(steps) // 2 :]

    def prepare() -> Any:
        return SGDClassifier(loss="log_loss", random_state=0).partial_fit(*steps[0], classes=(0, 1))

    return _in_parts(ANCHOR, prepare, _partial_fit, later)


def _river(make: Callable[[], Any], steps: Steps, columns: int) -> Contender:
    """Return a contender that learns some rows one by one; a step costs as much as its rows."""
    rows = len(steps[0][1])
    some = PARTS * max(1, 100 // rows)
    dictionaries = [
        [(dict(enumerate(x.tolist())), bool(label)) for x, label in zip(X, y, strict=True)] for X, y in steps[:some]
    ]

    def run(model: Any, steps: Any) -> None:
        for step in steps:
            for x, label in step:
                model.learn_one(x, label)

    return _in_parts("river learn_one, row by row", make, run, dictionaries)  # type: ignore[arg-type]


def _single_rows(count: int) -> Contest:
    """Return the contest for single rows: appended to a buffer, of which every hundredth row makes a time step."""
    (X, y), *_ = _steps(2 * count, 10, 1)
    singles = [(X[k : k + 1], y[k : k + 1].tolist()) for k in range(2 * count)]

    def prepare(size: int) -> Callable[[], DriftSurfClassifier]:
        def made() -> DriftSurfClassifier:
            model = DriftSurfClassifier(batch_size=size, random_state=0)
            _partial_fit(model, singles[:count])
            return model

        return made

    def run(model: DriftSurfClassifier) -> None:
        _partial_fit(model, singles[count:])

    names = {BUFFERED: f"buffered, and every {BUFFERED} rows a step", 10 * count: "buffered only"}
    contenders = [Contender(name, count, prepare(size), run) for size, name in names.items()]
    return Contest("single rows of 10 columns through partial_fit([x], [y])", "row", "buffered only", contenders)


def _kinds_of_data(rows: int, columns: int, count: int) -> Contest:
    """Return the contest of the same steps with labels and rows of several kinds."""
    steps = _steps(rows, columns, count)
    words, names = np.array(["no", "yes"]), [f"x{number}" for number in range(columns)]

    def with_labels(change: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]) -> Steps:
        return [(X, change(X, y)) for X, y in steps]

    kinds: dict[str, Steps] = {
        "integer labels": steps,
        "text labels": with_labels(lambda X, y: words[y]),
        "boolean labels": with_labels(lambda X, y: y == 1),
        "labels in a list": with_labels(lambda X, y: y.tolist()),
        "three classes": with_labels(lambda X, y: y + (X[:, 0] > 1.0)),
    }
    contenders = [_ours(name, kind, _partial_fit) for name, kind in kinds.items()]
    contenders.append(_ours("classes= on every call", steps, _partial_fit_with_classes))
    numbers = with_labels(lambda X, y: 2.0 * X[:, 0] + y)
    contenders.append(_ours("regression", numbers, _partial_fit, make=DriftSurfRegressor))
    try:
        pandas: Any = importlib.import_module("pandas")
        frames = [(pandas.DataFrame(X, columns=names), y) for X, y in steps]
        contenders.append(_ours("a pandas frame", frames, _partial_fit))
    except ImportError:
        pass
    return Contest(f"kinds of data, {rows:,} rows, {columns} columns", "step", "integer labels", contenders, PARTS)


def _partial_fit_with_classes(model: Any, steps: Steps) -> None:
    classes = [0, 1]
    for X, y in steps:
        model.partial_fit(X, y, classes=classes)


def _single_steps(count: int) -> Contest:
    """Return the contest for rows one at a time, each of which is predicted and then learned as a step of its own."""
    (X, y), *_ = _steps(2 * count, 10, 1)
    singles = [(X[k : k + 1], y[k : k + 1]) for k in range(2 * count)]

    def contender(name: str, make: Callable[[], Any], share: int) -> Contender:
        few = count // share

        def prepare() -> Any:
            model = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _test_then_train(model, singles[:few])
            return model

        return _in_parts(name, prepare, _test_then_train, singles[count : count + few])

    kinds: dict[str, tuple[Callable[[], Any], int]] = {
        "DriftSurfClassifier()": (lambda: DriftSurfClassifier(random_state=0), 1),
        'recommended("linear")': (lambda: recommended("linear", random_state=0), 1),
        'recommended("light")': (lambda: recommended("light", random_state=0), 4),
        "recommended()": (lambda: recommended(random_state=0), 8),
    }
    contenders = [contender(name, make, share) for name, (make, share) in kinds.items()]
    return Contest(
        "rows one at a time, 10 columns, through test_then_train", "row", "DriftSurfClassifier()", contenders, PARTS
    )
