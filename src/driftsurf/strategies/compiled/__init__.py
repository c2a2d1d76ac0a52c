"""The compiled time step: DriftSurf, or a single model, around a linear learner in one call of compiled code.

``layout.py`` describes the memory of a cell, the models and rows of one DriftSurf; ``rows.py`` knows dense and sparse
rows; ``step.py`` takes a time step of a cell; ``parts.py`` holds the parts of a step that are compiled on their own;
``cell.py`` makes cells from models of the generic path and turns them back; ``renewal.py`` replaces the model of a
strategy that has only one.
"""
