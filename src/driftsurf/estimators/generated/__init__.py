"""Estimators of the strategies in this package. Made by ``make generate``: do not edit."""
