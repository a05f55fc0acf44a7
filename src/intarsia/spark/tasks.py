"""Divide the files of a lake among the tasks of a Spark job."""

from __future__ import annotations

from collections.abc import Mapping

#: Files are added to a task up to this size. Starting a task takes 10 to 60 ms.
TASK_BYTES = 16 << 20

#: Opening a file takes as long as indexing this many bytes.
OPEN_BYTES = 256 << 10

#: A job has at least this many tasks, if there are enough files, to use all cores of a machine.
MIN_TASKS = 32

#: A job has at most this many tasks: Spark is slow to start tens of thousands.
MAX_TASKS = 10_000


def tasks_of(sizes: Mapping[str, int]) -> list[list[str]]:
    """Divide files among tasks: one task for each large file, several small files in a task.

    Args:
        sizes: The size of each file in bytes; 0 if unknown.

    Returns:
        The paths of each task, in the order of ``sizes``.

    Example:
        >>> tasks_of({"a": 1 << 30, "b": 1 << 30})
        [['a'], ['b']]
        >>> tasks = tasks_of({f"{n}": 300_000 for n in range(1_000)})
        >>> len(tasks), max(map(len, tasks))
        (35, 29)
    """
    weights = {path: (size or TASK_BYTES) + OPEN_BYTES for path, size in sizes.items()}
    total = sum(weights.values())
    limit = max(min(TASK_BYTES, total / MIN_TASKS), total / MAX_TASKS)
    tasks: list[list[str]] = []
    filled = limit
    for path, weight in weights.items():
        if filled + weight > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(path)
        filled += weight
    return tasks
