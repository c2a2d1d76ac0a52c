"""Models by name, for every command: a strategy around a learner, both perhaps with options.

``STRATEGY(option=value):LEARNER(option=value)``, such as ``driftsurf``, ``aue:softmax``, ``ddm(drift_level=4):svm`` or
``driftsurf(threshold=0.2):sklearn.tree.DecisionTreeClassifier(max_depth=6)``. Without a learner it is the usual one of
the task. The name of a detector is a model that begins anew when the detector signals. ``recommended`` and
``recommended-linear`` are those of :func:`driftsurf.recommended`.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from driftsurf import detectors, learners, strategies
from driftsurf.base import Learner, Strategy
from driftsurf.errors import CapabilityError, Option, OptionError
from driftsurf.runtime.target import Task

__all__ = [
    "DETECTORS",
    "LEARNERS",
    "RECOMMENDED",
    "STRATEGIES",
    "KnownLearner",
    "ModelName",
    "Part",
    "make_learner",
    "make_strategy",
    "names",
    "read_model",
    "read_part",
    "read_value",
    "strategy_around",
    "with_options",
]

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "driftsurf": strategies.DriftSurf,
    "oblivious": strategies.Oblivious,
    "one-pass": strategies.OnePass,
    "sliding-window": strategies.SlidingWindow,
    "linear-decay": strategies.LinearDecay,
    "exponential-decay": strategies.ExponentialDecay,
    "aue": strategies.AUE,
    "dwm": strategies.DWM,
    "learn-nse": strategies.LearnNSE,
    "paired-learners": strategies.PairedLearners,
    "candor": strategies.Candor,
    "perm": strategies.PERM,
}
DETECTORS: dict[str, Callable[..., Any]] = {
    "adwin": partial(detectors.ADWIN, increase_only=True),  # an error that falls is no reason to begin anew
    "ddm": detectors.DDM,
    "eddm": detectors.EDDM,
    "fhddm": detectors.FHDDM,
    "mddm": detectors.MDDM,
    "mddm-g": partial(detectors.MDDM, weighting="geometric"),
    "mddm-a": partial(detectors.MDDM, weighting="arithmetic"),
    "mddm-e": partial(detectors.MDDM, weighting="euler"),
    "page-hinkley": detectors.PageHinkley,
}
"""Each is a model too: one that begins anew when the detector signals."""


def _boosted_trees(task: Task) -> Callable[..., Learner]:
    from driftsurf.adapters import BoostedTrees

    return partial(BoostedTrees, task="regression" if task == "regression" else "classification")


@dataclass(frozen=True, slots=True)
class KnownLearner:
    """A learner that has a name of its own."""

    about: str
    maker: Callable[[Task], Callable[..., Learner]]
    """Who makes it for a task."""
    package: str = "numba"
    """What it stands on."""


LEARNERS: dict[str, KnownLearner] = {
    "logistic": KnownLearner(
        "logistic regression by STRSAGA; of more than two classes softmax regression",
        lambda task: learners.SoftmaxRegression if task == "multiclass" else learners.LogisticRegression,
    ),
    "softmax": KnownLearner(
        "softmax regression by STRSAGA, for any number of classes", lambda task: learners.SoftmaxRegression
    ),
    "svm": KnownLearner("a linear support vector machine, for two classes", lambda task: learners.LinearSVM),
    "linear": KnownLearner("linear regression by STRSAGA, for values", lambda task: learners.LinearRegression),
    "lightgbm": KnownLearner("boosted trees, sized by the number of classes", _boosted_trees, "lightgbm"),
}
USUAL: dict[Task, str] = {"binary": "logistic", "multiclass": "softmax", "regression": "linear"}
"""The learner where none is named."""
RECOMMENDED = {
    "recommended": "driftsurf:lightgbm",
    "recommended-linear": "driftsurf(judge='prequential'):softmax(steps_per_row=8.0)",
}
"""What :func:`driftsurf.recommended` gives, by name."""
_OUTSIDE_BRACKETS = r"(?![^(]*\))"


@dataclass(frozen=True, slots=True)
class Part:
    """A name with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        name = self.name.replace(":", ".")  # module:Class is module.Class
        return (
            f"{name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})" if self.options else name
        )


@dataclass(frozen=True, slots=True)
class ModelName:
    """The name of a model, taken apart."""

    text: str
    """The same for all ways to write it."""
    strategy: Part
    learner: Part | None
    """None for the usual one of the task."""

    def learner_for(self, task: Task) -> Part:
        """The learner, or the usual one of the task."""
        if task == "regression" and self.text in LINEAR_FOR_VALUES:
            return LINEAR_FOR_VALUES[self.text]
        return Part(USUAL[task]) if self.learner is None else self.learner

    @property
    def package(self) -> str:
        """What it stands on beside numpy and scipy."""
        name = USUAL["binary"] if self.learner is None else self.learner.name
        own = LEARNERS[name].package if name in LEARNERS else re.split(r"[.:]", name)[0]
        return own.replace("sklearn", "scikit-learn")


