"""Declare Thrift structs as named tuples, with field ids and types in annotations.

`declared` converts the annotations to the table that Apache Thrift's codec requires.
"""

from typing import Any, NamedTuple, TypeVar

from thrift.Thrift import TType

T = TypeVar("T")


class _Field(NamedTuple):
    field_id: int
    ttype: int
    args: Any = None


def _simple(ttype: int) -> Any:
    return lambda field_id: _Field(field_id, ttype)


bool_, i8, i32, i64, double = (
    _simple(t) for t in (TType.BOOL, TType.BYTE, TType.I32, TType.I64, TType.DOUBLE)
)


def binary(field_id: int) -> _Field:
    """Declare a field of bytes."""
    return _Field(field_id, TType.STRING, "BINARY")


def string(field_id: int) -> _Field:
    """Declare a field of text."""
    return _Field(field_id, TType.STRING, "UTF8")


def struct_(field_id: int, cls: Any) -> _Field:
    """Declare a field of a declared class."""
    return _Field(field_id, TType.STRUCT, [cls, cls.thrift_spec])


def list_(field_id: int, element: Any) -> _Field:
    """Declare a list; ``element`` is a declared class, or another function of this module."""
    if isinstance(element, type):
        return _Field(field_id, TType.LIST, (TType.STRUCT, [element, element.thrift_spec], False))  # type: ignore[attr-defined]
    sample = element(0)
    return _Field(field_id, TType.LIST, (sample.ttype, sample.args, False))


def _refuse_assignment(self: object, name: str, _: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen; use _replace({name}=...)")


def declared(cls: type[T]) -> type[T]:
    """Add the ``thrift_spec`` that the annotations of a named tuple describe."""
    fields = {}
    for name, annotation in cls.__annotations__.items():
        field_id, ttype, args = annotation.__metadata__[0]
        fields[field_id] = (field_id, ttype, name, args, None)
    cls.thrift_spec = tuple(fields.get(i) for i in range(max(fields, default=-1) + 1))  # type: ignore[attr-defined]
    # the codec creates instances with keyword arguments if they refuse assignment
    cls.__setattr__ = _refuse_assignment  # type: ignore[method-assign]
    return cls
