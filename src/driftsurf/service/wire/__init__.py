"""Rows and answers in the formats of requests: JSON, lines of JSON, CSV and Arrow."""
