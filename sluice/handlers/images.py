"""Pictures in a prompt: checked, turned upright, brought to a size that model services take.

Requirement `attachments.image.normalised`. A picture is always written anew, so that nothing but pixels goes on: no
place and time in EXIF, no second file behind the first. The number of pixels is read off the header before anything
is decoded. Pillow is loaded with the first picture.
"""

from __future__ import annotations

import base64
import io
import logging
from typing import TYPE_CHECKING

from sluice.handlers.attachments import Unusable, decoded, left_out, notice
from sluice.persistence.records import Part

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MAX_ENCODED", "MAX_PIXELS", "MAX_SIDE", "parts"]

log = logging.getLogger(__name__)

MAX_PIXELS = 16_000_000
"""Width times height of a picture that is decoded (attachments.limits.per-item)."""

MAX_SIDE = 2000
"""Pixels. Services refuse requests with many pictures when one is larger, and each later turn sends it again."""

MAX_ENCODED = 3_750_000
"""Bytes of a picture as it goes out: 5 MB as base64, the smallest limit among the services."""

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
"""What is decoded; each further format is a further parser that reads what strangers wrote."""


def parts(data: str, mime_type: str, name: str) -> tuple[Part, ...]:
    """The picture, and a note on coordinates when its size was changed; or a notice. Blocking.

    Args:
        data: base64.
        mime_type: as the client gave it; what the bytes say counts more.
        name: a label, "" for none.
    """
    try:
        if not mime_type.strip().lower().startswith("image/"):
            raise Unusable("its type is not that of a picture")
        return _normalised(decoded(data), name)
    except Unusable as error:
        return (left_out("Image", name, str(error)),)


def _normalised(found: bytes, name: str) -> tuple[Part, ...]:
    image, lossy = _upright(found)
    before = image.size
    if max(before) > MAX_SIDE:
        image = _fitted(image, MAX_SIDE)
    written, mime_type = _written(image, lossy)
    while len(written) > MAX_ENCODED:
        image = _fitted(image, max(image.size) * 3 // 4)
        written, mime_type = _written(image, True)
    picture = Part("image", "", base64.b64encode(written).decode(), mime_type, name, len(written))
    if image.size == before:
        return (picture,)
    (width, height), (old_width, old_height) = image.size, before
    told = (
        f"[The image was resized from {old_width}x{old_height} to {width}x{height} pixels. Multiply x by "
        f"{old_width / width:.3f} and y by {old_height / height:.3f} for coordinates in the original.]"
    )
    return picture, notice(told)


def _upright(found: bytes) -> tuple[Image, bool]:
    """The decoded first frame, turned as EXIF says, in RGB, RGBA or L; and whether it came from a lossy format.

    Raises:
        Unusable: it is no picture, too large, or cut short.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(found), formats=_FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise Unusable(f"it has more than {MAX_PIXELS // 1_000_000} million pixels")
            lossy = opened.format == "JPEG"
            opened.load()
            turned = ImageOps.exif_transpose(opened)
            return _plain(turned), lossy
    except Unusable:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise Unusable(f"it has more than {MAX_PIXELS // 1_000_000} million pixels") from error
    except Exception as error:
        # Decoders raise whatever a broken file leads them to: OSError, SyntaxError, struct.error, ValueError, ...
        log.info("an attached picture cannot be decoded: %s", type(error).__name__)
        raise Unusable("it is no picture that can be read") from error


def _plain(image: Image) -> Image:
    """The same in RGB, RGBA or L."""
    if image.mode.startswith("I"):
        # Sixteen bits of grey; a plain conversion would cut all values off at 255.
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode in ("RGB", "RGBA", "L"):
        return image.copy()
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _fitted(image: Image, side: int) -> Image:
    from PIL.Image import Resampling

    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Resampling.LANCZOS)


def _written(image: Image, lossy: bool) -> tuple[bytes, str]:
    from PIL import Image

    out = io.BytesIO()
    if not lossy:
        # Only pixels: what the file said besides (comments, profiles, EXIF) hangs on `info`.
        image.info = {}
        image.save(out, "PNG")
        return out.getvalue(), "image/png"
    if image.mode == "RGBA":
        ground = Image.new("RGB", image.size, "white")
        ground.paste(image, mask=image.getchannel("A"))
        image = ground
    image.save(out, "JPEG", quality=90, exif=b"")
    return out.getvalue(), "image/jpeg"
