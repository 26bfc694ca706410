import json

import numpy as np
import pytest

from cdsa.core.records import append_results, provenance, read_results, to_json_value
from cdsa.errors import ConfigError, OutputError


def test_records_are_added_never_replaced(tmp_path):
    path = tmp_path / "r.jsonl"
    append_results(path, [{"a": 1}])
    append_results(path, [{"a": 2}, {"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_what_is_no_number_becomes_null():
    assert to_json_value(float("nan")) is None and to_json_value(np.inf) is None
    assert (
        json.dumps(
            [
                to_json_value(np.float64(1.5)),
                to_json_value(np.int64(3)),
                to_json_value("x"),
                to_json_value(True),
            ]
        )
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


def test_a_record_that_was_cut_off_at_the_end_is_none_and_is_taken_off(tmp_path):
    path = tmp_path / "r.jsonl"
    append_results(path, [{"a": 1}])
    with path.open("a") as file:
        file.write('{"a": 2, "b"')
    assert read_results(path) == [{"a": 1}]
    append_results(path, [{"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 3}]


def test_a_whole_record_without_the_end_of_its_line_is_kept(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}')
    assert read_results(path) == [{"a": 1}, {"a": 2}]
    append_results(path, [{"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize("content", [b"my notes", b"[1]\n", b"3\n", b"\xff\xfe\n"])
def test_what_is_no_file_of_results_is_refused_and_stays(tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        read_results(path)
    if not content.endswith(b"\n"):
        with pytest.raises(ConfigError, match="Is it a file of results"):
            append_results(path, [{"a": 1}])
        assert path.read_bytes() == content


def test_a_folder_is_no_file_of_results(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_results(tmp_path)
