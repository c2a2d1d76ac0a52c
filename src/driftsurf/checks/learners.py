"""Checks that every learner passes, according to the capabilities that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.checks._run import expect, expect_refusal, expect_same, flat, implements, run, same_state
from driftsurf.core.abilities import (
    Anchorable,
    CategoryAware,
    IncrementallySaved,
    JointlyScored,
    JointlyTrained,
    LinearPredictor,
    OnePassLearner,
    Refittable,
    ShapeChecked,
    missing_members,
)
from driftsurf.core.contracts import CSR, Batch, Capabilities, DenseRows, FloatArray, Learner, Rows, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import resolved

COLUMNS, ROWS = 3, 120
CLASSES = {"regression": 0, "binary": 2, "multiclass": 3}
STATE_KINDS = "arrays", "rows", "tensors", "pickle"


def check_learner(learner: Learner) -> None:
    """Raise CheckError unless a learner implements :class:`driftsurf.core.contracts.Learner` and what it declares.

    The optional abilities of :mod:`driftsurf.core.abilities` are checked as far as the learner has them.

    Examples
    --------
    >>> from driftsurf.learners import LinearRegression
    >>> check_learner(LinearRegression())
    """
    run(learner, CHECKS)


@dataclass
class Lesson:
    """A model in training together with its store of rows."""

    model: Any
    samples: Samples
    n_classes: int

    def teach(self, rows: int = ROWS, seed: int = 0) -> Any:
        """Append a batch to the store and learn it; return the undo."""
        new = self.append(rows, seed)
        return self.model.update(self.samples, new, self.model.budget(new))

    def append(self, rows: int = ROWS, seed: int = 0) -> Segment:
        """Append a batch to the store."""
        X, y = problem(self.n_classes, rows, seed)
        return self.samples.append(X, y)

    def losses(self, batch: Batch) -> Any:
        """Return the loss of each row of a batch."""
        return self.model.row_losses(self.model.scores(batch.X), batch.y)


def problem(n_classes: int, rows: int = ROWS, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return rows and targets of a linear problem."""
    X = np.random.default_rng(seed).normal(size=(rows, COLUMNS))
    if n_classes == 0:
        return X, 5.0 + 2.0 * X[:, 0] - X[:, 1]
    return X, X[:, :n_classes].argmax(axis=1).astype(np.float64)


def lessons(learner: Any, **options: Any) -> Iterator[Lesson]:
    """Yield a fresh model for each task of the learner."""
    for task in sorted(learner.capabilities.tasks):
        yield begin(learner, CLASSES[task], **options)


def begin(learner: Any, n_classes: int, *, seed: int = 0) -> Lesson:
    """Return a fresh model with an empty store."""
    return Lesson(learner.fresh(seed, COLUMNS, n_classes), Samples(COLUMNS), n_classes)


def unseen(n_classes: int) -> Batch:
    """Return a batch that no store holds."""
    X, y = problem(n_classes, seed=9)
    return Batch(X, y, np.ones(len(y)))


# ---------------------------------------------------------------------------- parameters and capabilities


def capabilities_are_known(learner: Any) -> None:
    """``capabilities`` is a Capabilities with known tasks and a known kind of state."""
    can = learner.capabilities
    expect(isinstance(can, Capabilities), f"capabilities is {can!r}")
    expect(bool(can.tasks) and can.tasks <= CLASSES.keys(), f"tasks are {sorted(can.tasks)}; known: {sorted(CLASSES)}")
    expect(not can.regression or len(can.tasks) == 1, f"tasks are {sorted(can.tasks)}; 'regression' must be alone")
    expect(can.state_kind in STATE_KINDS, f"state_kind is {can.state_kind!r}; known: {', '.join(STATE_KINDS)}")


def declared_abilities_exist(learner: Any) -> None:
    """A learner has the methods of the capabilities it declares: anchored, one_pass, refit, with_categories."""
    can = learner.capabilities
    for declared, holds, ability in (
        ("anchor=True", can.anchor, Anchorable),
        ("one_pass=True", can.one_pass, OnePassLearner),
        ("state_kind='rows'", can.state_kind == "rows", Refittable),
        ("categories=True", can.categories, CategoryAware),
    ):
        missing = missing_members(learner, ability)
        expect(not holds or not missing, f"{declared} is declared, but there is no {', '.join(missing)}")


def parameters_rebuild_it(learner: Any) -> None:
    """``get_params()`` returns the arguments of the constructor."""
    params = learner.get_params(deep=False)
    again = type(learner)(**params).get_params(deep=False)
    expect(again.keys() == params.keys(), f"{sorted(params)} became {sorted(again)}")
    for name, value in params.items():
        expect(again[name] is value or again[name] == value, f"{name}={value!r} became {again[name]!r}")


