"""Estimator classes of strategies, made from their constructors and docstrings."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Literal, overload

from driftsurf import registry
from driftsurf.core.changes import RenewedLock
from driftsurf.core.contracts import Strategy
from driftsurf.core.frames import LearnerLike
from driftsurf.core.options import choice
from driftsurf.errors import CapabilityError
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
from driftsurf.session.saved import SUFFIXES, EstimatorTask

_HERE = "driftsurf.estimators"

if TYPE_CHECKING:

    class _AnyClassifier(AdaptiveClassifier):
        """A classifier whose options a type checker does not know."""

        def __init__(self, learner: LearnerLike | None = None, **options: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    class _AnyRegressor(AdaptiveRegressor):
        """A regressor whose options a type checker does not know."""

        def __init__(self, learner: LearnerLike | None = None, **options: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


@overload
def estimator_class(
    strategy: str | type[Strategy], task: Literal["classification"] = "classification"
) -> type[_AnyClassifier]: ...
@overload
def estimator_class(strategy: str | type[Strategy], task: Literal["regression"]) -> type[_AnyRegressor]: ...
@overload
def estimator_class(
    strategy: str | type[Strategy], task: EstimatorTask
) -> type[_AnyClassifier] | type[_AnyRegressor]: ...
def estimator_class(
    strategy: str | type[Strategy], task: EstimatorTask = "classification"
) -> type[_AnyClassifier] | type[_AnyRegressor]:
    """Return the scikit-learn estimator class of a strategy.

    Its parameters are ``learner``, the options of the strategy, ``batch_size``, ``guard``, ``classes`` (of a
    classifier) and ``random_state``. The class of a registered strategy is also an attribute of
    :mod:`driftsurf.estimators`, where pickle finds it.

    Parameters
    ----------
    strategy
        The name of a registered strategy, or a class that implements :class:`driftsurf.core.contracts.Strategy`.
    task
        "classification" or "regression". CapabilityError if the strategy is registered without this task.

    Examples
    --------
    >>> estimator_class("sliding-window")(window=500)
    SlidingWindowClassifier(window=500)
    >>> from driftsurf.strategies import SlidingWindow
    >>> class NewestRows(SlidingWindow):
    ...     pass
    >>> estimator_class(NewestRows, "regression")(window=50)
    NewestRowsRegressor(window=50)
    """
    choice("task", task, tuple(SUFFIXES))
    entry = registry.get("strategy", strategy) if isinstance(strategy, str) else registry.find("strategy", strategy)
    part: Any = strategy if entry is None else entry.part
    if entry is not None and not _has_task(entry, task):
        raise CapabilityError(
            f"the strategy {entry.name!r} is for the tasks {', '.join(sorted(entry.tasks))}, not for {task}"
        )
    made: type[_AnyClassifier] | type[_AnyRegressor] = _made(part, task, "" if entry is None else entry.title)
    return made


def find_estimator(name: str) -> type[AdaptiveEstimator] | None:
    """Return the estimator class of a registered strategy by the name of the class, or None.

    >>> find_estimator("AUEClassifier").__name__, find_estimator("OakClassifier")
    ('AUEClassifier', None)
    """
    for task, suffix in SUFFIXES.items():
        stem = name.removesuffix(suffix)
        entry = registry.find("strategy", stem) if stem != name else None
        if entry is not None and _has_task(entry, task):
            return estimator_class(entry.name, task)
    return None


def _has_task(entry: registry.Entry, task: EstimatorTask) -> bool:
    return bool(entry.tasks & (registry.REGRESSION if task == "regression" else registry.CLASSIFICATION))


_lock = RenewedLock()


def _made(strategy: Any, task: EstimatorTask, title: str) -> Any:
    """Return the estimator class of a strategy, the same one in all threads: pickle compares classes by identity."""
    with _lock:
        return _make(strategy, task, title)


@functools.cache
def _make(strategy: Any, task: EstimatorTask, title: str) -> Any:
    """Make the estimator class of a strategy from its constructor and docstring; ``title`` is empty without a name."""
    base = AdaptiveRegressor if task == "regression" else AdaptiveClassifier
    full = _signature(strategy, base)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = full.bind(self, *args, **kwargs)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name != "self":
                setattr(self, name, value)

    __init__.__signature__ = full  # type: ignore[attr-defined]
    name = f"{strategy.__name__}{SUFFIXES[task]}"
    common = signature(base.__init__).parameters
    options = [option for option in full.parameters if option not in common]
    example = example_of(SUFFIXES[task], name) if title else ""  # only a registered one can be imported
    members = {
        "__init__": __init__,
        "__doc__": docstring(strategy, title or strategy.__name__, SUFFIXES[task], options, example),
        # pickle looks a class up by module and name; the module's __getattr__ finds registered strategies.
        "__module__": _HERE if title else strategy.__module__,
        "_strategy_class": staticmethod(strategy),
    }
    return type(name, (base,), members)


def _signature(strategy: Callable[..., Strategy], base: type[AdaptiveEstimator]) -> Signature:
    """Return the constructor's signature: that of the base class with the options of the strategy after ``learner``."""
    this, learner, *common = signature(base.__init__).parameters.values()
    options = [
        option.replace(kind=Parameter.KEYWORD_ONLY, default=None if option.name == "detector" else option.default)
        for option in signature(strategy).parameters.values()
        if option.name not in ("learner", "seed")
    ]
    return Signature([this, learner, *options, *common])


