"""`make house` prints the figures by which the growth of the code is judged."""

import ast

import pytest

from tools import house


@pytest.fixture(scope="module")
def queries():
    return house.measure_queries(rows=2_000)


def test_figures_of_queries(queries):
    assert 20 < queries["files"] < queries["functions"] < queries["lookup_calls_new_table"]
    assert 5 < queries["frames"] < 100
    assert queries["lookup_calls"] < queries["lookup_calls_new_table"]


def test_figures_of_the_source(queries):
    source = house.measure_source()
    assert source["total"]["code_lines"] == sum(part["code_lines"] for part in source["packages"].values())
    assert source["packages"]["cli"]["code_lines"] < source["packages"]["cli"]["lines"]
    assert 0 < source["native"]["code_lines"] < 2_000
    assert source["circles"] == {}
    assert "cold query" in house.describe({"query": queries, "source": source})


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
