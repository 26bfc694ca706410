"""Settings: any nested frozen dataclass changed by `name=value`, written to JSON and read back.

Knows none of the dataclasses it works on.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from cdsa.errors import ConfigError, unknown

T = TypeVar("T")


def override(config: T, changes: Iterable[str]) -> T:
    """The settings with each 'model.layers=6' applied; a misspelt one is answered.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Settings:
    ...     layers: int = 8
    >>> override(Settings(), ["layers=6"])
    Settings(layers=6)
    """
    for change in changes:
        path, sign, text = change.partition("=")
        if not sign or not path.strip():
            raise ConfigError(f"a setting is changed by name=value, but found '{change}'")
        config = _replace(config, path.strip().split("."), text.strip(), path.strip())
    return config


def _replace(config: T, path: list[str], text: str, whole: str) -> T:
    name, *rest = path
    kinds = _fields(config)
    if name not in kinds:
        word = unknown(f"setting of {type(config).__name__}", name, kinds)
        raise ConfigError(f"--set {whole}: {word}")
    old = getattr(config, name)
    if rest and not dataclasses.is_dataclass(old):
        raise ConfigError(f"--set {whole}: '{name}' is a single value and has no '{rest[0]}'")
    if not rest and dataclasses.is_dataclass(old):
        raise ConfigError(f"--set {whole}: '{name}' has settings of its own: {_names(old)}")
    new = _replace(old, rest, text, whole) if rest else _parse(text, kinds[name], whole)
    return dataclasses.replace(config, **{name: new})  # type: ignore[type-var]


def _names(config: object) -> str:
    return ", ".join(_fields(config))


def _fields(config: object) -> dict[str, Any]:
    """Names and types of a dataclass' settings, as far as they can be written down."""
    kind = config if isinstance(config, type) else type(config)
    hints = typing.get_type_hints(kind)
    return {
        field.name: hints[field.name]
        for field in dataclasses.fields(kind)
        if field.init and field.compare
    }


def _parse(text: str, kind: Any, whole: str) -> object:
    """A value of this type from its text."""
    if get_origin(kind) in (Union, types.UnionType):
        if text.lower() == "none" and types.NoneType in get_args(kind):
            return None
        (kind,) = (option for option in get_args(kind) if option is not types.NoneType)
    if get_origin(kind) is tuple:
        if get_origin(get_args(kind)[0]) is tuple:
            raise ConfigError(f"--set {whole}: this cannot be set as text; edges come from --graph")
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise ConfigError(f"--set {whole}: {unknown('value', text, get_args(kind))}")
        return text
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
                text.lower()
            ]
        return kind(text)
    except (ValueError, KeyError) as bad:
        what = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise ConfigError(f"--set {whole} wants {what}, but found '{text}'") from bad


def to_dict(config: object) -> dict[str, Any]:
    """The settings as nested dicts of plain values."""
    return {name: _plain(value) for name in _fields(config) for value in (getattr(config, name),)}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return list(value) if isinstance(value, tuple) else value


def from_dict(kind: type[T], plain: object, where: str = "") -> T:
    """The settings back from nested dicts; what does not belong is refused."""
    if not isinstance(plain, dict):
        raise ConfigError(f"settings of {kind.__name__} are written as an object{where}")
    kinds = _fields(kind)
    for name in plain:
        if name not in kinds:
            raise ConfigError(unknown(f"setting of {kind.__name__}", str(name), kinds) + where)
    values: dict[str, object] = {}
    for name, value in plain.items():
        if dataclasses.is_dataclass(kinds[name]):
            values[name] = from_dict(kinds[name], value, where)
        elif get_origin(kinds[name]) is tuple and isinstance(value, list):
            values[name] = _tuple(name, value, get_args(kinds[name]), where)
        else:
            _check(name, value, kinds[name], where)
            values[name] = value
    return kind(**values)


def _tuple(name: str, value: list[object], kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    """A tuple back from a list: of many of one kind, or of one of each."""
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise ConfigError(f"setting '{name}' cannot be {json.dumps(value)}{where}")
    parts: list[object] = []
    for part, kind in zip(value, kinds, strict=True):
        if get_origin(kind) is tuple and isinstance(part, list):
            part = _tuple(name, part, get_args(kind), where)
        else:
            _check(name, part, kind, where)
        parts.append(part)
    return tuple(parts)


def _check(name: str, value: object, kind: Any, where: str) -> None:
    if get_origin(kind) is Literal:
        fits = value in get_args(kind)
    else:
        kinds = get_args(kind) or (kind,)
        fits = type(value) in kinds or (float in kinds and type(value) is int)
    if not fits:
        raise ConfigError(f"setting '{name}' cannot be {json.dumps(value)}{where}")
