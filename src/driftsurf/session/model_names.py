"""Models by name, for every command: a strategy around a learner, each with options.

``STRATEGY(option=value):LEARNER(option=value)``, such as ``driftsurf``, ``aue:softmax``, ``ddm(drift_level=4):svm`` or
``driftsurf(threshold=0.2):sklearn.tree.DecisionTreeClassifier(max_depth=6)``. Without a learner the default one of the
task is used. The name of a detector stands for a model that is reset when the detector signals. ``recommended``,
``recommended-light``, ``recommended-trees`` and ``recommended-linear`` are the models of :func:`driftsurf.recommended`.

Strategies, detectors and learners are found in :mod:`driftsurf.registry`, those of other packages included.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from driftsurf import registry
from driftsurf.core.abilities import DetectorBased
from driftsurf.core.contracts import Learner, Strategy
from driftsurf.core.options import parse_value, shown
from driftsurf.data.row_encoder import Task
from driftsurf.errors import CapabilityError, Option, OptionError

RECOMMENDED = {
    "recommended": "portfolio:softmax(steps_per_row=8.0)",
    "recommended-light": "portfolio(experts='light'):softmax(steps_per_row=8.0)",
    "recommended-trees": "driftsurf:lightgbm",
    "recommended-linear": "driftsurf(judge='prequential'):softmax(steps_per_row=8.0)",
}
"""The models that :func:`driftsurf.recommended` makes, by name."""
_OUTSIDE_BRACKETS = r"(?![^(]*\))"
_NOT_SETTABLE = "learner", "detector", "estimator", "model", "seed", "random_state"
"""Arguments that are other parts, or are set by the run itself."""


@dataclass(frozen=True, slots=True)
class PartName:
    """The name of a strategy, detector or learner, with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        name = self.name.replace(":", ".")  # module:Class is module.Class
        return (
            f"{name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})" if self.options else name
        )


_RECOMMENDED_LINEAR = PartName("softmax", {"steps_per_row": 8.0})
_RECOMMENDED_LINEAR_REGRESSION = PartName("linear", {"steps_per_row": 8.0})


@dataclass(frozen=True, slots=True)
class ModelName:
    """The name of a model, split into its strategy and its learner."""

    text: str
    """The name in one spelling, however it was typed."""
    strategy: PartName
    learner: PartName | None
    """None for the default learner of the task."""

    def learner_for(self, task: Task) -> PartName:
        """Return the learner to use for a task."""
        if task == "regression" and self.text in RECOMMENDED and self.learner == _RECOMMENDED_LINEAR:
            return _RECOMMENDED_LINEAR_REGRESSION
        return PartName(registry.default("learner", task).name) if self.learner is None else self.learner

    @property
    def packages(self) -> tuple[str, ...]:
        """Import names of the packages, other than driftsurf, that the strategy and the learner come from."""
        found = [_package(("strategy", "detector"), self.strategy.name), *_used(self.strategy.name)]
        found += [] if self.learner is None else [_package("learner", self.learner.name)]
        return tuple(dict.fromkeys(name for name in found if name != "driftsurf"))


def _package(kind: registry.Kind | tuple[registry.Kind, ...], name: str) -> str:
    entry = registry.lookup(kind, name)
    if entry is None:
        return re.split(r"[.:]", name)[0] if re.search("[.:]", name) else "driftsurf"
    return entry.requires[0] if entry.requires else entry.part.__module__.partition(".")[0]


def _used(strategy: str) -> list[str]:
    """Return the installed packages that a strategy uses where it can."""
    entry = registry.lookup("strategy", strategy)
    return [] if entry is None else [name for name in entry.details.get("uses", ()) if find_spec(name) is not None]


# ---------------------------------------------------------------------------- reading names


def model_names() -> list[str]:
    """Return every name that stands for a model without further arguments: strategies, then detectors."""
    return [*filter(_is_model, registry.names("strategy")), *registry.names("detector")]


def _is_model(strategy: str) -> bool:
    """Whether a strategy needs nothing but a learner. The drift steps of an oracle, for one, are not known to a run."""
    return not registry.get("strategy", strategy).needs & {"detector", "drift_steps"}


