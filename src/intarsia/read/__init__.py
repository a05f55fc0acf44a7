"""Queries of one file: pruning, planning, reading and reporting."""
