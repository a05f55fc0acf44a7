"""Load and create the optimizer rules in the JVM, and read their records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from intarsia.amounts import part
from intarsia.errors import IntarsiaError, UnsupportedFeatureError
from intarsia.records import dataclass
from intarsia.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The versions of Spark whose internal interfaces are known.
SUPPORTED_SPARK: Final = ("4.1", "4.2", "4.3")

#: The jar with the classes that run inside Spark.
JAR: Final = Path(__file__).parent / "jars" / "intarsia-spark.jar"

#: The class of the rule of the optimizer.
SKIP_RULE: Final = "intarsia.spark.SkipRule"

#: The class that plans scans whose excluded files are compared in each run.
_STRATEGY: Final = "intarsia.spark.SkippingStrategy"

#: The class loader of each application that has the jar.
_LOADERS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

#: The static methods of its classes that were called, because finding one takes a request for each method.
_METHODS: WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class ScanSkip:
    """The files, row groups, pages and rows that one scan of the last query skipped.

    Attributes:
        paths: The paths of the scanned relation.
        condition: The condition, in Spark SQL.
        reason: Why nothing was skipped; None if something was.
        advice: What would make plans of these files faster; None if nothing is known.
        report: The report of the plan, with the keys of `intarsia.ScanReport.to_dict`; empty without one.
        planning_ms: Time taken to plan, in milliseconds.
    """

    paths: tuple[str, ...]
    condition: str
    reason: str | None
    report: dict[str, Any]
    planning_ms: float
    advice: str | None = None

    def __str__(self) -> str:
        advice = "" if self.advice is None else f"; {self.advice}"
        if self.reason is not None:
            return f"{', '.join(self.paths)}: nothing skipped: {self.reason}{advice}"
        by = ", ".join(f"{entry['index']} of {entry['column']}" for entry in self.report["pruned_by"])
        kept = f"{', '.join(self.paths)}: {kept_parts(self.report)}"
        return (f"{kept}; excluded by {by}" if by else kept) + advice


def kept_parts(report: Mapping[str, Any]) -> str:
    """Return the files, row groups and rows that a plan reads, as text."""
    files, groups, rows = (report[key] for key in ("files", "row_groups", "rows"))
    return (
        f"{part(files['read'], files['total'], 'file')}, "
        f"{part(groups['read'], groups['total'], 'row group')}, "
        f"{part(rows['candidates'], rows['total'], 'row')}"
    )


def skips_of(skipping: Any) -> Sequence[ScanSkip]:
    """Return the records of an object of the class ``Skipping`` about the last query."""
    return [
        ScanSkip(
            tuple(record.get("paths", ())),
            record.get("condition", ""),
            record["reason"],
            record.get("report") or {},
            record.get("planning_ms", 0.0),
            record.get("advice"),
        )
        for record in json.loads(skipping.lastSkips())
    ]


def last_skips(spark: SparkSession) -> Sequence[ScanSkip]:
    """Return what each scan of the last query with a condition on Parquet files skipped, and why.

    Args:
        spark: An enabled session.

    Returns:
        One entry for each scan; empty if nothing was planned yet.
    """
    skipping = None if is_connect(spark) else skipping_of(spark)
    return [] if skipping is None else skips_of(skipping)


def skipping_of(spark: SparkSession) -> Any | None:
    """Return the object of the class ``Skipping`` of a session; None if the session is not enabled."""
    rules = scala_items(spark._jsparkSession.experimental().extraOptimizations())
    return next((rule.skipping() for rule in rules if _is_a(rule, SKIP_RULE)), None)


def set_rule(spark: SparkSession, name: str, rule: Any | None) -> None:
    """Replace the rule of a class among those that were added to the optimizer; None removes it."""
    methods = spark._jsparkSession.experimental()
    rules = [one for one in scala_items(methods.extraOptimizations()) if not _is_a(one, name)]
    items = scala_sequence(spark.sparkContext._jvm, rules if rule is None else [*rules, rule])
    getattr(methods, "extraOptimizations_$eq")(items)


def set_own_rules(spark: SparkSession, loader: RuleLoader, skipping: Any | None) -> None:
    """Replace the rules of the optimizer and of adaptive execution; None removes them."""
    set_rule(spark, SKIP_RULE, None if skipping is None else loader.new(SKIP_RULE, skipping))
    at_run_time = None if skipping is None else loader.new("intarsia.spark.JoinKeyRule", skipping)
    holder = spark._jsparkSession.sessionState().adaptiveRulesHolder()
    loader.call("intarsia.spark.RuntimeRules", "set", holder, at_run_time)


def add_strategy(spark: SparkSession, loader: RuleLoader) -> None:
    """Add the strategy that plans scans with a plan of Intarsia; it does not change other scans.

    It stays when skipping is turned off, because there may be frames with plans.
    """
    methods = spark._jsparkSession.experimental()
    strategies = scala_items(methods.extraStrategies())
    if not any(_is_a(one, _STRATEGY) for one in strategies):
        added = scala_sequence(spark.sparkContext._jvm, [loader.new(_STRATEGY), *strategies])
        getattr(methods, "extraStrategies_$eq")(added)


def _is_a(java: Any, name: str) -> bool:
    return bool(java.getClass().getName() == name)


def obstacle_to_rules(spark: SparkSession) -> IntarsiaError | None:
    """Return why the rules cannot run in this session; None if they can.

    Returns:
        An `UnsupportedFeatureError` if this version of Spark is unknown, another one for a Connect client.
    """
    if is_connect(spark):
        return IntarsiaError(
            "a Spark Connect client cannot reach the optimizer; use intarsia.spark.read with mode='auto' or "
            "'pages', or start the server with intarsia.spark.spark_conf()",
            reason="connect-session",
        )
    version = re.match(r"\d+\.\d+", spark.version)
    if version is None or version[0] not in SUPPORTED_SPARK:
        return UnsupportedFeatureError(
            f"this version of Intarsia does not support Spark {spark.version}; use Spark "
            f"{', '.join(SUPPORTED_SPARK)}, or a later version of Intarsia",
            reason="unknown-spark",
        )
    return None


def refuse_unplannable(spark: SparkSession) -> None:
    """Raise an error if the rules cannot run in this session.

    Raises:
        IntarsiaError: If it is a Connect client.
        UnsupportedFeatureError: If this version of Spark is unknown.
    """
    if (obstacle := obstacle_to_rules(spark)) is not None:
        raise obstacle


class RuleLoader:
    """Makes objects of the jar's classes, which it adds to the class loader of the application.

    Args:
        spark: A classic session.
        needs_executors: Whether executors need the classes, too.
    """

    def __init__(self, spark: SparkSession, *, needs_executors: bool = True) -> None:
        self._context: Any = spark.sparkContext
        if needs_executors:
            send_jar(self._context)
        self.classes = _class_loader(spark)

    def new(self, name: str, *arguments: Any) -> Any:
        """Create an object of a class with one constructor."""
        constructor = self.classes.loadClass(name).getConstructors()[0]
        return constructor.newInstance(java_list(self._context._jvm, arguments).toArray())

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a static method of a class that alone has its name."""
        known = _METHODS.setdefault(self._context, {})
        if (name, method) not in known:
            known[name, method] = _static_method(self.classes.loadClass(name), method)
        return known[name, method].invoke(None, java_list(self._context._jvm, arguments).toArray())

    def new_skipping(
        self, planner: Callable[[str], str], *, shared: Any | None = None, timeout_ms: int = 0
    ) -> Any:
        """Create the state that the rules of a session share, an object of the class ``Skipping``.

        Args:
            planner: Answers the requests of the rules.
            shared: The object of the class ``SharedPlanner`` that gets the planner; None for a new one.
            timeout_ms: The time limit for planning one scan, in milliseconds; 0 for no limit.
        """
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(self._context._gateway)
        shared = shared or self.new("intarsia.spark.SharedPlanner")
        shared.set(self.new("intarsia.spark.PythonCallback", Callback(planner)), timeout_ms)
        return self.new("intarsia.spark.Skipping", shared)


