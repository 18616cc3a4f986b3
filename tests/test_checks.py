"""`lib.checks`, and the cases of library.tsv on every call that checks its input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from calls import CALLS
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.func import functional_call, grad, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from lib.alibi import alibi_attention, alibi_slopes
from lib.attention import MultiHeadAttention, attention, causal_attention
from lib.checks import (
    INTEGER_DTYPES,
    Range,
    check_ids,
    check_integer,
    check_mask,
    check_ranges,
    check_size,
    ids_range,
    mask_range,
    may_read,
    number,
    reading,
    unchecked,
)
from lib.device import seed_everything
from lib.kv_cache import KVCache, decode_positions
from lib.learned import (
    LearnedPositionalEmbedding,
    packed_positions,
    positions_from_mask,
)
from lib.one_hot import one_hot, one_hot_lookup, sparse_one_hot
from lib.sinusoidal import SinusoidalPositionalEncoding, sinusoidal_table
from lib.t5_bias import T5RelativeBias, t5_buckets
from lib.token_embedding import TokenEmbedding, table_bytes

every_call = pytest.mark.parametrize("make", CALLS, ids=lambda make: make.__name__)
of_tokens = pytest.mark.parametrize(
    "make",
    [make for make in CALLS if make.__name__ != "decoded"],  # asks B, not T
    ids=lambda make: make.__name__,
)
# torch's own: no batching rule for some kernels, and a deprecated call in jvp.
slowly = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
jit = pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")


def seeded(make, batch, tokens):
    torch.manual_seed(0)
    return make(batch, tokens)


def parameters_of(make):
    function, _ = make(1, 2)
    return function.parameters() if isinstance(function, nn.Module) else ()


class Module(nn.Module):
    """A function as a module, which export and trace ask for."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


# P1: transforms of functions look like the plain function over each sample.
@slowly
@every_call
def test_p1_vmap_equals_a_loop(make):
    function, tensors = seeded(make, 2, 5)
    samples = [[x, x.flip(-2) if x.is_floating_point() else x] for x in tensors]
    expected = torch.stack([function(*sample) for sample in zip(*samples, strict=True)])
    found = vmap(function)(*map(torch.stack, samples))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@slowly
@pytest.mark.parametrize(
    "make",
    [make for make in CALLS if list(parameters_of(make))],
    ids=lambda make: make.__name__,
)
def test_p1_gradients_of_each_sample(make):
    module, tensors = seeded(make, 3, 5)
    parameters = dict(module.named_parameters())

    def loss(parameters, *sample):
        return functional_call(module, parameters, sample).square().sum()

    rows = [x[:, None] for x in tensors]  # each sample a batch of one
    axes = (None, *(0 for _ in rows))
    found = vmap(grad(loss), axes)(parameters, *rows)
    for i in range(3):
        module.zero_grad()
        loss(parameters, *(row[i] for row in rows)).backward()
        for name, parameter in parameters.items():
            torch.testing.assert_close(found[name][i], parameter.grad)


@jit
@pytest.mark.parametrize(
    "module", [TokenEmbedding(7, 4), LearnedPositionalEmbedding(7, 4)]
)
def test_p1_forward_mode_and_a_wrong_id_that_nothing_wraps(module):
    good, bad = torch.tensor([1, 2]), torch.tensor([1, 7])
    weight = module.weight.detach()

    def rows(ids):
        return lambda weight: functional_call(module, {"weight": weight}, (ids,))

    value, turned = jvp(rows(good), (weight,), (torch.ones_like(weight),))
    assert torch.equal(value, weight[good])
    assert (turned == 1).all()
    with pytest.raises(IndexError, match="7"):
        grad(lambda weight: rows(bad)(weight).sum())(weight)


# P2: memory is planned without running.
@every_call
@pytest.mark.parametrize("batch", [1, 3])
def test_p2_fake_tensors_give_a_fake_result(make, batch):
    function, tensors = seeded(make, batch, 5)
    expected = function(*tensors)
    with FakeTensorMode():
        function, tensors = make(batch, 5)
        found = function(*tensors)
    assert type(found).__name__ == "FakeTensor"
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


