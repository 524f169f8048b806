"""Settings for the run of the kernels as plain Python (NUMBA_DISABLE_JIT=1), and config files."""

import os

import pytest
from numba import config as numba_config

from keisei.config_loading import ConfigError, load_config


def pytest_configure(config):
    if numba_config.DISABLE_JIT:  # NumPy's numbers wrap around as Numba's do, but say so
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


@pytest.fixture
def no_tiles(monkeypatch):
    """`FusedNetwork` computes in this process wherever it can, also where torch is faster."""
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: False)


@pytest.fixture
def config_file(tmp_path):
    def write(text):
        path = tmp_path / "run.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def refusal(config_file):
    """The message for a file and overrides that must be refused, without the file's folder."""

    def message(text, *overrides):
        path = config_file(text)
        with pytest.raises(ConfigError) as refused:
            load_config(path, overrides)
        assert "\n" not in str(refused.value)
        return str(refused.value).replace(f"{path.parent}{os.sep}", "")

    return message
