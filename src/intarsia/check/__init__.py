"""Inspection of the metadata of files, and its verification against the data."""
