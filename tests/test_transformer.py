"""`lib.transformer` against transformers' Llama and a slow loop."""

import copy
import functools
import itertools
import math
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

from lib.kv_cache import KVCache
from lib.learned import LearnedPositionalEmbedding
from lib.tied_head import count_parameters, is_tied
from lib.transformer import (
    PRESETS,
    Position,
    Transformer,
    TransformerConfig,
    choose_tokens,
    generate,
)
from lib.transformer.config import POSITIONS

SMALL = TransformerConfig(
    vocab_size=37,
    d_model=24,
    num_layers=3,
    num_heads=6,
    num_kv_heads=2,
    d_hidden=20,
    max_positions=32,
    std=0.3,  # far from uniform attention, so that a wrong place shows
)
SCALED = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}


# Encodings that a reader might make up, one for each seam.


class Clock(Position):
    """Rows on the tokens: what three hands show, through a learned dial."""

    def __init__(self, width=SMALL.d_model):
        super().__init__()
        self.dial = torch.nn.Linear(6, width)

    def add(self, x, positions):
        speeds = torch.tensor([1.0, 0.1, 0.01], device=x.device)
        angles = positions[..., None] * speeds
        hands = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return x + self.dial(hands.to(x.dtype))

    def slow_add(self, x, place):
        angles = [place * speed for speed in (1.0, 0.1, 0.01)]
        hands = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        weight, bias = (p.detach().double().numpy() for p in self.dial.parameters())
        return x + weight @ hands + bias


class Twist(Position):
    """A turn of q and k: the first pair of features, by a learned speed."""

    def __init__(self, layout="half"):
        super().__init__()
        self.layout, self.speed = layout, torch.nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.uniform_(self.speed, 0.5, 1.0)

    def tables(self, positions):
        angles = (positions * self.speed.float())[:, None, :, None]
        return angles.cos(), angles.sin()  # [1 or B, 1, T, 1]

    def turn(self, q, k, tables):
        return self.twist(q, *tables), self.twist(k, *tables)

    def twist(self, x, cos, sin):
        other = x.shape[-1] // 2 if self.layout == "half" else 1
        a, b = x[..., :1], x[..., other : other + 1]
        parts = a * cos - b * sin, x[..., 1:other], b * cos + a * sin
        return torch.cat([*parts, x[..., other + 1 :]], dim=-1).type_as(x)

    def slow_turn(self, x, place):
        out, angle = x.copy(), place * self.speed.item()
        i = len(x) // 2 if self.layout == "half" else 1
        out[0] = x[0] * math.cos(angle) - x[i] * math.sin(angle)
        out[i] = x[i] * math.cos(angle) + x[0] * math.sin(angle)
        return out


class LateTwist(Twist):
    """The same turn, of keys that were cached as they are."""

    late = True

    def turn(self, q, k, tables):
        cut = ([t[:, :, -x.shape[2] :] for t in tables] for x in (q, k))
        return tuple(self.twist(x, *t) for x, t in zip((q, k), cut, strict=True))


class Steps(Position):
    """A price on the scores: one learned number a head for each distance."""

    def __init__(self, heads=SMALL.num_heads):
        super().__init__()
        self.cost = torch.nn.Parameter(torch.empty(heads, 8))
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.normal_(self.cost)

    def price(self, places):
        far = places.queries[:, :, None] - places.keys[:, None, :]
        return self.cost[:, far.clamp(0, 7)].movedim(0, 1)

    def slow_price(self, head, place, other):
        return self.cost[head, min(max(place - other, 0), 7)].item()


MADE_UP = {"clock": Clock, "twist": Twist, "late twist": LateTwist, "steps": Steps}
KINDS = (*POSITIONS, *MADE_UP)
ABSOLUTE = ("sinusoidal", "learned", "clock")
PRICED = ("alibi", "t5", "steps")
each_position = pytest.mark.parametrize("position", KINDS)


def make(position="rope", config=SMALL, **options) -> Transformer:
    """A model of any kind, those made up here included."""
    if position in MADE_UP:
        return Transformer(replace(config, **options), position=MADE_UP[position]())
    return Transformer(replace(config, position=position, **options))


def build(seed=0, **options) -> Transformer:
    torch.manual_seed(seed)
    model = make(**options)
    for name, weight in model.named_parameters():
        if "norm" in name:  # norms that do nothing would hide a missing one
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model.eval()


