"""Settings: change a nested frozen dataclass with `name=value`, and convert it to and from dicts.

This module knows none of the dataclasses it works on.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from cdsa.errors import ConfigError, suggest, unknown

T = TypeVar("T")

RENAMED: Mapping[str, tuple[str, ...]] = {
    # settings of a model
    "channels": ("d_model",), "heads": ("n_heads",), "layers": ("n_layers",), "d": ("d_qk",),
    "v": ("d_v",), "feed_forward": ("d_ff",), "own_scales": ("elementwise_affine",),
    "hide_own_step": ("mask_diagonal",), "bare_last": ("last_layer_bare",),
    "tell_observed": ("mask_channel",), "positions": ("position_embedding",),
    "normalise": ("norm_over",), "walks": ("diffusion_steps",), "alone": ("pretrain_steps",),
    "critics": ("critic_steps",), "cut": ("weight_clip",), "trust": ("critic_weight",),
    "hidden": ("d_model",), "gate": ("d_gate",), "noise": ("d_noise",), "reach": ("first_step",),
    "search": ("search_steps",), "search_rate": ("search_lr",), "fading": ("sampling_decay",),
    # settings of a training
    "rate": ("lr",), "first_moment": ("beta1",), "second_moment": ("beta2",),
    "clip": ("grad_clip",), "average": ("ema_decay",), "hide": ("masking",),
    "natural": ("like_data",), "learn_from": ("loss_on",), "most": ("max_mask_ratio", "max_order"),
    "validation": ("holdout_share",), "batch": ("batch_size",),
    # settings of a method
    "steps": ("window",), "known": ("known_covariates",), "fitted": ("auto_size",),
    "fewest": ("min_stations",), "shape": ("variogram",), "ties": ("smoothness",),
    "donors": ("max_donors",), "companions": ("n_nearest_features",),
    "neighbours": ("n_neighbors",), "rounds": ("n_rounds", "max_iter"),
}  # fmt: skip
"""New names of settings, and of their values, by the old one; error messages answer with them."""


def override(config: T, changes: Iterable[str]) -> T:
    """The settings with each change such as 'model.n_layers=6' applied.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Settings:
    ...     layers: int = 8
    >>> override(Settings(), ["layers=6"])
    Settings(layers=6)
    """
    for change in [changes] if isinstance(changes, str) else changes:
        path, sign, text = change.partition("=")
        if not sign or not path.strip():
            raise ConfigError(f"a setting is changed with name=value, but found '{change}'")
        config = _replace(config, path.strip().split("."), text.strip(), path.strip())
    return config


def _replace(config: T, path: list[str], text: str, full_path: str) -> T:
    name, *rest = path
    group = ["", *full_path.split(".")[: -len(path)]][-1]
    field_types = _field_types(config)
    if name not in field_types:
        raise ConfigError(f"--set {full_path}: {_unknown_setting(type(config), name, group)}")
    old = getattr(config, name)
    if rest and not dataclasses.is_dataclass(old):
        raise ConfigError(f"--set {full_path}: '{name}' is a single value and has no '{rest[0]}'")
    if not rest and dataclasses.is_dataclass(old):
        names = ", ".join(_field_types(old))
        raise ConfigError(f"--set {full_path}: '{name}' is a group of settings: {names}")
    new = (
        _replace(old, rest, text, full_path) if rest else _parse(text, field_types[name], full_path)
    )
    return dataclasses.replace(config, **{name: new})  # type: ignore[type-var]


def _field_types(config: object) -> dict[str, Any]:
    cls = config if isinstance(config, type) else type(config)
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


def _unknown_setting(cls: type, name: str, group: str = "") -> str:
    known = _field_types(cls)
    new = _new_name(name, known)
    hint = f"; it is called '{new}' now" if new is not None else suggest(name, known)
    return f"{group or getattr(cls, 'name', cls.__name__)} has no setting '{name}'{hint}"


def _new_name(old: str, known: Iterable[str]) -> str | None:
    return next((new for new in RENAMED.get(old, ()) if new in known), None)


def _parse(text: str, kind: Any, path: str) -> object:
    if get_origin(kind) in (Union, types.UnionType):
        if text.lower() == "none" and types.NoneType in get_args(kind):
            return None
        (kind,) = (option for option in get_args(kind) if option is not types.NoneType)
    if get_origin(kind) is tuple:
        if get_origin(get_args(kind)[0]) is tuple:
            raise ConfigError(f"--set {path}: this cannot be set as text; edges come from --graph")
        items = [item.strip() for item in text.split(",") if item.strip()]
        return tuple(_parse(item, get_args(kind)[0], path) for item in items)
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            new = _new_name(text, get_args(kind))
            hint = f"'{text}' is called '{new}' now" if new else None
            raise ConfigError(f"--set {path}: {hint or unknown('value', text, get_args(kind))}")
        return text
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
                text.lower()
            ]
        return kind(text)
    except (ValueError, KeyError) as bad:
        expected = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise ConfigError(f"--set {path} must be {expected}, but found '{text}'") from bad


def to_dict(config: object) -> dict[str, Any]:
    """The settings as nested dicts of values that JSON can hold."""
    return {name: _to_plain(getattr(config, name)) for name in _field_types(config)}


def _to_plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return list(value) if isinstance(value, tuple) else value


def from_dict(cls: type[T], plain: object, where: str = "") -> T:
    """The settings from nested dicts; unknown names and unsuitable values are refused."""
    if not isinstance(plain, dict):
        raise ConfigError(f"the settings of {cls.__name__} must be an object{where}")
    field_types = _field_types(cls)
    values: dict[str, object] = {}
    for name, value in plain.items():
        if name not in field_types:
            raise ConfigError(_unknown_setting(cls, str(name)) + where)
        if dataclasses.is_dataclass(field_types[name]):
            values[name] = from_dict(field_types[name], value, where)
        else:
            values[name] = _from_plain(name, value, field_types[name], where)
    return cls(**values)


def _from_plain(name: str, value: object, kind: Any, where: str) -> object:
    """A checked value; a list becomes a tuple where one is expected."""
    items = get_args(kind)
    if get_origin(kind) is tuple and isinstance(value, list):
        if items[-1] is Ellipsis:
            items = items[:1] * len(value)
        fits = len(items) == len(value)
        if fits:
            pairs = zip(value, items, strict=True)
            return tuple(_from_plain(name, item, k, where) for item, k in pairs)
    elif get_origin(kind) is Literal:
        fits = value in items
    else:
        allowed = items or (kind,)
        fits = type(value) in allowed or (float in allowed and type(value) is int)
    if not fits:
        raise ConfigError(f"setting '{name}' cannot be {json.dumps(value)}{where}")
    return value
