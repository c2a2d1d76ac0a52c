"""Estimators of the main strategies. Made by ``make generate``: do not edit."""