def draw(batch=2, tokens=9, size=37, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(size, (batch, tokens), generator=generator)


# The slow model: float64, one token and one head at a time, in numpy.


def slow_norm(x, weight, eps=1e-5):
    return x / math.sqrt((x**2).mean() + eps) * weight


def slow_wave(place, width):
    row = np.zeros(width)
    for i in range(0, width, 2):
        angle = place / 10_000 ** (i / width)
        row[i], row[i + 1] = math.sin(angle), math.cos(angle)
    return row


def slow_turn(x, place, layout, base=1e4):
    out, half = x.copy(), len(x) // 2
    for i in range(half):
        a, b = (i, i + half) if layout == "half" else (2 * i, 2 * i + 1)
        angle = place * base ** (-i / half)
        out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        out[b] = x[b] * math.cos(angle) + x[a] * math.sin(angle)
    return out


def slow_slopes(heads):
    whole = 2 ** int(math.log2(heads))
    first = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    second = [2 ** (-8 * (i + 1) / (2 * whole)) for i in range(2 * whole)]
    return first + second[0::2][: heads - whole]


def slow_bucket(back, buckets=32, far=128):
    """T5's, one direction: half of them for near distances, the rest by logarithm."""
    near, back = buckets // 2, max(back, 0)
    if back < near:
        return back
    share = math.log(back / near) / math.log(far / near)
    return min(near + int(share * (buckets - near)), buckets - 1)


def slow_price(model, head, place, other):
    kind = model.config.position
    if kind == "alibi":
        return -slow_slopes(model.config.num_heads)[head] * abs(place - other)
    if kind == "t5":
        return model.position.weight[slow_bucket(place - other), head].item()
    own = getattr(model.position, "slow_price", None)
    return 0.0 if own is None else own(head, place, other)


def slow_logits(model, ids, places, real=None):
    """Logits `[T, V]` of one row; `places` are read by number, keys by order."""
    config = model.config
    w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    width, group = config.head_dim, config.num_heads // config.num_kv_heads
    xs = [w["embedding.weight"][i] * (config.embedding_scale or 1) for i in ids]
    if config.position == "sinusoidal":
        xs = [x + slow_wave(p, len(x)) for x, p in zip(xs, places, strict=True)]
    if config.position == "learned":
        xs = [x + w["position.weight"][p] for x, p in zip(xs, places, strict=True)]
    if isinstance(model.position, Clock):
        xs = [model.position.slow_add(x, p) for x, p in zip(xs, places, strict=True)]
    for n in range(config.num_layers):
        of = {k.split(".", 2)[2]: v for k, v in w.items() if f"blocks.{n}." in k}
        normed = [slow_norm(x, of["attention_norm.weight"]) for x in xs]
        q, k, v = (
            [(of[f"attention.{part}.weight"] @ x).reshape(-1, width) for x in normed]
            for part in "qkv"
        )
        if config.position == "rope" or isinstance(model.position, Twist):
            turn = getattr(model.position, "slow_turn", None) or functools.partial(
                slow_turn, layout=config.rope_layout
            )
            q, k = (
                [
                    np.stack([turn(h, p) for h in heads])
                    for heads, p in zip(side, places, strict=True)
                ]
                for side in (q, k)
            )
        for i in range(len(xs)):
            mixed = []
            for h in range(config.num_heads):
                seen = [j for j in range(i + 1) if real is None or real[j]]
                scores = [q[i][h] @ k[j][h // group] / math.sqrt(width) for j in seen]
                prices = [slow_price(model, h, places[i], places[j]) for j in seen]
                scores = [s + price for s, price in zip(scores, prices, strict=True)]
                shares = np.exp(np.array(scores) - max(scores, default=0))
                rows = [v[j][h // group] for j in seen] or [np.zeros(width)]
                mixed.append(shares @ rows / shares.sum() if seen else rows[0])
            xs[i] = xs[i] + of["attention.out.weight"] @ np.concatenate(mixed)
        for i, x in enumerate(xs):
            y = slow_norm(x, of["mlp_norm.weight"])
            gate = of["mlp.gate.weight"] @ y
            inside = gate / (1 + np.exp(-gate)) * (of["mlp.up.weight"] @ y)
            xs[i] = x + of["mlp.down.weight"] @ inside
    head = w.get("head.weight", w["embedding.weight"])
    return np.stack([head @ slow_norm(x, w["norm.weight"]) for x in xs])


def check_slow(model, ids, positions=None, mask=None):
    got = model(ids, positions=positions, mask=mask)
    for row in range(len(ids)):
        places = range(ids.shape[1])
        if positions is not None:
            rows = positions if positions.dim() == 2 else positions[None]
            places = rows[row % len(rows)].tolist()
        elif mask is not None:
            counted = np.cumsum(mask[row].numpy()) - 1
            places = np.where(mask[row].numpy(), counted, 0).tolist()
        real = None if mask is None else mask[row].bool().tolist()
        wanted = slow_logits(model, ids[row].tolist(), list(places), real)
        keep = slice(None) if real is None else real
        torch.testing.assert_close(
            got[row].double()[keep],
            torch.from_numpy(wanted)[keep],
            rtol=2e-5,
            atol=2e-5,
        )


@each_position
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_the_slow_loop(position, tied):
    model = build(position=position, tied=tied, embedding_scale=1.5)
    with torch.no_grad():
        check_slow(model, draw())


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_both_layouts_equal_the_slow_loop(layout):
    with torch.no_grad():
        check_slow(build(rope_layout=layout), draw())


@each_position
@pytest.mark.parametrize(
    "positions",
    [
        torch.arange(9) + 7,
        torch.arange(9) * 2,
        torch.arange(8, -1, -1),
        torch.zeros(9, dtype=torch.int64),
        torch.stack([torch.arange(9), torch.arange(9) * 3]),
    ],
    ids=["shifted", "doubled", "reversed", "all zero", "by row"],
)
def test_given_positions_equal_the_slow_loop(position, positions):
    """Reversed ones do not reverse who sees whom: the loop's keys go by order."""
    with torch.no_grad():
        check_slow(build(position=position), draw(), positions=positions)


@each_position
def test_padding_anywhere_equals_the_slow_loop(position):
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1, 1, 0, 0]])
    with torch.no_grad():
        check_slow(build(position=position), draw(), mask=mask)


def as_llama(model: Transformer, rope_parameters=None) -> LlamaForCausalLM:
    config = model.config
    rope = {"rope_theta": config.rope_base, "rope_type": "default"}
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.d_model,
            intermediate_size=config.d_hidden,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            max_position_embeddings=config.max_positions,
            rms_norm_eps=config.norm_eps,
            rope_parameters=rope | (rope_parameters or {}),
            tie_word_embeddings=config.tied,
        )
    ).eval()
    names = {
        "embedding.weight": "model.embed_tokens.weight",
        "norm.weight": "model.norm.weight",
        "head.weight": "lm_head.weight",
    }
    parts = {
        "attention_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "attention.q": "self_attn.q_proj",
        "attention.k": "self_attn.k_proj",
        "attention.v": "self_attn.v_proj",
        "attention.out": "self_attn.o_proj",
        "mlp.gate": "mlp.gate_proj",
        "mlp.up": "mlp.up_proj",
        "mlp.down": "mlp.down_proj",
    }
    for n, (ours, theirs) in itertools.product(range(config.num_layers), parts.items()):
        names[f"blocks.{n}.{ours}.weight"] = f"model.layers.{n}.{theirs}.weight"
    state = {names[name]: w for name, w in model.state_dict().items()}
    if config.tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    llama.load_state_dict(state, strict=True)
    return llama


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_logits_and_hidden_states_equal_llama(tied):
    model, ids = build(tied=tied), draw(tokens=12)
    out = as_llama(model)(ids, output_hidden_states=True)
    torch.testing.assert_close(model(ids), out.logits, rtol=1e-5, atol=1e-5)
    states = model.hidden_states(ids)
    assert len(states) == 5  # embeddings, three layers, the last norm
    # transformers gives the last layer after the norm, and not before it.
    for ours, theirs in zip([*states[:3], states[4]], out.hidden_states, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert torch.equal(model.norm(states[3]), states[4])
    assert torch.equal(model.head(states[4]), model(ids))
    assert torch.equal(model.hidden(ids), states[4])


@pytest.mark.parametrize("kind", SCALED)
@torch.no_grad()
def test_scaled_rope_equals_llama(kind):
    model, ids = build(rope_parameters=SCALED[kind]), draw(tokens=80)
    wanted = as_llama(model, SCALED[kind])(ids).logits
    torch.testing.assert_close(model(ids), wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_left_padding_equals_llama():
    model, ids = build(), draw()
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    wanted = as_llama(model)(ids, attention_mask=mask).logits
    torch.testing.assert_close(
        model(ids, mask=mask)[mask.bool()], wanted[mask.bool()], rtol=1e-5, atol=1e-5
    )


# A cache, padding and positions change nothing that they must not.


@each_position
@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=5), padded=st.booleans())
@settings(max_examples=8)
@torch.no_grad()
def test_pieces_with_a_cache_equal_one_pass(position, cuts, padded):
    model, ids = build(position=position), draw(tokens=sum(cuts))
    mask = torch.ones_like(ids) if padded else None
    if padded:
        mask[0, : sum(cuts) // 2] = 0
    whole = model(ids, mask=mask)
    cache, parts, start = KVCache(3), [], 0
    for cut in cuts:
        end = start + cut
        seen = mask[:, :end] if padded else None
        parts.append(model(ids[:, start:end], cache=cache, mask=seen))
        start = end
    kept = slice(None) if mask is None else mask.bool()
    got = torch.cat(parts, dim=1)[kept]
    torch.testing.assert_close(got, whole[kept], rtol=2e-5, atol=2e-5)


@each_position
@torch.no_grad()
def test_given_positions_with_a_cache_equal_one_pass(position):
    model, ids = build(position=position), draw()
    positions = torch.arange(8, -1, -1) * 2
    whole, cache = model(ids, positions), KVCache(3)
    parts = [model(ids[:, :5], positions[:5], cache)]
    parts += [model(ids[:, n : n + 1], positions[: n + 1], cache) for n in range(5, 9)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("position", sorted({*KINDS} - {*PRICED, "late twist"}))
@torch.no_grad()
def test_a_cached_step_may_name_its_own_position_alone(position):
    model, ids = build(position=position), draw()
    cache = KVCache(3)
    model(ids[:, :8], torch.arange(8) + 3, cache)
    last = model(ids[:, 8:], torch.tensor([[11]]), cache)
    whole = model(ids, torch.arange(9) + 3)[:, 8:]
    torch.testing.assert_close(last, whole, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options",
    [{"position": kind} for kind in (*PRICED, "late twist")]
    + [{"rope_parameters": DYNAMIC}],
    ids=str,
)
@torch.no_grad()
def test_a_step_that_needs_the_positions_of_all_says_so(options):
    model, ids = build(**options), draw()
    cache = KVCache(3)
    model(ids[:, :8], torch.arange(8), cache)
    with pytest.raises(ValueError, match="all 9 tokens here, not of the 1 new"):
        model(ids[:, 8:], torch.tensor([8]), cache)


@torch.no_grad()
def test_dynamic_scaling_in_one_layer_is_the_same_with_a_cache():
    """Past the trained length every step has its own base, for old keys as well."""
    model = build(num_layers=1, max_positions=8, rope_parameters=DYNAMIC)
    ids = draw(tokens=14)
    cache = KVCache(1)
    model(ids[:, :6], cache=cache)
    for n in range(6, 14):
        step = model(ids[:, n : n + 1], cache=cache)[:, 0]
        whole = model(ids[:, : n + 1])[:, -1]
        torch.testing.assert_close(step, whole, rtol=2e-5, atol=2e-5)
    fixed = Transformer(replace(model.config, rope_parameters=None))
    fixed.load_state_dict(model.state_dict())
    assert (fixed(ids)[:, -1] - model(ids)[:, -1]).abs().max() > 1e-2


@each_position
@torch.no_grad()
def test_left_padding_changes_nothing_for_the_others(position):
    model, ids = build(position=position), draw(batch=1, tokens=6)
    padded = torch.cat([torch.full((1, 4), 5), ids], dim=1)
    mask = torch.tensor([[0] * 4 + [1] * 6])
    torch.testing.assert_close(
        model(padded, mask=mask)[:, 4:], model(ids), rtol=2e-5, atol=2e-5
    )


@each_position
@torch.no_grad()
def test_a_token_does_not_see_its_future(position):
    model, ids = build(position=position), draw()
    changed = ids.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 37
    for positions in (None, torch.arange(8, -1, -1)):
        before, after = model(ids, positions), model(changed, positions)
        assert torch.equal(before[:, :5], after[:, :5])
        assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-3)


@torch.no_grad()
def test_shifting_all_positions_matters_only_where_places_are_absolute():
    ids, shifted = draw(), torch.arange(9) + 13
    for position in KINDS:
        model = build(position=position)
        same = torch.allclose(model(ids), model(ids, shifted), atol=1e-4)
        assert same == (position not in ABSOLUTE), position


@torch.no_grad()
def test_dropped_tokens_keep_their_numbers():
    """A cache that drops the oldest: the rest attends as under a mask."""
    ids = draw()
    for position in KINDS:
        model = build(position=position, num_layers=1)
        cache = KVCache(1)
        model(ids[:, :8], cache=cache)
        cache.evict(3)
        mask = torch.ones(2, 9)
        mask[:, :3] = 0
        step = model(ids[:, 8:], cache=cache)[:, 0]
        whole = model(ids, torch.arange(9), mask=mask.long())[:, 8]
        torch.testing.assert_close(step, whole, rtol=2e-5, atol=2e-5)


# An encoding handed in: each seam is learned through, and nothing is lost on the way.


def loss_after(steps: int, position: str) -> float:
    """Train one layer, which cannot count by itself, to say the token before."""
    torch.manual_seed(0)
    config = replace(PRESETS["tiny"], num_layers=1, std=0.1, vocab_size=16)
    sizes = {"clock": [config.d_model], "steps": [config.num_heads]}
    if position in MADE_UP:
        own = MADE_UP[position](*sizes.get(position, []))
        if position == "steps":
            torch.nn.init.zeros_(own.cost)
        model = Transformer(config, position=own)
    else:
        model = Transformer(replace(config, position=position))
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        rows = torch.stack([torch.randperm(16)[:8] for _ in range(32)])
        logits, before = model(rows)[:, 1:], rows[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), before.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


@pytest.mark.slow
def test_a_made_up_encoding_trains_at_each_seam():
    assert loss_after(90, "none") > 1.2
    for position in MADE_UP:
        assert loss_after(90, position) < 0.3, position


@torch.no_grad()
def test_the_encoding_on_the_reference_page_is_a_whole_one():
    page = Path(__file__).parents[1] / "appendices" / "e_api_models.md"
    (code,) = re.findall("```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {"Position": Position, "Transformer": Transformer, "PRESETS": PRESETS}
    exec(code, names | {"torch": torch, "nn": torch.nn}, names)
    model, ids, cache = names["model"].eval(), draw(), KVCache(2)
    parts = [model(ids[:, :5], cache=cache), model(ids[:, 5:], cache=cache)]
    torch.testing.assert_close(torch.cat(parts, 1), model(ids), rtol=2e-5, atol=2e-5)
    bare = model.with_options(position="none")
    assert (bare(ids) - model(ids)).abs().max() > 1e-3


@pytest.mark.parametrize("position", MADE_UP)
def test_an_encoding_is_handed_in_as_it_is(position):
    own = MADE_UP[position]()
    before = copy.deepcopy(own.state_dict())
    model = Transformer(SMALL, position=own)
    assert model.position is own
    assert model.config == replace(SMALL, position="own")
    for name, weight in own.state_dict().items():
        assert torch.equal(weight, before[name])
    assert {f"position.{name}" for name in before} <= set(model.state_dict())
    with pytest.raises(ValueError, match=r"'own': hand .* over, Transformer\(config"):
        Transformer(model.config)


@pytest.mark.parametrize("thing", ["rope", torch.nn.Identity(), Clock])
def test_what_is_no_encoding_is_refused(thing):
    with pytest.raises(TypeError, match="position must be a Position, got"):
        Transformer(SMALL, position=thing)


def test_the_base_does_nothing():
    ids = draw()
    torch.manual_seed(0)
    bare = Transformer(replace(SMALL, position="none"))
    torch.manual_seed(0)
    assert torch.equal(Transformer(SMALL, position=Position())(ids), bare(ids))


def pointers(model):
    return [p.data_ptr() for p in model.parameters()]


@each_position
@torch.no_grad()
def test_options_keep_every_encoding_and_its_weights(position):
    model, ids = build(position=position).requires_grad_(False), draw()
    other = model.with_options()
    assert pointers(other) == pointers(model)
    assert not any(p.requires_grad for p in other.parameters())
    assert torch.equal(other(ids), model(ids))
    other.to(torch.bfloat16)  # a second model, not the same modules
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert torch.equal(model.with_options()(ids), model(ids))


@pytest.mark.slow
@each_position
@torch.no_grad()
def test_options_change_every_encoding_for_any_other(position):
    """Those that own no weights, and those that are handed in with theirs."""
    model, ids = build(position=position), draw()
    for kind in ("none", "sinusoidal", "rope", "alibi"):
        other = model.with_options(position=kind)
        assert other.config.position == kind
        check_slow(other, ids)
    weights = len(list(model.blocks.parameters()))
    for kind, make_own in MADE_UP.items():
        own = make_own()
        other = model.with_options(position=own)
        assert other.position is own, kind
        check_slow(other, ids)
        shared = set(pointers(other)) & set(pointers(model))
        assert len(shared) >= weights


@pytest.mark.parametrize("position", ["learned", "t5"])
def test_options_do_not_draw_weights(position):
    for kind in ("rope", "clock"):
        with pytest.raises(RuntimeError, match=r"position\.weight"):
            build(position=kind).with_options(position=position)


@each_position
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@torch.no_grad()
def test_both_layouts_with_a_cache(position, layout):
    model = build(position=position).with_options(rope_layout=layout)
    ids, cache = draw(), KVCache(3)
    check_slow(model, ids)
    parts = [model(ids[:, :5], cache=cache), model(ids[:, 5:], cache=cache)]
    torch.testing.assert_close(torch.cat(parts, 1), model(ids), rtol=2e-5, atol=2e-5)


def test_an_encoding_keeps_its_layout_unless_told():
    model = Transformer(SMALL, position=Twist("interleaved"))
    assert model.with_options(norm_eps=1e-6).position.layout == "interleaved"
    assert model.with_options(rope_layout="half").position.layout == "half"
    assert model.position.layout == "interleaved"
    with pytest.raises(ValueError, match=r"position must be one of .*, got 5"):
        model.with_options(position=5)


@each_position
def test_copies_and_files_of_every_kind(position, tmp_path):
    model, ids = build(position=position), draw()
    again = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    torch.save(model.state_dict(), tmp_path / "state.pt")
    again.append(make(position).eval())
    again[-1].load_state_dict(torch.load(tmp_path / "state.pt"))
    for copied in again:
        assert torch.equal(copied(ids), model(ids))
        assert is_tied(copied.embedding, copied.head)


def test_states_of_the_kinds_have_the_keys_they_had():
    keys = {
        kind: [key for key in make(kind).state_dict() if key.startswith("position")]
        for kind in POSITIONS
    }
    wanted = {kind: [] for kind in POSITIONS}
    assert keys == wanted | {"learned": ["position.weight"], "t5": ["position.weight"]}


def test_slopes_stay_fp32():
    model = build(position="alibi").to(torch.bfloat16)
    assert model.position.slopes.dtype == torch.float32
    assert model.position.slopes.tolist() == slow_slopes(6)


# Under torch's transforms, and with few reads of values.


@each_position
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's fallback
def test_p1_gradients_of_single_samples(position):
    model, ids = build(position=position), draw(batch=3, tokens=5)
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, row):
        return functional_call(model, weights, (row[None],)).square().sum()

    found = vmap(grad(loss), in_dims=(None, 0))(weights, ids)
    for n, row in enumerate(ids):
        model.zero_grad()
        model(row[None]).square().sum().backward()
        for name, p in model.named_parameters():
            torch.testing.assert_close(found[name][n], p.grad, rtol=1e-3, atol=1e-4)


@each_position
@pytest.mark.parametrize("masked", [False, True])
def test_p2_plans_memory_under_fake_tensors(position, masked):
    with FakeTensorMode():
        model, cache = make(position), KVCache(3)
        ids = torch.zeros(1, 4, dtype=torch.int64)
        mask = torch.ones(1, 5, dtype=torch.int64) if masked else None
        out = model(ids, cache=cache, mask=None if mask is None else mask[:, :4])
        assert out.shape == (1, 4, 37)
        step = model(ids[:, :1], cache=cache, mask=mask)
        assert step.shape == (1, 1, 37)


class Reads(TorchDispatchMode):
    """Count what makes the host wait for a value."""

    waits = ("_local_scalar_dense", "equal", "is_nonzero", "nonzero")

    def __init__(self, monkeypatch):
        super().__init__()
        self.count, to_list = 0, torch.Tensor.tolist

        def tolist(tensor):  # torch dispatches none
            self.count += 1
            return to_list(tensor)

        monkeypatch.setattr(torch.Tensor, "tolist", tolist)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.count += op.overloadpacket.__name__ in self.waits
        return op(*args, **(kwargs or {}))


@each_position
@pytest.mark.parametrize("mask", [None, "int", "bool"])
@pytest.mark.parametrize("given", [False, True])
@torch.no_grad()
def test_p3_a_call_reads_once(position, mask, given, monkeypatch):
    model, ids, cache = build(position=position, num_layers=6), draw(), KVCache(6)
    if mask is not None:
        kinds = {"int": torch.int64, "bool": torch.bool}
        mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 9], dtype=kinds[mask])
    for start, end in ((0, 8), (8, 9)):
        some = None if mask is None else mask[:, :end]
        places = torch.arange(end) if given else None
        with Reads(monkeypatch) as reads:
            model(ids[:, start:end], places, cache, some)
        monkeypatch.undo()
        assert reads.count <= 1


