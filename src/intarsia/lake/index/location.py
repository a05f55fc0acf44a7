"""The root of a lake, and the paths of its files relative to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from intarsia.lake.data_file import DataFile
from intarsia.storage import local_path


@dataclass(frozen=True)
class LakeLocation:
    """The root of a table, and the paths of its files.

    Attributes:
        root: An absolute path or a URL.
        relative_paths: The path of each file relative to the root.
        is_whole: Whether these are all files below the root.
    """

    root: str
    relative_paths: list[str]
    is_whole: bool = False

    def prefix_in(self, folder: str) -> str:
        """Return the path of the root relative to a folder that contains it, with a slash if not empty."""
        below = self.root[len(folder) :].strip("/")
        return f"{below}/" if below else ""


def locate(files: Sequence[DataFile], root: str | None) -> LakeLocation | None:
    """Find the root of files.

    Args:
        files: The files.
        root: The folder or URL below which they were found, as in their paths; None to find a common one.

    Returns:
        The root and the paths; None if the files have no common root.

    Example:
        >>> locate([DataFile("/lake/a=1/x.parquet", 1), DataFile("/lake/y.parquet", 1)], "/lake/")
        LakeLocation(root='/lake', relative_paths=['a=1/x.parquet', 'y.parquet'], is_whole=True)
    """
    paths = [file.path for file in files]
    if root is not None:
        plain = local_path(root)
        prefix = (root if plain is None else plain).rstrip("/") + "/"
        # if the first and the last in order have a prefix, so have all between them
        if min(paths, default=prefix).startswith(prefix) and max(paths, default=prefix).startswith(prefix):
            absolute = prefix.rstrip("/") if plain is None else os.path.abspath(prefix)
            return LakeLocation(absolute, _without(prefix, paths), is_whole=True)
    if any("://" in path for path in paths):
        # the longest common prefix is that of the first and the last in order
        first, last = min(paths), max(paths)
        same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        common = first[:same].rpartition("/")[0]
        has_host = "://" in common and not common.endswith((":/", "://"))
        return LakeLocation(common, _without(f"{common}/", paths)) if has_host else None
    paths = [os.path.abspath(path) for path in paths]
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:  # on different drives
        return None
    return LakeLocation(common, _without(common.rstrip("/") + "/", paths))


def _without(prefix: str, paths: Sequence[str]) -> list[str]:
    """Return paths without a prefix that all of them have."""
    start = len(prefix)
    return [path[start:] for path in paths]
