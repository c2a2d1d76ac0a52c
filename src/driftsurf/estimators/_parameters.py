"""Parameters of estimators: seeds, detectors and learners as they are given, copied and saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.core.abilities import StrategyMaker, missing_members
from driftsurf.core.contracts import Detector, Strategy
from driftsurf.core.frames import RandomState, SparseMatrix, TargetLike, unmasked
from driftsurf.core.options import shown
from driftsurf.errors import OptionError, ShapeError
from driftsurf.estimators._sklearn import check_random_state, clone, column_or_1d
from driftsurf.session.described import HasParameters
from driftsurf.session.session import step_rows


def seed_of(random_state: RandomState) -> int:
    """Return an integer as it is, and draw one from anything else that scikit-learn accepts."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise OptionError(f"random_state is {random_state}; give an integer of at least 0, or None")
        return int(random_state)
    module: object = np.random  # as scikit-learn allows
    if random_state is None or random_state is module or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    raise OptionError(
        f"random_state is {shown(random_state)}; give an integer of at least 0, a numpy.random.RandomState, or None"
    )


def as_column(y: TargetLike) -> TargetLike:
    """Return a table of one column as a one-dimensional array, with scikit-learn's warning."""
    try:
        return column_or_1d(unmasked(y, "y"), warn=True)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{error} Pass one label for each row.") from error


def fit_rows(rows: Any) -> int:
    """Return the number of rows in a time step of ``fit``."""
    try:
        count = int(rows.shape[0]) if isinstance(rows, SparseMatrix) else len(rows)
    except (TypeError, IndexError):  # not a table of rows, which the session refuses by name
        count = 0
    return step_rows(count)


def copied(value: Any) -> Any:
    """Return a copy of a part with parameters, or of several, which ``set_params`` may change; other values as is."""
    parts = isinstance(value, HasParameters | list | tuple)
    return clone(value, safe=False) if parts else value


def detector_of(value: Any) -> Detector:
    """Return a detector, one of river in its adapter; None means the default."""
    if value is None:
        from driftsurf.detectors import MDDM

        return MDDM()
    from driftsurf.detectors.river import as_detector

    return as_detector(value)


def option_of(name: str, value: Any) -> Any:
    """Return an option as a strategy takes it: detectors and experts of other libraries in their adapters."""
    if name == "detector":
        return detector_of(value)
    if name == "experts" and isinstance(value, list | tuple):
        return [expert_of(one, place) for place, one in enumerate(value)]
    return value


def expert_of(model: Any, place: int = 0) -> Any:
    """Return an expert of a portfolio: a strategy, an estimator or a learner; others in the adapter for their kind.

    ``place`` is its number in the list of experts, which an error names.
    """
    if not isinstance(model, type) and (not missing_members(model, Strategy) or isinstance(model, StrategyMaker)):
        return model
    from driftsurf.learners.foreign import as_learner
    from driftsurf.strategies._experts import EXPERTS

    try:
        return as_learner(model)
    except OptionError as error:
        raise OptionError(f"experts[{place}] is {shown(model)}; expected {EXPERTS}") from error
