"""LightGBM itself: what it lacks, and a fitted model, which predicts a single row by a function made for that."""

from __future__ import annotations

import ctypes
import functools
import shutil
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.errors import MissingExtraError

INSTALL = "pip install lightgbm"
OPENMP = {
    "apt-get": "apt-get install libgomp1",
    "dnf": "dnf install libgomp",
    "apk": "apk add libgomp",
    "brew": "brew install libomp",
}
"""Commands that install the library of threads that LightGBM needs, by the program that installs packages."""

NORMAL, FLOAT64 = 0, 1
"""Kind of prediction and type of numbers, as LightGBM's C interface calls them."""


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
    """A fitted model, as LightGBM's interface for scikit-learn holds it."""

    def __init__(self, booster: Any) -> None:
        self.booster_ = booster
        self._row: SingleRow | None = None
        self._tried = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Boosted, (self.booster_,)

    def predict(self, matrix: Any) -> npt.NDArray[Any]:
        """Return what ``Booster.predict`` does; for a single row it takes a tenth of the time."""
        if len(matrix.shape) == 2 and matrix.shape[0] == 1 and isinstance(matrix, np.ndarray):
            if not self._tried:
                self._row, self._tried = SingleRow.of(self.booster_, matrix.shape[1]), True
            if self._row is not None:
                return self._row(matrix)
        return np.asarray(self.booster_.predict(matrix, num_threads=1))


class SingleRow:
    """Predicts one row with a booster, which it keeps alive."""

    def __init__(self, booster: Any, columns: int) -> None:
        library, handle = _library(), getattr(booster, "_handle", None) or booster.handle
        self._booster, self._outputs = booster, int(booster.num_model_per_iteration())
        self._columns = columns
        self._free, self._config = library.LGBM_FastConfigFree, ctypes.c_void_p()
        self._predict = library.LGBM_BoosterPredictForMatSingleRowFast
        self._predict.argtypes = [ctypes.c_void_p] * 4
        values = NORMAL, 0, -1, FLOAT64, columns
        begin = library.LGBM_BoosterPredictForMatSingleRowFastInit
        if begin(handle, *map(ctypes.c_int, values), b"num_threads=1", ctypes.byref(self._config)):
            raise OSError("LightGBM does not predict single rows")
        self._type = ctypes.c_double * self._outputs

    @classmethod
    def of(cls, booster: Any, columns: int) -> SingleRow | None:
        """Return the predictor of a booster; None if this version of LightGBM has no such function."""
        try:
            return cls(booster, columns)
        except (AttributeError, OSError):
            return None

    def __call__(self, row: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the outputs of a row (1, columns), as ``Booster.predict`` does."""
        values = np.ascontiguousarray(row, np.float64)
        if values.shape[1] != self._columns:
            raise ValueError(f"a row has {values.shape[1]} columns instead of {self._columns}")
        found, count = np.empty(self._outputs), ctypes.c_int64()
        address = found.__array_interface__["data"][0]
        if self._predict(self._config, values.__array_interface__["data"][0], ctypes.addressof(count), address):
            raise RuntimeError(_library().LGBM_GetLastError().decode())
        return found if self._outputs == 1 else found[None]

    def __del__(self) -> None:
        config = getattr(self, "_config", None)
        if config:
            self._free(config)


def _library() -> Any:
    """Return LightGBM's C library, whose functions keep the GIL: a call for one row takes about a microsecond."""
    from lightgbm import basic

    library: Any = ctypes.PyDLL(basic._LIB._name, handle=basic._LIB._handle)
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    return library
