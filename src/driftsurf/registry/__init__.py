"""Strategies, learners, detectors, streams, formats, sources, sinks, engines, logs and pages by name.

A part is registered once, beside its class::

    @register("strategy", "newest-rows", tasks=ALL_TASKS)
    class NewestRows(SingleModel): ...

Command-line names, estimators, the check matrix, comparison styles and documentation tables are made from entries.
This module knows names and import paths only. The module of a part of this package is imported when its name is first
asked for; ``make generate`` writes all names and modules to ``index.py``. Another package adds parts through
entry points in the groups of ``ENTRY_POINTS``; each names the decorated class::

    [project.entry-points."driftsurf.strategies"]
    newest-batch = "my_package:NewestBatch"
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from driftsurf.errors import MissingExtraError, OptionError, RegistryWarning
from driftsurf.registry.index import DEFAULTS, MARKS, OPENS, PARTS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ALL_TASKS",
    "CLASSIFICATION",
    "REGRESSION",
    "Entry",
    "Example",
    "Kind",
    "default",
    "entries",
    "find",
    "get",
    "lookup",
    "name_of",
    "names",
    "nearest",
    "register",
    "with_mark",
]

Kind: TypeAlias = Literal[
    "strategy", "learner", "detector", "stream", "format", "source", "sink", "engine", "log", "page"
]
Part = TypeVar("Part", bound=Callable[..., Any])

CLASSIFICATION = frozenset({"binary", "multiclass"})
REGRESSION = frozenset({"regression"})
ALL_TASKS = CLASSIFICATION | REGRESSION

ENTRY_POINTS: Mapping[Kind, str] = {
    "strategy": "driftsurf.strategies",
    "learner": "driftsurf.learners",
    "detector": "driftsurf.detectors",
    "stream": "driftsurf.streams",
    "format": "driftsurf.formats",
    "source": "driftsurf.sources",
    "sink": "driftsurf.sinks",
    "engine": "driftsurf.engines",
    "log": "driftsurf.logs",
    "page": "driftsurf.pages",
}
"""The groups of entry points through which another package adds parts."""


@dataclass(frozen=True, slots=True)
class Example:
    """Options to try a part with. The check matrix runs a part once for each of its examples.

    A part whose defaults suit long streams has an example with which it acts within some dozen small batches;
    otherwise the checks see only what it does before.

    Examples
    --------
    >>> from driftsurf import registry
    >>> registry.get("strategy", "sliding-window").examples[0].options
    {'window': 100}
    >>> Example({"period": 3}, label="short").label
    'short'
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    """What tells this example from the others of the same part, such as "huber"; empty for the plain one."""
    tasks: frozenset[str] | None = None
    """The tasks it can be used for, where they are fewer than those of the part."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered part: its name, its class, and what has to be known before it is made.

    Examples
    --------
    >>> from driftsurf import registry
    >>> entry = registry.get("learner", "logistic")
    >>> entry.title, entry.part.__name__, sorted(entry.tasks)
    ('Logistic regression', 'LogisticRegression', ['binary'])
    >>> entry.make(l2=0.01).l2
    0.01
    """

    kind: Kind
    name: str
    part: Callable[..., Any]
    """The class or function that makes the part."""
    title: str
    """Name of the part in tables and figures."""
    tasks: frozenset[str] = frozenset()
    """The tasks that it can be used for: "binary", "multiclass", "regression"."""
    needs: frozenset[str] = frozenset()
    """Requirements of the part: capabilities of its learner, such as "weights", or an argument, such as "detector"."""
    requires: tuple[str, ...] = ()
    """Import names of optional packages without which it cannot be used."""
    install: str = ""
    """Command to run when a required package is missing, such as "pip install 'driftsurf[torch]'"."""
    lacks: Callable[[], str] | None = None
    """Function that returns what the packages need of the system and lack, with the command that installs it, or ""."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that this name stands for: "mddm-g" is MDDM with weighting="geometric"."""
    task_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further arguments for a task: "lightgbm" for "regression" is BoostedTrees with task="regression"."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """The name of the part that replaces it for a task: "logistic" for "multiclass" is "softmax"."""
    default_for: frozenset[str] = frozenset()
    """The tasks for which it is used when no name is given."""
    examples: tuple[Example, ...] = (Example(),)
    """Options to try it with, in the check matrix."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Facts that only one kind of part has.

    Of a strategy: ``family``, the group it is compared in ("single", "ensemble", "detector", "driftsurf" or "oracle");
    ``batches``, options that a comparison sets to a number of batches; ``shares_budget``, whether its ``budget`` option
    follows the comparison's budget; ``uses``, import names of packages that it uses if they are installed; ``draws``,
    whether it draws random numbers itself. Of a learner: ``draws``, whether it draws any; if not stated, it may.

    Of a format: ``endings`` of its files, ``streamed``, whether it reads bytes front to back, and ``cells``, how values
    arrive (:data:`driftsurf.data.source.Cells`). Of a source: ``schemes``, and ``opens``, which
    tells whether a path without a scheme is one of its own. Of a sink: ``endings`` or ``schemes``. Of a log:
    ``schemes``.
    """

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring on one line, for tables."""
        return " ".join((self.part.__doc__ or "").strip().partition("\n\n")[0].split())

    @property
    def marks(self) -> tuple[str, ...]:
        """Endings of files and schemes of addresses that belong to it; its name if it states neither."""
        named = () if "endings" in self.details else (self.name,)
        return (*self.details.get("endings", ()), *self.details.get("schemes", named))

    @property
    def installed(self) -> bool:
        """Whether every package that it requires can be imported."""
        return not self.remedy

    @property
    def remedy(self) -> str:
        """How to make a part usable, such as "pip install lightgbm"; "" if nothing is missing."""
        if self._missing():
            return self.install or f"install {', '.join(self.requires)}"
        return self.lacks() if self.lacks is not None else ""

    def for_task(self, task: str) -> Entry:
        """Return the entry to use for a task: the part that replaces this one, or this one with the task's options."""
        if task in self.instead:
            return get(self.kind, self.instead[task])
        return replace(self, options={**self.options, **self.task_options.get(task, {})})

    def make(self, *arguments: Any, **options: Any) -> Any:
        """Make the part; MissingExtraError if a package that it requires is not installed."""
        if remedy := self.remedy:
            missing = self._missing() or self.requires
            raise MissingExtraError(f"the {self.kind} {self.name!r} needs {', '.join(missing)}: {remedy}")
        return self.part(*arguments, **{**self.options, **options})

    def _missing(self) -> list[str]:
        # A module that is None in sys.modules is one whose import is blocked.
        return [package for package in self.requires if sys.modules.get(package) is None and find_spec(package) is None]


