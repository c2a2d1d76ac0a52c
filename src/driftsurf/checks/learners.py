"""What every learner has to do, by the capabilities that it says it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.base import CSR, Batch, Capabilities, DenseRows, FloatArray, Learner, Rows, Segment
from driftsurf.checks._run import expect, expect_refusal, expect_same, flat, run, same_state
from driftsurf.samples import Samples

__all__ = ["check_learner"]

COLUMNS, ROWS = 3, 120
CLASSES = {"regression": 0, "binary": 2, "multiclass": 3}


def check_learner(learner: Learner) -> None:
    """Raise CheckError unless ``learner`` does what :class:`driftsurf.base.Learner` says.

    Examples
    --------
    >>> from driftsurf.learners import LinearRegression
    >>> check_learner(LinearRegression())
    """
    run(learner, CHECKS)


@dataclass
class Lesson:
    """A model in training beside its store of rows."""

    model: Any
    samples: Samples
    n_classes: int

    def teach(self, rows: int = ROWS, seed: int = 0) -> Any:
        """Append a batch and learn it; gives the undo."""
        X, y = problem(self.n_classes, rows, seed)
        new = self.samples.append(X, y)
        return self.model.update(self.samples, new, self.model.budget(new))


def problem(n_classes: int, rows: int = ROWS, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Rows that a linear rule explains."""
    X = np.random.default_rng(seed).normal(size=(rows, COLUMNS))
    if n_classes == 0:
        return X, 5.0 + 2.0 * X[:, 0] - X[:, 1]
    return X, X[:, :n_classes].argmax(axis=1).astype(np.float64)


def lessons(learner: Any, **options: Any) -> Iterator[Lesson]:
    """A fresh model for each of its tasks."""
    for task in sorted(learner.capabilities.tasks):
        yield begun(learner, CLASSES[task], **options)


def begun(learner: Any, n_classes: int, *, seed: int = 0) -> Lesson:
    """A fresh model and an empty store."""
    return Lesson(learner.fresh(seed, COLUMNS, n_classes), Samples(COLUMNS), n_classes)


def batch_of(n_classes: int) -> Batch:
    """A batch that no store holds."""
    X, y = problem(n_classes, seed=9)
    return Batch(X, y, np.ones(len(y)))


# ---------------------------------------------------------------------------- the checks


def capabilities_are_named(learner: Any) -> None:
    """its capabilities are a Capabilities with at least one known task."""
    can = learner.capabilities
    expect(isinstance(can, Capabilities), f"capabilities is {can!r}")
    expect(bool(can.tasks) and can.tasks <= CLASSES.keys(), f"tasks are {sorted(can.tasks)}; known: {sorted(CLASSES)}")
    expect(not can.values or len(can.tasks) == 1, "'regression' stands alone among the tasks")


def parameters_make_it_again(learner: Any) -> None:
    """get_params() are the arguments of the constructor."""
    params = learner.get_params(deep=False)
    again = type(learner)(**params).get_params(deep=False)
    expect(again.keys() == params.keys(), f"{sorted(params)} became {sorted(again)}")
    for name, value in params.items():
        expect(again[name] is value or again[name] == value, f"{name}={value!r} became {again[name]!r}")


def template_is_not_changed(learner: Any) -> None:
    """making and training a model leaves the template as it was."""
    before = repr(learner.get_params(deep=False)), sorted(vars(learner))
    for lesson in lessons(learner):
        expect(lesson.model is not learner, "fresh() gave the template itself")
        lesson.teach()
    expect(before == (repr(learner.get_params(deep=False)), sorted(vars(learner))), "its attributes or parameters did")


def other_tasks_are_refused(learner: Any) -> None:
    """fresh() for a task that is not among its tasks is a CapabilityError."""
    for task, n_classes in CLASSES.items():
        if task not in learner.capabilities.tasks:
            expect_refusal(lambda n=n_classes: learner.fresh(0, COLUMNS, n), f"fresh(n_classes={n_classes})")  # type: ignore[misc]