@every_call
def test_p2_meta_tensors_give_a_meta_result(make):
    function, tensors = seeded(make, 2, 5)
    expected = function(*tensors)
    with torch.device("meta"):
        function, tensors = make(2, 5)
        found = function(*tensors)
    assert found.is_meta
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


def test_p2_real_inputs_where_results_are_fake():
    table, ids = TokenEmbedding(5, 3), torch.tensor([1, 4])
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert table(ids).shape == (2, 3)


# P3: a check waits for the device once, and not at all for what needs no look.
class Reads(TorchDispatchMode):
    """Count the operations that bring a number to the host, but for `tolist`."""

    names = ("_local_scalar_dense", "equal", "is_nonzero", "item", "nonzero")
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in self.names
        return func(*args, **(kwargs or {}))


def count_reads(monkeypatch, function, *tensors):
    """Count all reads, `tolist` included, and those that checks make."""
    seen, by_checks, tolist = [], [], torch.Tensor.tolist
    read = reading._read
    monkeypatch.setattr(torch.Tensor, "tolist", lambda x: seen.append(x) or tolist(x))
    monkeypatch.setattr(reading, "_read", lambda x: by_checks.append(x) or read(x))
    with Reads() as reads:
        function(*tensors)
    monkeypatch.undo()
    return reads.count + len(seen), len(by_checks)


def test_p3_the_counter_counts(monkeypatch):
    x = torch.arange(3)
    for read in (
        lambda: x.tolist(),
        lambda: x[0].item(),
        lambda: bool((x == 0).any()),
        lambda: int(x.max()),
        lambda: torch.equal(x, x + 1),
        lambda: x.nonzero(),
    ):
        assert count_reads(monkeypatch, read)[0] == 1


@every_call
def test_p3_one_read_a_call(make, monkeypatch):
    function, tensors = seeded(make, 2, 5)
    reads, by_checks = count_reads(monkeypatch, function, *tensors)
    assert reads == by_checks <= 1


MASKS = {"counted": 0, "multi_head": 1, "multi_head_full": 1, "causal_masked": 3}
MASKS |= {"alibi_masked": 3, "alibi_by_position": 3, "alibi_in_order": 3}


@pytest.mark.parametrize(
    "make",
    [make for make in CALLS if make.__name__ in MASKS],
    ids=lambda make: make.__name__,
)
def test_p3_a_bool_mask_needs_no_read(make, monkeypatch):
    function, tensors = seeded(make, 2, 5)
    assert count_reads(monkeypatch, function, *tensors) == (1, 1)
    place = MASKS[make.__name__]
    tensors[place] = tensors[place].bool()
    assert count_reads(monkeypatch, function, *tensors) == (0, 0)


@every_call
def test_p3_unchecked_reads_nothing(make, monkeypatch):
    function, tensors = seeded(make, 2, 5)
    expected = function(*tensors)
    with unchecked():
        assert count_reads(monkeypatch, function, *tensors) == (0, 0)
        assert torch.equal(function(*tensors), expected)


def test_p3_a_step_from_a_known_length_needs_no_read(monkeypatch):
    mask = torch.ones(2, 7, dtype=torch.bool)
    assert count_reads(monkeypatch, decode_positions, 5, 2) == (0, 0)
    assert count_reads(monkeypatch, decode_positions, 5, 2, mask) == (0, 0)
    assert count_reads(monkeypatch, decode_positions, 5, 2, mask.long()) == (1, 1)


def test_p3_many_ranges_one_read(monkeypatch):
    ids, mask = torch.tensor([0, 4]), torch.tensor([1, 0], dtype=torch.uint8)
    both, needless = (ids_range(ids, 5), mask_range(mask)), mask_range(mask.bool())
    assert count_reads(monkeypatch, check_ranges, *both)[1] == 1
    assert count_reads(monkeypatch, check_ranges, *both, needless)[1] == 1
    assert count_reads(monkeypatch, check_ranges, needless)[1] == 0
    assert count_reads(monkeypatch, check_ranges)[1] == 0
    with pytest.raises(ValueError, match="0 and 1, got 3"):
        check_ranges(ids_range(ids, 5), mask_range(mask * 3))
    with pytest.raises(IndexError, match="id 4 "):  # the first that is broken
        check_ranges(ids_range(ids, 4), mask_range(mask * 3))


