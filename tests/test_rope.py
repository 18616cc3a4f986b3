"""`lib.rope`: rotation, its two layouts, its precision, and the faults others had."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

from lib import device as devices
from lib.device import exact_device
from lib.rope import (
    RotaryEmbedding,
    apply_rope,
    half_to_interleaved,
    interleaved_to_half,
    permute_qk_weight,
    rope_cos_sin,
    rope_inv_freq,
)
from lib.rope import rotation as rope_rotation
from lib.rope_scaling import dynamic_ntk_inv_freq, scaled_inv_freq

LAYOUTS = ["half", "interleaved"]
MILLION = 1_000_000


def tables(positions, width, base=1e4):
    return rope_cos_sin(torch.as_tensor(positions), rope_inv_freq(width, base))


def true_angle(position: int, pair: int, width: int, base: float) -> float:
    return position * math.exp(-2 * pair / width * math.log(base))


def loop_rope(x, positions, width, base, layout):
    """Rotate one pair after another in Python's floats; x is [T, D]."""
    out = [row.tolist() for row in x.double()]
    for row, position in zip(out, positions, strict=True):
        for pair in range(width // 2):
            i, j = (pair, pair + width // 2) if layout == "half" else (2 * pair,) * 2
            j += layout == "interleaved"
            angle = true_angle(position, pair, width, base)
            a, b = row[i], row[j]
            row[i] = a * math.cos(angle) - b * math.sin(angle)
            row[j] = b * math.cos(angle) + a * math.sin(angle)
    return torch.tensor(out, dtype=torch.float64)


@pytest.fixture(params=["at once", "in pieces"])
def path(request, monkeypatch):
    """Both fast ways through `apply_rope`: for short inputs, and for long ones."""
    monkeypatch.setattr(
        rope_rotation, "PIECE", 64 if request.param == "in pieces" else 2**62
    )
    return request.param


# The rotation itself.


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("half", [-1.98411065, 1.95990067, 2.46237790, 4.01979967]),
        ("interleaved", [-1.14263966, 1.92207560, 2.95985067, 4.02979950]),
    ],
)
def test_a1_four_numbers_in_both_layouts(layout, expected):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 1, 4)
    found = apply_rope(x, *tables([1], 4), layout=layout)
    torch.testing.assert_close(found.flatten(), torch.tensor(expected))


@settings(max_examples=40)
@given(data=st.data(), layout=st.sampled_from(LAYOUTS))
def test_equals_a_loop_over_pairs(data, layout):
    width = 2 * data.draw(st.integers(1, 8))
    tail = data.draw(st.integers(0, 5))
    base = data.draw(st.sampled_from([10.0, 1e4, 1e6]))
    positions = data.draw(st.lists(st.integers(-MILLION, MILLION), max_size=6))
    x = torch.randn(len(positions), width + tail, dtype=torch.float64)
    cos, sin = tables(torch.tensor(positions, dtype=torch.int64), width, base)
    found = apply_rope(x[None, None], cos, sin, layout)
    expected = loop_rope(x, positions, width, base, layout).view_as(found)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_norm_stays_and_scores_depend_on_distance(path, layout):
    q, k = torch.randn(2, 1, 1, 1, 64, dtype=torch.float64)
    scores = {}
    for distance, start in itertools.product([0, 2, 50], [0, 7, 1000, 900_000]):
        rotated_q = apply_rope(q, *tables([start + distance], 64), layout)
        rotated_k = apply_rope(k, *tables([start], 64), layout)
        torch.testing.assert_close(rotated_q.norm(), q.norm(), rtol=1e-6, atol=0)
        scores.setdefault(distance, []).append(float((rotated_q * rotated_k).sum()))
    for found in scores.values():
        assert max(found) - min(found) < 1e-5
    assert abs(scores[0][0] - scores[50][0]) > 1e-3


def test_a5_mixed_layouts_lose_both_properties():
    """The control: angles of one layout with the pairs of the other are no rotation."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 8, dtype=torch.float64)

    def mixed(x, position):
        cos, sin = tables([position], 8)
        cos, sin = (t.repeat_interleave(2, -1) for t in (cos, sin))  # interleaved
        halves = torch.cat((-x[4:], x[:4]))  # half
        return (x * cos + halves * sin).flatten()

    near, far = mixed(q, 3) @ mixed(k, 1), mixed(q, 10) @ mixed(k, 8)
    assert abs(near - far) > 1e-2
    assert abs(mixed(q, 3).norm() - q.norm()) > 1e-2


ROUNDING = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2**-6}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("width", [2, 6, 32])
def test_all_ways_differ_by_rounding_alone(monkeypatch, device, layout, dtype, width):
    if device.type == "mps" and dtype == torch.float64:
        pytest.skip("MPS has no float64")
    torch.manual_seed(0)
    x = torch.randn(2, 3, 37, 32, device=device).to(dtype).requires_grad_()
    upstream = torch.randn_like(x)
    cos, sin = rope_cos_sin(torch.arange(37, device=device), rope_inv_freq(width))
    results = []
    for piece, by_definition in ((2**62, True), (2**62, False), (64, False)):
        monkeypatch.setattr(rope_rotation, "PIECE", piece)
        monkeypatch.setattr(rope_rotation, "is_watched", lambda *_, d=by_definition: d)
        out = apply_rope(x, cos, sin, layout)
        assert ("Rotation" in type(out.grad_fn).__name__) == (not by_definition)
        results.append((out, *torch.autograd.grad(out, x, upstream)))
    for expected, *found in zip(*results, strict=True):
        for other in found:
            torch.testing.assert_close(other, expected, rtol=0, atol=ROUNDING[dtype])


# Against transformers.


def llama_rotates(q, k, positions, **config):
    rotary = modeling_llama.LlamaRotaryEmbedding(
        LlamaConfig(
            head_dim=q.shape[-1],
            hidden_size=q.shape[-1],
            num_attention_heads=1,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4, **config},
        )
    )
    return modeling_llama.apply_rotary_pos_emb(q, k, *rotary(q, positions))


def gptj_rotates(x, positions, width):
    sincos = modeling_gptj.create_sinusoidal_positions(2048, width)[positions]
    sin, cos = sincos.chunk(2, dim=-1)
    by_token = x.transpose(1, 2)  # GPT-J keeps [B, T, H, D]
    turned = modeling_gptj.apply_rotary_pos_emb(by_token[..., :width], sin, cos)
    return torch.cat((turned, by_token[..., width:]), -1).transpose(1, 2)


def test_half_equals_llama(path):
    q, k = torch.rand(2, 8, 50, 64), torch.rand(2, 2, 50, 64)
    positions = torch.stack((torch.arange(50), torch.arange(20, 70)))
    ours = RotaryEmbedding(64)(q, k, positions)
    for one, other in zip(ours, llama_rotates(q, k, positions), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("width", [64, 16])
def test_interleaved_equals_gptj(path, width):
    q, k = torch.rand(2, 8, 50, 64), torch.rand(2, 8, 50, 64)
    positions = torch.stack((torch.arange(50), torch.arange(20, 70)))
    rotary = RotaryEmbedding(64, partial_rotary_factor=width / 64, layout="interleaved")
    for one, x in zip(rotary(q, k, positions), (q, k), strict=True):
        expected = gptj_rotates(x, positions, width)
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(path, layout, dtype):
    """Half a unit in the last place, and what fp32's own error adds to it."""
    x = torch.randn(1, 4, 60, 64).to(dtype)
    positions = torch.arange(1000, 1060)
    cos, sin = tables(positions, 64)
    found = apply_rope(x, cos, sin, layout)
    assert found.dtype == dtype
    exact = torch.stack(
        [loop_rope(x[0, h], positions.tolist(), 64, 1e4, layout) for h in range(4)]
    )
    _, exponent = torch.frexp(exact)
    unit = torch.finfo(dtype).eps * torch.exp2((exponent - 1).double())
    error = (found[0].double() - exact).abs()
    assert (error <= unit / 2 + 2e-6).all()