def template_is_not_changed(learner: Any) -> None:
    """Making and training a model leaves the template unchanged."""
    before = repr(learner.get_params(deep=False)), sorted(vars(learner))
    for lesson in lessons(learner):
        expect(lesson.model is not learner, "fresh() returned the template itself")
        lesson.teach()
    after = repr(learner.get_params(deep=False)), sorted(vars(learner))
    expect(before == after, f"parameters and attributes were {before} and are {after}")


def other_tasks_are_refused(learner: Any) -> None:
    """``fresh()`` raises CapabilityError for a task that the learner does not declare."""
    for task, n_classes in CLASSES.items():
        if task not in learner.capabilities.tasks:
            expect_refusal(lambda n=n_classes: learner.fresh(0, COLUMNS, n), f"fresh(n_classes={n_classes})")  # type: ignore[misc]


# ---------------------------------------------------------------------------- predicting


def scores_have_one_shape(learner: Any) -> None:
    """Scores are finite float64 of shape (n,) or (n, K), before and after learning."""
    for lesson in lessons(learner):
        X = unseen(lesson.n_classes).X
        for when in ("before", "after"):
            scores = lesson.model.scores(X)
            shapes: list[tuple[int, ...]] = [(ROWS, lesson.n_classes)] if lesson.n_classes else [(ROWS,)]
            if lesson.n_classes == 2:
                shapes.append((ROWS,))
            expect(scores.shape in shapes, f"the shape {when} learning is {scores.shape}, not {shapes[-1]}")
            expect(scores.dtype == np.float64 and bool(np.isfinite(scores).all()), f"{when} learning: {scores[:3]}")
            lesson.teach()


def prediction_changes_nothing(learner: Any) -> None:
    """Scores are the same when they are computed twice, and the penalty is finite."""
    for lesson in lessons(learner):
        lesson.teach()
        batch = unseen(lesson.n_classes)
        first = lesson.model.scores(batch.X).copy()
        lesson.losses(batch)
        expect(np.isfinite(lesson.model.penalty()), f"penalty() is {lesson.model.penalty()}")
        expect_same(lesson.model.scores(batch.X), first, "the scores differ")


def losses_are_per_row(learner: Any) -> None:
    """``row_losses(scores, y)`` returns one finite number for each row."""
    for lesson in lessons(learner):
        lesson.teach()
        losses = lesson.losses(unseen(lesson.n_classes))
        expect(losses.shape == (ROWS,), f"the shape of the losses is {losses.shape}, not {(ROWS,)}")
        expect(bool(np.isfinite(losses).all()), f"the losses are {losses[:3]}")


def scorer_is_frozen(learner: Any) -> None:
    """The function that ``scorer()`` returns is not affected by later updates."""
    for lesson in lessons(learner):
        lesson.teach()
        X = unseen(lesson.n_classes).X
        scorer, before = lesson.model.scorer(), lesson.model.scores(X).copy()
        expect_same(scorer(X), before, "its scores are not those of scores()")
        lesson.teach(seed=1)
        expect_same(scorer(X), before, "an update changed its scores")


def sparse_rows_score_alike(learner: Any) -> None:
    """With the capability 'sparse', CSR rows get the scores of the same dense rows."""
    if not learner.capabilities.sparse:
        return
    for lesson in lessons(learner):
        lesson.teach()
        X = unseen(lesson.n_classes).X
        assert isinstance(X, np.ndarray)
        close = np.allclose(lesson.model.scores(as_csr(X)), lesson.model.scores(X), rtol=1e-9, atol=1e-9)
        expect(bool(close), "the scores differ")


def as_csr(X: DenseRows) -> Rows:
    """Return dense rows in CSR form, every cell stored."""
    rows, columns = X.shape
    indices = np.tile(np.arange(columns, dtype=np.int32), rows)
    return CSR(X.ravel().copy(), indices, np.arange(0, rows * columns + 1, columns, dtype=np.int64), columns)


def models_score_jointly(learner: Any) -> None:
    """``joint_scorer()``, if there is one, gives each model the scores it has alone."""
    if missing_members(learner, JointlyScored):
        return
    for one, other in zip(lessons(learner, seed=1), lessons(learner, seed=2), strict=True):
        one.teach()
        other.teach(seed=1)
        X = unseen(one.n_classes).X
        found = type(learner).joint_scorer([one.model, other.model])(X)
        for place, lesson in enumerate((one, other)):
            expect_same(found[place], lesson.model.scores(X), f"model {place} has other scores than alone")


