"""The two codecs agree, unknown fields are kept, and hostile bytes are refused."""

from __future__ import annotations

import inspect
import struct as pystruct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thrift.Thrift import TType

from intarsia.errors import CorruptFileError
from intarsia.format import structs, thrift, thrift_tree
from tests.effort import examples

DECLARED = [
    cls
    for _, cls in inspect.getmembers(structs, inspect.isclass)
    if getattr(cls, "thrift_spec", None) is not None
]
COMPACT = {
    TType.BOOL: thrift.BOOL_TRUE,
    TType.BYTE: thrift.BYTE,
    TType.I16: thrift.I16,
    TType.I32: thrift.I32,
    TType.I64: thrift.I64,
    TType.DOUBLE: thrift.DOUBLE,
    TType.STRING: thrift.BINARY,
    TType.LIST: thrift.LIST,
    TType.STRUCT: thrift.STRUCT,
}


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def values(ttype, args):
    """Python values of a field as a spec describes it."""
    if ttype == TType.STRUCT:
        return instances(args[0])
    if ttype == TType.LIST:
        # lists of 15 elements and more have another header; a few structs suffice
        return st.lists(values(args[0], args[1]), max_size=2 if args[0] == TType.STRUCT else 17)
    if ttype == TType.STRING:
        return st.binary(max_size=20) if args == "BINARY" else st.text(max_size=8)
    return {
        TType.BOOL: st.booleans(),
        TType.BYTE: integers(8),
        TType.I16: integers(16),
        TType.I32: integers(32),
        TType.I64: integers(64),
        TType.DOUBLE: st.floats(allow_nan=False),  # NaN is not equal to itself
    }[ttype]


@st.composite
def instances(draw, cls):
    """Any struct of a declared class, with or without its optional fields."""
    fields = {}
    for _, ttype, name, args, _ in filter(None, cls.thrift_spec):
        if name in cls._field_defaults and draw(st.booleans()):
            continue
        fields[name] = draw(values(ttype, args))
    return cls(**fields)


def as_tree(value, ttype, args):
    """A value as it is represented in the generic tree."""
    if ttype == TType.STRUCT:
        return tree_of(value)
    if ttype == TType.DOUBLE:  # the tree keeps its bytes
        return pystruct.pack("<d", value)
    if ttype == TType.LIST:
        return thrift_tree.List(COMPACT[args[0]], [as_tree(item, args[0], args[1]) for item in value])
    if ttype == TType.STRING and isinstance(value, str):
        return value.encode()
    return value % 256 if ttype == TType.BYTE else value


def tree_of(struct):
    fields = {}
    for field_id, ttype, name, args, _ in filter(None, struct.thrift_spec):
        if (value := getattr(struct, name)) is not None:
            fields[field_id] = (COMPACT[ttype], as_tree(value, ttype, args))
    return thrift_tree.Struct(fields)


def test_every_struct_is_declared():
    assert {"FileMetaData", "PageHeader", "ColumnIndex", "OffsetIndex", "BloomFilterHeader"} <= {
        cls.__name__ for cls in DECLARED
    }


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_codecs_agree(cls, data):
    value = data.draw(instances(cls))
    encoded = thrift.serialize(value)
    assert thrift.parse(cls, encoded) == (value, len(encoded))
    tree, end = thrift_tree.parse_tree(encoded)
    assert end == len(encoded)
    assert tree == tree_of(value)
    assert thrift_tree.serialize_tree(tree) == encoded


@pytest.mark.parametrize(
    "cls", [structs.FileMetaData, structs.PageHeader, structs.ColumnIndex, structs.LogicalType]
)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_position_within_other_bytes(cls, data):
    value = data.draw(instances(cls))
    before, after = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    encoded = thrift.serialize(value)
    end = len(before) + len(encoded)
    assert thrift.parse(cls, before + encoded + after, len(before)) == (value, end)
    assert thrift_tree.parse_tree(before + encoded + after, len(before)) == (tree_of(value), end)


def typed(depth):
    """A compact type and a value of it."""
    simple = [
        st.tuples(st.just(thrift.I32), integers(32)),
        st.tuples(st.just(thrift.I64), integers(64)),
        st.tuples(st.just(thrift.I16), integers(16)),
        st.tuples(st.just(thrift.BYTE), st.integers(0, 255)),
        st.tuples(st.just(thrift.BINARY), st.binary(max_size=6)),
        st.tuples(st.just(thrift.BOOL_TRUE), st.booleans()),
        st.tuples(st.just(thrift.DOUBLE), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(thrift.UUID), st.binary(min_size=16, max_size=16)),
    ]
    if depth:
        inner = typed(depth - 1)
        simple += [
            st.tuples(st.just(thrift.STRUCT), trees(depth - 1)),
            st.tuples(st.sampled_from([thrift.LIST, thrift.SET]), inner.flatmap(_lists_like)),
            st.tuples(
                st.just(thrift.MAP),
                st.tuples(inner, inner).map(_one_entry) | st.just(thrift_tree.Map(0, 0, [])),
            ),
        ]
    return st.one_of(simple)


