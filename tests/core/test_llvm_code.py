"""Which processors the LLVM code is for; what it computes is in `test_convolution_code`."""

import pytest

from keisei.core import llvm_code
from keisei.core.llvm_code import has_pair_products


@pytest.fixture
def processor(monkeypatch):
    """What this one can do by all appearances: all that is needed, if a test takes nothing away."""
    features = {"avx512f": True, "avx512bf16": True}
    monkeypatch.setattr(llvm_code.llvm, "get_host_cpu_features", lambda: features)
    for name, value in (("CPU_NAME", None), ("CPU_FEATURES", None), ("ENABLE_AVX", 1)):
        monkeypatch.setattr(llvm_code.config, name, value)
    monkeypatch.setattr(llvm_code.config, "DISABLE_JIT", 0)
    return features


def test_a_processor_that_has_all_has_them(processor):
    assert has_pair_products()


@pytest.mark.parametrize("feature", ["avx512f", "avx512bf16"])
@pytest.mark.parametrize("lacks", ["says no", "says nothing"])
def test_one_without_the_instructions_has_not(processor, feature, lacks):
    if lacks == "says no":
        processor[feature] = False
    else:
        del processor[feature]
    assert not has_pair_products()


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(
    ("setting", "value"),
    [("ENABLE_AVX", 0), ("DISABLE_JIT", 1), ("CPU_NAME", "generic"), ("CPU_FEATURES", "+avx2")],
)
def test_code_that_numba_makes_for_less_has_not(setting, value, monkeypatch):
    monkeypatch.setattr(llvm_code.config, setting, value)
    assert not has_pair_products()
