"""Methods by name."""

import pytest

from cdsa.errors import ConfigError
from cdsa.methods.registry import build_method


def test_a_misspelt_method_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        build_method("linea")
