"""Reading options: one declaration for Python, the command line and the REST API."""

import inspect
import re
from importlib.resources import files

import pytest

from cdsa.cli.info import info
from cdsa.errors import ConfigError
from cdsa.io.options import OPTIONS, ReadOptions, parse_options
from cdsa.web import schemas

SPELLINGS = [
    ("missing", "-999,broken", [-999, "broken"], ("-999", "broken")),
    ("measurements", "a, b", ["a", "b"], ("a", "b")),
    ("directions", "wind,gust", ("wind", "gust"), ("wind", "gust")),
    ("units", "a=K,b=ug/m3", {"a": "K", "b": "ug/m3"}, {"a": "K", "b": "ug/m3"}),
    ("units", ["a=K"], [("a", "K")], {"a": "K"}),
    ("bounds", "a=0:,b=:5", {"a": (0, None), "b": (None, 5)}, {"a": (0, None), "b": (None, 5)}),
    ("bounds", ["a=0:100"], [("a", 0, 100)], {"a": (0, 100)}),
    ("separator", "tab", "\t", "\t"),
]


@pytest.mark.parametrize(("name", "text", "structure", "stored"), SPELLINGS)
def test_text_and_structures_mean_the_same(name, text, structure, stored):
    for value in (text, structure):
        assert getattr(parse_options({name: value}), name) == stored


@pytest.mark.parametrize(("name", "text", "structure", "stored"), SPELLINGS)
def test_the_rest_api_parses_text_as_python_does(name, text, structure, stored):
    request = schemas.ReadOptions.model_validate({name: text})
    assert request.model_dump(exclude_none=True) == {name: stored}
    assert schemas.ReadOptions.model_validate({name: stored}) == request


def test_items_of_a_list_may_contain_commas():
    assert parse_options({"measurements": ["PM2.5, daily"]}).measurements == ("PM2.5, daily",)


def test_python_command_line_and_rest_api_have_the_same_options():
    limits = {"max_columns", "max_cells"}
    assert set(OPTIONS) == set(ReadOptions.__dataclass_fields__) - limits
    assert set(OPTIONS) == set(schemas.ReadOptions.model_fields)
    assert set(OPTIONS) <= set(inspect.signature(info).parameters)


def test_the_page_offers_every_option():
    script = (files("cdsa") / "web" / "static" / "options.js").read_text(encoding="utf-8")
    table = script[script.index("const FIELDS") : script.index("\n];")]
    not_offered = {"refill"}  # for arrays, which the server does not accept
    assert set(re.findall(r'\["(\w+)", "', table)) == set(OPTIONS) - not_offered


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("angles", "'angles' is now called 'directions'"),
        ("unit", "'unit' is now called 'units'"),
        ("mising", "did you mean 'missing'"),
    ],
)
def test_an_old_or_misspelt_name_is_answered_with_the_right_one(name, match):
    with pytest.raises(ConfigError, match=match):
        parse_options({name: "x"})
    with pytest.raises(ConfigError, match=match):
        schemas.ReadOptions.model_validate({name: "x"})


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"bounds": "3"}, "by measurement, as in NAME=A:B"),
        ({"bounds": "a=3"}, "as in pm25=0: or humid=0:100, but found '3'"),
        ({"bounds": "a=x:y"}, "but found 'x:y'"),
        ({"coordinates": "no"}, "coordinates is True or False, but found 'no'"),
        ({"layout": "panl"}, "no layout option 'panl'; did you mean 'panel'"),
        ({"decimal": ";"}, "no decimal option ';'"),
    ],
)
def test_a_value_that_cannot_be_parsed_is_refused(given, match):
    with pytest.raises(ConfigError, match=match):
        parse_options(given)