def read_model(
    text: str, learner: str | None = None, *, more: Iterable[str] = (), others: Iterable[str] = ()
) -> ModelName:
    """Split the name of a model; OptionError unless its strategy and its learner are known.

    Parameters
    ----------
    text
        The name, such as ``"driftsurf"`` or ``"ddm(drift_level=4):svm"``.
    learner
        A learner that is named separately, for a ``text`` without one.
    more
        Names of further strategies that the caller knows.
    others
        Names of further models that the caller knows; error messages offer them, too.

    Examples
    --------
    >>> read_model("driftsurf( threshold=0.2 ):sklearn.tree:DecisionTreeClassifier").text
    'driftsurf(threshold=0.2):sklearn.tree.DecisionTreeClassifier'
    >>> read_model("driftsurf:forest")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: learner is 'forest'; choices: lightgbm, lightgbm-lazy, linear, ...
    """
    if not isinstance(text, str):
        raise OptionError(Option("model"), f" is {shown(text)}; it must be a text such as 'driftsurf:logistic'")
    text = text.strip()
    head, *tail = re.split(f":{_OUTSIDE_BRACKETS}", RECOMMENDED.get(text, text), maxsplit=1)
    if tail and learner is not None:
        raise OptionError(
            *(Option("model"), f" is {text!r}, which names a learner, and "),
            *(Option("learner"), f" is {learner!r}; name the learner once"),
        )
    strategy = read_part(head, text)
    _check_strategy(strategy.name, text, more, others)
    named = tail[0] if tail else learner
    inner = None if named is None else read_part(named, text)
    if inner is not None:
        _check_learner(inner.name)
    written = f"{strategy}" if inner is None else f"{strategy}:{inner}"
    return ModelName(text if text in RECOMMENDED else written, strategy, inner)


def _check_strategy(name: str, text: str, more: Iterable[str], others: Iterable[str]) -> None:
    if name in RECOMMENDED:
        raise OptionError(
            Option("model"),
            f" is {text!r}; {name} takes no options and no learner. Write {RECOMMENDED[name]}, and change that",
        )
    more = list(more)
    entry = registry.lookup(("strategy", "detector"), name)
    if name in more or (entry is not None and (entry.kind == "detector" or _is_model(name))):
        return
    choices = list(dict.fromkeys([*model_names(), *more, *RECOMMENDED, *others]))
    learner = None if registry.lookup("learner", name) is None else f"that is a learner, write driftsurf:{name}; "
    raise OptionError(
        Option("model"),
        f" is {name!r}; {learner or registry.nearest(name, choices)}choices: {', '.join(choices)}; a strategy or "
        "detector also as STRATEGY:LEARNER, such as driftsurf:softmax",
    )


def _check_learner(name: str) -> None:
    if re.search(r"\w[.:]\w", name) or registry.lookup("learner", name) is not None:
        return
    choices = registry.names("learner")
    raise OptionError(
        Option("learner"),
        f" is {name!r}; {registry.nearest(name, choices)}choices: {', '.join(choices)}, or module:Class, such as "
        "sklearn.linear_model:SGDClassifier",
    )


def read_part(text: str, whole: str) -> PartName:
    """Split ``name(option=value, ...)``. ``whole`` is the name it is a part of.

    The values are Python literals, or single words as on a command line: ``judge=prequential`` is text.

    >>> read_part("logistic(optimizer=strsaga, fit_intercept=false, l2=1e-3)", "...").options
    {'optimizer': 'strsaga', 'fit_intercept': False, 'l2': 0.001}
    """
    found = re.fullmatch(r"\s*([\w.:+-]+)\s*(?:\((.*)\))?\s*", text)
    try:
        if found is None:
            raise ValueError(text)
        call: Any = ast.parse(f"f({found[2] or ''})", mode="eval").body
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError(text)
        return PartName(found[1], {word.arg: _value(word.value) for word in call.keywords})
    except (ValueError, SyntaxError, AttributeError):  # the last one if it is more than one call
        raise OptionError(
            f"{text!r} in {whole!r} cannot be read; write a name, or name(option=value, ...) with numbers, words, or "
            "other text in quotes: variant='algorithm-1'"
        ) from None


def _value(node: ast.expr) -> Any:
    return parse_value(node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)