@pytest.mark.slow
@each_position
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@torch.no_grad()
def test_p21_traces(position):
    model = build(position=position, num_layers=1)
    for mask in (None, torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1, 1]] * 2)):
        inputs = {"ids": draw()} | ({} if mask is None else {"mask": mask})
        traced = torch.jit.trace(model, example_kwarg_inputs=inputs)
        other = inputs | {"ids": draw(seed=5)}
        torch.testing.assert_close(traced(**other), model(**other))


@each_position
@torch.no_grad()
def test_p23_an_empty_batch_gives_an_empty_result(position):
    model, ids = build(position=position), torch.zeros(0, 4, dtype=torch.int64)
    for mask in (None, torch.ones(0, 5, dtype=torch.int64)):
        cache, first = KVCache(3), None if mask is None else mask[:, :4]
        assert model(ids, cache=cache, mask=first).shape == (0, 4, 37)
        assert model(ids[:, :1], cache=cache, mask=mask).shape == (0, 1, 37)
        assert model(ids, torch.arange(4)).shape == (0, 4, 37)
    scaled = build(rope_parameters=DYNAMIC)
    assert scaled(ids).shape == (0, 4, 37)
    assert generate(model, ids, 2).shape == (0, 6)


@pytest.mark.slow
@each_position
def test_exports(position):
    model, ids = build(position=position, num_layers=1), draw()
    exported = torch.export.export(model, (ids,)).module()
    torch.testing.assert_close(exported(ids), model(ids))