def scores_have_one_shape(learner: Any) -> None:
    """scores are finite float64: margins (n,), log-probabilities (n, K) or values (n,), before and after learning."""
    for lesson in lessons(learner):
        X = batch_of(lesson.n_classes).X
        for when in ("before", "after"):
            scores = lesson.model.scores(X)
            shapes: list[tuple[int, ...]] = [(ROWS, lesson.n_classes)] if lesson.n_classes else [(ROWS,)]
            if learner.capabilities.tasks == {"binary"}:
                shapes.append((ROWS,))
            expect(scores.shape in shapes, f"{when} learning the shape is {scores.shape}, not {shapes[-1]}")
            expect(scores.dtype == np.float64 and bool(np.isfinite(scores).all()), f"{when} learning: {scores[:3]}")
            lesson.teach()


def prediction_changes_nothing(learner: Any) -> None:
    """scores, losses and penalty are the same when asked twice."""
    for lesson in lessons(learner):
        lesson.teach()
        batch = batch_of(lesson.n_classes)
        first = lesson.model.scores(batch.X).copy()
        lesson.model.losses(batch)
        expect(np.isfinite(lesson.model.penalty()), f"penalty() is {lesson.model.penalty()}")
        expect_same(lesson.model.scores(batch.X), first, "scores differ")


def it_learns(learner: Any) -> None:
    """ten batches of a linear problem lower the mean loss."""
    for lesson in lessons(learner):
        batch = batch_of(lesson.n_classes)
        before = lesson.model.losses(batch).mean()
        for seed in range(10):
            lesson.teach(seed=seed)
        after = lesson.model.losses(batch).mean()
        expect(bool(after < before), f"with n_classes={lesson.n_classes} it went from {before:.4g} to {after:.4g}")
        expect(lesson.model.gradients >= 0 and lesson.model.nbytes >= 0, "gradients or nbytes are negative")


def losses_are_of_rows(learner: Any) -> None:
    """losses(batch) equals row_losses(scores, y), one number for each row."""
    for lesson in lessons(learner):
        lesson.teach()
        batch = batch_of(lesson.n_classes)
        losses = lesson.model.losses(batch)
        expect(losses.shape == (ROWS,), f"the shape of losses is {losses.shape}, not {(ROWS,)}")
        expect_same(losses, lesson.model.row_losses(lesson.model.scores(batch.X), batch.y), "they differ")


def budget_is_a_count(learner: Any) -> None:
    """budget(segment) is a whole number, 0 or more."""
    steps = learner.budget(Segment(10, 10 + ROWS))
    expect(isinstance(steps, int) and steps >= 0, f"it is {steps!r}")


def seed_fixes_the_model(learner: Any) -> None:
    """two models of one seed, taught alike, are alike."""
    for one, other in zip(lessons(learner, seed=3), lessons(learner, seed=3), strict=True):
        for lesson in (one, other):
            lesson.teach()
        X = batch_of(one.n_classes).X
        expect_same(one.model.scores(X), other.model.scores(X), f"with n_classes={one.n_classes} they differ")


def undo_takes_it_back(learner: Any) -> None:
    """the undo that update() returns makes it as it was."""
    for lesson in lessons(learner):
        lesson.teach()
        X = batch_of(lesson.n_classes).X
        before, gradients = lesson.model.scores(X).copy(), lesson.model.gradients
        undo = lesson.teach(seed=1)
        expect(callable(undo), f"update() returned {undo!r}")
        undo()
        expect_same(lesson.model.scores(X), before, "the scores are others")
        expect(lesson.model.gradients == gradients, f"gradients are {lesson.model.gradients}, not {gradients}")


def scorer_is_frozen(learner: Any) -> None:
    """scorer() goes on scoring as when it was asked for."""
    for lesson in lessons(learner):
        lesson.teach()
        X = batch_of(lesson.n_classes).X
        scorer, before = lesson.model.scorer(), lesson.model.scores(X).copy()
        expect_same(scorer(X), before, "it is not what scores() is")
        lesson.teach(seed=1)
        expect_same(scorer(X), before, "what was learnt later shows in it")