LINEAR_FOR_VALUES = {"recommended-linear": Part("linear", {"steps_per_row": 8.0})}
"""The learner of a recommended model where values are predicted, if it is another one."""


def read_model(
    text: str, learner: str | None = None, *, more: Iterable[str] = (), others: Iterable[str] = ()
) -> ModelName:
    """Take the name of a model apart; OptionError unless strategy and learner are known.

    ``learner`` is one that is named apart. ``more`` are strategies of the caller's own; ``others`` are models of its
    own, which the message offers too.

    >>> read_model("driftsurf( threshold=0.2 ):sklearn.tree:DecisionTreeClassifier").text
    'driftsurf(threshold=0.2):sklearn.tree.DecisionTreeClassifier'
    >>> read_model("driftsurf:forest")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: learner is 'forest'; choices: logistic, softmax, svm, linear, lightgbm, or ...
    """
    text = text.strip()
    head, *tail = re.split(f":{_OUTSIDE_BRACKETS}", RECOMMENDED.get(text, text), maxsplit=1)
    if tail and learner is not None:
        raise OptionError(
            Option("model"),
            f" is {text!r}, which has a learner, and ",
            Option("learner"),
            f" is {learner!r}; name it once",
        )
    strategy = read_part(head, text)
    known = list(dict.fromkeys([*STRATEGIES, *DETECTORS, *more]))
    if strategy.name in RECOMMENDED:
        raise OptionError(
            Option("model"), f" is {text!r}; a recommended model stands alone: change {RECOMMENDED[strategy.name]}"
        )
    if strategy.name not in known:
        choices = [*known, *RECOMMENDED, *others]
        raise OptionError(
            Option("model"),
            f" is {strategy.name!r}; {_near(strategy.name, choices)}choices: {', '.join(choices)}; a strategy or "
            "detector also as STRATEGY:LEARNER, such as driftsurf:softmax",
        )
    named = tail[0] if tail else learner
    around = None if named is None else read_part(named, text)
    if around is not None and around.name not in LEARNERS and not re.search(r"\w[.:]\w", around.name):
        raise OptionError(
            Option("learner"),
            f" is {around.name!r}; {_near(around.name, LEARNERS)}choices: {', '.join(LEARNERS)}, or "
            "module:Class, such as sklearn.linear_model:SGDClassifier",
        )
    written = f"{strategy}" if around is None else f"{strategy}:{around}"
    return ModelName(text if text in RECOMMENDED else written, strategy, around)


def read_part(text: str, whole: str) -> Part:
    """``name(option=value, ...)`` taken apart; values are literals of Python."""
    found = re.fullmatch(r"\s*([\w.:+-]+)\s*(?:\((.*)\))?\s*", text)
    try:
        if found is None:
            raise ValueError(text)
        call: Any = ast.parse(f"f({found[2] or ''})", mode="eval").body
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError(text)
        return Part(found[1], {word.arg: ast.literal_eval(word.value) for word in call.keywords})
    except (ValueError, SyntaxError):
        raise OptionError(
            f"{text!r} in {whole!r} cannot be read; give a name, or name(option=value, ...) with plain values"
        ) from None


def names(text: str) -> list[str]:
    """A list of models, separated by commas that are not in brackets.

    >>> names("driftsurf:logistic, oblivious:sklearn.svm.SVC(C=2, gamma=0.1)")
    ['driftsurf:logistic', 'oblivious:sklearn.svm.SVC(C=2, gamma=0.1)']
    """
    return [name.strip() for name in re.split(f",{_OUTSIDE_BRACKETS}", text) if name.strip()]


