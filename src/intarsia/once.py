"""`cached_property` without a lock.

Before Python 3.12, that of the standard library has one lock for the objects of all threads: while a property
waited for a slow store, or a process was forked, the queries of all other tables waited, too.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801  used like that of the standard library
        """A property that is computed once; twice if two threads ask at the same time, which get one value.

        Example:
            >>> class Circle:
            ...     @cached_property
            ...     def area(self):
            ...         return 3.14
            >>> circle = Circle()
            >>> circle.area, vars(circle)
            (3.14, {'area': 3.14})
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Return the value of an object, which is computed at first."""
            return self if instance is None else vars(instance).setdefault(self.attrname, self.func(instance))
