"""`lib.sinusoidal` against Marian, a slow loop, and the faults of others."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers.models.m2m_100.modeling_m2m_100 import (
    M2M100SinusoidalPositionalEmbedding,
)
from transformers.models.marian.modeling_marian import (
    MarianSinusoidalPositionalEmbedding,
)

from lib.sinusoidal import SinusoidalPositionalEncoding, sinusoidal_table

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LAYOUTS = ["interleaved", "half"]


def slow(position, width, base=1e4, layout="interleaved"):
    """One row in Python numbers: sines at the even columns, cosines at the odd."""
    row = []
    for column in range(width):
        angle = position / base ** (2 * (column // 2) / width)
        row.append(math.cos(angle) if column % 2 else math.sin(angle))
    return row if layout == "interleaved" else row[0::2] + row[1::2]


@given(
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from([10.0, 1e4, 5e5]),
    st.sampled_from(LAYOUTS),
)
def test_table_equals_the_slow_loop(rows, width, base, layout):
    table = sinusoidal_table(rows, width, base, layout)
    assert table.dtype == torch.float32
    assert table.shape == (rows, width)
    expected = torch.tensor([slow(p, width, base, layout) for p in range(rows)])
    assert torch.allclose(table, expected, atol=1e-6)


# Odd widths too: Marian gives the sines one column more.
@pytest.mark.parametrize("width", [2, 7, 16, 33, 512])
def test_half_layout_equals_marian(width):
    peer = MarianSinusoidalPositionalEmbedding(50, width).create_weight()
    assert torch.allclose(sinusoidal_table(50, width, layout="half"), peer, atol=1e-6)


@pytest.mark.parametrize("width", [2, 7, 16, 33])
def test_layouts_are_one_table_permuted(width):
    table = sinusoidal_table(30, width)
    sines, cosines = table[:, 0::2], table[:, 1::2]
    assert sines.shape[1] == (width + 1) // 2
    half = sinusoidal_table(30, width, layout="half")
    assert torch.equal(half, torch.cat([sines, cosines], dim=1))


# S7: the paper divides by d/2 pairs; tensor2tensor, fairseq and M2M by d/2 − 1.
def test_last_frequency_is_the_papers():
    table = sinusoidal_table(2, 16)
    assert math.asin(table[1, 14]) == pytest.approx(3.1622777e-4, rel=1e-6)
    other = M2M100SinusoidalPositionalEmbedding(2, 16, None).weights
    assert math.asin(other[1, 7]) == pytest.approx(1e-4, rel=1e-6)
    half = sinusoidal_table(50, 16, layout="half")
    other = M2M100SinusoidalPositionalEmbedding(50, 16, None).weights[:50]
    assert (half - other).abs().max() > 0.1


def test_a_shift_is_a_rotation():
    table = sinusoidal_table(200, 32).double()
    for pair in range(16):
        angle = 7 * 1e4 ** (-2 * pair / 32)
        sin, cos = table[:-7, 2 * pair], table[:-7, 2 * pair + 1]
        turned = sin * math.cos(angle) + cos * math.sin(angle)
        assert (turned - table[7:, 2 * pair]).abs().max() < 1e-6


def test_products_depend_on_distance_alone():
    table = sinusoidal_table(100, 64).double()
    products = table @ table.T
    for distance in (0, 1, 30):
        line = products.diagonal(distance)
        assert (line - line[0]).abs().max() < 1e-5


# The angles are exact far out, where fp32 ones would be off by 0.06.
@pytest.mark.parametrize("position", [10**6, -(10**6), 2**24 + 1, 2**31])
def test_far_positions_are_exact(device, position):
    module = SinusoidalPositionalEncoding(8, 4).to(device)
    places = torch.tensor([position], device=device)
    found = module(torch.zeros(1, 1, 8, device=device), places)[0, 0]
    assert torch.allclose(found.cpu(), torch.tensor(slow(position, 8)), atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_adds_rows_in_the_dtype_of_the_input(device, dtype, layout):
    module = SinusoidalPositionalEncoding(6, 10, layout=layout).to(device)
    x = torch.randn(2, 4, 6, device=device).to(dtype)
    rows = sinusoidal_table(4, 6, layout=layout).to(device)
    found = module(x)
    assert found.dtype == dtype
    assert found.device == x.device
    wide = torch.promote_types(dtype, torch.float32)
    assert torch.equal(found, (x.to(wide) + rows).to(dtype))  # rounded after the sum
    assert torch.equal(module(x[0]), found[0])


def test_input_is_not_changed():
    x = torch.randn(1, 3, 6)
    before = x.clone()
    SinusoidalPositionalEncoding(6, 10)(x)
    assert torch.equal(x, before)


@given(st.data())
def test_any_positions(data):
    numbers = st.integers(-5, 30)  # before the table, in it and past its end
    shape = data.draw(st.sampled_from([(3,), (1, 3), (2, 3)]))
    flat = data.draw(st.lists(numbers, min_size=6, max_size=6))
    places = torch.tensor(flat)[: math.prod(shape)].reshape(shape)
    x = torch.randn(2, 3, 5)
    found = SinusoidalPositionalEncoding(5, 12)(x, places)
    rows = torch.tensor([[slow(p, 5) for p in row] for row in places.view(-1, 3)])
    assert torch.allclose(found, x + rows, atol=1e-6)


# The table serves what it holds; the rest is computed, to the same bits.
@pytest.mark.parametrize("length", [4, 5, 9])
def test_longer_than_the_table(device, length):
    short = SinusoidalPositionalEncoding(6, 4).to(device)
    long = SinusoidalPositionalEncoding(6, 64).to(device)
    x = torch.randn(2, length, 6, device=device)
    assert torch.equal(short(x), long(x))
    places = torch.arange(length, device=device) * 7
    assert torch.equal(short(x, places), long(x, places))
    assert short.table.shape == (4, 6)  # and no call leaves a trace
    step = long(x[:, -1:], torch.tensor([length - 1], device=device))
    assert torch.equal(step, long(x)[:, -1:])


# S5: a generic init walks over modules and parameters; a buffer is neither.
def test_no_init_and_no_optimiser_touches_the_table():
    def draw(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight)

    model = nn.Sequential(SinusoidalPositionalEncoding(6, 10), nn.Linear(6, 6))
    before = model[0].table.clone()
    model.apply(draw)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    assert torch.equal(model[0].table, before)
    assert list(model[0].parameters()) == []


def test_nothing_is_saved():
    module = SinusoidalPositionalEncoding(6, 10)
    assert module.state_dict() == {}
    module.load_state_dict({}, strict=True)


@pytest.mark.parametrize(
    "cast",
    [
        lambda m: m.to(torch.bfloat16),
        lambda m: m.half(),
        lambda m: m.double(),
        lambda m: m.bfloat16().float(),
        lambda m: m.to(torch.float16).to("cpu"),
        lambda m: nn.Sequential(m).half()[0],
    ],
)
def test_no_cast_touches_the_table(device, cast):
    fresh = SinusoidalPositionalEncoding(6, 10)
    module = cast(SinusoidalPositionalEncoding(6, 10)).to(device)
    assert module.table.dtype == torch.float32
    assert module.table.device.type == device.type
    assert torch.equal(module.table.cpu(), fresh.table)


def test_meta_device():
    with torch.device("meta"):
        module = SinusoidalPositionalEncoding(6, 10)
    assert module.table.is_meta
    assert module(torch.empty(2, 20, 6, device="meta")).shape == (2, 20, 6)
    module.to_empty(device="cpu")
    module.reset_parameters()
    assert torch.equal(module.table, SinusoidalPositionalEncoding(6, 10).table)
    module.table.zero_()
    module.reset_parameters()
    assert torch.equal(module.table, SinusoidalPositionalEncoding(6, 10).table)


def test_copies():
    module = SinusoidalPositionalEncoding(6, 10, base=100.0)
    twin = copy.deepcopy(module)
    x = torch.randn(1, 12, 6)
    assert torch.equal(twin(x), module(x))


@pytest.mark.parametrize("given_positions", [False, True])
def test_compiles_to_one_graph(given_positions):
    module = SinusoidalPositionalEncoding(6, 10)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    for length in (8, 9, 12):
        x = torch.randn(2, length, 6)
        places = torch.arange(length) + 5 if given_positions else None
        assert torch.allclose(compiled(x, places), module(x, places), atol=1e-6)


def test_gradient_passes_through_unchanged():
    x = torch.randn(2, 3, 6, requires_grad=True)
    factors = torch.randn(2, 3, 6)
    (SinusoidalPositionalEncoding(6, 10)(x) * factors).sum().backward()
    assert torch.equal(x.grad, factors)


def test_no_tokens():
    module = SinusoidalPositionalEncoding(6, 10)
    empty = torch.empty(2, 0, 6)
    assert (
        module(empty).shape == module(empty, torch.empty(0).long()).shape == (2, 0, 6)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 4), "num_positions must be at least 1, got 0"),
        ((5, 0), "d_model must be at least 1, got 0"),
        ((5, -3), "d_model must be at least 1, got -3"),
        ((5, 4, 0.0), "base must be finite and above 0, got 0.0"),
        ((5, 4, 1e4, "interleave"), "'interleave'.*interleaved.*half"),
    ],
)
def test_bad_tables(arguments, message):
    with pytest.raises(ValueError, match=message):
        sinusoidal_table(*arguments)


def test_bad_modules():
    with pytest.raises(ValueError, match="d_model must be at least 1, got -1"):
        SinusoidalPositionalEncoding(-1, 5)
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        SinusoidalPositionalEncoding(5, 0)
    with pytest.raises(TypeError, match="d_model must be an int"):
        SinusoidalPositionalEncoding(5.0, 5)
    with pytest.raises(ValueError, match="'halves'"):
        SinusoidalPositionalEncoding(5, 5, layout="halves")


@pytest.mark.parametrize(
    ("x", "places", "message"),
    [
        ((2, 3, 5), None, r"\[\.\.\., T, 6\], got \[2, 3, 5\]"),
        ((6,), None, r"got \[6\]"),
        ((2, 3, 6), (4,), r"\[3\].*got \[4\]"),
        ((2, 3, 6), (1,), r"\[3\].*got \[1\]"),
        ((2, 3, 6), (3, 3), r"got \[3, 3\]"),
        ((2, 3, 6), (2, 2, 3), r"got \[2, 2, 3\]"),
        ((3, 6), (2, 3), r"got \[2, 3\]"),
    ],
)
def test_shapes_that_do_not_fit(x, places, message):
    places = None if places is None else torch.zeros(places, dtype=torch.long)
    with pytest.raises(ValueError, match=message):
        SinusoidalPositionalEncoding(6, 10)(torch.zeros(x), places)


@pytest.mark.parametrize("places", [torch.ones(3), torch.ones(3).bool(), [0, 1, 2]])
def test_positions_of_another_type(places):
    with pytest.raises(TypeError, match="positions must be an integer tensor"):
        SinusoidalPositionalEncoding(6, 10)(torch.zeros(2, 3, 6), places)


def test_ids_instead_of_vectors():
    with pytest.raises(TypeError, match="floating"):
        SinusoidalPositionalEncoding(6, 10)(torch.zeros(2, 3, 6).long())