_entries: dict[tuple[Kind, str], Entry] = {}
_imported: set[str] = set()
_lock = threading.RLock()
if sys.platform != "win32":  # the thread that held it may not be in the forked process
    os.register_at_fork(after_in_child=lambda: _lock._is_owned() or _lock._at_fork_reinit())  # type: ignore[attr-defined]


def register(
    kind: Kind,
    name: str,
    *,
    title: str = "",
    tasks: Iterable[str] = (),
    needs: Iterable[str] = (),
    requires: Iterable[str] = (),
    install: str = "",
    lacks: Callable[[], str] | None = None,
    options: Mapping[str, Any] | None = None,
    task_options: Mapping[str, Mapping[str, Any]] | None = None,
    instead: Mapping[str, str] | None = None,
    default_for: Iterable[str] = (),
    examples: Iterable[Example] = (),
    **details: Any,
) -> Callable[[Part], Part]:
    """Register the decorated class or function under a name.

    A registered part can be saved by :func:`driftsurf.save`, is an attribute of :mod:`driftsurf.estimators` if it is a
    strategy, and has a name in ``driftsurf.run`` and ``driftsurf compare``, as long as its module is imported; an entry
    point in the groups of ``ENTRY_POINTS`` lets driftsurf import it when the name is used.

    The arguments are the fields of :class:`Entry`. The title is the name of the class unless another one is given.

    Examples
    --------
    >>> from driftsurf.registry import ALL_TASKS, Example
    >>> from driftsurf.strategies import SingleModel
    >>> @register("strategy", "ten-batches", tasks=ALL_TASKS, examples=[Example()])
    ... class TenBatches(SingleModel):
    ...     def foresee(self, next_step):
    ...         return "ten batches are over" if next_step % 10 == 0 else ""
    >>> from driftsurf.estimators import TenBatchesRegressor
    >>> TenBatchesRegressor(max_rows=500)
    TenBatchesRegressor(max_rows=500)
    """

    def decorate(part: Part) -> Part:
        entry = Entry(
            kind,
            name,
            part,
            title or part.__name__,
            tasks=frozenset(tasks),
            needs=frozenset(needs),
            requires=tuple(requires),
            install=install,
            lacks=lacks,
            options=dict(options or {}),
            task_options=dict(task_options or {}),
            instead=dict(instead or {}),
            default_for=frozenset(default_for),
            examples=tuple(examples) or (Example(),),
            details=details,
        )
        known = _entries.setdefault((kind, name), entry)
        # A module that is imported again, as when a notebook reloads it, registers the same parts again.
        if _home(known.part) != _home(part):
            raise OptionError(f"the {kind} {name!r} is registered twice: by {_home(known.part)} and by {_home(part)}")
        _entries[kind, name] = entry
        return part

    return decorate


