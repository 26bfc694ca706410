"""The API under random requests, generated from its own schema: it never breaks."""

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
from server import connect, run, running, table, upload

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
NAMES = {"location": ["S0", "S1"], "measurement": ["no2"], "name": ["a.csv", "b.parquet"]}
WORDS = {
    "method": ["linear", "last"], "methods": [["linear", "mean"]], "hide": ["random:0.2"],
    "time": ["time", "lat"], "tz": ["UTC", "Europe/Berlin", "dateutil//etc/hostname"],
    "encoding": ["utf-8", "punycode", "a\0b"], "time_format": ["%Y%Y", "%Y-%m-%dT%H:%M:%S"],
    "step": ["1h", "9" * 190 + "month"], "locations": ["station,lat,lon\nS0,50,8"],
}  # fmt: skip
"""Values worth trying beside random ones."""


@pytest.fixture(scope="module")
def address():
    limits = Limits(megabytes=1, queue=50, training_minutes=0.01, job_minutes=1.0)
    with running(limits) as where:
        yield where


@pytest.fixture(scope="module")
def existing(address):
    """A function that returns the ids of a table and of a finished job of a network."""
    with connect(address) as client:

        def create() -> dict[str, str]:
            summary = upload(client, table(stations=3, steps=50))
            job = run(client, summary, "fill", method="cdsa", minutes=0.001, check=False)
            page = client.get(f"/api/jobs/{job['id']}/cells", params={"limit": 1}).json()
            NAMES["step"], NAMES["location"] = [page["cells"][0]["step"]], ["S0", "S1", "S2"]
            return {"table": summary["id"], "job": job["id"]}

        ids = create()

        def get() -> dict[str, str]:
            nonlocal ids
            if client.get(f"/api/jobs/{ids['job']}").status_code != 200:
                client.delete(f"/api/tables/{ids['table']}")  # with all its waiting jobs
                ids = create()  # an earlier request may have removed them
            return ids

        yield get


def make_likely(case, draw, existing):
    """The same request, most of the time about something that exists."""
    for name, existing_id in existing().items():
        if name in (case.path_parameters or {}) and draw(st.integers(0, 4)):
            case.path_parameters[name] = existing_id
    if case.query:
        for name in set(NAMES) & set(case.query):
            if draw(st.booleans()):
                case.query[name] = draw(st.sampled_from(NAMES[name]))
    if isinstance(case.body, dict):
        for name in set(WORDS) & set(case.body):
            if draw(st.booleans()):
                case.body[name] = draw(st.sampled_from(WORDS[name]))
    return case


def request_all(address, existing, examples: int) -> dict[str, set[int]]:
    """Call every documented operation so many times; returns the status codes of each."""
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    codes: dict[str, set[int]] = {}
    for operation in [result.ok() for result in schema.get_all_operations()]:

        @settings(max_examples=examples, suppress_health_check=SUPPRESSED, deadline=None)
        @given(case=operation.as_strategy(), data=st.data())
        def request(case, data):
            response = make_likely(case, data.draw, existing).call()
            codes.setdefault(case.operation.label, set()).add(response.status_code)
            assert response.status_code < 500, response.text
            case.validate_response(response, checks=CHECKS)

        request()
    return codes


def test_every_request_is_answered(address, existing):
    assert len(request_all(address, existing, 4)) > 15


@pytest.mark.slow
def test_every_request_is_answered_at_length(address, existing):
    codes = request_all(address, existing, 200)
    succeeded = {label for label, seen in codes.items() if seen & {200, 201, 202, 204}}
    hard_to_guess = {"POST /api/tables", "GET /api/jobs/{job}/explanation"}
    assert set(codes) - succeeded <= hard_to_guess, codes