# The module: dtypes, devices, the meta device, options, sizes.


@each_position
def test_runs_on_every_device_as_on_the_cpu(position, device):
    model, ids = build(position=position), draw()
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    with torch.no_grad():
        on_cpu = model(ids, mask=mask)[:, 3:]
        there = copy.deepcopy(model).to(device)
        on_device = there(ids.to(device), mask=mask.to(device))[:, 3:].cpu()
    torch.testing.assert_close(on_device, on_cpu, rtol=1e-3, atol=1e-3)


@each_position
@torch.no_grad()
def test_bf16_stays_near_fp32_far_into_the_sequence(position):
    model = build(position=position, max_positions=600, std=0.1)
    ids = draw(batch=1, tokens=600)
    cast = copy.deepcopy(model).to(torch.bfloat16)
    out = cast(ids)
    assert out.dtype == torch.bfloat16
    error = (out.float() - model(ids)).abs().amax(-1)[0]  # [T]
    spread = model(ids).std()
    assert error[300:].mean() < 0.05 * spread
    if position == "rope":
        assert cast.position.inv_freq.dtype == torch.float64


@each_position
def test_materialises_from_the_meta_device(position):
    with torch.device("meta"):
        model = make(position)
    model = model.to_empty(device="cpu")
    torch.manual_seed(0)
    model.reset_parameters()
    torch.manual_seed(0)
    fresh = make(position)
    fresh.reset_parameters()
    torch.manual_seed(0)
    fresh.reset_parameters()
    assert torch.equal(model(draw()), fresh(draw()))


