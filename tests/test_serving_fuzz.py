"""The API, asked at random by its own documentation: whatever comes, it never breaks."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cdsa.serving import Limits
from server import finished, running, sent, table, visitor

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@pytest.fixture(scope="module")
def there():
    """A server with a table and a finished job that questions can be about."""
    with running(Limits(megabytes=1, queue=2)) as address, visitor(address) as client:
        told = sent(client, table())
        job = client.post(f"/api/tables/{told['id']}/fill", json={"method": "linear"}).json()
        yield address, told["id"], finished(client, job)["id"]


def asked(case, there):
    """The same question, half of the time about something that is there."""
    _, one, job = there
    parts = case.path_parameters or {}
    for name, real in (("table", one), ("job", job)):
        if name in parts and len(str(parts[name])) % 2:
            parts[name] = real
    if case.method.upper() == "DELETE" and parts:
        parts[next(iter(parts))] = "gone"
    return case


def ask_all(there, examples: int) -> int:
    """Ask every operation that is documented so many times; how many there are."""
    schema = schemathesis.openapi.from_url(f"{there[0]}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:

        @settings(max_examples=examples, suppress_health_check=QUIET, deadline=None)
        @given(case=operation.as_strategy())
        def one(case):
            reply = asked(case, there).call()
            assert reply.status_code < 500, reply.text
            case.validate_response(reply, checks=CHECKS)

        one()
    return len(operations)


def test_whatever_is_asked_is_answered(there):
    assert ask_all(there, 4) > 15


@pytest.mark.slow
def test_whatever_is_asked_is_answered_at_length(there):
    assert ask_all(there, 200) > 15
