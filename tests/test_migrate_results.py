"""Migrating results files: every record and every number survives."""

import importlib
import json
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OLD = [
    {
        "table": "nyc", "method": "dcrnn", "settings": "steps=48 stride=1 train.batch=2",
        "seconds": 46.02, "mae": 0.1 + 0.2, "crps": None, "variables": 40001, "quick": False,
        "coverage_least_station": 0.8035847647498133,
        "command": "cdsa reproduce nyc --on nyc-traffic --set train.batch=2", "commit": "62c044bb",
    },
    {"what": "expected", "told": 3.25, "real": 3.5, "command": "python benchmarks/accuracy.py"},
    {"what": "parts", "way": "parts", "batch": 8, "times_faster": 1.5},
    {"benchmark": "rivals", "method": "mean", "command": "python benchmarks/rivals.py"},
]  # fmt: skip


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("migrate_results")


def numbers(records):
    return Counter(
        (number, repr(value))
        for number, record in enumerate(records)
        for value in record.values()
        if isinstance(value, int | float)
    )


def test_names_change_and_numbers_commands_and_commits_do_not(script, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in OLD))
    assert script.migrate_file(path)
    new = [json.loads(line) for line in path.read_text().splitlines()]
    assert numbers(new) == numbers(OLD) and len(new) == len(OLD)
    for name in ("command", "commit", "method"):
        assert [record.get(name) for record in new] == [record.get(name) for record in OLD]
    assert new[0]["settings"] == "window=48 stride=1 train.batch_size=2"
    assert new[0]["parameters"] == 40001 and "variables" not in new[0]
    assert (new[1]["expected"], new[1]["actual"]) == (3.25, 3.5)
    assert (new[2]["what"], new[2]["execution"]) == ("parallel", "data parallel")
    assert new[3]["benchmark"] == "baselines"


def test_a_second_migration_changes_nothing(script, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in OLD))
    script.migrate_file(path)
    assert not script.migrate_file(path)


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.jsonl")), ids=lambda p: p.stem)
def test_our_results_are_migrated(path, script, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    assert not script.migrate_file(copy)
