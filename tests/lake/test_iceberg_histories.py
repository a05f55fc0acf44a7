"""Random histories of Iceberg tables: each state is compared with pyiceberg's own answers."""

from __future__ import annotations

import random
import warnings

import pyarrow as pa
import pytest

import intarsia as ia
from tests.lake.answers import ordered
from tests.lake.iceberg_files import commit_position_deletes
from tests.lake.index.lakes import age

pytest.importorskip("pyiceberg.catalog.sql")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

#: Few names, so that new columns get the names of dropped and renamed ones.
NAMES = ["a", "b", "c", "d"]
FIELDS = ["x", "y", "z"]
STEPS = 14


class History:
    """A table that changes at random.

    Args:
        catalog: The catalog.
        folder: A folder for delete files.
        seed: The seed.
    """

    def __init__(self, catalog, folder, seed):
        self._random = random.Random(seed)
        self._folder = folder
        schema = {"a": pa.int32(), "b": pa.string(), "s": pa.struct({"x": pa.int32(), "y": pa.string()})}
        self.table = catalog.create_table("db.t", schema=pa.schema(schema))
        self._num_files = 0

    def step(self):
        """Change the table, or attach indexes to its files."""
        changes = [self.append, self.append, self.rename, self.add, self.drop, self.widen, self.rename_field]
        changes += [self.add_field, self.delete, self.delete_positions, self.index, self.build_lake_index]
        change = self._random.choice(changes)
        change()
        return change.__name__

    def _columns(self):
        return [field for field in self.table.schema().fields if field.name != "s"]

    def _fields(self):
        return list(self.table.schema().find_field("s").field_type.fields)

    def _value(self, kind):
        if self._random.random() < 0.2:
            return None
        number = self._random.randrange(6)
        if isinstance(kind, StringType):
            return f"t{number}"
        return number / 2 if isinstance(kind, DoubleType) else number

    def append(self):
        rows = [
            {
                **{field.name: self._value(field.field_type) for field in self._columns()},
                "s": {field.name: self._value(field.field_type) for field in self._fields()},
            }
            for _ in range(8)
        ]
        self.table.append(pa.Table.from_pylist(rows, schema=self.table.schema().as_arrow()))

    def rename(self):
        free = [name for name in NAMES if name not in self.table.schema().column_names]
        if free:
            with self.table.update_schema() as update:
                update.rename_column(self._random.choice(self._columns()).name, self._random.choice(free))

    def rename_field(self):
        used = {field.name for field in self._fields()}
        free = [name for name in FIELDS if name not in used]
        if free:
            with self.table.update_schema() as update:
                update.rename_column(f"s.{self._random.choice(sorted(used))}", self._random.choice(free))

    def add(self):
        free = [name for name in NAMES if name not in self.table.schema().column_names]
        if free:
            with self.table.update_schema() as update:
                kind = self._random.choice([IntegerType(), StringType(), DoubleType()])
                update.add_column(self._random.choice(free), kind)

    def add_field(self):
        used = {field.name for field in self._fields()}
        free = [name for name in FIELDS if name not in used]
        if free:
            with self.table.update_schema() as update:
                update.add_column(("s", self._random.choice(free)), IntegerType())

    def drop(self):
        if len(self._columns()) > 1:
            with self.table.update_schema() as update:
                update.delete_column(self._random.choice(self._columns()).name)

    def widen(self):
        narrow = [field for field in self._columns() if isinstance(field.field_type, IntegerType)]
        if narrow:
            with self.table.update_schema() as update:
                update.update_column(self._random.choice(narrow).name, LongType())

    def delete(self):
        column = self._random.choice(self._columns())
        value = "'t1'" if isinstance(column.field_type, StringType) else "1"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # if no row matches
            self.table.delete(f"{column.name} = {value}")

    def delete_positions(self):
        files = ia.open(self.table).files
        if files:
            chosen = self._random.sample(files, min(2, len(files)))
            pairs = {(f"file://{file.path}", self._random.randrange(8)) for file in chosen for _ in range(3)}
            self._num_files += 1
            commit_position_deletes(self.table, self._folder / f"{self._num_files}.parquet", pairs)

    def index(self):
        for file in ia.open(self.table).files:
            names = [name for name in ia.open(file.path).schema.names if name != "s"]
            ia.attach(file.path, [ia.PageIndex(), *map(ia.Distinct, names), *map(ia.Bloom, names)])
            age(file.path)

    def build_lake_index(self):
        if len(ia.open(self.table).files) > 1:
            ia.open(self.table).build_lake_index("beside", wait=False)

    def check(self):
        """Compare all rows, and those that match conditions on each column."""
        expected = self.table.scan().to_arrow().to_pylist()
        table = ia.open(self.table)
        assert ordered(table.scan().to_arrow().to_pylist()) == ordered(expected)
        columns = [(field.name, field.field_type, [field.name]) for field in self._columns()]
        columns += [(f"s.{field.name}", field.field_type, ["s", field.name]) for field in self._fields()]
        for name, kind, path in columns:
            value = "t2" if isinstance(kind, StringType) else 2
            matching = [row for row in expected if _at(row, path) == value]
            where = f"{name} = {value!r}"
            assert ordered(table.scan(where).to_arrow().to_pylist()) == ordered(matching), where
            assert table.count(f"{name} IS NULL") == sum(_at(row, path) is None for row in expected), name
            totals = table.aggregate({name: ["min", "count"]})[path[-1]] if len(path) == 1 else None
            values = [_at(row, path) for row in expected if _at(row, path) is not None]
            if totals is not None:
                assert totals == {"min": min(values, default=None), "count": len(values)}, name


def _at(row, path):
    for name in path:
        row = None if row is None else row[name]
    return row


@pytest.mark.parametrize("seed", range(2))
def test_a_random_history(tmp_path, seed):
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    try:
        catalog.create_namespace("db")
        history = History(catalog, tmp_path, seed)
        history.append()
        steps = []
        for _ in range(STEPS):
            steps.append(history.step())
            try:
                history.check()
            except AssertionError as error:
                raise AssertionError(f"after {steps}") from error
    finally:
        catalog.close()