# Angles.


class NoFloat64On(TorchDispatchMode):
    """Refuse float64 on one device type, as MPS does.

    Under `FakeTensorMode` a tensor claims to lie on "lazy", a type that any build of
    torch can name, and its operations check devices and dtypes without computing.
    """

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            where = tensor.device.type if isinstance(tensor, torch.Tensor) else None
            if where == self.kind and tensor.dtype == torch.float64:
                raise TypeError(f"{func} made a float64 tensor on {self.kind}")
        return out


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("base", [1e4, 5e5])
def test_cos_and_sin_up_to_a_million(monkeypatch, device, fallback, base):
    """Within 1e-6 of the true value; also as on a device without float64."""
    if fallback:
        monkeypatch.setattr(devices, "WITHOUT_FLOAT64", {"mps", device.type})
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(-MILLION, MILLION, (60,), generator=generator).tolist()
    positions = [0, 1, -1, 8191, 131_071, MILLION - 1, MILLION, -MILLION, *drawn]
    inv_freq = rope_inv_freq(128, base, device=device)
    on_device = torch.tensor(positions, device=device)
    cos, sin = rope_cos_sin(on_device, inv_freq)
    assert cos.dtype == sin.dtype == torch.float32
    assert cos.device == sin.device == on_device.device
    for row, position in enumerate(positions):
        for pair in range(64):
            angle = true_angle(position, pair, 128, base)
            assert abs(float(cos[row, pair]) - math.cos(angle)) < 1e-6
            assert abs(float(sin[row, pair]) - math.sin(angle)) < 1e-6


@pytest.mark.parametrize("kind", [None, "dynamic", "longrope"])
def test_float64_never_reaches_a_device_without_it(monkeypatch, kind):
    """A pretended device: angles are formed on the CPU, tables arrive in fp32."""
    monkeypatch.setattr(devices, "WITHOUT_FLOAT64", {"lazy"})
    with FakeTensorMode(), NoFloat64On("lazy"):
        rotary = embedding(kind or "default").to("lazy")
        assert rotary.inv_freq.device.type == "cpu"
        q = torch.randn(2, 2, 80, 16, device="lazy")
        positions = torch.arange(80, device="lazy").expand(2, -1)
        cos, sin = rotary.cos_sin(positions)
        assert (cos.device.type, cos.dtype) == ("lazy", torch.float32)
        assert (sin.device.type, sin.dtype) == ("lazy", torch.float32)
        rotated_q, rotated_k = rotary(q, q, positions)
        assert rotated_q.device.type == rotated_k.device.type == "lazy"


def test_mps_is_known_to_lack_float64():
    assert exact_device("mps") == torch.device("cpu")
    assert exact_device("cuda:1") == torch.device("cuda:1")


def test_the_pretended_device_would_notice():
    with FakeTensorMode(), NoFloat64On("lazy"), pytest.raises(TypeError, match="lazy"):
        RotaryEmbedding(16).to("lazy")


def test_r1_neighbours_differ_under_autocast():
    rotary = RotaryEmbedding(64)
    x = torch.ones(1, 1, 2, 64, dtype=torch.bfloat16)
    positions = torch.tensor([256, 257])
    with torch.autocast("cpu", torch.bfloat16):
        cos, sin = rotary.cos_sin(positions)
        q, _ = rotary(x, x, positions)
    assert cos.dtype == torch.float32
    assert (cos[0] != cos[1]).any()
    assert q.dtype == torch.bfloat16
    assert (q[0, 0, 0] != q[0, 0, 1]).any()
    for row, pair in itertools.product(range(2), range(32)):
        angle = true_angle(256 + row, pair, 64, 1e4)
        assert abs(float(cos[row, pair].bfloat16()) - math.cos(angle)) <= 2**-8
        assert abs(float(sin[row, pair].bfloat16()) - math.sin(angle)) <= 2**-8


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_r3_large_integers_stay_apart(dtype):
    for first in (32_766, 2**24):  # where fp16 and fp32 lose odd numbers
        cos, sin = tables(torch.tensor([first, first + 1], dtype=dtype), 64)
        angle = torch.atan2(sin[:, 0].double(), cos[:, 0].double())
        apart = float(angle[1] - angle[0]) % (2 * math.pi)
        assert apart == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("dtype", "positions"),
    [(torch.bfloat16, (256, 257)), (torch.float16, (32_766, 32_767))],
)
def test_r1_r3_half_precision_would_make_these_two_one(dtype, positions):
    """The two tests above can fail: cast first, and the positions are equal."""
    both = torch.tensor(positions)
    cast_first = (both.to(dtype)[:, None] * rope_inv_freq(64)).cos()
    assert torch.equal(*cast_first)
    assert not torch.equal(*rope_cos_sin(both, rope_inv_freq(64))[0])