def _lists_like(item):
    kind, value = item
    return st.integers(0, 20).map(lambda count: thrift_tree.List(kind, [value] * count))


def _one_entry(pair):
    (key_type, key), (value_type, value) = pair
    return thrift_tree.Map(key_type, value_type, [(key, value)])


def trees(depth=2, first_id=1):
    """Structs of any fields."""
    fields = st.dictionaries(st.integers(first_id, 32767), typed(depth), max_size=5)
    return fields.map(lambda found: thrift_tree.Struct(dict(sorted(found.items()))))


@settings(max_examples=examples(200))
@given(trees())
def test_trees_survive(tree):
    encoded = thrift_tree.serialize_tree(tree)
    assert thrift_tree.parse_tree(encoded) == (tree, len(encoded))


@pytest.mark.parametrize(
    "cls", [structs.FileMetaData, structs.ColumnChunk, structs.SchemaElement, structs.Statistics]
)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_fields_of_a_later_version_are_skipped_and_kept(cls, data):
    value = data.draw(instances(cls))
    tree = tree_of(value)
    unknown = data.draw(trees(first_id=200)).fields
    tree.fields.update(unknown)
    encoded = thrift_tree.serialize_tree(tree)
    if not any(kind == thrift.UUID for kind, _ in _every_value(tree)):  # unknown to the C codec
        assert thrift.parse(cls, encoded) == (value, len(encoded))
    assert thrift_tree.parse_tree(encoded)[0] == tree


def _every_value(value, kind=thrift.STRUCT):
    yield kind, value
    if isinstance(value, thrift_tree.Struct):
        for inner_kind, inner in value.fields.values():
            yield from _every_value(inner, inner_kind)
    elif isinstance(value, thrift_tree.List):
        yield value.element_type, None
        for item in value.items:
            yield from _every_value(item, value.element_type)
    elif isinstance(value, thrift_tree.Map):
        for key, item in value.items:
            yield from _every_value(key, value.key_type)
            yield from _every_value(item, value.value_type)


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_any_bytes_are_a_struct_or_refused(cls, data):
    encoded = bytearray(thrift.serialize(data.draw(instances(cls))))
    for place in data.draw(st.lists(st.integers(0, len(encoded) - 1), max_size=3)):
        encoded[place] = data.draw(st.integers(0, 255))
    cut = bytes(encoded[: data.draw(st.integers(0, len(encoded)))])
    for parse in (lambda: thrift.parse(cls, cut), lambda: thrift_tree.parse_tree(cut)):
        try:
            _, end = parse()
        except CorruptFileError:
            pass
        else:
            assert 0 < end <= len(cut)


@pytest.mark.parametrize("cls", [structs.PageLocation, structs.ColumnIndex, structs.FileMetaData])
def test_required_fields_are_named(cls):
    required = [name for name in cls._fields if name not in cls._field_defaults]
    with pytest.raises(CorruptFileError) as caught:
        thrift.parse(cls, b"\0")
    assert (caught.value.reason, caught.value.struct) == ("missing-field", cls.__name__)
    assert required[0] in str(caught.value)


def test_structs_are_frozen():
    header = structs.DictionaryPageHeader(3, 0)
    with pytest.raises(AttributeError, match="_replace"):
        header.num_values = 4
    assert header._replace(num_values=4).num_values == 4


def test_tree_edits():
    tree = thrift_tree.Struct({1: (thrift.I32, 5)})
    tree.set(9, thrift.BINARY, b"x")
    assert (tree.get(1), tree.get(9), tree.get(2), tree.get(2, "absent")) == (5, b"x", None, "absent")
    tree.remove(1)
    tree.remove(1)
    assert thrift_tree.parse_tree(thrift_tree.serialize_tree(tree))[0] == thrift_tree.Struct(
        {9: (thrift.BINARY, b"x")}
    )


def test_structs_whose_fields_are_not_accessed_are_copied():
    inner = b"\x05\x02\x0a\x00"  # field 1 in the long form, which is written in the short one
    tree, _ = thrift_tree.parse_tree(b"\x1c" + inner + b"\x1c" + inner + b"\0")
    assert tree.get(2).unparsed == inner
    assert tree.get(1).get(1) == 5
    assert thrift_tree.serialize_tree(tree) == b"\x1c" + b"\x15\x0a\x00" + b"\x1c" + inner + b"\0"
