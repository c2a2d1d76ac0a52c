"""Two things that numba has no public way for: calls by address, and arrays without reference counts.

A key of a fleet must be learned by the very machine code that learns a separate model. Kernels may reorder their sums
(``FASTMATH``), so that the same source, compiled into another loop, may give other last bits, and with them other
decisions. A kernel that is called through its address cannot be inlined, and so computes the same bits everywhere.

Both use numba's internals, which another version may change. ``addresses.py`` tests them at first use; where they fail,
kernels are called in the ordinary way and arrays are counted. Which of the two a loop does is decided by the type of
its ``Kernels`` argument: addresses are 64-bit integers, and DIRECT stands in the place of each otherwise. The type is
part of the signature, so that numba's disk cache keeps the two apart.
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

__all__ = ["DIRECT", "Remote", "borrowed"]

ADDRESS: Any = types.int64
DIRECT: Any = types.uint8
"""The numba type of a placeholder for an address; its value is 0."""


def borrowed(arrays: Any, kernels: Any) -> Any:
    """Return the same arrays, in tuples of any depth, without reference counts.

    In a compiled loop each view of an array counts references up and down, atomically, although the caller holds the
    array all the while. As plain Python, and where ``kernels`` are no addresses, this returns its argument.
    """
    return arrays


@intrinsic  # type: ignore[untyped-decorator]
def _uncounted(typing_context: Any, arrays: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _strip(context, builder, arrays, arguments[0])

    return arrays(arrays), build


def _strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value with a null pointer in place of every array's owner: numba then counts nothing."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [_strip(context, builder, *item) for item in items])
    return value


@overload(borrowed)  # type: ignore[untyped-decorator]
def _compiled_borrowed(arrays: Any, kernels: Any) -> Any:
    def stripped(arrays: Any, kernels: Any) -> Any:
        return _uncounted(arrays)

    def unchanged(arrays: Any, kernels: Any) -> Any:
        return arrays

    return stripped if kernels.types[0] == ADDRESS else unchanged


class Remote:
    """A kernel that compiled loops call by address.

    ``at`` is used inside a loop: ``remote.at(address)(*arguments)``. As plain Python the kernel is its own address.

    Parameters
    ----------
    kernel
        A function made by ``driftsurf.kernels.compile.kernel``.
    signature
        Types of its arguments and of its result. It is checked whenever the address is looked up: cached code that was
        compiled for another signature must not be called with this one.
    row_type
        The type of row that selects the compiled variant.
    """

    def __init__(self, kernel: Callable[..., Any], signature: Any, row_type: npt.DTypeLike) -> None:
        self.kernel = kernel
        self.signature = signature
        self.row_type: np.dtype[Any] = np.dtype(row_type)
        self.at: Any = self._make_at()

    def compiled(self) -> Any:
        """Compile the kernel for its signature, or load it from the cache, and return numba's dispatcher."""
        return self.kernel.compiled_for(self.row_type, self.signature.args[-1] is types.none)  # type: ignore[attr-defined]

    def address(self) -> Any:
        """Return the address of the machine code; without a compiler, the Python function."""
        if numba.config.DISABLE_JIT:
            return self.kernel
        result = self.compiled().overloads[self.signature.args]
        if result.signature != self.signature:
            raise TypeError(f"the kernel {self.kernel.__name__} is {result.signature}, not {self.signature}")
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)

    def _make_at(self) -> Callable[[Any], Any]:
        function_type = types.FunctionType(self.signature)

        def at(address: Any) -> Any:
            return address

        @intrinsic  # type: ignore[untyped-decorator]
        def cast(typing_context: Any, address: Any) -> Any:
            def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                function = cgutils.create_struct_proxy(function_type)(context, builder)
                function.jit_addr = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
                return function._getvalue()

            return function_type(address), build

        @overload(at)  # type: ignore[untyped-decorator]
        def compiled_at(address: Any) -> Any:
            if address == ADDRESS:

                def by_address(address: Any) -> Any:
                    return cast(address)

                return by_address
            kernel = self.compiled()

            def direct(address: Any) -> Any:
                return kernel

            return direct

        return at
