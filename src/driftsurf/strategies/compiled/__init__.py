"""The compiled time step: DriftSurf around a linear learner in one call of compiled code.

``layout.py`` describes the memory of a cell, the models and rows of one DriftSurf; ``step.py`` takes a time step of a
cell; ``rows.py`` knows dense and sparse rows; ``cell.py`` makes cells from models of the generic path and turns them back.
"""