WIDTH = 116
COMMON = {
    "batch_size": "None makes every call one time step. A number buffers rows, and every ``batch_size`` of them are "
    "one.",
    "guard": "Rows beyond this many times the usual norm are learned with a small weight, so that one absurd value "
    "cannot ruin the model. None for no guard.",
    "classes": "The labels, if they are known from the start; None learns them as they appear.",
    "random_state": "An integer makes every run the same.",
}
"""Descriptions of the parameters that every estimator has."""
LEARNERS = {
    "Classifier": "Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or "
    "river, or an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes; "
    "``SoftmaxRegression()`` is for any number of classes.",
    "Regressor": "Template of the models: a learner of :mod:`driftsurf.learners`, any regressor of scikit-learn or "
    "river, or an adapter of :mod:`driftsurf.learners.foreign`. None means ``LinearRegression()``.",
}
DETECTOR = "A detector of :mod:`driftsurf.detectors`, or one of river. None means ``MDDM()``."
STREAMS = {"Classifier": ("SEA", "0.7"), "Regressor": ("Friedman", "0.0")}
EXAMPLES = {
    "DriftSurfClassifier": """
        >>> import numpy as np
        >>> from driftsurf import DriftSurfClassifier
        >>> from driftsurf.streams import Mixed
        >>> model = DriftSurfClassifier(random_state=0)
        >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in Mixed().batches(1000)]
        >>> print(f"{np.mean(errors):.2f}")
        0.20
        >>> [(transition.kind, transition.step) for transition in model.journal_.transitions[:2]]
        [('entered', 20), ('greedy', 20)]
        """,
    "DriftSurfRegressor": """
        >>> import numpy as np
        >>> from driftsurf import DriftSurfRegressor
        >>> rng = np.random.default_rng(0)
        >>> model = DriftSurfRegressor(random_state=0)
        >>> for step in range(30):  # the slope turns around at step 15
        ...     X = rng.normal(size=(100, 1))
        ...     y = 1e6 + (2e3 if step < 15 else -2e3) * X[:, 0] + rng.normal(size=100)
        ...     model = model.partial_fit(X, y)
        >>> [(transition.kind, transition.step) for transition in model.journal_.transitions]
        [('entered', 15), ('greedy', 16), ('switched', 18)]
        """,
    "AwareClassifier": """
        >>> from driftsurf import AwareClassifier
        >>> from driftsurf.streams import SEA
        >>> stream = SEA(n_rows=20_000)
        >>> model = AwareClassifier(drift_steps=stream.drift_steps(500), random_state=0)
        >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in stream.batches(500)]
        >>> [transition.step for transition in model.journal_.transitions]
        [10, 20, 30]
        """,
}
"""Examples of classes for which learning a stream does not show enough."""
_UNDERLINED = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
_REFERENCE = re.compile(r"As for :class:`([\w.]+)`")


