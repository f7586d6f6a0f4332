"""One secret of every shape, made up: what tests plant and look for."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence

ALPHANUMERIC = string.ascii_letters + string.digits
URL_SAFE = ALPHANUMERIC + "-_"

HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + string.digits

ISSUED = (  # how a secret begins, and of what and how long the rest of it is, as the issuers document it
    *(("sk_live_", ALPHANUMERIC, 24), ("rk_live_", ALPHANUMERIC, 24), ("whsec_", ALPHANUMERIC, 32)),
    *(("npm_", ALPHANUMERIC, 36), ("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 100), ("rubygems_", HEX, 48)),
    *(("dckr_pat_", URL_SAFE, 27), ("hvs.", URL_SAFE, 90), ("xapp-1-A012B3CD4-", ALPHANUMERIC, 64)),
    *(("pplx-", ALPHANUMERIC, 48), ("r8_", ALPHANUMERIC, 37), ("fw_", ALPHANUMERIC, 24), ("csk-", HEX, 48)),
    *(("tgp_v1_", URL_SAFE, 43), ("nvapi-", URL_SAFE, 64), ("ABSKQmVkcm9ja0FQSUtleS", ALPHANUMERIC, 108)),
    *(("sk_", HEX, 48), ("jina_", ALPHANUMERIC, 60), ("pa-", ALPHANUMERIC, 43), ("pcsk_", ALPHANUMERIC, 70)),
    *(("tvly-dev-", ALPHANUMERIC, 32), ("fc-", HEX, 32), ("e2b_", HEX, 40)),
    *(("SK", HEX, 32), ("shpat_", HEX, 32), ("dop_v1_", HEX, 64), ("dapi", HEX, 32), ("cfut_", ALPHANUMERIC, 48)),
    *(("lin_api_", ALPHANUMERIC, 40), ("ntn_", ALPHANUMERIC, 46), ("secret_", ALPHANUMERIC, 43)),
    *(("sntrys_", ALPHANUMERIC, 64), ("sbp_", HEX, 40), ("sb_secret_", URL_SAFE, 31), ("figd_", URL_SAFE, 40)),
    *(("glsa_", ALPHANUMERIC, 41), ("NRAK-", CAPITALS, 27), ("PMAK-", HEX, 59), ("ATATT3", URL_SAFE, 180)),
    *(("pscale_tkn_", URL_SAFE, 43), ("GOCSPX-", URL_SAFE, 28), ("LTAI", ALPHANUMERIC, 20), ("glrt-", URL_SAFE, 20)),
    *(("ops_eyJ", ALPHANUMERIC, 250),),
)


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
        **{f"issuer of {begins}": begins + made(alphabet, size, seed) for begins, alphabet, size in ISSUED},
        "azure openai": made(ALPHANUMERIC, 52, seed) + "JQQJ99" + made(ALPHANUMERIC, 26, seed),
        "sendgrid": f"SG.{made(URL_SAFE, 22, seed)}.{made(URL_SAFE, 43, seed)}",
        "langfuse": "sk-lf-" + "-".join(made(HEX, size, seed + size) for size in (8, 4, 4, 4, 12)),
        "langsmith": f"lsv2_pt_{made(HEX, 32, seed)}_{made(HEX, 10, seed)}",
        "cloudflare origin": f"v1.0-{made(HEX, 24, seed)}-{made(HEX, 146, seed)}",
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
