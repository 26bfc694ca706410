"""The API, asked at random by its own documentation: whatever comes, it never breaks."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cdsa.web.limits import Limits
from server import finished, running, sent, table, visitor

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
NAMES = {"location": ["S0", "S1"], "measurement": ["no2"], "name": ["a.csv", "b.parquet"]}
WORDS = {
    "method": ["linear", "last"], "methods": [["linear", "mean"]], "hide": ["random:0.2"],
    "time": ["time", "lat"], "tz": ["UTC", "Europe/Berlin", "dateutil//etc/hostname"],
    "encoding": ["utf-8", "punycode", "a\0b"], "time_format": ["%Y%Y", "%Y-%m-%dT%H:%M:%S"],
    "step": ["1h", "9" * 190 + "month"], "locations": ["station,lat,lon\nS0,50,8"],
}  # fmt: skip
"""What is worth a try beside what comes by chance."""


@pytest.fixture(scope="module")
def address():
    limits = Limits(megabytes=1, queue=50, training_minutes=0.01, job_minutes=0.2)
    with running(limits) as where:
        yield where


@pytest.fixture(scope="module")
def there(address):
    """A table, and a finished job of a network, that questions can be about."""
    with visitor(address) as client:

        def fresh():
            told = sent(client, table(stations=3, steps=50))
            ask = {"method": "cdsa", "minutes": 0.001, "check": False}
            job = client.post(f"/api/tables/{told['id']}/fill", json=ask).json()
            found = {"table": told["id"], "job": finished(client, job)["id"]}
            cells = client.get(f"/api/jobs/{found['job']}/cells", params={"most": 1}).json()
            NAMES["step"], NAMES["location"] = [cells["cells"][0]["step"]], ["S0", "S1", "S2"]
            return found

        kept = fresh()

        def alive():
            nonlocal kept
            if client.get(f"/api/jobs/{kept['job']}").status_code != 200:
                client.delete(f"/api/tables/{kept['table']}")  # and all that waits to be done
                kept = fresh()  # what was asked before may have been to forget it
            return kept

        yield alive


def about(case, draw, there):
    """The same question, most of the time about something that is there."""
    for name, real in there().items():
        if name in (case.path_parameters or {}) and draw(st.integers(0, 4)):
            case.path_parameters[name] = real
    if case.query:
        for name in set(NAMES) & set(case.query):
            if draw(st.booleans()):
                case.query[name] = draw(st.sampled_from(NAMES[name]))
    if isinstance(case.body, dict):
        for name in set(WORDS) & set(case.body):
            if draw(st.booleans()):
                case.body[name] = draw(st.sampled_from(WORDS[name]))
    return case


def ask_all(address, there, examples: int) -> dict[str, set[int]]:
    """Ask every operation that is documented so many times; how each was answered."""
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    answered: dict[str, set[int]] = {}
    for operation in [found.ok() for found in schema.get_all_operations()]:

        @settings(max_examples=examples, suppress_health_check=QUIET, deadline=None)
        @given(case=operation.as_strategy(), data=st.data())
        def one(case, data):
            reply = about(case, data.draw, there).call()
            answered.setdefault(case.operation.label, set()).add(reply.status_code)
            assert reply.status_code < 500, reply.text
            case.validate_response(reply, checks=CHECKS)

        one()
    return answered


def test_whatever_is_asked_is_answered(address, there):
    answered = ask_all(address, there, 4)
    assert len(answered) > 15


@pytest.mark.slow
def test_whatever_is_asked_is_answered_at_length(address, there):
    answered = ask_all(address, there, 200)
    reached = [label for label, codes in answered.items() if codes & {200, 201, 202, 204}]
    never = set(answered) - set(reached)
    assert never <= {"POST /api/tables", "GET /api/jobs/{job}/reasons"}, answered  # hard to guess
