"""Parts that stand on private features of numba: calls by address, uncounted arrays, arrays at an address, cheap views.

A compiled time step must learn by the very machine code that learns elsewhere. Kernels may reorder their sums
(``FASTMATH``), so that the same source, compiled into another loop, may give other last bits, and with them other
decisions. A kernel that is called through its address cannot be inlined, and so computes the same bits everywhere.

All use numba's internals, which another version may change. They are tested at first use; where they fail, kernels are
called in the ordinary way, arrays are counted, and views are slices. What a loop does is decided by the type of
its ``Kernels`` argument: addresses are 64-bit integers, and DIRECT stands in the place of each otherwise. The type is
part of the signature, so that numba's disk cache keeps the two apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numba.np.numpy_support import as_dtype

from driftsurf.kernels.cache import compile_cached
from driftsurf.kernels.compile import F8, Sparse, _in, _out
from driftsurf.kernels.losses import weighted_sum
from driftsurf.kernels.scores import margins_dense

__all__ = ["DIRECT", "Remote", "borrowed", "entry_of", "pointer", "self_test", "unchecked_view"]

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


@intrinsic  # type: ignore[untyped-decorator]
def unchecked_view(typing_context: Any, values: Any, start: Any, shape: Any) -> Any:
    """Return the elements of a contiguous vector from ``start`` on as an array of this shape; compiled code only.

    ``values[start : start + n].reshape(shape)`` does the same, but checks its bounds and calls a function of numba that
    takes 20 ns, which a loop over small parts of a large memory does for each of them.
    """
    result = types.Array(values.dtype, len(shape), "C")

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # Here, so that a version of numba without them fails the self-test and nothing else.
        from numba.core.imputils import impl_ret_borrowed
        from numba.np.arrayobj import populate_array

        whole = context.make_array(values)(context, builder, arguments[0])
        lengths = cgutils.unpack_tuple(builder, arguments[2])
        strides = [whole.itemsize]
        for length in reversed(lengths[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        part = context.make_array(result)(context, builder)
        populate_array(
            part,
            data=builder.gep(whole.data, [arguments[1]]),
            shape=lengths,
            strides=strides,
            itemsize=whole.itemsize,
            meminfo=whole.meminfo,
            parent=whole.parent,
        )
        return impl_ret_borrowed(context, builder, result, part._getvalue())

    return result(values, types.int64, types.UniTuple(types.int64, len(shape))), build


@intrinsic  # type: ignore[untyped-decorator]
def pointer(typing_context: Any, address: Any) -> Any:
    """Return the pointer to an address, from which ``numba.carray`` makes an array; the caller holds the memory."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), build


class Remote:
    """A kernel that compiled loops call by address.

    ``at`` is used inside a loop: ``remote.at(address, rows)(*arguments)``, where the type of ``rows`` selects the
    compiled variant. As plain Python the kernel is its own address.

    Parameters
    ----------
    kernel
        A function made by ``driftsurf.kernels.compile.kernel``.
    signature
        Returns the types of its arguments and of its result, given the numba type of row values, which is a ``Sparse``
        for CSR rows. It is checked when the address is first looked up: cached code that was compiled for another
        signature must not be called with this one.
    sparse
        The kernel for CSR rows, if it is another one.
    values
        Numba type of the values, if the kernel takes no rows but other values of one type.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        signature: Callable[[Any], Any],
        *,
        sparse: Callable[..., Any] | None = None,
        values: Any = None,
    ) -> None:
        self.kernel = kernel
        self.sparse: Callable[..., Any] = kernel if sparse is None else sparse
        self.signature = signature
        self.values = values
        self.at: Any = self._make_at()
        self._addresses: dict[Any, int] = {}

    def compiled(self, row_type: Any) -> Any:
        """Compile the kernel for a numba type of row values, or load it from the cache; return numba's dispatcher."""
        without_last = self.signature(row_type).args[-1] is types.none
        is_sparse = isinstance(row_type, Sparse)
        kernel: Any = self.sparse if is_sparse else self.kernel
        values = self.values or (row_type.values if is_sparse else row_type)
        return kernel.compiled_for(as_dtype(values), without_last)

    def is_at_hand(self, *, sparse: bool) -> bool:
        """Return whether the kernel for dense or for sparse rows can be called without being compiled first."""
        kernel: Any = self.sparse if sparse else self.kernel
        at_hand: bool = kernel.is_at_hand()
        return at_hand

    def address(self, row_type: Any) -> Any:
        """Return the address of the machine code; without a compiler, the Python function."""
        if numba.config.DISABLE_JIT:
            return self.sparse if isinstance(row_type, Sparse) else self.kernel
        if row_type not in self._addresses:
            # Once only: building the signature takes longer than a small step, and the lock of llvmlite stays locked
            # for ever if an exception from outside comes inside it.
            signature = self.signature(row_type)
            result = self.compiled(row_type).overloads[signature.args]
            if result.signature != signature:
                raise TypeError(f"the kernel {self.kernel.__name__} is {result.signature}, not {signature}")
            self._addresses[row_type] = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        return self._addresses[row_type]

    def _make_at(self) -> Callable[[Any, Any], Any]:
        if numba.config.DISABLE_JIT:
            return _itself

        @intrinsic  # type: ignore[untyped-decorator]
        def at(typing_context: Any, address: Any, rows: Any) -> Any:
            row_type = values_of(rows)
            if address != ADDRESS:
                return types.Dispatcher(self.compiled(row_type))(address, rows), _nothing
            function_type = types.FunctionType(self.signature(row_type))

            def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                function = cgutils.create_struct_proxy(function_type)(context, builder)
                function.jit_addr = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
                return function._getvalue()

            return function_type(address, rows), build

        made: Callable[[Any, Any], Any] = at
        return made