def test_angles_in_fp32_are_off_by_what_the_docstring_says():
    positions, inv_freq = torch.arange(131_072 - 8192, 131_072), rope_inv_freq(128)
    true = (positions.double()[:, None] * inv_freq).cos()
    in_fp32 = (positions.float()[:, None] * inv_freq.float()).cos()
    error = (in_fp32 - true).abs().amax(0)  # of each pair
    assert error.max().item() == pytest.approx(0.008, abs=5e-4)
    assert error.argmax() == 1
    assert error[0] < 1e-7  # an integer times 1


def test_attention_factor_scales_both_tables():
    positions, inv_freq = torch.arange(5), rope_inv_freq(8)
    plain = rope_cos_sin(positions, inv_freq)
    scaled = rope_cos_sin(positions, inv_freq, attention_factor=1.25)
    for one, other in zip(plain, scaled, strict=True):
        torch.testing.assert_close(one * 1.25, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        (torch.arange(4.0), "float32"),
        (torch.arange(4).bfloat16(), "bfloat16"),
        (torch.ones(4, dtype=torch.bool), "bool"),
        ([0, 1, 2, 3], "list"),
        (4, "int"),
    ],
)
def test_positions_are_integers(positions, kind):
    with pytest.raises(TypeError, match=kind):
        rope_cos_sin(positions, rope_inv_freq(8))


# The two layouts.


def test_one_permutation_joins_the_layouts():
    x = torch.randn(2, 3, 9, 16)
    cos, sin = tables(range(9), 16)
    assert torch.equal(half_to_interleaved(interleaved_to_half(x)), x)
    assert torch.equal(interleaved_to_half(half_to_interleaved(x)), x)
    assert half_to_interleaved(torch.arange(6)).tolist() == [0, 3, 1, 4, 2, 5]
    turned = apply_rope(half_to_interleaved(x), cos, sin, "interleaved")
    expected = apply_rope(x, cos, sin, "half")
    torch.testing.assert_close(interleaved_to_half(turned), expected)