def weights_predict_linearly(learner: Any) -> None:
    """``coef`` and ``intercept``, if there are any, predict as ``scores()`` does."""
    for lesson in lessons(learner):
        lesson.teach()
        if missing_members(lesson.model, LinearPredictor):
            return
        X = np.asarray(unseen(lesson.n_classes).X)
        outputs = X @ np.asarray(lesson.model.coef).T + lesson.model.intercept
        if outputs.ndim == 2:  # scores are log-probabilities: a softmax of the outputs
            outputs = outputs - np.logaddexp.reduce(outputs, axis=1, keepdims=True)
        close = np.allclose(outputs, lesson.model.scores(X), rtol=1e-9, atol=1e-9)
        expect(bool(close), f"with n_classes={lesson.n_classes} the predictions differ")


# ---------------------------------------------------------------------------- learning


def it_learns(learner: Any) -> None:
    """Ten batches of a linear problem lower the mean loss."""
    for lesson in lessons(learner):
        batch = unseen(lesson.n_classes)
        before = lesson.losses(batch).mean()
        for seed in range(10):
            lesson.teach(seed=seed)
        after = lesson.losses(batch).mean()
        expect(bool(after < before), f"with n_classes={lesson.n_classes} it went from {before:.4g} to {after:.4g}")
        expect(lesson.model.gradients >= 0 and lesson.model.nbytes >= 0, "gradients or nbytes is negative")


def budget_is_a_count(learner: Any) -> None:
    """``budget(segment)`` is an integer, 0 or more."""
    steps = learner.budget(Segment(10, 10 + ROWS))
    expect(isinstance(steps, int) and steps >= 0, f"it is {steps!r}")


def seed_fixes_the_model(learner: Any) -> None:
    """Two models with the same seed and the same rows are equal."""
    for one, other in zip(lessons(learner, seed=3), lessons(learner, seed=3), strict=True):
        for lesson in (one, other):
            lesson.teach()
        X = unseen(one.n_classes).X
        expect_same(one.model.scores(X), other.model.scores(X), f"with n_classes={one.n_classes} they differ")


def undo_reverts_an_update(learner: Any) -> None:
    """The undo that ``update()`` returns restores the model."""
    for lesson in lessons(learner):
        lesson.teach()
        X = unseen(lesson.n_classes).X
        before, gradients = lesson.model.scores(X).copy(), lesson.model.gradients
        undo = lesson.teach(seed=1)
        expect(callable(undo), f"update() returned {undo!r}")
        undo()
        expect_same(lesson.model.scores(X), before, "the scores differ")
        expect(lesson.model.gradients == gradients, f"gradients is {lesson.model.gradients}, not {gradients}")


def models_train_jointly(learner: Any) -> None:
    """``update_all()``, if there is one, trains each model as ``update()`` does, and returns one undo for all."""
    if missing_members(learner, JointlyTrained):
        return
    for alone, together in zip(lessons(learner), lessons(learner), strict=True):
        others = [begin(learner, alone.n_classes, seed=1).model for _ in range(2)]
        pairs = (alone, [alone.model, others[0]]), (together, [together.model, others[1]])
        X = unseen(alone.n_classes).X
        before = [model.scores(X).copy() for model in pairs[1][1]]
        segments = [lesson.append() for lesson, _ in pairs]
        steps = learner.budget(segments[0])
        for model in pairs[0][1]:
            model.update(alone.samples, segments[0], steps)
        undo = type(learner).update_all(pairs[1][1], together.samples, [segments[1]] * 2, [steps] * 2)
        for place, (one, other) in enumerate(zip(pairs[0][1], pairs[1][1], strict=True)):
            expect_same(one.scores(X), other.scores(X), f"model {place} differs from one trained alone")
        undo()
        for place, (model, scores) in enumerate(zip(pairs[1][1], before, strict=True)):
            expect_same(model.scores(X), scores, f"the undo does not restore model {place}")


def rows_are_needed_and_released(learner: Any) -> None:
    """``needs()`` is None before the first update and a row number after it; ``forget()`` returns its undo."""
    for lesson in lessons(learner):
        expect(lesson.model.needs() is None, f"needs() is {lesson.model.needs()!r} before the first update")
        lesson.teach()
        oldest = lesson.model.needs()
        expect(isinstance(oldest, int) and 0 <= oldest <= ROWS, f"needs() is {oldest!r} after it")
        before = lesson.model.scores(unseen(lesson.n_classes).X).copy()
        undo = lesson.model.forget(lesson.samples, 40)
        after = lesson.model.needs()
        expect(after >= oldest, f"needs() is {after!r} after forget(40), and was {oldest}")
        undo()
        expect(lesson.model.needs() == oldest, "the undo of forget() does not bring the rows back")
        expect_same(lesson.model.scores(unseen(lesson.n_classes).X), before, "forget() and its undo changed the scores")


def weights_are_accepted(learner: Any) -> None:
    """With the capability 'weights', rows of different weight are learned and the scores stay finite."""
    if not learner.capabilities.weights:
        return
    for lesson in lessons(learner):
        X, y = problem(lesson.n_classes)
        new = lesson.samples.append(X, y, np.linspace(0.0, 2.0, len(y)))
        lesson.model.update(lesson.samples, new, lesson.model.budget(new))
        expect(bool(np.isfinite(lesson.model.scores(X)).all()), "scores are not finite")


