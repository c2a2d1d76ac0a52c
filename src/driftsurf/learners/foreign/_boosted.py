"""LightGBM: what it lacks on a machine, and its fitted trees, which the native core evaluates."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import sys
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray, IntArray
from driftsurf.errors import MissingExtraError, StateError
from driftsurf.native.trees import TreeSum

INSTALL = "pip install lightgbm"
OPENMP = {
    "apt-get": "apt-get install libgomp1",
    "dnf": "dnf install libgomp",
    "apk": "apk add libgomp",
    "brew": "brew install libomp",
}
"""Commands that install the library of threads that LightGBM needs, by the program that installs packages."""

CATEGORY, MISSING_LEFT, ZERO_MISSING, NAN_MISSING = 1, 2, 4, 8
"""Bits of a decision, both in LightGBM's ``decision_type`` and in ``native/c/trees.h``."""
ENTRY = re.compile(
    r"^(num_leaves|num_cat|split_feature|threshold|decision_type|left_child|right_child|leaf_value|cat_boundaries"
    r"|cat_threshold|is_linear|num_tree_per_iteration|max_feature_idx|objective)=(.*)$",
    re.MULTILINE,
)
FEW = 30
"""Rows of a call from which on LightGBM is asked itself, unless its trees have been read."""
OBJECTIVES = "regression", "binary", "multiclass"
"""First words of the objectives whose trees are evaluated."""


@functools.cache
def lacks() -> str:
    """Return what LightGBM needs of the system and lacks, with the command that installs it; "" if it can be loaded.

    Its wheels need a library of the system, which small container images do not have.
    """
    if sys.modules.get("lightgbm") is not None:
        return ""
    spec = find_spec("lightgbm")
    if spec is None:
        return ""
    files = sorted(Path(spec.origin or "").parent.glob("*/*lib_lightgbm.*"))
    files = [file for file in files if file.suffix in (".so", ".dylib", ".dll")]
    try:
        for file in files:
            ctypes.CDLL(str(file))
        if not files:  # some distributions keep the library elsewhere; importing takes a second
            import_module("lightgbm")
    except (ImportError, OSError) as error:
        return remedy(error)
    return ""


def remedy(error: BaseException) -> str:
    """Return what to install where LightGBM cannot be loaded: the library of threads, which is most often missing."""
    if not any(name in str(error) for name in ("libgomp", "libomp")):
        return f"its library cannot be loaded ({error})"
    known = next((command for program, command in OPENMP.items() if shutil.which(program)), OPENMP["apt-get"])
    return f"LightGBM needs the system library libgomp1: {known}"


def lightgbm() -> Any:
    """Import LightGBM; MissingExtraError says what to install."""
    try:
        return import_module("lightgbm")
    except ImportError as error:
        raise MissingExtraError(f"boosted trees need lightgbm: {INSTALL}") from error
    except OSError as error:
        raise MissingExtraError(f"boosted trees need lightgbm: {remedy(error)}") from error


class Boosted:
    """A fitted model of LightGBM, and its trees in the native core once they are needed.

    The core reads the text that LightGBM writes of a model: no thread of LightGBM runs, few rows need no preparation,
    and equal trees predict the same bits on every machine.
    """

    def __init__(self, booster: Any = None, written: str = "") -> None:
        self.booster_ = booster
        self._written = written

    def __reduce__(self) -> tuple[Any, ...]:
        return Boosted, (self.booster_, self._written)

    @property
    def written(self) -> str:
        """Text that LightGBM writes of the model."""
        return self._written or self.booster_.model_to_string()

    @cached_property
    def trees(self) -> TreeSum:
        """Trees in the core."""
        return read_trees(self.written)

    def sums(self, rows: Any) -> FloatArray:
        """Return the scores (n, outputs) of rows: margins of the second class or of each class, or numbers.

        Reading the trees takes as long as dozens of calls. Until few rows come at a time, LightGBM itself adds up those
        of dense rows, in the same order and so with the same bits.
        """
        if self.booster_ is None or "trees" in vars(self) or isinstance(rows, CSR) or len(rows) < FEW:
            return self.trees(rows)
        found = self.booster_.predict(rows, raw_score=True, num_threads=1)
        return np.asarray(found, np.float64).reshape(len(rows), -1)


