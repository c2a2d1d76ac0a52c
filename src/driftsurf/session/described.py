"""Parameters of a part as text that is the same in every process, and parts made from such text.

The text is saved beside the state of a part, and compared.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, runtime_checkable

import numpy as np

from driftsurf import registry
from driftsurf.core.abilities import StrategyMaker, missing_members
from driftsurf.core.contracts import Detector, Learner, Strategy
from driftsurf.core.frames import LearnerLike
from driftsurf.core.options import shown
from driftsurf.errors import StateError


@runtime_checkable
class HasParameters(Protocol):
    """An object with parameters: a learner, a detector, a strategy, an estimator of scikit-learn."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments."""
        ...


@runtime_checkable
class _RiverParameterised(Protocol):
    def _get_params(self) -> dict[str, Any]: ...


def described(part: HasParameters) -> str:
    """Return the parameters of a part, and of the parts inside it, as JSON text.

    Numbers and text are written in full, functions and classes by name.
    """
    return json.dumps(part.get_params(), sort_keys=True, default=_by_name)


def described_option(value: object) -> str:
    """Return one option of a strategy as text: a plain value as JSON, a part by its class and parameters.

    >>> from driftsurf.detectors import DDM
    >>> described_option(0.1), described_option(DDM())[:4]
    ('0.1', 'DDM(')
    """
    if isinstance(value, HasParameters):
        return f"{type(value).__name__}({described(value)})"
    return json.dumps(value, sort_keys=True, default=_by_name)


def distinguish(was: str, now: str) -> tuple[str, str]:
    """Return two descriptions of parts without what is the same in both: their options, or all but their classes.

    >>> distinguish('SVM({"l2": 0.1, "scale": "auto"})', 'SVM({"l2": 0.2, "scale": "auto"})')
    ('SVM(l2=0.1)', 'SVM(l2=0.2)')
    >>> distinguish('SVM({"l2": 0.1})', 'DDM({"l2": 0.1})'), distinguish("0.1", "0.2")
    (('SVM', 'DDM'), ('0.1', '0.2'))
    """
    names, options = [was.partition("(")[0], now.partition("(")[0]], []
    if names[0] != names[1]:
        return names[0], names[1]
    try:
        options = [dict(json.loads(text[len(names[0]) + 1 : -1])) for text in (was, now)]
    except ValueError:
        return was, now
    missing = object()
    other = [
        name for name in {**options[0], **options[1]} if options[0].get(name, missing) != options[1].get(name, missing)
    ]
    first, second = (", ".join(f"{name}={own[name]!r}" for name in other if name in own) for own in options)
    return f"{names[0]}({first})", f"{names[0]}({second})"


def _by_name(value: Any) -> Any:
    if isinstance(value, HasParameters):
        return f"a {type(value).__name__}"  # get_params lists its own parameters beside it
    if isinstance(value, _RiverParameterised):
        return repr(value)
    if callable(value):
        return f"the function {getattr(value, '__name__', type(value).__name__)}"
    return to_json_value(value)


CONTRACTS: dict[registry.Kind, type] = {"detector": Detector, "learner": Learner, "strategy": Strategy}
"""Kinds of parts that may be parameters of another one, and are saved by name and options."""


def to_json_value(value: Any) -> Any:
    """JSON fallback for detectors, learners, strategies, numpy values and sets; StateError for anything else.

    >>> import json
    >>> json.dumps({"window": np.int64(3)}, default=to_json_value)
    '{"window": 3}'
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset | range):
        return sorted(value)
    if isinstance(value, StrategyMaker):
        value = value.new_strategy(seed=0)
    for kind in CONTRACTS:
        if registry.find(kind, type(value)) is not None:
            return {kind: type(value).__name__, "options": value.get_params(deep=False)}
    kinds = [kind for kind, contract in CONTRACTS.items() if not missing_members(value, contract)]
    if kinds:
        raise StateError(
            f"a parameter is the {kinds[0]} {type(value).__name__}, which cannot be saved because its class is not "
            f"registered; write @driftsurf.registry.register({kinds[0]!r}, NAME) above the class"
        )
    raise StateError(f"a parameter is {shown(value)}, which cannot be saved; use numbers, text or lists")


def same_learner(given: LearnerLike | None, name: str, params: str) -> LearnerLike:
    """Return the learner of saved bytes: a registered one by name, or the user's own if it is the same."""
    entry = registry.find("learner", name)
    made: Learner | None = None if entry is None else entry.make(**json.loads(params))
    # A later version may have further options, which have their defaults then.
    now = "" if made is None else described(made)
    known = made is not None and json.loads(params).items() <= json.loads(now).items()
    if given is not None:
        from driftsurf.learners.foreign import as_learner  # imports scikit-learn

        adapted = as_learner(given)
        if type(adapted).__name__ != name or described(adapted) not in (params, now if known else params):
            raise StateError(f"the learner of these bytes is {name}({params}), not {given!r}")
        return adapted
    if made is None or not known:
        raise StateError(
            f"the learner of these bytes is {name}({params}), which cannot be restored from its name: pass one like "
            "it, as load(path, learner=...) or from_bytes(data, learner=...)"
        )
    return made


def part_from_json(entry: dict[str, Any]) -> Any:
    """Return the detector, learner or strategy that ``to_json_value`` wrote; other entries as they are."""
    kind = next((one for one in CONTRACTS if entry.keys() == {one, "options"}), None)
    if kind is None:
        return entry
    found = registry.find(kind, str(entry[kind]))
    if found is None:
        raise StateError(f"these bytes name the {kind} {entry[kind]!r}, which is not registered")
    return found.part(**entry["options"])
