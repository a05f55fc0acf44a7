"""`make house` prints the figures by which the growth of the code is judged."""

import ast

from tools import house


def test_figures_of_queries():
    figures = house.measure_queries(rows=2_000)
    assert 20 < figures["files"] < figures["functions"] < figures["lookup_calls_new_table"]
    assert 5 < figures["frames"] < 100
    assert figures["lookup_calls"] < figures["lookup_calls_new_table"]


def test_figures_of_the_source():
    source = house.measure_source()
    assert source["total"]["code_lines"] == sum(part["code_lines"] for part in source["packages"].values())
    assert source["packages"]["cli"]["code_lines"] < source["packages"]["cli"]["lines"]
    assert "cold query" in house.describe({"query": house.measure_queries(rows=2_000), "source": source})


TEXT = '''import os


def f():  # a comment
    """Text.

    More.
    """
    return (
        1
    )
'''


def test_lines_of_code():
    nodes = list(ast.walk(ast.parse(TEXT)))
    assert house.code_lines(TEXT, nodes) == {4, 9, 10, 11}


def test_circles():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}
    assert house.circles(graph) == [["b", "c"]]
