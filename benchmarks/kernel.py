"""Nanoseconds per gradient step: the compiled loops of driftsurf compared with the same loops in C."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from benchmarks.anchor import Anchor, Loop, build
from benchmarks.harness import Contender, Contest
from driftsurf.core.contracts import CSR
from driftsurf.native import linear

COLUMNS = 3, 10, 54
NARROW_COLUMNS = 3, 10, 16, 54
"""Numbers of columns of two models that learn in one loop."""
ROWS = 1_000, 100_000, 500_000
CLASSES, CLASSES_COLUMNS = (3, 10), (10, 54)
WIDE_COLUMNS, WIDE_ROWS = 679, 20_000
EPOCHS = 3
SPARSE_ROWS, SPARSE_COLUMNS, SPARSE_NONZEROS = 100_000, 47_000, 75
MU = 1e-4
CHECKED_STEPS = 100, 2_000, 20_000
"""Numbers of steps after which loops are compared; also few, since SAGA reaches the same optimum by different ways."""
CHECKED_MU = 1e-2
"""Large enough to show in the result, and for the sparse loop to put its weights together on the way."""


@dataclass(frozen=True)
class Problem:
    """Rows as a kernel takes them, a random order, and the shape of a model."""

    rows: tuple[npt.NDArray[Any], ...]
    order: npt.NDArray[np.int64]
    width: int
    """Number of weights, including the intercept."""
    eta: float

    @property
    def n_rows(self) -> int:
        """Number of rows in the sample set."""
        return len(self.rows[-1])

    def float32(self) -> Problem:
        """Return the problem with float32 rows of the same values."""
        return Problem((self.rows[0].astype(np.float32), *self.rows[1:]), self.order, self.width, self.eta)

    @property
    def frame(self) -> tuple[npt.NDArray[Any], ...]:
        """Frame with a different gain for each column and without centres, which the C loops do not support."""
        return np.linspace(0.5, 1.5, self.width), np.zeros(self.width), np.zeros(0, np.int64)

    def model(self, *, drawn: bool) -> tuple[npt.NDArray[np.float64], ...]:
        """Return a model with weights 0, whose rows were all drawn before (with gradient 0), or never."""
        return np.zeros(self.width), np.zeros(self.width), np.full(self.n_rows, 0.0 if drawn else np.nan)


@dataclass(frozen=True)
class MulticlassProblem(Problem):
    """Problem with several classes, and as many outputs."""

    outputs: int

    def model(self, *, drawn: bool) -> tuple[npt.NDArray[np.float64], ...]:
        """Return a model with weights 0 for each output."""
        shape = self.outputs, self.width
        return np.zeros(shape), np.zeros(shape), np.full((self.n_rows, self.outputs), 0.0 if drawn else np.nan)


def dense(n_rows: int, n_columns: int, steps: int) -> Problem:
    """Return normal rows, rounded so that float32 represents them exactly."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns), np.float32).astype(np.float64)
    y = (X[:, 0] + rng.standard_normal(n_rows) > 0).astype(np.float64)
    weight = rng.uniform(0.5, 1.5, n_rows)
    return Problem((X, y, weight), rng.integers(n_rows, size=steps), n_columns + 1, 0.4 / (n_columns + 1))


def classes(n_rows: int, n_columns: int, outputs: int, steps: int) -> MulticlassProblem:
    """Return the rows of ``dense``; the class is the index of the largest of as many noisy columns."""
    one = dense(n_rows, n_columns, steps)
    X, _, weight = one.rows
    noise = np.random.default_rng(1).standard_normal((n_rows, outputs))
    y = (X[:, :outputs] + noise).argmax(axis=1).astype(np.float64)
    return MulticlassProblem((X, y, weight), one.order, one.width, one.eta, outputs)


def sparse(n_rows: int, steps: int) -> Problem:
    """Return rows of unit length with random non-zeros, one in each of equal ranges of columns."""
    rng = np.random.default_rng(0)
    stretch = SPARSE_COLUMNS // SPARSE_NONZEROS
    shape = n_rows, SPARSE_NONZEROS
    columns = np.arange(SPARSE_NONZEROS) * stretch + rng.integers(stretch, size=shape)
    data = np.full(n_rows * SPARSE_NONZEROS, 1.0 / np.sqrt(SPARSE_NONZEROS))
    indptr = np.arange(n_rows + 1, dtype=np.int64) * SPARSE_NONZEROS
    y = (columns.sum(axis=1) % 2).astype(np.float64)
    rows = data, columns.ravel().astype(np.int32), indptr, y, rng.uniform(0.5, 1.5, n_rows)
    return Problem(rows, rng.integers(n_rows, size=steps), SPARSE_COLUMNS + 1, 0.2)


