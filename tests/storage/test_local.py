"""Files on a local disk."""

from intarsia.storage import LocalFile


def test_a_file_whose_constructor_was_interrupted_is_closed_without_a_message():
    unfinished = LocalFile.__new__(LocalFile)  # as Ctrl-C leaves it, before its first line
    unfinished.close()
