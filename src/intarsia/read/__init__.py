"""From a predicate to the rows of one file: prune, plan, read, and report."""