def get(kind: Kind, name: str) -> Entry:
    """Return the entry of this name; OptionError with the choices if there is none.

    Examples
    --------
    >>> get("detector", "mddm-g").options
    {'weighting': 'geometric'}
    >>> get("strategy", "driftsurv")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no strategy is called 'driftsurv'; did you mean 'driftsurf'? choices: ...
    """
    entry = lookup(kind, name)
    if entry is None:
        choices = names(kind)
        raise OptionError(f"no {kind} is called {name!r}; {nearest(name, choices)}choices: {', '.join(choices)}")
    return entry


def lookup(kind: Kind | tuple[Kind, ...], name: str) -> Entry | None:
    """Return the entry of this name, or None. Of several kinds the first one that has the name counts.

    Examples
    --------
    >>> lookup(("strategy", "detector"), "ddm").kind
    'detector'
    """
    kinds = (kind,) if isinstance(kind, str) else kind
    for one in kinds:
        if found := _own(one, name):
            return found
    for one in kinds:
        _import_entry_points(one, strict=name)
        if (one, name) in _entries:
            return _entries[one, name]
    return None


def find(kind: Kind, part: Callable[..., Any] | str) -> Entry | None:
    """Return the entry of a class, or of a class name; None if it is not registered.

    A class with several names is found under the one that stands for the fewest options.

    Examples
    --------
    >>> find("detector", "MDDM").name
    'mddm'
    """
    if isinstance(part, str):
        for name, place in PARTS[kind].items():
            if place.endswith(f":{part}"):
                _own(kind, name)
    # The module of a class has been imported, and has registered it, but another module of its package may do that.
    if not (found := _named(kind, part)):
        _import_entry_points(kind)
        found = _named(kind, part)
    return min(found, key=lambda entry: len(entry.options)) if found else None


def with_mark(kind: Kind, mark: str, location: str = "") -> Entry | None:
    """Return the entry that opens a location, whatever its mark, or else the one with this mark; None without one.

    A mark is the ending of a file or the scheme of an address.

    Examples
    --------
    >>> with_mark("format", ".tsv").name, with_mark("source", "s3").name
    ('csv', 'objects')
    """
    if location:
        for name, place in OPENS.get(kind, {}).items():
            module, _, function = place.partition(":")
            if getattr(importlib.import_module(module), function)(location):
                return get(kind, name)
        for entry in _of_others(kind):
            if entry.details.get("opens", lambda _: False)(location):
                return entry
    if mark in MARKS.get(kind, {}):
        return get(kind, MARKS[kind][mark])
    return next((entry for entry in _of_others(kind) if mark in entry.marks), None)


