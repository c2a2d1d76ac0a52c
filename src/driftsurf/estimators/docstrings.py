"""Docstrings of estimators, made from those of the strategies."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable

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
_UNDERLINED = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
_REFERENCE = re.compile(r"As for :class:`([\w.]+)`")


def docstring(strategy: type, title: str, suffix: str, options: Iterable[str], example: str) -> str:
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


def option_text(strategy: type, name: str) -> str:
    """Return the description of an option in the docstring of a strategy; that of another class that it refers to."""
    if name == "detector":
        return DETECTOR
    text = _parameters(strategy).get(name, "")
    found = _REFERENCE.match(text)
    if found is None:
        return text
    module, _, other = found[1].rpartition(".")
    return _parameters(getattr(importlib.import_module(module), other))[name]


def learning_example(suffix: str, name: str) -> str:
    """Return an example of a class: learn a stream, and predict better than chance."""
    stream, chance = STREAMS[suffix]
    return textwrap.dedent(
        f"""
        >>> from driftsurf.estimators import {name}
        >>> from driftsurf.streams import {stream}
        >>> model = {name}(random_state=0)
        >>> for X, y in {stream}(n_rows=2_000).batches(200):
        ...     model = model.partial_fit(X, y)
        >>> model.score(X, y) > {chance}
        True
        """
    ).strip()


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
