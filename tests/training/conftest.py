from pathlib import Path

import pytest

from keisei.training.checkpoints import CheckpointStore
from tests.training.checkpoint_samples import save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def pair(folder: Path) -> CheckpointStore:
    """A store of updates 1 and 2."""
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    save(store, 2)
    return store
