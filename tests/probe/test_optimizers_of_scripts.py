"""What a script's optimizer and its loop take is what a real run of the script takes, or is said not to be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_scripts import HEAD, LOOP, peak_of, probed, script

if TYPE_CHECKING:
    from pathlib import Path

MADE = "model = Net()"
LION = """
class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    p.add_(mean.mul(0.9).add(p.grad).sign_(), alpha=-group["lr"])
                    mean.lerp_(p.grad, 0.01)
"""
OPTIMIZERS = [
    "torch.optim.AdamW(model.parameters(), amsgrad=True)",
    "torch.optim.RMSprop(model.parameters(), momentum=0.9, centered=True)",
    "torch.optim.Adagrad(model.parameters())",
    "torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)",
    "torch.optim.Adam(model.parameters(), capturable=False, foreach=True, weight_decay=0.1)",
    "torch.optim.Adamax(model.body.parameters())",
    "torch.optim.Adadelta([{'params': model.body.parameters()}, {'params': model.head.parameters(), 'lr': 1}])",
    "Lion(model.parameters())",
    "torch.optim.Muon([p for p in model.parameters() if p.dim() == 2])",
]


def write(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("made", OPTIMIZERS)
def test_its_state_is_what_a_real_run_keeps(made: str, tmp_path: Path) -> None:
    text = script(MADE, f"optimizer = {made}")
    path = write(tmp_path, text.replace("\ndef main", f"{LION}\ndef main", 1))
    assert probed(path, "Net").allocated_bytes == pytest.approx(peak_of(path), rel=0.02)


ADAMW = "optimizer = torch.optim.AdamW(model.parameters())"
STEP = "        optimizer.step()\n        optimizer.zero_grad()\n"
LOOPS = {
    "accumulating": LOOP.replace(
        STEP, "        if (step + 1) % 2 == 0:\n            optimizer.step()\n            optimizer.zero_grad()\n"
    ).replace("step == 1", "step == 3"),
    "clearing late": LOOP.replace(STEP, "        optimizer.step()\n").replace(
        "        loss.backward", "        optimizer.zero_grad()\n        loss.backward"
    ),
    "keeping zeros": LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
    "clipping": LOOP.replace(STEP, f"        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{STEP}"),
    "retaining": LOOP.replace("backward()", "backward(retain_graph=True)").replace("batch_size=16", "batch_size=32"),
    "averaging": LOOP.replace("    loss_of", "    ema = copy.deepcopy(model).requires_grad_(False)\n    loss_of", 1),
    "naming the output": LOOP.replace("loss_of(model(x), y)", "loss_of(out, y)").replace(
        "        loss =", "        out = model(x)\n        loss ="
    ),
}


@pytest.mark.parametrize("way", LOOPS)
def test_what_a_loop_keeps_is_counted(way: str, tmp_path: Path) -> None:
    path = write(tmp_path, script(MADE, ADAMW, loop=LOOPS[way]))
    assert probed(path).allocated_bytes == pytest.approx(peak_of(path), rel=0.02)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("while True:\n        for micro in range(4):\n            loss.backward()\n        opt.step()", 4),
        ("accum = 3\n    for i in []:\n        if i % accum == 0: opt.step()", 3),
        ("for i in []:\n        if i % args.depth == 0 or i == 9: opt.step()", 3),
        ("Accelerator(gradient_accumulation_steps=8)", 8),
        ("TrainingArguments('out', gradient_accumulation_steps=args.depth)", 3),
        ("pl.Trainer(accumulate_grad_batches=5)", 5),
        ("for i in []:\n        if i % 100 == 0: print(i)", 1),
        ("for i in []:\n        if i % 100 == 0: scheduler.step()", 1),
    ],
)
def test_how_many_batches_are_accumulated_is_read(lines: str, count: int, tmp_path: Path) -> None:
    from test_training_loop import LOADER, built  # noqa: PLC0415

    assert built(tmp_path, LOADER, lines).grad_accum == count


def test_of_two_models_one_is_probed_with_its_own_optimizer_and_the_other_is_said(tmp_path: Path) -> None:
    text = script(
        "critic = nn.Linear(7, 1)", MADE, "other = torch.optim.Adam(critic.parameters())",
        "optimizer = torch.optim.RMSprop(model.parameters())",
    )  # fmt: skip
    told = probed(write(tmp_path, text), "Net")
    assert "the optimizer is RMSprop, as train.py:29 makes it (--optimizer)" in told.assumptions
    assert "Adam at train.py:28 trains critic: neither is counted" in told.assumptions


def test_what_the_optimizer_leaves_out_is_said(tmp_path: Path) -> None:
    told = probed(write(tmp_path, script(MADE, "optimizer = torch.optim.Adam(model.head.parameters())")))
    said = "10 of the 12 parameters that have gradients are not the optimizer's"
    assert any(text.startswith(said) for text in told.assumptions)


def test_an_optimizer_that_needs_a_closure_is_said_not_to_be_simulated(tmp_path: Path) -> None:
    told = probed(write(tmp_path, script(MADE, "optimizer = torch.optim.LBFGS(model.parameters())")))
    assert any(text.startswith("LBFGS is not simulated: it keeps up to 200 copies") for text in told.assumptions)


def test_a_function_of_the_script_makes_it(tmp_path: Path) -> None:
    make = "def make(net):\n    return torch.optim.SGD([p for p in net.parameters() if p.dim() > 1], 0.1, 0.9)\n\n"
    text = script(MADE, "optimizer = make(model)").replace("def main", f"{make}def main", 1)
    path = write(tmp_path, text)
    assert HEAD in text
    assert probed(path).allocated_bytes == pytest.approx(peak_of(path), rel=0.02)


TEACHER = """
    teacher = Net(width=512).requires_grad_(False)
    loss_of = nn.CrossEntropyLoss()
    loader = DataLoader(Rows(), batch_size=16, shuffle=True)
    for step, (x, y) in enumerate(loader):
        with torch.no_grad():
            soft = teacher(x)
        loss = loss_of(model(x), soft.softmax(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1:
            break
"""


def test_a_teacher_s_parameters_are_counted_and_it_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, script(MADE, ADAMW, loop=TEACHER))
    told = probed(path)
    assert told.allocated_bytes == pytest.approx(peak_of(path), rel=0.02)
    said = "`teacher`, which train.py:29 makes, is another model: its 4.5 MiB of parameters are counted with buffers"
    assert any(text.startswith(said) for text in told.assumptions)


def test_of_the_models_of_a_script_the_trained_one_is_probed_and_never_its_loss(tmp_path: Path) -> None:
    text = script("frozen = nn.Linear(256, 256)", "model = make()", ADAMW).replace(
        "def main",
        "def make():\n    return nn.Sequential(nn.Linear(256, 300), nn.ReLU(), nn.Linear(300, 7))\n\ndef main",
        1,
    )
    start, end = text.index("class Net"), text.index("def make")
    told = probed(write(tmp_path, text[:start] + text[end:]))
    assert told.by_category["parameters"] == (256 * 300 + 300 + 300 * 7 + 7) * 4


def test_a_name_that_hides_a_builtin_is_the_script_s_own(tmp_path: Path) -> None:
    text = script(MADE, "if compile:\n    model.body.requires_grad_(False)", ADAMW)
    path = write(tmp_path, text.replace("class Rows", "compile = False\n\nclass Rows", 1))
    assert not any("is changed as the script" in said for said in probed(path).assumptions)


def test_a_moving_average_and_late_clearing_are_said_with_their_lines(tmp_path: Path) -> None:
    late = LOOPS["clearing late"].replace("    loss_of", "    ema = copy.deepcopy(model)\n    loss_of", 1)
    told = probed(write(tmp_path, script(MADE, ADAMW, loop=late))).assumptions
    assert "a copy of the model is counted with its buffers, as train.py:29 keeps one" in told
    assert "the gradients of the last step are there during forward: train.py:34 clears them after it" in told


def test_a_script_that_changes_its_parameters_by_hand_has_no_optimizer(tmp_path: Path) -> None:
    by_hand = (
        "        for p in model.parameters():\n            p.data.add_(p.grad, alpha=-0.1)\n        model.zero_grad()\n"
    )
    path = write(tmp_path, script(MADE, loop=LOOP.replace(STEP, by_hand)))
    told = probed(path)
    assert told.allocated_bytes == pytest.approx(peak_of(path), rel=0.02)
    assert any(text.startswith("no optimizer is counted: train.py:") for text in told.assumptions)
