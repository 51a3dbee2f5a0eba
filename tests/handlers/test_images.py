"""Pictures: what comes out of the door that Pillow has here."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import pytest
from PIL import Image

from sluice.handlers import images
from sluice.persistence.records import Part


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> str:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return base64.b64encode(out.getvalue()).decode()


def opened(part: Part) -> Image.Image:
    assert part.type == "image" and part.size == len(base64.b64decode(part.data))
    return Image.open(io.BytesIO(base64.b64decode(part.data)))


def header(width: int, height: int) -> str:
    """A PNG of a few bytes that claims any size."""
    chunks = b""
    for kind, body in [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b"x")]:
        chunks += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


@pytest.mark.requirement("attachments.image.normalised")
@pytest.mark.parametrize(
    ("kind", "mime_type"),
    [("PNG", "image/png"), ("GIF", "image/png"), ("WEBP", "image/png"), ("BMP", "image/png"), ("JPEG", "image/jpeg")],
)
def test_a_picture_is_written_anew_in_a_format_every_service_takes(kind: str, mime_type: str) -> None:
    (part,) = images.parts(encoded(Image.new("RGB", (5, 4), "red"), kind), "Image/X", "a")
    assert (part.mime_type, part.name, opened(part).size) == (mime_type, "a", (5, 4))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_every_mode_of_pixels_is_taken(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    (part,) = images.parts(encoded(Image.new(mode, (3, 3)), kind), "image/png", "")
    assert opened(part).mode in ("RGB", "RGBA", "L")


def test_sixteen_bits_of_grey_become_eight() -> None:
    (part,) = images.parts(encoded(Image.new("I;16", (1, 1), 0x8000)), "image/png", "")
    assert opened(part).getpixel((0, 0)) == 0x80


@pytest.mark.requirement("attachments.image.normalised")
def test_a_picture_is_turned_as_its_exif_says_and_the_exif_stays_behind() -> None:
    image = Image.new("RGB", (4, 2), "red")
    image.paste((0, 0, 255), (0, 0, 2, 2))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    exif[0x010F] = "somebody's camera"
    (part,) = images.parts(encoded(image, "PNG", exif=exif), "image/png", "")
    found = opened(part)
    assert found.size == (2, 4) and not found.getexif()
    assert found.convert("RGB").getpixel((0, 0)) == (0, 0, 255)
    assert b"camera" not in base64.b64decode(part.data)


@pytest.mark.requirement("attachments.image.normalised")
def test_a_resize_tells_how_coordinates_are_mapped() -> None:
    part, told = images.parts(encoded(Image.new("L", (9000, 200))), "image/png", "")
    assert opened(part).size == (2000, 44)
    assert told.notice and "9000x200" in told.text and "2000x44" in told.text
    assert "x by 4.500" in told.text and "y by 4.545" in told.text


def test_a_picture_that_stays_large_is_made_smaller_until_it_fits() -> None:
    noise = Image.effect_noise((1900, 1900), 90).convert("RGB")
    part, *told = images.parts(encoded(noise), "image/png", "")
    assert part.size <= images.MAX_ENCODED and part.mime_type == "image/jpeg"
    assert bool(told) == (opened(part).size != (1900, 1900))


@pytest.mark.requirement("attachments.limits.per-item")
def test_the_number_of_pixels_is_judged_at_and_above_the_limit_before_anything_is_decoded() -> None:
    part, _ = images.parts(encoded(Image.new("1", (4000, 4000))), "image/png", "")
    assert part.type == "image"
    for width, height in [(4000, 4001), (20000, 20000), (2**31 - 1, 2**31 - 1)]:
        (told,) = images.parts(header(width, height), "image/png", "big.png")
        assert told.notice and told.text == "[Image left out: big.png: it has more than 16 million pixels]"


@pytest.mark.requirement("attachments.limits.notice")
@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        ("%%%", "image/png"),
        ("", "image/png"),
        (base64.b64encode(b"text").decode(), "image/png"),
        (encoded(Image.effect_noise((50, 50), 9))[:800], "image/png"),
        (header(5, 5), "image/png"),
        (encoded(Image.new("L", (1, 1))), "text/plain"),
        (encoded(Image.new("L", (1, 1)), "TIFF"), "image/tiff"),
    ],
)
def test_what_is_no_picture_becomes_a_notice(data: str, mime_type: str) -> None:
    (part,) = images.parts(data, mime_type, "")
    assert part.notice and part.text.startswith("[Image left out: it") and len(part.text) < 80
