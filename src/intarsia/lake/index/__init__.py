"""The lake index: a disposable cache that excludes files of a lake without opening them.

The files are authoritative. A file is known only if its length and modification time (or its ETag) are those
with which it was indexed. Other files are planned as without a lake index, so a stale, partial, damaged or
foreign lake index makes plans slower, but never wrong. ``docs/format.md`` specifies the format.

==================  ======================================================================================
``facts``           the facts about one file: its identity, its footer and payloads, never its data
``segment``         an immutable file with the facts of many files, arranged by column
``folder``          the segments of one lake, in the user's cache or beside the data, also in an object store
``build``           segments made from files
``of_table``        the lake index of one table: which files it contains; updated, used and built
``proofs``          a predicate evaluated on the files of a segment; aggregates of whole files
==================  ======================================================================================
"""
