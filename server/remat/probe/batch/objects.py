"""What a detector is told of the objects in a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.probe.batch.shapes import Shape

if TYPE_CHECKING:
    from torch import nn

OBJECTS = 10  # in a picture


def objects(model: nn.Module, height: int, width: int) -> list[tuple[tuple[str, Shape], ...]]:
    """Return what is known of the objects in a picture: where they are, then also their outlines, or their joints."""
    boxes = (("boxes", Shape((OBJECTS, 4), "box")), ("labels", Shape((OBJECTS,), "int", 2)))
    roi = getattr(model, "roi_heads", None)
    joints = getattr(getattr(roi, "keypoint_predictor", None), "out_channels", None)
    if joints is not None:
        return [(*boxes, ("keypoints", Shape((OBJECTS, joints, 3))))]
    outlines = ("masks", Shape((OBJECTS, height, width), "int", 2))
    return [(*boxes, outlines)] if getattr(roi, "mask_predictor", None) is not None else [boxes]
