"""The paper's evaluation, reproduced: its printed numbers, the plan of trials, claims, bounds, page and figures.

``driftsurf reproduce`` runs it. Evaluating other models on other data is :mod:`driftsurf.comparison`.
"""
