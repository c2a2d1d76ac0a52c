"""Source code and documentation tables that are made from the registry: ``make generate``.

Type checkers and readers need classes and exports that stand in the source. They follow from the registered strategies,
learners and detectors, so they are generated, committed, and compared by a test (``tests/test_generated.py``).
"""
