"""An index of the hosts in a column of URLs. It prunes =, IN and LIKE 'https://host/%'."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.indexes import (
    BoundCompare,
    BoundIn,
    GatheredFilters,
    Index,
    OpenIndex,
    cut_at_edges,
    filter_of,
    gather_filters,
    granule_rows,
    parse_granules,
    serialize_granules,
)

URL = "^[^:/?#]+://(?P<host>[^/?#]*)"
SCHEMA = pa.schema({"hosts": pa.list_(pa.string())})


@dataclass(frozen=True)
class Hosts(Index):
    """The hosts of URLs, per page, row group, file or number of rows."""

    kind: ClassVar[str] = "hosts"
    version: ClassVar[int] = 1
    column: str
    granularity: str | int = "page"

    def build(self, chunk):
        edges = chunk.layout.edges(self.granularity, self.column)
        hosts = [set() for _ in edges[1:]]
        for granule, urls in cut_at_edges(edges, chunk.batches(self.column)):
            hosts[granule].update(hosts_of(urls.cast(pa.string())).to_pylist())
        batch = pa.record_batch([pa.array(map(sorted, hosts), SCHEMA.types[0])], schema=SCHEMA)
        return serialize_granules(batch, edges, self.granularity)

    def open(self, payload, layout):
        granules = parse_granules(payload, layout, self.granularity, "Hosts", SCHEMA, has_row_each=True)
        return OpenHosts(granules.edges, granules.batch.column("hosts"))

    def digest(self, payload, layout):
        return filter_of(self.open(payload, layout).hosts.flatten().unique())

    def gather(self, digests):
        return gather_filters(enumerate(digests))

    def open_gathered(self, parts, num_files):
        return GatheredFilters.of_values(parts, num_files, queried_hosts)


@dataclass(frozen=True)
class OpenHosts(OpenIndex):
    edges: np.ndarray
    hosts: pa.ListArray

    def candidate_rows(self, condition):
        queried = queried_hosts(condition)
        if queried is None:
            return None  # every row might match
        hit = np.zeros(len(self.hosts), dtype=bool)
        hit[pc.list_parent_indices(self.hosts).filter(pc.is_in(self.hosts.flatten(), queried))] = True
        return granule_rows(self.edges, hit)


def hosts_of(urls):  # the distinct hosts; a text that is not a URL has an empty host
    return pc.fill_null(pc.struct_field(pc.extract_regex(urls.drop_null(), URL), "host"), "").unique()


def queried_hosts(condition):  # every matching URL has one of these hosts; None if they are unknown
    if isinstance(condition, BoundIn) and not condition.negated:
        return hosts_of(condition.values)
    if isinstance(condition, BoundCompare) and condition.op == "=":
        return hosts_of(pa.array([condition.value]))
    prefix = b"" if getattr(condition, "negated", True) else getattr(condition, "prefix", b"")
    return hosts_of(pa.array([prefix.decode()])) if re.match(URL + "[/?#]", prefix.decode()) else None
