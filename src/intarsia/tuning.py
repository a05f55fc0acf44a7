"""Constants that weigh costs: what is read, decoded and planned together, and when an index pays.

They change how long a query takes, never its answer. They were measured with ``make bench`` on two cores.
Limits that protect memory are where the memory is allocated.
"""

# --- Reads -------------------------------------------------------------------------------------------

#: Limit on the bytes between ranges, read in the same requests, that are kept in memory.
MAX_GAP_BYTES = 2 << 20

#: Number of concurrent requests for ranges of objects.
REQUESTS_AT_ONCE = 32

#: Number of bytes read at the end of a remote file, which usually contain the whole footer.
REMOTE_TAIL_BYTES = 64 * 1024

#: Number of bytes before the footer of a remote file that are read together as soon as some of them are
#: needed. They contain the page index and, in many files, all other indexes. A lookup in one object needs
#: several of them, one after the other. A round trip to a store takes 20 to 100 ms, in which a connection
#: transfers 1 MiB or more. Objects that are planned together (`intarsia.file.joined`) are read without this
#: zone, because most of them are excluded by one index.
REMOTE_INDEX_BYTES = 256 * 1024

#: Limit on the bytes that are read, with the gaps between pages, and kept in memory until the file is read.
MAX_PREFETCHED_BYTES = 2 << 20

#: Limit on the column chunks: each has an OffsetIndex to parse, even if its rows are not needed.
MAX_PREFETCHED_CHUNKS = 1_000

#: The approximate cost of a lookup in an index that is probed, and of each further value.
PROBE_BYTES = 8 * 1024
PROBED_VALUE_BYTES = 1024

#: Smaller streams are decompressed in the calling thread, because waking another one takes longer.
THREADED_STREAM_BYTES = 1 << 20

# --- Planning ----------------------------------------------------------------------------------------

#: The cost of a request to a local file, in bytes that could be read in that time.
LOCAL_REQUEST_BYTES = 1 << 12

#: The cost of decoding a page, in bytes that could be read in that time.
PAGE_BYTES = 1 << 14

#: The cost of opening the embedded index of one of many files, in bytes that could be read in that time: its
#: directory is parsed, its fingerprint compared, its payload checked and decompressed. The first time, this
#: takes as long as searching several small dictionary pages; later queries use the opened index. So one such
#: page is preferred to an index, and an index to several pages or a large one.
OPENED_BYTES = 1 << 15

#: If less than this part of the row groups is needed, the chunks of others are not parsed.
OUTLINED_PART = 4

#: An index is read for estimates only if its size is at most 1/8 of the candidates' bytes.
ESTIMATE_PART = 8

#: A condition that keeps a larger share of the rows saves few pages of other columns.
SELECTIVE_SHARE = 0.25

#: After each part, this many times as many rows are read.
FIRST_ROWS_GROWTH = 2

#: Number of tasks of dictionary pages in progress: two are searched while the pages of another one are read.
DICTIONARIES_AT_ONCE = 3

#: The maximum number of dictionary pages that a thread decodes at a time.
DICTIONARIES_PER_TASK = 32

#: Reading and decoding a page of a local file costs at least as much as reading this many bytes of data.
DICTIONARY_BYTES = 1 << 14

#: A scan of a row group in which no row matches reads only the predicate's columns. Decoding and comparing
#: them takes as long as reading this many more bytes of a local file, plus some for each row, to a maximum.
SCAN_BYTES = 1 << 14
SCAN_ROW_BYTES = 16
MAX_SCAN_BYTES = 1 << 17

#: A dictionary page may contain the value, so a page that has to be decoded must be this many times smaller
#: than the possible savings.
DICTIONARY_GAIN = 4

#: Searching the bytes of a page takes this many times as long as a scan of as many bytes. Most of the time is
#: spent in decompressing a page, which a scan does again if the page contains the value.
DICTIONARY_SEARCH = 4 / 3

#: If so many of the pages, from all parts of the file, exclude nothing, no other pages are searched.
TRIAL_DICTIONARIES = 16

#: If a smaller share of a row group's rows is left, another index has excluded the others. The rest probably
#: contains the value, so the dictionary page must be smaller again by `DICTIONARY_GAIN`.
MIN_EXCLUDED_SHARE = 1 / 4

#: The least probability that a dictionary excludes its row group, in computations of cost.
MIN_CHANCE = 1e-6

