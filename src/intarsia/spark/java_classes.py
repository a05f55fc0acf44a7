"""Classes of the JVM of a classic session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its full name.

    ``jvm.java.util.ArrayList`` would look for the classes ``java`` and ``java.util`` first. Each of them is
    a request and a search of all jars of Spark. A class in a deep package then takes milliseconds.

    Args:
        jvm: The view of the JVM, ``spark.sparkContext._jvm``.
        name: Such as ``"java.util.ArrayList"``.
    """
    return getattr(jvm, name)


def java_list(jvm: Any, items: Iterable[Any]) -> Any:
    """Return a ``java.util.ArrayList`` of items."""
    found = java_class(jvm, "java.util.ArrayList")()
    for item in items:
        found.add(item)
    return found


def scala_sequence(jvm: Any, items: Iterable[Any]) -> Any:
    """Return an immutable ``Seq`` of items."""
    converters = java_class(jvm, "scala.jdk.javaapi.CollectionConverters")
    return converters.asScala(java_list(jvm, items)).toSeq()
