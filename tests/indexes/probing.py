"""Payloads that are probed, and so tell by themselves what is damaged."""

from intarsia.errors import IndexPayloadError
from tests.indexes.test_distinct import Values, rows_where


def pages_of(array, rows_per_page):
    """A column of one row group, and its pages."""
    edges = [*range(0, len(array), rows_per_page), len(array)]
    return Values(array, edges, [0, len(array)])


def noticed_damage(index, data, questions, step=1):
    """Flip a bit of each byte, or of each so-many-th; no flip may leave out a row that matches.

    Returns:
        How often a question was refused.
    """
    payload = index.build(data)
    noticed = 0
    for place in range(0, len(payload), step):
        damaged = bytearray(payload)
        damaged[place] ^= 1 << place % 8
        opened = index.open(bytes(damaged), data.layout)
        for leaf in questions:
            try:
                found = opened.candidate_rows(leaf)
            except IndexPayloadError:
                noticed += 1
            else:
                assert (rows_where(leaf, data.array) - found).is_empty
    return noticed
