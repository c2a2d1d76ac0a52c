"""The C loops of ``anchor.c``, compiled when needed and callable like the loops that they are compared with."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

SOURCE = Path(__file__).with_name("anchor.c")
FLAGS = ("-O3", "-march=native", "-std=c11", "-fPIC", "-shared")
RELAXED = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-freciprocal-math")
"""Compiler flags that allow sums in another order; NaN and infinity are kept."""

Loop = Callable[..., int]


class Anchor:
    """A build of ``anchor.c``, whose loops take the arrays of rows as one tuple."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def saga_dense(self, *, prefetch: bool) -> Loop:
        """Return the C version of ``linear.saga`` for dense rows."""
        function = self._function("saga_dense", prefetch, "pi" + "pppi" + "ppp" + "iffp")

        def call(rows: Any, order: Any, model: Any, drawn: int, eta: float, mu: float, frame: Any, _: None) -> int:
            X, y, weight = rows
            w, G, table = model
            return function(X, X.shape[1], y, weight, order, len(order), w, G, table, drawn, eta, mu, frame[0])

        return call

    def saga_softmax(self, *, prefetch: bool) -> Loop:
        """Return the C version of ``multi.saga_dense`` with the softmax loss."""
        function = self._function("saga_softmax", prefetch, "pi" + "pppi" + "pppi" + "iff" + "pppp")

        def call(rows: Any, order: Any, model: Any, drawn: int, eta: float, mu: float, frame: Any, _: None) -> int:
            X, y, weight = rows
            W, G, table = model
            sizes = X, X.shape[1], y, weight, order, len(order)
            room = np.empty((2, len(W)))
            return function(*sizes, W, G, table, len(W), drawn, eta, mu, *frame[:2], *room)

        return call

    def sgd_dense(self) -> Loop:
        """Return the C version of ``linear.sgd_dense``."""
        function = self._function("sgd_dense", True, "pi" + "pppi" + "p" + "ffp")

        def call(rows: Any, order: Any, w: Any, eta: float, mu: float, frame: Any, _: None) -> int:
            X, y, weight = rows
            return function(X, X.shape[1], y, weight, order, len(order), w, eta, mu, frame[0])

        return call

    def saga_csr(self, *, prefetch: bool) -> Loop:
        """Return the C version of ``linear.saga_csr``."""
        function = self._function("saga_csr", prefetch, "ppp" + "pppi" + "ppip" + "iffp")

        def call(rows: Any, order: Any, model: Any, drawn: int, eta: float, mu: float, frame: Any, _: None) -> int:
            w, G, table = model
            return function(*rows, order, len(order), w, G, len(w), table, drawn, eta, mu, frame[0])

        return call

    def _function(self, name: str, prefetch: bool, arguments: str) -> Loop:
        """Return a C function by name; in ``arguments`` p is an array, i an integer and f a double."""
        types = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_double}
        function = getattr(self._library, f"{name}_prefetch" if prefetch else name)
        function.argtypes = [types[letter] for letter in arguments]
        function.restype = ctypes.c_int64

        def call(*values: Any) -> int:
            result: int = function(*(v.ctypes.data if isinstance(v, np.ndarray) else v for v in values))
            return result

        return call


def build(row: Literal["double", "float"] = "double", *, relaxed: bool = False) -> Anchor | None:
    """Compile into a temporary folder and load the result; None if there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "anchor.so"
        options = [*FLAGS, *(RELAXED if relaxed else ()), f"-DROW={row}"]
        subprocess.run([compiler, *options, str(SOURCE), "-o", str(library), "-lm"], check=True)
        return Anchor(ctypes.CDLL(str(library)))  # stays mapped when the file is gone
