/** A training project whose run fails with a genuine traceback, without torch: what stands for it raises as torch does. */

const LIBRARY = ".venv/lib/python3.11/site-packages";

/** The loss has no graph: reentrant checkpointing of a layer whose inputs need no gradient. The repair is safe. */
export const TRAIN = `\
from torch import nn, ones
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu()


block = Block()


def step(x):
    return checkpoint(block, x).sum()


loss = step(ones(2, 8))
loss.backward()
`;

export const CALL = "checkpoint(block, x)";
export const REPAIRED = TRAIN.replace(CALL, "checkpoint(block, x, use_reentrant=False)");
export const RUN = "python3 train.py";

const TORCH = {
  "__init__.py": `
from torch import autograd


class Tensor:
    def __init__(self, has_graph=False):
        self.has_graph = has_graph

    def sum(self):
        return self

    def relu(self):
        return self

    def backward(self):
        autograd.backward(self)


def ones(*shape):
    return Tensor()
`,
  "nn.py": `
import torch


class Module:
    def __call__(self, *args):
        return self.forward(*args)


class Linear(Module):
    def __init__(self, *sizes):
        pass

    def forward(self, x):
        return torch.Tensor(has_graph=True)
`,
  "autograd/__init__.py": `
from torch.autograd.graph import _engine_run_backward


def backward(tensor):
    _engine_run_backward(tensor)
`,
  "autograd/graph.py": `
def _engine_run_backward(tensor):
    if not tensor.has_graph:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
`,
  "utils/checkpoint.py": `
import warnings


def check_backward_validity(inputs):
    warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def checkpoint(function, *args, use_reentrant=True):
    if use_reentrant:
        check_backward_validity(args)
    result = function(*args)
    result.has_graph = result.has_graph and not use_reentrant
    return result
`,
};

/** The project's files; `python3 train.py` in it fails until the call says \`use_reentrant=False\`. */
export const FAILING = {
  "train.py": TRAIN,
  [`${LIBRARY}/torch-2.8.0.dist-info/METADATA`]: "Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n",
  ...Object.fromEntries(Object.entries(TORCH).map(([name, text]) => [`${LIBRARY}/torch/${name}`, text.trimStart()])),
};

/** What makes a terminal find the library above, and its rows readable. */
export const IN_TERMINAL = {
  "terminal.integrated.env.linux": { PYTHONPATH: "${workspaceFolder}/.venv/lib/python3.11/site-packages", PS1: "$ " },
};
