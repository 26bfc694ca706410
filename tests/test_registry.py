"""Methods by name."""

import pytest

from cdsa.errors import ConfigError
from cdsa.methods.registry import MethodOptions, build_method
from cdsa.workflows.pipeline import CompareRequest


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


@pytest.mark.parametrize("change", ["n_neighbors=0", "max_donors=-1"])
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ConfigError, match="must be at least 1, but found"):
        build_method("knn", MethodOptions(set=[change]))


def test_settings_of_several_numbers_are_parsed():
    assert build_method("mf", MethodOptions(set=["ranks=2,4"])).ranks == (2, 4)


def test_single_settings_are_for_the_networks_of_a_comparison_or_for_all_methods():
    options = MethodOptions(set=["n_neighbors=3"])
    (knn,) = CompareRequest(methods=("knn",), options=options).built
    assert knn.n_neighbors == 3
    options = MethodOptions(set=["window=12"])
    linear, network = CompareRequest(methods=("linear", "cdsa"), options=options).built
    assert linear == build_method("linear") and network.window == 12