def split_names(text: str) -> list[str]:
    """Split a list of models at the commas that are not inside brackets.

    >>> split_names("driftsurf:logistic, oblivious:sklearn.svm.SVC(C=2, gamma=0.1)")
    ['driftsurf:logistic', 'oblivious:sklearn.svm.SVC(C=2, gamma=0.1)']
    """
    return [name.strip() for name in re.split(f",{_OUTSIDE_BRACKETS}", text) if name.strip()]


def imported_class(models: str | None, learner: str | None = None) -> str:
    """Return the import path of the first class that names of models, or of a learner, would import; "" for none.

    A file that a stranger wrote may name registered parts only: any function could be called instead of such a class.

    >>> imported_class("aue, driftsurf:sklearn.svm.SVC(C=2)"), imported_class("driftsurf:softmax", "os:system")
    ('sklearn.svm.SVC', 'os:system')
    """
    split = [re.split(f":{_OUTSIDE_BRACKETS}", name, maxsplit=1) for name in split_names(models or "")]
    for name in [*(parts[1] for parts in split if len(parts) > 1), learner or ""]:
        path = name.partition("(")[0].strip()
        if re.search(r"\w[.:]\w", path) and registry.lookup("learner", path) is None:
            return path
    return ""


# ---------------------------------------------------------------------------- making models


