"""Libraries that a method needs but Intarsia does not depend on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from intarsia.errors import UnsupportedFeatureError


def import_for(method: str, name: str) -> Any:
    """Return a library.

    Args:
        method: The name of the method that needs it.
        name: The name of the library.

    Raises:
        ModuleNotFoundError: If it is not installed; the message says how to install it.

    Example:
        >>> import_for("to_json", "json").__name__
        'json'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{method}() needs {name}, which is not installed; install it (pip install {name}), or use "
            "to_arrow()",
            name=error.name,
        ) from error


def import_extra(feature: str, name: str, extra: str) -> Any:
    """Return a library that an extra of the package installs.

    Args:
        feature: The feature that needs it, in words.
        name: The name of the library.
        extra: The name of the extra.

    Raises:
        UnsupportedFeatureError: If it is not installed; the message says how to install it.

    Example:
        >>> import_extra("JSON", "json", "json").__name__
        'json'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UnsupportedFeatureError(
            f"{feature} need {error.name}, which is not installed; install it (pip install "
            f"'intarsia[{extra}]')",
            reason="library-not-installed",
        ) from error
