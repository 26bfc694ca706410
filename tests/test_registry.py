"""Methods by name."""

import pytest

from cdsa.errors import ConfigError
from cdsa.methods.registry import MethodOptions, build_method


def test_a_misspelt_method_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        build_method("linea")


def test_single_settings_are_for_any_method():
    options = MethodOptions(set=["n_neighbors=3"])
    assert build_method("knn", options).n_neighbors == 3
    assert build_method("knn", MethodOptions(set="n_neighbors=3")).n_neighbors == 3
    with pytest.raises(ConfigError, match="knn has no setting 'n_neighbor'; did you mean"):
        build_method("knn", MethodOptions(set=("n_neighbor=3",)))
    with pytest.raises(ConfigError, match=r"train has no setting 'lrr'; did you mean 'lr'\?"):
        build_method("cdsa", MethodOptions(set=("train.lrr=3",)))


def test_options_of_another_type_are_refused():
    with pytest.raises(ConfigError, match="give cdsa.MethodOptions"):
        build_method("knn", {"n_neighbors": 3})


def test_auto_is_not_a_method_to_build():
    with pytest.raises(ConfigError, match="'auto' is for cdsa.fill only"):
        build_method("auto")
