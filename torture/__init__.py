"""Proof by torture: kills, faults, power losses, damage, bad values. ``make torture``, or ``python -m torture NAME``.

Each proof has a seed and counts what it tried. A case that fails is saved in ``torture/failures`` and named, with
all that is needed to try it again. Small deterministic parts of every proof are in ``tests/test_torture.py``.
"""