def saga(name: str, problem: Problem, loop: Loop) -> Contender:
    """Return a SAGA loop over rows that have all been drawn before, like most steps of a long run."""

    frame = problem.frame

    def run(model: Any) -> int:
        return loop(problem.rows, problem.order, model, problem.n_rows, problem.eta, MU, frame, None)

    return Contender(name, len(problem.order), lambda: problem.model(drawn=True), run)


def softmax(rows: Any, order: Any, model: Any, drawn: int, eta: float, mu: float, frame: Any, _: None) -> int:
    """Call the loop for several outputs with the softmax loss and the arguments of the loop for one output."""
    loss = linear.SOFTMAX, 0.0, 0.0, np.inf
    X, y, weight = rows
    return linear.multi_saga(X, y, weight, order, model, drawn, eta, mu, frame, loss, len(model[0]))


def saga_dense(rows: Any, *arguments: Any) -> int:
    """Call the loop for one output as the anchors are called."""
    return linear.saga(*rows, *arguments)


def saga_csr(rows: Any, *arguments: Any) -> int:
    """Call the loop for CSR rows, given as their arrays."""
    data, indices, indptr, y, weight = rows
    return linear.saga(CSR(data, indices, indptr, SPARSE_COLUMNS), y, weight, *arguments)


def sgd_dense(rows: Any, *arguments: Any) -> None:
    """Call the loop of SGD."""
    linear.sgd(*rows, *arguments)


def sgd(name: str, problem: Problem, loop: Callable[..., Any]) -> Contender:
    """Return an SGD loop."""

    frame = problem.frame

    def run(w: Any) -> None:
        loop(problem.rows, problem.order, w, problem.eta, MU, frame, None)

    return Contender(name, len(problem.order), lambda: np.zeros(problem.width), run)


