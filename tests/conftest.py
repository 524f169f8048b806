"""Settings for the run of the kernels as plain Python (NUMBA_DISABLE_JIT=1)."""

from numba import config as numba_config


def pytest_configure(config):
    if numba_config.DISABLE_JIT:  # NumPy's numbers wrap around as Numba's do, but say so
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")
