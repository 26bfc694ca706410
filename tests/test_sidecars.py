"""Tables next to the data: the graph of stations."""

import pytest

from cdsa.errors import TableError
from cdsa.io.sidecars import read_graph


def test_the_edges_of_a_graph_are_read(tmp_path):
    (tmp_path / "graph.csv").write_text("from,to,weight\nB,A,2\nA,C,1\nX,A,1\n")
    edges = read_graph(tmp_path / "graph.csv")
    assert edges == (("B", "A", 2.0), ("A", "C", 1.0), ("X", "A", 1.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\nA,B\n", "the columns from, to"),
        ("from,to,weight\nA,B,0\n", "greater than 0, but found 0 in row 1"),
        ("from,to\n", "0 rows"),
    ],
)
def test_a_bad_graph_is_refused(tmp_path, text, message):
    (tmp_path / "graph.csv").write_text(text)
    with pytest.raises(TableError, match=message):
        read_graph(tmp_path / "graph.csv")