def scikit_learn(problem: Problem) -> Contender:
    """Return scikit-learn's SAGA, with a step for each row and epoch, including its preparation."""
    X, y, weight = problem.rows

    def run(model: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has not converged
            model.fit(X, y, weight)

    def make() -> Any:
        return LogisticRegression(solver="saga", max_iter=EPOCHS, tol=1e-12, C=1.0 / (MU * problem.n_rows))

    return Contender(f"scikit-learn LogisticRegression(saga), {EPOCHS} epochs", EPOCHS * problem.n_rows, make, run)


def agree(problem: Problem, loop: Loop, reference: Problem, reference_loop: Loop) -> None:
    """Raise unless two SAGA loops do the same arithmetic, from the first draw of each row on."""
    for steps in CHECKED_STEPS:
        mine, theirs = problem.model(drawn=False), reference.model(drawn=False)
        ends = [
            run(task.rows, task.order[:steps], model, 0, task.eta, CHECKED_MU, task.frame, None)
            for run, task, model in ((loop, problem, mine), (reference_loop, reference, theirs))
        ]
        _close(mine, theirs)
        if ends[0] != ends[1]:
            raise AssertionError(f"rows drawn: {ends[0]} and {ends[1]}")


def agree_sgd(problem: Problem, loop: Callable[..., Any], reference: Callable[..., Any]) -> None:
    """Raise unless two SGD loops do the same arithmetic."""
    for steps in CHECKED_STEPS:
        mine, theirs = np.zeros(problem.width), np.zeros(problem.width)
        for run, w in ((loop, mine), (reference, theirs)):
            run(problem.rows, problem.order[:steps], w, problem.eta, CHECKED_MU, problem.frame, None)
        _close((mine,), (theirs,))


def _close(mine: tuple[npt.NDArray[Any], ...], theirs: tuple[npt.NDArray[Any], ...]) -> None:
    """Raise unless arrays agree to 1e-6 of their largest value; NaN, a row never drawn, must match NaN."""
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.nanmax(np.abs(other)))


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each shape of rows, one at a time in memory."""
    strict, relaxed, single = build(), build(relaxed=True), build("float", relaxed=True)
    if strict is None or relaxed is None or single is None:
        note("C anchors: skipped, no compiler; the anchor is driftsurf's own loop.")
        strict = relaxed = single = None
    for n_columns in COLUMNS:
        for n_rows in ROWS[: 2 if quick else 3]:
            steps = (400_000 if n_columns > 10 else 1_000_000) // (10 if quick else 1)
            problem = dense(n_rows, n_columns, steps)
            where = f"{n_columns} columns, {n_rows:,} rows"
            yield _saga_dense(f"saga_dense, {where}", problem, strict, relaxed, single)
            yield _sgd_dense(f"sgd_dense, {where}", problem, strict, relaxed)
    problem = dense(WIDE_ROWS // (10 if quick else 1), WIDE_COLUMNS, 40_000 // (10 if quick else 1))
    where = f"{WIDE_COLUMNS} columns, {problem.n_rows:,} rows"
    yield _saga_dense(f"saga_dense, {where}", problem, strict, relaxed, single)
    for outputs, n_columns in itertools.product(CLASSES, CLASSES_COLUMNS):
        for n_rows in ROWS[:2]:
            task = classes(n_rows, n_columns, outputs, 200_000 // (10 if quick else 1))
            where = f"{outputs} classes, {n_columns} columns, {n_rows:,} rows"
            yield _against_c(f"softmax, {where}", task, softmax, Anchor.saga_softmax, strict, relaxed)
    for n_columns in NARROW_COLUMNS:
        for n_rows in ROWS[:2]:
            problem = dense(n_rows, n_columns, 400_000 // (10 if quick else 1))
            yield _two_models(f"two models, {n_columns} columns, {n_rows:,} rows", problem)
    problem = sparse(SPARSE_ROWS // (10 if quick else 1), 100_000 // (10 if quick else 1))
    where = f"{SPARSE_COLUMNS:,} columns, {SPARSE_NONZEROS} non-zeros a row, {problem.n_rows:,} rows"
    yield _against_c(f"saga_csr, {where}", problem, saga_csr, Anchor.saga_csr, strict, relaxed)


def _saga_dense(
    title: str, problem: Problem, strict: Anchor | None, relaxed: Anchor | None, single: Anchor | None
) -> Contest:
    half = problem.float32()
    ours = [
        saga("driftsurf", problem, saga_dense),
        saga("driftsurf, float32 rows", half, saga_dense),
    ]
    agree(half, saga_dense, problem, saga_dense)
    if problem.n_rows == ROWS[1]:
        ours.append(scikit_learn(problem))
    if strict is None or relaxed is None or single is None:
        return Contest(title, "step", ours[0].name, ours)
    loops = {
        "C": (problem, strict.saga_dense(prefetch=False)),
        "C, prefetch": (problem, strict.saga_dense(prefetch=True)),
        "C, prefetch, relaxed": (problem, relaxed.saga_dense(prefetch=True)),
        "C, prefetch, relaxed, float32 rows": (half, single.saga_dense(prefetch=True)),
    }
    for task, loop in loops.values():
        agree(task, loop, problem, saga_dense)
    return Contest(title, "step", "C, prefetch", [*(saga(name, *what) for name, what in loops.items()), *ours])


def _two_models(title: str, problem: Problem) -> Contest:
    """Return a contest of two models that learn in one loop, and one after the other; the weights must be equal."""
    rows, order, eta, frame = problem.rows, problem.order, problem.eta, problem.frame
    counts = problem.n_rows, problem.n_rows

    def models() -> Any:
        return problem.model(drawn=True), problem.model(drawn=True)

    def one_loop(pair: Any) -> None:
        one, two = ((*rows, order, model, drawn, eta, frame) for model, drawn in zip(pair, counts, strict=True))
        linear.saga_both(one, two, MU)

    def in_turn(pair: Any) -> None:
        for model, drawn in zip(pair, counts, strict=True):
            saga_dense(rows, order, model, drawn, eta, MU, frame, None)

    together, apart = models(), models()
    one_loop(together)
    in_turn(apart)
    if not all(np.array_equal(one[0], other[0]) for one, other in zip(together, apart, strict=True)):
        raise AssertionError("two models learn other weights in one loop than one after the other")
    steps = 2 * len(order)
    contenders = [
        Contender("one after the other", steps, models, in_turn),
        Contender("both in one loop", steps, models, one_loop),
    ]
    return Contest(title, "step", contenders[0].name, contenders)


def _sgd_dense(title: str, problem: Problem, strict: Anchor | None, relaxed: Anchor | None) -> Contest:
    ours = [sgd("driftsurf", problem, sgd_dense)]
    if strict is None or relaxed is None:
        return Contest(title, "step", ours[0].name, ours)
    loops = {"C, prefetch": strict.sgd_dense(), "C, prefetch, relaxed": relaxed.sgd_dense()}
    for loop in loops.values():
        agree_sgd(problem, loop, sgd_dense)
    return Contest(title, "step", "C, prefetch", [*(sgd(n, problem, x) for n, x in loops.items()), *ours])


def _against_c(
    title: str,
    problem: Problem,
    own: Loop,
    theirs: Callable[..., Loop],
    strict: Anchor | None,
    relaxed: Anchor | None,
) -> Contest:
    """Return a contest of our loop and the same loop in C, which the method ``theirs`` of an anchor returns."""
    ours = [saga("driftsurf", problem, own)]
    if strict is None or relaxed is None:
        return Contest(title, "step", ours[0].name, ours)
    loops = {
        "C": theirs(strict, prefetch=False),
        "C, prefetch": theirs(strict, prefetch=True),
        "C, prefetch, relaxed": theirs(relaxed, prefetch=True),
    }
    for loop in loops.values():
        agree(problem, loop, problem, own)
    return Contest(title, "step", "C, prefetch", [*(saga(n, problem, x) for n, x in loops.items()), *ours])
