import json

import numpy as np
import pytest

from cdsa.core.records import append_results, provenance, read_results, to_json_value
from cdsa.errors import ConfigError, OutputError


def test_records_are_appended_never_replaced(tmp_path):
    path = tmp_path / "r.jsonl"
    append_results(path, [{"a": 1}])
    append_results(path, [{"a": 2}, {"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_number_that_is_not_finite_becomes_null():
    assert to_json_value(float("nan")) is None and to_json_value(np.inf) is None
    values = [to_json_value(value) for value in (np.float64(1.5), np.int64(3), "x", True)]
    assert json.dumps(values) == '[1.5, 3, "x", true]'


def test_provenance_has_what_is_needed_to_reproduce():
    keys = {"command", "commit", "version", "machine", "python", "when"}
    assert set(provenance("cdsa demo")) == keys


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"a": 1}\nbroken\n')
    with pytest.raises(ConfigError, match="line 2"):
        read_results(tmp_path / "r.jsonl")


def test_a_folder_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(OutputError, match="could not be written"):
        append_results(tmp_path / "no" / "r.jsonl", [{}])


def test_an_incomplete_last_record_is_ignored_and_removed(tmp_path):
    path = tmp_path / "r.jsonl"
    append_results(path, [{"a": 1}])
    with path.open("a") as file:
        file.write('{"a": 2, "b"')
    assert read_results(path) == [{"a": 1}]
    append_results(path, [{"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 3}]


def test_a_complete_record_without_its_newline_is_kept(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}')
    assert read_results(path) == [{"a": 1}, {"a": 2}]
    append_results(path, [{"a": 3}])
    assert read_results(path) == [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize("content", [b"my notes", b"[1]\n", b"3\n", b"\xff\xfe\n"])
def test_a_file_without_records_is_refused_and_unchanged(tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        read_results(path)
    if not content.endswith(b"\n"):
        with pytest.raises(ConfigError, match="Is it a results file"):
            append_results(path, [{"a": 1}])
        assert path.read_bytes() == content


def test_a_folder_is_not_a_results_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_results(tmp_path)
