"""`lib.tied_head`: the tie against everything that people do to a model."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import parametrize
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

from lib import tied_head as module
from lib.tied_head import (
    TiedLMHead,
    count_parameters,
    is_tied,
    resize_token_embeddings,
    tie_weights,
    tied_cross_entropy,
    untie,
)
from lib.token_embedding import TokenEmbedding
from lib.transformer import PRESETS, Transformer, generate

V, D = 10, 4


class Model(nn.Module):
    """The smallest model with two ends: a table, a layer, a head."""

    def __init__(self, bias=False, head_first=False, kind=TokenEmbedding, rows=V):
        super().__init__()
        embed = kind(rows, D)
        if head_first:
            self.head = TiedLMHead(embed, bias=bias)
        self.embed = embed
        self.body = nn.Linear(D, D)
        if not head_first:
            self.head = TiedLMHead(embed, bias=bias)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


IDS = torch.tensor([[1, 9, 3]])
both_orders = pytest.mark.parametrize("head_first", [False, True])


def assert_tied(model, rows=V):
    """One table, read by both ends, and trained by both."""
    assert is_tied(model.embed, model.head)
    tables = [
        n for n, p in model.named_parameters() if rows in p.shape and p.dim() == 2
    ]
    assert tables == ["embed.weight"]
    parameter = model.embed.weight
    assert isinstance(parameter, nn.Parameter)
    if parameter.is_meta:
        return
    device = parameter.device
    hidden = torch.eye(D, dtype=parameter.dtype, device=device)
    with torch.no_grad():
        parameter[rows - 1] += 1
        assert torch.equal(
            model.head(hidden), F.linear(hidden, parameter, model.head.bias)
        )
    model.zero_grad()
    model(IDS.to(device)).float().square().sum().backward()
    assert (parameter.grad != 0).any(1).all()  # the head reaches every row
    model.zero_grad()


def test_logits_are_products_with_rows(device):
    table = TokenEmbedding(V, D, device=device)
    head = TiedLMHead(table, bias=True)
    with torch.no_grad():
        head.bias.copy_(torch.arange(V))
    hidden = torch.randn(2, 3, D, device=device)
    logits = head(hidden)
    assert logits.shape == (2, 3, V)
    for row in range(V):
        expected = hidden @ table.weight[row] + row
        torch.testing.assert_close(logits[..., row], expected)


def test_owns_nothing_and_draws_nothing():
    table = TokenEmbedding(V, D)
    before = torch.get_rng_state()
    head, with_bias = TiedLMHead(table), TiedLMHead(table, bias=True)
    untie(table, with_bias)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(head.parameters()) == []
    assert list(head.children()) == []
    assert head.state_dict() == {}
    assert list(with_bias.state_dict()) == ["bias"]
    assert with_bias.bias.count_nonzero() == 0


def test_sizes_and_repr():
    table = TokenEmbedding(V, D)
    assert repr(TiedLMHead(table)) == "TiedLMHead(4, 10)"
    shown = repr(TiedLMHead(table, bias=True, scale=0.5))
    assert shown == "TiedLMHead(4, 10, bias=True, scale=0.5)"


def test_both_ends_add_their_gradients(device):
    table = TokenEmbedding(V, D, device=device)
    head, factor = TiedLMHead(table), torch.randn(3, V, device=device)
    ids = torch.tensor([1, 1, 7], device=device)
    (head(table(ids)) * factor).sum().backward()
    two = [table.weight.detach().clone().requires_grad_() for _ in range(2)]
    (two[0][ids] @ two[1].T * factor).sum().backward()
    torch.testing.assert_close(table.weight.grad, two[0].grad + two[1].grad)
    assert two[0].grad.any(1).nonzero().flatten().tolist() == [1, 7]
    assert two[1].grad.any(1).all()


# ---- What a model goes through.


@both_orders
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [TokenEmbedding, nn.Embedding])
def test_copies_and_files(head_first, bias, kind, tmp_path):
    model = Model(bias, head_first, kind)
    torch.save(model, tmp_path / "model.pt")
    again = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(tmp_path / "model.pt", weights_only=False),
        copy.deepcopy(copy.deepcopy(model)),
    ]
    for copied in again:
        assert torch.equal(copied(IDS), model(IDS))
        assert copied.embed.weight is not model.embed.weight
        assert_tied(copied)
        # The guard of the copy watches the copy.
        state = model.state_dict() | {"head.weight": torch.ones(V, D)}
        with pytest.raises(ValueError, match="differ"):
            copied.load_state_dict(state)
        copied.load_state_dict(model.state_dict())


@both_orders
def test_moves(device, head_first):
    model = Model(True, head_first)
    for target in (torch.float64, torch.bfloat16, torch.float32, device, "cpu"):
        if device.type == "mps" and target is torch.float64:
            continue
        model = model.to(target)
        assert_tied(model)
    assert_tied(model.half().float())


def test_moves_that_make_new_parameters():
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model = Model()
        old = model.embed.weight
        assert_tied(model.double())
        assert model.embed.weight is not old
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


@pytest.mark.parametrize("bias", [False, True])
def test_meta_device(bias):
    with torch.device("meta"):
        model = Model(bias)
    assert model.embed.weight.is_meta
    assert_tied(model)
    model.to_empty(device="cpu")
    for part in model.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    assert not bias or model.head.bias.count_nonzero() == 0
    assert_tied(model)


@both_orders
@pytest.mark.parametrize("bias", [False, True])
def test_a_replaced_weight_is_seen(head_first, bias):
    model = Model(bias, head_first)
    model.embed.weight = nn.Parameter(torch.randn(V, D))
    assert_tied(model)
    swapped = {"embed.weight": torch.zeros(V, D)}
    logits = torch.func.functional_call(model, swapped, IDS)
    assert logits.count_nonzero() == 0
    assert_tied(model)


def test_a_replaced_module_is_tied_again():
    model = Model(bias=True)
    model.embed = TokenEmbedding(V, D)
    assert not is_tied(model.embed, model.head)
    assert tie_weights(model.embed, model.head) is model.head
    assert_tied(model)
    state = model.state_dict() | {"head.weight": torch.ones(V, D)}
    with pytest.raises(ValueError, match="differ"):
        model.load_state_dict(state)


def test_the_weight_cannot_be_set_on_the_head():
    head = TiedLMHead(TokenEmbedding(V, D))
    with pytest.raises(KeyError, match="weight"):
        head.weight = nn.Parameter(torch.zeros(V, D))


@both_orders
def test_torch_compile(head_first):
    model = Model(True, head_first)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for ids in (IDS, torch.tensor([[0, 2], [4, 5]])):
        assert torch.equal(compiled(ids), model(ids))
    with torch.no_grad():
        model.embed.weight.add_(1)
    assert torch.equal(compiled(IDS), model(IDS))
    model.embed.weight = nn.Parameter(torch.randn(V, D))
    assert torch.equal(compiled(IDS), model(IDS))
    assert_tied(model)


def test_torch_export_sees_one_table():
    exported = torch.export.export(Model(), (IDS,))
    assert set(exported.state_dict) == {"embed.weight", "body.weight", "body.bias"}


class Doubled(nn.Module):
    """A parametrization: what is used is twice what is stored."""

    def forward(self, weight):
        return 2 * weight


@pytest.fixture(params=["head", "linear"])
def wrapped(request):
    """A table whose weight is computed, and a head that was tied to it before."""
    table = TokenEmbedding(V, D)
    if request.param == "head":
        head = TiedLMHead(table, bias=True)
    else:
        head = tie_weights(table, nn.Linear(D, V))
    parametrize.register_parametrization(table, "weight", Doubled())
    return table, head


def test_p25_a_tie_is_seen_where_the_table_is_parametrized():
    table = TokenEmbedding(V, D)
    head = TiedLMHead(table, bias=True)
    for _ in range(2):  # one around another
        parametrize.register_parametrization(table, "weight", Doubled())
        assert is_tied(table, head)
        hidden = torch.randn(2, D)
        assert torch.equal(head(hidden), F.linear(hidden, table.weight, head.bias))
    assert count_parameters(nn.Sequential(table, head)) == V * D + V
    assert not is_tied(TokenEmbedding(V, D), head)
    own = untie(table, head)
    assert torch.equal(own(hidden), head(hidden))
    assert not is_tied(table, own)
    assert own.weight.requires_grad
    model = Model()
    parametrize.register_parametrization(model.embed, "weight", Doubled())
    again = copy.deepcopy(model)
    again.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    assert is_tied(again.embed, again.head)
    parametrize.remove_parametrizations(model.embed, "weight")
    assert is_tied(model.embed, model.head)


def test_p25_a_layer_that_reads_what_is_stored_is_not_tied():
    table = TokenEmbedding(V, D)
    head = tie_weights(table, nn.Linear(D, V))
    parametrize.register_parametrization(table, "weight", Doubled())
    assert not is_tied(table, head)


def test_p25_what_cannot_be_put_in_place_is_refused(wrapped):
    table, head = wrapped
    before = head.weight
    for arguments in ((12,), (8, 16), (3,)):
        with pytest.raises(ValueError, match=r"computed weights.*remove_param"):
            resize_token_embeddings(table, head, *arguments)
    assert torch.equal(head.weight, before)
    with pytest.raises(ValueError, match=r"computed weights.*remove_param"):
        tie_weights(table, nn.Linear(D, V))
    assert tie_weights(table, TiedLMHead(TokenEmbedding(V, D))).embedding is table


def replicate(model):
    """Rebuild a tree as `torch.nn.parallel.replicate` does, on one device."""
    modules = list(model.modules())
    copies = {part: part._replicate_for_data_parallel() for part in modules}
    for part in modules:
        for name, child in part._modules.items():
            setattr(copies[part], name, copies[child])
        for name, weight in part._parameters.items():
            setattr(copies[part], name, None if weight is None else weight.clone())
    return copies[model]


@both_orders
def test_p7_replicas_of_data_parallel_are_refused(head_first):
    models = [Model(head_first=head_first), Transformer(PRESETS["tiny"])]
    for model in models:
        with pytest.raises(RuntimeError, match=r"DataParallel .* a tied head"):
            replicate(model)
    untied = Transformer(replace(PRESETS["tiny"], tied=False))
    replica = replicate(untied)
    assert torch.equal(replica(IDS), untied(IDS))


def test_p7_a_head_copied_alone_has_a_table_of_its_own():
    table = TokenEmbedding(V, D)
    head, hidden = TiedLMHead(table, bias=True), torch.randn(2, D)
    wanted = head(hidden)
    for copied in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert torch.equal(copied(hidden), wanted)
        assert is_tied(copied.embedding, copied)
        assert not is_tied(table, copied)
        with torch.no_grad():
            copied.embedding.weight.add_(1)
    assert torch.equal(head(hidden), wanted)


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_p17_a_resized_model_knows_its_size(tied):
    config = replace(PRESETS["tiny"], tied=tied)
    model = Transformer(config).eval()
    before = count_parameters(model)
    for rows in (260, 100):
        resize_token_embeddings(model.embedding, model.head, rows)
        other = model.with_options(position="none")
        assert other.config.vocab_size == len(other.embedding.weight) == rows
        assert other.embedding.weight.data_ptr() == model.embedding.weight.data_ptr()
        ids = torch.tensor([[rows - 1, 0, 3]])
        assert model(ids).shape == other(ids).shape == (1, 3, rows)
        written = generate(model, ids, 4)
        assert written.shape == (1, 7)
        assert written.max() < rows
        with pytest.raises(IndexError, match=f"id {rows} .* {rows} rows"):
            other(torch.tensor([[rows]]))
        wanted = before + (rows - 256) * config.d_model * (1 if tied else 2)
        assert count_parameters(model) == count_parameters(other) == wanted


def test_p17_an_untied_model_knows_that_it_is():
    model = Transformer(PRESETS["tiny"])
    model.head = untie(model.embedding, model.head)
    other = model.with_options(position="none")
    assert not is_tied(other.embedding, other.head)
    assert other.head.weight.data_ptr() == model.head.weight.data_ptr()


# ---- Loading.


# T1: assign=True replaces Parameters; a head with one of its own would lose the tie.
@both_orders
@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("meta", [False, True])
def test_loading_keeps_the_tie(head_first, assign, meta):
    source = Model(True, head_first)
    with torch.device("meta" if meta and assign else "cpu"):
        model = Model(True, head_first)
    keys = model.load_state_dict(source.state_dict(), strict=True, assign=assign)
    assert keys.missing_keys == keys.unexpected_keys == []
    assert torch.equal(model(IDS), source(IDS))
    assert_tied(model)


# T3: a state has one key for the pair, and a file with either key will do.
@both_orders
@pytest.mark.parametrize("bias", [False, True])
def test_safetensors(head_first, bias, tmp_path):
    source, path = Model(bias, head_first), tmp_path / "model.safetensors"
    state = source.state_dict()
    assert [key for key in state if "weight" in key and "body" not in key] == [
        "embed.weight"
    ]
    safetensors.torch.save_file(state, path)  # refuses tensors that share memory
    model = Model(bias, head_first)
    model.load_state_dict(safetensors.torch.load_file(path), strict=True)
    assert torch.equal(model(IDS), source(IDS))
    safetensors.torch.save_model(source, path)
    model = Model(bias, head_first)
    assert safetensors.torch.load_model(model, path, strict=True) == (set(), [])
    assert torch.equal(model(IDS), source(IDS))
    assert_tied(model)


@both_orders
@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("names", [["embed"], ["head"], ["embed", "head"]])
def test_a_state_with_either_key_or_both(head_first, assign, strict, names):
    model, table = Model(True, head_first), torch.randn(V, D)
    state = model.state_dict()
    del state["embed.weight"]
    state |= {f"{name}.weight": table.clone() for name in names}
    keys = model.load_state_dict(state, strict=strict, assign=assign)
    assert keys.missing_keys == keys.unexpected_keys == []
    assert torch.equal(model.embed.weight, table)
    assert_tied(model)


@both_orders
def test_a_state_with_neither_key(head_first):
    model = Model(head_first=head_first)
    state = model.state_dict()
    del state["embed.weight"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"embed\.weight"'):
        model.load_state_dict(state)
    keys = model.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["embed.weight"]


# T5: two tables in the state of a model that has one.
@both_orders
@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("change", ["one number", "every number", "shape"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_differing_head_is_refused(head_first, assign, strict, change, nested):
    model = Model(head_first=head_first)
    table = model.embed.weight.detach().clone()
    if change == "one number":
        table[3, 2] += 1e-6
    elif change == "every number":
        table += 1
    else:
        table = table[:-1]
    state = model.state_dict() | {"head.weight": table}
    if nested:
        model = nn.Sequential(nn.Identity(), nn.ModuleDict({"lm": model}))
        state = {f"1.lm.{key}": value for key, value in state.items()}
    said = {"one number": "1 of 10", "every number": "10 of 10", "shape": r"\(9, 4\)"}
    with pytest.raises(
        ValueError, match=rf"head\.weight.*embed\.weight.*{said[change]}"
    ):
        model.load_state_dict(state, strict=strict, assign=assign)


@both_orders
def test_a_head_that_rounds_to_the_same_is_the_same(head_first):
    model = Model(head_first=head_first).bfloat16()
    wide = torch.randn(V, D)
    state = model.state_dict() | {"embed.weight": wide, "head.weight": wide.clone()}
    model.load_state_dict(state)
    assert torch.equal(model.embed.weight, wide.bfloat16())


@both_orders
def test_one_load_leaves_nothing_for_the_next(head_first):
    model = Model(head_first=head_first)
    table = torch.randn(V, D)
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"weight"'):
        model.head.load_state_dict({"weight": table})
    model.head.load_state_dict({"weight": table}, strict=False)
    model.embed.load_state_dict({"weight": table + 1})  # not compared with the above
    model.head.load_state_dict({})
    model.load_state_dict(Model().state_dict())
    with pytest.raises(ValueError, match="differ"):
        model.load_state_dict(model.state_dict() | {"head.weight": table})


def test_two_heads_on_one_table():
    model = Model(bias=True)
    model.second = TiedLMHead(model.embed)
    state, table = model.state_dict(), torch.randn(V, D)
    del state["embed.weight"]
    state |= {"head.weight": table, "second.weight": table}
    model.load_state_dict(state)
    assert torch.equal(model.second.weight, table)
    state["second.weight"] = table + 1
    with pytest.raises(ValueError, match=r"second\.weight.*differ"):
        model.load_state_dict(state)


# ---- FSDP2.


@pytest.fixture
def one_process(tmp_path):
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def sharded(model, mesh, *groups):
    for group in groups:
        fully_shard(group, mesh=mesh)
    return fully_shard(model, mesh=mesh)


# T11: a Parameter may lie in one group of FSDP2.
def test_no_second_group_gets_the_table():
    model = Model()
    assert list(model.head.parameters(recurse=True)) == []
    table = [
        n for n, p in model.named_parameters(remove_duplicate=False) if V in p.shape
    ]
    assert table == ["embed.weight"]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@both_orders
@pytest.mark.parametrize("groups", ["root", "body", "pair"])
def test_fsdp2(one_process, head_first, groups):
    model = Model(True, head_first)
    twin = copy.deepcopy(model)
    inner = {
        "root": [],
        "body": [model.body],
        "pair": [[model.embed, model.head], model.body],
    }[groups]
    sharded(model, one_process, *inner)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    for _ in range(2):
        for m, optimizer in zip((model, twin), optimizers, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(m(IDS)[0], IDS[0]).backward()
            optimizer.step()
    assert is_tied(model.embed, model.head)
    for name, parameter in twin.named_parameters():
        found = model.state_dict()[name].full_tensor()
        torch.testing.assert_close(found, parameter.detach())


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_fsdp2_refuses_a_shared_parameter_in_two_groups(one_process):
    """What the head is spared: the same model with a shared Parameter."""
    embed, head = nn.Embedding(V, D), nn.Linear(D, V, bias=False)
    tie_weights(embed, head)
    model = sharded(nn.Sequential(embed, head), one_process, embed, head)
    with pytest.raises(ValueError, match="already managed by another FSDP group"):
        model(IDS)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_fsdp2_with_the_table_alone_in_a_group_says_so(one_process):
    model = Model()
    sharded(model, one_process, model.embed)
    with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
        model(IDS)


# ---- Scales.


@pytest.fixture
def t5():
    config = T5Config(
        vocab_size=23, d_model=16, d_kv=4, d_ff=8, num_layers=1, num_heads=2
    )
    return T5ForConditionalGeneration(config).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scale_equals_t5(t5, dtype):
    t5.to(dtype)
    head = TiedLMHead(t5.get_input_embeddings(), scale=16**-0.5)
    ids, seen = torch.randint(0, 23, (2, 5)), []
    t5.decoder.register_forward_hook(lambda *args: seen.append(args[2][0]))
    logits = t5(input_ids=ids, decoder_input_ids=ids).logits
    assert torch.equal(head(seen[0]), logits)
    assert not torch.equal(TiedLMHead(t5.get_input_embeddings())(seen[0]), logits)


def test_scale_is_t5s_only_where_t5_ties():
    config = T5Config(
        vocab_size=23,
        d_model=16,
        d_kv=4,
        d_ff=8,
        num_layers=1,
        num_heads=2,
        tie_word_embeddings=False,
    )
    t5 = T5ForConditionalGeneration(config).eval()
    ids, seen = torch.randint(0, 23, (2, 5)), []
    t5.decoder.register_forward_hook(lambda *args: seen.append(args[2][0]))
    logits = t5(input_ids=ids, decoder_input_ids=ids).logits
    assert torch.equal(F.linear(seen[0], t5.lm_head.weight), logits)


# T12: √d belongs to the lookup; the head reads the bare table. T13: as bf16 rounds it.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lookup_scale_and_bare_head_equal_gemma(dtype):
    config = GemmaConfig(
        vocab_size=23,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=8,
    )
    peer = GemmaForCausalLM(config).to(dtype).eval()
    table = TokenEmbedding(23, 24, scale=24**0.5, dtype=dtype)
    table.load_state_dict(peer.model.embed_tokens.state_dict())
    head, ids, seen = TiedLMHead(table), torch.randint(0, 23, (2, 5)), []
    peer.model.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    peer.lm_head.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
    peer(ids)
    assert torch.equal(table(ids), seen[0])
    hidden, logits = seen[1]
    assert torch.equal(head(hidden), logits)


@pytest.mark.parametrize(
    ("dim", "rounded"),
    [(1152, 34.0), (2048, 45.25), (2560, 50.5), (3072, 55.5), (3584, 59.75)],
)
def test_the_tables_scale_never_reaches_the_logits(dim, rounded):
    table = TokenEmbedding(4, dim, scale=dim**0.5, dtype=torch.bfloat16)
    head, hidden = TiedLMHead(table), torch.randn(3, dim).bfloat16()
    assert torch.equal(table(torch.arange(4)), table.weight * rounded)
    assert torch.equal(head(hidden), hidden @ table.weight.T)
    own = untie(table, head)
    assert torch.equal(own.weight, table.weight)


# ---- Tying and untying.


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_untie_keeps_logits_and_parts_the_tables(device, bias, dtype):
    table = TokenEmbedding(V, D, device=device, dtype=dtype)
    head = TiedLMHead(table, bias=bias).eval()
    if bias:
        nn.init.normal_(head.bias)
    own = untie(table, head)
    hidden = torch.randn(3, D, device=device, dtype=dtype)
    expected = head(hidden)
    assert type(own) is nn.Linear
    assert not own.training
    assert not is_tied(table, own)
    assert is_tied(table, head)
    assert torch.equal(own(hidden), expected)
    with torch.no_grad():
        table.weight.zero_()
        if bias:
            head.bias.zero_()
    assert torch.equal(own(hidden), expected)
    assert count_parameters(nn.Sequential(table, own)) == 2 * V * D + bias * V


def test_untie_folds_the_scale_in():
    table = TokenEmbedding(V, D)
    head = TiedLMHead(table, bias=True, scale=D**-0.5)
    nn.init.normal_(head.bias)
    hidden = torch.randn(3, D)
    torch.testing.assert_close(untie(table, head)(hidden), head(hidden))


@pytest.mark.parametrize("frozen", [False, True])
def test_untie_of_a_shared_parameter(frozen):
    table, head = nn.Embedding(V, D), nn.Linear(D, V)
    tie_weights(table, head)
    table.weight.requires_grad_(not frozen)
    own, hidden = untie(table, head), torch.randn(2, D)
    assert torch.equal(own(hidden), head(hidden))
    assert own.weight.requires_grad == (not frozen)
    with pytest.raises(ValueError, match="not tied"):
        untie(table, own)


def test_tie_weights_of_a_linear_layer():
    table, head = nn.Embedding(V, D), nn.Linear(D, V)
    assert not is_tied(table, head)
    assert tie_weights(table, head) is head
    assert head.weight is table.weight
    hidden = torch.randn(2, D)
    assert torch.equal(head(hidden), F.linear(hidden, table.weight, head.bias))


def test_equal_numbers_are_no_tie():
    table, head = nn.Embedding(V, D), nn.Linear(D, V)
    head.load_state_dict({"weight": table.weight, "bias": torch.zeros(V)})
    assert not is_tied(table, head)
    head.weight = nn.Parameter(table.weight.detach())  # one memory, two Parameters
    assert not is_tied(table, head)
    assert not is_tied(table, TiedLMHead(nn.Embedding(V, D)))


@pytest.mark.parametrize("shape", [(V + 1, D), (V, D + 1), (D, V)])
def test_tie_weights_of_another_shape(shape):
    table, rows = nn.Embedding(V, D), tuple(shape)
    for head in (nn.Linear(rows[1], rows[0]), TiedLMHead(nn.Embedding(*rows))):
        message = rf"\({rows[0]}, {rows[1]}\).*\({V}, {D}\)"
        with pytest.raises(ValueError, match=message):
            tie_weights(table, head)


# ---- Counting.


# T9: a shared weight counts once.
def test_count_of_a_small_pair():
    table = TokenEmbedding(V, D)
    assert count_parameters(nn.Sequential(table, TiedLMHead(table))) == 40
    assert count_parameters(nn.Sequential(table, TiedLMHead(table, bias=True))) == 50
    shared = nn.Sequential(table, tie_weights(table, nn.Linear(D, V, bias=False)))
    assert count_parameters(shared) == 40
    assert count_parameters(nn.Sequential(table, nn.Linear(D, V, bias=False))) == 80
    assert count_parameters(TiedLMHead(table)) == 0


@pytest.mark.parametrize(("tied", "total"), [(True, 124_439_808), (False, 163_037_184)])
def test_count_of_gpt_2(tied, total):
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config())
        table = model.transformer.wte
        head = TiedLMHead(table)
        model.lm_head = head if tied else untie(table, head)
    assert count_parameters(model) == total
    assert model.transformer.wte.weight.is_meta


# T15: groups for an optimiser, made from names or module by module.
@pytest.mark.parametrize("remove_duplicate", [False, True])
def test_groups_of_an_optimiser_hold_each_parameter_once(remove_duplicate):
    model = Model(bias=True)
    by_name = list(model.named_parameters(remove_duplicate=remove_duplicate))
    by_module = [p for m in model.modules() for p in m.parameters(recurse=False)]
    assert {id(p) for _, p in by_name} == {id(p) for p in by_module}
    assert len(by_name) == len(by_module) == len({id(p) for p in by_module})
    decay = [p for _, p in by_name if p.dim() == 2]
    rest = [p for _, p in by_name if p.dim() != 2]
    torch.optim.AdamW([{"params": decay}, {"params": rest, "weight_decay": 0.0}])
    assert sum(p.numel() for p in decay + rest) == count_parameters(model)


# ---- Resizing.


def rows_after(n, multiple):
    """Count up until the rows suffice and divide."""
    while multiple is not None and n % multiple:
        n += 1
    return n


# T7: the bias follows, both ways.
@pytest.mark.parametrize("n", [20, 25, 15, 1])
@pytest.mark.parametrize("multiple", [None, 1, 8, 64])
@pytest.mark.parametrize("how", ["head", "shared", "own"])
@pytest.mark.parametrize("bias", [False, True])
def test_resizing(device, n, multiple, how, bias):
    torch.manual_seed(0)
    table = TokenEmbedding(20, D, std=0.5, device=device)
    head = nn.Linear(D, 20, bias=bias, device=device)
    if how == "head":
        head = TiedLMHead(table, bias=bias)
    elif how == "shared":
        tie_weights(table, head)
    if bias:
        nn.init.normal_(head.bias)
    old = [table.weight.clone(), head.weight.clone(), head.bias]
    assert resize_token_embeddings(table, head, n, multiple) == (table, head)
    rows = rows_after(n, multiple)
    kept = min(rows, 20)
    assert table.num_embeddings == head.out_features == rows
    assert table.weight.shape == head.weight.shape == (rows, D)
    assert torch.equal(table.weight[:kept], old[0][:kept])
    assert torch.equal(head.weight[:kept], old[1][:kept])
    assert (table.weight[kept:] != 0).all()
    assert is_tied(table, head) == (how != "own")
    if bias:
        assert head.bias.shape == (rows,)
        assert torch.equal(head.bias[:kept], old[2][:kept])
        assert head.bias[kept:].count_nonzero() == 0
    logits = head(table(torch.tensor([0, rows - 1], device=device)))
    assert logits.shape == (2, rows)
    logits.sum().backward()
    with pytest.raises(IndexError, match=f"id {rows} "):
        table(torch.tensor([rows], device=device))


@given(st.integers(1, 40), st.integers(1, 40), st.none() | st.integers(1, 17))
def test_any_resizing(before, n, multiple):
    model = Model(bias=True, rows=before)
    old = model.embed.weight.clone()
    resize_token_embeddings(model.embed, model.head, n, multiple)
    rows = rows_after(n, multiple)
    kept = min(before, rows)
    assert model.head.out_features == model.embed.num_embeddings == rows
    assert torch.equal(model.embed.weight[:kept], old[:kept])
    assert list(model.state_dict()) == list(Model(bias=True).state_dict())


@both_orders
def test_a_resized_model_stays_tied(head_first):
    model = Model(True, head_first)
    resize_token_embeddings(model.embed, model.head, 13, pad_to_multiple_of=8)
    assert_tied(model, rows=16)
    again = Model(True, head_first, rows=16)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(IDS), model(IDS))


def test_new_rows_are_drawn_like_the_table():
    table = TokenEmbedding(2, 100, std=0.3)
    resize_token_embeddings(table, TiedLMHead(table), 2000)
    assert table.weight[2:].std().item() == pytest.approx(0.3, rel=0.02)
    table = nn.Embedding(2, 100)
    resize_token_embeddings(table, TiedLMHead(table), 2000)
    assert table.weight[2:].std().item() == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_resizing_keeps_dtype_device_and_freezing(dtype):
    for place in ("cpu", "meta"):
        table = TokenEmbedding(V, D, dtype=dtype, device=place)
        head = TiedLMHead(table, bias=True)
        table.weight.requires_grad_(False)
        resize_token_embeddings(table, head, 12)
        assert table.weight.dtype == head.bias.dtype == dtype
        assert table.weight.device.type == head.bias.device.type == place
        assert not table.weight.requires_grad
        assert head.bias.requires_grad


def test_resizing_keeps_the_padding_row():
    table = TokenEmbedding(V, D, padding_idx=7)
    head = TiedLMHead(table, bias=True)
    resize_token_embeddings(table, head, 8)
    assert table.weight[7].count_nonzero() == 0
    before = table.weight, head.bias
    with pytest.raises(IndexError, match=r"padding_idx 7 .* 7 rows"):
        resize_token_embeddings(table, head, 7)
    assert (table.weight, head.bias) == before  # refused whole
    resize_token_embeddings(table, head, 7, pad_to_multiple_of=8)


@pytest.mark.parametrize("number", [0, -1])
def test_resizing_to_fewer_than_one_row(number):
    pair = Model().embed, Model().head
    with pytest.raises(ValueError, match=f"n must be at least 1, got {number}"):
        resize_token_embeddings(*pair, number)
    with pytest.raises(
        ValueError, match=f"multiple_of must be at least 1, got {number}"
    ):
        resize_token_embeddings(*pair, 8, number)


@pytest.mark.parametrize("number", [8.0, "8", True])
def test_resizing_to_a_number_of_another_type(number):
    pair = Model().embed, Model().head
    with pytest.raises(TypeError, match="n must be an int"):
        resize_token_embeddings(*pair, number)
    with pytest.raises(TypeError, match="pad_to_multiple_of must be an int"):
        resize_token_embeddings(*pair, 8, number)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_p26_sizes_of_numpy(kind):
    model = Model(bias=True)
    resize_token_embeddings(model.embed, model.head, kind(11), kind(8))
    assert model.head.out_features == model.embed.num_embeddings == 16
    assert type(model.embed.num_embeddings) is int
    scaled = TiedLMHead(model.embed, scale=np.float32(0.5))
    hidden = torch.randn(2, D)
    assert torch.equal(scaled(hidden), 0.5 * hidden @ model.embed.weight.T)


# ---- Bad input.


@pytest.mark.parametrize("width", [1, D - 1, D + 1])
def test_hidden_states_of_another_width(width):
    head = TiedLMHead(TokenEmbedding(V, D))
    with pytest.raises(ValueError, match=rf"\(2, {width}\).*\({V}, {D}\)"):
        head(torch.zeros(2, width))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_hidden_states_that_are_integers(dtype):
    with pytest.raises(TypeError, match=f"floating point, got {dtype}"):
        TiedLMHead(TokenEmbedding(V, D))(torch.zeros(2, D, dtype=dtype))


def test_a_scalar_is_no_hidden_state():
    with pytest.raises(ValueError, match=r"\(\)"):
        TiedLMHead(TokenEmbedding(V, D))(torch.tensor(1.0))


@pytest.mark.parametrize(
    "thing", [nn.Identity(), nn.LayerNorm(4), nn.Conv1d(1, 1, 1), torch.zeros(V, D)]
)
def test_what_is_no_embedding(thing):
    with pytest.raises(TypeError, match=r"weight \[V, d\]"):
        TiedLMHead(thing)


@pytest.mark.parametrize(
    ("scale", "error"),
    [("1", TypeError), (True, TypeError), (None, TypeError)]
    + [(x, ValueError) for x in (float("nan"), float("inf"))],
)
def test_scales_that_are_no_numbers(scale, error):
    with pytest.raises(error, match=str(scale)):
        TiedLMHead(TokenEmbedding(V, D), scale=scale)


def test_all_names_are_here():
    assert module.tied_cross_entropy is tied_cross_entropy
    assert all(callable(getattr(module, name)) for name in module.__all__)


def test_a_head_tied_elsewhere_is_refused_before_anything_changes():
    table, head = TokenEmbedding(5, 3), TiedLMHead(TokenEmbedding(5, 3))
    with pytest.raises(ValueError, match="tied to another embedding"):
        resize_token_embeddings(table, head, 9)
    assert (table.num_embeddings, head.out_features) == (5, 5)


def test_p6_what_is_made_under_inference_mode_can_be_trained():
    table = TokenEmbedding(5, 3)
    head = TiedLMHead(table)
    with torch.inference_mode():
        resize_token_embeddings(table, head, 8)
        own = untie(table, head)
    for last in (head, own):
        last(table(torch.tensor([1]))).sum().backward()
    assert own.weight.grad.isfinite().all()


def test_p8_equal_states_with_a_nan_are_equal():
    model = nn.Module()
    model.table = TokenEmbedding(5, 3)
    model.head = TiedLMHead(model.table)
    rows = torch.randn(5, 3)
    rows[2, 1] = torch.nan
    model.load_state_dict({"table.weight": rows, "head.weight": rows.clone()})
    assert model.table.weight.isnan().sum() == 1
    others = rows.clone()
    others[2, 1] = 0
    with pytest.raises(ValueError, match="1 of 5 rows"):
        model.load_state_dict({"table.weight": rows, "head.weight": others})
