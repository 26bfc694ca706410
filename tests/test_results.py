import json

import numpy as np
import pytest

from cdsa.errors import ConfigError, OutputError
from cdsa.results import append_results, plain, provenance, read_results


def test_records_are_added_never_replaced(tmp_path):
    path = tmp_path / "r.jsonl"
    append_results(path, [{"a": 1}])
    append_results(path, [{"a": 2}, {"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_what_is_no_number_becomes_null():
    assert plain(float("nan")) is None and plain(np.inf) is None
    assert (
        json.dumps([plain(np.float64(1.5)), plain(np.int64(3)), plain("x"), plain(True)])
        == '[1.5, 3, "x", true]'
    )


def test_a_record_says_how_it_can_be_made_again():
    assert set(provenance("cdsa demo")) == {
        "command",
        "commit",
        "version",
        "machine",
        "python",
        "when",
    }


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"a": 1}\nbroken\n')
    with pytest.raises(ConfigError, match="line 2"):
        read_results(tmp_path / "r.jsonl")


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(OutputError, match="could not be written"):
        append_results(tmp_path / "no" / "r.jsonl", [{}])
