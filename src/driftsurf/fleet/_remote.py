"""Kernels called by address: the very machine code that a model of its own runs.

A kernel may reorder its sums (``FASTMATH``), so the same source, compiled into another loop, may give other
last bits, and with them other decisions. Called through its address it cannot be compiled into anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = ["Remote"]


class Remote:
    """One kernel for one type of row.

    Parameters
    ----------
    kernel
        A function made by ``driftsurf._kernels.kernel``.
    signature
        What it takes and returns. Checked whenever an address is asked for: code that was compiled for
        another signature, and kept on disk, must not be called with this one.
    row_type
        The type of row that picks the signature.

    ``at``, in a compiled loop, makes a function of an address. As plain Python the kernel is its own address.
    """

    def __init__(self, kernel: Callable[..., Any], signature: Any, row_type: npt.DTypeLike) -> None:
        self.kernel = kernel
        self.signature = signature
        self.row_type = np.dtype(row_type)
        self.at = _at(types.FunctionType(signature))

    def address(self) -> Any:
        """Where the compiled kernel begins."""
        if numba.config.DISABLE_JIT:
            return self.kernel
        compiled = self.kernel.compiled_for(self.row_type, self.signature.args[-1] is types.none)  # type: ignore[attr-defined]
        result = compiled.overloads[self.signature.args]
        if result.signature != self.signature:
            raise TypeError(f"the kernel {self.kernel.__name__} is {result.signature}, not {self.signature}")
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


def _at(function_type: Any) -> Callable[[Any], Any]:
    def at(address: Any) -> Any:
        return address

    @intrinsic  # type: ignore[misc]
    def cast(typing_context: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = cgutils.create_struct_proxy(function_type)(context, builder)
            made.jit_addr = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
            return made._getvalue()

        return function_type(address), build

    @overload(at)  # type: ignore[misc]
    def compiled(address: Any) -> Any:
        def made(address: Any) -> Any:
            return cast(address)

        return made

    return at