@pytest.mark.slow
@each_position
def test_compiles_to_one_graph(position):
    torch.compiler.reset()  # one process may compile eight models
    model = build(position=position, num_layers=1)  # layers are compiled alike
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for tokens in (8, 12):
        ids = draw(tokens=tokens)
        torch.testing.assert_close(compiled(ids), model(ids), rtol=1e-5, atol=1e-5)


@each_position
def test_every_weight_gets_a_gradient(position):
    model = build(position=position)
    model(draw()).square().sum().backward()
    idle = [n for n, p in model.named_parameters() if not p.grad.abs().sum() > 0]
    assert idle == []


def test_options_share_the_weights():
    model = build().requires_grad_(False)
    other = model.with_options(position="none", rope_parameters=None)
    assert (other.config.position, other.training) == ("none", False)
    pairs = list(zip(model.parameters(), other.parameters(), strict=True))
    assert all(a.data_ptr() == b.data_ptr() for a, b in pairs)
    assert not any(b.requires_grad for _, b in pairs)
    assert is_tied(other.embedding, other.head)
    check_slow(other, draw())
    check_slow(model.with_options(rope_layout="interleaved"), draw())
    waves = model.with_options(position="sinusoidal").to(torch.bfloat16)
    assert waves.position.table.dtype == torch.float32
    check_slow(model.with_options(position="sinusoidal"), draw())
    with pytest.raises(RuntimeError, match=r"position\.weight"):
        model.with_options(position="learned")


