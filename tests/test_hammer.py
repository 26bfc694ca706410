"""A slice of `make hammer`: damaged tables are filled or refused, and nothing else."""

import pytest

from hammer.tables import failure_of, make_case

SLICES, CASES = 4, 40


@pytest.mark.parametrize("first", range(0, SLICES * CASES, CASES))
def test_a_damaged_table_is_filled_or_refused(first):
    failures = {n: failure_of(make_case(n)) for n in range(first, first + CASES)}
    assert {n: failure for n, failure in failures.items() if failure} == {}
