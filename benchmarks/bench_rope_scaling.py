"""Read texts past the trained length with SmolLM2 under every scaling of RoPE.

`python -m benchmarks rope_scaling` reads three stretches of the King James text, 12,288
tokens each, once under every scaling, and saves `results/rope_scaling.json`. One
reading gives three things:

- the loss of each token, averaged over every 1,024 places;
- whether the model can still say a number that was planted 512 to 11,776 tokens back:
  it can if each of the five digits is the likeliest next token;
- the entropy of attention, by the length and with the scaling's own factor or none.

The planted sentences are part of the text, but their own loss is not counted. A text
is read in pieces with a cache, so that memory stays small. `--texts 1` reads the first
alone.
"""

import argparse
import copy
import random
import time

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import keep_freed_memory, machine, save, table
from lib.corpus import load_kjv
from lib.kv_cache import KVCache
from lib.rope_scaling import rope_inv_freq, wavelengths
from lib.smollm import load_smollm2
from lib.tied_head import tied_cross_entropy

TRAINED, TOKENS, PIECE, BUCKET, FACTOR = 8192, 12_288, 512, 1024, 2.0
STARTS = {"Ruth": 7128, "Isaiah": 17_655, "Luke": 24_894}  # the first verse of each
NAMES = ["alice", "kevin", "laura", "oscar", "nina", "diego"]
NAMES += ["sven", "yuki", "tara", "hugo", "wendy", "igor"]
ASK_AT = (1024, 4096, 8192, 12_288)  # tokens read when numbers are asked for
LAST = 16  # queries at the end of a piece whose attention is measured
UNCOUNTED = -100

# The list for long texts of Phi-3-mini-128k: 48 pairs, base 1e4, 4,096 to 131,072.
PHI3 = [1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.3, 1.45, 1.6, 1.65, 1.9, 2.86, 3.69, 5.42]
PHI3 += [5.49, 5.49, 9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01]
PHI3 += [32.35, 32.59, 35.56, 39.95, 53.84, 56.2, 57.95, 59.29, 59.77, 59.92, 61.19]
PHI3 += [61.96, 62.5, 63.37, 63.48, 63.48, 63.66, 63.85, 64.08, 64.76, 64.8] + [
    64.81
] * 2


def like_phi3() -> list[float]:
    """Carry Phi-3's list over: the same power of the factor at the same turns."""
    theirs = 4096 / wavelengths(rope_inv_freq(96, 1e4)).numpy()  # turns in training
    ours = TRAINED / wavelengths(rope_inv_freq(64, 1e5)).numpy()
    power = np.log(PHI3) / np.log(32)  # 0 keeps a pair, 1 divides it by the factor
    at = np.interp(np.log(ours), np.log(theirs[::-1]), power[::-1])
    return (FACTOR**at).tolist()


def ways() -> dict[str, dict]:
    """Name the options of the model for each way to read."""
    trained = {"original_max_position_embeddings": TRAINED, "factor": FACTOR}
    bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    lists = {"short_factor": like_phi3(), "long_factor": like_phi3()}
    parameters = {
        "PI": {"rope_type": "linear", "factor": FACTOR},
        "YaRN": {"rope_type": "yarn", **trained},
        "Llama 3": {"rope_type": "llama3", **trained, **bands},
        "LongRoPE-like": {"rope_type": "longrope", **trained, **lists},
        "YaRN, no factor": {"rope_type": "yarn", **trained, "attention_factor": 1.0},
        "slow pairs frozen": {
            "rope_type": "proportional",
            "partial_rotary_factor": 20 / 32,  # 12 of 32 pairs never finish a turn
        },
    }
    named = {name: {"rope_parameters": given} for name, given in parameters.items()}
    larger_base = {"rope_base": 1e5 * FACTOR ** (64 / 62)}
    return {"untouched": {}, "NTK": larger_base, **named}


def plant(tokenizer, verse: int, seed: int) -> tuple[Tensor, Tensor, list]:
    """Make a text of 12,288 tokens with a sentence to remember in every 1,024.

    Returns:
        ids `[1, T]`, targets `[T]` of which planted ones do not count, and for each
        sentence its place, name and number, and the ids of both its halves.
    """
    draw = random.Random(seed)
    words = (word for line in load_kjv()[verse:] for word in line)
    source = tokenizer.encode(" ".join(next(words) for _ in range(TOKENS))).ids
    ids, counted, needles = [], [], []
    for number, name in enumerate(NAMES):
        place = number * BUCKET + BUCKET // 2
        digits = "".join(str(draw.randrange(10)) for _ in range(5))
        asked = tokenizer.encode(f" the secret number of {name} is ").ids
        answer = tokenizer.encode(digits).ids
        begin = sum(counted)
        plain = source[begin : begin + place - len(ids)]
        ids += plain + asked + answer
        counted += [True] * len(plain) + [False] * (
            len(ids) - len(counted) - len(plain)
        )
        needles.append((place, name, digits, asked, answer))
    rest = source[sum(counted) :][: TOKENS - len(ids)]
    ids, counted = ids + rest, counted + [True] * len(rest)
    ids, counted = torch.tensor(ids), torch.tensor(counted)
    targets = ids.masked_fill(~counted, UNCOUNTED).roll(-1)
    targets[-1] = UNCOUNTED
    return ids[None], targets, needles


