"""`lib.learned` against GPT-2, OPT and RoBERTa, and the faults of others."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, RobertaConfig
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

from lib.learned import (
    LearnedPositionalEmbedding,
    packed_positions,
    positions_from_mask,
)

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0] * 5])


def count(row, start, pad_value):
    found, seen = [], 0
    for real in row:
        found.append(start + seen if real else pad_value)
        seen += real
    return found


# K5: padding on the left does not move the words behind it.
def test_left_padding_does_not_shift():
    assert positions_from_mask(MASK).tolist()[0] == [0, 0, 0, 1, 2]


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=6, max_size=6), min_size=1),
    st.integers(-5, 2**40),
    st.integers(-3, 3),
)
def test_positions_count_real_tokens(mask, start, pad_value):
    expected = [count(row, start, pad_value) for row in mask]
    for dtype in (torch.bool, torch.uint8, torch.int64):
        found = positions_from_mask(torch.tensor(mask).to(dtype), start, pad_value)
        assert found.dtype == torch.int64
        assert found.tolist() == expected


def test_a_long_mask_of_small_integers_does_not_wrap(device):
    mask = torch.ones(1, 1000, dtype=torch.uint8, device=device)
    found = positions_from_mask(mask)
    assert found.device.type == device.type
    assert torch.equal(found, torch.arange(1000, device=device)[None])


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(-2, 100))
def test_packed_positions_begin_anew(lengths, start):
    expected = [start + i for length in lengths for i in range(length)]
    found = packed_positions(lengths, start)
    assert found.dtype == torch.int64
    assert found.tolist() == expected
    from_tensor = packed_positions(torch.tensor(lengths, dtype=torch.int32), start)
    assert torch.equal(from_tensor, found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4,), (2, 4), (3, 2, 4)])
def test_lookup_is_a_row_slice(device, dtype, shape):
    table = LearnedPositionalEmbedding(9, 6, offset=2, device=device, dtype=dtype)
    positions = torch.randint(0, 9, shape, device=device)
    found = table(positions)
    assert found.dtype == dtype
    assert found.shape == (*shape, 6)
    assert torch.equal(found, table.weight[positions + 2])


def tiny_gpt2(**options):
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 11}
    return GPT2LMHeadModel(GPT2Config(n_positions=8, **sizes, **options)).eval()


def test_gpt2_uses_the_table_as_its_own():
    model = tiny_gpt2()
    ids = torch.randint(0, 11, (2, 8))
    with torch.no_grad():
        expected = model(ids).logits
        table = LearnedPositionalEmbedding(8, 16)
        table.load_state_dict(model.transformer.wpe.state_dict(), strict=True)
        model.transformer.wpe = table
        assert torch.equal(model(ids).logits, expected)


def test_gpt2_with_left_padding_equals_without():
    model = tiny_gpt2()
    ids = torch.randint(0, 11, (1, 5))
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], dim=1)
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    with torch.no_grad():
        alone = model(ids).logits
        places = positions_from_mask(mask)
        right = model(padded, attention_mask=mask, position_ids=places).logits
        wrong = model(padded, attention_mask=mask).logits
    assert torch.allclose(right[:, 3:], alone, atol=1e-5)
    assert (wrong[:, 3:] - alone).abs().max() > 1e-2


# S1: OPT keeps two rows in front, and pads look up row 1.
def test_rows_equal_opts(device):
    peer = OPTLearnedPositionalEmbedding(10, 6).to(device)
    ours = LearnedPositionalEmbedding(10, 6, offset=2, device=device)
    assert ours.weight.shape == peer.weight.shape == (12, 6)
    ours.load_state_dict(peer.state_dict(), strict=True)
    mask = MASK.to(device)
    places = positions_from_mask(mask, pad_value=-1)
    assert torch.equal(ours(places), peer(mask))
    assert torch.equal(ours(places)[0], ours.weight[[1, 1, 2, 3, 4]])
    assert torch.equal(ours(places[:, 3:]), peer(mask, cache_length=3))


@pytest.mark.parametrize("padding_idx", [0, 1, 3])
def test_rows_equal_robertas(padding_idx):
    config = RobertaConfig(
        vocab_size=9, hidden_size=4, pad_token_id=padding_idx, num_attention_heads=1
    )
    peer = RobertaEmbeddings(config)
    offset = padding_idx + 1
    ids = torch.tensor([[5, 6, 7, 8, 5], [5, 6, padding_idx, padding_idx, padding_idx]])
    rows = peer.create_position_ids_from_input_ids(ids, padding_idx)
    places = positions_from_mask(ids != padding_idx, pad_value=-1)
    assert torch.equal(places + offset, rows)
    ours = LearnedPositionalEmbedding(512 - offset, 4, offset=offset)
    ours.load_state_dict(peer.position_embeddings.state_dict(), strict=True)
    assert torch.equal(ours(places), peer.position_embeddings(rows))


# S3: no row is special: none starts at zero, and each gets its gradient.
@pytest.mark.parametrize("offset", [0, 2])
def test_every_used_row_learns(device, offset):
    table = LearnedPositionalEmbedding(5, 3, offset=offset, device=device)
    assert (table.weight != 0).all()
    table(torch.arange(-offset, 5, device=device)).sum().backward()
    assert (table.weight.grad == 1).all()
    assert not hasattr(table, "padding_idx")


# K7: what counts is where a token stands, not how many were handed in.
@pytest.mark.parametrize(
    ("table", "first", "count", "message"),
    [
        ((8,), 6, 3, "position 8 needs 9 rows, the table has 8"),
        ((100,), 0, 101, "position 100 needs 101 rows, the table has 100"),
        ((64,), 64, 1, "position 64 needs 65 rows, the table has 64"),
        ((10, 2), 8, 3, "position 10 needs 13 rows .*offset 2.* has 12"),
        ((10,), 2**40, 1, f"position {2**40} needs {2**40 + 1} rows"),
    ],
)
def test_positions_past_the_end(device, table, first, count, message):
    size, offset = (*table, 0)[:2]
    module = LearnedPositionalEmbedding(size, 3, offset=offset, device=device)
    places = torch.arange(first, first + count, device=device)
    with pytest.raises(IndexError, match=message):
        module(places)
    inside = torch.arange(size, device=device)
    assert module(inside).shape == (size, 3)


@pytest.mark.parametrize(("offset", "lowest"), [(0, 0), (2, -2)])
def test_positions_before_the_start(device, offset, lowest):
    module = LearnedPositionalEmbedding(5, 3, offset=offset, device=device)
    module(torch.tensor([lowest], device=device))
    with pytest.raises(IndexError, match=f"position {lowest - 1} .*from {lowest}"):
        module(torch.tensor([3, lowest - 1], device=device))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_small_integers_do_not_wrap(dtype):
    module = LearnedPositionalEmbedding(127, 3, offset=200)
    places = torch.tensor([100, 126]).to(dtype)
    assert torch.equal(module(places), module.weight[[300, 326]])


def test_no_positions():
    module = LearnedPositionalEmbedding(5, 3)
    assert module(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0, 3)
    assert positions_from_mask(torch.ones(2, 0, dtype=torch.bool)).shape == (2, 0)
    assert packed_positions([]).shape == (0,)


def test_start_is_gpt2s():
    torch.manual_seed(0)
    weight = LearnedPositionalEmbedding(1024, 768).weight
    assert weight.shape == (1024, 768)
    assert abs(weight.mean().item()) < 5 * 0.02 / math.sqrt(weight.numel())
    assert weight.std().item() == pytest.approx(0.02, rel=0.01)


def test_meta_device_and_copies():
    module = LearnedPositionalEmbedding(5, 3, offset=1, device="meta")
    assert module(torch.arange(5, device="meta")).shape == (5, 3)
    torch.manual_seed(0)
    module.to_empty(device="cpu").reset_parameters()
    torch.manual_seed(0)
    assert torch.equal(module.weight, LearnedPositionalEmbedding(5, 3, 1).weight)
    assert list(module.state_dict()) == ["weight"]
    twin = copy.deepcopy(module)
    assert torch.equal(twin(torch.arange(5)), module(torch.arange(5)))


def test_compiles_to_one_graph():
    module = LearnedPositionalEmbedding(9, 3)
    compiled = torch.compile(
        lambda mask: module(positions_from_mask(mask)), fullgraph=True, backend="eager"
    )
    for length in (5, 7):
        mask = torch.ones(2, length, dtype=torch.long)
        assert torch.equal(
            compiled(mask), module(torch.arange(length)).expand(2, -1, -1)
        )


@pytest.mark.parametrize(
    "positions",
    [torch.tensor([1.0]), torch.tensor([True]), torch.tensor([1j]), [1, 2], 3],
)
def test_positions_of_another_type(positions):
    with pytest.raises(TypeError, match="positions must be an integer tensor"):
        LearnedPositionalEmbedding(5, 3)(positions)


@pytest.mark.parametrize("mask", [torch.ones(2, 3), torch.ones(3).half(), [1, 1], None])
def test_masks_of_another_type(mask):
    with pytest.raises(TypeError, match="mask must be bool or integers, 1 = real"):
        positions_from_mask(mask)


# A mask that numbers documents 1, 1, 2, 2 would be counted as 1, 2, 4, 6.
@pytest.mark.parametrize("wrong", [2, -1])
def test_masks_of_other_numbers(wrong):
    with pytest.raises(ValueError, match=f"0 and 1, got {wrong}"):
        positions_from_mask(torch.tensor([[1, 0, wrong]]))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([2.0], r"lengths\[0\] must be an int, got float 2\.0"),
        ([3, True], r"lengths\[1\] must be an int, got bool True"),
        (torch.tensor([2.0]), r"lengths must be an integer tensor, got torch\.float32"),
        ("22", r"lengths must be integers .*got '22'"),
        (3, r"lengths must be integers .*got 3"),
        (None, r"lengths must be integers .*got None"),
    ],
)
def test_lengths_of_another_type(lengths, message):
    with pytest.raises(TypeError, match=message):
        packed_positions(lengths)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, -1], "at least 0, got -1"),
        (torch.ones(1, 2).long(), r"\[n\], got \[1, 2\]"),
    ],
)
def test_lengths_that_make_no_sense(lengths, message):
    with pytest.raises(ValueError, match=message):
        packed_positions(lengths)


@pytest.mark.parametrize("start", [1.0, True, None, torch.tensor(True)])
def test_start_of_another_type(start):
    for function, first in ((positions_from_mask, MASK), (packed_positions, [2])):
        with pytest.raises(TypeError, match="start must be an int"):
            function(first, start)


@pytest.mark.parametrize("value", [0.5, False, None])
def test_pad_value_of_another_type(value):
    with pytest.raises(TypeError, match="pad_value must be an int"):
        positions_from_mask(MASK, pad_value=value)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 3), "max_positions must be at least 1, got 0"),
        ((5, -2), "d_model must be at least 1, got -2"),
        ((5, 3, -1), "offset must be at least 0, got -1"),
    ],
)
def test_sizes_that_make_no_table(sizes, message):
    with pytest.raises(ValueError, match=message):
        LearnedPositionalEmbedding(*sizes)
    with pytest.raises(TypeError, match="max_positions must be an int"):
        LearnedPositionalEmbedding(5.0, 3)


def test_a_generic_init_may_draw_the_table_anew():
    module = nn.Sequential(LearnedPositionalEmbedding(5, 3))
    assert sum(p.numel() for p in module.parameters()) == 15
    assert "5, 3, offset=0" in repr(module)
