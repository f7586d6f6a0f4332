"""What AIPerf's loader and Harbor's models make of exports: the work of real agents, of the demo
and of the corpus.

Both come from PyPI, AIPerf with 1.2 GB, so this is slow.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.exports.test_workloads import delegated
from tests.support.corpus import DATA, ROOT, corpus_files
from tests.support.server import run
from tools.real_clients import installing

AIPERF = ("aiperf==0.13.0",)
HARBOR = "harbor==0.26.0"
BLOCK_TOKENS = 256
STREAMS = 20
JUDGING_S = 300.0
LAST = "-claude-none"  # Claude Code, four turns

# A token is a byte, so that no vocabulary has to come from a network.
LOADS = """
import json, sys
from tokenizers import Tokenizer as Words, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
words = Words(models.BPE())
words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<s>"], show_progress=False)
words.train_from_iterator([], trainer)
folder, block_tokens, *files = sys.argv[1:]
PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="<s>").save_pretrained(folder)
from aiperf.common import random_generator
from aiperf.common.tokenizer import Tokenizer
from aiperf.dataset.generator.prompt import PromptGenerator
from aiperf.dataset.loader.mooncake_trace import MooncakeTraceDatasetLoader as Loader
random_generator.init(7)
tokenizer = Tokenizer.from_pretrained(folder)
generator = PromptGenerator(prompts=None, prefix_prompts=None, tokenizer=tokenizer)
for file in files:
    loader = Loader(filename=file, prompt_generator=generator, default_block_size=int(block_tokens))
    traces = loader.load_dataset()
    print(json.dumps([each.model_dump(exclude_none=True, exclude={"type"}) for each in sum(traces.values(), [])]))
# Prompts are made by processes of their own, which takes ten seconds a file: the last is that of a real agent.
for conversation in loader.convert_to_conversations(traces):
    for turn in conversation.turns:
        print(conversation.session_id, turn.delay, len(tokenizer.encode(turn.texts[0].contents[0])), sep="|")
"""

READS = """
import json, sys
from harbor.models.trajectories import Trajectory
for file in sys.argv[1:]:
    for line in open(file):
        assert Trajectory.model_validate_json(line).to_json_dict() == json.loads(line), file
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workloads")
    files = [*ROOT.glob("recorder/wire/dialects/*/demo.sse.jsonl"), *corpus_files()[:STREAMS]]
    for packed in (DATA / "cached_sessions").glob("*.jsonl.gz"):
        files.append(folder / packed.stem)
        files[-1].write_bytes(gzip.decompress(packed.read_bytes()))
    database = folder / "recorder.db"
    delegated(database)
    assert run(database, "import", *files).code == 0
    return database


def exported(log: Path, format: str, *options: str) -> list[Path]:
    """A file for each session that has answers of a model; the last is that of Claude Code."""
    paths: list[Path] = []
    for session in json.loads(run(log, "sessions", "--json", "--limit", "1000").out):
        ran = run(log, "export", session["session_id"], "--format", format, *options)
        assert ran.code in (0, 3), ran.err
        if ran.code == 0:
            paths.append(log.with_name(f"{len(paths)}-{session['name']}.{format}"))
            paths[-1].write_bytes(ran.out)
    return sorted(paths, key=lambda path: path.stem.endswith(LAST))


def output_of(*command: object, **variables: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=JUDGING_S,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(file: Path) -> list[dict[str, Any]]:
    """The lines of a trace, in the order of their sessions."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    names = list(dict.fromkeys(row["session_id"] for row in rows))
    return sorted(rows, key=lambda row: names.index(row["session_id"]))


@pytest.mark.slow
@pytest.mark.timeout(installing.INSTALL_S + JUDGING_S)
def test_aiperf_takes_each_trace_as_it_stands(log: Path, tmp_path: Path) -> None:
    installing.install(AIPERF)
    files = exported(log, "mooncake", "--block-size", str(BLOCK_TOKENS))
    assert len(files) > 20
    python = installing.folder(AIPERF) / "bin" / "python"
    printed = output_of(
        python, "-c", LOADS, tmp_path / "tokenizer", BLOCK_TOKENS, *files
    ).splitlines()
    for file, line in zip(files, printed, strict=False):
        assert json.loads(line) == rows_of(file), file
    prompts = printed[len(files) :]
    rows = rows_of(files[-1])
    assert prompts == [
        f"{row['session_id']}|{row.get('delay')}|{row['input_length']}" for row in rows
    ]
    assert len(rows) == 4


@pytest.mark.slow
def test_harbor_takes_each_trajectory_as_it_stands(log: Path, tmp_path: Path) -> None:
    """Its models need pydantic alone; the program itself wants a newer Python than some of those
    that we support.
    """
    fetching = (
        "--no-deps",
        "--python-version",
        "3.12",
        "--only-binary=:all:",
        "--quiet",
        "--dest",
        tmp_path,
    )
    output_of(sys.executable, "-m", "pip", "download", HARBOR, *fetching)
    [wheel] = tmp_path.glob("harbor-*.whl")
    files = exported(log, "atif")
    assert len(files) > 20
    output_of(sys.executable, "-c", READS, *files, PYTHONPATH=str(wheel))
