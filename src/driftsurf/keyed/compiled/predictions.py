"""Predictions inside the compiled loops of a fleet: by the margins of two classes, or by the outputs of other learners.

Which of the two a loop contains is decided by the type of its blocks, so that a fleet without a model of its own does
not compile what only others need. numba does not notice changes to this file: remove the ``__pycache__`` folders
(``make clean``) after changing it.

In the arguments, ``blocks`` is the memory of all keys and ``k`` a slot (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from driftsurf.kernels.compile import UNWRAPPED, merged
from driftsurf.kernels.losses import SOFTMAX
from driftsurf.keyed.compiled.block import cell_of, counts_of, key_of, predicting, predictor_of
from driftsurf.keyed.compiled.guarding import limit_numbers, limit_rows
from driftsurf.keyed.compiled.label_sets import AGAINST_NAMES, KNOWN_CLASSES, LEARNED_CLASSES
from driftsurf.keyed.compiled.layout import OtherBlocks
from driftsurf.strategies.compiled.addresses import margins_at, uncentre_at
from driftsurf.strategies.compiled.layout import LOGISTIC
from driftsurf.strategies.compiled.model import score
from driftsurf.strategies.compiled.parts import finish_outputs_at

__all__ = ["complete_model", "decided", "missed", "predict", "predict_rows", "predict_single"]

MERGED: dict[str, Any] = {"forceinline": True, **UNWRAPPED}


def _are_other(blocks: Any) -> bool:
    return issubclass(blocks.instance_class, OtherBlocks)


# ---------------------------------------------------------------------------- rows of one key


def predict(blocks: Any, k: Any, rows: Any, total: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Write a number for each row by the model of slot k to ``scratch.margins``; ``decided`` makes a label of it.

    ``total`` is the number of classes that the key knows, if they are not named.
    """
    of_kind = _predict_others if isinstance(blocks, OtherBlocks) else _predict_two
    of_kind(blocks, k, rows, total, training, scratch, kernels)


@merged
def _second_of_two(own: Any, total: Any, margin: Any) -> Any:
    """Return whether the second of a key's classes is predicted, as ``ClassTargets`` does; ties go by name.

    A class without a time step so far is never predicted, and before the first step only the names are known.
    """
    if total < 2 or own[LEARNED_CLASSES] == 1:
        return False
    if own[AGAINST_NAMES] == 0:
        return margin > 0.0
    return (-margin if own[LEARNED_CLASSES] == 0 else margin) >= 0.0


def _predict_two(blocks: Any, k: Any, rows: Any, total: Any, training: Any, scratch: Any, kernels: Any) -> None:
    out = scratch.margins[: rows.shape[0]]
    margins_at(kernels.step.margins, rows)(rows, predictor_of(blocks, k), out)
    if blocks.places.growing:
        for i in range(out.shape[0]):
            out[i] = 1.0 if _second_of_two(blocks.classes[k], total, out[i]) else -1.0


def _predict_others(blocks: Any, k: Any, rows: Any, total: Any, training: Any, scratch: Any, kernels: Any) -> None:
    counts, n, K, out = counts_of(blocks, k), rows.shape[0], training.outputs, scratch.margins
    score(cell_of(blocks, k, -1, scratch), predicting(counts), rows, out[: n * K], training, kernels.step)
    if blocks.places.growing:
        own = blocks.classes[k]
        for i in range(n):
            # Of two outputs, equal ones before the first step stand for no margin.
            margin = out[i] if K == 1 else 0.0 if own[LEARNED_CLASSES] == 0 else out[i * K + K - 1] - out[i * K]
            out[i] = 1.0 if _second_of_two(own, total, margin) else 0.0
    elif training.kind == SOFTMAX:
        for i in range(n):
            best = 0
            if counts["step"] > 0:  # before that no class was learned, and the first one is predicted
                for code in range(1, K):
                    best = code if out[i * K + code] > out[i * K + best] else best
            out[i] = best
    elif not training.regression:
        for i in range(n):
            out[i] = out[i] > 0.0


