"""`dataclass` at a fifth of its price: that of the standard library compiles up to six functions per class.

It took half of the time of ``import intarsia``, which makes more than a hundred classes. This one compiles
``__init__``, and the other methods are shared. ``frozen`` is left to the type checker, so instances are made
faster, too. The standard library makes what users make themselves, predicates and indexes: these are frozen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        eq: bool = True,
        repr: bool = True,
        slots: bool = False,
    ) -> Any:
        """Return a dataclass, as `dataclasses.dataclass` does, whose instances are not frozen at run time.

        Example:
            >>> @dataclass(frozen=True)
            ... class Place:
            ...     row_group: int
            ...     page: int = 0
            >>> Place(3), Place(3) == Place(3, 0), len({Place(1), Place(1), Place(2)})
            (Place(row_group=3, page=0), True, 2)
        """
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, slots=slots)
        own = vars(cls)
        made = dataclasses.dataclass(cls, eq=False, repr=False, slots=slots)
        fields = dataclasses.fields(made)
        if repr and "__repr__" not in own:
            made.__repr__ = _repr([field.name for field in fields if field.repr])
        if eq:
            key = _key([field.name for field in fields if field.compare])
            if "__eq__" not in own:
                made.__eq__ = _equality(key)
            if own.get("__hash__") is None:
                made.__hash__ = (lambda self: hash(key(self))) if frozen else None
        return made


def _key(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the values of an instance."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equality(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:  # noqa: N807
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _repr(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return __repr__
