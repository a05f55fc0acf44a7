package intarsia.spark;

import java.util.List;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Set$;
import scala.jdk.javaapi.CollectionConverters;

/** Conversions between the collections of Scala and Java, which Spark's internal interfaces need. */
final class Scala {
  private Scala() {}

  static <T> Iterable<T> iterable(scala.collection.Iterable<T> items) {
    return CollectionConverters.asJava(items);
  }

  static scala.collection.immutable.Set<Object> set(java.util.Set<Object> items) {
    scala.collection.mutable.Builder<Object, scala.collection.immutable.Set<Object>> builder =
        Set$.MODULE$.newBuilder();
    items.forEach(builder::addOne);
    return builder.result();
  }

  static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toIndexedSeq();
  }
}
