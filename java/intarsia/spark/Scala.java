package intarsia.spark;

import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Conversions between the collections of Scala and Java, which Spark's internal interfaces need. */
final class Scala {
  private Scala() {}

  static <T> Iterable<T> iterable(scala.collection.Iterable<T> items) {
    return CollectionConverters.asJava(items);
  }

  static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toIndexedSeq();
  }
}
