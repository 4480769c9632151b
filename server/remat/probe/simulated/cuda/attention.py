"""`scaled_dot_product_attention` as CUDA would choose its kernel.

Source: ATen/native/transformers/cuda/sdp_utils.cpp (`use_flash_attention`, `use_mem_efficient_attention`),
transformers/attention.cpp (padding, masks). Holds for torch 2.2 to 2.13 as far as memory goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from remat.probe.simulated.cuda.architecture import Capability

_aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)


def attention_for(generation: Capability) -> object:
    """The kernel of `aten::scaled_dot_product_attention` on a GPU of this generation."""

    def attend(  # noqa: PLR0913 -- torch's signature
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # noqa: FBT001, FBT002 -- torch's signature
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        if _flash_fits(generation, query, key, value, attn_mask):
            return _flash(query, key, value, dropout_p, is_causal=is_causal, scale=scale)
        if _efficient_fits(generation, query, key, value, attn_mask, enable_gqa=enable_gqa):
            mask = _bias(attn_mask, query, key)
            return _efficient(query, key, value, mask, dropout_p, is_causal=is_causal, scale=scale)
        more = {"enable_gqa": enable_gqa} if enable_gqa else {}
        return _aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, **more
        )[0]

    return attend


def _flash_fits(
    generation: Capability, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> bool:
    return (
        torch.backends.cuda.flash_sdp_enabled()
        and generation >= (8, 0)
        and mask is None
        and query.dim() == 4
        and query.dtype in _HALF
        and query.dtype == key.dtype == value.dtype
        and query.size(-1) == key.size(-1) == value.size(-1) <= 256
        and key.size(-2) > 0
    )


def _efficient_fits(
    generation: Capability,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    enable_gqa: bool,
) -> bool:
    """Rows must be whole 16-byte loads; bf16 needs Ampere; grouped heads are for flash and math only."""
    vector = 16 // query.element_size() if query.dtype in _HALF or generation >= (8, 0) else 1
    return (
        torch.backends.cuda.mem_efficient_sdp_enabled()
        and query.dim() == 4
        and not (enable_gqa and query.size(-3) != key.size(-3))
        and query.dtype in (*_HALF, torch.float32)
        and not (query.dtype == torch.bfloat16 and generation < (8, 0))
        and query.dtype == key.dtype == value.dtype
        and query.size(-1) == key.size(-1)
        and query.size(-1) % vector == 0
        and value.size(-1) % vector == 0
        and not (mask is not None and mask.requires_grad)
    )


def _flash(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, *, is_causal: bool, scale: float | None
) -> torch.Tensor:
    width = query.size(-1)
    short = -width % 8
    if short:  # the kernel wants widths that are multiples of 8
        scale = width**-0.5 if scale is None else scale
        query, key, value = (functional.pad(part, (0, short)) for part in (query, key, value))
    out = _aten._scaled_dot_product_flash_attention(query, key, value, dropout, is_causal, scale=scale)[0]
    return out[..., :width] if short else out


def _efficient(  # noqa: PLR0913 -- those of the operator
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    dropout: float,
    *,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    keeps = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    return _aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, keeps, dropout, is_causal, scale=scale
    )[0]


def _bias(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """A boolean mask becomes numbers; rows are padded to 16 values; then it is spread over the heads, which is free."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=query.dtype)
        mask = torch.where(mask, zero, torch.full((), float("-inf"), dtype=query.dtype))
    while mask.dim() < 4:
        mask = mask.unsqueeze(0)
    width = mask.size(-1)
    if width % 16:
        mask = functional.pad(mask, (0, -width % 16))[..., :width]
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
