"""Rename old keys and settings in results files: python scripts/migrate_results.py [FILE ...]

Without files, all of results/ are migrated. Commands and commits stay as they were recorded, and so
does every number. Running it again changes nothing.
"""

import json
import sys
from pathlib import Path

from cdsa.core.records import Record, Value, read_results

ROOT = Path(__file__).parents[1]
KEYS = {
    "variables": "parameters",
    "paper_variables": "paper_parameters",
    "coverage_least_station": "coverage_worst_station",
    "told": "expected",
    "real": "actual",
    "batch": "batch_size",
    "layers": "n_layers",
    "kept": "within_limits",
    "own_series": "same_series",
    "way": "execution",
}
VALUES: dict[tuple[str, Value], Value] = {
    ("benchmark", "rivals"): "baselines",
    ("what", "parts"): "parallel",
    ("execution", "parts"): "data parallel",
}
"""(new key, old value) -> new value."""
SETTINGS = {"steps": "window", "train.batch": "train.batch_size", "train.rate": "train.lr"}
"""Old names in the `settings` of a record."""


def migrate(record: Record) -> dict[str, Value]:
    """A record under the new names, in its old order."""
    renamed = {KEYS.get(key, key): value for key, value in record.items()}
    assert len(renamed) == len(record), f"two keys would have the same name: {sorted(record)}"
    if isinstance(settings := renamed.get("settings"), str):
        renamed["settings"] = rename_settings(settings)
    return {key: VALUES.get((key, value), value) for key, value in renamed.items()}


def rename_settings(text: str) -> str:
    """'steps=48 train.batch=2' under the new names."""
    pairs = (setting.partition("=") for setting in text.split())
    return " ".join(f"{SETTINGS.get(name, name)}={value}" for name, _, value in pairs)


def migrate_file(path: Path) -> bool:
    """Migrate a results file in place; whether anything changed."""
    records = read_results(path)
    migrated = [migrate(record) for record in records]
    if migrated == records:
        return False
    temporary = path.with_name(f"{path.name}.migrated")
    temporary.write_text("".join(json.dumps(record) + "\n" for record in migrated))
    temporary.replace(path)
    return True


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "results").glob("*.jsonl"))
    for path in paths:
        print(f"{path}: {'migrated' if migrate_file(path) else 'nothing to change'}")


if __name__ == "__main__":
    main()
