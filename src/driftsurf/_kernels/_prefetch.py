"""Asking the processor for memory that will be needed in a while."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from driftsurf._kernels._compile import inline

LINE = 64
"""Bytes that come at once."""
MOST_LINES = 32
"""Of one row: it comes in order, so the processor foresees the rest of a long one by itself."""


def prefetch(array: Any, place: Any) -> None:
    """Ask for the value at ``place``, counted as if the array were flat. As Python it does nothing.

    The place may lie outside the array: what is not there is not fetched, and nothing is wrong.
    """


def _instruction(_: Any, array: Any, place: Any) -> Any:  # pragma: no cover - runs where nothing is cached yet
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), form)
        to_read, into_all_caches, data_not_code = word(0), word(3), word(1)
        builder.call(instruction, [pointer, to_read, into_all_caches, data_not_code])
        return context.get_dummy_value()

    return types.void(array, place), generate


_prefetch = intrinsic(_instruction)


def _compiled(array: Any, place: Any) -> Any:  # pragma: no cover - as above
    def call(array: Any, place: Any) -> Any:
        _prefetch(array, place)

    return call


overload(prefetch)(_compiled)


@inline
def prefetch_range(array: Any, start: Any, stop: Any) -> None:
    """Ask for the values from ``start`` to ``stop``, of which there is at least one."""
    line = LINE // array.itemsize
    for place in range(start, min(stop, start + MOST_LINES * line), line):
        prefetch(array, place)
    prefetch(array, stop - 1)
