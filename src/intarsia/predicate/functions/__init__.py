"""Functions of columns in conditions, such as ``year(ts) = 2024``.

A condition on a function becomes conditions on the bare column where the function can be inverted, so that
every index prunes with them. If they are not equivalent, they are joined by AND to a `BoundFunction`, which
is evaluated on the rows.
"""
