"""`lib.token_embedding` against `nn.Embedding`, row slices and the faults of others."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import GemmaConfig
from transformers.models.gemma.modeling_gemma import GemmaModel

from lib.checks import INTEGER_DTYPES, check_ids
from lib.token_embedding import TokenEmbedding, table_bytes

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", FLOATS)
def test_lookup_is_a_row_slice(device, dtype):
    table = TokenEmbedding(11, 6, device=device, dtype=dtype)
    ids = torch.tensor([[3, 0, 10], [3, 3, 9]], device=device)
    found = table(ids)
    assert found.dtype == dtype
    assert found.device.type == device.type
    for row in range(2):
        for column in range(3):
            assert torch.equal(found[row, column], table.weight[ids[row, column]])


@given(
    st.lists(st.integers(0, 4), max_size=3).map(tuple), st.sampled_from(INTEGER_DTYPES)
)
def test_any_shape_and_integer_dtype(shape, dtype):
    table = TokenEmbedding(5, 2)
    ids = torch.randint(0, 5, shape).to(dtype)
    assert torch.equal(table(ids), nn.functional.embedding(ids.long(), table.weight))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_gradient_matches_nn_embedding(device, sparse, padding_idx):
    ours = TokenEmbedding(7, 3, padding_idx=padding_idx, sparse=sparse, device=device)
    peer = nn.Embedding(7, 3, padding_idx=padding_idx, sparse=sparse, device=device)
    peer.load_state_dict(ours.state_dict())
    ids = torch.tensor([2, 2, 5, 6], device=device)
    factors = torch.randn(4, 3, device=device)
    for module in (ours, peer):
        (module(ids) * factors).sum().backward()
    assert ours.weight.grad.is_sparse == sparse
    assert torch.equal(ours.weight.grad.to_dense(), peer.weight.grad.to_dense())
    assert ours.weight.grad.to_dense()[[0, 1, 3, 4]].count_nonzero() == 0


# E1: an id outside the table must be named here, not by an assert on the device.
@pytest.mark.parametrize("bad", [5, -1, 2**40, -(2**40)])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_id_outside_the_table_is_named(device, bad, place):
    ids = torch.tensor([0, 4, 2], device=device)
    ids[place] = bad
    with pytest.raises(IndexError, match=rf"id {bad} .* 5 rows, ids 0 to 4"):
        TokenEmbedding(5, 3, device=device)(ids)


@given(st.integers(1, 50), st.integers(-100, 100))
def test_range_is_exactly_the_table(size, id_):
    ids = torch.tensor([id_])
    if 0 <= id_ < size:
        assert torch.equal(check_ids(ids, size), ids)
    else:
        with pytest.raises(IndexError, match=f"{id_} .*{size} rows"):
            check_ids(ids, size)


@pytest.mark.parametrize(
    "ids",
    [torch.tensor([1.0]), torch.tensor([True]), torch.tensor([1j]), [1, 2], 1, "1"],
)
def test_ids_of_another_type(ids):
    with pytest.raises(TypeError, match="integer"):
        TokenEmbedding(5, 3)(ids)


def test_empty_batch():
    assert TokenEmbedding(5, 3)(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0, 3)


# E3: the padding row is zero whenever the module itself draws the table.
@pytest.mark.parametrize("padding_idx", [0, 3, -1, -5])
def test_padding_row_is_zero_after_every_reset(device, padding_idx):
    table = TokenEmbedding(5, 3, padding_idx=padding_idx, device=device)
    with torch.no_grad():
        table.weight.normal_()
    table.reset_parameters()
    assert table.weight[padding_idx].count_nonzero() == 0
    others = [row for row in range(5) if row != padding_idx % 5]
    assert table.weight[others].count_nonzero() == 12
    table(torch.arange(5, device=device)).sum().backward()
    assert table.weight.grad[padding_idx].count_nonzero() == 0
    assert (table.weight.grad[others] == 1).all()


def test_padding_row_is_zero_after_the_meta_device():
    table = TokenEmbedding(5, 3, padding_idx=1, device="meta")
    table.to_empty(device="cpu").reset_parameters()
    assert table.weight[1].count_nonzero() == 0
    assert table.weight.count_nonzero() == 12


def test_padding_row_gets_a_gradient_through_a_tied_head():
    table = TokenEmbedding(5, 3, padding_idx=0)
    logits = table(torch.tensor([1, 2])) @ table.weight.T  # [2, 5]
    logits.exp().sum().backward()
    assert table.weight.grad[0].count_nonzero() > 0


# E5: None means that no row is special, not that every row is.
def test_without_padding_idx_no_row_is_zero():
    table = TokenEmbedding(5, 3)
    assert (table.weight != 0).all()
    table(torch.arange(5)).sum().backward()
    assert (table.weight.grad == 1).all()


@pytest.mark.parametrize("padding_idx", [5, -6])
def test_padding_idx_outside_the_table(padding_idx):
    with pytest.raises(IndexError, match=f"padding_idx {padding_idx} .*5 rows"):
        TokenEmbedding(5, 3, padding_idx=padding_idx)


@pytest.mark.parametrize(("rows", "dim"), [(0, 3), (-1, 3), (5, 0), (5, -2)])
def test_sizes_below_one(rows, dim):
    with pytest.raises(ValueError, match=f"at least 1, got {min(rows, dim)}"):
        TokenEmbedding(rows, dim)
    with pytest.raises(ValueError, match=f"at least 1, got {min(rows, dim)}"):
        table_bytes(rows, dim, torch.float32)


@pytest.mark.parametrize("dim", [3.0, "3", True])
def test_sizes_of_another_type(dim):
    with pytest.raises(TypeError, match="dim must be an int"):
        TokenEmbedding(5, dim)


def test_negative_std():
    with pytest.raises(ValueError, match=r"-0\.1"):
        TokenEmbedding(5, 3, std=-0.1)


def test_start_has_the_std_asked_for():
    torch.manual_seed(0)
    weight = TokenEmbedding(2000, 100, std=0.05).weight
    assert abs(weight.mean().item()) < 5 * 0.05 / math.sqrt(weight.numel())
    assert weight.std().item() == pytest.approx(0.05, rel=0.01)


# Gemma's √dim, as bfloat16 rounds it (T13), scales the lookup, not the table (T12).
@pytest.mark.parametrize(
    ("dim", "rounded"), [(1152, 34.0), (2048, 45.25), (3072, 55.5), (3584, 59.75)]
)
def test_scale_is_rounded_to_the_dtype(device, dim, rounded):
    table = TokenEmbedding(4, dim, scale=dim**0.5, device=device, dtype=torch.bfloat16)
    before = table.weight.clone()
    found = table(torch.tensor([1, 3], device=device))
    assert torch.equal(found, table.weight[[1, 3]] * rounded)
    assert torch.equal(table.weight, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scale_equals_gemma(dtype):
    config = GemmaConfig(
        vocab_size=9,
        hidden_size=24,
        num_hidden_layers=0,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=24,
        intermediate_size=8,
    )
    peer = GemmaModel(config).to(dtype)
    ours = TokenEmbedding(9, 24, scale=24**0.5, dtype=dtype)
    ours.load_state_dict(peer.embed_tokens.state_dict())
    ids = torch.tensor([[1, 8, 4]])
    hidden = []
    peer.norm.register_forward_pre_hook(lambda _, args: hidden.append(args[0]))
    peer(input_ids=ids)
    assert torch.equal(ours(ids), hidden[0])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8])
@pytest.mark.parametrize(("vocab", "dim"), [(7, 3), (1, 1), (128, 64)])
def test_table_bytes_equal_a_real_table(vocab, dim, dtype):
    real = torch.empty(vocab, dim, dtype=dtype)
    assert table_bytes(vocab, dim, dtype) == real.numel() * real.element_size()


def test_table_bytes_of_llama_3():
    assert table_bytes(128_256, 4_096, torch.bfloat16) == 128_256 * 4_096 * 2
    assert table_bytes(128_256, 4_096, torch.float32) == 128_256 * 4_096 * 4


def test_compiles_to_one_graph():
    table = TokenEmbedding(5, 3, scale=2.0)
    compiled = torch.compile(table, fullgraph=True, backend="eager")
    for length in (2, 3):
        ids = torch.randint(0, 5, (1, length))
        assert torch.equal(compiled(ids), table(ids))


def test_copies_and_state():
    table = TokenEmbedding(5, 3, padding_idx=0, scale=2.0)
    assert list(table.state_dict()) == ["weight"]
    twin = copy.deepcopy(table)
    ids = torch.arange(5)
    assert torch.equal(twin(ids), table(ids))
    assert twin.weight is not table.weight


def test_repr_shows_sizes_and_options():
    shown = repr(TokenEmbedding(5, 3, padding_idx=-1, scale=2.0))
    assert shown == "TokenEmbedding(5, 3, padding_idx=4, scale=2.0)"


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.5])
def test_p10_a_start_that_is_no_width_is_refused(value):
    with pytest.raises(
        ValueError, match=f"std must be finite and at least 0, got {value}"
    ):
        TokenEmbedding(5, 3, std=value)


@pytest.mark.parametrize(
    ("value", "error"), [(math.nan, ValueError), (True, TypeError)]
)
def test_p10_a_factor_that_is_no_number_is_refused(value, error):
    with pytest.raises(error, match="scale must be"):
        TokenEmbedding(5, 3, scale=value)