class Callback:
    """A function that answers requests, as a ``java.util.function.Function``.

    Args:
        answer: The function.
    """

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer

    def apply(self, request: str) -> str:
        """Answer a request; called by the JVM."""
        return self._answer(request)

    class Java:
        """The attributes that py4j reads."""

        implements = ("java.util.function.Function",)


def send_jar(context: Any) -> None:
    """Make the jar known to the executors of a context, unless it is; Spark warns about a second time."""
    known = context._jsc.sc().listJars().mkString("\n").splitlines()
    if not any(url.endswith(f"/{JAR.name}") for url in known):
        context._jsc.addJar(str(JAR))


def load_jar(spark: SparkSession) -> None:
    """Let Spark find the jar's classes by their names, on the driver and the executors, in all threads.

    ``ADD JAR`` would do so for this thread, but warn if the executors have the jar since
    `intarsia.spark.enable`. Each thread of Python has one of Java, which inherits from one that runs now.

    Raises:
        IntarsiaError: If the driver does not find them, or if this version of Spark lacks a class that they
            extend.
    """
    if has_class(spark, SKIP_RULE):
        return
    jvm: Any = spark.sparkContext._jvm
    classes, threads = RuleLoader(spark).classes, java_class(jvm, "java.lang.Thread")
    threads.currentThread().setContextClassLoader(classes)
    for thread in threads.getAllStackTraces().keySet():
        if classes.getParent().equals(thread.getContextClassLoader()):
            thread.setContextClassLoader(classes)
    try:
        class_for_name(jvm, SKIP_RULE)
    except Exception as error:
        raise IntarsiaError(f"Spark cannot load {SKIP_RULE} from {JAR}", reason="jar-not-loaded") from error


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver finds a class of the jar, and those that it extends."""
    try:
        class_for_name(spark.sparkContext._jvm, name)
    except Exception:  # noqa: BLE001  the error depends on what is missing
        return False
    return True


def _class_loader(spark: SparkSession) -> Any:
    """Return the class loader of the application, as for ``ADD JAR``, with the jar.

    Its parent is searched first, because with ``spark.jars`` that has the classes.
    """
    context: Any = spark.sparkContext
    if context not in _LOADERS:
        loader = spark._jsparkSession.sharedState().jarClassLoader()
        loader.addURL(java_class(context._jvm, "java.io.File")(str(JAR)).toURI().toURL())
        _LOADERS[context] = loader
    return _LOADERS[context]


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its full name.

    ``jvm.java.util.ArrayList`` would look for the classes ``java`` and ``java.util`` first. Each of them is
    a request and a search of all jars of Spark. A class in a deep package then takes milliseconds.

    Args:
        jvm: The view of the JVM, ``spark.sparkContext._jvm``.
        name: Such as ``"java.util.ArrayList"``.
    """
    return getattr(jvm, name)


def class_for_name(jvm: Any, name: str) -> Any:
    """Return the object of Java for a class, found by Spark's class loader."""
    return java_class(jvm, "org.apache.spark.util.Utils").classForName(name, True, False)


def call_static(jvm: Any, java: Any, method: str, *arguments: Any) -> Any:
    """Call the static method of a class that alone has its name."""
    return _static_method(java, method).invoke(None, java_list(jvm, arguments).toArray())


def _static_method(java: Any, method: str) -> Any:
    (found,) = [one for one in java.getMethods() if one.getName() == method]
    return found


def java_list(jvm: Any, items: Iterable[Any]) -> Any:
    """Return a ``java.util.ArrayList`` of items."""
    found = java_class(jvm, "java.util.ArrayList")()
    for item in items:
        found.add(item)
    return found


def scala_sequence(jvm: Any, items: Iterable[Any]) -> Any:
    """Return an immutable ``Seq`` of items."""
    return java_class(jvm, "scala.jdk.javaapi.CollectionConverters").asScala(java_list(jvm, items)).toSeq()


def scala_items(sequence: Any) -> list[Any]:
    """Return the items of a ``Seq``."""
    return [sequence.apply(ordinal) for ordinal in range(sequence.size())]
