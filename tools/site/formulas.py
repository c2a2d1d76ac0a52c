"""Formulas as MathML, which browsers draw themselves: the usual script for formulas is loaded from elsewhere."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert

__all__ = ["block", "inline"]


def inline(translator: Any, node: Any) -> None:
    """Write a formula within a line of text."""
    from docutils.nodes import SkipNode

    translator.body.append(convert(node.astext()))
    raise SkipNode


def block(translator: Any, node: Any) -> None:
    """Write a formula in lines of its own; it scrolls where the screen is narrow."""
    from docutils.nodes import SkipNode

    translator.body.append(f'<div class="formula" tabindex="0">{convert(node.astext(), display="block")}</div>')
    raise SkipNode
