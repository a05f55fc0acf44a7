"""Files on a local disk."""

import os
import sys

import pytest

from intarsia.storage import ByteRange, LocalFile


def test_a_file_whose_constructor_was_interrupted_is_closed_without_a_message():
    unfinished = LocalFile.__new__(LocalFile)  # as Ctrl-C leaves it, before its first line
    unfinished.close()


def test_the_timeout_of_a_signal_handler_is_passed_on(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"abc")

    def interrupt(_frame, event, function):
        if event == "c_call" and function is os.pread:
            sys.setprofile(None)
            raise TimeoutError("after 60 s")

    file = LocalFile(path)
    sys.setprofile(interrupt)
    try:
        with pytest.raises(TimeoutError, match="after 60 s"):
            file.read_ranges([ByteRange(0, 2)])
    finally:
        sys.setprofile(None)
        file.close()
