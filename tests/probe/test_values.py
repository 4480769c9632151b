"""What a forward asks of its tensors' values is answered with what is likely, and said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asking import failure, result, warm, write
from nets import HEAD, inputs, net

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


def test_distributions_are_not_asked_whether_their_parameters_are_valid(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "x",
        ["self.scale = nn.Linear(8, 8)"],
        ["return -torch.distributions.Normal(x, self.scale(x).exp()).log_prob(x).mean()"],
    )
    assert "x: float[batch, 8]" in inputs(ask, tmp_path, "distributed", body)


@pytest.mark.parametrize("first", [True, False])
def test_packed_sequences_are_taken_to_be_full(tmp_path: Path, ask: Ask, first: bool) -> None:  # noqa: FBT001
    body = f"""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    # remat: probe(inputs={{"x": torch.randint(0, 50, (batch, 12)), "lengths": torch.full((batch,), 12)}})
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 8)
            self.cell = nn.GRU(8, 16, batch_first={first}, bidirectional=True)
            self.last = nn.Linear(32, 3)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(self.words(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
            out, state = self.cell(packed)
            out, lengths = pad_packed_sequence(out, batch_first=True)
            return self.last(out[:, :, :]) + self.last(packed.data.new_zeros(32))
    """
    said = inputs(ask, tmp_path, f"packed_{first}", body)
    assert "sequences that are packed all have the full length" in said


def test_a_question_about_values_while_a_model_is_made_is_answered_and_said(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "x: Tensor, start: int",
        [
            "weight = torch.linalg.qr(torch.randn(8, 8))[0]",
            "if torch.det(weight) < 0:",
            "    weight = -weight",
            "self.weight = nn.Parameter(weight)",
        ],
        ["return nn.functional.linear(x[:, start:], self.weight)"],
    )
    said = inputs(ask, tmp_path, "turned_net", body)
    assert "start: 0" in said
    assert "while the model is made, a value read from a tensor" in said


def test_arrays_of_values_and_groups_of_processes_are_there_and_said(tmp_path: Path, ask: Ask) -> None:
    body = """
    import numpy as np
    import torch.distributed as dist

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 8)
            self.rnn = nn.LSTM(8, 16, batch_first=True)

        def forward(self, tokens, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), lengths.numpy(), batch_first=True)
            out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            parts = [torch.empty_like(out) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, out)
            drawn = torch.from_numpy(np.asarray(tokens.cpu().numpy())).float()
            return out.sum() + torch.cat(parts).sum() + drawn.sum()
    """
    for name in ("gathers", "gathers_again"):
        said = inputs(ask, tmp_path, name, body)
        assert "(.numpy()) are taken to be 1" in said
        assert "one process is pretended" in said


@pytest.mark.parametrize("way", ["where", "any", "one_hot", "counted"])
def test_each_expert_of_a_mixture_is_given_its_share_of_the_tokens(tmp_path: Path, ask: Ask, way: str) -> None:
    picks = {
        "where": "rows, _ = torch.where(chosen == i)",
        "any": "rows = (chosen == i).any(-1)\n                    if not rows.any():\n                        continue",
        "one_hot": "rows = torch.nonzero(masks[i])[:, 1]",
        "counted": "if counts[i] == 0: continue\n                    rows, _ = torch.where(chosen == i)",
    }
    body = net(
        "tokens",
        [
            "self.embedding = nn.Embedding(100, 64)",
            "self.gate = nn.Linear(64, 8)",
            "self.top_k = 2",
            "self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))",
        ],
        [
            "x = self.embedding(tokens).view(-1, 64)",
            "chosen = self.gate(x).topk(self.top_k).indices",
            "masks = nn.functional.one_hot(chosen, 8).permute(2, 1, 0)",
            "counts = torch.bincount(chosen.flatten(), minlength=8).tolist()",
            "out = torch.zeros_like(x)",
            "for i, expert in enumerate(self.experts):",
            f"        {picks[way]}",
            "        out[rows] += expert(x[rows])",
            "return out",
        ],
    )
    said = inputs(ask, tmp_path, f"mixture_{way}", body)
    assert "64 of " in said  # of 256 tokens, two choices each
    assert "one of the 8 turns of the loop" in said
    assert "taken to be False" not in said


def test_lengths_that_are_given_decide_on_sizes(tmp_path: Path, ask: Ask) -> None:
    body = """
    # remat: probe(inputs={"tokens": torch.randint(0, 100, (batch, 50)), "lengths": torch.full((batch,), 50)}, batch=2)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 8)

        def forward(self, tokens, lengths):
            longest = int(lengths.data.max())
            mask = torch.arange(longest) < lengths.unsqueeze(1)
            return (self.embedding(tokens) * mask[..., None]).sum()
    """
    assert "taken to be" not in inputs(ask, tmp_path, "lengths_given", body)
    guessed = body.replace("# remat", "# ")
    assert "lengths: length[batch]" in inputs(ask, tmp_path, "lengths_guessed", guessed)


def test_a_forward_without_gradients_is_said_to_be_one(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        @torch.inference_mode()
        def forward(self, x):
            return self.linear(x)
    """
    write(tmp_path, inference=HEAD + body)
    found = failure(ask(tmp_path, "inference.py:Net"))
    assert found.missing is not None
    assert "runs without gradients" in found.message
    assert "inference.py:11" in found.message