def classes_grow(learner: Any) -> None:
    """With the capability 'grows_classes', ``grow()`` adds a class; without it, ``grow()`` raises CapabilityError."""
    can = learner.capabilities
    if "multiclass" not in can.tasks:
        return
    for known in (2, 3):
        lesson = begin(learner, known)
        lesson.teach()
        if not can.grows_classes:
            expect_refusal(lambda model=lesson.model: model.grow(n_classes=4), "grow(n_classes=4)")  # type: ignore[misc]
            continue
        X = unseen(known).X
        before = lesson.model.scores(X).copy()
        undo = lesson.model.grow(n_classes=4)
        expect(lesson.model.scores(X).shape == (ROWS, 4), f"the scores have shape {lesson.model.scores(X).shape}")
        undo()
        expect_same(lesson.model.scores(X), before, "the undo of grow() does not restore the scores")


def one_pass_keeps_no_rows(learner: Any) -> None:
    """With the capability 'one_pass', ``one_pass()`` returns a template that learns each row once and stores none."""
    if not learner.capabilities.one_pass:
        return
    template = learner.one_pass()
    expect(template is not learner, "one_pass() returned the template itself")
    for lesson in lessons(template):
        lesson.teach()
        expect(lesson.model.gradients == ROWS, f"{ROWS} rows took {lesson.model.gradients} gradients")
        expect(lesson.model.needs() == ROWS, f"needs() is {lesson.model.needs()}, not {ROWS}")


def anchor_pulls(learner: Any) -> None:
    """With the capability 'anchor', ``anchored()`` returns a model whose penalty is 0 at the weights of the anchor."""
    if not learner.capabilities.anchor:
        return
    for lesson in lessons(learner):
        lesson.teach()
        fresh = learner.fresh(1, COLUMNS, lesson.n_classes)
        made = fresh.anchored([lesson.model], np.ones(1))
        expect(made is not lesson.model, "anchored() returned the model it is anchored at")
        expect(made.penalty() > 0.0, f"a model at the origin, away from its anchor, has the penalty {made.penalty()}")


# ---------------------------------------------------------------------------- state


def state_is_exact(learner: Any) -> None:
    """With the capability 'exact_state', ``from_state(template, state())`` continues bit for bit."""
    if not learner.capabilities.exact_state:
        return
    for lesson in lessons(learner):
        lesson.teach()
        state = flat(lesson.model.state())
        again = Lesson(type(learner).from_state(learner, state), lesson.samples, lesson.n_classes)
        if isinstance(again.model, Refittable):
            again.model.refit(lesson.samples)
        expect(same_state(flat(again.model.state()), state), "the restored model has another state")
        undo = lesson.teach(seed=1)
        after = flat(lesson.model.state())
        undo()
        new = Segment(ROWS, 2 * ROWS)
        again.model.update(lesson.samples, new, again.model.budget(new))
        expect(same_state(flat(again.model.state()), after), "after the next update the states differ")


def incremental_state_is_the_state(learner: Any) -> None:
    """``incremental_state()``, if there is one, has the entries of ``state()``."""
    for lesson in lessons(learner):
        lesson.teach()
        if not missing_members(lesson.model, IncrementallySaved):
            whole = resolved(lesson.model.incremental_state())
            expect(same_state(whole, flat(lesson.model.state())), "the entries differ")


def shape_is_known(learner: Any) -> None:
    """``fits()``, if there is one, is true for the rows that the model was made for, and false for wider ones."""
    for lesson in lessons(learner):
        if not missing_members(lesson.model, ShapeChecked):
            for columns, fits in ((COLUMNS, True), (COLUMNS + 1, False)):
                found = lesson.model.fits(columns, lesson.n_classes)
                expect(found is fits, f"fits({columns}, {lesson.n_classes}) is {found!r}; the model is for {COLUMNS}")


CHECKS = (
    implements(Learner, "learner"),
    capabilities_are_known,
    declared_abilities_exist,
    parameters_rebuild_it,
    template_is_not_changed,
    other_tasks_are_refused,
    scores_have_one_shape,
    prediction_changes_nothing,
    it_learns,
    losses_are_per_row,
    budget_is_a_count,
    seed_fixes_the_model,
    undo_reverts_an_update,
    scorer_is_frozen,
    rows_are_needed_and_released,
    sparse_rows_score_alike,
    weights_are_accepted,
    state_is_exact,
    classes_grow,
    one_pass_keeps_no_rows,
    anchor_pulls,
    models_train_jointly,
    models_score_jointly,
    weights_predict_linearly,
    incremental_state_is_the_state,
    shape_is_known,
)
