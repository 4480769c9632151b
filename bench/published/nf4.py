"""The size and the steps of bitsandbytes' 4-bit layers, without bitsandbytes: half a byte a weight, an fp32 scale for
each 64, and the whole weight again while a product needs it (bitsandbytes/autograd/_functions.py, MatMul4Bit)."""

from __future__ import annotations

import torch
from torch import nn


class Linear4bit(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        count = linear.weight.numel()
        self.packed = nn.Parameter(torch.empty((count + 1) // 2, 1, dtype=torch.uint8), requires_grad=False)
        self.register_buffer("scales", torch.empty((count + 63) // 64))
        self.register_buffer("code", torch.empty(16))
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().float(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.to(torch.float16)
        bias = None if self.bias is None else self.bias.to(torch.float16)
        out = Product.apply(half, self.packed, self.out_features, self.in_features, bias)
        return out.to(x.dtype)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, rows, columns, bias):
        ctx.save_for_backward(packed)
        ctx.shape = rows, columns
        return nn.functional.linear(x, whole(packed, rows, columns), bias)

    @staticmethod
    def backward(ctx, gradient):
        (packed,) = ctx.saved_tensors
        return torch.matmul(gradient, whole(packed, *ctx.shape)), None, None, None, None


def whole(packed: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    return torch.empty(rows, columns, dtype=torch.float16, device=packed.device)


def quantised(model: nn.Module) -> nn.Module:
    """Linear layers but the head in four bits, the rest in fp32, as `prepare_model_for_kbit_training` leaves them."""
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and not name.endswith(("lm_head", "score", "classifier")):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], Linear4bit(module))
    wide: dict[int, nn.Parameter] = {}  # shared weights stay shared
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.dtype == torch.float16:
                if id(parameter) not in wide:
                    wide[id(parameter)] = nn.Parameter(parameter.detach().float(), requires_grad=False)
                module._parameters[name] = wide[id(parameter)]
    return model