def entry_of(compiled: Any) -> Callable[..., Any]:
    """Return a compiled kernel as Python calls it, without a look at the types of the arguments, which must be right.

    numba looks at every element of every tuple, which takes as long as learning a small batch.
    """
    (signature,) = compiled.signatures
    entry: Callable[..., Any] = compiled.overloads[signature].entry_point
    return entry


def values_of(rows: Any) -> Any:
    """Return the numba type of the values of rows, given that of the rows; a ``Sparse`` for CSR rows."""
    return Sparse(rows.types[0].dtype) if isinstance(rows, types.BaseTuple) else rows.dtype


def _itself(address: Any, rows: Any) -> Any:
    """Stands for ``Remote.at`` as plain Python, where a kernel is its own address."""
    return address


def _nothing(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Build the value of a kernel that is known by its type."""
    return context.get_dummy_value()


# ---------------------------------------------------------------------------- the self-test


F4: Any = types.float32
MARGINS = Remote(margins_dense, lambda f: types.none(_in(f, 2), _in(F8), _out(F8)))
SUM = Remote(weighted_sum, lambda f: types.UniTuple(F8, 2)(_in(F8), _in(F8)))
margins_at: Any = MARGINS.at
sum_at: Any = SUM.at


def probe(arrays: Any, address: Any, kernels: Any) -> Any:
    """Call a kernel by address on views of borrowed arrays, twice, and on an array at an address, as the loops do."""
    counted = unchecked_view(arrays[2], 0, (2, 2))
    values, weights, out = borrowed(arrays, kernels)
    margins_at(kernels[0], values)(values[1:], weights, unchecked_view(out, 1, (3,)))
    margins_at(kernels[0], values)(values[:1], weights, out[:1])
    out[3] = counted[1, 1]  # the same place
    again = carray(pointer(address), (out.shape[0],), np.float64)
    return sum_at(kernels[1], values)(again, out)


PROBED: Any = types.UniTuple(ADDRESS, 2)
PROBE_ARRAYS: Any = types.Tuple((_in(F4, 2), _in(F8), _out(F8)))


def self_test() -> str:
    """Return what is wrong with calls by address and borrowed arrays in this version of numba; empty if nothing."""
    addresses = MARGINS.address(F4), SUM.address(F4)
    values = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
    weights, out, expected = np.linspace(0.1, 0.7, 4), np.zeros(4), np.zeros(4)
    counts = [sys.getrefcount(array) for array in (values, weights, out)]
    run = compile_cached(probe, (PROBE_ARRAYS, ADDRESS, PROBED), nogil=True, error_model="numpy")
    total = entry_of(run)((values, weights, out), out.ctypes.data, addresses)
    margins_dense(values, weights, expected)
    if not np.array_equal(out, expected) or total != weighted_sum(expected, expected):
        return "results differ from those of an ordinary call"
    if counts != [sys.getrefcount(array) for array in (values, weights, out)]:
        return "reference counts of arrays are wrong"
    return ""
