"""Methods by name."""

import pytest

from cdsa.errors import ConfigError


def test_a_misspelt_method_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        make_method("linea")
