"""Probed payloads, which must detect damage without the checksum of the directory."""

from intarsia.errors import IndexPayloadError
from tests.indexes.test_distinct import Values, rows_where


def pages_of(array, rows_per_page):
    """Return a column of one row group with pages."""
    edges = [*range(0, len(array), rows_per_page), len(array)]
    return Values(array, edges, [0, len(array)])


def noticed_damage(index, data, questions, step=1):
    """Flip a bit of every ``step``-th byte, and check that no flip excludes a matching row.

    Returns:
        The number of times that damage was detected.
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
