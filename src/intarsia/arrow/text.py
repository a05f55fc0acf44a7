"""Names of local files that are not UTF-8: a column of text cannot contain them."""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.errors import UnsupportedFeatureError


def is_text(name: str) -> bool:
    r"""Return whether a name, as `os.fsdecode` returns it, is UTF-8.

    Example:
        >>> is_text("é"), is_text("\udcff")
        (True, False)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def not_text(path: str) -> UnsupportedFeatureError:
    """Return the error for the path of a file that is not text."""
    return UnsupportedFeatureError(
        f"the path has bytes that are not UTF-8 ({path!r}), so a column of text cannot contain it; rename "
        "the file or its folder",
        reason="path-not-utf-8",
        path=path,
    )


def refuse_bytes(paths: Iterable[str]) -> None:
    """Refuse paths that are not text.

    Raises:
        UnsupportedFeatureError: If a path is not UTF-8.
    """
    for path in paths:
        if not is_text(path):
            raise not_text(path)
