"""What numba does not do by itself: kernels called by address, and arrays that are not counted.

A key of a fleet must be learnt by the very machine code that learns a model of its own: a kernel may reorder its
sums (``FASTMATH``), so the same source, compiled into another loop, may give other last bits, and with them other
decisions. Called through its address it cannot be compiled into anything.
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

__all__ = ["Remote", "borrowed"]


def borrowed(arrays: Any) -> Any:
    """The same arrays, in tuples of any depth, without the count of references to them.

    In a compiled loop each view of an array counts up and down, atomically, for nothing: the caller holds the
    array all the while. As plain Python this does nothing.
    """
    return arrays


@intrinsic  # type: ignore[untyped-decorator]
def _uncounted(typing_context: Any, arrays: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _strip(context, builder, arrays, arguments[0])

    return arrays(arrays), build


def _strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [_strip(context, builder, *item) for item in items])
    return value


@overload(borrowed)  # type: ignore[untyped-decorator]
def _compiled_borrowed(arrays: Any) -> Any:
    def made(arrays: Any) -> Any:
        return _uncounted(arrays)

    return made


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

    @intrinsic  # type: ignore[untyped-decorator]
    def cast(typing_context: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = cgutils.create_struct_proxy(function_type)(context, builder)
            made.jit_addr = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
            return made._getvalue()

        return function_type(address), build

    @overload(at)  # type: ignore[untyped-decorator]
    def compiled(address: Any) -> Any:
        def made(address: Any) -> Any:
            return cast(address)

        return made

    return at
