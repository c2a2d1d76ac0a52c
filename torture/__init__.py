"""Proofs by torture: kills, faults, power losses, damage and bad values.

Run all with ``make torture``, or some with ``python -m torture NAME``. Each proof has a seed and counts what it tried.
A case that fails is saved in ``torture/failures`` with everything that is needed to repeat it. Small deterministic
parts of every proof are in ``tests/test_torture.py``.
"""
