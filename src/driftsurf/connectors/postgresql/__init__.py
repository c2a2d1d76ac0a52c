"""PostgreSQL: ``postgresql://host:5432/DATABASE/TABLE``."""