def make_strategy(
    model: str, learner: str | None, task: Task, parameters: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Strategy:
    """Make the strategy that a model name stands for.

    Parameters
    ----------
    model
        A name as :func:`read_model` takes it: ``"aue"``, ``"aue:softmax"``, ``"ddm(drift_level=4):svm"``,
        ``"recommended"``.
    learner
        The learner, where ``model`` names none: a registered name, or ``"module:Class"`` for one of another library,
        such as ``"sklearn.linear_model:SGDClassifier"``; None for the default learner of the task.
    task
        "binary", "multiclass" or "regression".
    parameters
        Options of the strategy, the detector or the learner. Each goes to the first of them that has an option of
        that name, and takes precedence over an option in ``model`` or ``learner``.
    seed
        Seed of every random number.

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
    own = [key for entry in _entries(name) for key in settable_options(entry.part)]
    given = parameters or {}
    of_strategy = {key: value for key, value in given.items() if key in own}
    of_learner = {key: value for key, value in given.items() if key not in own}
    made = make_learner(found.learner_for(task), task, of_learner, inside=PartName(name, dict.fromkeys(own)))
    return with_options(strategy_around(name, made, seed=seed), {**found.strategy.options, **of_strategy}, name)


def require_exact_state(strategy: Strategy, model: str, learner: str | None, task: Task, why: str) -> None:
    """Raise CapabilityError if the learner can be saved by pickle only.

    ``model``, ``learner`` and ``task`` are what the strategy was made from; ``why`` says what needs an exact state.
    """
    if not strategy.learner.capabilities.exact_state:
        name = read_model(model, learner).learner_for(task).name
        raise CapabilityError(
            *(f"the learner {name} cannot be saved exactly, ", why, ", or use a learner of driftsurf, or one of "),
            *("scikit-learn that is refitted: ", Option("mode", "refit")),
        )


def strategy_around(name: str, learner: Learner, **options: Any) -> Strategy:
    """Make the strategy of this name, or a reset by the detector of this name, around a learner."""
    strategy, *detector = _entries(name)
    made: Strategy = strategy.make(learner, *(entry.make() for entry in detector), **options)
    return made


def with_options(strategy: Strategy, options: Mapping[str, Any], name: str) -> Strategy:
    """Set options of a new strategy, or of its detector, and check them. ``name`` is for error messages."""
    detector = strategy.detector if isinstance(strategy, DetectorBased) else None
    owners: list[Any] = [strategy] if detector is None else [strategy, detector]
    known = {key: owner for owner in reversed(owners) for key in settable_options(type(owner))}
    for key, value in options.items():
        if key not in known:
            raise _unknown(name, key, known)
        setattr(known[key], key, value)  # a constructor stores its arguments by name and does nothing else
    strategy.check()
    return strategy


def make_learner(
    part: PartName, task: Task, parameters: Mapping[str, Any] | None = None, *, inside: PartName | None = None
) -> Learner:
    """Make the learner of this name for a task.

    A class of another library is put into its adapter. ``parameters`` may then be options of the class or of the
    adapter. ``inside`` is the strategy around the learner; an error message offers its options, too.
    """
    options = {**part.options, **(parameters or {})}
    entry = registry.lookup("learner", part.name)
    if entry is not None:
        made = _registered(entry.for_task(task), options, part.name, inside)
    else:
        made = _foreign(part.name, options, inside)
    if task not in made.capabilities.tasks:
        raise CapabilityError(
            f"the learner {part.name} is for the task {' or '.join(sorted(made.capabilities.tasks))}, not for {task}; "
            f"choose another task, or the learner {registry.default('learner', task).name}"
        )
    made.fresh(0, 1, made.capabilities.min_classes)  # checks the values of its options
    return made


def _registered(entry: registry.Entry, options: Mapping[str, Any], name: str, inside: PartName | None) -> Learner:
    """Make a registered learner; OptionError if it has no option of some name."""
    known = settable_options(entry.part)
    for key in options:
        if key not in known:
            raise _unknown_inside(name, key, known, inside)
    made: Learner = entry.make(**options)
    return made


def _foreign(name: str, options: Mapping[str, Any], inside: PartName | None) -> Learner:
    """Make a class of another library, in its adapter.

    Which adapter it is, and so which options the adapter has, is known only once the class has been made.
    """
    maker = _import(name)
    known = settable_options(maker)
    own = {key: value for key, value in options.items() if key in known}
    made = _adapt(maker, own, name)
    of_adapter = settable_options(type(made))
    rest = {key: value for key, value in options.items() if key not in own and key not in of_adapter}
    if rest and not _takes_any_option(maker):
        raise _unknown_inside(name, next(iter(rest)), [*known, *of_adapter], inside)
    if rest:
        made = _adapt(maker, own | rest, name)
    for key in options.keys() - own.keys() - rest.keys():
        setattr(made, key, options[key])
    return made


def settable_options(make: Callable[..., Any]) -> list[str]:
    """Return the options of a class that a name can set: all arguments but other parts and the seed."""
    known = inspect.signature(make).parameters.values()
    variable = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return [one.name for one in known if one.name not in _NOT_SETTABLE and one.kind not in variable]


def _entries(name: str) -> list[registry.Entry]:
    """Return the entry of a strategy; for a detector, that of the strategy that resets and its own."""
    entry = registry.lookup(("strategy", "detector"), name) or registry.get("strategy", name)
    return [registry.get("strategy", "reset-on-drift"), entry] if entry.kind == "detector" else [entry]


def _import(name: str) -> Callable[..., Any]:
    module, _, attribute = name.replace(":", ".").rpartition(".")
    try:
        maker: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        inspect.signature(maker)
    except Exception as error:  # other libraries raise anything
        raise OptionError(
            f"the learner {name!r} cannot be imported: {error}. Install its package, or correct the name"
        ) from error
    return maker


def _adapt(maker: Callable[..., Any], options: Mapping[str, Any], name: str) -> Learner:
    from driftsurf.learners.foreign import as_learner

    try:
        made = maker(**options)
    except Exception as error:  # other libraries raise anything
        raise OptionError(f"the learner {name!r} cannot be made: {error}. Correct its options") from error
    try:
        return as_learner(made)
    except OptionError as error:
        raise OptionError(f"the learner {name!r} cannot be used: ", *error.args) from error


def _unknown_inside(learner: str, key: str, choices: Iterable[str], inside: PartName | None) -> OptionError:
    """Return the error for an unknown option, which offers the options of the strategy too."""
    if inside is None:
        return _unknown(learner, key, choices)
    return _unknown(f"{inside.name} with {learner}", key, [*inside.options, *choices])


def _unknown(name: str, key: str, choices: Iterable[str]) -> OptionError:
    """Return the error for an unknown option, with the choices."""
    every = list(dict.fromkeys(choices))
    return OptionError(f"{name} has no parameter {key!r}; {registry.nearest(key, every)}choices: {', '.join(every)}")


def _takes_any_option(make: Callable[..., Any]) -> bool:
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(make).parameters.values())
