"""The lake index: a disposable cache that excludes files of a lake without opening them.

The files are authoritative. A file is known only if its length and modification time (or its ETag) are those
with which it was indexed. Other files are planned as without a lake index, so a stale, partial, damaged or
foreign lake index makes plans slower, but never wrong. ``docs/format.md`` specifies the format.

==================  ======================================================================================
``stamps``          the identity of a file, and whether a change of the file would be detected
``facts``           the facts about one file, from its footer and payloads, never from its data
``bounds``          bounds of many files in one column
``segment``         an immutable file with the facts of many files, arranged by column
``gathered_key``    the kind, columns and parameters of a gathered structure
``segment_writer``  writes a segment
``folder``          the segments of one lake, in the user's cache or beside the data
``store_folder``    the segments beside the data in an object store
``location``        the root of a lake, and the paths of its files relative to it
``build``           segments made from files
``of_table``        the lake index of one table: opened on first use, brought up to date, used and built
``known_files``     the files of a table that a lake index contains
``prune``           a predicate evaluated on the files of a segment
``answers``         aggregates of files in which all rows match
==================  ======================================================================================
"""
