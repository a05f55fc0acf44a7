"""`enable_writes`: the files that Spark writes get indexes before they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from intarsia.embed.attach import checked_indexes
from intarsia.embed.report import IndexedFile, IndexReport
from intarsia.embed.structures import Attachables
from intarsia.errors import UnsupportedFeatureError
from intarsia.spark.listing import python_path
from intarsia.spark.rules import call_static, find_class, has_class, load_jar, new_object, set_rule
from intarsia.spark.sessions import is_connect, worker_python
from intarsia.spark.shipping import INDEXES_OPTION, indexes_to_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Whether a file that cannot be indexed is noted, or fails its task.
OnError: TypeAlias = Literal["note", "fail"]

_PROTOCOL: Final = "intarsia.spark.IndexingCommitProtocol"
_PROTOCOL_KEY: Final = "spark.sql.sources.commitProtocolClass"
_SPARK_PROTOCOL: Final = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
#: Its committers are those of `_PROTOCOL` as well: the ones that Hadoop's settings choose.
_CLOUD_PROTOCOL: Final = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
_STREAM_PROTOCOL: Final = "intarsia.spark.IndexingStreamCommitProtocol"
_STREAM_PROTOCOL_KEY: Final = "spark.sql.streaming.commitProtocolClass"
_SPARK_STREAM_PROTOCOL: Final = "org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol"
_FILES: Final = "intarsia.spark.WrittenFiles"
_TABLE_RULE: Final = "intarsia.spark.TableIndexesRule"
_SETTINGS: Final = "spark.intarsia.write."


def enable_writes(spark: SparkSession, indexes: Attachables = (), *, on_error: OnError = "note") -> None:
    """Add indexes to the Parquet files that this session writes, before they are committed.

    From now on, ``df.write.parquet``, ``insertInto``, ``saveAsTable``, CTAS and INSERT write indexed files,
    also with ``partitionBy`` and dynamic overwrite, and so do streams to Parquet files
    (``df.writeStream.format("parquet")``). Each task adds the indexes to its files before it commits. Spark's
    own protocols commit the files.

    A stream keeps the indexes with which it was started. Streams with another commit protocol are not changed
    and get no indexes.

    Args:
        spark: A classic session. Other sessions of the application are not changed.
        indexes: The indexes of all tables, as for `index`. Those on columns that a table lacks are noted and
            left out. Options of a writer replace them (see `write_options`), and so does the property
            ``intarsia.indexes`` of a table, such as ``'page_index, bloom(user)'``.
        on_error: What happens if a file cannot be indexed: ``"note"`` leaves it as Spark wrote it, and
            `last_write` has the error; ``"fail"`` fails the task, which Spark retries.

    Raises:
        UnsupportedFeatureError: If the session is a Connect client, or has another commit protocol.
        IndexBuildError: If an element of ``indexes`` is not an index, or no installed package registers its
            class as an entry point.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.enable_writes(spark, [ia.PageIndex(), ia.Bloom("user")])  # doctest: +SKIP
        >>> frame.write.partitionBy("day").parquet("lake/")  # doctest: +SKIP
        >>> print(ias.last_write(spark))  # doctest: +SKIP
    """
    settings = write_options(indexes, on_error=on_error)
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "a Connect client cannot change how its server commits files; index the folder afterwards with "
            "intarsia.spark.index",
            reason="connect",
        )
    before = spark.conf.get(_PROTOCOL_KEY)
    if before not in (_SPARK_PROTOCOL, _PROTOCOL, _CLOUD_PROTOCOL):
        raise UnsupportedFeatureError(
            f"{_PROTOCOL_KEY} is {before}, whose files are hidden until they are committed; index the folder "
            "afterwards with intarsia.spark.index",
            reason="other-commit-protocol",
        )
    load_jar(spark)
    for name, value in settings.items():
        spark.conf.set(_SETTINGS + name.partition(".")[2], value)
    spark.conf.set(f"{_SETTINGS}python", worker_python(spark))
    spark.conf.set(_PROTOCOL_KEY, _PROTOCOL)
    # it gives writers the properties of their table
    rule = new_object(spark.sparkContext._jvm, find_class(spark, _TABLE_RULE), spark._jsparkSession)
    set_rule(spark, _TABLE_RULE, rule)
    if spark.conf.get(_STREAM_PROTOCOL_KEY) == _SPARK_STREAM_PROTOCOL and has_class(spark, _STREAM_PROTOCOL):
        spark.conf.set(_STREAM_PROTOCOL_KEY, _STREAM_PROTOCOL)


def disable_writes(spark: SparkSession) -> None:
    """Undo `enable_writes`; does nothing if it was not called.

    Args:
        spark: The session.
    """
    if not is_connect(spark) and spark.conf.get(_PROTOCOL_KEY) == _PROTOCOL:
        spark.conf.unset(_PROTOCOL_KEY)
        set_rule(spark, _TABLE_RULE, None)
        if spark.conf.get(_STREAM_PROTOCOL_KEY) == _STREAM_PROTOCOL:
            spark.conf.unset(_STREAM_PROTOCOL_KEY)
        for name in ("indexes", "on_error", "python"):
            spark.conf.unset(_SETTINGS + name)


def write_options(indexes: Attachables, *, on_error: OnError = "note") -> dict[str, str]:
    """Return the options of a writer that replace the indexes of `enable_writes`.

    Args:
        indexes: The indexes of this table; ``()`` for none.
        on_error: As for `enable_writes`.

    Raises:
        ValueError: If ``on_error`` is unknown.
        IndexBuildError: As for `enable_writes`.

    Example:
        >>> import intarsia as ia
        >>> write_options(ia.Distinct("dest", granularity="file"))["intarsia.on_error"]
        'note'
        >>> frame.write.options(**ias.write_options(ia.Bloom("user"))).parquet("lake/")  # doctest: +SKIP
    """
    if on_error not in ("note", "fail"):
        raise ValueError(f"on_error is {on_error!r}; use 'note' or 'fail'")
    checked = checked_indexes(indexes)
    text = indexes_to_text(checked) if checked else ""
    return {INDEXES_OPTION: text, "intarsia.on_error": on_error}


def last_write(spark: SparkSession) -> IndexReport | None:
    """Return the outcome for each file of the last job that wrote indexed files; None before the first.

    Each micro-batch of a stream is a job.

    Args:
        spark: A session of an application in which `enable_writes` was called.
    """
    if is_connect(spark):
        return None
    jobs = call_static(spark.sparkContext._jvm, find_class(spark, _FILES), "jobs")
    if not jobs:
        return None
    files = sorted(map(_outcome, jobs[0]), key=lambda file: file.path)
    return IndexReport(tuple(files), sum(file.seconds for file in files))


def _outcome(text: str) -> IndexedFile:
    if text.startswith("A"):
        return IndexedFile.from_json(text[1:])
    path, error = text[1:].split("\0", 1)
    return IndexedFile(python_path(path), error=error, code="not-indexed")