def test_the_presets_have_the_published_sizes():
    with torch.device("meta"):
        tied = Transformer(PRESETS["SmolLM2-135M"])
        untied = Transformer(replace(PRESETS["SmolLM2-135M"], tied=False))
    assert count_parameters(tied) == 134_515_008
    assert count_parameters(untied) == 134_515_008 + 49_152 * 576
    assert is_tied(tied.embedding, tied.head)
    assert "head.weight" not in tied.state_dict()


def test_the_start_is_as_wide_as_it_says():
    torch.manual_seed(0)
    model = Transformer(replace(PRESETS["tiny"], num_layers=8, tied=False))
    for name, weight in model.named_parameters():
        if "norm" in name:
            assert (weight == 1).all()
        else:
            inward = name.endswith(("out.weight", "down.weight"))
            wanted = 0.02 / 4 if inward else 0.02
            assert abs(weight.std().item() / wanted - 1) < 0.05, name


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"d_model": 0}, ValueError, "d_model must be at least 1, got 0"),
        ({"d_hidden": 2.5}, TypeError, "d_hidden must be an int, got float 2.5"),
        ({"vocab_size": True}, TypeError, "vocab_size must be an int, got bool True"),
        ({"num_heads": 5}, ValueError, "d_model 24 is not divisible by 5 heads"),
        ({"num_kv_heads": 4}, ValueError, "6 heads cannot share 4 kv heads"),
        ({"position": "rotary"}, ValueError, "none, sinusoidal.*got 'rotary'"),
        ({"max_positions": -1}, ValueError, "max_positions must be at least 1"),
        ({"num_heads": 8, "num_kv_heads": 8}, ValueError, "3"),
        (
            {"rope_layout": "neox"},
            ValueError,
            "'neox' must be one of interleaved, half",
        ),
        ({"rope_parameters": {"rope_type": "x"}}, ValueError, "'x'"),
        ({"rope_parameters": {"rope_type": "linear"}}, KeyError, "factor"),
    ],
)
def test_a_bad_configuration_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        Transformer(replace(SMALL, **options))


SIZES = (
    "vocab_size",
    "d_model",
    "num_layers",
    "num_heads",
    "num_kv_heads",
    "d_hidden",
    "max_positions",
)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_p26_sizes_of_numpy_become_ints(name, kind):
    config = replace(SMALL, **{name: kind(getattr(SMALL, name))})
    assert config == SMALL
    assert repr(config) == repr(SMALL)
    assert type(getattr(config, name)) is int
    assert Transformer(config)(draw()).shape == (2, 9, 37)
    for wrong in (np.float64(8), True, np.bool_(True), "8"):
        with pytest.raises(TypeError, match=f"{name} must be an int"):
            replace(SMALL, **{name: wrong})


