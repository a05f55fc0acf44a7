"""Each answer of a table equals that of a full read with a filter by row (contract C1).

There is one oracle for every shape of table and every kind of question: rows are read file by file by
`pyarrow.parquet.read_table`, filtered by the naive oracle of ``tests/predicate``, and counted, sorted and
added up in plain Python. Types and bits are identical.
"""

from __future__ import annotations

import contextlib
import shutil
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia import native
from tests.answers.questions import QUESTIONS, Asked, all_rows, restricted
from tests.answers.sources import SHAPES, full_read
from tests.effort import examples
from tests.predicate import oracle
from tests.predicate import strategies as flat
from tests.reading.exact import leaf_at


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(80, deep=1_200))
@given(data=st.data())
def test_answers(tmp_path_factory, shape, data):
    folder = tmp_path_factory.getbasetemp() / "answers" / shape
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        source = SHAPES[shape](data, folder)
        full = rows_of_source(source)
        if full is not None:
            ask(data, source, *full)


def rows_of_source(source):
    """All rows and their places; None if pyarrow cannot read them, in which case Intarsia raises an error."""
    try:
        for path in source.files:
            pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        # pyarrow 26 writes lists on tiny pages that only the extension reads, and lacks some encodings
        event(str(error)[:50])
        certain = native.load() is None and not source.deleted  # the row may be deleted
        refused = pytest.raises if certain else contextlib.suppress
        with refused(ia.IntarsiaError):
            list(source.open().scan())
        return None
    try:
        schema = source.open().schema
    except ia.UnsupportedFeatureError as error:  # files that were written in two ways
        event(str(error.reason))
        if error.reason != "no-common-type":
            raise
        return None
    if len(source.files) == 1 and not source.partitions:
        own = pq.read_table(source.files[0]).schema
        metadata = {key: value for key, value in (own.metadata or {}).items() if key != b"intarsia"}
        assert schema.equals(own.with_metadata(metadata or None), check_metadata=True)
    try:
        return full_read(source, schema)
    except pa.ArrowInvalid as error:  # a date that the unit of another file cannot express
        event(str(error)[:50])
        if not source.deleted:  # the date may be in a deleted row
            with pytest.raises(ia.IntarsiaError):
                source.open().scan().to_arrow()
        return None


def ask(data, source, full, places):
    table = source.open()
    types = {name: leaf_at(full, name).type for name in source.comparable}
    types |= {field.name: field.type for field in full.schema if flat.is_searched(field.type)}
    if source.partitions:
        types["p"] = full["p"].type
    for _ in range(data.draw(st.integers(1, 2), label="conditions")):
        where = data.draw(st.none() | flat.predicates(types), label="where")
        keep = [True] * full.num_rows
        if where is not None:
            keep = oracle.selected(where, {name: leaf_at(full, name) for name in types}, full.num_rows)
        asked = Asked(source, table, where, full, places, keep)
        all_rows(data.draw, asked)
        questions = st.lists(st.sampled_from(QUESTIONS), min_size=2, max_size=5, unique=True)
        for question in data.draw(questions, label="questions"):
            question(data.draw, asked)
        if data.draw(st.booleans(), label="restricted"):
            asked = restricted(data.draw, asked)
            for question in data.draw(questions, label="questions about some rows"):
                question(data.draw, asked)
