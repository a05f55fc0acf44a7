"""`intarsia.records.dataclass` makes what the standard library makes, but nothing is frozen at run time."""

import dataclasses
import inspect
import pickle
from dataclasses import field, replace

import numpy as np
import pytest

import intarsia as ia
from intarsia.records import dataclass

MAKERS = [dataclasses.dataclass, dataclass]
OPTIONS = [
    {},
    {"frozen": True},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"repr": False},
    {"frozen": True, "slots": True},
]


def classes(maker, **options):
    @maker(**options)
    class Empty:
        pass

    @maker(**options)
    class One:
        value: object

    @maker(**options)
    class Several:
        first: int
        second: str = "b"
        hidden: int = field(default=0, repr=False)
        ignored: list = field(default_factory=list, compare=False)

    @maker(**options)
    class Derived(Several):
        last: int = 0

    @maker(**options)
    class Own:
        value: int

        def __eq__(self, other):
            return isinstance(other, Own)

        def __hash__(self):
            return 7

        def __repr__(self):
            return "own"

    return Empty, One, Several, Derived, Own


def instances(made):
    empty, one, several, derived, own = made
    return [
        empty(),
        one(1),
        one(1.0),
        one(None),
        several(1),
        several(1, "b", 0, [4]),
        several(1, "b", 1),
        several(2, "c"),
        derived(1),
        derived(1, last=1),
        own(1),
        own(2),
    ]


def hashed(one):
    try:
        return hash(one) == hash(replace(one))
    except TypeError:
        return "not hashable"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_are_those_of_the_standard_library(options):
    theirs, ours = (classes(maker, **options) for maker in MAKERS)
    for one, other in zip(theirs, ours, strict=True):
        assert inspect.signature(one) == inspect.signature(other)
        assert one.__match_args__ == other.__match_args__
        assert [(each.name, each.repr, each.compare) for each in dataclasses.fields(one)] == [
            (each.name, each.repr, each.compare) for each in dataclasses.fields(other)
        ]
        assert hasattr(one, "__slots__") == hasattr(other, "__slots__")
        assert (one.__hash__ is None) == (other.__hash__ is None)
    expected, found = instances(theirs), instances(ours)
    if options.get("repr", True):
        assert list(map(repr, found)) == list(map(repr, expected))
    assert [[a == b for b in found] for a in found] == [[a == b for b in expected] for a in expected]
    assert list(map(hashed, found)) == list(map(hashed, expected))


def test_values_are_compared_as_in_tuples():
    """The same object is equal, whatever its own comparison returns."""
    many = np.arange(3)
    _, one, several, _, _ = classes(dataclass, frozen=True)
    assert one(many) == one(many)
    assert one(float("nan")) != one(float("nan"))
    assert several(many) == several(many)
    with pytest.raises(ValueError, match="ambiguous"):
        assert one(many) == one(many.copy())


@dataclass(frozen=True, slots=True)
class Slotted:
    value: int
    other: str = ""


@dataclass(frozen=True)
class Plain:
    value: int


@pytest.mark.parametrize("one", [Slotted(3, "x"), Plain(3)])
def test_instances_are_sent_to_other_processes(one):
    assert pickle.loads(pickle.dumps(one)) == one
    assert {one: 1}[pickle.loads(pickle.dumps(one))] == 1


def test_what_users_make_is_frozen():
    for one, name in ((ia.Comparison("x", "=", 3), "op"), (ia.ZoneMap("x"), "column")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, "y")