def rows_are_needed_and_let_go(learner: Any) -> None:
    """needs() is None before the first update and a row number after; forget() returns its undo."""
    for lesson in lessons(learner):
        expect(lesson.model.needs() is None, f"before the first update needs() is {lesson.model.needs()!r}")
        lesson.teach()
        oldest = lesson.model.needs()
        expect(isinstance(oldest, int) and 0 <= oldest <= ROWS, f"after it needs() is {oldest!r}")
        before = lesson.model.scores(batch_of(lesson.n_classes).X).copy()
        undo = lesson.model.forget(lesson.samples, 40)
        expect(lesson.model.needs() >= oldest, f"after forget(40) needs() is {lesson.model.needs()!r}, not {oldest}")
        undo()
        expect(lesson.model.needs() == oldest, "the undo of forget() does not bring the rows back")
        expect_same(
            lesson.model.scores(batch_of(lesson.n_classes).X), before, "forget() and its undo change the scores"
        )


def sparse_rows_mean_the_same(learner: Any) -> None:
    """with the capability 'sparse', CSR rows score as the dense ones do."""
    if not learner.capabilities.sparse:
        return
    for lesson in lessons(learner):
        lesson.teach()
        X = batch_of(lesson.n_classes).X
        assert isinstance(X, np.ndarray)
        close = np.allclose(lesson.model.scores(as_csr(X)), lesson.model.scores(X), rtol=1e-9, atol=1e-9)
        expect(bool(close), "the scores differ")


def as_csr(X: DenseRows) -> Rows:
    """The same rows, every value given."""
    rows, columns = X.shape
    indices = np.tile(np.arange(columns, dtype=np.int32), rows)
    return CSR(X.ravel().copy(), indices, np.arange(0, rows * columns + 1, columns, dtype=np.int64), columns)


def weights_are_taken(learner: Any) -> None:
    """with the capability 'weights', rows of different weight are learnt and the scores stay finite."""
    if not learner.capabilities.weights:
        return
    for lesson in lessons(learner):
        X, y = problem(lesson.n_classes)
        new = lesson.samples.append(X, y, np.linspace(0.0, 2.0, len(y)))
        lesson.model.update(lesson.samples, new, lesson.model.budget(new))
        expect(bool(np.isfinite(lesson.model.scores(X)).all()), "they are not")


def state_is_exact(learner: Any) -> None:
    """with the capability 'exact_state', from_state(template, state()) goes on bit for bit."""
    if not learner.capabilities.exact_state:
        return
    for lesson in lessons(learner):
        lesson.teach()
        state = flat(lesson.model.state())
        again = Lesson(type(learner).from_state(learner, state), lesson.samples, lesson.n_classes)
        if hasattr(again.model, "refit"):  # what is saved by its rows is made of them anew
            again.model.refit(lesson.samples)
        expect(same_state(flat(again.model.state()), state), "state() of what from_state() made is another")
        undo = lesson.teach(seed=1)
        after = flat(lesson.model.state())
        undo()
        new = Segment(ROWS, 2 * ROWS)
        again.model.update(lesson.samples, new, again.model.budget(new))
        expect(same_state(flat(again.model.state()), after), "they part after the next update")


def classes_grow(learner: Any) -> None:
    """with the capability 'grows_classes', grow() makes room for a class; columns grow only with 'grows_features'."""
    can = learner.capabilities
    if not can.grows_features:
        lesson = next(lessons(learner))
        lesson.teach()
        expect_refusal(lambda: lesson.model.grow(n_features=COLUMNS + 1), "grow(n_features=...)")
    if "multiclass" not in can.tasks:
        return
    lesson = begun(learner, 3)
    lesson.teach()
    if not can.grows_classes:
        expect_refusal(lambda: lesson.model.grow(n_classes=4), "grow(n_classes=4)")
        return
    X = batch_of(3).X
    before = lesson.model.scores(X).copy()
    undo = lesson.model.grow(n_classes=4)
    expect(lesson.model.scores(X).shape == (ROWS, 4), f"the scores have shape {lesson.model.scores(X).shape}")
    undo()
    expect_same(lesson.model.scores(X), before, "the undo of grow() does not take it back")


CHECKS = (
    capabilities_are_named,
    parameters_make_it_again,
    template_is_not_changed,
    other_tasks_are_refused,
    scores_have_one_shape,
    prediction_changes_nothing,
    it_learns,
    losses_are_of_rows,
    budget_is_a_count,
    seed_fixes_the_model,
    undo_takes_it_back,
    scorer_is_frozen,
    rows_are_needed_and_let_go,
    sparse_rows_mean_the_same,
    weights_are_taken,
    state_is_exact,
    classes_grow,
)