def test_p3_unchecked_ends_with_its_block():
    bad = torch.tensor([5])
    with unchecked():
        check_ids(bad, 5)
        with unchecked():
            check_ids(bad, 5)
        check_ids(bad, 5)
    with pytest.raises(IndexError, match="id 5"):
        check_ids(bad, 5)
    with pytest.raises(KeyError), unchecked():
        raise KeyError
    assert may_read(bad)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_call
def test_p3_a_cuda_graph_can_be_captured(make):
    with torch.device("cuda"):
        function, tensors = seeded(make, 2, 5)
        expected = function(*tensors)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            found = function(*tensors)
    graph.replay()
    torch.testing.assert_close(found, expected)


# P20: a graph for one length and a graph for all.
def count_graphs(function):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend), graphs


@pytest.mark.slow
@every_call
def test_p20_two_graphs_for_any_length(make):
    function, _ = seeded(make, 2, 5)
    compiled, graphs = count_graphs(function)
    for tokens in range(5, 25):
        _, tensors = make(2, tokens)
        torch.testing.assert_close(compiled(*tensors), function(*tensors))
    assert len(graphs) <= 2


def test_p20_checks_that_stand_aside_compile():
    table = TokenEmbedding(5, 3)

    def call(ids):
        check_ranges(ids_range(ids, 5))
        with unchecked():
            return table(ids)

    compiled, graphs = count_graphs(call)
    for tokens in range(5, 25):
        ids = torch.randint(0, 5, (1, tokens))
        assert torch.equal(compiled(ids), table(ids))
    assert len(graphs) <= 2


def test_p20_a_size_from_a_shape_stays_open():
    compiled, graphs = count_graphs(one_hot_lookup)
    for rows in range(5, 25):
        ids, table = torch.tensor([1, 4]), torch.randn(rows, 3)
        assert torch.equal(compiled(ids, table), table[ids])
    assert len(graphs) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_p20_cached_steps_of_alibi(masked):
    compiled, graphs = count_graphs(alibi_attention)
    slopes = alibi_slopes(4)
    for tokens in range(5, 25):
        q, k, v = torch.randn(1, 4, 2, 8), *torch.randn(2, 1, 4, tokens, 8)
        mask = torch.ones(1, tokens, dtype=torch.bool) if masked else None
        expected = alibi_attention(q, k, v, slopes, mask=mask)
        torch.testing.assert_close(compiled(q, k, v, slopes, mask=mask), expected)
    assert len(graphs) <= 2


@pytest.mark.slow
@of_tokens
@pytest.mark.parametrize("strict", [False, True])
def test_p20_export_keeps_the_length_open(make, strict):
    function, tensors = seeded(make, 2, 5)
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    open_dims = tuple(
        {i: tokens for i, size in enumerate(x.shape) if size == 5} for x in tensors
    )
    program = torch.export.export(
        Module(function), tuple(tensors), dynamic_shapes=(open_dims,), strict=strict
    ).module()
    for length in (3, 9):
        _, others = make(2, length)
        torch.testing.assert_close(program(*others), function(*others))


@pytest.mark.slow
# P21: what is computed from shapes is a tensor while torch.jit traces.
@every_call
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@jit
def test_p21_traces(make):
    function, tensors = seeded(make, 2, 5)
    traced = torch.jit.trace(Module(function).eval(), tuple(tensors))
    _, others = make(2, 5)
    torch.testing.assert_close(traced(*others), function(*others))


# P23: nothing in, nothing out.
@every_call
@pytest.mark.parametrize(("batch", "tokens"), [(0, 4), (2, 0), (0, 0)])
def test_p23_empty(make, batch, tokens):
    function, tensors = seeded(make, batch, tokens)
    full, others = seeded(make, 13, 17)
    sizes = {13: batch, 17: tokens}
    shape = [sizes.get(size, size) for size in full(*others).shape]
    assert list(function(*tensors).shape) == shape


