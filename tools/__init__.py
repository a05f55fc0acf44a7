"""Programs for developers of this repository; not in the wheel."""