# --- Decoding ----------------------------------------------------------------------------------------

#: Up to this size, the bytes are copied in front of the footer, which takes less time than to parse it apart.
COPIED_BYTES = 1 << 17

#: From this size on, columns are decoded in parallel.
THREADED_BYTES = 1 << 20

#: At least this many columns are decoded in parallel from a quarter of `THREADED_BYTES` on.
SEVERAL_COLUMNS = 4

#: Up to this many ranges, slices are joined; for more ranges, rows are taken by their ordinals.
SLICED_RANGES = 8

#: If fewer than one value in this many is selected, values are taken by their ordinals, otherwise by a mask.
TAKEN_PART = 4

#: If at most one row in this many is among the first, these are selected, and the others are not sorted.
SELECTED_PART = 16

#: From this many rows on, texts with few distinct values are decoded to dictionaries.
REPEATED_TEXTS = 1 << 14

#: The extension decodes lists and maps of at most this many rows, and of more if at most one in
#: `COMPILED_LISTS_PART` is selected. arrow-rs takes up to 1.7 times as long as pyarrow to decode all rows of
#: maps, but pyarrow needs a file, whose footer takes about 0.7 ms to make and to read.
COMPILED_LIST_ROWS = 1 << 13
COMPILED_LISTS_PART = 32

#: If at most one in this many rows matches, the rows are selected by their positions.
FEW_MATCHES_PART = 64

#: Maximum size of a run of several row groups in bytes, both compressed and uncompressed.
RUN_BYTES = 8 << 20

#: Maximum number of rows in a run of several row groups. A scan for 14% of the rows of 53 row groups takes
#: 0.7 times as long as row group by row group. An iterator returns the rows of a run in one batch.
RUN_ROWS = 1 << 19
ITERATED_ROWS = 1 << 18

#: At most this many row groups that are proven to match do not interrupt a run, if reading the predicate's
#: columns takes at most this many bytes of each.
ISLAND_GROUPS = 16
ISLAND_BYTES = 1 << 12

#: Maximum number of row groups, or runs of small ones, that are decoded concurrently (contract C7).
RUNS_AT_ONCE = 2

#: Runs, or local files, of which fewer bytes are read are read one by one: a thread takes time to start, and
#: threads that run Python wait for each other.
CONCURRENT_BYTES = 4 << 20

#: Partial results are merged when they have more rows than this, and than twice the distinct values; or when
#: there are many of them.
MERGED_ROWS = 1 << 20
MERGED_PIECES = 64

#: At most this many summaries are kept for each question before they are merged.
MERGED_SUMMARIES = 1_024

# --- Many files --------------------------------------------------------------------------------------

#: Number of files read concurrently from an object store, where each needs a request.
REMOTE_FILES_AT_ONCE = 32

#: Number of files read concurrently from a local disk.
LOCAL_FILES_AT_ONCE = 2

#: The maximum number of files in an axis, and of bytes of their metadata in memory.
AXIS_FILES = 1_024
AXIS_BYTES = 64 << 20

#: The maximum number of bytes of dictionary pages to keep for reading the files that are left.
KEPT_DICTIONARY_BYTES = 64 << 20

#: The rows of a file are read in the thread that plans it if this takes at most this many bytes. They are in
#: memory until the caller takes them.
SMALL_FILE_BYTES = 1 << 20

#: Limits on a stretch: the bytes to read of its files, and their number.
STRETCH_BYTES = 4 << 20
STRETCH_FILES = 64

#: Number of objects that are read at the same time in stretches, each with a request or more.
OBJECTS_AT_ONCE = 64

#: With a limit and a predicate, this many files are planned and read one by one, the others together.
FIRST_FILES = 8

#: With a limit, the footers of this many files are planned together, and then of more, up to an axis.
FIRST_PLANNED = 64

#: A lake index is updated automatically if it lacks at most this many files, or this part of them.
MAX_REFRESHED_FILES = 32
REFRESHED_PART = 10

#: Files with larger payloads are not added automatically, and at most this many files are read to merge
#: segments.
MAX_REFRESHED_BYTES = 16 << 20
MAX_MERGED_FILES = 512

#: An update rewrites segments with more stale entries; a build rewrites all with any.
MAX_STALE_PART = 0.5

#: A listing of objects, and what has been read of them for a schema, is not checked again within this time.
LISTING_SECONDS = 1.0