def name_of(kind: Kind, part: object) -> str:
    """Return the name of a part, given as an object or by the name of its class, as messages show it.

    A class that is not registered has no other name than its own.

    Examples
    --------
    >>> from driftsurf.detectors import ADWIN
    >>> name_of("detector", ADWIN()), name_of("learner", "LinearSVM"), name_of("learner", "Mine")
    ('adwin', 'svm', 'Mine')
    """
    name = part if isinstance(part, str) else type(part).__name__
    entry = find(kind, name if isinstance(part, str) else type(part))
    return name if entry is None else entry.name


def default(kind: Kind, task: str) -> Entry:
    """Return the entry to use for a task when no name is given.

    Examples
    --------
    >>> default("learner", "regression").name
    'linear'
    """
    if task in DEFAULTS.get(kind, {}):
        return get(kind, DEFAULTS[kind][task])
    for entry in entries(kind):
        if task in entry.default_for:
            return entry
    raise OptionError(f"no {kind} is the default for the task {task!r}; choose one: {', '.join(names(kind))}")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return "did you mean 'x'? " for the choice that resembles ``name`` most, or nothing. Capitals do not matter.

    Examples
    --------
    >>> nearest("Adwinn", ["adwin", "ddm"])
    "did you mean 'adwin'? "
    """
    import difflib  # only a misspelled name needs it

    known = {choice.casefold().strip(): choice for choice in reversed(list(choices))}
    found = difflib.get_close_matches(name.casefold().strip(), list(known), n=1)
    return f"did you mean {known[found[0]]!r}? " if found else ""


def names(kind: Kind) -> list[str]:
    """Return all names of a kind, in alphabetical order.

    Examples
    --------
    >>> names("detector")[:3]
    ['adwin', 'ddm', 'eddm']
    """
    _import_entry_points(kind)
    return sorted({*PARTS[kind], *(entry.name for entry in _of_kind(kind))})


def entries(kind: Kind) -> list[Entry]:
    """Return all entries of a kind, sorted by name.

    Examples
    --------
    >>> [entry.title for entry in entries("detector")][:3]
    ['ADWIN', 'DDM', 'EDDM']
    """
    for name in PARTS[kind]:
        _own(kind, name)
    _import_entry_points(kind)
    return _of_kind(kind)


def _of_kind(kind: Kind) -> list[Entry]:
    return [entry for (other, _), entry in sorted(_entries.items(), key=lambda item: item[0]) if other == kind]


def _of_others(kind: Kind) -> list[Entry]:
    """Return the entries of other packages."""
    _import_entry_points(kind)
    return [entry for entry in _of_kind(kind) if entry.name not in PARTS[kind]]


def _named(kind: Kind, part: Callable[..., Any] | str) -> list[Entry]:
    return [one for one in _of_kind(kind) if (one.part.__name__ == part if isinstance(part, str) else one.part is part)]


def _own(kind: Kind, name: str) -> Entry | None:
    """Return the entry of a part of this package, or of one that is registered already; import its module."""
    module = PARTS[kind].get(name, "").partition(":")[0]
    if module and module not in _imported:
        with _lock:
            importlib.import_module(module)
            _imported.add(module)
    return _entries.get((kind, name))


def _import_entry_points(kind: Kind, strict: str = "") -> None:
    """Import the parts of other packages.

    A fault of another package is a warning and does not hide the other parts, unless ``strict`` names its part.
    """
    with _lock:
        for point in _entry_points(ENTRY_POINTS[kind]):
            _import_entry_point(kind, point, strict)


@functools.cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; cached, because the metadata of all installed packages are read."""
    from importlib.metadata import entry_points  # takes longer to import than this whole module

    return tuple(entry_points(group=group))


def _import_entry_point(kind: Kind, point: EntryPoint, strict: str) -> None:
    name = f"{point.group}:{point.name}"
    if name in _imported:
        return
    try:
        point.load()
        if (kind, point.name) not in _entries:
            raise LookupError(f"it does not register a {kind} of this name")
    except Exception as error:  # whatever another package raises
        message = f"the entry point {point.name} = {point.value!r} in {point.group!r} cannot be used: {error}"
        if strict == point.name:
            raise OptionError(message) from error
        warnings.warn(message, RegistryWarning, stacklevel=4)
    _imported.add(name)


def _home(part: Callable[..., Any]) -> str:
    return f"{part.__module__}.{part.__qualname__}"