@overload(predict, jit_options=MERGED, strict=False)  # type: ignore[untyped-decorator]
def _compiled_predict(blocks: Any, k: Any, rows: Any, total: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    return _predict_others if _are_other(blocks) else _predict_two


def decided(blocks: Any, value: Any) -> Any:
    """Return the code, or the number, that is predicted."""
    return value if isinstance(blocks, OtherBlocks) else value > 0.0


@overload(decided, jit_options=MERGED, strict=False)  # type: ignore[untyped-decorator]
def _compiled_decided(blocks: Any, value: Any) -> Any:
    return (lambda blocks, value: value) if _are_other(blocks) else (lambda blocks, value: value > 0.0)


def missed(predicted: Any, true: Any) -> Any:
    """Return the error of a prediction: 1 for a wrong class, or the distance from a number."""
    return abs(predicted - true) if true.dtype.kind == "f" else float(predicted != true)


@overload(missed, jit_options=MERGED, strict=False)  # type: ignore[untyped-decorator]
def _compiled_missed(predicted: Any, true: Any) -> Any:
    if isinstance(true, types.Float):
        return lambda predicted, true: abs(predicted - true)
    return lambda predicted, true: 1.0 if predicted != true else 0.0


@merged
def predict_rows(blocks: Any, k: Any, rows: Any, total: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Write a number for each row to ``scratch.margins``, as ``predict`` does, of rows within the limits of the key."""
    if blocks.places.guarded:
        shown, n = scratch.guard.rows, rows.shape[0]
        limit_rows(blocks, k, rows, shown)
        predict(blocks, k, shown[:n], total, training, scratch, kernels)
        if training.regression:
            limit_numbers(blocks, k, scratch.margins[:n])
    else:
        predict(blocks, k, rows, total, training, scratch, kernels)


@merged
def predict_single(blocks: Any, k: Any, row: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return what is predicted for one row that is not learned, and may have any values.

    It is the first class, or no number, if a value is not finite; and the first class, or 0, before any row was taken.
    """
    for c in range(row.shape[1]):
        if not abs(row[0, c]) < math.inf:
            return math.nan if training.regression else 0.0
    known = np.int64(blocks.classes[k, KNOWN_CLASSES]) if blocks.places.growing else 0
    if known == 0 and counts_of(blocks, k)["next"] + key_of(blocks, k)["pending"] == 0:
        return 0.0
    predict_rows(blocks, k, row, known, training, scratch, kernels)
    return 1.0 * decided(blocks, scratch.margins[0])


# ---------------------------------------------------------------------------- loading


def complete_model(cell: Any, side: Any, blocks: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Work out the weights by which rows are scored."""
    of_kind = _complete_others if isinstance(blocks, OtherBlocks) else _complete_two
    of_kind(cell, side, blocks, training, scratch, kernels)


@merged
def _complete_two(cell: Any, side: Any, blocks: Any, training: Any, scratch: Any, kernels: Any) -> None:
    width = cell.w.shape[1]
    w, raw = cell.w[side].reshape(width, 1), cell.raw[side].reshape(width, 1)
    uncentre_at(kernels.step.uncentre, blocks.values)(w, cell.centre[side], 0.0, raw)


def _complete_others(cell: Any, side: Any, blocks: Any, training: Any, scratch: Any, kernels: Any) -> None:
    if training.kind == LOGISTIC:
        _complete_two(cell, side, blocks, training, scratch, kernels)
    else:
        finish_outputs_at(kernels.step.finish_outputs, cell.X)(cell, side, training, scratch.step, kernels.step)


@overload(complete_model, jit_options=MERGED, strict=False)  # type: ignore[untyped-decorator]
def _compiled_complete(cell: Any, side: Any, blocks: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    return _complete_others if _are_other(blocks) else _complete_two