def test_p23_queries_without_keys_get_zeros():
    q, none = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 0, 8)
    now = torch.arange(3)
    for out in (
        attention(q, none, none),
        causal_attention(q, none, none, q_positions=now),
        alibi_attention(q, none, none, alibi_slopes(4), now),
    ):
        assert out.shape == q.shape
        assert out.count_nonzero() == 0


def test_p23_cache():
    cache = KVCache(2)
    for layer in range(2):
        keys, _ = cache.update(layer, torch.zeros(0, 2, 3, 4), torch.zeros(0, 2, 3, 4))
        assert keys.shape == (0, 2, 3, 4)
    for layer in range(2):
        none = torch.zeros(0, 2, 0, 4)
        keys, _ = cache.update(layer, none, none)
        assert keys.shape == (0, 2, 3, 4)
    assert cache.seq_len == 3
    assert packed_positions([]).shape == packed_positions([0, 0]).shape == (0,)


# P26: sizes are any integers but bools; what they make is the same.
class Whole:
    """An integer of another library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


MASK = torch.tensor([[0, 1, 1]])
ZERO = torch.zeros(1, 2, 3, 4)
IDS = torch.tensor([0, 2])
SIZES = {
    "table_bytes vocab": (lambda n: table_bytes(n, 4, torch.half), 3),
    "table_bytes dim": (lambda n: table_bytes(3, n, torch.half), 4),
    "embedding num_embeddings": (lambda n: TokenEmbedding(n, 4).weight.shape, 3),
    "embedding dim": (lambda n: TokenEmbedding(3, n).weight.shape, 4),
    "embedding padding_idx": (lambda n: TokenEmbedding(3, 4, n).padding_idx, -1),
    "one_hot num_classes": (lambda n: one_hot(IDS, n), 3),
    "sparse num_classes": (lambda n: sparse_one_hot(IDS, n).to_dense(), 3),
    "learned max_positions": (
        lambda n: LearnedPositionalEmbedding(n, 4).weight.shape,
        3,
    ),
    "learned d_model": (lambda n: LearnedPositionalEmbedding(3, n).weight.shape, 4),
    "learned offset": (lambda n: LearnedPositionalEmbedding(3, 4, n).weight.shape, 2),
    "counted start": (lambda n: positions_from_mask(MASK, n), 5),
    "counted pad_value": (lambda n: positions_from_mask(MASK, 0, n), -1),
    "packed start": (lambda n: packed_positions([1, 2], n), 5),
    "packed lengths": (lambda n: packed_positions([1, n]), 2),
    "table num_positions": (lambda n: sinusoidal_table(n, 4), 3),
    "table d_model": (lambda n: sinusoidal_table(3, n), 4),
    "sinusoidal max_len": (lambda n: SinusoidalPositionalEncoding(4, n).table, 3),
    "sinusoidal d_model": (lambda n: SinusoidalPositionalEncoding(n, 3).table, 4),
    "slopes num_heads": (alibi_slopes, 6),
    "t5 num_heads": (lambda n: T5RelativeBias(n).weight.shape, 4),
    "t5 num_buckets": (lambda n: T5RelativeBias(4, num_buckets=n).weight.shape, 8),
    "t5 max_distance": (lambda n: t5_buckets(IDS, IDS, max_distance=n), 64),
    "attention num_heads": (lambda n: MultiHeadAttention(16, n).head_dim, 4),
    "attention num_kv_heads": (
        lambda n: MultiHeadAttention(16, 4, n).k.weight.shape,
        2,
    ),
    "attention d_model": (lambda n: MultiHeadAttention(n, 4).head_dim, 16),
    "cache num_layers": (lambda n: len(KVCache(n)._held), 2),
    "cache layer": (lambda n: KVCache(2).update(n, ZERO, ZERO)[0], 1),
    "decode n": (lambda n: decode_positions(3, n), 2),
    "decode cache_len": (lambda n: decode_positions(n, 2, torch.ones(1, 5).bool()), 3),
    "seed": (lambda n: seed_everything(n).initial_seed(), 3),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("kind", [np.int64, np.int8, Whole])
def test_p26_any_integer_is_a_size(name, kind):
    function, size = SIZES[name]
    torch.testing.assert_close(function(kind(size)), function(size))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("wrong", [True, np.True_, 2.0, np.float64(2), "2"])
def test_p26_another_type_is_refused_by_name(name, wrong):
    message = rf"{name.split()[-1]}.* must be an int.*got {type(wrong).__name__}"
    with pytest.raises(TypeError, match=message):
        SIZES[name][0](wrong)


def test_p26_a_tensor_of_one_integer_is_a_size_and_one_bool_is_not():
    assert TokenEmbedding(torch.tensor(5), 3).num_embeddings == 5
    with pytest.raises(TypeError, match="num_embeddings must be an int, got Tensor"):
        TokenEmbedding(torch.tensor(True), 3)


def test_p26_eviction():
    cache = KVCache(1)
    cache.update(0, ZERO, ZERO)
    cache.evict(np.int64(2))
    assert cache.update(0, ZERO, ZERO)[0].shape[2] == 4
    for wrong in (True, 1.0, np.float64(1)):
        with pytest.raises(TypeError, match="n must be an int"):
            cache.evict(wrong)


def test_p26_a_size_comes_back_as_an_int():
    for value in (5, np.int64(5), np.uint8(5), Whole(5)):
        assert type(check_size("n", value)) is type(check_integer("n", value)) is int
    assert type(TokenEmbedding(np.int64(5), 3).num_embeddings) is int


# P27: a default that the caller has set is no part of a formula.
OTHERS = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64]
)


def call_under(dtype, device, function, *tensors):
    torch.set_default_dtype(dtype)
    torch.set_default_device(device)
    try:
        return function(*tensors)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


@every_call
@OTHERS
def test_p27_the_default_dtype_changes_nothing(make, dtype):
    function, tensors = seeded(make, 2, 300)
    expected = function(*tensors)
    found = call_under(dtype, None, function, *tensors)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


@every_call
def test_p27_the_default_device_changes_nothing(make):
    function, tensors = seeded(make, 2, 300)
    expected = function(*tensors)
    found = call_under(torch.float32, "meta", function, *tensors)
    assert found.device == expected.device
    assert torch.equal(found, expected)


TABLES = {
    "sinusoidal": lambda: sinusoidal_table(3000, 10),
    "sinusoidal half": lambda: sinusoidal_table(3000, 9, 5e5, "half"),
    "sinusoidal module": lambda: SinusoidalPositionalEncoding(10, 3000).table,
    "slopes": lambda: alibi_slopes(12),
    "one_hot": lambda: one_hot(IDS, 3),
    "packed": lambda: packed_positions([3000, 2000]),
    "decoded": lambda: decode_positions(3001, 3),
}


@pytest.mark.parametrize("name", TABLES)
@OTHERS
def test_p27_the_default_dtype_changes_no_table(name, dtype):
    expected = TABLES[name]()
    found = call_under(dtype, None, TABLES[name])
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


# P32: how many rows there are is the table's to say.
@pytest.mark.parametrize("rows", [4, 6])
def test_p32_a_table_put_in_place_of_another(rows):
    for module, last in (
        (TokenEmbedding(5, 3, padding_idx=1), rows - 1),
        (LearnedPositionalEmbedding(4, 3, offset=1), rows - 2),
    ):
        module.weight = nn.Parameter(torch.randn(rows, 3))
        found = module(torch.tensor([last]))
        assert torch.equal(found, module.weight[-1:])
        with pytest.raises(IndexError, match=rf"{last + 1} .*{rows}"):
            module(torch.tensor([last + 1]))


def test_p32_what_a_module_says_of_its_table():
    module = TokenEmbedding(5, 3)
    module.weight = nn.Parameter(torch.randn(6, 4))
    assert (module.num_embeddings, module.dim) == (6, 4)
    assert repr(module) == "TokenEmbedding(6, 4)"
    with pytest.raises(IndexError, match=r"id 6 .*6 rows, ids 0 to 5"):
        module(torch.tensor([6]))
    table = torch.randn(6, 2)
    assert torch.equal(one_hot_lookup(torch.tensor([5]), table), table[5:])


def test_p32_a_padding_row_that_is_cut_away():
    module = TokenEmbedding(5, 3, padding_idx=4)
    module.weight = nn.Parameter(torch.randn(4, 3))
    for call in (module.reset_parameters, lambda: module(torch.tensor([0]))):
        with pytest.raises(IndexError, match=r"padding_idx 4 .*4 rows, -4 to 3"):
            call()
    module.weight = nn.Parameter(torch.randn(7, 3))
    module(torch.arange(7)).sum().backward()
    assert module.weight.grad.sum(1).tolist() == [3, 3, 3, 3, 0, 3, 3]


def test_p32_buckets_of_a_table_put_in_place_of_another():
    module, places = T5RelativeBias(2, num_buckets=8), torch.arange(300)
    module.weight = nn.Parameter(torch.randn(16, 2))
    used = t5_buckets(places, places, num_buckets=16)
    assert torch.equal(module(places, places)[0], module.weight[used].movedim(-1, 0))


# The rest of the module.
class Sub(torch.Tensor):
    """A tensor of another class."""


def test_what_may_be_read():
    ids = torch.tensor([0, 1])
    assert may_read(ids)
    assert may_read(nn.Parameter(ids, requires_grad=False))
    assert not may_read(ids.to("meta"))
    assert not may_read(ids.as_subclass(Sub))
    seen = []
    vmap(lambda x: seen.append(may_read(x)) or x)(ids)
    assert seen == [False]


def test_a_distributed_tensor_is_not_read():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        ids = distribute_tensor(torch.tensor([7]), mesh, [Replicate()])
        assert not may_read(ids)
        assert type(check_ids(ids, 5)) is type(ids)
    finally:
        torch.distributed.destroy_process_group()


def test_no_read_while_a_stream_is_captured(monkeypatch):
    ids = torch.tensor([7])
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert torch.equal(check_ids(ids, 5), ids)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with pytest.raises(IndexError, match="id 7"):
        check_ids(ids, 5)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_bounds_of_every_integer_type(dtype):
    info = torch.iinfo(dtype)
    ends = torch.tensor([info.min, info.max], dtype=dtype)
    check_ranges(Range(ends, info.min, info.max, ValueError))
    with pytest.raises(ValueError, match=str(info.max)):
        check_ranges(Range(ends, info.min, info.max - 1, ValueError))
    with pytest.raises(ValueError, match=str(info.min)):
        check_ranges(Range(ends, info.min + 1, info.max, ValueError))


@pytest.mark.parametrize(
    ("bounds", "value", "message"),
    [
        ({}, float("nan"), "n must be finite, got nan"),
        ({"above": 0}, 0.0, r"n must be finite and above 0, got 0\.0"),
        ({"at_least": 1}, 0.5, r"n must be finite and at least 1, got 0\.5"),
        ({"at_least": 1}, float("inf"), "n must be finite and at least 1, got inf"),
    ],
)
def test_numbers_out_of_bounds(bounds, value, message):
    with pytest.raises(ValueError, match=message):
        number("n", value, **bounds)


@pytest.mark.parametrize("value", [True, "1", None, torch.tensor(1.0), np.True_])
def test_numbers_of_another_type(value):
    with pytest.raises(TypeError, match="n must be a number, got"):
        number("n", value)
    assert number("n", np.float32(0.5)) == number("n", np.float64(0.5)) == 0.5


def test_masks():
    with pytest.raises(ValueError, match=r"must be \[2, 3\] or \[2, 4, 3\], got \[3\]"):
        check_mask(torch.ones(3).bool(), (2, 3), (2, 4, 3))
    mask = torch.ones(2, 3).bool()
    assert check_mask(mask, (2, 3)) is mask


# Nobody else checks what this module checks, nor asks torch what it is doing.
PRIVATE = ("torch._", "is_compiling", "is_tracing", "torch.uint8", "must be an int")


ROOM = Path(reading.__file__).parent
OTHERS_FILES = [p for p in ROOM.parent.rglob("*.py") if p.parent != ROOM]


@pytest.mark.parametrize("path", OTHERS_FILES, ids=lambda path: path.stem)
def test_checks_stand_in_one_room(path):
    text = path.read_text(encoding="utf-8")
    assert not [word for word in PRIVATE if word in text]
