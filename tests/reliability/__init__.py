"""Tests of reliability: kills, faults, power losses, damage and bad values.

Run all with ``make test-reliability``, or some with ``python -m tests.reliability NAME``. Each test has a seed and
counts what it tried. A case that fails is saved in ``tests/reliability/failures`` with everything that is needed to
repeat it. Small deterministic parts of every test are in ``tests/test_reliability.py``.
"""