def watch(model, log: list[tuple[float, float]]) -> None:
    """Have a model write down its attention's entropy, as it is and with no factor.

    Args:
        model: with a position of its own, which is changed.
        log: takes two numbers a layer and piece, in nats, means over heads and queries.
    """
    position = model.position

    def attend(q, k, v, places, price):
        if q.shape[2] == PIECE:
            q16, k9 = q[:, :, -LAST:], k.repeat_interleave(q.shape[1] // k.shape[1], 1)
            scores = (q16 @ k9.mT) / q.shape[-1] ** 0.5  # [1, H, 16, keys]
            scores[..., -LAST:] += torch.full((LAST, LAST), -torch.inf).triu(1)
            factor = position.attention_factor**2
            log.append(tuple(entropy(scores / f) for f in (1, factor)))
        return type(position).attend(position, q, k, v, places, price)

    position.attend = attend


def entropy(scores: Tensor) -> float:
    """Mean entropy of the softmax of each row, in nats."""
    return torch.special.entr(scores.softmax(-1)).sum(-1).mean().item()


def ask(model, cache: KVCache, question: list[int], answer: list[int]) -> dict:
    """Ask for one number, with the cache left as it was."""
    ids = torch.tensor([question + answer[:-1]])
    hidden = model.hidden(ids, cache=copy.deepcopy(cache))[0, -len(answer) :]
    logits = model.head(hidden)  # [5, V]
    said = logits.argmax(-1).tolist()
    nats = torch.nn.functional.cross_entropy(logits, torch.tensor(answer)).item()
    return {"right": said == answer, "said": said, "nats a digit": nats}


@torch.inference_mode()
def read(model, text: tuple[Tensor, Tensor, list]) -> dict:
    """Read one text in pieces; ask for the numbers seen so far at some lengths."""
    ids, targets, needles = text
    cache, log, losses, answers = KVCache(model.config.num_layers), [], [], []
    watch(model, log)
    for start in range(0, TOKENS, PIECE):
        piece = slice(start, start + PIECE)
        hidden = model.hidden(ids[:, piece], cache=cache)[0]
        weight = model.embedding.weight
        losses.append(
            tied_cross_entropy(hidden, weight, targets[piece], reduction="none")
        )
        length = start + PIECE
        for place, name, number, *halves in needles if length in ASK_AT else ():
            if place < length:
                told = {"length": length, "place": place, "name": name}
                told |= {"number": number} | ask(model, cache, *halves)
                answers.append(told)
    return {
        "loss": buckets(torch.cat(losses), targets),
        "numbers": answers,
        "entropy": by_piece(log, 0),
        "entropy, no factor": by_piece(log, 1),
    }


def buckets(losses: Tensor, targets: Tensor) -> list[float]:
    """Average the losses that count over every 1,024 places."""
    total = losses.view(-1, BUCKET).sum(1)
    return (total / (targets != UNCOUNTED).view(-1, BUCKET).sum(1)).tolist()


def by_piece(log: list[tuple[float, float]], which: int) -> list[float]:
    """Average over the layers of each piece."""
    values = torch.tensor(log)[:, which].view(TOKENS // PIECE, -1)
    return values.mean(1).tolist()


def main() -> None:
    """Read, print and save after each text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=len(STARTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory(True)
    model, tokenizer = load_smollm2("cpu", torch.float32)
    readings = []
    for seed, (name, verse) in list(enumerate(STARTS.items()))[: arguments.texts]:
        text = plant(tokenizer, verse, seed)
        for way, options in ways().items():
            begin = time.perf_counter()
            found = read(model.with_options(**options), text)
            seconds = time.perf_counter() - begin
            readings.append({"text": name, "way": way, "seconds": seconds} | found)
            for told in found["numbers"]:
                told["said"] = tokenizer.decode(told["said"])
            right = sum(told["right"] for told in found["numbers"])
            row = {"text": name, "way": way, "s": seconds, "numbers": right}
            row |= {str(1024 * i): x for i, x in enumerate(found["loss"], 1)}
            print(table([row]), flush=True)
        setting = {"trained": TRAINED, "tokens": TOKENS, "bucket": BUCKET}
        setting |= {"factor": FACTOR, "piece": PIECE, "like Phi-3": like_phi3()}
        save("rope_scaling", {"machine": machine(), **setting, "readings": readings})


if __name__ == "__main__":
    main()
