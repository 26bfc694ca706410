"""Tests that go on as long as they are let: `make hammer`."""