def read_trees(text: str) -> TreeSum:
    """Return the trees of a model from the text that LightGBM writes; StateError if they cannot be evaluated.

    Examples
    --------
    >>> stump = "num_leaves=2\\nnum_cat=0\\nsplit_feature=1\\nthreshold=0.5\\ndecision_type=2\\nleft_child=-1\\n"
    >>> stump += "right_child=-2\\nleaf_value=3 4\\n"
    >>> head = "num_tree_per_iteration=1\\nmax_feature_idx=1\\nobjective=regression\\n"
    >>> trees = read_trees(f"{head}\\nTree=0\\n{stump}\\nend of trees")
    >>> trees(np.array([[0.0, 0.2], [0.0, 0.9]]))[:, 0]
    array([3., 4.])
    """
    head, *parts = text.partition("end of trees")[0].split("\nTree=")
    try:
        about, trees = _entries(head), [_entries(part) for part in parts]
        if about["objective"].split()[0] not in OBJECTIVES:
            raise ValueError(f"the objective {about['objective']!r} is not one of {', '.join(OBJECTIVES)}")
        if any(tree.get("is_linear", "0") != "0" for tree in trees):
            raise ValueError("trees with linear leaves are not evaluated")
        leaves = np.array([max(int(tree["num_leaves"]), 1) for tree in trees], np.int64)
        first_leaf, first_node = np.cumsum(leaves) - leaves, np.cumsum(leaves - 1) - leaves + 1
        kinds = _joined(trees, "decision_type", int)
        # A child is a number within its tree: from 0 on of nodes, from -1 down of leaves.
        left, right = (_joined(trees, name, int) for name in ("left_child", "right_child"))
        for child in left, right:
            child += np.where(child < 0, -np.repeat(first_leaf, leaves - 1), np.repeat(first_node, leaves - 1))
        thresholds, words, bits = _categories(trees, kinds, _joined(trees, "threshold", float), leaves)
        values = _joined(trees, "leaf_value", float)
        if len(values) != leaves.sum():
            raise ValueError(f"there are {len(values)} values of {leaves.sum()} leaves")
        return TreeSum(
            _whole(np.column_stack([_joined(trees, "split_feature", int), left, right, kinds, words])),
            thresholds,
            values,
            bits,
            _whole(np.where(leaves > 1, first_node, -1 - first_leaf)),
            outputs=int(about["num_tree_per_iteration"]),
            columns=int(about["max_feature_idx"]) + 1,
        )
    except (KeyError, IndexError, ValueError, OverflowError) as error:
        raise StateError(f"the saved trees cannot be read: {error}") from error


def _categories(
    trees: list[dict[str, str]], kinds: IntArray, thresholds: FloatArray, leaves: IntArray
) -> tuple[FloatArray, IntArray, npt.NDArray[np.int32]]:
    """Return thresholds in which a category has its first word, the words of each node, and the words of all trees.

    The threshold of a category is the number of a set of values within its tree, and a set is a range of words.
    """
    words = np.zeros(len(kinds), np.int64)
    coded = np.flatnonzero(kinds & CATEGORY)
    if not len(coded):
        return thresholds, words, np.empty(0, np.int32)
    first_set, starts, lengths = [0], list[int](), list[int]()
    for tree in trees:
        bounds = _numbers(tree.get("cat_boundaries", "0"), int)
        starts += (sum(lengths) + bounds[:-1]).tolist()
        lengths += np.diff(bounds).tolist()
        first_set.append(len(starts))
    which = thresholds[coded].astype(np.int64)
    tree_of = np.repeat(np.arange(len(trees)), leaves - 1)[coded]
    if (which < 0).any() or (which >= np.diff(first_set)[tree_of]).any():
        raise ValueError("a split names a set of values that is not there")
    which += np.array(first_set)[tree_of]
    thresholds[coded], words[coded] = np.array(starts)[which], np.array(lengths)[which]
    bits = _joined([tree for tree in trees if "cat_threshold" in tree], "cat_threshold", int)
    return thresholds, words, bits.astype(np.uint32).view(np.int32)


def _entries(text: str) -> dict[str, str]:
    """Return the entries that are needed of lines such as ``num_leaves=31``."""
    return dict(ENTRY.findall(text))


def _joined(trees: list[dict[str, str]], name: str, kind: type) -> npt.NDArray[Any]:
    """Return the numbers of an entry of all trees; a tree of one leaf has no nodes."""
    return _numbers(" ".join(tree[name] for tree in trees if name in tree), kind)


def _numbers(text: str, kind: type) -> npt.NDArray[Any]:
    # ``fromstring`` finds a number in text without any.
    dtype = np.float64 if kind is float else np.int64
    return np.fromstring(text, dtype, sep=" ") if text.strip() else np.empty(0, dtype)


def _whole(values: IntArray) -> npt.NDArray[np.int32]:
    """Return numbers as int32; ValueError if one is too large."""
    narrow = values.astype(np.int32)
    if (narrow != values).any():
        raise ValueError("a number is too large")
    return narrow
