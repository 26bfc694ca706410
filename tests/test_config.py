from dataclasses import dataclass, field
from typing import Literal

import pytest

from cdsa.core.config import from_dict, override, to_dict
from cdsa.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    layers: int = 8
    rate: float = 1e-3
    manner: Literal["joint", "shared"] = "joint"
    wide: bool = False


@dataclass(frozen=True)
class Renamed:
    lr: float = 1e-3
    validation: float = 0.1
    max_order: int = 3
    masking: Literal["like_data", "random"] = "like_data"


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    minutes: float | None = None


def test_any_setting_can_be_changed_by_its_path():
    changed = override(
        Outer(), ["inner.layers=6", "inner.rate=3e-4", "inner.wide=yes", "minutes=2"]
    )
    assert changed == Outer(Inner(layers=6, rate=3e-4, wide=True), minutes=2.0)
    assert override(changed, ["minutes=none", "inner.manner=shared"]).minutes is None


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("inner.layer=6", "did you mean 'layers'"),
        ("iner.layers=6", "did you mean 'inner'"),
        ("inner.layers=six", "must be a whole number, but found 'six'"),
        ("inner.rate=x", "must be a number, but found 'x'"),
        ("inner.wide=perhaps", "must be true or false"),
        ("inner.manner=jont", "did you mean 'joint'"),
        ("inner=3", "'inner' is a group of settings: layers, rate, manner, wide"),
        ("minutes.x=3", "'minutes' is a single value and has no 'x'"),
        ("inner.layers", "name=value, but found 'inner.layers'"),
        ("=3", "name=value"),
    ],
)
def test_a_wrong_change_is_answered(change, answer):
    with pytest.raises(ConfigError, match=answer):
        override(Outer(), [change])


@pytest.mark.parametrize(
    ("old", "new"), [("rate=1", "lr"), ("most=2", "max_order"), ("masking=natural", "like_data")]
)
def test_an_old_name_is_answered_with_the_new_one(old, new):
    with pytest.raises(ConfigError, match=f"is called '{new}' now"):
        override(Renamed(), [old])


def test_an_old_name_in_a_file_is_answered_with_the_new_one():
    with pytest.raises(ConfigError, match="Renamed has no setting 'rate'; it is called 'lr' now"):
        from_dict(Renamed, {"rate": 1.0})


def test_an_old_name_that_is_still_a_setting_keeps_working():
    assert override(Renamed(), ["validation=0.2"]).validation == 0.2
    assert override(Inner(), ["rate=0.2"]).rate == 0.2


def test_settings_come_back_from_plain_values():
    config = Outer(Inner(layers=3), minutes=1.5)
    assert to_dict(config) == {
        "inner": {"layers": 3, "rate": 1e-3, "manner": "joint", "wide": False},
        "minutes": 1.5,
    }
    assert from_dict(Outer, to_dict(config)) == config


@pytest.mark.parametrize(
    "plain",
    [
        {"inner": {"layers": "3"}},
        {"inner": {"layers": True}},
        {"inner": {"manner": "other"}},
        {"inner": 3},
        {"iner": {}},
        [],
    ],
)
def test_what_does_not_belong_is_refused(plain):
    with pytest.raises(ConfigError):
        from_dict(Outer, plain)