def make_strategy(
    model: str, learner: str | None, task: Task, parameters: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Strategy:
    """A strategy for a task.

    Parameters
    ----------
    model
        As :func:`read_model` takes it: ``"aue"``, ``"aue:softmax"``, ``"ddm(drift_level=4):svm"``, ``"recommended"``.
    learner
        The learner, where ``model`` names none: a name of ``LEARNERS``, or ``"module:Class"`` for one from elsewhere,
        such as ``"sklearn.linear_model:SGDClassifier"``; None for the usual one of the task.
    task
        What is predicted.
    parameters
        Of the strategy, the detector or the learner, whoever has one of that name, in this order. They count more
        than those in the names.
    seed
        Fixes every random number.

    Examples
    --------
    >>> make_strategy("driftsurf", None, "multiclass", {"threshold": 0.05, "l2": 1e-3}).learner.l2
    0.001
    >>> make_strategy("ddm", None, "binary", {"l2x": 1})
    Traceback (most recent call last):
    driftsurf.errors.OptionError: ddm with logistic has no parameter 'l2x'; did you mean 'l2'? choices: max_rows, ...
    """
    found = read_model(model, learner)
    name = found.strategy.name
    own = [key for maker in _makers(name) for key in _parameters(maker)]
    loose = parameters or {}
    of_strategy = {key: value for key, value in loose.items() if key in own}
    of_learner = {key: value for key, value in loose.items() if key not in own}
    built = make_learner(found.learner_for(task), task, of_learner, beside=Part(name, dict.fromkeys(own)))
    return with_options(strategy_around(name, built, seed=seed), {**found.strategy.options, **of_strategy}, name)


def strategy_around(name: str, learner: Learner, **options: Any) -> Strategy:
    """The strategy of this name, or a reset by the detector of this name."""
    make, *detector = _makers(name)
    made: Strategy = make(learner, *(one() for one in detector), **options)
    return made


def with_options(strategy: Strategy, options: Mapping[str, Any], name: str) -> Strategy:
    """The strategy with these options, its own or those of its detector, checked."""
    owners: list[Any] = [strategy, *([strategy.detector] if hasattr(strategy, "detector") else [])]
    known = {key: owner for owner in reversed(owners) for key in _parameters(type(owner))}
    for key, value in options.items():
        if key not in known:
            raise _unknown(name, key, known)
        setattr(known[key], key, value)  # arguments are stored under their names, and nothing else before it begins
    strategy.check()
    return strategy


def make_learner(
    part: Part, task: Task, parameters: Mapping[str, Any] | None = None, *, beside: Part | None = None
) -> Learner:
    """The learner of this name, with its own options and further parameters.

    One from elsewhere comes in its adapter, whose parameters may be given with its own. ``beside`` is a strategy whose
    parameters a message offers too.
    """
    options = {**part.options, **(parameters or {})}
    foreign = part.name not in LEARNERS
    maker = _imported(part.name) if foreign else LEARNERS[part.name].maker(task)
    known = _parameters(maker)
    own = {key: value for key, value in options.items() if key in known}
    made = _adapted(maker, own, part.name) if foreign else maker(**own)
    of_adapter = _parameters(type(made)) if foreign else []
    rest = {key: value for key, value in options.items() if key not in own and key not in of_adapter}
    if rest and not (foreign and _takes_any(maker)):
        whose = part.name if beside is None else f"{beside.name} with {part.name}"
        raise _unknown(whose, next(iter(rest)), [*([] if beside is None else beside.options), *known, *of_adapter])
    if rest:
        made = _adapted(maker, own | rest, part.name)
    for key in options.keys() - own.keys() - rest.keys():
        setattr(made, key, options[key])
    if task not in made.capabilities.tasks:
        raise CapabilityError(
            f"the learner {part.name} is for the task {' or '.join(sorted(made.capabilities.tasks))}, not for {task}; "
            f"choose another task, or the learner {USUAL[task]}"
        )
    made.fresh(0, 1, made.capabilities.least_classes)  # where its parameters are checked
    return made


def _makers(name: str) -> list[Callable[..., Any]]:
    return [strategies.ResetOnDrift, DETECTORS[name]] if name in DETECTORS else [STRATEGIES[name]]


def _imported(name: str) -> Callable[..., Any]:
    module, _, attribute = name.replace(":", ".").rpartition(".")
    try:
        maker: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        inspect.signature(maker)
    except Exception as error:  # whatever it raises
        raise _not_made(name, error) from error
    return maker


def _adapted(maker: Callable[..., Any], options: Mapping[str, Any], name: str) -> Learner:
    from driftsurf.adapters import as_learner

    try:
        return as_learner(maker(**options))
    except Exception as error:  # whatever it raises
        raise _not_made(name, error) from error


def _not_made(name: str, error: Exception) -> OptionError:
    return OptionError(f"learner is {name!r}, which cannot be made: {error}; install its package, or correct it")


def _unknown(whose: str, key: str, choices: Iterable[str]) -> OptionError:
    every = list(dict.fromkeys(choices))
    return OptionError(f"{whose} has no parameter {key!r}; {_near(key, every)}choices: {', '.join(every)}")


def _parameters(make: Callable[..., Any]) -> list[str]:
    """What can be set; the parts themselves and the seed are not."""
    own = inspect.signature(make).parameters.values()
    parts = "learner", "detector", "estimator", "model", "seed", "random_state"
    return [one.name for one in own if one.name not in parts and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]


def _takes_any(make: Callable[..., Any]) -> bool:
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(make).parameters.values())


def _near(name: str, choices: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(choices), n=1)
    return f"did you mean {found[0]!r}? " if found else ""


def read_value(text: str) -> Any:
    """A value as it is written on a command line: a number, true, false, none, or text.

    >>> [read_value(text) for text in ("4", "1e-3", "true", "none", "auto")]
    [4, 0.001, True, None, 'auto']
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