@pytest.mark.parametrize("rotary_dim", [16, 8])
def test_weights_move_from_interleaved_to_half(rotary_dim):
    """Grouped queries: q has 4 heads, k has 2, and the scores stay."""
    torch.manual_seed(0)
    hidden = torch.randn(2, 9, 32, dtype=torch.float64)
    wq = torch.randn(4 * 16, 32, dtype=torch.float64)
    wk = torch.randn(2 * 16, 32, dtype=torch.float64)
    bias = torch.randn(4 * 16, dtype=torch.float64)
    cos, sin = tables(range(9), rotary_dim)

    def scores(wq, wk, bias, layout):
        q = (hidden @ wq.T + bias).view(2, 9, 4, 16).transpose(1, 2)
        k = (hidden @ wk.T).view(2, 9, 2, 16).transpose(1, 2)
        q, k = (apply_rope(x, cos, sin, layout) for x in (q, k))
        return q @ k.repeat_interleave(2, 1).transpose(-1, -2)

    moved = [permute_qk_weight(w, n, rotary_dim) for w, n in ((wq, 4), (wk, 2))]
    moved_bias = permute_qk_weight(bias, 4, rotary_dim)
    before = scores(wq, wk, bias, "interleaved")
    torch.testing.assert_close(before, scores(*moved, moved_bias, "half"))
    assert (before - scores(wq, wk, bias, "half")).abs().max() > 1
    wrong = permute_qk_weight(wk, 4, rotary_dim // 2)  # q's number of heads
    assert (before - scores(moved[0], wrong, moved_bias, "half")).abs().max() > 1


def test_whole_heads_are_the_default():
    weight = torch.randn(24, 5)
    assert torch.equal(permute_qk_weight(weight, 3), permute_qk_weight(weight, 3, 8))


def test_permutations_refuse_what_has_no_pairs():
    for move in (half_to_interleaved, interleaved_to_half):
        with pytest.raises(ValueError, match="7"):
            move(torch.randn(2, 7))
    with pytest.raises(ValueError, match=r"30.*4"):
        permute_qk_weight(torch.randn(30, 8), 4)
    with pytest.raises(ValueError, match="5"):
        permute_qk_weight(torch.randn(20, 8), 4)
    with pytest.raises(ValueError, match="0"):
        permute_qk_weight(torch.randn(20, 8), 0)
    with pytest.raises(ValueError, match=r"6.*4"):
        permute_qk_weight(torch.randn(16, 8), 4, rotary_dim=6)


# Shapes.


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_partial_rotation_leaves_the_tail(path, layout, dtype):
    x = torch.randn(2, 3, 7, 20, dtype=dtype)
    cos, sin = tables(range(1, 8), 12)
    out = apply_rope(x, cos, sin, layout)
    assert torch.equal(out[..., 12:], x[..., 12:])
    alone = apply_rope(x[..., :12].contiguous(), cos, sin, layout)
    torch.testing.assert_close(out[..., :12], alone, rtol=0, atol=ROUNDING[dtype])


def test_b5_a_head_that_is_all_rotary_rotates_whole():
    x = torch.randn(1, 2, 1, 16)
    position = torch.tensor([1])
    out = apply_rope(x, *tables([1], 16))
    assert ((out - x).abs() > 0).all()
    rotary = RotaryEmbedding(32, partial_rotary_factor=0.5)
    assert torch.equal(rotary(x, x, position)[0], out)
    with pytest.raises(ValueError, match=r"24.*32.*16"):
        rotary(torch.randn(1, 2, 1, 24), x, position)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_table_a_row(path, layout):
    x = torch.randn(3, 2, 5, 8)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11], [5, 0, 5, 0, 5]])
    out = apply_rope(x, *tables(positions, 8), layout)
    for row in range(3):
        alone = apply_rope(x[row : row + 1], *tables(positions[row], 8), layout)
        assert torch.equal(out[row : row + 1], alone)
    one_row = apply_rope(x, *tables(positions[:1], 8), layout)
    assert torch.equal(one_row, apply_rope(x, *tables(positions[0], 8), layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_heads_or_batch(layout):
    x = torch.randn(5, 8)
    cos, sin = tables(range(5), 8)
    expected = apply_rope(x[None, None], cos, sin, layout)
    assert torch.equal(apply_rope(x, cos, sin, layout), expected[0, 0])
    assert torch.equal(apply_rope(x[None], cos, sin, layout), expected[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 0, 8), (0, 3, 5, 8), (2, 0, 5, 8)])
def test_nothing_to_rotate(path, layout, shape):
    x = torch.randn(shape, requires_grad=True)
    out = apply_rope(x, *tables(torch.arange(shape[2]), 8), layout)
    assert out.shape == shape
    out.sum().backward()
    assert x.grad.shape == shape


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_memory_order(path, layout, dtype):
    torch.manual_seed(0)
    base = torch.randn(2, 3, 11, 8, dtype=dtype)
    cos, sin = tables(range(11), 8)
    expected = apply_rope(base, cos, sin, layout)
    odd = torch.empty(2, 3, 11, 9, dtype=dtype)
    shifted = torch.empty(base.numel() + 1, dtype=dtype)
    orders = {
        "[B, T, H, D]": base.transpose(1, 2).contiguous().transpose(1, 2),
        "[B, H, D, T]": base.transpose(2, 3).contiguous().transpose(2, 3),
        "odd strides": odd[..., :8].copy_(base),
        "odd offset": shifted[1:].view_as(base).copy_(base),
        "heads expanded": base[:, :1].expand(-1, 3, -1, -1),
    }
    for name, x in orders.items():
        before = x.clone()
        out = apply_rope(x, cos, sin, layout)
        wanted = expected[:, :1].expand_as(x) if "expanded" in name else expected
        torch.testing.assert_close(out, wanted, rtol=0, atol=ROUNDING[dtype], msg=name)
        assert torch.equal(x, before), name


@pytest.mark.parametrize("rows", [(), (2,)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tables_in_any_memory_order(path, layout, dtype, rows):
    """Also where cos and sin lie by turns, as the parts of complex numbers do."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 11, 8).to(dtype)
    cos, sin = tables(torch.arange(11).expand(*rows, 11), 8)
    expected = apply_rope(x, cos, sin, layout)
    by_turns = torch.stack((cos, sin), dim=-1).flatten(-2)  # [c0 s0 c1 s1 …]
    odd_rows = torch.cat((by_turns, by_turns[..., :1]), dim=-1)[..., :-1]
    shifted = torch.empty(by_turns.numel() + 1)[1:].view_as(by_turns).copy_(by_turns)
    sin_first = torch.stack((sin, cos), dim=-1).flatten(-2)
    turned = torch.complex(cos, sin)
    back = torch.complex(cos, -sin).conj()
    orders = {
        "by turns": (by_turns[..., ::2], by_turns[..., 1::2]),
        "odd strides": (odd_rows[..., ::2], odd_rows[..., 1::2]),
        "odd offset": (shifted[..., ::2], shifted[..., 1::2]),
        "sin first": (sin_first[..., 1::2], sin_first[..., ::2]),
        "sin elsewhere": (by_turns[..., ::2], by_turns.clone()[..., 1::2]),
        "tokens last": (cos.mT.contiguous().mT, sin.mT.contiguous().mT),
        "parts of a table": (turned.real, turned.imag),
        "parts of a conjugate": (back.real, back.imag),
        "parts of two tables": (turned.real, turned.clone().imag),
    }
    for name, (c, s) in orders.items():
        out = apply_rope(x, c, s, layout)
        torch.testing.assert_close(
            out, expected, rtol=0, atol=ROUNDING[dtype], msg=name
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_float64_tables_are_rounded_once_too(path, layout):
    x = torch.randn(1, 4, 60, 64).bfloat16()
    cos, sin = (t.double() for t in tables(range(60), 64))
    expected = apply_rope(x.double(), cos, sin, layout).bfloat16()
    assert torch.equal(apply_rope(x, cos, sin, layout), expected)


@pytest.mark.parametrize(
    ("x", "cos", "sin", "message"),
    [
        ((1, 2, 5, 8), (4, 4), (4, 4), r"5.*4"),
        ((1, 2, 5, 8), (1, 4), (1, 4), r"5.*1"),
        ((1, 2, 1, 8), (5, 4), (5, 4), r"1.*5"),
        ((1, 2, 5, 8), (5, 5), (5, 5), r"10.*8"),
        ((1, 2, 5, 8), (5, 8), (5, 8), r"16.*8"),
        ((1, 2, 5, 8), (5, 0), (5, 0), "0"),
        ((1, 2, 5, 8), (5, 4), (5, 3), r"\[5, 4\].*\[5, 3\]"),
        ((2, 2, 5, 8), (3, 5, 4), (3, 5, 4), r"3.*2"),
        ((1, 2, 5, 8), (2, 5, 4), (2, 5, 4), r"2.*1"),
        ((2, 5, 8), (2, 5, 4), (2, 5, 4), r"\[2, 5, 8\]"),
        ((2, 5, 8), (1, 5, 4), (1, 5, 4), r"\[2, 5, 8\]"),
        ((2, 2, 5, 8), (2, 2, 5, 4), (2, 2, 5, 4), r"\[2, 2, 5, 4\]"),
        ((8,), (5, 4), (5, 4), r"\[8\]"),
        ((1, 2, 5, 8), (4,), (4,), r"\[4\]"),
    ],
)
def test_shapes_that_do_not_fit(x, cos, sin, message):
    for layout in LAYOUTS:
        with pytest.raises(ValueError, match=message):
            apply_rope(torch.randn(x), torch.randn(cos), torch.randn(sin), layout)


def test_other_refusals():
    x, (cos, sin) = torch.randn(1, 2, 5, 8), tables(range(5), 8)
    for layout in ("neox", "HALF", None):
        with pytest.raises(ValueError, match=r"interleaved.*half|half.*interleaved"):
            apply_rope(x, cos, sin, layout)
    with pytest.raises(TypeError, match="int64"):
        apply_rope(x.long(), cos, sin)
    with pytest.raises(ValueError, match=r"\[3, 4\].*\[2, 5\]"):
        rope_cos_sin(torch.zeros(2, 5, dtype=torch.long), torch.ones(3, 4))
    with pytest.raises(ValueError, match=r"\[2, 4\].*\[5\]"):
        rope_cos_sin(torch.zeros(5, dtype=torch.long), torch.ones(2, 4))
    with pytest.raises(ValueError, match="0"):
        rope_cos_sin(torch.tensor(3), rope_inv_freq(8))


def test_k1_the_offset_counts(path):
    x = torch.randn(1, 2, 4, 8)
    rotary = RotaryEmbedding(8)
    first, _ = rotary(x, x, torch.arange(4))
    later, _ = rotary(x, x, torch.arange(5, 9))
    assert not torch.allclose(first, later)
    assert torch.equal(later, apply_rope(x, *tables(range(5, 9), 8)))


# Gradients.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_in_float64(path, layout):
    x = torch.randn(2, 2, 3, 10, dtype=torch.float64, requires_grad=True)
    cos, sin = tables([0, 3, 900], 8)
    assert torch.autograd.gradcheck(lambda t: apply_rope(t, cos, sin, layout), x)
    assert torch.autograd.gradgradcheck(lambda t: apply_rope(t, cos, sin, layout), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_learned_tables_get_their_gradients(path, layout):
    x = torch.randn(2, 2, 3, 8, dtype=torch.float64)
    cos, sin = (t.double().requires_grad_() for t in tables([0, 3, 9], 8))
    assert torch.autograd.gradcheck(
        lambda c, s: apply_rope(x, c, s, layout), (cos, sin)
    )


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # by jvp
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap, addcmul_
@pytest.mark.parametrize("layout", LAYOUTS)
def test_function_transforms(path, layout):
    x = torch.randn(4, 2, 3, 8)
    cos, sin = tables([0, 3, 9], 8)

    def turn(t):
        return apply_rope(t, cos, sin, layout)

    def loss(t):  # its gradient is 2t, since a rotation keeps the norm
        return turn(t).pow(2).sum()

    torch.testing.assert_close(torch.func.vmap(turn)(x), turn(x))
    torch.testing.assert_close(torch.func.grad(loss)(x), 2 * x)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(x), 2 * x)
    vmap_inside = torch.func.grad(lambda t: torch.func.vmap(turn)(t).pow(2).sum())
    torch.testing.assert_close(vmap_inside(x), 2 * x)
    torch.testing.assert_close(torch.func.jvp(turn, (x,), (x,))[1], turn(x))
    forward_over_reverse = torch.func.jvp(torch.func.grad(loss), (x,), (x,))
    torch.testing.assert_close(forward_over_reverse[1], 2 * x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mapped_over_tables(path, layout, dtype):
    x = torch.randn(2, 3, 5, 8).to(dtype)
    rotary = RotaryEmbedding(8, layout=layout)
    cos, sin = rotary.cos_sin(torch.arange(20).view(4, 5))

    def turn(c, s):
        return apply_rope(x, c, s, layout)

    one_by_one = torch.stack([turn(c, s) for c, s in zip(cos, sin, strict=True)])
    mapped = torch.func.vmap(turn)(cos, sin)
    torch.testing.assert_close(mapped, one_by_one, rtol=0, atol=ROUNDING[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_for_many_upstreams_at_once(path, layout, dtype):
    x = torch.randn(2, 3, 5, 8).to(dtype).requires_grad_()
    cos, sin = RotaryEmbedding(8, layout=layout).cos_sin(torch.arange(5))
    out = apply_rope(x, cos, sin, layout)
    upstream = torch.randn(4, *x.shape).to(dtype)

    def gradient(grad, **kwargs):
        return torch.autograd.grad(out, x, grad, retain_graph=True, **kwargs)[0]

    together = gradient(upstream, is_grads_batched=True)
    one_by_one = torch.stack([gradient(grad) for grad in upstream])
    torch.testing.assert_close(together, one_by_one, rtol=0, atol=ROUNDING[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("needs_grad", [False, True])
def test_forward_mode(path, layout, needs_grad):
    x = torch.randn(2, 3, 5, 8, requires_grad=needs_grad)
    tangent = torch.randn_like(x)
    cos, sin = RotaryEmbedding(8, layout=layout).cos_sin(torch.arange(5))
    with forward_ad.dual_level():
        out = apply_rope(forward_ad.make_dual(x, tangent), cos, sin, layout)
        found = forward_ad.unpack_dual(out).tangent
    torch.testing.assert_close(found, apply_rope(tangent, cos, sin, layout))


# The module.


def test_r4_a_cast_of_the_module_leaves_the_frequencies():
    expected = RotaryEmbedding(128).inv_freq
    for cast in (
        lambda m: m.to(torch.bfloat16),
        lambda m: m.half(),
        lambda m: m.float(),
        lambda m: torch.nn.Sequential(m).bfloat16()[0],
    ):
        rotary = cast(RotaryEmbedding(128))
        assert torch.equal(rotary.inv_freq, expected)
        assert rotary.inv_freq.dtype == torch.float64
        cos, _ = rotary.cos_sin(torch.tensor([4095]))
        for pair in range(64):
            angle = true_angle(4095, pair, 128, 1e4)
            assert abs(float(cos[0, pair]) - math.cos(angle)) < 1e-6


def test_built_while_the_default_is_bfloat16():
    torch.set_default_dtype(torch.bfloat16)
    try:
        rotary = RotaryEmbedding(64)
        cos, _ = rotary.cos_sin(torch.arange(8))
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(rotary.inv_freq, RotaryEmbedding(64).inv_freq)
    assert torch.equal(cos, tables(range(8), 64)[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_r5_a_first_call_leaves_no_trace(layout):
    used = RotaryEmbedding(16, layout=layout)
    short, long = (torch.randn(1, 1, n, 16) for n in (8, 4096))
    used(short.bfloat16(), short.bfloat16(), torch.arange(8))
    fresh = RotaryEmbedding(16, layout=layout)
    positions = torch.arange(4096)
    for one, other in zip(
        used(long, long, positions), fresh(long, long, positions), strict=True
    ):
        assert torch.equal(one, other)


KINDS = {
    "default": None,
    "linear": {"rope_type": "linear", "factor": 2.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0] * 8,
        "long_factor": [4.0] * 8,
        "original_max_position_embeddings": 8,
        "factor": 8.0,
    },
}


def embedding(kind, **kwargs):
    return RotaryEmbedding(
        16, rope_parameters=KINDS[kind], max_position_embeddings=64, **kwargs
    )


@pytest.mark.parametrize("kind", KINDS)
def test_r6_meta_then_empty_then_reset(device, kind):
    with torch.device("meta"):
        rotary = torch.nn.ModuleDict({"rope": embedding(kind)})
    assert rotary["rope"].inv_freq.is_meta
    rotary.to_empty(device=device)
    rotary["rope"].reset_parameters()
    rotary = rotary["rope"]
    assert rotary.inv_freq.device.type == (
        device.type if device.type != "mps" else "cpu"
    )
    torch.testing.assert_close(rotary.inv_freq.cpu(), embedding(kind).inv_freq)
    assert rotary.state_dict() == {}
    assert list(rotary.parameters()) == []
    x = torch.randn(1, 1, 80, 16, device=device)
    out, _ = rotary(x, x, torch.arange(80, device=device))
    expected, _ = embedding(kind)(x.cpu(), x.cpu(), torch.arange(80))
    torch.testing.assert_close(out.cpu(), expected)


def test_materialised_frequencies_are_right_even_before_reset():
    with torch.device("meta"):
        rotary = RotaryEmbedding(64)
    rotary.to_empty(device="cpu")
    assert torch.equal(rotary.inv_freq, rope_inv_freq(64))


def test_r7_nothing_in_the_checkpoint():
    rotary = RotaryEmbedding(64, base=1e6)
    assert rotary.state_dict() == {}
    rotary.load_state_dict({}, strict=True)
    assert torch.equal(rotary.inv_freq, rope_inv_freq(64, 1e6))


def test_copies_and_pickles():
    rotary = embedding("longrope", layout="interleaved")
    x, positions = torch.randn(1, 2, 9, 16), torch.arange(9)
    expected, _ = rotary(x, x, positions)
    for other in (copy.deepcopy(rotary), pickle.loads(pickle.dumps(rotary))):
        assert torch.equal(other(x, x, positions)[0], expected)


def test_the_dict_beats_the_arguments():
    parameters = {"rope_theta": 5e5, "partial_rotary_factor": 0.5}
    rotary = RotaryEmbedding(64, 1e4, 0.25, rope_parameters=parameters)
    assert torch.equal(rotary.inv_freq, rope_inv_freq(32, 5e5))
    silent = RotaryEmbedding(64, 1e6, 0.25, rope_parameters={"rope_type": "default"})
    assert torch.equal(silent.inv_freq, rope_inv_freq(16, 1e6))
    null = {"rope_theta": None, "partial_rotary_factor": None, "rope_type": "default"}
    silent = RotaryEmbedding(64, 1e6, 0.25, rope_parameters=null)
    assert torch.equal(silent.inv_freq, rope_inv_freq(16, 1e6))
    assert parameters == {"rope_theta": 5e5, "partial_rotary_factor": 0.5}


def test_a_later_change_of_the_dict_changes_nothing():
    parameters = {"rope_type": "linear", "factor": 2.0}
    rotary = RotaryEmbedding(64, rope_parameters=parameters)
    parameters["factor"] = 8.0
    rotary.reset_parameters()
    assert torch.equal(rotary.inv_freq, rope_inv_freq(64) / 2)


def test_proportional_rotation_pairs_across_the_whole_head():
    parameters = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
    rotary = RotaryEmbedding(16, rope_parameters=parameters)
    x = torch.randn(1, 1, 4, 16)
    out, _ = rotary(x, x, torch.arange(1, 5))
    moved = (out != x).any(dim=2).flatten()
    assert moved.nonzero().flatten().tolist() == [0, 1, 8, 9]


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_d1_the_module_keeps_no_length(kind):
    rotary = embedding(kind)
    short, long = torch.arange(8), torch.arange(128)
    x = torch.randn(1, 1, 128, 16)
    before = rotary.inv_freq.clone()
    expected = rotary.cos_sin(short)
    rotary(x, x, long)
    assert torch.equal(rotary.inv_freq, before)
    for one, other in zip(rotary.cos_sin(short), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_the_length_is_each_rows_own(kind):
    """Padding, packing and the neighbours in the batch change nothing."""
    rotary = embedding(kind)
    rows = torch.stack((torch.arange(80), torch.arange(80).clamp(max=7)))
    cos, sin = rotary.cos_sin(rows)
    for row in range(2):
        alone = rotary.cos_sin(rows[row])
        torch.testing.assert_close((cos[row], sin[row]), alone, rtol=0, atol=1e-7)
    given_lengths = rotary.cos_sin(rows, seq_len=torch.tensor([80, 8]))
    assert torch.equal(given_lengths[0], cos)
    same_for_all = rotary.cos_sin(rows, seq_len=80)
    assert torch.equal(same_for_all[0][0], cos[0])
    assert not torch.allclose(same_for_all[0][1], cos[1])


def test_dynamic_frequencies_follow_the_largest_position():
    rotary = embedding("dynamic")
    positions = torch.tensor([[3, 99, 5]])
    inv_freq, _ = dynamic_ntk_inv_freq(16, 1e4, 2.0, 64, 100)
    for one, other in zip(
        rotary.cos_sin(positions), rope_cos_sin(positions, inv_freq), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("kind", "last"), [("dynamic", 80), ("longrope", 9)])
def test_d6_l3_a_cache_of_unrotated_keys_is_exact(kind, last):
    """Keys rotated when they came are off, keys rotated with their queries are not."""
    torch.manual_seed(0)
    rotary = embedding(kind)
    q, k = torch.randn(2, 1, 1, last, 16, dtype=torch.float64)
    everything = torch.arange(last)
    full_q, full_k = rotary(q, k, everything)
    one_pass = full_q[:, :, -1:] @ full_k.transpose(-1, -2)
    now = everything[-1:]
    new_q, _ = rotary(q[:, :, -1:], k[:, :, -1:], now, seq_len=last)
    _, keys = rotary(q, k, everything, seq_len=last)
    torch.testing.assert_close(
        new_q @ keys.transpose(-1, -2), one_pass, rtol=0, atol=1e-5
    )
    as_they_came = [
        rotary(q[:, :, i : i + 1], k[:, :, i : i + 1], everything[i : i + 1])
        for i in range(last)
    ]
    stale = torch.cat([key for _, key in as_they_came], dim=2)
    assert (new_q @ stale.transpose(-1, -2) - one_pass).abs().max() > 0.1


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_the_length_may_exceed_the_dtype_of_positions(kind, dtype):
    last = min(torch.iinfo(dtype).max, 300)
    positions = torch.tensor([0, last])
    narrow = embedding(kind).cos_sin(positions.to(dtype))
    torch.testing.assert_close(narrow, embedding(kind).cos_sin(positions))


def test_no_tokens_have_no_largest_position():
    x = torch.randn(2, 1, 0, 16)
    positions = torch.zeros(2, 0, dtype=torch.long)
    assert embedding("dynamic")(x, x, positions)[0].shape == x.shape


@pytest.mark.parametrize("kind", KINDS)
def test_module_equals_functions(kind):
    rotary = embedding(kind)
    q, k = torch.randn(1, 4, 70, 16), torch.randn(1, 2, 70, 16)
    positions = torch.arange(70)
    inv_freq, factor = scaled_inv_freq(KINDS[kind] or {}, 16, 64, seq_len=70)
    cos, sin = rope_cos_sin(positions, inv_freq, factor)
    for one, x in zip(rotary(q, k, positions), (q, k), strict=True):
        torch.testing.assert_close(one, apply_rope(x, cos, sin))


def test_b3_refused_when_built():
    for width in (7, 0, -4):
        with pytest.raises(ValueError, match=str(width)):
            RotaryEmbedding(width)
    with pytest.raises(ValueError, match="9"):
        RotaryEmbedding(36, partial_rotary_factor=0.25)
    with pytest.raises(ValueError, match="neox"):
        RotaryEmbedding(8, layout="neox")
    with pytest.raises(ValueError, match="ntk"):
        RotaryEmbedding(8, rope_parameters={"rope_type": "ntk"})
    with pytest.raises(KeyError, match="max_position_embeddings"):
        RotaryEmbedding(8, rope_parameters=KINDS["dynamic"])


def test_positions_the_module_refuses():
    rotary, x = RotaryEmbedding(8), torch.randn(2, 1, 5, 8)
    with pytest.raises(ValueError, match=r"\[3, 2, 5\]"):
        rotary(x, x, torch.zeros(3, 2, 5, dtype=torch.long))
    with pytest.raises(ValueError, match=r"5.*4"):
        rotary(x, x, torch.arange(4))
    with pytest.raises(ValueError, match=r"3.*2"):
        rotary(x, x, torch.zeros(3, 5, dtype=torch.long))
    with pytest.raises(TypeError, match="float"):
        rotary(x, x, torch.arange(5.0))
    with pytest.raises(ValueError, match=r"\[3, 8\].*\[2, 5\]"):
        embedding("dynamic").cos_sin(
            torch.zeros(2, 5, dtype=torch.long), seq_len=torch.tensor([1, 2, 3])
        )


# torch.compile.


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_p20_r9_compiles_whole_and_not_for_every_length(kind, layout):
    torch.compiler.reset()
    counter = torch._dynamo.testing.CompileCounter()
    rotary = embedding(kind, layout=layout)
    compiled = torch.compile(rotary, fullgraph=True, backend=counter)
    for length in (8, 12, 13, 64, 70, 100, 257):
        q, k = torch.randn(2, 4, length, 16), torch.randn(2, 2, length, 16)
        positions = torch.arange(length).expand(2, -1)
        for one, other in zip(
            compiled(q, k, positions), rotary(q, k, positions), strict=True
        ):
            torch.testing.assert_close(one, other)
    assert counter.frame_count <= 2


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_gradients(layout):
    torch.compiler.reset()
    cos, sin = tables(range(6), 8)
    compiled = torch.compile(apply_rope, fullgraph=True, backend="aot_eager")
    grads = []
    for rotate in (apply_rope, compiled):
        x = torch.ones(1, 2, 6, 8, requires_grad=True)
        rotate(x, cos, sin, layout).pow(3).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_without_memory(path, layout, dtype):
    """Shapes and dtypes can be worked out where there is nothing to read."""
    with FakeTensorMode():
        rotary = RotaryEmbedding(8, layout=layout)
        q, k = (torch.randn(2, heads, 5, 8).to(dtype) for heads in (4, 2))
        rotated = rotary(q, k, torch.arange(5))
    for one, other in zip(rotated, (q, k), strict=True):
        assert (one.shape, one.dtype) == (other.shape, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strict", [False, True])
def test_exports(path, layout, strict):
    rotary = RotaryEmbedding(8, layout=layout)
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
    arguments = (q, k, torch.arange(5))
    exported = torch.export.export(rotary, arguments, strict=strict).module()
    for one, other in zip(exported(*arguments), rotary(*arguments), strict=True):
        torch.testing.assert_close(one, other)


# Faults of the checks of others, wherever they can occur here.


def every_way(layout="half"):
    """name → a function of x [2, 3, 5, 16] and positions [5] that rotates x."""
    modules = {kind: embedding(kind, layout=layout) for kind in KINDS}
    ways = {
        kind: lambda x, p, rotary=rotary: rotary(x, x, p)[0]
        for kind, rotary in modules.items()
    }
    ways["functions"] = lambda x, p: apply_rope(
        x, *rope_cos_sin(p, rope_inv_freq(16)), layout
    )
    return ways


WAYS = list(every_way())


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # by jvp
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_p1_transforms(way, layout):
    turn = every_way(layout)[way]
    x, positions = torch.randn(4, 2, 3, 5, 16), torch.arange(20).view(4, 5)
    mapped = torch.func.vmap(turn)(x, positions)
    by_hand = torch.stack([turn(*pair) for pair in zip(x, positions, strict=True)])
    torch.testing.assert_close(mapped, by_hand)

    def loss(x, positions):  # a rotation keeps the norm, but for LongRoPE's factor
        return turn(x, positions).pow(2).sum()

    gradient = torch.func.vmap(torch.func.grad(loss))(x, positions)
    factor = embedding(way).attention_factor if way in KINDS else 1.0
    torch.testing.assert_close(gradient, 2 * x * factor**2)
    tangent = torch.func.jvp(lambda t: turn(t, positions[0]), (x[0],), (x[1],))[1]
    torch.testing.assert_close(tangent, turn(x[1], positions[0]))


def test_p1_transforms_of_permutations():
    weight = torch.randn(4, 32, 5)
    for move in (
        lambda w: permute_qk_weight(w, 2),
        lambda w: half_to_interleaved(w.mT).mT,
        lambda w: interleaved_to_half(w.mT).mT,
    ):
        mapped = torch.func.vmap(move)(weight)
        assert torch.equal(mapped, torch.stack([move(w) for w in weight]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_p2_fake_tensors(way, layout):
    with FakeTensorMode():
        x = torch.randn(2, 3, 5, 16)
        out = every_way(layout)[way](x, torch.arange(5))
        moved = permute_qk_weight(torch.randn(32, 7), 2)
        assert half_to_interleaved(x).shape == interleaved_to_half(x).shape == x.shape
    assert (out.shape, out.dtype, moved.shape) == (x.shape, x.dtype, (32, 7))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_p6_made_in_inference_mode_and_trained_later(kind, layout):
    positions = torch.arange(70)
    with torch.inference_mode():
        rotary = embedding(kind, layout=layout)
        rotary.to(torch.bfloat16)
        cos, sin = rotary.cos_sin(torch.arange(70))
    assert not any(t.is_inference() for t in (cos, sin, rotary.inv_freq))
    x = torch.randn(1, 2, 70, 16, requires_grad=True)
    torch.compiler.reset()
    compiled = torch.compile(rotary, fullgraph=True, backend="aot_eager")
    for out in (
        apply_rope(x, cos, sin, layout),
        rotary(x, x, positions)[0],
        compiled(x, x, positions)[0],
    ):
        (gradient,) = torch.autograd.grad(out.pow(2).sum(), x)
        torch.testing.assert_close(
            gradient, 2 * x * rotary.attention_factor**2, rtol=1e-4, atol=1e-5
        )


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # checks of shapes
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_p21_traces(monkeypatch, way, layout):
    """What was traced serves other lengths, long ones too."""
    monkeypatch.setattr(rope_rotation, "PIECE", 64)
    turn = every_way(layout)[way]
    traced = torch.jit.trace(turn, (torch.randn(2, 3, 5, 16), torch.arange(5)))
    for length in (5, 9, 70):
        x, positions = torch.randn(2, 3, length, 16), torch.arange(length)
        torch.testing.assert_close(traced(x, positions), turn(x, positions))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 2, 0), (2, 0, 5), (0, 0, 0)])
def test_p23_empty_batches(path, kind, layout, shape):
    x = torch.randn(*shape, 16, requires_grad=True)
    positions = torch.arange(shape[2]).expand(shape[0], -1)
    for at in (positions, torch.arange(shape[2])):
        out, _ = embedding(kind, layout=layout)(x, x, at)
        assert out.shape == x.shape
        out.sum().backward()


def test_p23_nothing_to_permute():
    for move in (half_to_interleaved, interleaved_to_half):
        assert move(torch.randn(0, 8)).shape == (0, 8)
    assert permute_qk_weight(torch.randn(8, 0), 2).shape == (8, 0)


def test_p26_any_integer_but_no_bool():
    eight, two = np.int64(8), np.int32(2)
    rotary = RotaryEmbedding(
        eight, rope_parameters=KINDS["dynamic"], max_position_embeddings=np.int64(64)
    )
    assert type(rotary.head_dim) is int
    expected = RotaryEmbedding(
        8, rope_parameters=KINDS["dynamic"], max_position_embeddings=64
    )
    positions = torch.arange(70)
    for one, other in zip(
        rotary.cos_sin(positions, seq_len=np.int64(70)),
        expected.cos_sin(positions),
        strict=True,
    ):
        assert torch.equal(one, other)
    weight = torch.randn(16, 3)
    moved = permute_qk_weight(weight, two, rotary_dim=np.int64(4))
    assert torch.equal(moved, permute_qk_weight(weight, 2, 4))
    for refused in (
        lambda: RotaryEmbedding(True),
        lambda: permute_qk_weight(weight, True),
        lambda: permute_qk_weight(weight, 2, True),
        lambda: permute_qk_weight(weight, 2.0),
    ):
        with pytest.raises(TypeError, match=r"True|2\.0"):
            refused()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_p27_the_default_dtype_does_not_matter(kind, dtype):
    positions = torch.arange(70)
    expected = embedding(kind).cos_sin(positions)
    torch.set_default_dtype(dtype)
    try:
        found = embedding(kind).cos_sin(positions)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["x", "cos", "sin"])
@pytest.mark.parametrize("wrong", [None, [1.0], torch.ones(5, 4).long()])
def test_what_is_no_floating_tensor_is_named(name, wrong):
    arguments = {
        "x": torch.randn(5, 8),
        "cos": torch.ones(5, 4),
        "sin": torch.ones(5, 4),
    }
    with pytest.raises(TypeError, match=f"{name} must be floating point"):
        apply_rope(**{**arguments, name: wrong})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_p1_what_a_transform_has_not_wrapped_may_still_need_a_gradient(layout):
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 8, requires_grad=True)
    cos, sin = rope_cos_sin(torch.arange(5), rope_inv_freq(8))
    weights = torch.rand(3)
    mapped = torch.func.vmap(lambda w: (apply_rope(x, cos, sin, layout) * w).sum())
    (found,) = torch.autograd.grad(mapped(weights).sum(), x)
    (plain,) = torch.autograd.grad(apply_rope(x, cos, sin, layout).sum(), x)
    torch.testing.assert_close(found, plain * weights.sum())


@pytest.mark.filterwarnings("ignore")  # torch.func.linearize is a prototype
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_p1_linearizes(layout):
    x, tangent = torch.randn(2, 1, 2, 5, 8)
    tables = rope_cos_sin(torch.arange(5), rope_inv_freq(8))
    turned, push = torch.func.linearize(lambda x: apply_rope(x, *tables, layout), x)
    torch.testing.assert_close(turned, apply_rope(x, *tables, layout))
    torch.testing.assert_close(push(tangent), apply_rope(tangent, *tables, layout))
