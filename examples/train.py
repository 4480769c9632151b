"""Train the decoder on the sources of Python's standard library, which every machine has.

    python train.py                       # a small model, seconds on a laptop's CPU
    python train.py --steps 200 --resume  # go on from the newest checkpoint
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from model import Config, Decoder


def corpus(limit: int = 4_000_000) -> Tensor:
    """The standard library's top-level modules, as bytes."""
    text = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
    return torch.frombuffer(bytearray(text[:limit]), dtype=torch.uint8)


def batches(data: Tensor, batch: int, context: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless random windows: (tokens, the same a byte later), each (batch, context)."""
    while True:
        starts = torch.randint(len(data) - context - 1, (batch,))
        windows = torch.stack([data[start : start + context + 1] for start in starts.tolist()]).long().to(device)
        yield windows[:, :-1], windows[:, 1:]


def build_optimizer(model: nn.Module, learning_rate: float) -> AdamW:
    """Matrices decay; norms and biases do not."""
    parameters = list(model.parameters())
    return AdamW(
        [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=learning_rate,
        betas=(0.9, 0.95),
    )


def warmup_then_cosine(optimizer: Optimizer, warmup: int, steps: int) -> LambdaLR:
    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, steps - warmup))
        return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))

    return LambdaLR(optimizer, factor)


def save_checkpoint(folder: Path, step: int, model: nn.Module, optimizer: Optimizer, schedule: LambdaLR) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "rng": torch.get_rng_state(),
    }
    partial = folder / "writing.pt"
    torch.save(state, partial)
    partial.replace(folder / f"step{step:08d}.pt")


def load_checkpoint(folder: Path, model: nn.Module, optimizer: Optimizer, schedule: LambdaLR) -> int:
    """Restore the newest checkpoint, if there is one. Returns the step to go on from."""
    checkpoints = sorted(folder.glob("step*.pt"))
    if not checkpoints:
        return 0
    state = torch.load(checkpoints[-1], map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    torch.set_rng_state(state["rng"])
    return state["step"]


@torch.no_grad()
def evaluate(model: Decoder, data: Iterator[tuple[Tensor, Tensor]], rounds: int = 4) -> float:
    model.eval()
    losses = [model(*next(data)).item() for _ in range(rounds)]
    model.train()
    return sum(losses) / len(losses)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2, help="batches per optimizer step")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--no-checkpoint", action="store_true", help="keep every activation instead of recomputing")
    parser.add_argument("--save-every", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Config(
        context=args.context,
        width=args.width,
        heads=args.heads,
        layers=args.layers,
        checkpoint=not args.no_checkpoint,
    )
    model = Decoder(config).to(device)
    optimizer = build_optimizer(model, args.learning_rate)
    schedule = warmup_then_cosine(optimizer, warmup=max(1, args.steps // 10), steps=args.steps)
    first = load_checkpoint(args.out, model, optimizer, schedule) if args.resume else 0

    data = corpus()
    held_out = len(data) // 20
    training = batches(data[:-held_out], args.batch, args.context, device)
    validation = batches(data[-held_out:], args.batch, args.context, device)

    model.train()
    for step in range(first, args.steps):
        started = time.perf_counter()
        running = 0.0
        for _ in range(args.accumulate):
            tokens, targets = next(training)
            loss = model(tokens, targets) / args.accumulate
            loss.backward()
            running += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0 or step + 1 == args.steps:
            rate = args.accumulate * tokens.numel() / (time.perf_counter() - started)
            print(f"step {step:5d}  loss {running:.3f}  {rate:,.0f} bytes/s", flush=True)
        if (step + 1) % args.save_every == 0 or step + 1 == args.steps:
            save_checkpoint(args.out, step + 1, model, optimizer, schedule)
    print(f"validation loss {evaluate(model, validation):.3f}")
    print(model.write(b"def ").decode("latin-1"))


if __name__ == "__main__":
    main()