def test_linear_layers_that_users_write_tell_a_width_and_least_squares_a_shape(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Spline(nn.Module):
        def __init__(self, in_features, out_features):
            super().__init__()
            self.in_features = in_features
            fitted = torch.linalg.lstsq(torch.randn(in_features, 12, 5), torch.randn(in_features, 12, out_features))
            self.weight = nn.Parameter(fitted.solution.sum(1))

        def forward(self, x):
            assert x.size(-1) == self.in_features
            return x @ self.weight

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Spline(48, 16), Spline(16, 3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    """
    said = inputs(ask, tmp_path, "splines", body)
    assert "x: float[batch, 48]" in said
    assert "least squares are taken to have a solution" in said


def test_a_method_that_a_step_calls_instead_of_forward_is_named_by_a_line(tmp_path: Path, ask: Ask) -> None:
    body = """
    {line}
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Linear(4, 2)
            self.critic = nn.Linear(4, 1)

        def value(self, x):
            return self.critic(x)

        def act(self, x, action=None):
            return self.actor(x).log_softmax(-1).sum() + self.critic(x).sum()
    """
    write(tmp_path, no_forward=HEAD + body.format(line="#"))
    asked = failure(ask(tmp_path, "no_forward.py:Net"))
    assert asked.missing is not None
    assert '# remat: probe(call="act"), or value; ' in asked.missing.how
    assert "x: float[batch, 4]" in inputs(ask, tmp_path, "acts", body.format(line='# remat: probe(call="act")'))
    write(tmp_path, other=HEAD + body.format(line='# remat: probe(call="step")'))
    asked = failure(ask(tmp_path, "other.py:Net"))
    assert asked.missing is not None
    assert asked.missing.how == "it has act, value"


def test_experts_that_a_mask_of_them_names_are_each_run(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "tokens",
        [
            "self.embedding = nn.Embedding(100, 64)",
            "self.gate = nn.Linear(64, 4)",
            "self.top_k = 2",
            'self.experts = nn.ModuleDict({f"expert_{i}": nn.Linear(64, 64) for i in range(4)})',
        ],
        [
            "x = self.embedding(tokens).view(-1, 64)",
            "masks = nn.functional.one_hot(self.gate(x).topk(self.top_k).indices, 4).permute(2, 1, 0)",
            "out = torch.zeros_like(x)",
            "hit = torch.greater(masks.sum((-1, -2)), 0).nonzero().squeeze(1)",
            "for number in hit:",
            "    _, rows = torch.where(masks[number])",
            '    out = out.index_add(0, rows, self.experts[f"expert_{number}"](x[rows]))',
            "return out",
        ],
    )
    write(tmp_path, named_experts=HEAD + body)
    found = result(ask(tmp_path, "named_experts.py:Net", checkpointing="none"))
    assert "as one of the 4 turns of the loop" in str(found.assumptions)
    assert "128 of 512" in str(found.assumptions)  # of 256 tokens, two choices each
    weights = 100 * 64 + 4 * (64 * 64 + 64)
    assert found.by_category["optimizer"] >= 8 * weights  # every expert has a gradient


def test_parts_whose_sizes_only_data_tells_are_even(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "x",
        ["self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))"],
        [
            "counts = (x > 0).sum(0)[:3].tolist()",
            "parts = torch.split(x, counts, dim=0)",
            "return torch.cat([expert(part) for expert, part in zip(self.experts, parts)])",
        ],
    )
    assert "3 parts whose sizes only data tells are taken to be even" in inputs(ask, tmp_path, "split", body)


@pytest.mark.parametrize(
    "check",
    ["assert (out == x).all() and torch.equal(x, x)", "if not (out == x).all():\n                raise ValueError"],
)
def test_what_a_forward_asserts_is_so(tmp_path: Path, ask: Ask, check: str) -> None:
    body = net("x", ["self.linear = nn.Linear(8, 8)"], ["out = self.linear(x)", check, "return out"])
    assert "is taken to be True" in inputs(ask, tmp_path, f"asserts_{len(check)}", body)


def test_the_class_of_tensors_stands_for_the_default_type(tmp_path: Path, ask: Ask) -> None:
    steps = ["priors = torch.ones(8, dtype=torch.int64).type(type(x.data))", "return self.linear(x) * priors"]
    assert "x: float[batch, 8]" in inputs(ask, tmp_path, "typed", net("x", ["self.linear = nn.Linear(8, 8)"], steps))


def test_what_a_loop_over_experts_is_asked_keeps_no_tensor_of_its_function(tmp_path: Path, ask: Ask) -> None:
    """Before Python 3.13 a frame that is asked for its locals keeps them until its function ends."""
    body = net(
        "x",
        ["self.gate = nn.Linear(64, 4)", "self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))"],
        [
            "big = torch.zeros(4096, 1024)",
            "chosen = self.gate(x).argmax(-1)",
            "out = torch.zeros_like(x)",
            "for i, expert in enumerate(self.experts):",
            "    rows = (chosen == i).nonzero()[:, 0]",
            "    if rows.numel() > 0:",
            "        out[rows] += expert(x[rows])",
            "big = None",
            "more = torch.zeros(4096, 1024)",
            "return out",
        ],
    )
    write(tmp_path, kept_locals=HEAD + body)
    found = result(ask(tmp_path, "kept_locals.py:Net", checkpointing="none", batch=16))
    assert found.allocated_bytes - found.by_category["workspaces"] < 1.5 * 4096 * 1024 * 4


def test_split_takes_its_size_by_name(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "x",
        ["self.layer = nn.Linear(64, 64)"],
        ["first, _ = self.layer(x).split(split_size=32, dim=-1)", "return first"],
    )
    assert "x: float[batch, 64]" in inputs(ask, tmp_path, "named_split", body)