def docstring(strategy: Callable[..., Any], title: str, suffix: str, options: Iterable[str], example: str) -> str:
    """Return the docstring of the estimator class of a strategy, given the names of its options.

    ``suffix`` is "Classifier" or "Regressor".
    """
    described = {"learner": LEARNERS[suffix]} | {option: option_text(strategy, option) for option in options}
    described |= {key: text for key, text in COMMON.items() if key != "classes" or suffix == "Classifier"}
    parameters = [f"{key}\n{_wrapped(text, 4)}" for key, text in described.items()]
    attributes = {
        "classes_": "Labels known so far, sorted.",
        "n_features_in_": "Number of columns of the first batch.",
        "feature_names_in_": "Names of the columns, if the first batch had any.",
        "journal_": "State, risks and decisions of every time step, and every transition with its reason.",
    }
    if suffix == "Regressor":
        del attributes["classes_"]
    home = strategy.__module__.rpartition(".")[0]
    public = "driftsurf.strategies" if home.startswith("driftsurf.") else strategy.__module__
    steps = (
        "Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set. "
        f":class:`{public}.{strategy.__name__}` describes the method."
    )
    blocks = [
        f"{title} as a scikit-learn {suffix.lower()}.",
        _wrapped(_summary(strategy), 0),
        _wrapped(steps, 0),
        "\n".join(["Parameters", "----------", *parameters]),
        "\n".join(["Attributes", "----------", *(f"{key}\n{_wrapped(text, 4)}" for key, text in attributes.items())]),
        f"Examples\n--------\n{example}" if example else "",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def option_text(strategy: Callable[..., Any], name: str) -> str:
    """Return the description of an option in the docstring of a strategy; that of another class that it refers to."""
    if name == "detector":
        return DETECTOR
    text = _parameters(strategy).get(name, "")
    found = _REFERENCE.match(text)
    if found is None:
        return text
    module, _, other = found[1].rpartition(".")
    return _parameters(getattr(importlib.import_module(module), other))[name]


def example_of(suffix: str, name: str) -> str:
    """Return the example of a class: its own, or one that learns a stream and predicts better than chance."""
    stream, chance = STREAMS[suffix]
    usual = f"""
        >>> from driftsurf.estimators import {name}
        >>> from driftsurf.streams import {stream}
        >>> model = {name}(random_state=0)
        >>> for X, y in {stream}(n_rows=2_000).batches(200):
        ...     model = model.partial_fit(X, y)
        >>> model.score(X, y) > {chance}
        True
        """
    return textwrap.dedent(EXAMPLES.get(name, usual)).strip()


def _summary(part: object) -> str:
    """Return the first paragraph of a docstring."""
    return (inspect.getdoc(part) or "").partition("\n\n")[0]


def _sections(part: object) -> dict[str, str]:
    """Return the sections of a docstring by title."""
    pieces = _UNDERLINED.split(inspect.getdoc(part) or "")
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _parameters(part: object) -> dict[str, str]:
    """Return the description of each parameter; of those that share one, each by itself.

    >>> class Part:
    ...     '''A part.
    ...
    ...     Parameters
    ...     ----------
    ...     width, height
    ...         In pixels.
    ...     '''
    >>> _parameters(Part)
    {'width': 'In pixels.', 'height': 'In pixels.'}
    """
    found: dict[str, str] = {}
    names: list[str] = []
    lines: list[str] = []
    for line in [*_sections(part).get("Parameters", "").splitlines(), "end"]:
        if line and not line[0].isspace():
            found |= dict.fromkeys(names, inspect.cleandoc("\n".join(lines)))
            names, lines = [name.strip() for name in line.partition(":")[0].split(",")], []
        else:
            lines.append(line)
    return found


def _wrapped(text: str, indent: int) -> str:
    """Return a paragraph in lines that fit the source, indented."""
    lines = textwrap.wrap(" ".join(text.split()), WIDTH - 4 - indent, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), " " * indent)