def test_p26_counts_of_numpy():
    model, ids = build(), draw()
    assert torch.equal(generate(model, ids, np.int64(3)), generate(model, ids, 3))
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5)
    assert choose_tokens(logits, 1.0, np.int64(1), generator).equal(logits.argmax(1))
    for wrong in (True, 2.0, "2"):
        with pytest.raises(TypeError, match="max_new_tokens must be an int"):
            generate(model, ids, wrong)
        with pytest.raises(TypeError, match="top_k must be an int"):
            choose_tokens(logits, 1.0, wrong)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"ids": torch.tensor([1, 2])}, ValueError, r"\[B, T\].*got \[2\]"),
        ({"ids": [[1, 2]]}, TypeError, "got list"),
        ({"ids": torch.zeros(1, 0).long()}, ValueError, r"got \[1, 0\]"),
        ({"ids": torch.zeros(1, 2)}, TypeError, "float32"),
        ({"ids": torch.tensor([[1, 37]])}, IndexError, "37 is outside.* 37 rows"),
        ({"ids": torch.tensor([[-1, 3]])}, IndexError, "-1"),
        ({"positions": torch.arange(8)}, ValueError, r"\[9\] or \[2, 9\].*got \[8\]"),
        ({"positions": torch.zeros(3, 9).long()}, ValueError, r"got \[3, 9\]"),
        ({"positions": torch.zeros(9)}, TypeError, "float32"),
        ({"positions": list(range(9))}, TypeError, "list"),
        ({"mask": torch.ones(2, 8).long()}, ValueError, r"\[2, 9\], got \[2, 8\]"),
        ({"mask": torch.full((2, 9), 2)}, ValueError, "0 and 1, got 2"),
        ({"mask": torch.ones(2, 9)}, TypeError, "float32"),
    ],
)
@each_position
def test_a_bad_call_is_refused(position, arguments, error, words):
    with pytest.raises(error, match=words):
        build(position=position)(**({"ids": draw()} | arguments))


def test_a_learned_table_says_where_it_ends():
    model = build(position="learned", max_positions=8)
    model(draw(tokens=8))
    with pytest.raises(IndexError, match="position 8 needs 9 rows, the table has 8"):
        model(draw(tokens=9))
    cache = KVCache(3)
    model(draw(tokens=6), cache=cache)
    with pytest.raises(IndexError, match="position 8 needs 9 rows, the table has 8"):
        model(draw(tokens=3), cache=cache)


# Generation.


def slow_generate(model, ids, count):
    """The loop that everyone writes first: read all, take the best, append."""
    for _ in range(count):
        best = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, best], dim=1)
    return ids


@each_position
@torch.no_grad()
def test_greedy_text_equals_the_slow_loop(position):
    model, ids = build(position=position), draw(batch=6, tokens=5)
    wanted = slow_generate(model, ids, 20)
    assert torch.equal(generate(model, ids, 20), wanted)
    assert torch.equal(generate(model, ids, 20, use_cache=False), wanted)
    assert len(wanted[:, 5:].unique()) > 3  # no text of one word would show much


@each_position
@torch.no_grad()
def test_rows_padded_on_the_left_continue_as_alone(position):
    model, ids = build(position=position), draw(tokens=7)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    for cached in (True, False):
        both = generate(model, ids, 12, mask=mask, use_cache=cached)
        assert torch.equal(both[:1], slow_generate(model, ids[:1], 12))
        assert torch.equal(both[1:, 4:], slow_generate(model, ids[1:, 4:], 12))


@torch.no_grad()
def test_generation_equals_transformers():
    model, ids = build(), draw(tokens=5)
    llama = as_llama(model)
    theirs = llama.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=0)
    ours = generate(model, ids, 20, eos_id=llama.generation_config.eos_token_id)
    assert torch.equal(ours, theirs[:, : ours.shape[1]])


def test_a_row_that_ended_is_filled_and_all_ended_stops():
    model, ids = build(), draw(tokens=5)
    free = generate(model, ids, 20)
    first = free[0, 5 + 3].item()  # row 0 says it at its fourth step at the latest
    ended = generate(model, ids, 20, eos_id=first)
    for row in (0, 1):
        new, old = ended[row, 5:].tolist(), free[row, 5:].tolist()
        at = old.index(first) if first in old else 20
        assert new[: at + 1] == old[: at + 1][: len(new)]
        assert set(new[at + 1 :]) <= {first}
    alone = generate(model, ids[:1], 20, eos_id=first)
    assert alone.shape[1] == 5 + free[0, 5:].tolist().index(first) + 1


def test_draws_follow_the_softmax_and_its_temperature():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).repeat(20_000, 1)
    generator = torch.Generator().manual_seed(0)
    for temperature, top_k in ((1.0, None), (0.5, None), (2.0, 3), (1.0, 1)):
        drawn = choose_tokens(logits, temperature, top_k, generator)
        counts = drawn.bincount(minlength=4) / len(logits)
        weights = torch.tensor([2.0, 1.0, 0.0, -1.0]).div(temperature).exp()
        weights[top_k or 4 :] = 0
        wanted = weights / weights.sum()
        five_sigma = 5 * (wanted * (1 - wanted) / len(logits)).sqrt() + 1e-9
        assert ((counts - wanted).abs() <= five_sigma).all()


def test_one_generator_gives_one_text():
    model, ids = build(), draw()

    def sample(seed, cached=True):
        return generate(
            model,
            ids,
            10,
            temperature=1.5,
            generator=torch.Generator().manual_seed(seed),
            use_cache=cached,
        )

    assert torch.equal(sample(0), sample(0))
    assert torch.equal(sample(0), sample(0, cached=False))
    assert not torch.equal(sample(0), sample(1))


def test_each_step_reports_the_loss_of_its_tokens():
    model, ids, seen = build(), draw(tokens=4), []
    out = generate(model, ids, 6, advance=lambda *step: seen.append(step))
    logp = model(out).detach().log_softmax(-1)[:, 3:-1]
    wanted = -logp.gather(2, out[:, 4:, None])[..., 0].mean(0)
    assert [step for step, _ in seen] == list(range(6))
    assert torch.allclose(torch.tensor([loss for _, loss in seen]), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_new_tokens": -1}, "at least 0, got -1"),
        ({"temperature": -0.5}, "at least 0, got -0.5"),
        ({"temperature": math.nan}, "got nan"),
        ({"temperature": 1.0, "top_k": 0}, "from 1 to 37, got 0"),
        ({"temperature": 1.0, "top_k": 38}, "from 1 to 37, got 38"),
        ({"mask": torch.tensor([[1] * 9, [1] * 8 + [0]])}, "row 1 .*pad on the left"),
        ({"mask": torch.ones(2, 8).long()}, r"\[2, 9\], got \[2, 8\]"),
    ],
)
def test_bad_wishes_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        generate(build(), draw(), **({"max_new_tokens": 2} | arguments))


