"""Small PNG files: 255 colours are enough for a picture of a page."""

import struct
import zlib
from base64 import b64decode

from selenium.webdriver import Chrome

_QUANTIZE = """
const done = arguments[arguments.length - 1];
const image = new Image();
image.onload = () => {
  const {width, height} = image;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 255).map(([pixel]) => pixel);
  const part = (pixel, at) => (pixel >>> at) & 255;
  const distance = (a, b) => [0, 8, 16].reduce((sum, at) => sum + (part(a, at) - part(b, at)) ** 2, 0);
  const nearest = new Map(palette.map((pixel, index) => [pixel, index]));
  for (const pixel of counts.keys()) {
    if (nearest.has(pixel)) continue;
    let best = 0;
    palette.forEach((each, index) => { if (distance(each, pixel) < distance(palette[best], pixel)) best = index; });
    nearest.set(pixel, best);
  }
  let indices = "";
  for (const pixel of pixels) indices += String.fromCharCode(nearest.get(pixel));
  done([width, height, palette.map((pixel) => [part(pixel, 0), part(pixel, 8), part(pixel, 16)]), btoa(indices)]);
};
image.src = "data:image/png;base64," + arguments[0];
"""


def screenshot(driver: Chrome) -> bytes:
    """What the browser shows now."""
    width, height, palette, indices = driver.execute_async_script(_QUANTIZE, driver.get_screenshot_as_base64())
    pixels = b64decode(indices)
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = bytes(part for colour in palette for part in colour)
    chunks = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
