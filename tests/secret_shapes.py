"""One secret of every shape, made up: what tests plant and look for."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence

ALPHANUMERIC = string.ascii_letters + string.digits
URL_SAFE = ALPHANUMERIC + "-_"


def made(alphabet: str, size: int, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=size))


def pem(name: str, lines: int = 6, seed: int = 0) -> str:
    body = "\n".join(made(ALPHANUMERIC + "+/", 64, 10 * seed + line) for line in range(lines))
    return f"-----BEGIN {name}-----\n{body}\nAbC=\n-----END {name}-----"


def secrets_of(seed: int) -> dict[str, str]:
    """One of each shape, other ones for another seed."""
    return {
        "openai": "sk-" + made(ALPHANUMERIC, 48, seed),
        "openai project": "sk-proj-" + made(URL_SAFE, 156, seed),
        "openai service": "sk-svcacct-" + made(URL_SAFE, 60, seed),
        "anthropic": "sk-ant-api03-" + made(URL_SAFE, 95, seed),
        "openrouter": "sk-or-v1-" + made("0123456789abcdef", 64, seed),
        "deepseek": "sk-" + made("0123456789abcdef", 32, seed),
        "google": "AIza" + made(URL_SAFE, 35, seed),
        "google oauth": "ya29." + made(URL_SAFE, 60, seed),
        "aws": "AKIA" + made(string.ascii_uppercase + string.digits, 16, seed),
        "aws temporary": "ASIA" + made(string.ascii_uppercase + string.digits, 16, seed),
        **{f"github {kind}": f"gh{kind}_" + made(ALPHANUMERIC, 36, seed) for kind in "opsru"},
        "github fine-grained": "github_pat_" + made(ALPHANUMERIC + "_", 82, seed),
        "gitlab": "glpat-" + made(URL_SAFE, 20, seed),
        **{f"slack {kind}": f"xox{kind}-1234567890-" + made(ALPHANUMERIC, 24, seed) for kind in "abprs"},
        "hugging face": "hf_" + made(string.ascii_letters, 34, seed),
        "xai": "xai-" + made(ALPHANUMERIC, 80, seed),
        "groq": "gsk_" + made(ALPHANUMERIC, 52, seed),
        "jwt": f"eyJ{made(URL_SAFE, 33, seed)}.eyJ{made(URL_SAFE, 60, seed)}.{made(URL_SAFE, 43, seed)}",
        "jwt unsigned": f"eyJhbGciOiJub25lIn0.eyJ{made(URL_SAFE, 20, seed)}.",
        "rsa key": pem("RSA PRIVATE KEY", seed=seed),
        "pkcs8 key": pem("PRIVATE KEY", seed=seed),
        "ssh key": pem("OPENSSH PRIVATE KEY", seed=seed),
    }


SECRETS = secrets_of(1)
PIECE = 12  # characters in a row that are a part of a secret


def pieces(secret: str) -> Sequence[str]:
    """What would be a part of it, however it is written."""
    lines = [line for line in re.split(r"[\n.]", secret) if len(line) >= PIECE and not line.startswith("-----")]
    return [line[at : at + PIECE] for line in lines for at in range(len(line) - PIECE + 1)] or [secret]