def test_no_new_token_gives_the_ids_back():
    assert torch.equal(generate(build(), draw(), 0), draw())


class Dial(Position):
    """An encoding with a part that draws itself otherwise than the whole wants."""

    def __init__(self):
        super().__init__()
        self.dial = nn.Linear(1, 8)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.constant_(self.dial.weight, 0.25)


def test_an_encoding_has_the_last_word_on_its_parts():
    model = Transformer(SMALL, position=Dial())
    model.reset_parameters()
    assert (model.position.dial.weight == 0.25).all()


def test_checks_inside_an_own_encoding_speak():
    class Rows(Position):
        def __init__(self):
            super().__init__()
            self.rows = LearnedPositionalEmbedding(8, SMALL.d_model)

        def add(self, x, positions):
            return x + self.rows(positions)

    model = Transformer(SMALL, position=Rows())
    with pytest.raises(IndexError, match="position 8 needs 9 rows, the table has 8"):
        model(draw(tokens=9))


class Shared(Position):
    """Rows out of the model's own token table."""

    def __init__(self):
        super().__init__()
        self.table = None

    def add(self, x, positions):
        return x + self.table.weight[positions]


def test_what_an_encoding_shares_with_its_model_its_copy_shares_with_the_other():
    model = Transformer(SMALL, position=Shared())
    model.position.table = model.embedding
    other = model.with_options(norm_eps=1e-6)
    assert other.position is not model.position
    assert other.position.table is other.embedding
    assert len(list(other.parameters())) == len(list(model.parameters()))
    assert torch.equal(other(draw()), model.with_options(norm_eps=1e-6)(draw()))


def test_p32_a_learned_table_put_in_place_of_another_keeps_its_rows():
    model = build(position="learned", max_positions=12)
    rows = torch.randn(20, SMALL.d_model)
    model.position.weight = nn.Parameter(rows)
    other = model.with_options(norm_eps=1e-6)
    assert torch.equal(other.position.weight, rows)
    assert other.config.max_positions == 20


@pytest.mark.parametrize(
    ("price", "error", "words"),
    [
        (torch.zeros(1, 6, 1, 64), ValueError, r"price must be .*9\], .*got \[1, 6, 1"),
        (torch.zeros(6, 9, 9), ValueError, r"price must be .*got \[6, 9, 9\]"),
        (torch.ones(1, 6, 9, 9).bool(), TypeError, "price must be floating"),
        (torch.ones(1, 6, 9, 9).long(), TypeError, "price must be floating"),
    ],
)
def test_a_price_that_does_not_fit_is_refused(price, error, words):
    class Priced(Position):
        def price(self, places):
            return price

    with pytest.raises(error, match=words):
        Transformer(SMALL, position=Priced())(draw(tokens=9))


@pytest.mark.filterwarnings("ignore")  # torch.func.linearize is a prototype
@each_position
def test_p1_linearizes(position):
    model = build(position=position, num_layers=1).requires_grad_(False)
    ids = draw()

    def logits(weight):
        return functional_call(model, {"norm.weight": weight}, (ids,))

    weight, tangent = model.norm.weight, torch.randn(SMALL.d_model)
    value, push = torch.func.linearize(logits, weight)
    _, expected = torch.func.jvp(logits, (weight,), (tangent,))
    torch.testing.assert_close(value, model(ids))
    torch.testing.assert_close(push(tangent), expected)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"mask": torch.ones(9)}, TypeError, "mask must be bool or integers"),
        ({"mask": torch.ones(9).long()}, ValueError, r"mask must be \[2, 9\], got \[9"),
        ({"mask": [[1] * 9] * 2}, TypeError, "mask must be bool or integers.*list"),
        ({"ids": torch.ones(2, 9)}, TypeError, "ids must be an integer tensor"),
        ({"ids": torch.ones(9).long()}, ValueError, r"ids must be \[B, T\]"),
        ({"eos_id": 37}, IndexError, "eos_id 37 is outside the table: 37 rows"),
        ({"eos_id": True}, TypeError, "eos_id must be an int"),
        ({"eos_id": 1.5}, TypeError, "eos_id must be an int"),
        ({"temperature": math.nan}, ValueError, "temperature must be finite"),
        ({"top_k": 38}, ValueError, "top_k must be from 1 to 37, got 38"),
    ],
)
@pytest.mark.parametrize("count", [0, 2])
def test_p9_what_is_to_be_continued_is_checked(arguments, error, words, count):
    with pytest.raises(error, match=words):
        generate(build(), **{"ids": draw(), "max_new_tokens": count} | arguments)


def test_the_smallest_temperature_is_the_likeliest_token():
    logits = torch.tensor([[0.0, 5.0, 1.0]])
    assert choose_tokens(logits, temperature=1e-46).tolist() == [1]
    with pytest.raises(ValueError, match=r"logits must be \[B, V\], got \[3\]"):
        choose_tokens(logits[0])


def test_the_loss_reported_is_that_of_rows_that_go_on():
    model, ids = build(), draw()
    first = generate(model, ids, 1)[:, -1]
    assert first[0] != first[1]  # so that one row ends at once
    both, alone = [], []
    options = {"max_new_tokens": 4, "eos_id": int(first[0])}
    generate(model, ids, advance=lambda _, loss: both.append(loss), **options)
    generate(model, ids[1:], advance=lambda _, loss: alone.append(loss), **options)
    assert len(both) > 1
    assert both[1:] == pytest.approx(alone[1:], abs=1e-5)
